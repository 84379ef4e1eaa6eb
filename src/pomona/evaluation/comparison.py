"""Models side by side: which is better, by how much, and whether these examples and seeds are enough to tell.

    print(pm.compare(first, second))                          two Evaluations of one corpus
    print(pm.compare(tree, lstm, chart))                      all pairs, p-values adjusted by Holm
    print(pm.compare([tree_0, tree_1, tree_2], [lstm_0, lstm_1, lstm_2]))      groups of runs with different seeds

Two single models are compared example by example (`pomona.evaluation.significance`): the paired difference with
Tango's interval, the exact McNemar test, the smallest detectable difference and, with `cluster`, an interval by a
bootstrap over groups of examples. Groups of runs are compared by their mean accuracies over seeds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import NormalDist
from typing import Any

from pomona.base import notebook
from pomona.base.errors import MeasureError
from pomona.data.groups import groups_of
from pomona.evaluation.accuracy import wilson
from pomona.evaluation.evaluation import Evaluation
from pomona.evaluation.significance import (
    CONFIDENCE,
    FEW,
    POWER,
    Difference,
    clustered_difference,
    detectable,
    holm,
    mcnemar,
    paired_difference,
    seeds,
    seeds_difference,
)


@dataclass(frozen=True)
class Side:
    """One model, or one model with several seeds."""

    name: str
    accuracies: tuple[float, ...]
    accuracy: Difference  # Wilson's interval for one model, a t-interval for several seeds

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "accuracies": list(self.accuracies), **self.accuracy.as_dict()}


@dataclass(frozen=True)
class Pair:
    """One side against another. Fields that do not apply are None: seeds have no McNemar test."""

    first: str
    second: str
    difference: Difference
    p_value: float
    adjusted: float  # by Holm, over all the pairs of the comparison
    test: str
    only_first: int | None = None  # examples that only the first has right
    only_second: int | None = None
    detectable: float | None = None
    clustered: Difference | None = None

    def as_dict(self) -> dict[str, Any]:
        return {
            "first": self.first, "second": self.second, "difference": self.difference.as_dict(),
            "p_value": _number(self.p_value), "adjusted": _number(self.adjusted), "test": self.test,
            "only_first": self.only_first, "only_second": self.only_second, "detectable": self.detectable,
            "clustered": None if self.clustered is None else self.clustered.as_dict(),
        }  # fmt: skip


@dataclass(frozen=True)
class Comparison:
    """All sides and all pairs of them."""

    corpus: str
    fingerprint: str
    rows: int
    sides: tuple[Side, ...]
    pairs: tuple[Pair, ...]
    cluster: str = ""
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "corpus": self.corpus, "fingerprint": self.fingerprint, "rows": self.rows, "cluster": self.cluster,
            "sides": [side.as_dict() for side in self.sides], "pairs": [pair.as_dict() for pair in self.pairs],
            "notes": list(self.notes),
        }  # fmt: skip

    def __repr__(self) -> str:
        sides = ", ".join(f"{side.name} {side.accuracy.value:.1%}" for side in self.sides[:4])
        more = f" and {len(self.sides) - 4} more" if len(self.sides) > 4 else ""
        return f"Comparison({sides}{more} on {self.rows:,} examples; print it for the tests)"

    def _repr_html_(self) -> str:
        sides = [
            [side.name, f"{side.accuracy.value:.2%}", notebook.bar(side.accuracy.value), _between(side.accuracy)]
            for side in self.sides
        ]
        pairs = [[f"{pair.first} - {pair.second}", in_words(pair)] for pair in self.pairs]
        return notebook.page(
            notebook.heading(f"Comparison on {self.corpus}", *self.notes),
            notebook.table(["model", "right", "", "95 % interval"], sides),
            notebook.table(["pair", "difference"], pairs),
        )

    def __str__(self) -> str:
        lines = [f"{self.corpus}"]
        for side in self.sides:
            lines.append(f"{side.name}: {side.accuracy.value:.2%} {_between(side.accuracy)}")
        for pair in self.pairs:
            lines.append(f"{pair.first} - {pair.second}: {in_words(pair)}")
        return "\n".join([*lines, *self.notes])


def in_words(pair: Pair) -> str:
    """A pair in a sentence."""
    parts = [f"{pair.difference.value:+.2%} {_between(pair.difference)}, {pair.test} p = {_p(pair.p_value)}"]
    if pair.adjusted != pair.p_value and not math.isnan(pair.adjusted):
        parts.append(f"adjusted {_p(pair.adjusted)}")
    if pair.clustered is not None:
        parts.append(f"clustered {_between(pair.clustered)}")
    if pair.detectable is not None:
        parts.append(f"a difference of {pair.detectable:.2%} would be found with {POWER:.0%} power")
    return "; ".join(parts)


def compare(
    *sides: Evaluation | Sequence[Evaluation],
    cluster: str = "",
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> Comparison:
    """Compare evaluations of one corpus, all pairs of them; a list of evaluations is one model with several seeds.

    `cluster` names groups of examples that are not independent: derivation, operator, any column of the corpus.
    """
    groups = [[side] if isinstance(side, Evaluation) else list(side) for side in sides]
    if len(groups) < 2 or not all(groups):
        raise MeasureError(f"a comparison needs at least two sides, none of them empty; got {len(groups)}")
    first = groups[0][0]
    for other in (evaluation for group in groups for evaluation in group):
        if other.fingerprint != first.fingerprint or len(other) != len(first):
            raise MeasureError(
                f"{other.name} answers another corpus ({other.fingerprint[:12]}) than {first.name} "
                f"({first.fingerprint[:12]})"
            )
    named = [_side(group, name, confidence) for group, name in zip(groups, _names(groups), strict=True)]
    pairs = [
        _pair(groups[left], groups[right], named[left].name, named[right].name, cluster, confidence, seed)
        for left, right in combinations(range(len(groups)), 2)
    ]
    tested = [number for number, pair in enumerate(pairs) if not math.isnan(pair.p_value)]
    for number, adjusted in zip(tested, holm([pairs[number].p_value for number in tested]), strict=True):
        pairs[number] = replace(pairs[number], adjusted=adjusted)
    return Comparison(
        repr(first.corpus), first.fingerprint, len(first), tuple(named), tuple(pairs), cluster, _notes(first, cluster)
    )


def _side(group: list[Evaluation], name: str, confidence: float) -> Side:
    values = tuple(evaluation.accuracy.value for evaluation in group)
    if len(group) == 1:
        right = int(group[0].right.sum())
        interval = wilson(right, len(group[0]), NormalDist().inv_cdf((1 + confidence) / 2))
        return Side(name, values, Difference(values[0], interval, "Wilson's interval"))
    return Side(name, values, seeds(values, confidence))


def _names(groups: list[list[Evaluation]]) -> list[str]:
    """A name for each side; the second of the same name is called name (2)."""
    names: list[str] = []
    for group in groups:
        name, count = group[0].name, 2
        while name in names:
            name, count = f"{group[0].name} ({count})", count + 1
        names.append(name)
    return names


def _pair(
    first: list[Evaluation],
    second: list[Evaluation],
    name: str,
    other: str,
    cluster: str,
    confidence: float,
    seed: int,
) -> Pair:
    if len(first) > 1 or len(second) > 1:
        a, b = ([evaluation.accuracy.value for evaluation in side] for side in (first, second))
        difference, p_value = seeds_difference(a, b, confidence)
        return Pair(name, other, difference, p_value, p_value, "Welch's t-test")
    mine, theirs = first[0].right, second[0].right
    only_first, only_second = int((mine & ~theirs).sum()), int((theirs & ~mine).sum())
    p_value = mcnemar(mine, theirs)
    clustered = None
    if cluster:
        numbers = groups_of(first[0].corpus, cluster)[1]
        clustered = clustered_difference(mine, theirs, numbers, confidence=confidence, seed=seed)
    return Pair(
        name, other, paired_difference(mine, theirs, confidence), p_value, p_value, "McNemar", only_first, only_second,
        detectable(len(mine), (only_first + only_second) / len(mine), confidence=confidence), clustered,
    )  # fmt: skip


def _notes(evaluation: Evaluation, cluster: str) -> tuple[str, ...]:
    if not cluster:
        return ()
    count = len(groups_of(evaluation.corpus, cluster)[0])
    return (f"Only {count} groups by {cluster}: too few to trust the clustered interval.",) if count < FEW else ()


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def _between(difference: Difference) -> str:
    low, high = difference.interval
    return "" if math.isnan(low) else f"({low:+.2%} to {high:+.2%})" if low < 0 else f"({low:.2%} to {high:.2%})"


def _p(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3g}"
