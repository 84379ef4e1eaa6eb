"""Does a TRE score mean something? Shuffle tests, baselines, held-out combinations and confidence intervals.

A TRE score alone has no scale: it grows with the number of coordinates, shrinks with the number of primitives, and is
lowest for a language that says the same thing about everything. These questions have answers that can be compared:

* `shuffle_test`: is the score lower than when the same derivations are assigned to the items at random?
* `normalized`:   what share of a baseline's error does composition explain?
* `heldout`:      does the fitted lexicon predict combinations that it was not fitted on? (Remark 2 of the paper)
* `bootstrap`:    how much would the score vary with other data? (Derivations are resampled.)

A constant language, where all representations are equal, gives 0/0: the result is NaN with a reason, never "perfect".

Every function takes a fitted model first; `TreFit` has them as methods.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pomona.base.errors import MeasureError, SpecError
from pomona.representations.tre.checks import generator, is_constant
from pomona.representations.tre.compositions import Add, predict
from pomona.representations.tre.derivations import Derivations
from pomona.representations.tre.design import FloatArray
from pomona.representations.tre.distances import Distance
from pomona.representations.tre.fitted import FittedModel
from pomona.representations.tre.nulls import null_scores
from pomona.representations.tre.problem import Layer, Problem
from pomona.representations.tre.solver import Solution, solve

CONSTANT = "all representations are equal, so there is nothing for composition to explain (0/0)"


@dataclass(frozen=True, eq=False)
class ShuffleTest:
    """The score compared with the scores of the same fit when derivations are assigned at random."""

    observed: float  # the score; after as few iterations as the shuffled fits are given (`nulls`)
    p_value: float  # (1 + shuffles that score no more than observed) / (1 + shuffles); if stopped, without the ones
    null: FloatArray = field(repr=False)  # the score of each shuffle
    reason: str | None = None  # why the p-value is NaN, if it is
    stopped: bool = False  # early, as so many shuffles had scored no more that p was decided

    @property
    def mean(self) -> float:
        return float(self.null.mean())

    @property
    def lower(self) -> int:
        """How many shuffles score no more than observed."""
        return int((self.null <= self.observed + 1e-9 * max(1.0, abs(self.observed))).sum())


@dataclass(frozen=True)
class Normalized:
    """1 - TRE / baseline: 1 is perfect, 0 is no better than the baseline."""

    value: float
    baseline: str
    baseline_score: float
    reason: str | None = None


@dataclass(frozen=True, eq=False)
class HeldOut:
    """TRE over combinations that the lexicon was not fitted on."""

    score: float
    in_sample: float
    centroid: float  # the score of predicting the mean of the training data for the same items
    per_item: FloatArray = field(repr=False)  # NaN for items that were never held out
    centroid_per_item: FloatArray = field(repr=False)  # the same of predicting the mean of the training data
    fold: Any = field(repr=False)  # [items]: the fold that tests an item, -1 for items that are always in training
    folds: int
    tested: int
    anchored: int  # items kept in training because a primitive would otherwise be unseen
    undetermined: int  # tested items whose prediction the training data do not fully determine (additive fits)

    @property
    def gap(self) -> float:
        """Held-out minus in-sample score: how much the fit gains from its degrees of freedom."""
        return self.score - self.in_sample

    @property
    def r_squared(self) -> float:
        """1 - held-out TRE / held-out centroid score; NaN where predicting the centroid is already exact."""
        return 1.0 - self.score / self.centroid if self.centroid > 0 else float("nan")


@dataclass(frozen=True, eq=False)
class Interval:
    """A confidence interval for the score, from resampled derivations."""

    score: float
    low: float
    high: float
    level: float
    refitted: bool
    samples: FloatArray = field(repr=False)


def shuffle_test(fitted: FittedModel, shuffles: int = 1000, seed: int = 0, stop: int | None = None) -> ShuffleTest:
    """Refit with the derivations permuted among the items, with the same settings as the fit itself.

    With `stop`, no more is shuffled once this many shuffles score no more than the observed fit: p is then decided
    well enough to be large. The p-value of such a sequential test is exact, too (Besag and Clifford 1991).
    """
    if shuffles < 1:
        raise SpecError(f"shuffles must be 1 or more, got {shuffles}.")
    if stop is not None and stop < 1:
        raise SpecError(f"stop must be 1 or more, or None to run all shuffles, got {stop}.")
    if is_constant(fitted.rows):
        return ShuffleTest(fitted.score, float("nan"), np.full(shuffles, fitted.score), CONSTANT)
    observed, scores = null_scores(fitted, generator(seed))
    # A shuffle that ties with the observed score up to rounding counts against it.
    level = observed + 1e-9 * max(1.0, abs(observed))
    null: list[float] = []
    lower = 0
    while len(null) < shuffles and (stop is None or lower < stop):
        null.append(next(scores))
        lower += null[-1] <= level
    stopped = stop is not None and lower == stop
    p_value = lower / len(null) if stopped else (1 + lower) / (1 + shuffles)
    return ShuffleTest(observed, p_value, np.array(null), stopped=stopped)


def normalized(fitted: FittedModel, baseline: str = "shuffle", shuffles: int = 1000, seed: int = 0) -> Normalized:
    """1 - TRE / baseline. The baseline is the mean score over shuffles, or that of predicting the centroid or zero."""
    if baseline not in ("shuffle", "centroid", "zero"):
        raise SpecError(f"baseline is 'shuffle', 'centroid' or 'zero', got {baseline!r}.")
    if is_constant(fitted.rows):
        return Normalized(float("nan"), baseline, float("nan"), CONSTANT)
    score = fitted.score
    if baseline == "shuffle":
        test = shuffle_test(fitted, shuffles, seed)
        score, level = test.observed, test.mean
    else:
        level = fitted.bound.centroid if baseline == "centroid" else fitted.bound.zero
    if not level > 0.0:
        reason = f"the {baseline} baseline has an error of {level:.3g}, so no share of it can be explained"
        return Normalized(float("nan"), baseline, level, reason)
    return Normalized(1.0 - score / level, baseline, level)


def heldout(fitted: FittedModel, folds: int = 10, seed: int = 0) -> HeldOut:
    """Cross-validation over distinct derivations; every primitive of a tested derivation occurs in training."""
    fold = coverage_folds(fitted.derivations, folds, generator(seed))
    if (fold < 0).all():
        raise MeasureError(
            f"no derivation can be held out: each of the {fitted.derivations.distinct} has a primitive of its own."
        )
    targets = fitted.rows
    per_item = np.full(len(targets), np.nan)
    centroid = np.full(len(targets), np.nan)
    undetermined = 0
    for which in range(folds):
        test = fold == which
        if not test.any():
            continue
        train = fitted.derivations.take(~test)
        partial = _refit(fitted, targets[~test], train)
        held = fitted.derivations.take(test)
        predictions = predict(fitted.compose, held, partial.parameters, partial.vectors)
        per_item[test] = fitted.distance.per_item(predictions, targets[test])
        centroid[test] = _centroid_distance(fitted.distance, targets[~test], targets[test])
        if isinstance(fitted.compose, Add):
            rows = held.counts.dense()
            undetermined += int((np.abs(rows - train.counts.least_norm(rows.T).T).max(axis=1) > 1e-6).sum())
    tested = fold >= 0
    return HeldOut(
        score=float(per_item[tested].mean()),
        in_sample=float(fitted.per_item[tested].mean()),
        centroid=float(centroid[tested].mean()),
        per_item=per_item,
        centroid_per_item=centroid,
        fold=fold,
        folds=folds,
        tested=int(tested.sum()),
        anchored=int((~tested).sum()),
        undetermined=undetermined,
    )


def coverage_folds(derivations: Derivations, folds: int, rng: np.random.Generator) -> Any:
    """Divide the distinct derivations into folds; -1 for those that are needed in training to cover a primitive."""
    distinct, first, group = np.unique(derivations.root, return_index=True, return_inverse=True)
    if folds < 2 or folds > len(distinct):
        raise SpecError(f"folds must be between 2 and the {len(distinct)} distinct derivations, got {folds}.")
    holds = derivations.take(first).counts
    fold = np.arange(len(distinct)) % folds
    fold = fold[rng.permutation(len(distinct))]
    row = np.repeat(np.arange(len(distinct)), np.diff(holds.first))
    for which in range(folds):
        seen = np.bincount(holds.column, fold[row] != which, minlength=holds.columns) > 0
        for derivation in np.flatnonzero(fold == which).tolist():
            needs = holds.column[holds.first[derivation] : holds.first[derivation + 1]]
            if not seen[needs].all():
                fold[derivation] = -1
                seen[needs] = True
    return fold[group.ravel()]


def bootstrap(
    fitted: FittedModel, samples: int = 1000, seed: int = 0, level: float = 0.95, refit: bool | None = None
) -> Interval:
    """Resample derivations with all their items, then refit or only average again (by default additive fits refit).

    A resample repeats items, so its refit fits better than the original. The mean of this shift is subtracted before
    the interval is taken: the interval says how much the score varies, not that the score is too high.
    """
    if not 0.0 < level < 1.0:
        raise SpecError(f"level is a probability such as 0.95, got {level}.")
    again = isinstance(fitted.compose, Add) if refit is None else refit
    group = np.unique(fitted.derivations.root, return_inverse=True)[1].ravel()
    order = np.argsort(group, kind="stable")
    members = np.split(order, np.flatnonzero(np.diff(group[order])) + 1)
    targets = fitted.rows
    rng = generator(seed)
    scores = np.empty(samples)
    for sample in range(samples):
        chosen = rng.integers(len(members), size=len(members))
        rows = np.concatenate([members[group] for group in chosen])
        scores[sample] = (
            _refit(fitted, targets[rows], fitted.derivations.take(rows)).score
            if again
            else fitted.per_item[rows].mean()
        )
    centred = scores - scores.mean() + fitted.score if again else scores
    low, high = np.quantile(centred, [(1 - level) / 2, (1 + level) / 2])
    return Interval(fitted.score, max(float(low), 0.0), float(high), level, again, scores)


def _refit(fitted: FittedModel, targets: FloatArray, derivations: Derivations) -> Solution:
    """Solve again for other data with the settings of a fit."""
    problem = Problem(derivations, fitted.compose, fitted.restarts)
    return solve([Layer(targets, fitted.shape, fitted.distance)], problem, seed=fitted.seed)[0]


def _centroid_distance(distance: Distance, train: FloatArray, test: FloatArray) -> FloatArray:
    if distance.name == "cosine":
        train = train / np.linalg.norm(train, axis=1, keepdims=True)
    mean = train.mean(axis=0)
    if distance.name == "crossentropy":
        mean = np.log(np.maximum(mean, 1e-30))
    return distance.per_item(np.broadcast_to(mean, test.shape), test)
