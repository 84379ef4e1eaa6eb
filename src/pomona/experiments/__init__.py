"""Experiments that are not a Recipe: what the TRE paper trains, and what is measured of it."""
