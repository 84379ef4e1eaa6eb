"""Solvers for predictions that are linear in the lexicon, P = C E: one for each distance, each with its proof.

    sql2          normal equations; exact
    l2            reweighted least squares, accelerated; convex, with a bound by duality
    cosine        the same method from a least-squares start on unit vectors; not convex, so "best found"
    l1            linear programmes (`least_deviations`); smoothing where they would be too large
    crossentropy  L-BFGS on the logits; convex, with a bound by duality where the data are not separable
    your own      L-BFGS with your gradient

For cosine, stationarity reads C' diag(c / |p|^2) C E = C' diag(1 / |p|) Y (spec 2f), and for l2
C' diag(1 / |r|) C E = C' diag(1 / |r|) Y. Both say: the step to the next iterate is -H^{-1} gradient with
H = C' diag(curvature) C. So one quasi-Newton loop, with that H as its first guess of the Hessian and an Armijo search
for safety, serves both; it takes a third of the iterations of either method alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pomona.compiled import Floats, Ints, compiled
from pomona.reconstruction.design import DENSE_COLUMNS, Design, FloatArray
from pomona.reconstruction.distances import CrossEntropy, Distance
from pomona.reconstruction.least_deviations import dual_bound, least_deviations

DENSE_ENTRIES = 20_000_000  # the largest items x columns design that the linear programmes hold densely

Pass = Callable[[FloatArray], tuple[float, FloatArray, FloatArray]]


@dataclass(frozen=True, eq=False)
class LinearFit:
    """A fitted lexicon; the bound is on the sum over items, None where the distance offers none."""

    lexicon: FloatArray  # [columns, numbers]
    per_item: FloatArray
    lower_bound: float | None
    gradient_norm: float | None  # of the mean over items, largest entry; None where there are corners
    iterations: int


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

    Without `bounded`, no time goes into a bound that costs extra; the bound may then be None.
    """
    if distance.name == "sql2":
        return _squared(design, targets)
    if distance.name == "l2":
        return _norm(design, targets, tolerance, limit, bounded)
    if distance.name == "cosine":
        return _cosine(design, targets, start, tolerance, limit)
    if distance.name == "l1":
        return _absolute(design, targets, distance)
    return _smooth(design, targets, distance, start, tolerance)


def _squared(design: Design, targets: Floats) -> LinearFit:
    right = design.transposed_times(targets)
    lexicon = design.solve(right)
    per_item = _squared_residuals(design.first, design.column, design.weight, lexicon, np.ascontiguousarray(targets))
    slope = None
    if design.columns <= DENSE_COLUMNS:
        slope = 2.0 * float(np.abs(design.gram @ lexicon - right).max()) / len(design)
    return LinearFit(lexicon, per_item, float(per_item.sum()), slope, 1)


def _norm(design: Design, targets: Floats, tolerance: float, limit: int, bounded: bool) -> LinearFit:
    targets = np.ascontiguousarray(targets)
    lexicon = design.solve(design.transposed_times(targets))
    per_item = np.empty(len(design))
    curvature = np.empty(len(design))
    scale = max(float(np.sqrt(np.einsum("nd,nd->", targets, targets, dtype=np.float64) / len(design))), 1e-100)
    slope, iterations, bound = 0.0, 0, 0.0
    # Rows that are met exactly are corners, where plain reweighting stalls; so round them off, ever less. A coarser
    # stage converges further and may prove more, so each one is asked for its bound.
    widths = (1e-2, 1e-4, 1e-6, 1e-8, 1e-10)
    for width in widths:

        def evaluate(at: FloatArray, corner: float = width * scale) -> tuple[float, FloatArray, FloatArray]:
            total, grad = _norm_pass(
                design.first, design.column, design.weight, at, targets, corner, per_item, curvature
            )
            return total, grad, curvature

        lexicon, slope, more = _descend(design, evaluate, lexicon, tolerance, limit)
        iterations += more
        if bounded and (width == widths[-1] or len(design) * targets.shape[1] <= 1_000_000):
            evaluate(lexicon)
            bound = max(bound, _norm_bound(design, targets, lexicon, curvature))
    residual = np.asarray(targets - design.times(lexicon), np.float64)
    exact = np.sqrt(np.einsum("nd,nd->n", residual, residual))
    return LinearFit(lexicon, exact, min(bound, float(exact.sum())) if bounded else None, slope, iterations)


