"""Verdicts: what is close is reproduced, what is still learning is not decided, and nothing is decided without runs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pomona.papers.claims import (
    NOT_REPRODUCED,
    REPRODUCED,
    UNDECIDED,
    Claim,
    Measured,
    command_for,
    counts,
    judged,
    number,
    sentence,
    shown,
)


def results(**cell: Any) -> dict[str, Any]:
    basic = {"where": "Table 1", "row": "A", "column": "test", "printed": 50.0, "measured": 50.0, "runs": 4,
             "budget": "cpu"}  # fmt: skip
    return {"cells": [{**basic, **cell}]}


def finding(*, within: float = 3.0, higher_counts: bool = False, **cell: Any) -> Any:
    judge = number("Table 1", "A", "test", within=within, higher_counts=higher_counts)
    return judge(Measured(results(**cell)))


@pytest.mark.parametrize(
    ("cell", "verdict"),
    [
        ({"measured": 47.5}, REPRODUCED),
        ({"measured": 46.5}, NOT_REPRODUCED),
        ({"measured": 56.5}, NOT_REPRODUCED),
        ({"measured": 46.5, "printed_interval": 1.0, "interval": [43.0, 50.0]}, REPRODUCED),
        ({"measured": 46.5, "printed_interval": 1.0, "interval": [44.0, 48.9]}, NOT_REPRODUCED),
        ({"measured": 56.5, "printed_interval": 1.0, "interval": [51.0, 62.0]}, REPRODUCED),
        ({"measured": 56.5, "printed_interval": 1.0, "interval": [51.1, 62.0]}, NOT_REPRODUCED),
        ({"measured": 46.5, "still_rising": 3}, UNDECIDED),
        ({"measured": 46.5, "still_rising": 2}, NOT_REPRODUCED),
        ({"measured": 46.5, "older_recipe": True}, UNDECIDED),
        ({"measured": 46.5, "runs": 1}, UNDECIDED),
        ({"measured": 47.5, "runs": 1}, REPRODUCED),
        ({"measured": None}, UNDECIDED),
        ({"budget": "smoke"}, UNDECIDED),
    ],
)
def test_a_number_is_judged(cell: dict[str, Any], verdict: str) -> None:
    assert finding(**cell).verdict == verdict


def test_a_higher_number_counts_where_a_paper_claims_success() -> None:
    assert finding(measured=60.0).verdict == NOT_REPRODUCED
    assert finding(measured=60.0, higher_counts=True).verdict == REPRODUCED
    assert finding(measured=40.0, higher_counts=True).verdict == NOT_REPRODUCED


def test_doubts_stand_in_the_reason() -> None:
    found = finding(measured=40.0, still_rising=4, older_recipe=True)
    assert found.reason == "The difference is -10.0; from an older recipe; dev was still rising in 4 of 4 runs."
    assert found.ours == "40.0, 4 runs"


@given(st.floats(0, 100), st.floats(0, 100), st.floats(0, 10))
def test_a_wider_tolerance_never_loses_a_claim(measured: float, printed: float, within: float) -> None:
    narrow, wide = (finding(measured=measured, printed=printed, within=more) for more in (within, within + 1))
    assert narrow.verdict != REPRODUCED or wide.verdict == REPRODUCED


def test_the_larger_budget_counts() -> None:
    both = {"cells": results(measured=1.0)["cells"] + results(measured=2.0, budget="paper")["cells"]}
    for some in (both, {"cells": both["cells"][::-1]}):
        assert Measured(some).value("Table 1", "A", "test") == 2.0


def test_claims_are_listed_with_their_commands() -> None:
    class Paper:
        name = "some_2026"
        claims = (
            Claim("A is 50", "Table 1", number("Table 1", "A", "test", within=1.0), "A"),
            Claim("B is 50", "first vectors", number("first vectors", "B", "test", within=1.0)),
        )

    rows = judged(Paper(), results())
    assert [row["verdict"] for row in rows] == [REPRODUCED, UNDECIDED]
    assert rows[0]["command"] == "pomona reproduce some_2026 --table 1 --row A"
    assert rows[1]["command"] == 'pomona reproduce some_2026 --experiment "first vectors"'
    assert counts(rows) == {REPRODUCED: ["A is 50"], NOT_REPRODUCED: [], UNDECIDED: ["B is 50"]}
    assert command_for("p", "Figure 5", "A b") == 'pomona reproduce p --figure 5 --row "A b"'


def test_numbers_and_sentences_are_written_for_a_reader() -> None:
    assert [shown(value) for value in (54.962, -0.34, 0.5, None, "5")] == ["55.0", "-0.34", "0.5", "", "5"]
    assert shown(1.25, sign=True) == "+1.25"
    assert sentence("One", "", "two.") == "One; two."
    assert sentence() == ""
