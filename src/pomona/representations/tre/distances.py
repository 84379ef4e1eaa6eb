"""Distances between a prediction and the representation that it should equal, with their gradients.

    cosine        1 - p.y / (|p| |y|)             compares directions; not a metric; defined as 1 where p is zero
    l1            sum |p - y|                     over every coordinate; one-hot messages of length 4 cost 4 at p = 0
    l2, sql2      |p - y|, |p - y|^2
    crossentropy  sum over positions of -y log softmax(p)        p are logits, y one-hot or a distribution

Predictions and targets are flat rows, [items, numbers]; a distance returns one number for each item. (The released
cosine sums over its batch and is right only for a batch of one.)

Items with equal derivations must get equal predictions, whatever the composition function. `bound_within` is the
least summed distance that this allows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from pomona.base.arrays import Floats, Ints
from pomona.base.errors import MeasureError, SpecError, did_you_mean
from pomona.representations.tre.design import FloatArray


class Distance(Protocol):
    """What solvers need from a distance."""

    @property
    def name(self) -> str: ...

    def check(self, targets: Floats, shape: tuple[int, ...]) -> None:
        """Raise an error that names the first row which this distance cannot measure."""
        ...

    def per_item(self, predictions: Floats, targets: Floats) -> FloatArray: ...

    def smoothed(self, predictions: FloatArray, targets: Floats, width: float) -> tuple[float, FloatArray]:
        """The sum over items and its gradient; corners, where there are any, are rounded off at `width`."""
        ...

    def bound_within(self, targets: Floats, group: Ints) -> float:
        """A lower bound on the summed distance when the items of each group share one prediction."""
        ...


@dataclass(frozen=True)
class _AnyNumbers:
    """A distance that is defined for all finite numbers."""

    def check(self, targets: Floats, shape: tuple[int, ...]) -> None:
        return


@dataclass(frozen=True)
class Cosine:
    name: ClassVar[str] = "cosine"

    def check(self, targets: Floats, shape: tuple[int, ...]) -> None:
        with np.errstate(over="ignore"):
            none = np.einsum("nd,nd->n", targets, targets) == 0.0
        if none.any() and (zero := ~np.any(targets, axis=1)).any():  # the square of a small number may be zero
            raise MeasureError(
                f"row {int(np.argmax(zero))}: a representation of all zeros has no direction, so its cosine distance "
                f"is undefined ({int(zero.sum())} such rows). Drop them or use distance='l2'."
            )

    def per_item(self, predictions: Floats, targets: Floats) -> FloatArray:
        dot = np.einsum("nd,nd->n", predictions, targets, dtype=np.float64)
        size = np.sqrt(
            np.einsum("nd,nd->n", predictions, predictions, dtype=np.float64)
            * np.einsum("nd,nd->n", targets, targets, dtype=np.float64)
        )
        return np.asarray(1.0 - np.divide(dot, size, out=np.zeros(len(dot)), where=size > 0))

    def smoothed(self, predictions: FloatArray, targets: Floats, width: float) -> tuple[float, FloatArray]:
        unit = targets / np.linalg.norm(targets, axis=1, keepdims=True)
        size = np.maximum(np.linalg.norm(predictions, axis=1, keepdims=True), 1e-150)
        direction = predictions / size
        cosine = np.einsum("nd,nd->n", direction, unit)[:, None]
        return float(np.sum(1.0 - cosine)), (cosine * direction - unit) / size

    def bound_within(self, targets: Floats, group: Ints) -> float:
        unit = targets / np.linalg.norm(targets, axis=1, keepdims=True)
        sums = _group_sums(unit, group)
        return float(np.maximum(len(unit) - np.linalg.norm(sums, axis=1).sum(), 0.0))


@dataclass(frozen=True)
class L1(_AnyNumbers):
    name: ClassVar[str] = "l1"

    def per_item(self, predictions: Floats, targets: Floats) -> FloatArray:
        return np.asarray(np.abs(predictions - targets).sum(axis=1, dtype=np.float64))

    def smoothed(self, predictions: FloatArray, targets: Floats, width: float) -> tuple[float, FloatArray]:
        residual = predictions - targets
        rounded = np.sqrt(residual * residual + width * width)
        return float(rounded.sum() - residual.size * width), residual / rounded

    def bound_within(self, targets: Floats, group: Ints) -> float:
        total = 0.0
        for rows in _members(group):
            total += float(np.abs(targets[rows] - np.median(targets[rows], axis=0)).sum())
        return total


@dataclass(frozen=True)
class L2(_AnyNumbers):
    name: ClassVar[str] = "l2"

    def per_item(self, predictions: Floats, targets: Floats) -> FloatArray:
        residual = predictions - targets
        return np.asarray(np.sqrt(np.einsum("nd,nd->n", residual, residual, dtype=np.float64)))

    def smoothed(self, predictions: FloatArray, targets: Floats, width: float) -> tuple[float, FloatArray]:
        residual = predictions - targets
        rounded = np.sqrt(np.einsum("nd,nd->n", residual, residual) + width * width)
        return float(rounded.sum() - len(residual) * width), residual / rounded[:, None]

    def bound_within(self, targets: Floats, group: Ints) -> float:
        """By duality, from the unit residuals of the group means, made to sum to zero; valid, not always tight."""
        residual = targets - _group_means(targets, group)[group]
        size = np.linalg.norm(residual, axis=1, keepdims=True)
        pull = np.divide(residual, size, out=np.zeros_like(residual), where=size > 0)
        pull -= _group_means(pull, group)[group]
        top = np.ones(group.max() + 1)
        np.maximum.at(top, group, np.linalg.norm(pull, axis=1))
        return float(np.maximum(np.einsum("nd,nd->n", pull, targets) / top[group], -np.inf).sum().clip(0.0))


@dataclass(frozen=True)
class SqL2(_AnyNumbers):
    name: ClassVar[str] = "sql2"

    def per_item(self, predictions: Floats, targets: Floats) -> FloatArray:
        residual = predictions - targets
        return np.asarray(np.einsum("nd,nd->n", residual, residual, dtype=np.float64))

    def smoothed(self, predictions: FloatArray, targets: Floats, width: float) -> tuple[float, FloatArray]:
        residual = predictions - targets
        return float(np.vdot(residual, residual)), 2.0 * residual

    def bound_within(self, targets: Floats, group: Ints) -> float:
        residual = targets - _group_means(targets, group)[group]
        return float(np.vdot(residual, residual))


@dataclass(frozen=True)
class CrossEntropy:
    """The prediction holds logits; each position of a message is one softmax over its symbols."""

    positions: int = 0  # filled in from the representations' shape
    name: ClassVar[str] = "crossentropy"

    def check(self, targets: Floats, shape: tuple[int, ...]) -> None:
        if len(shape) != 2:
            raise MeasureError(
                f"distance='crossentropy' needs messages of shape [items, positions, symbols]; each item here has "
                f"shape {list(shape)}."
            )
        grid = targets.reshape(len(targets), *shape)
        wrong = (grid < 0).any(axis=(1, 2)) | (np.abs(grid.sum(axis=2) - 1.0) > 1e-6).any(axis=1)
        if wrong.any():
            raise MeasureError(
                f"row {int(np.argmax(wrong))}: every position must hold a distribution over symbols (one-hot, or "
                f"numbers from 0 that sum to 1) for distance='crossentropy'."
            )

    def _grid(self, values: Floats) -> FloatArray:
        return np.asarray(values, np.float64).reshape(len(values), self.positions, -1)

    def per_item(self, predictions: Floats, targets: Floats) -> FloatArray:
        logits, wanted = self._grid(predictions), self._grid(targets)
        return np.asarray((_log_total(logits)[:, :, 0] - (logits * wanted).sum(axis=2)).sum(axis=1))

    def smoothed(self, predictions: FloatArray, targets: Floats, width: float) -> tuple[float, FloatArray]:
        logits, wanted = self._grid(predictions), self._grid(targets)
        total = _log_total(logits)
        value = float(total.sum() - np.vdot(logits, wanted))
        return value, (np.exp(logits - total) - wanted).reshape(predictions.shape)

    def bound_within(self, targets: Floats, group: Ints) -> float:
        """The entropy of the symbols that share a derivation."""
        mean = _group_means(targets, group)
        entropy = -np.where(mean > 0, mean * np.log(np.where(mean > 0, mean, 1.0)), 0.0).sum(axis=1)
        return float((entropy * np.bincount(group)).sum())


DISTANCES: dict[str, Callable[[], Distance]] = {
    "cosine": Cosine,
    "l1": L1,
    "l2": L2,
    "sql2": SqL2,
    "crossentropy": CrossEntropy,
}


def distance_of(choice: Any, shape: tuple[int, ...]) -> Distance:
    """A distance from its name, from a `Distance`, or from the user's own callable (through torch)."""
    if isinstance(choice, str):
        if choice not in DISTANCES:
            raise SpecError(f"no distance is called {choice!r}. {did_you_mean(choice, DISTANCES)}")
        return CrossEntropy(shape[0]) if choice == "crossentropy" and len(shape) == 2 else DISTANCES[choice]()
    if all(hasattr(choice, field) for field in ("per_item", "smoothed", "bound_within", "name")):
        distance: Distance = choice
        return distance
    if callable(choice):
        from pomona.representations.tre.autograd import TorchDistance

        return TorchDistance(choice, shape)
    raise SpecError(f"distance is a name ({', '.join(DISTANCES)}) or a callable, got {type(choice).__name__}.")


def _log_total(logits: FloatArray) -> FloatArray:
    """log sum exp over the symbols, without overflow."""
    top = logits.max(axis=2, keepdims=True)
    return np.asarray(top + np.log(np.exp(logits - top).sum(axis=2, keepdims=True)))


def _group_sums(values: Floats, group: Ints) -> FloatArray:
    sums = np.zeros((int(group.max()) + 1, values.shape[1]))
    np.add.at(sums, group, values)
    return sums


def _group_means(values: Floats, group: Ints) -> FloatArray:
    return np.asarray(_group_sums(values, group) / np.bincount(group)[:, None])


def _members(group: Ints) -> list[Any]:
    """The row numbers of each group."""
    order = np.argsort(group, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(group[order])) + 1)
