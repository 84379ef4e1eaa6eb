"""The fair NLI paper: `recipes` says what is trained, `search` chooses settings on dev, `paper` measures the cells."""

import pomona.papers.fair_nli_2019.paper  # noqa: F401
