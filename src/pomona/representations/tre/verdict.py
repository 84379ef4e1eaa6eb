"""What a fit says, in plain words: how much is explained, whether by more than chance, whether beyond the data.

    print(fit)                                    # what is cheap, and what takes about a second at most
    print(fit.verdict(shuffles=1000, folds=10))   # all of it, however long it takes

Four questions have an answer each. How much of the vectors do their parts explain? That is 1 - TRE / the distance to
the mean vector: 1 is exactly composed, 0 no better than one vector for everything. TRE lies between its lower bound and
the score, so the share has a bracket, too. Would shuffled derivations explain as much? Does it hold for combinations
that the fit has not seen? Which items fit worst?

Shuffles and folds refit the model. They run by default if they should take at most a second on one usual core, judged
by the sizes of the problem and not by a clock, so the same data always give the same words.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from pomona.base.errors import PomonaError
from pomona.representations.tre.cells import Paths
from pomona.representations.tre.checks import is_constant
from pomona.representations.tre.compositions import Add, Diagonal, Linear, Position, Weighted
from pomona.representations.tre.design import DENSE_COLUMNS
from pomona.representations.tre.fitted import FittedModel
from pomona.representations.tre.many_maps import seconds_of_maps
from pomona.representations.tre.projection import seconds_of_project
from pomona.representations.tre.significance import CONSTANT, HeldOut, ShuffleTest, heldout, shuffle_test

SHUFFLES, STOP, FOLDS = 999, 20, 10  # at most so many; once STOP shuffles score as low, p is decided
BUDGET = 1.0  # estimated seconds for the shuffles and folds that nobody asked for
LEAST_SHUFFLES = 99  # fewer than this decide nothing
WORST = 3  # items that are named
SIGNIFICANT = 0.05
RESAMPLES = 1000
NOTHING = 1e-12  # a distance of at most this share of the trivial predictor's is rounding


@dataclass(frozen=True)
class Share:
    """What part of the distance to the mean vector is explained; `high` is what the best lexicon could explain."""

    value: float
    high: float
    centroid: float  # the score of always predicting the mean vector
    reason: str | None = None  # why the share is NaN, if it is


@dataclass(frozen=True)
class Unseen:
    """The share explained on combinations that were left out of the fit, with a 95 % interval."""

    share: float
    low: float
    high: float
    tested: int
    folds: int


@dataclass(frozen=True, eq=False)
class Verdict:
    """The answers about one fit, as numbers; printed, they are sentences."""

    title: str
    explained: Share
    proved: str  # what is known about the minimum
    chance: ShuffleTest | None  # None if it was not run
    unseen: Unseen | None
    left_out: dict[str, str]  # why the test of "chance" or "unseen" was not run
    worst: tuple[tuple[int, str, float], ...]  # row, derivation, distance
    notes: tuple[str, ...] = ()

    @property
    def sentences(self) -> dict[str, str]:
        """One answer for each question."""
        worst = "; ".join(f"row {row}, {name}: {tre:.4g}" for row, name, tre in self.worst)
        answers = {
            "explained": _explained(self.explained, self.proved),
            "chance": self.left_out.get("chance") or _chance(self.chance, self.explained),
            "unseen": self.left_out.get("unseen") or _unseen(self.unseen),
            "worst": worst or "none: every item is composed exactly, up to rounding.",
        }
        return answers | ({"note": " ".join(self.notes)} if self.notes else {})

    def __str__(self) -> str:
        width = max(map(len, self.sentences)) + 2
        return "\n".join([self.title, *(f"  {name:<{width}}{text}" for name, text in self.sentences.items())])

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(text)}</td></tr>'
            for name, text in self.sentences.items()
        )
        return f"<table><caption>{escape(self.title)}</caption>{rows}</table>"

    def to_dict(self) -> dict[str, Any]:
        """Numbers and sentences, for JSON; NaN is None."""
        test, unseen = self.chance, self.unseen
        chance = None if test is None else {
            "p_value": _or_none(test.p_value), "shuffles": len(test.null), "as_low": test.lower,
            "stopped": test.stopped, "mean": test.mean,
        }  # fmt: skip
        held = None if unseen is None else {
            "explained": _or_none(unseen.share), "low": _or_none(unseen.low), "high": _or_none(unseen.high),
            "tested": unseen.tested, "folds": unseen.folds,
        }  # fmt: skip
        return {
            "explained": {"value": _or_none(self.explained.value), "high": _or_none(self.explained.high)},
            "chance": chance,
            "unseen": held,
            "worst": [{"row": row, "item": name, "tre": tre} for row, name, tre in self.worst],
            "sentences": self.sentences,
        }


def verdict(fitted: FittedModel, shuffles: int | None = None, folds: int | None = None, seed: int = 0) -> Verdict:
    """The answers about a fit. `shuffles` and `folds` are run as asked; 0 for none; None leaves it to their cost."""
    left_out: dict[str, str] = {}
    test = None
    number = _affordable_shuffles(fitted) if shuffles is None else shuffles
    if number:
        test = shuffle_test(fitted, number, seed, stop=STOP if shuffles is None else None)
    else:
        left_out["chance"] = _not_run("shuffles=999", seconds_of_shuffles(fitted, 999), shuffles)
    unseen = None
    parts = _affordable_folds(fitted) if folds is None else min(folds, fitted.derivations.distinct)
    if parts > 1:
        try:
            unseen = _unseen_of(fitted, heldout(fitted, parts, seed), seed)
        except PomonaError as error:
            left_out["unseen"] = f"cannot be said: {error}"
    elif fitted.derivations.distinct < 2:
        left_out["unseen"] = "cannot be said: all items have the same derivation."
    else:
        left_out["unseen"] = _not_run("folds=10", seconds_of_folds(fitted, FOLDS), folds)
    return Verdict(
        title=_title(fitted),
        explained=_share(fitted),
        proved=fitted.bound.status,
        chance=test,
        unseen=unseen,
        left_out=left_out,
        worst=tuple(_worst(fitted)),
        notes=fitted.notes,
    )


def answered(given: Verdict, fitted: FittedModel, test: ShuffleTest | None, unseen: HeldOut | None) -> Verdict:
    """The same verdict with tests that were run elsewhere."""
    from dataclasses import replace

    left = dict(given.left_out)
    if test is not None:
        left.pop("chance", None)
    if unseen is not None:
        left.pop("unseen", None)
    return replace(
        given,
        chance=test or given.chance,
        unseen=given.unseen if unseen is None else _unseen_of(fitted, unseen, 0),
        left_out=left,
    )


def derivation_text(fitted: FittedModel, row: int, longest: int = 60) -> str:
    """A derivation for a line of text: control characters are codes, and long ones are cut."""
    trees = fitted.derivations
    if trees.sizes[row] > longest:
        return f"a derivation of {int(trees.sizes[row])} parts"
    text = repr(trees.tree(row))
    if any(isinstance(name, tuple) for name in trees.names):  # attributes: (column, value)
        nodes = trees.primitive[trees.start[row] : trees.start[row + 1]]
        pairs = [trees.names[node] for node in nodes.tolist() if node >= 0]
        text = ", ".join("=".join(map(str, pair)) if isinstance(pair, tuple) else str(pair) for pair in pairs)
        text = text if text.isprintable() else repr(text)
    return text if len(text) <= longest else text[: longest - 3] + "..."


# -- the answers ------------------------------------------------------------------------------------------------------


def _title(fitted: FittedModel) -> str:
    trees, shape = fitted.derivations, " x ".join(map(str, fitted.shape))
    score = "0" if fitted.score <= _rounding(fitted) else f"{fitted.score:.4g}"
    return (
        f"TRE {score} ({fitted.compose.name}, {fitted.distance.name}): {len(trees):,} items of {shape} "
        f"numbers, {len(trees.names):,} parts, {trees.distinct:,} combinations"
    )


def _rounding(fitted: FittedModel) -> float:
    """Distances up to this are zero but for rounding."""
    return NOTHING * fitted.bound.zero if np.isfinite(fitted.bound.zero) else 0.0


def _share(fitted: FittedModel) -> Share:
    level, bound = fitted.bound.centroid, fitted.bound
    nan = float("nan")
    if is_constant(fitted.rows):
        return Share(nan, nan, level, CONSTANT)
    if not level > 0.0 or not np.isfinite(level):
        return Share(nan, nan, level, f"predicting the mean vector has an error of {level:.3g}")
    return Share(1.0 - fitted.score / level, 1.0 - bound.lower_bound / level, level)


def _explained(share: Share, proved: str) -> str:
    if share.reason is not None:
        return f"cannot be said: {share.reason}."
    value, high = percent(share.value), percent(share.high)
    if 1.0 - share.value <= NOTHING:
        return "100 % of the distance to the mean vector is explained by the parts: they compose the vectors exactly."
    if proved == "optimal":
        bracket = "and this is the minimum, proved to within 1 % of TRE"
    elif high == value:
        bracket = "and no lexicon explains a whole per cent more"
    elif 1.0 - share.high <= NOTHING:
        bracket = "and whether another lexicon explains more is not known"
    else:
        bracket = f"and no lexicon explains more than {high}"
    if share.value <= 0.0:
        return f"nothing: the parts fit no better than one mean vector for all ({value}, {bracket})."
    return f"{value} of the distance to the mean vector is explained by the parts, {bracket}."


def _chance(test: ShuffleTest | None, share: Share) -> str:
    assert test is not None
    if test.reason is not None:
        return f"cannot be said: {test.reason}."
    number, p = len(test.null), f"p = {test.p_value:.2g}"
    by_chance = ""
    if np.isfinite(share.value):
        by_chance = f"; with shuffled derivations the parts explain {percent(1.0 - test.mean / share.centroid)}"
    if test.p_value <= SIGNIFICANT:
        as_low = "none" if test.lower == 0 else f"{test.lower:,}"
        return f"yes, it beats chance: {as_low} of {number:,} shuffles score as low ({p}){by_chance}."
    first = "the first " if test.stopped else ""
    return f"no, it does not beat chance: {test.lower:,} of {first}{number:,} shuffles score as low ({p}){by_chance}."


def _unseen(unseen: Unseen | None) -> str:
    assert unseen is not None
    if not np.isfinite(unseen.share):
        return "cannot be said: the mean vector already predicts the items that were left out."
    seen = f"{percent(unseen.share)} explained (95 % interval {percent(unseen.low)} to {percent(unseen.high)})"
    where = f"of {unseen.tested:,} items whose combination was left out of the fit"
    if unseen.low > 0.0:
        return f"yes, it holds for combinations never seen: {seen} {where}."
    if unseen.high < 0.0:
        return f"no, it fails for combinations never seen: {seen} {where}; the mean vector does better."
    return f"not shown for combinations never seen: {seen} {where}."


def _not_run(option: str, seconds: float, asked: int | None) -> str:
    if asked is not None:
        return "not asked."
    return f"not run, since it would take about {_duration(seconds)}; ask with fit.verdict({option})."


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.0f} hours"


def _worst(fitted: FittedModel) -> list[tuple[int, str, float]]:
    order = np.argsort(-fitted.per_item, kind="stable")[:WORST]
    shown = [row for row in order.tolist() if fitted.per_item[row] > _rounding(fitted)]
    return [(row, derivation_text(fitted, row), float(fitted.per_item[row])) for row in shown]


def _unseen_of(fitted: FittedModel, held: HeldOut, seed: int) -> Unseen:
    """The share on held-out items, and its interval from resampled derivations."""
    tested = held.fold >= 0
    group = np.unique(fitted.derivations.root[tested], return_inverse=True)[1].ravel()
    error, level = (np.bincount(group, values[tested]) for values in (held.per_item, held.centroid_per_item))
    if not level.sum() > 0.0:
        nan = float("nan")
        return Unseen(nan, nan, nan, held.tested, held.folds)
    rng = np.random.default_rng(seed)
    shares = np.empty(RESAMPLES)
    for sample in range(RESAMPLES):
        chosen = rng.integers(len(level), size=len(level))
        total = level[chosen].sum()
        shares[sample] = 1.0 - error[chosen].sum() / total if total > 0.0 else np.nan
    low, high = np.nanquantile(shares, [0.025, 0.975])
    return Unseen(held.r_squared, float(low), float(high), held.tested, held.folds)


def percent(share: float) -> str:
    """A share in per cent, never rounded to a full 100 or to a nought that it is not."""
    text = f"{100 * share:.0f} %"
    if text in ("100 %", "0 %", "-0 %") and share not in (0.0, 1.0):
        text = f"{100 * share:.3g} %" if share < 0.99 else f"{100 * min(share, 0.99999):.5g} %"
        return "0 %" if abs(share) < 1e-9 else "100 %" if share > 1 - 1e-9 else text
    return text


def _or_none(value: float) -> float | None:
    return value if np.isfinite(value) else None


# -- what it would cost -----------------------------------------------------------------------------------------------


def seconds_of_shuffles(fitted: FittedModel, shuffles: int) -> float:
    """Roughly, on one usual core; from sizes alone, so that it is the same everywhere."""
    counts, width, items = fitted.derivations.counts, fitted.vectors.shape[1], len(fitted.derivations)
    if not isinstance(fitted.compose, Add):
        return shuffles * seconds_of_fit(fitted)
    entries, columns = float(len(counts.column) + 2 * items) * width, counts.columns
    each = {
        "sql2": 6e-5 + 5e-10 * items * width * min(columns, items),
        "cosine": 4e-4 + 8e-9 * entries + 2e-8 * columns * width + 2e-11 * min(columns, DENSE_COLUMNS) ** 3,
        "l2": 1.5e-3 + 6e-8 * entries + 5e-11 * min(columns, DENSE_COLUMNS) ** 3,
        "l1": 2e-4 + 1e-8 * width * (10 * items + columns**3),
    }
    return float(shuffles * each.get(fitted.distance.name, 0.05 + 1e-6 * entries))


def seconds_of_folds(fitted: FittedModel, folds: int) -> float:
    counts, items = fitted.derivations.counts, len(fitted.derivations)
    check = 1e-9 * items * min(counts.columns, DENSE_COLUMNS) ** 2 if isinstance(fitted.compose, Add) else 0.0
    return float(folds * (2e-3 + seconds_of_fit(fitted)) + check)


def seconds_of_fit(fitted: FittedModel) -> float:
    """Roughly, for one fit with the same settings."""
    trees, width = fitted.derivations, fitted.vectors.shape[1]
    counts, items = trees.counts, len(trees)
    entries = float(len(counts.column) + 2 * items) * width
    columns = min(counts.columns, DENSE_COLUMNS)
    if isinstance(fitted.compose, Add):
        each = {
            "sql2": 2e-3 + 6e-9 * entries + 1e-9 * columns**3,
            "cosine": 5e-3 + 4e-8 * entries + 1e-9 * columns**3,
            "l2": 2e-2 + 4e-7 * entries + 1e-9 * columns**3,
            "l1": 5e-3 + 3e-8 * width * items * columns**2,
        }
        return float(each.get(fitted.distance.name, 0.05 + 2e-6 * entries))
    numbers = float(trees.subtrees) * width + sum(value.size for value in fitted.parameters.values())
    steps = 100 * (fitted.restarts or 8) + 500
    steps *= (1 if fitted.compose.linear else 4) * (4 if fitted.distance.name in ("l1", "l2") else 1)
    searched = 0.0
    if isinstance(fitted.compose, Weighted | Diagonal) and (paths := Paths.of(trees)) is not None:
        diagonal = isinstance(fitted.compose, Diagonal)
        searched = seconds_of_project(paths, width, fitted.distance.name, diagonal=diagonal)
    if isinstance(fitted.compose, Linear | Position) and fitted.restarts is None and (trees.side == -1).any():
        rows = fitted.compose.rows(fitted.shape)
        searched = seconds_of_maps(trees, items * width, rows, fitted.distance.name)
    return float(max(searched, steps * (6e-5 * max(len(trees.steps), 1) + 2e-8 * numbers)))


def _affordable_shuffles(fitted: FittedModel) -> int:
    number = int(min(SHUFFLES, SHUFFLES * BUDGET / max(seconds_of_shuffles(fitted, SHUFFLES), 1e-9)))
    return number if number >= LEAST_SHUFFLES else 0


def _affordable_folds(fitted: FittedModel) -> int:
    for folds in (FOLDS, 5):
        folds = min(folds, fitted.derivations.distinct)
        if folds > 1 and seconds_of_folds(fitted, folds) <= BUDGET:
            return folds
    return 0
