"""From a problem to a solution: additive fits, and fits of learned composition functions.

Fits that could depend on the order of the rows see the rows in a canonical order, so that shuffling the data changes
nothing. How good a solution is, is not decided here: `bounds` compares it with a bound that does not use the solver.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pomona.representations.tre.additive import fit_layers, fit_linear
from pomona.representations.tre.checks import canonical_order
from pomona.representations.tre.compositions import Add
from pomona.representations.tre.design import FloatArray
from pomona.representations.tre.learned import fit_learned
from pomona.representations.tre.problem import Layer, Problem
from pomona.representations.tre.recursion import Parameters

CONVEX = ("sql2", "l2", "l1", "crossentropy")  # convex in the prediction, so additive fits have no other minima
REORDERED = 20_000  # up to this many items, additive cosine fits see the rows in canonical order


@dataclass(frozen=True, eq=False)
class Solution:
    """What a solver found, in the order of the caller's rows."""

    vectors: FloatArray  # the lexicon, [primitives, numbers]
    parameters: Parameters
    per_item: FloatArray  # the distance of each item
    scores: list[float]  # the mean distance that each start reached
    slope: float | None  # largest entry of the gradient
    proved: float | None  # the solver's own lower bound on the summed distance, if it has one

    @property
    def score(self) -> float:
        return float(self.per_item.mean())


def solve(layers: Sequence[Layer], problem: Problem, *, seed: int = 0, limit: int = 400) -> list[Solution]:
    """Fit every layer to the same derivations.

    `limit` is the number of iterations for each start of a learned composition; the best start then gets five times
    as many.
    """
    if isinstance(problem.composition, Add):
        return _solve_additive(layers, problem, seed)
    return [_solve_learned(layer, problem, seed, limit) for layer in layers]


def _solve_additive(layers: Sequence[Layer], problem: Problem, seed: int) -> list[Solution]:
    """Start from least squares, and from random lexicons where more starts are asked for and could matter."""
    distance, derivations = layers[0].distance, problem.derivations
    convex = distance.name in CONVEX
    design, targets = derivations.counts, [layer.targets for layer in layers]
    orders = [None] * len(layers)
    if not convex and len(derivations) <= REORDERED:
        orders = [canonical_order(layer, derivations) for layer in targets]
        design = derivations.canonical.counts
        targets = [layer[order] for layer, order in zip(targets, orders, strict=True)]
    best = fit_layers(design, targets, distance)
    scores = [[float(fit.per_item.mean())] for fit in best]
    for start in range(1, 1 if convex else (problem.restarts or 1)):
        for which, layer in enumerate(targets):
            lexicon = np.random.default_rng([seed, start]).normal(size=(design.columns, layer.shape[1]))
            other = fit_linear(design, layer, distance, start=lexicon)
            scores[which].append(float(other.per_item.mean()))
            if scores[which][-1] < float(best[which].per_item.mean()):
                best[which] = other
    return [
        Solution(fit.lexicon, Parameters(), _put_back(fit.per_item, order), reached, fit.gradient_norm, fit.lower_bound)
        for fit, order, reached in zip(best, orders, scores, strict=True)
    ]


def _solve_learned(layer: Layer, problem: Problem, seed: int, limit: int) -> Solution:
    order = canonical_order(layer.targets, problem.derivations)
    fit = fit_learned(
        replace(layer, targets=layer.targets[order]),
        replace(problem, derivations=problem.derivations.canonical),
        seed=seed,
        limit=limit,
    )
    per_item = _put_back(fit.per_item, order)
    return Solution(fit.lexicon, fit.parameters, per_item, list(fit.starts), fit.gradient_norm, fit.lower)


def _put_back(per_item: FloatArray, order: Any) -> FloatArray:
    """Undo a reordering of the rows."""
    if order is None:
        return per_item
    back = np.empty(len(order))
    back[order] = per_item
    return back
