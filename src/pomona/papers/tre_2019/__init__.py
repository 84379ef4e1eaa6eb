"""Experiments that are not a Recipe: what the TRE paper trains, and what is measured of it."""

import pomona.papers.tre_2019.paper  # noqa: F401
