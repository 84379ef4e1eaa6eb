"""What the TRE paper claims is judged by intervals; a stand-in for its pictures decides nothing."""

from __future__ import annotations

from typing import Any

import pytest

from pomona.papers.claims import NOT_REPRODUCED, REPRODUCED, UNDECIDED, Measured
from pomona.papers.tre_2019.verdicts import CLAIMS

DYNAMICS = ("dynamics", "exact", "r with entropy, before the best epoch")
COMPOUNDS = ("compounds", "CBOW, exact", "Spearman with judgement")


def verdict(says: str, place: tuple[str, str, str], low: float, high: float, **more: Any) -> str:
    where, row, column = place
    cell = {"where": where, "row": row, "column": column, "printed": 0.7, "measured": (low + high) / 2, "low": low,
            "high": high, "runs": 10, "budget": "cpu"}  # fmt: skip
    claim = next(claim for claim in CLAIMS if claim.says.startswith(says))
    return claim.judge(Measured({"cells": [cell], **more})).verdict


@pytest.mark.parametrize(
    ("says", "place", "low", "high", "found"),
    [
        ("TRE falls", COMPOUNDS, 0.6, 0.8, REPRODUCED),
        ("TRE falls", COMPOUNDS, 0.71, 0.8, NOT_REPRODUCED),
        ("TRE and the entropy", DYNAMICS, 0.6, 0.8, REPRODUCED),
        ("TRE and the entropy", DYNAMICS, 0.71, 0.8, UNDECIDED),
        ("TRE and the entropy", COMPOUNDS, 0.6, 0.8, UNDECIDED),  # another number
    ],
)
def test_an_interval_holds_the_printed_number_or_not(says, place, low, high, found):
    assert verdict(says, place, low, high) == found


@pytest.mark.parametrize(("low", "found"), [(0.1, REPRODUCED), (-0.1, NOT_REPRODUCED)])
def test_the_conclusion_needs_a_correlation_among_languages_that_say_equally_much(low, found):
    given = {"value": 0.3, "low": low, "high": 0.5}
    row = {"tre": "exact", "against": "generalisation error", "runs": "all runs", "given_information": given}
    more = {"game": {"code": {"correlations": [row]}}}
    assert verdict("so compositionality", COMPOUNDS, 0, 1, **more) == found
    assert verdict("so compositionality", COMPOUNDS, 0, 1) == UNDECIDED
