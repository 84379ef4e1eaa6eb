"""Representations."""
