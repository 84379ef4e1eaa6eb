"""Additive fits under cosine, for any number of layers over the same derivations.

    fits = fit_cosine(design, [layer_1, layer_2, ...])

At a minimum, C' diag(c / |p|^2) C E = C' diag(1 / |p|) Y: reweighted least squares, with predictions p and cosines c.
Cosine ignores scale, so the square root of the number of parts is a fair guess of |p| for every layer. With this guess
the weights are known before any fit, and one Gram matrix, factorised once, gives every layer its start and `descent`
its first Hessian.

Items with the same parts get the same prediction. If u is its direction and s the sum of the m unit vectors of such
items, their distances sum to m - u.s. So equal items are added up first, and no lexicon scores below sum (m - |s|).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from pomona.base.arrays import Floats, Ints
from pomona.base.compiled import compiled, summed
from pomona.representations.tre.descent import Evaluation, Shared, Stop, descend
from pomona.representations.tre.design import DENSE_COLUMNS, Design, FloatArray, LinearFit, gather

TOGETHER = 2_000_000  # layers of up to this many numbers are copied side by side; larger ones are fitted one by one
SINGLE = 20_000  # from this many rows, data in single precision are compared with predictions in single precision
LARGE_DECREASE = 2e-8  # a large layer stops when the next step would lower its score by less than this share

_FACTORS: WeakKeyDictionary[Design, Shared] = WeakKeyDictionary()  # all layers over one design start from one factor


@dataclass(frozen=True, eq=False)
class CosineObjective:
    """Rows [rows, layers, numbers]: unit vectors after scaling, or sums of `times` unit vectors."""

    design: Design
    rows: Floats
    scale: FloatArray  # [rows, layers]
    times: FloatArray  # [rows]

    @property
    def precision(self) -> Any:
        """Single precision is twice as fast; its errors average out over many rows."""
        return np.float32 if self.rows.dtype == np.float32 and len(self.rows) >= SINGLE else np.float64

    @property
    def rounding(self) -> float:
        return 1e-9 if self.precision is np.float32 else 1e-14

    def evaluate(self, lexicon: FloatArray) -> Evaluation:
        design, kind = self.design, self.precision
        grad, curvature, each = _cosine_pass(
            design.first, design.column, design.weight.astype(kind, copy=False), lexicon.astype(kind, copy=False),
            self.rows, self.scale, self.times,
        )  # fmt: skip
        return Evaluation(each.sum(axis=0), grad.astype(np.float64, copy=False), curvature, each)

    def keep(self, layers: Any) -> CosineObjective:
        return CosineObjective(
            self.design, np.ascontiguousarray(self.rows[:, layers]), self.scale[:, layers].copy(), self.times
        )


def fit_cosine(
    design: Design,
    layers: Sequence[Floats],
    *,
    start: FloatArray | None = None,
    tolerance: float = 1e-9,
    limit: int = 500,
) -> list[LinearFit]:
    """The best lexicon found for each layer; small layers of one width descend together."""
    fits: list[LinearFit] = []
    room = max(TOGETHER // max(layers[0].size, 1), 1) if layers else 1
    while len(fits) < len(layers):
        batch = [layers[len(fits)]]
        for layer in layers[len(fits) + 1 : len(fits) + room]:
            if layer.shape != batch[0].shape:
                break
            batch.append(layer)
        fits += _fit_batch(design, batch, start, tolerance, limit)
    return fits


def _fit_batch(
    design: Design, layers: Sequence[Floats], start: FloatArray | None, tolerance: float, limit: int
) -> list[LinearFit]:
    layers = [np.ascontiguousarray(layer) for layer in layers]
    scale = np.stack([unit_sum(layer)[0] for layer in layers], axis=1)
    distinct, group, times = design.distinct
    copied = len(layers) > 1 or len(distinct) <= 0.8 * len(design) or layers[0].size <= TOGETHER
    if copied:
        rows = np.zeros((len(distinct), len(layers), layers[0].shape[1]))
        for position, layer in enumerate(layers):
            _add_up(layer, scale[:, position].copy(), group, rows, position)
        objective = CosineObjective(distinct, rows, np.ones(rows.shape[:2]), times)
        bound = np.maximum(len(design) - np.linalg.norm(rows, axis=2).sum(axis=0), 0.0)
    else:  # large, and hardly any equal rows to add up: do not copy the data
        objective = CosineObjective(design, layers[0][:, None], scale, np.ones(len(design)))
        bound = _bound(layers[0], scale[:, 0], group, times)
    shared, first = _start(objective)
    if start is not None:
        first = np.repeat(start[:, None], len(layers), axis=1)
    stop = Stop(tolerance, limit, 0.0 if copied else LARGE_DECREASE)
    lexicon, end, iterations = descend(objective.design, objective, first, items=len(design), stop=stop, shared=shared)
    # Cosine ignores scale, and some vectors do best by shrinking towards zero, so the gradient is reported per
    # relative change of each vector.
    slope = (np.abs(end.grad).max(axis=2) * np.linalg.norm(lexicon, axis=2)).max(axis=0) / len(design)
    fits = []
    for position, layer in enumerate(layers):
        chosen = np.ascontiguousarray(lexicon[:, position])
        errors = end.each[:, 0]  # the rows are the items, unless equal items were added up
        if copied:
            errors = _errors(design.first, design.column, design.weight, chosen, layer, scale[:, position].copy())
        steps = int(iterations[position])
        fits.append(LinearFit(chosen, errors, float(bound[position]), float(slope[position]), steps))
    return fits


def _start(objective: CosineObjective) -> tuple[Shared | None, FloatArray]:
    """The shared factor, and a least-squares start for each layer, with |p| guessed from the number of parts."""
    design, shape = objective.design, objective.rows.shape
    flat = objective.rows.reshape(len(design), -1)
    plain = shape[1] == 1  # a single layer may be unscaled; layers side by side hold sums of unit vectors
    scale = objective.scale[:, 0] if plain else np.ones(len(design))
    if design.columns > DENSE_COLUMNS:
        right = design.transposed_times(flat, scale)
        return None, design.solve(right).reshape(-1, *shape[1:])
    parts = np.maximum(np.diff(np.concatenate([[0.0], np.cumsum(design.weight**2)])[design.first]), 1e-9)
    parts /= parts.mean()
    if design not in _FACTORS:
        _FACTORS[design] = Shared.of(design, objective.times / parts)
    shared = _FACTORS[design]
    right = design.transposed_times(flat, scale / np.sqrt(parts))
    return shared, shared.solve(right).reshape(-1, *shape[1:])


def _bound(layer: Floats, scale: FloatArray, group: Ints, times: FloatArray) -> FloatArray:
    """sum (m - |s|) over the groups of items with equal parts."""
    repeated = np.flatnonzero(times[group] > 1)
    which, inside = np.unique(group[repeated], return_inverse=True)
    sums = np.zeros((len(which), 1, layer.shape[1]))
    _add_up(layer[repeated], scale[repeated], inside.ravel(), sums, 0)
    return np.asarray(np.maximum(len(repeated) - np.linalg.norm(sums, axis=2).sum(axis=0), 0.0))


@summed
def unit_sum(rows: Floats) -> tuple[FloatArray, FloatArray]:
    """1 / |y| of each row, and the sum of y / |y|."""
    inverse = np.empty(len(rows))
    total = np.zeros(rows.shape[1])
    for i in range(len(rows)):
        row = rows[i]
        square = 0.0
        for j in range(len(row)):
            square += np.float64(row[j]) * np.float64(row[j])
        inverse[i] = 1.0 / np.sqrt(square)
        for j in range(len(row)):
            total[j] += inverse[i] * row[j]
    return inverse, total


def unit_sums(rows: Floats, group: Ints) -> FloatArray:
    """The sum of y / |y| over the rows of each group."""
    sums = np.zeros((int(group.max()) + 1, 1, rows.shape[1]))
    _add_up(np.ascontiguousarray(rows), unit_sum(rows)[0], group, sums, 0)
    return sums[:, 0]


@compiled
def _add_up(rows: Floats, scale: Floats, group: Ints, sums: Floats, layer: int) -> None:
    for i in range(len(rows)):
        row, into = rows[i], sums[group[i], layer]
        for j in range(len(row)):
            into[j] += scale[i] * row[j]


@summed
def _cosine_pass(
    first: Ints, column: Ints, weight: Floats, lexicon: Floats, rows: Floats, scale: Floats, times: Floats
) -> tuple[Floats, FloatArray, FloatArray]:
    """For each layer: the gradient -C'[(y - c u) / |p|], each row's curvature c / |p|^2, and its term times - c."""
    layers, width = rows.shape[1], rows.shape[2]
    flat = lexicon.reshape(len(lexicon), layers * width)
    grad = np.zeros_like(flat)
    guess = np.empty_like(flat[0])
    curvature = np.empty((len(rows), layers))
    each = np.empty((len(rows), layers))
    factor = np.empty_like(flat[0, :2])  # numbers in the precision of the rows
    for i in range(len(rows)):
        gather(guess, first[i], first[i + 1], column, weight, flat)
        for layer in range(layers):
            own, row, unit = guess[layer * width : (layer + 1) * width], rows[i, layer], scale[i, layer]
            factor[:] = 0.0
            square, dot = factor[0], factor[1]
            for j in range(width):
                square += own[j] * own[j]
                dot += own[j] * row[j]
            size = max(np.sqrt(np.float64(square)), 1e-150)
            cosine = dot * unit / size
            each[i, layer] = times[i] - cosine
            curvature[i, layer] = max(cosine, 1e-3 * times[i]) / size**2
            factor[0], factor[1] = cosine / size**2, unit / size
            radial, lateral = factor[0], factor[1]
            for j in range(width):
                own[j] = radial * own[j] - lateral * row[j]
        for entry in range(first[i], first[i + 1]):
            slope, w = grad[column[entry]], weight[entry]
            for j in range(len(guess)):
                slope[j] += w * guess[j]
    return grad.reshape(lexicon.shape), curvature, each


@summed
def _errors(first: Ints, column: Ints, weight: Floats, lexicon: Floats, rows: Floats, scale: Floats) -> FloatArray:
    """1 - cosine of each row."""
    out = np.empty(len(rows))
    guess = np.empty(lexicon.shape[1])
    for i in range(len(rows)):
        gather(guess, first[i], first[i + 1], column, weight, lexicon)
        row = rows[i]
        square, dot = 0.0, 0.0
        for j in range(len(guess)):
            square += guess[j] * guess[j]
            dot += guess[j] * np.float64(row[j])
        out[i] = 1.0 - dot * scale[i] / max(np.sqrt(square), 1e-150)
    return out
