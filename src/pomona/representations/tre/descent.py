"""One quasi-Newton loop for the smooth additive fits, over any number of layers at once.

    lexicon, end, iterations = descend(design, objective, start, items=550, stop=Stop(gradient=1e-9, limit=500))

Lexicons are [columns, layers, numbers]: the layers of a network lie side by side, so each iteration is one pass over
the design, one solve and a few array operations for all of them. Every layer has its own step, memory and stopping
point, so it moves as it would alone. Layers that have converged are dropped once they are half of those in the arrays.

The first guess of the Hessian is H = C' diag(curvature) C. It is either `Shared`, one factor for all layers and
iterations with a scale for each layer, which is enough in most cases; or, after PATIENCE iterations, a factor for each
layer, recomputed as the curvature changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Floats, Ints
from pomona.base.compiled import compiled, summed
from pomona.representations.tre.design import DENSE_COLUMNS, Design, FloatArray

PATIENCE = 32  # iterations with the shared factor before each layer gets its own factor
SMALL = 256  # up to this many columns a factor is inverted, and recomputed at every iteration
MEMORY = 12  # how many moves the quasi-Newton recursion remembers

Metric = Callable[[FloatArray], FloatArray]  # multiplication by H^{-1}, [columns, layers, numbers]


class Evaluation(NamedTuple):
    """A function at one lexicon for each layer."""

    value: FloatArray  # [layers]: the sum over rows
    grad: FloatArray  # [columns, layers, numbers]
    curvature: FloatArray  # [rows, layers]
    each: FloatArray  # [rows, layers]: the terms that add up to the value

    def only(self, layers: npt.NDArray[np.bool_]) -> Evaluation:
        return Evaluation(self.value[layers], self.grad[:, layers], self.curvature[:, layers], self.each[:, layers])


class Objective(Protocol):
    """A function to minimise, with one value for each layer."""

    @property
    def rounding(self) -> float:
        """How far a value can be off, as a share of it, because of rounding."""
        ...

    def evaluate(self, lexicon: FloatArray) -> Evaluation: ...

    def keep(self, layers: npt.NDArray[np.bool_]) -> Objective:
        """The same function for some of its layers."""
        ...


@dataclass(frozen=True, eq=False)
class Shared:
    """H = scale * C' diag(weight) C with one weight for each row, whatever the layer."""

    weight: FloatArray  # [rows]
    factor: Any  # of C' diag(weight) C

    @staticmethod
    def of(design: Design, weight: FloatArray) -> Shared:
        return Shared(weight, _factor(design.weighted_gram(weight)))

    @cached_property
    def _single(self) -> Any:
        """The factor in single precision, which is enough for a first guess of the Hessian."""
        if isinstance(self.factor, np.ndarray):
            return self.factor
        return self.factor[0].astype(np.float32), self.factor[1]

    def solve(self, right: FloatArray) -> FloatArray:
        """(C' diag(weight) C)^{-1} B for [columns, numbers] or [columns, layers, numbers]."""
        return _solve(self.factor, right.reshape(len(right), -1)).reshape(right.shape)

    def metric(self, curvature: FloatArray) -> Metric:
        scale = (curvature / self.weight[:, None]).mean(axis=0)[:, None]
        kind = np.float64 if isinstance(self._single, np.ndarray) else np.float32

        def multiply(right: FloatArray) -> FloatArray:
            flat = right.reshape(len(right), -1).astype(kind, copy=False)
            return np.asarray(_solve(self._single, flat).reshape(right.shape) / scale)

        return multiply


