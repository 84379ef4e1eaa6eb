"""Figure 4: one run of each model decides only what is clearer than the difference between seeds."""

from __future__ import annotations

import pytest

from pomona.papers.claims import NOT_REPRODUCED, REPRODUCED, UNDECIDED, Measured
from pomona.papers.listops_2018.verdicts import CLAIMS


@pytest.mark.parametrize(
    ("lstm", "latent", "rising", "verdict"),
    [
        (75.0, 66.0, 0, REPRODUCED),
        (75.0, 66.0, 1, UNDECIDED),
        (68.6, 66.2, 0, UNDECIDED),
        (66.0, 68.6, 0, UNDECIDED),
        (66.0, 75.0, 0, NOT_REPRODUCED),
    ],
)
def test_more_data_is_judged_by_what_seeds_differ(lstm: float, latent: float, rising: int, verdict: str) -> None:
    basic = {"where": "Figure 4", "printed": None, "runs": 1, "deviation": None, "budget": "cpu", "still_rising": 0}
    values = {"LSTM 128D": lstm, "RL-SPINN 128D": latent, "ST-Gumbel 128D": 59.0}
    cells = [{**basic, "row": row, "column": "accuracy from 990k", "measured": value} for row, value in values.items()]
    cells[1]["still_rising"] = rising
    seeds = {"row": "LSTM 128D", "column": "accuracy from 90k", "measured": 69.2, "runs": 4, "deviation": 3.8}
    claim = next(claim for claim in CLAIMS if claim.where == "Figure 4")
    assert claim.judge(Measured({"cells": [*cells, {**basic, **seeds}]})).verdict == verdict
