"""How far a fit can be from the true minimum: lower bounds that do not depend on the solver.

TRE is defined as a minimum, so a score means little unless it is near that minimum. A *lower bound* is a number that no
lexicon and no parameters can score below. The true TRE lies between the bound and the score; the fit is called
"optimal" only when the two meet.

Where a bound comes from is its *source*:

    exact               least squares: the score itself
    duality             any feasible point of the dual problem (l1, l2, cross-entropy)
    slot tables         a relaxation: every map of parts is a special case of a free table of vectors for each leaf
                        position of each tree shape, which is an additive problem
    equal derivations   items with the same derivation get the same prediction, and cannot all be met by it
    cells               a search of all values of the few free numbers (weighted and diagonal, sql2; `cells`)
    spectral            predictions of a linear composition lie in a subspace of few dimensions (cosine; `spectral`)

"Optimal" means proved to within 1 % of the score (or to rounding, where the score is almost zero).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pomona.base.arrays import Ints
from pomona.representations.tre.additive import fit_linear
from pomona.representations.tre.cells import Paths
from pomona.representations.tre.checks import Moments, is_constant
from pomona.representations.tre.compositions import Add, Diagonal, Weighted
from pomona.representations.tre.cosine import unit_sum, unit_sums
from pomona.representations.tre.design import Design
from pomona.representations.tre.distances import Cosine, CrossEntropy
from pomona.representations.tre.problem import Layer, Problem
from pomona.representations.tre.solver import CONVEX, Solution
from pomona.representations.tre.spectral import spectral_bound

OPTIMAL = 0.01  # a gap of at most this share of the score counts as closed
ROUNDING = 1e-6  # and so does a gap of at most this share of the trivial predictor's distance
GEOMETRIC_MEDIANS = 2000  # up to this many distinct derivations, l2 gets a geometric median for each


@dataclass(frozen=True)
class Bound:
    """What is known about how good a fit is. Distances are means over items, like the score."""

    status: str  # "optimal" or "best found"
    lower_bound: float  # no lexicon and no parameters of this composition can score less
    gap: float  # score minus lower bound
    source: str  # where the bound comes from: one of the list above
    gradient_norm: float | None  # largest entry of the mean distance's gradient; None where the distance has corners
    restarts: int
    spread: float | None  # worst minus best score over restarts; None for a single start
    rank: int | None  # the rank of the items x primitives counts: how many vectors the derivations determine
    degrees_of_freedom: int  # numbers observed minus numbers fitted; 0 or less means that a low score says nothing
    zero: float  # the score of always predicting zero
    centroid: float  # the score of always predicting the mean representation

    def __str__(self) -> str:
        return f"{self.status}, gap {self.gap:.3g} above the lower bound {self.lower_bound:.6g} ({self.source})"


def bound_of(layer: Layer, problem: Problem, solution: Solution) -> Bound:
    """Compare a solution with the best lower bound that can be proved."""
    targets, counts = layer.targets, problem.derivations.counts
    score, scores = solution.score, solution.scores
    lower, source = lower_bound(layer, problem, solution.proved)
    zero, centroid = trivial_scores(layer)
    gap = max(score - lower, 0.0)
    closed = gap <= max(OPTIMAL * abs(score), ROUNDING * zero if np.isfinite(zero) else 0.0)
    fitted = solution.vectors.size + sum(value.size for value in solution.parameters.values())
    if isinstance(problem.composition, Add):
        fitted = (counts.rank or counts.columns) * targets.shape[1]
    return Bound(
        status="optimal" if closed else "best found",
        lower_bound=min(lower, score),
        gap=gap,
        source=source,
        gradient_norm=solution.slope,
        restarts=len(scores),
        spread=max(scores) - min(scores) if len(scores) > 1 else None,
        rank=counts.rank,
        degrees_of_freedom=targets.size - fitted,
        zero=zero,
        centroid=centroid,
    )


def lower_bound(layer: Layer, problem: Problem, proved: float | None) -> tuple[float, str]:
    """The best bound that can be proved on the mean distance, and its source.

    `proved` is the solver's own bound on the summed distance, if it has one.
    """
    targets, distance, derivations = layer.targets, layer.distance, problem.derivations
    items = len(derivations)
    candidates = [(0.0, "equal derivations")]
    additive = isinstance(problem.composition, Add)
    if proved is not None:
        source = {"sql2": "exact", "cosine": "equal derivations"}.get(distance.name, "duality")
        candidates = [(proved / items, source if additive else "cells")]
    if distance.name == "cosine" and problem.composition.linear:
        candidates.append((_spectral(layer, problem) / items, "spectral"))
    if proved is None or not additive:
        candidates.append((_within_groups(layer, derivations.root) / items, "equal derivations"))
    if problem.composition.linear and not additive and distance.name in CONVEX:
        relaxed = fit_linear(_tables(problem), np.asarray(targets, np.float64), distance).lower_bound
        candidates.append(((relaxed or 0.0) / items, "slot tables"))
    return max(candidates, key=lambda candidate: candidate[0])


def _tables(problem: Problem) -> Design:
    """A free vector for each primitive in each position. Under weights, positions whose paths have equal weights are
    one, whatever the shape of the tree; maps do not commute, so for them every position of every shape is its own."""
    paths = None
    if isinstance(problem.composition, Weighted | Diagonal):
        paths = Paths.of(problem.derivations)
    if paths is None:
        return problem.derivations.slots
    key = np.concatenate([paths.column[:, None], paths.exponent], axis=1)
    column = np.unique(key, axis=0, return_inverse=True)[1].ravel().astype(np.int64)
    matrix = np.zeros((paths.shape[0], int(column.max()) + 1))
    np.add.at(matrix, (paths.row, column), 1.0)
    return Design.from_dense(matrix[paths.group])


def _within_groups(layer: Layer, root: Ints) -> float:
    """How far items with equal derivations are from any prediction that they share."""
    group = np.unique(root, return_inverse=True)[1].ravel()
    groups = int(group.max()) + 1
    if len(root) == groups:
        return 0.0
    within = layer.distance.bound_within(layer.targets, group)
    if layer.distance.name == "l2" and groups <= GEOMETRIC_MEDIANS:
        each = Design.from_entries(np.arange(len(root)), group, len(root), groups)
        within = max(within, fit_linear(each, layer.targets, layer.distance).lower_bound or 0.0)
    return within


def _spectral(layer: Layer, problem: Problem) -> float:
    """The bound by rank: of the counts under addition, else of the slot tables or the lexicon that is only weighted."""
    derivations, width = problem.derivations, layer.targets.shape[1]
    if isinstance(problem.composition, Add):
        rank, group = derivations.counts.rank, derivations.counts.distinct[1]
    else:
        rank = len(derivations.names) if isinstance(problem.composition, Weighted) else width
        if rank >= width:
            rank = _tables(problem).rank
        group = np.unique(derivations.root, return_inverse=True)[1].ravel()
    if rank is None or rank >= width:
        return 0.0
    return spectral_bound(unit_sums(layer.targets, group), len(group), rank)


def trivial_scores(layer: Layer) -> tuple[float, float]:
    """The scores of always predicting zero and of always predicting the mean."""
    targets, distance = layer.targets, layer.distance
    zeros = np.broadcast_to(np.zeros(1), targets.shape)
    if isinstance(distance, Cosine):
        return 1.0, 1.0 - float(np.linalg.norm(unit_sum(targets)[1])) / len(targets)
    if distance.name == "sql2":
        moments = layer.moments or Moments.of(targets)
        mean, power = moments.total / len(targets), moments.power / len(targets)
        return power, max(power - float(mean @ mean), 0.0)
    mean = targets.mean(axis=0, dtype=np.float64)
    if isinstance(distance, CrossEntropy):
        mean = np.log(np.maximum(mean, 1e-30))
    centroid = np.broadcast_to(mean, targets.shape)
    return float(distance.per_item(zeros, targets).mean()), float(distance.per_item(centroid, targets).mean())


def notes_on(bound: Bound, score: float, layer: Layer) -> tuple[str, ...]:
    """Sentences about a fit whose score should not be read as it stands."""
    notes = []
    if isinstance(layer.distance, Cosine) and (bound.gradient_norm or 0.0) > 1e-4:
        notes.append(
            f"the cosine fit has not settled (gradient {bound.gradient_norm:.2g}): some predictions are "
            f"shrinking towards zero, where they have no direction, so the minimum is approached and never reached."
        )
    slack = 1e-9 * max(abs(score), 1.0)
    for name, value in (("zero", bound.zero), ("centroid", bound.centroid)):
        if score > value + slack:
            notes.append(
                f"TRE {score:.6g} is worse than always predicting the {name} ({value:.6g}): this composition describes "
                f"these representations worse than no composition at all."
            )
    if bound.degrees_of_freedom <= 0:
        notes.append(
            "the model has as many numbers as the representations, so a low TRE says nothing; read the held-out score."
        )
    if len(layer.targets) > 1 and is_constant(layer.targets):
        notes.append("all representations are equal: every score is trivially low, and normalised scores are NaN.")
    return tuple(notes)
