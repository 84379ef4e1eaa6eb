"""Additive fits: the prediction is P = C E, linear in the lexicon E. One solver for each distance.

    sql2          normal equations; exact
    l2            reweighted least squares, accelerated; convex, with a lower bound by duality
    cosine        the same method, started from least squares on unit vectors; not convex, so "best found"
    l1            linear programmes (`least_deviations`), or smoothing where they would be too large
    crossentropy  L-BFGS on the logits; convex, with a bound by duality where the data are not separable
    your own      L-BFGS with your gradient

C is the items x primitives matrix of counts. At the l2 minimum, C' diag(1 / |r|) C E = C' diag(1 / |r|) Y with
residuals r, and cosine has an equation of the same form. The step to the next iterate is -H^{-1} gradient with
H = C' diag(curvature) C. One quasi-Newton loop (`descent`) that starts from this H serves both, and takes a third of
the iterations of either method alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pomona.base.arrays import Floats, Ints
from pomona.base.compiled import summed
from pomona.representations.tre.cosine import TOGETHER, fit_cosine
from pomona.representations.tre.descent import Evaluation, Stop, descend
from pomona.representations.tre.design import DENSE_COLUMNS, Design, FloatArray, LinearFit, gather
from pomona.representations.tre.distances import CrossEntropy, Distance
from pomona.representations.tre.least_deviations import dual_bound, least_deviations

DENSE_ENTRIES = 20_000_000  # the largest items x columns matrix that the linear programmes may hold


def fit_linear(
    design: Design,
    targets: Floats,
    distance: Distance,
    *,
    start: FloatArray | None = None,
    tolerance: float = 1e-9,
    limit: int = 500,
    bounded: bool = True,
) -> LinearFit:
    """The lexicon E that minimises the summed distance between C E and the targets.

    Without `bounded`, a bound that would cost extra time is not computed and is None.
    """
    if distance.name == "l2":
        return _norm(design, targets, tolerance, limit, bounded)
    if distance.name == "l1":
        return _absolute(design, targets, distance)
    if distance.name not in ("sql2", "cosine"):
        return _smooth(design, targets, distance, start, tolerance)
    return fit_layers(design, [targets], distance, start=start, tolerance=tolerance, limit=limit)[0]


def fit_layers(
    design: Design, layers: Sequence[Floats], distance: Distance, *, start: FloatArray | None = None, **options: Any
) -> list[LinearFit]:
    """`fit_linear` for each of several targets; squared l2 and cosine share work between them."""
    if distance.name == "cosine":
        return fit_cosine(design, layers, start=start, **options)
    if distance.name != "sql2":
        return [fit_linear(design, layer, distance, start=start, **options) for layer in layers]
    if len(layers) > 1 and sum(layer.size for layer in layers) <= TOGETHER:
        return _squared(design, np.concatenate(layers, axis=1), [layer.shape[1] for layer in layers])
    return [fit for layer in layers for fit in _squared(design, np.ascontiguousarray(layer), [layer.shape[1]])]


def _squared(design: Design, targets: Floats, widths: Sequence[int]) -> list[LinearFit]:
    """Layers concatenated side by side are further right-hand sides of the same normal equations."""
    right = design.transposed_times(targets)
    lexicon = design.solve(right)
    end = np.cumsum(widths)
    # Large data in single precision are compared with their predictions in single precision, twice as fast.
    kind = targets.dtype if targets.size > TOGETHER else np.dtype(np.float64)
    weight, single = design.weight.astype(kind, copy=False), lexicon.astype(kind, copy=False)
    errors = _squared_residuals(design.first, design.column, weight, single, targets, end)
    slope = None
    if design.columns <= DENSE_COLUMNS:
        slope = 2.0 * np.abs(design.gram @ lexicon - right).max(axis=0) / len(design)
    fits = []
    for low, high, per_item in zip(end - widths, end, errors, strict=True):
        steepest = None if slope is None else float(slope[low:high].max())
        fits.append(LinearFit(np.ascontiguousarray(lexicon[:, low:high]), per_item, float(per_item.sum()), steepest, 1))
    return fits


@dataclass(frozen=True, eq=False)
class NormObjective:
    """The sum of |p - y| for one layer, with corners rounded off at `corner`."""

    design: Design
    targets: Floats
    corner: float

    rounding: ClassVar[float] = 1e-14

    def evaluate(self, lexicon: FloatArray) -> Evaluation:
        design = self.design
        size, grad = _norm_pass(
            design.first, design.column, design.weight, lexicon[:, 0].copy(), self.targets, self.corner
        )
        return Evaluation(size.sum(keepdims=True), grad[:, None], 1.0 / size[:, None], size[:, None])

    def keep(self, layers: Any) -> NormObjective:
        return self


def _norm(design: Design, targets: Floats, tolerance: float, limit: int, bounded: bool) -> LinearFit:
    targets = np.ascontiguousarray(targets)
    lexicon = design.solve(design.transposed_times(targets))
    scale = max(float(np.sqrt(np.einsum("nd,nd->", targets, targets, dtype=np.float64) / len(design))), 1e-100)
    slope, iterations, bound = 0.0, 0, 0.0
    # A row that is fitted exactly is a corner of the objective, where plain reweighting stalls, so corners are rounded
    # off, less and less. A coarser stage converges further and may prove a better bound, so each stage computes one.
    widths = (1e-2, 1e-4, 1e-6, 1e-8, 1e-10)
    for width in widths:
        objective = NormObjective(design, targets, width * scale)
        moved, end, more = descend(design, objective, lexicon[:, None], items=len(design), stop=Stop(tolerance, limit))
        lexicon, slope = np.ascontiguousarray(moved[:, 0]), float(np.abs(end.grad).max()) / len(design)
        iterations += int(more[0])
        if bounded and (width == widths[-1] or len(design) * targets.shape[1] <= 1_000_000):
            bound = max(bound, _norm_bound(design, targets, lexicon, end.curvature[:, 0]))
    residual = np.asarray(targets - design.times(lexicon), np.float64)
    exact = np.sqrt(np.einsum("nd,nd->n", residual, residual))
    return LinearFit(lexicon, exact, min(bound, float(exact.sum())) if bounded else None, slope, iterations)


def _norm_bound(design: Design, targets: Floats, lexicon: FloatArray, curvature: FloatArray) -> float:
    """By duality: any W with C'W = 0 and rows of norm at most 1 proves the bound sum W.Y. Here W is r / |r|."""
    pull = np.asarray(targets - design.times(lexicon), np.float64) * curvature[:, None]
    pull -= design.times(design.solve(design.transposed_times(pull)))
    top = max(1.0, float(np.sqrt(np.einsum("nd,nd->n", pull, pull).max())))
    return max(float(np.einsum("nd,nd->", pull, targets)) / top, 0.0)


