"""Checks of representations and derivations, and the canonical order in which fits see the rows.

Errors name the row. The checks read large arrays as few times as possible: most data pass on their squared norms alone
and are examined number by number only where those are infinite or extreme.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Floats, Ints
from pomona.base.compiled import compiled
from pomona.base.errors import MeasureError
from pomona.representations.tre.derivations import Derivations


def within_reach(targets: Floats) -> Floats:
    """Rescale rows of extreme size. Cosine ignores the scale of a row, but its squares could overflow."""
    with np.errstate(over="ignore"):
        squares = np.einsum("nd,nd->n", targets, targets)
    if float(squares.min()) > 1e-30 and float(squares.max()) < 1e30:
        return targets
    top = np.maximum(targets.max(axis=1), -targets.min(axis=1))
    if float(top.min()) > 1e-15 and float(top.max()) < 1e15:
        return targets
    scaled: Floats = np.asarray(targets, np.float64) / top.astype(np.float64)[:, None]
    return scaled


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


def as_rows(representations: npt.ArrayLike, items: int) -> tuple[Any, tuple[int, ...]]:
    """Check representations and flatten each item. float32 is kept, so that large arrays are not copied."""
    try:
        array = np.asarray(representations)
    except ValueError:
        raise MeasureError("the representations are ragged: every row must have the same shape.") from None
    if array.dtype.kind not in "fiub":
        raise MeasureError(f"representations must be numbers, got an array of {array.dtype}.")
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
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.einsum("nd,nd->n", rows, rows)
    if not np.isfinite(squares).all():  # the square of a finite number may overflow, so examine the numbers
        wrong = ~np.isfinite(rows).all(axis=1)
        if wrong.any():
            row = int(np.argmax(wrong))
            value = rows[row][~np.isfinite(rows[row])][0]
            raise MeasureError(
                f"row {row}: the representation holds {value} ({int(wrong.sum())} such rows). Drop or repair them."
            )
    return rows, tuple(array.shape[1:])


def check_composed(derivations: Derivations) -> None:
    """Refuse primitives that occur only alone: such a vector can equal its row, an error of 0 that measures nothing."""
    leaf = derivations.primitive >= 0
    alone = leaf & (derivations.parent < 0)
    composed = np.zeros(len(derivations.names), np.bool_)
    composed[derivations.primitive[leaf & ~alone]] = True
    free = alone & ~composed[np.where(leaf, derivations.primitive, 0)]
    if free.any():
        node = int(np.argmax(free))
        row, name = int(derivations.row[node]), derivations.names[derivations.primitive[node]]
        raise MeasureError(
            f"row {row}: primitive {name!r} is never composed with another ({int(free.sum())} such rows), so its own "
            f"vector fits it exactly and the error means nothing. Drop the row, or pass uncomposed='allow'."
        )
