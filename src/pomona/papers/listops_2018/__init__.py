"""The ListOps paper: `recipes` says what is trained, `paper` measures the cells, `verdicts` judges the claims."""

import pomona.papers.listops_2018.paper  # noqa: F401
