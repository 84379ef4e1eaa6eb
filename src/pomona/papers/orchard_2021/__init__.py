"""The ORCHARD paper: `paper` has its rows, recipes and cells, `trends` the eight trends it describes."""

import pomona.papers.orchard_2021.paper  # noqa: F401
