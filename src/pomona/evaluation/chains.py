"""Accuracy by the number of operators that decide the answer: does a model truncate, or does it fail in another way?

    evaluation.by("chain")             groups of examples, as by any other grouping
    evaluation.chains[0].groups        the same for the answers to one question, by the chain in its own tree
    evaluation.chains[0].sentence      falls: it truncates; flat: it does not; or these examples cannot tell

The *chain* of an answer are the operators, from the root down, that have to be applied one after the other to get it.
MAX passes on one of its arguments, so the chain goes on into that argument only; SM needs all of them, so it goes on
into the one with the longest chain of its own. A COPY leads on into the tree that it quotes, and is no operator itself.
Where several arguments would give the same answer, the shortest chain counts. `pomona.trees.operators.dependency` has
the definition. Of an example with several trees, the chain is the longest one.

A model that opens only the top levels is right on short chains and guesses on long ones, in trees of any depth. A model
that loses count of brackets fails in deep trees, whether the chain is long or short. So the trend is that of accuracy
over chains among examples alike in the other respects: a logistic regression on the length of the chain, with a
constant for each nesting depth, length and root operator. Chains of one operator are left out, because an answer in the
root's own list can be had without any nesting; they are looked at when there is no trend among the others.

    flat       the 95 % interval of the slope (by profile likelihood, in log-odds an operator) is inside +-0.25
    falls      it is below 0 and not inside
    rises      it is above 0 and not inside
    untold     else
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Bools, Floats, Ints
from pomona.data.corpus import Corpus
from pomona.data.groups import groups_of
from pomona.evaluation.accuracy import Group
from pomona.shortcuts.mixture import POINT
from pomona.shortcuts.verdicts import percent

MARGIN = 0.25  # log-odds for each operator; less is called flat. A fall from 80 to 40 % over 4 operators is 0.45.
FEW = 20  # groups with fewer answers are not quoted
HALF = 0.5  # of the answers right, or less, is seldom
VISIBLE = 0.1  # a fall in accuracy that the sentence explains
NEARLY = 0.99  # right answers
BESIDE = ("nesting", "length", "operator")  # what examples are alike in
SPREAD, WIDE = 5.0, 30.0  # standard deviations of the weak priors of the slope and of the constants


@dataclass(frozen=True)
class Chains:
    """The answers to one question in groups of equal chains, and how accuracy changes from group to group."""

    groups: tuple[Group, ...]
    trend: str  # "falls", "flat", "rises" or "untold"
    slope: float | None  # log-odds of a right answer for each further operator; None where nothing can be fitted
    interval: tuple[float, float] | None

    @cached_property
    def sentence(self) -> str:
        """What the trend means, in plain words."""
        one, short, long, name = self._ends()
        if short is None or long is None:
            return "too few examples have chains of different length to tell whether accuracy falls with them"
        ends = (
            f"{percent(short)} right where {_first(self._longer[0].name)} operators decide the answer, "
            f"{percent(long)} where {name} do"
        )
        if self.trend != "falls" and min(short, long, 1.0 if one is None else one) >= NEARLY:
            return f"{ends}: right however many operators decide"
        if max(short, long, one or 0.0) <= HALF:
            return f"{ends}: seldom right, however many operators decide"
        if one is not None and max(short, long) < min(HALF, one / 2):
            beyond = sum(group.right for group in self._longer) / sum(group.rows for group in self._longer)
            words = f"{percent(one)} right where 1 operator decides the answer, {percent(beyond)} where more do"
            return f"{words}: as in a model that truncates (opens too few levels)"
        return ends + self._reading(short - long)

    @property
    def _longer(self) -> list[Group]:
        return [group for group in self.groups if _first(group.name) >= 2]

    def _ends(self) -> tuple[float | None, float | None, float | None, str]:
        """Accuracy where one operator decides, for the shortest chain beyond, and for the longest ones together."""
        one = next((group.accuracy for group in self.groups if group.name == "1" and group.rows >= FEW), None)
        longer = self._longer
        tail, rows = 0, 0
        while rows < FEW and tail < len(longer) - 1:
            tail += 1
            rows += longer[-tail].rows
        if rows < FEW or longer[0].rows < FEW:
            return one, None, None, ""
        last = longer[-tail:]
        name = f"{_first(last[0].name)} or more" if tail > 1 or not last[0].name.isdigit() else last[0].name
        return one, longer[0].accuracy, sum(group.right for group in last) / rows, name

    def _reading(self, fall: float) -> str:
        alike = " among trees of equal depth, length and root operator"
        if self.trend == "falls":
            return ": accuracy falls with the number of operators, as in a model that truncates (opens too few levels)"
        if self.trend == "rises":
            return f": accuracy rises with the number of operators{alike}, so it does not truncate"
        if self.trend == "untold":
            return ": whether it truncates cannot be told from these examples"
        but = f", but{alike}" if abs(fall) > VISIBLE else ":"
        return (
            f"{but} their number makes little difference, so it does not truncate; its errors have another cause, for "
            "example losing count of brackets"
        )

    @property
    def details(self) -> str:
        """The numbers behind the sentence."""
        if self.slope is None or self.interval is None:
            return "no chains of two operators or more differ in length"
        low, high = self.interval
        return (
            f"slope over chains of two operators or more, among trees of equal depth, length and root operator: "
            f"{self.slope:+.3f} log-odds an operator (95 % interval {low:+.3f} to {high:+.3f}; flat inside +-{MARGIN})"
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "sentence": self.sentence,
            "trend": self.trend,
            "slope": None if self.slope is None else round(self.slope, 6),
            "interval": None if self.interval is None else [round(bound, 6) for bound in self.interval],
            "groups": {group.name: group.as_dict() for group in self.groups},
        }


def chains_of(corpus: Corpus, right: Bools, question: int, groups: tuple[Group, ...]) -> Chains:
    """The trend of right answers to one question; `groups` are these answers by the chain of the question's tree."""
    chain = corpus.tree_dependency[:, question].astype(np.int64)
    longer = np.flatnonzero(chain >= 2)
    if len(np.unique(chain[longer])) < 2:
        return Chains(groups, "untold", None, None)
    beside = [groups_of(corpus, field, question)[1][longer] for field in BESIDE]
    slope, low, high = trend(chain[longer], right[longer], beside)
    word = "untold"
    if low > -MARGIN and high < MARGIN:
        word = "flat"
    elif high < 0:
        word = "falls"
    elif low > 0:
        word = "rises"
    return Chains(groups, word, slope, (low, high))


