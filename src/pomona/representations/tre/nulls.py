"""The scores of a fit when its derivations are assigned to the items at random, one after another.

    observed, scores = null_scores(fitted, rng)      # scores: an endless iterator
    next(scores)

A permutation test needs the same statistic for the data and for every shuffle, not the optimum. Where the optimum is
dear, all of them therefore stop after the same few iterations. The representations are shuffled instead of the
derivations, which is the same and lets all shuffles share one design and its factorisation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np

from pomona.base.arrays import Floats, Ints
from pomona.base.compiled import summed
from pomona.representations.tre.additive import fit_linear
from pomona.representations.tre.compositions import Add
from pomona.representations.tre.cosine import fit_cosine
from pomona.representations.tre.design import Design, FloatArray
from pomona.representations.tre.fitted import FittedModel
from pomona.representations.tre.problem import Layer, Problem
from pomona.representations.tre.solver import solve

COSINE_ITERATIONS = 5  # of the descent; on shuffled data the score is then within about 0.1 % of the minimum
NORM_ITERATIONS = 10  # of each stage of the descent for l2
ABSOLUTE_ITERATIONS = 10  # of reweighted least squares for l1, where linear programmes would be dear
LINEAR_PROGRAMMES = 3_000_000  # items x numbers x columns^2, up to which l1 solves them all the same
TOGETHER = 8  # shuffles that descend together under cosine
BASIS_ENTRIES = 20_000_000  # the largest items x rank matrix that squared l2 may hold
WEIGHTED_COLUMNS = 300  # up to this many columns, l1 solves one system for each coordinate and iteration

Scores = Iterator[float]


def null_scores(fitted: FittedModel, rng: np.random.Generator) -> tuple[float, Scores]:
    """The statistic of the data, and an endless iterator over that of shuffles."""
    targets = fitted.rows
    shuffled = (targets[rng.permutation(len(targets))] for _ in iter(int, 1))
    if not isinstance(fitted.compose, Add):
        return fitted.score, (_refitted(fitted, rows) for rows in shuffled)
    design, distance = fitted.derivations.counts, fitted.distance
    if distance.name == "sql2" and len(design) * (design.rank or design.columns) <= BASIS_ENTRIES:
        return fitted.score, _squared(design, targets, shuffled)
    if distance.name == "cosine":
        return _cosine(design, [targets])[0], _batches(design, shuffled)
    statistic: Callable[[FloatArray], float]
    if distance.name == "l1" and _is_dear(design, targets):
        statistic = _Absolute(design)
    else:

        def statistic(rows: FloatArray) -> float:
            fit = fit_linear(design, rows, distance, tolerance=1e-6, limit=NORM_ITERATIONS, bounded=False)
            return float(fit.per_item.mean())

    return statistic(targets), map(statistic, shuffled)


def _refitted(fitted: FittedModel, rows: FloatArray) -> float:
    problem = Problem(fitted.derivations, fitted.compose, fitted.restarts)
    return solve([Layer(rows, fitted.shape, fitted.distance)], problem, seed=fitted.seed)[0].score


def _squared(design: Design, targets: FloatArray, shuffled: Iterator[FloatArray]) -> Scores:
    """With Q an orthonormal basis of the design's columns, |Q'Y|^2 is explained: one product for each shuffle."""
    values, vectors = design.spectrum
    basis = np.ascontiguousarray(design.times(vectors / np.sqrt(values)).T)
    power = float(np.vdot(targets, targets))
    for rows in shuffled:
        explained = basis @ rows
        yield max((power - float(np.vdot(explained, explained))) / len(rows), 0.0)


def _batches(design: Design, shuffled: Iterator[FloatArray]) -> Scores:
    while batch := list(islice(shuffled, TOGETHER)):
        yield from _cosine(design, batch)


def _cosine(design: Design, layers: list[FloatArray]) -> list[float]:
    fits = fit_cosine(design, layers, tolerance=1e-6, limit=COSINE_ITERATIONS)
    return [float(fit.per_item.mean()) for fit in fits]


def _is_dear(design: Design, targets: FloatArray) -> bool:
    return targets.size * design.columns**2 > LINEAR_PROGRAMMES and design.columns <= WEIGHTED_COLUMNS


class _Absolute:
    """l1 by reweighted least squares: a few small systems for each coordinate instead of a linear programme."""

    def __init__(self, design: Design) -> None:
        self.design = design
        self.floor = np.maximum(0.3 * 0.5 ** np.arange(ABSOLUTE_ITERATIONS), 1e-4)

    def __call__(self, rows: FloatArray) -> float:
        design = self.design
        start = design.solve(design.transposed_times(rows))
        return float(_reweighted(design.first, design.column, design.weight, rows, start, self.floor)) / len(rows)


@summed
def _reweighted(first: Ints, column: Ints, weight: Floats, targets: Floats, start: Floats, floor: Floats) -> float:
    """The sum of |y - C e| over all coordinates, at the best iterate of each."""
    items, columns = len(targets), len(start)
    total = 0.0
    error = np.empty(items)
    gram = np.empty((columns, columns))
    for j in range(targets.shape[1]):
        lexicon = start[:, j].copy()
        best = np.inf
        for step in range(len(floor) + 1):
            value = 0.0
            for i in range(items):
                guess = 0.0
                for entry in range(first[i], first[i + 1]):
                    guess += weight[entry] * lexicon[column[entry]]
                error[i] = abs(targets[i, j] - guess)
                value += error[i]
            best = min(best, value)
            if step == len(floor) or value <= 0.0:
                break
            least = value / items * floor[step]
            gram[:, :] = 0.0
            lexicon[:] = 0.0
            for i in range(items):
                scale = 1.0 / max(error[i], least)
                for entry in range(first[i], first[i + 1]):
                    own = scale * weight[entry]
                    k = column[entry]
                    lexicon[k] += own * targets[i, j]
                    for other in range(first[i], entry + 1):  # the columns of a row come sorted
                        gram[k, column[other]] += own * weight[other]
            _solve_positive(gram, lexicon)
        total += best
    return total


@summed
def _solve_positive(gram: Floats, right: Floats) -> None:
    """Cholesky in place on the lower triangle, with a ridge for directions that the data do not determine."""
    size = len(right)
    top = 0.0
    for k in range(size):
        top = max(top, gram[k, k])
    for k in range(size):
        row = gram[k]
        row[k] += 1e-12 * top
        for m in range(k):
            other, left = gram[m], row[m]
            for i in range(m):
                left -= row[i] * other[i]
            row[m] = left * other[m]  # the diagonal holds inverses
        left, rest = row[k], right[k]
        for i in range(k):
            left -= row[i] * row[i]
            rest -= row[i] * right[i]
        row[k] = 1.0 / np.sqrt(max(left, 1e-300))
        right[k] = rest * row[k]
    for k in range(size - 1, -1, -1):
        right[k] *= gram[k, k]
        for m in range(k):
            right[m] -= gram[k, m] * right[k]