@dataclass(eq=False)
class Moves:
    """The last moves of every layer and the changes of the gradient along them; the oldest is overwritten."""

    moved: FloatArray  # [MEMORY, columns, layers, numbers]
    changed: FloatArray
    inverse: FloatArray  # [MEMORY, layers]: 1 / (move . change), or 0 for a move that a layer should ignore
    count: int = 0

    @staticmethod
    def like(lexicon: FloatArray) -> Moves:
        shape = (MEMORY, *lexicon.shape)
        return Moves(np.empty(shape), np.empty(shape), np.zeros((MEMORY, lexicon.shape[1])))

    def remember(self, lexicon: FloatArray, ahead: FloatArray, grad: FloatArray, grad_ahead: FloatArray) -> None:
        oldest = self.count % MEMORY
        moved = np.subtract(ahead, lexicon, out=self.moved[oldest])
        changed = np.subtract(grad_ahead, grad, out=self.changed[oldest])
        bend = dots(moved, changed)
        sound = bend > 1e-14 * np.sqrt(dots(moved, moved) * dots(changed, changed))
        self.inverse[oldest] = np.where(sound, 1.0 / np.where(sound, bend, 1.0), 0.0)
        self.count += 1

    def forget(self, layers: npt.NDArray[np.bool_]) -> None:
        self.inverse[:, layers] = 0.0

    def keep(self, layers: npt.NDArray[np.bool_]) -> Moves:
        return Moves(self.moved[:, :, layers], self.changed[:, :, layers], self.inverse[:, layers], self.count)

    def direction(self, grad: FloatArray, metric: Metric) -> FloatArray:
        """The L-BFGS direction: minus the gradient times the inverse Hessian that moves and changes imply."""
        rest = grad.copy()
        newest_first = np.arange(self.count - 1, max(self.count - MEMORY, 0) - 1, -1) % MEMORY
        weight = np.zeros(self.inverse.shape)
        _unwind(rest, self.moved, self.changed, self.inverse, newest_first, weight)
        rest = metric(rest)
        _rewind(rest, self.moved, self.changed, self.inverse, newest_first[::-1].copy(), weight)
        return np.negative(rest, out=rest)


@dataclass(frozen=True)
class Stop:
    """When a layer has converged, or has had its share of iterations."""

    gradient: float  # the largest entry of the mean's gradient is below this
    limit: int  # iterations
    decrease: float = 0.0  # or the next step would lower the value by less than this share of it


def descend(
    design: Design, objective: Objective, lexicon: FloatArray, *, items: int, stop: Stop, shared: Shared | None = None
) -> tuple[FloatArray, Evaluation, npt.NDArray[np.int64]]:
    """Minimise each layer from its start; returns the lexicons, the function there, and the iterations of each."""
    best = lexicon.copy()
    iterations = np.zeros(lexicon.shape[1], np.int64)
    active = np.arange(lexicon.shape[1])  # the layers still in the arrays below
    here = objective.evaluate(lexicon)
    end = here
    metric = shared.metric(here.curvature) if shared else _own_metric(design, here.curvature)
    moves = Moves.like(lexicon)
    stuck = np.zeros(len(active), np.bool_)
    for done in range(stop.limit + 1):
        stuck |= _largest(here.grad) <= stop.gradient * items
        if 2 * stuck.sum() >= len(stuck) or done == stop.limit:
            best[:, active] = lexicon
            end = _put(end, active, here)
            if stuck.all() or done == stop.limit:
                break
            if stuck.any():
                rest = ~stuck
                active, stuck, objective = active[rest], stuck[rest], objective.keep(rest)
                here, lexicon, moves = here.only(rest), lexicon[:, rest], moves.keep(rest)
                metric = shared.metric(here.curvature) if shared else _own_metric(design, here.curvature)
        direction = moves.direction(here.grad, metric)
        slope = dots(direction, here.grad)
        stuck |= np.abs(slope) <= 1e-6 * stop.gradient * items  # a full step would change nothing visible
        stuck |= np.abs(slope) <= 2.0 * stop.decrease * here.value  # a Newton step lowers the value by half its slope
        if stuck.all():
            best[:, active] = lexicon
            end = _put(end, active, here)
            break
        stale = (slope >= 0.0) & ~stuck  # the memory misleads: use the reweighted least-squares step instead
        if stale.any():
            moves.forget(stale)
            direction[:, stale] = -metric(here.grad)[:, stale]
            slope = dots(direction, here.grad)
        step, ahead, there = _search(objective, lexicon, direction, here.value, slope, stuck)
        failed = (step == 0.0) & ~stuck
        if failed.any():
            stuck |= failed & ~moves.inverse.any(axis=0)
            moves.forget(failed)
        iterations[active[~stuck]] = done + 1
        moves.remember(lexicon, ahead, here.grad, there.grad)
        lexicon, here = ahead, there
        if shared is not None and done >= PATIENCE:
            shared = None
        if shared is None and (design.columns <= SMALL or done & (done + 1) == 0):
            metric = _own_metric(design, here.curvature)
    return best, end, iterations


def _put(whole: Evaluation, layers: npt.NDArray[np.int64], part: Evaluation) -> Evaluation:
    """Enter the values of some layers."""
    if part.grad.shape[1] == whole.grad.shape[1]:
        return part
    for into, values in zip(whole, part, strict=True):
        into[(..., layers) if into.ndim < 3 else (slice(None), layers)] = values
    return whole