def _first(name: str) -> int:
    """The least length in a group, which may be called 12, 10-14 or 100+."""
    digits = name.removeprefix("<").split("-")[0].removesuffix("+")
    return int(digits) if digits.isdecimal() and not name.startswith("<") else 0


# -- logistic regression -----------------------------------------------------------------------------------------------


class _Counts(NamedTuple):
    """Right answers and answers of each kind of example: its columns, and the amount whose slope is wanted."""

    amount: Floats
    columns: Floats
    right: Floats
    total: Floats


def trend(amounts: Ints, right: Bools, beside: Sequence[Ints]) -> tuple[float, float, float]:
    """The slope of the log-odds of a right answer over the amounts, with its 95 % profile interval.

    Each list of group numbers `beside` adds a constant for each of its groups.
    """
    kinds, numbers = np.unique(np.column_stack([amounts, *beside]), axis=0, return_inverse=True)
    numbers = numbers.ravel()
    dummies = [np.equal.outer(column, np.unique(column)[1:]).astype(np.float64) for column in kinds.T[1:]]
    counts = _Counts(
        kinds[:, 0] - float(amounts.mean()),
        np.column_stack([np.ones(len(kinds)), *dummies]),
        np.bincount(numbers, right, len(kinds)).astype(np.float64),
        np.bincount(numbers, minlength=len(kinds)).astype(np.float64),
    )
    everything = counts._replace(columns=np.column_stack([counts.columns, counts.amount]))
    prior = np.append(np.full(counts.columns.shape[1], WIDE), SPREAD) ** -2.0
    weights, best, curve = _fitted(everything, np.zeros(len(prior)), prior, np.zeros(len(kinds)))
    slope = float(weights[-1])
    error = float(np.sqrt(np.linalg.inv(curve)[-1, -1]))

    def fallen(tried: float) -> float:
        offset = tried * counts.amount
        _, value, _ = _fitted(counts, weights[:-1], prior[:-1], offset)
        return 2.0 * (best - value + 0.5 * float(prior[-1]) * tried**2) - POINT

    return slope, _end(fallen, slope, -error), _end(fallen, slope, error)


def _end(fallen: Callable[[float], float], slope: float, error: float) -> float:
    """Where the profile has fallen by its 95 % point, from the slope in the direction of the standard error."""
    inside, outside = slope, slope + 2.0 * error
    for _ in range(60):
        if fallen(outside) > 0:
            break
        inside, outside = outside, outside + 2.0 * (outside - slope)
    while abs(outside - inside) > 0.02 * abs(error):
        middle = 0.5 * (inside + outside)
        inside, outside = (inside, middle) if fallen(middle) > 0 else (middle, outside)
    return float(outside)


def _fitted(
    counts: _Counts, start: Floats, prior: Floats, offset: Floats
) -> tuple[npt.NDArray[np.float64], float, npt.NDArray[np.float64]]:
    """The best weights by Newton's method, the penalised log-likelihood and minus its second derivatives."""
    weights = np.array(start, np.float64)
    value = _likelihood(counts, weights, prior, offset)
    curve: npt.NDArray[np.float64] = np.diag(prior)
    for _ in range(100):
        chance = 1.0 / (1.0 + np.exp(-np.clip(counts.columns @ weights + offset, -40, 40)))
        slope = counts.columns.T @ (counts.right - counts.total * chance) - prior * weights
        weighed = counts.columns * (counts.total * chance * (1.0 - chance))[:, None]
        curve = np.asarray(counts.columns.T @ weighed + np.diag(prior), np.float64)
        step = np.linalg.solve(curve, slope)
        length = 1.0
        while (reached := _likelihood(counts, weights + length * step, prior, offset)) < value and length > 1e-6:
            length /= 2.0
        if reached < value:
            break
        gained, weights, value = reached - value, weights + length * step, reached
        if gained < 1e-7:
            break
    return weights, value, curve


def _likelihood(counts: _Counts, weights: Floats, prior: Floats, offset: Floats) -> float:
    odds = np.clip(counts.columns @ weights + offset, -40, 40)
    return float(counts.right @ odds - counts.total @ np.logaddexp(0.0, odds) - 0.5 * (prior @ (weights * weights)))