def _absolute(design: Design, targets: Floats, distance: Distance) -> LinearFit:
    if len(design) * design.columns <= DENSE_ENTRIES and design.columns <= DENSE_COLUMNS:
        lexicon, bound = least_deviations(design, targets)
        return LinearFit(lexicon, distance.per_item(design.times(lexicon), targets), bound, None, 1)
    lexicon = design.solve(design.transposed_times(targets))
    scale = float(np.abs(targets).mean())
    iterations = 0
    for width in (0.1, 0.01, 1e-3, 1e-4):
        lexicon, _, more = _quasi_newton(design, targets, distance, lexicon, width * scale, 1e-8, 200)
        iterations += more
    predictions = design.times(lexicon)
    _, sign = distance.smoothed(predictions, targets, 1e-4 * scale)
    bound = dual_bound(design, targets, -sign)
    return LinearFit(lexicon, distance.per_item(predictions, targets), bound, None, iterations)


def _smooth(
    design: Design, targets: Floats, distance: Distance, start: FloatArray | None, tolerance: float
) -> LinearFit:
    wanted: FloatArray = np.asarray(targets, np.float64)
    lexicon = design.solve(design.transposed_times(wanted)) if start is None else start
    lexicon, slope, iterations = _quasi_newton(design, wanted, distance, lexicon, 0.0, tolerance, 2000)
    predictions = design.times(lexicon)
    bound = _entropy_bound(design, wanted, predictions, distance) if isinstance(distance, CrossEntropy) else None
    return LinearFit(lexicon, distance.per_item(predictions, wanted), bound, slope, iterations)