def _search(
    objective: Objective, lexicon: FloatArray, direction: FloatArray, value: FloatArray, slope: FloatArray, stuck: Any
) -> tuple[FloatArray, FloatArray, Evaluation]:
    """Halve each layer's step until it lowers the value enough; the step is 0 where none does."""
    step = np.where(stuck, 0.0, 1.0)
    for attempt in range(31):
        ahead = lexicon + step[:, None] * direction
        there = objective.evaluate(ahead)
        most = value + 1e-4 * step * slope + objective.rounding * np.abs(value)
        enough = (step == 0.0) | (there.value <= most)
        if enough.all():
            break
        step = np.where(enough, step, 0.5 * step if attempt < 29 else 0.0)
    return step, ahead, there


def _own_metric(design: Design, curvature: FloatArray) -> Metric:
    """C' diag(curvature) C for each layer separately, or its diagonal where there are too many columns."""
    each = [_one_metric(design, np.ascontiguousarray(column)) for column in curvature.T]
    return lambda right: np.stack([solve(right[:, layer]) for layer, solve in enumerate(each)], axis=1)


def _one_metric(design: Design, curvature: Floats) -> Metric:
    if design.columns > DENSE_COLUMNS:
        diagonal = np.bincount(
            design.column, design.weight**2 * np.repeat(curvature, np.diff(design.first)), minlength=design.columns
        )
        inverse = 1.0 / np.maximum(diagonal, diagonal.max() * 1e-9)
        return lambda right: np.asarray(inverse[:, None] * right)
    factor = _factor(design.weighted_gram(curvature))
    return lambda right: _solve(factor, right)


def _factor(gram: FloatArray) -> Any:
    """The Cholesky factor, with a ridge for directions that the data do not determine; an inverse if it is small."""
    from scipy.linalg import cho_factor, cho_solve

    gram.flat[:: len(gram) + 1] += 1e-9 * float(gram.diagonal().max())
    factor = cho_factor(gram, lower=True, overwrite_a=True, check_finite=False)
    if len(gram) > SMALL:
        return factor
    inverse = cho_solve(factor, np.eye(len(gram)), check_finite=False)
    return 0.5 * (inverse + inverse.T)


def _solve(factor: Any, right: Any) -> FloatArray:
    from scipy.linalg import cho_solve

    if isinstance(factor, np.ndarray):
        return np.asarray(factor @ right)
    return np.ascontiguousarray(cho_solve(factor, right, check_finite=False))


@summed
def dots(left: Floats, right: Floats) -> FloatArray:
    """One inner product for each layer."""
    columns, layers, width = left.shape
    out = np.zeros(layers)
    for v in range(columns):
        for layer in range(layers):
            a, b = left[v, layer], right[v, layer]
            total = 0.0
            for j in range(width):
                total += a[j] * b[j]
            out[layer] += total
    return out


@compiled
def _largest(grad: Floats) -> FloatArray:
    """The largest absolute entry of each layer; NaN if an entry is NaN."""
    columns, layers, width = grad.shape
    out = np.zeros(layers)
    for v in range(columns):
        for layer in range(layers):
            top = out[layer]
            for j in range(width):
                size = abs(grad[v, layer, j])
                if not size <= top:
                    top = size
            out[layer] = top
    return out


@summed
def _unwind(rest: Floats, moved: Floats, changed: Floats, inverse: Floats, order: Ints, weight: Floats) -> None:
    columns, layers, width = rest.shape
    for layer in range(layers):
        for k in order:
            dot = 0.0
            for v in range(columns):
                a, b = moved[k, v, layer], rest[v, layer]
                for j in range(width):
                    dot += a[j] * b[j]
            weight[k, layer] = dot * inverse[k, layer]
            for v in range(columns):
                a, b = changed[k, v, layer], rest[v, layer]
                for j in range(width):
                    b[j] -= weight[k, layer] * a[j]


@summed
def _rewind(rest: Floats, moved: Floats, changed: Floats, inverse: Floats, order: Ints, weight: Floats) -> None:
    columns, layers, width = rest.shape
    for layer in range(layers):
        for k in order:
            dot = 0.0
            for v in range(columns):
                a, b = changed[k, v, layer], rest[v, layer]
                for j in range(width):
                    dot += a[j] * b[j]
            more = weight[k, layer] - dot * inverse[k, layer]
            for v in range(columns):
                a, b = moved[k, v, layer], rest[v, layer]
                for j in range(width):
                    b[j] += more * a[j]
