"""Checks of representations and derivations, and the canonical order in which fits see the rows.

Errors name the row. The checks read large arrays as few times as possible: most data pass on their squared norms alone
and are examined number by number only where those are infinite or extreme.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from pomona.base.arrays import Floats, Ints
from pomona.base.compiled import compiled, summed
from pomona.base.errors import MeasureError, SpecError
from pomona.representations.tre.derivations import Derivations
from pomona.representations.tre.inputs import array_of

LARGEST = 1e100  # numbers of representations; the squares of larger ones leave no room for sums


def check_seed(seed: Any) -> None:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise SpecError(f"seed is a whole number, 0 or more; got {seed!r}.")


def generator(seed: Any) -> np.random.Generator:
    """Random numbers from a seed."""
    check_seed(seed)
    return np.random.default_rng(seed)


class Moments(NamedTuple):
    """What one reading of the rows gives: the extremes and the sum of their squared norms, and the sum of the rows."""

    smallest: float
    largest: float
    power: float
    total: Any  # [numbers]

    @staticmethod
    def of(rows: Floats) -> Moments:
        return Moments(*_moments(np.ascontiguousarray(rows)))


def within_reach(targets: Floats, moments: Moments) -> Floats:
    """Rescale rows of extreme size. Cosine ignores the scale of a row, but its squares could overflow."""
    if moments.smallest > 1e-30 and moments.largest < 1e30:
        return targets
    top = np.maximum(targets.max(axis=1), -targets.min(axis=1))
    if float(top.min()) > 1e-15 and float(top.max()) < 1e15:
        return targets
    scaled: Floats = np.asarray(targets, np.float64) / top.astype(np.float64)[:, None]
    return scaled


def check_reach(targets: Floats, moments: Moments) -> Floats:
    """Refuse numbers whose squares overflow or vanish; float32 becomes float64 where its own squares would."""
    if 1e-20 < moments.largest < 1e20:
        return targets
    top = float(max(targets.max(), -targets.min()))
    if top > LARGEST or 0.0 < top < 1.0 / LARGEST:
        size = "large" if top > 1.0 else "small"
        raise MeasureError(
            f"the representations have numbers up to {top:.3g}, too {size} for their squares. Rescale them all "
            f"alike:",
            code=["pm.tre(vectors / abs(vectors).max(), derivations)"],
        )
    if targets.dtype == np.float32 and not 1e-12 < top < 1e12:
        return np.asarray(targets, np.float64)
    return targets


def is_constant(targets: Floats) -> bool:
    """Whether all rows are equal; the last row is compared first, which settles it for most data."""
    return bool((targets[0] == targets[-1]).all()) and bool((targets == targets[0]).all())


def canonical_order(targets: Floats, derivations: Derivations) -> Any:
    """The rows in the order of `derivations.canonical`; rows with equal derivations are ordered by their content."""
    bits: Any = np.ascontiguousarray(targets).view(np.uint32 if targets.dtype == np.float32 else np.uint64)
    return np.lexsort((_mixed(bits, _odd(bits.shape[1])), derivations.root))


@cache
def _odd(width: int) -> Any:
    return np.random.default_rng(0).integers(2**63, size=width, dtype=np.uint64) * np.uint64(2) + np.uint64(1)


@compiled
def _mixed(bits: Ints, odd: Ints) -> Ints:
    """One number for each row, computed from all of its bits."""
    out = np.zeros(len(bits), np.uint64)
    for row in range(len(bits)):
        for j in range(len(odd)):
            out[row] += np.uint64(bits[row, j]) * odd[j]
    return out


def as_rows(representations: Any, items: int) -> tuple[Any, tuple[int, ...], Moments]:
    """Check representations and flatten each item; also their moments, infinite on overflow.

    float32 is kept, so that large arrays are not copied.
    """
    array = array_of(representations)
    if array.ndim < 2 or array.size == 0:
        raise MeasureError(
            f"representations must have shape [items, numbers] or [items, positions, symbols] with at least one item; "
            f"got {list(array.shape)}."
        )
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    if len(array) != items:
        fewer = min(len(array), items)
        missing = "a derivation but no representation" if len(array) < items else "a representation but no derivation"
        raise MeasureError(f"{len(array)} representations but {items} derivations: row {fewer} has {missing}.")
    rows = np.ascontiguousarray(array).reshape(len(array), -1)
    moments = Moments.of(rows)
    if not np.isfinite(moments.power):  # the square of a finite number may overflow, so examine the numbers
        wrong = ~np.isfinite(rows).all(axis=1)
        if wrong.any():
            row = int(np.argmax(wrong))
            value = rows[row][~np.isfinite(rows[row])][0]
            raise MeasureError(
                f"row {row}: the representation holds {value} ({int(wrong.sum())} such rows). Drop or repair them."
            )
    return rows, tuple(array.shape[1:]), moments


def check_composed(derivations: Derivations) -> None:
    """Refuse primitives that occur only alone: such a vector can equal its row, an error of 0 that measures nothing."""
    alone = derivations.never_composed
    if len(alone):
        node = int(alone[0])
        row, name = int(derivations.row[node]), derivations.names[derivations.primitive[node]]
        raise MeasureError(
            f"row {row}: primitive {name!r} is never composed with another ({len(alone)} such rows), so its own "
            f"vector fits it exactly and the error means nothing. Drop the row, or pass uncomposed='allow'."
        )


@summed
def _moments(rows: Floats) -> tuple[float, float, float, Floats]:
    total = np.zeros(rows.shape[1])
    smallest, largest, power = np.inf, 0.0, 0.0
    for i in range(len(rows)):
        row = rows[i]
        square = 0.0
        for j in range(len(row)):
            value = np.float64(row[j])
            square += value * value
            total[j] += value
        smallest, largest = min(smallest, square), max(largest, square)
        power += square
    return smallest, largest, power, total