def _entropy_bound(design: Design, targets: FloatArray, logits: FloatArray, distance: CrossEntropy) -> float | None:
    """By the dual of logistic regression: any Q >= 0 with C'Q = C'Y proves the sum of the entropies of Q."""
    _, slope = distance.smoothed(logits, targets, 0.0)
    guess = slope + targets  # softmax(p)
    guess -= design.times(design.solve(design.transposed_times(slope)))
    if guess.min() < 0.0:
        return None
    return float(-np.where(guess > 0, guess * np.log(np.where(guess > 0, guess, 1.0)), 0.0).sum())


def _quasi_newton(
    design: Design, targets: Floats, distance: Distance, lexicon: FloatArray, width: float, tolerance: float, limit: int
) -> tuple[FloatArray, float, int]:
    from scipy.optimize import minimize

    def objective(flat: FloatArray) -> tuple[float, FloatArray]:
        total, grad = distance.smoothed(design.times(flat.reshape(lexicon.shape)), targets, width)
        return total / len(design), design.transposed_times(grad).ravel() / len(design)

    settings = {"maxiter": limit, "maxcor": 20, "gtol": tolerance, "ftol": 1e-15}
    result = minimize(objective, lexicon.ravel(), jac=True, method="L-BFGS-B", options=settings)
    return result.x.reshape(lexicon.shape), float(np.abs(result.jac).max()), int(result.nit)


@summed
def _squared_residuals(
    first: Ints, column: Ints, weight: Floats, lexicon: Floats, targets: Floats, ends: Ints
) -> FloatArray:
    """|p - y|^2, [layers, items]; the numbers of a layer end at ends[layer]."""
    out = np.zeros((len(ends), len(targets)))
    guess = np.empty_like(lexicon[0])
    zero = np.zeros_like(lexicon[0, :1])
    for i in range(len(targets)):
        gather(guess, first[i], first[i + 1], column, weight, lexicon)
        row = targets[i]
        low = 0
        for layer in range(len(ends)):
            total = zero[0]
            own, its = guess[low : ends[layer]], row[low : ends[layer]]  # counted from 0, the sum is vectorised
            for j in range(len(own)):
                total += (own[j] - its[j]) * (own[j] - its[j])
            out[layer, i] = total
            low = ends[layer]
    return out


@summed
def _norm_pass(
    first: Ints, column: Ints, weight: Floats, lexicon: Floats, targets: Floats, corner: float
) -> tuple[FloatArray, FloatArray]:
    """|r| = |p - y| of each row, and the gradient C' r / |r| of their sum."""
    grad = np.zeros(lexicon.shape)
    guess = np.empty(lexicon.shape[1])
    sizes = np.empty(len(targets))
    for i in range(len(targets)):
        gather(guess, first[i], first[i + 1], column, weight, lexicon)
        row = targets[i]
        square = corner * corner
        for j in range(len(guess)):
            guess[j] -= row[j]
            square += guess[j] * guess[j]
        size = np.sqrt(square)
        sizes[i] = size
        for entry in range(first[i], first[i + 1]):
            slope, w = grad[column[entry]], weight[entry] / size
            for j in range(len(guess)):
                slope[j] += w * guess[j]
    return sizes, grad
