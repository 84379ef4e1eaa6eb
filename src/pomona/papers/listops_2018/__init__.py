"""The ListOps paper: `recipes` says what is trained, `paper` measures the cells, `verdicts` judges the claims; `latent`
is a model of today that finds the trees."""

import pomona.papers.listops_2018.paper  # noqa: F401
