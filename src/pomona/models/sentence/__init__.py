"""Sentence."""
