"""Pair."""