def _norm_bound(design: Design, targets: Floats, lexicon: FloatArray, curvature: FloatArray) -> float:
    """The dual of l2: any W with C'W = 0 and rows of norm at most 1 proves sum W.Y; we try W = r / |r|."""
    pull = np.asarray(targets - design.times(lexicon), np.float64) * curvature[:, None]
    pull -= design.times(design.solve(design.transposed_times(pull)))
    top = max(1.0, float(np.sqrt(np.einsum("nd,nd->n", pull, pull).max())))
    return max(float(np.einsum("nd,nd->", pull, targets)) / top, 0.0)


def _cosine(design: Design, targets: Floats, start: FloatArray | None, tolerance: float, limit: int) -> LinearFit:
    targets = np.ascontiguousarray(targets)
    inverse = 1.0 / np.sqrt(np.einsum("nd,nd->n", targets, targets, dtype=np.float64))
    lexicon = design.solve(design.transposed_times(targets, inverse)) if start is None else start
    per_item = np.empty(len(design))
    curvature = np.empty(len(design))

    def evaluate(at: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        total, grad = _cosine_pass(
            design.first, design.column, design.weight, at, targets, inverse, per_item, curvature
        )
        return total, grad, curvature

    lexicon, _, iterations = _descend(design, evaluate, lexicon, tolerance, limit)
    _, grad, _ = evaluate(lexicon)
    # Directions have no scale of their own, and some vectors may do best by shrinking towards zero; so the gradient
    # reported is per relative change of each vector.
    slope = float((np.abs(grad).max(axis=1) * np.linalg.norm(lexicon, axis=1)).max()) / len(design)
    return LinearFit(lexicon, per_item, None, slope, iterations)


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
    """The dual of logistic regression: any Q >= 0 with C'Q = C'Y proves sum of entropies of Q as a lower bound."""
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
    found = minimize(objective, lexicon.ravel(), jac=True, method="L-BFGS-B", options=settings)
    return found.x.reshape(lexicon.shape), float(np.abs(found.jac).max()), int(found.nit)


def _descend(
    design: Design, evaluate: Pass, lexicon: FloatArray, tolerance: float, limit: int, memory: int = 12
) -> tuple[FloatArray, float, int]:
    """L-BFGS whose first Hessian is C' diag(curvature) C, refreshed ever more rarely as the curvature settles."""
    items = len(design)
    value, grad, curvature = evaluate(lexicon)
    metric = _metric(design, curvature)
    pairs: list[tuple[FloatArray, FloatArray, float]] = []
    done = 0
    for done in range(1, limit + 1):
        if float(np.abs(grad).max()) <= tolerance * items:
            return lexicon, float(np.abs(grad).max()) / items, done - 1
        direction = -_two_loop(grad, pairs, metric)
        slope = float(np.vdot(direction, grad))
        if abs(slope) <= 1e-6 * tolerance * items:  # what a full step would gain is below the digits of the score
            break
        if slope >= 0.0:  # the memory has gone stale: fall back to the reweighted least-squares step
            pairs.clear()
            direction = -metric(grad)
            slope = float(np.vdot(direction, grad))
        step = 1.0
        for _ in range(30):
            ahead = lexicon + step * direction
            value_ahead, grad_ahead, curvature = evaluate(ahead)
            if value_ahead <= value + 1e-4 * step * slope + 1e-14 * abs(value):
                break
            step *= 0.5
        else:
            if not pairs:
                break
            pairs.clear()
            continue
        moved, changed = ahead - lexicon, grad_ahead - grad
        bend = float(np.vdot(moved, changed))
        if bend > 1e-14 * float(np.linalg.norm(moved)) * float(np.linalg.norm(changed)):
            pairs.append((moved, changed, bend))
            del pairs[:-memory]
        lexicon, value, grad = ahead, value_ahead, grad_ahead
        if design.columns <= 256 or done & (done - 1) == 0:
            metric = _metric(design, curvature)
    return lexicon, float(np.abs(grad).max()) / items, done


def _two_loop(
    grad: FloatArray, pairs: list[tuple[FloatArray, FloatArray, float]], metric: Callable[..., FloatArray]
) -> FloatArray:
    """The L-BFGS recursion: apply the inverse Hessian that the last moves and gradient changes imply."""
    rest = grad.copy()
    weights = []
    for moved, changed, bend in reversed(pairs):
        weight = float(np.vdot(moved, rest)) / bend
        weights.append(weight)
        rest -= weight * changed
    rest = metric(rest)
    for (moved, changed, bend), weight in zip(pairs, reversed(weights), strict=True):
        rest += (weight - float(np.vdot(changed, rest)) / bend) * moved
    return rest


def _metric(design: Design, curvature: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """Multiplication by (C' diag(curvature) C)^{-1}, with a ridge for directions that the data leave open."""
    from scipy.linalg import cho_factor, cho_solve

    if design.columns > DENSE_COLUMNS:
        diagonal = np.bincount(
            design.column,
            design.weight**2 * np.repeat(curvature, np.diff(design.first)),
            minlength=design.columns,
        )
        inverse = 1.0 / np.maximum(diagonal, diagonal.max() * 1e-9)
        return lambda right: np.asarray(inverse[:, None] * right)
    gram = design.weighted_gram(curvature)
    gram.flat[:: len(gram) + 1] += 1e-9 * float(gram.diagonal().max())
    factor = cho_factor(gram, lower=True, overwrite_a=True, check_finite=False)
    return lambda right: np.ascontiguousarray(cho_solve(factor, right, check_finite=False))


@compiled
def _squared_residuals(first: Ints, column: Ints, weight: Floats, lexicon: Floats, targets: Floats) -> FloatArray:
    width = lexicon.shape[1]
    out = np.empty(len(first) - 1)
    guess = np.empty(width)
    for row in range(len(first) - 1):
        for j in range(width):
            guess[j] = -targets[row, j]
        for entry in range(first[row], first[row + 1]):
            k, w = column[entry], weight[entry]
            for j in range(width):
                guess[j] += w * lexicon[k, j]
        out[row] = np.dot(guess, guess)
    return out


@compiled
def _cosine_pass(
    first: Ints,
    column: Ints,
    weight: Floats,
    lexicon: Floats,
    targets: Floats,
    inverse: Floats,
    per_item: Floats,
    curvature: Floats,
) -> tuple[float, FloatArray]:
    """Sum of 1 - cosine, its gradient -C'[(y - c u) / |p|], and the curvature c / |p|^2 of each row."""
    width = lexicon.shape[1]
    grad = np.zeros(lexicon.shape)
    guess = np.empty(width)
    unit = np.empty(width)
    total = 0.0
    for row in range(len(first) - 1):
        guess[:] = 0.0
        for entry in range(first[row], first[row + 1]):
            k, w = column[entry], weight[entry]
            for j in range(width):
                guess[j] += w * lexicon[k, j]
        scale = inverse[row]
        for j in range(width):
            unit[j] = targets[row, j] * scale
        size = max(np.sqrt(np.dot(guess, guess)), 1e-150)
        cosine = np.dot(guess, unit) / size
        per_item[row] = 1.0 - cosine
        total += 1.0 - cosine
        curvature[row] = max(cosine, 1e-3) / size**2
        radial, lateral = cosine / size**2, 1.0 / size
        for j in range(width):
            guess[j] = radial * guess[j] - lateral * unit[j]
        for entry in range(first[row], first[row + 1]):
            k, w = column[entry], weight[entry]
            for j in range(width):
                grad[k, j] += w * guess[j]
    return total, grad


@compiled
def _norm_pass(
    first: Ints,
    column: Ints,
    weight: Floats,
    lexicon: Floats,
    targets: Floats,
    corner: float,
    per_item: Floats,
    curvature: Floats,
) -> tuple[float, FloatArray]:
    """Sum of |p - y|, its gradient C' r / |r|, and the curvature 1 / |r| of each row."""
    width = lexicon.shape[1]
    grad = np.zeros(lexicon.shape)
    guess = np.empty(width)
    total = 0.0
    for row in range(len(first) - 1):
        for j in range(width):
            guess[j] = -targets[row, j]
        for entry in range(first[row], first[row + 1]):
            k, w = column[entry], weight[entry]
            for j in range(width):
                guess[j] += w * lexicon[k, j]
        size = np.sqrt(np.dot(guess, guess) + corner * corner)
        per_item[row] = size
        total += size
        curvature[row] = 1.0 / size
        for entry in range(first[row], first[row + 1]):
            k, w = column[entry], weight[entry] / size
            for j in range(width):
                grad[k, j] += w * guess[j]
    return total, grad
