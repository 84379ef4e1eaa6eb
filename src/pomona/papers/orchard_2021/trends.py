"""The trends that the ORCHARD paper describes, T1 to T8, and how they are judged from the curves of our runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, variance
from typing import Any

import numpy as np

from pomona.evaluation.records import as_evaluation

FAMILIES = {"Figure 2": "min-max", "Figure 3": "first-last"}
DIFFICULTIES = ("easy", "medium", "hard")
MODELS = {"Figure 4": "LSTM", "Figure 5": "Transformer"}
QUESTIONS = ("first", "second", "both")
DEPTHS = tuple(range(3, 13))
TRAINED, BEYOND = DEPTHS[:4], DEPTHS[6:]  # 3 to 6; 9 to 12


@dataclass(frozen=True)
class Curve:
    """What the runs of a row scored: for each run, depth and question the number right, and the number of examples."""

    runs: tuple[dict[str, dict[str, Any]], ...]  # of each run the groups by nesting of its evaluation

    @classmethod
    def of(cls, evaluations: list[dict[str, Any]]) -> Curve:
        """Of evaluations that runs have kept, in any shape that scores.json has had."""
        return cls(tuple(as_evaluation(entry)["by"]["nesting"] for entry in evaluations))

    def shares(self, depth: int, question: str) -> list[float]:
        """The share right of each run."""
        return [_right(run[str(depth)], question) / run[str(depth)]["rows"] for run in self.runs]

    def counts(self, depth: int, question: str) -> tuple[int, int]:
        """How many are right, and of how many, over all runs; each has examples of its own."""
        groups = [run[str(depth)] for run in self.runs]
        return round(sum(_right(group, question) for group in groups)), sum(group["rows"] for group in groups)

    def mean(self, depths: tuple[int, ...], question: str) -> tuple[float, float]:
        """The mean share over depths and its variance: over examples or over runs, whichever is larger."""
        counts = [self.counts(depth, question) for depth in depths]
        shares = [(right + 1) / (of + 2) for right, of in counts]  # never 0 or 1, so the variance is honest
        drawn = fmean(share * (1 - share) / (of + 2) for share, (_, of) in zip(shares, counts, strict=True))
        means = [fmean(some) for some in zip(*(self.shares(depth, question) for depth in depths), strict=True)]
        trained = variance(means) / len(means) if len(means) > 1 else 0.0  # holds what examples leave, too
        return fmean(right / of for right, of in counts), max(drawn / len(depths), trained)


def _right(group: dict[str, Any], question: str) -> float:
    return float(group["right"] if question == "both" else group["questions"][QUESTIONS.index(question)])


# -- the trends ------------------------------------------------------------------------------------------------------

_GOOD, _CLEAR = 0.8, 0.1  # what "good" and "clearly" are taken to mean


def trends(curves: dict[str, Curve]) -> list[dict[str, Any]]:
    """T1 to T8 with every comparison they make: difference in percentage points, 95 % interval, yes, no or open.

    A comparison is "yes" if its whole interval is above 0, "no" if it is below, else "open"; both sides are taken as
    independent, which is on the safe side where they answer the same examples. A trend holds if all its comparisons do,
    fails if one is "no", and is open otherwise, or while a row has fewer than two runs: one does not tell what another
    training would have given.
    """
    judged = []
    for name, text, comparisons in _trends():
        cases = [_compared(curves, *comparison) for comparison in comparisons]
        verdicts = {case["verdict"] for case in cases}
        verdict = "fails" if "no" in verdicts else "holds" if verdicts == {"yes"} else "open"
        judged.append({"trend": name, "says": text, "verdict": verdict, "cases": cases})
    return judged


Side = tuple[str, tuple[int, ...], str]  # row, depths, question


def _trends() -> Iterator[tuple[str, str, list[tuple[Side, Side | None, float]]]]:
    hard = [(model, family) for model in MODELS.values() for family in FAMILIES.values()]
    every = [f"{model} {difficulty} {family}" for difficulty in DIFFICULTIES for model, family in hard]
    harder = [(difficulty, family) for difficulty in DIFFICULTIES[1:] for family in FAMILIES.values()]
    lstm, transformer = MODELS.values()
    yield (
        "T1",
        "both models are good at depths 3 to 6 (both trees right in 80 %)",
        [((row, TRAINED, "both"), None, _GOOD) for row in every],
    )
    yield (
        "T2",
        "clear drop beyond depth 7 (at 12 ten points below 6)",
        [((row, (6,), "both"), (row, (12,), "both"), _CLEAR) for row in every],
    )
    yield (
        "T3",
        "easy above medium above hard",
        [
            ((f"{model} {one} {family}", DEPTHS, "both"), (f"{model} {other} {family}", DEPTHS, "both"), 0.0)
            for model, family in hard
            for one, other in pairwise(DIFFICULTIES)
        ],
    )
    yield (
        "T4",
        "FIRST-LAST above MIN-MAX on medium and hard",
        [
            ((f"{model} {one} first-last", DEPTHS, "both"), (f"{model} {one} min-max", DEPTHS, "both"), 0.0)
            for model in MODELS.values()
            for one in DIFFICULTIES[1:]
        ],
    )
    yield (
        "T5",
        "Transformer above LSTM on medium and hard at depths 3 to 6",
        [
            ((f"{transformer} {one} {family}", TRAINED, "both"), (f"{lstm} {one} {family}", TRAINED, "both"), 0.0)
            for one, family in harder
        ],
    )
    yield (
        "T6",
        "LSTM far above Transformer from depth 9 (ten points)",
        [
            ((f"{lstm} {one} {family}", BEYOND, "both"), (f"{transformer} {one} {family}", BEYOND, "both"), _CLEAR)
            for one in DIFFICULTIES
            for family in FAMILIES.values()
        ],
    )
    yield (
        "T7",
        "on hard the second tree holds back both (ten points below the first at depth 12)",
        [
            ((f"{model} hard {family}", (12,), "first"), (f"{model} hard {family}", (12,), "second"), _CLEAR)
            for model, family in hard
        ],
    )
    yield "T8", "first tree at depth 12, hard: LSTM at least 85 %, at least ten points above the Transformer", [
        *(((f"{lstm} hard {family}", (12,), "first"), None, 0.85) for family in FAMILIES.values()),
        *(
            ((f"{lstm} hard {family}", (12,), "first"), (f"{transformer} hard {family}", (12,), "first"), _CLEAR)
            for family in FAMILIES.values()
        ),
    ]  # fmt: skip


def _compared(curves: dict[str, Curve], one: Side, other: Side | None, margin: float) -> dict[str, Any]:
    sides = [side for side in (one, other) if side is not None]
    about = {"above": _named(one), "below": None if other is None else _named(other), "margin": round(100 * margin, 1)}
    if any(row not in curves for row, _, _ in sides):
        return {**about, "difference": None, "interval": None, "verdict": "not run"}
    runs = min(len(curves[row].runs) for row, _, _ in sides)
    means = [curves[row].mean(depths, question) for row, depths, question in sides]
    difference = means[0][0] - margin - (means[1][0] if other is not None else 0.0)
    spread = 1.96 * float(np.sqrt(sum(variance for _, variance in means)))
    low, high = difference - spread, difference + spread
    return {
        **about,
        "difference": round(100 * difference, 2),
        "interval": [round(100 * low, 2), round(100 * high, 2)],
        "verdict": "one run" if runs < 2 else "yes" if low > 0 else "no" if high < 0 else "open",
    }


def _named(side: Side) -> str:
    row, depths, question = side
    return f"{row}, {question} at depth {depths[0]}" + (f" to {depths[-1]}" if len(depths) > 1 else "")
