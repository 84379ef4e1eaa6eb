"""A sparse design matrix and its normal equations, the linear algebra behind every additive fit.

Under addition the predictions are C E, where C counts how often each primitive occurs in each item and E is the
lexicon. All additive fits are regressions on C. Whatever the distance, they share the Gram matrix C'C, its rank and its
pseudo-inverse, which are computed once and cached. The loops go over rows, so representations are read once, in their
own precision, and nothing of their size is allocated.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Floats, Ints
from pomona.base.compiled import compiled, summed

FloatArray = npt.NDArray[np.float64]

CHUNK = 4096  # so many rows in single precision are added up in single precision, and the sums in double precision
DENSE_COLUMNS = 4000  # up to this many C'C is dense and decomposed exactly; beyond, conjugate gradients


@dataclass(frozen=True, eq=False)
class LinearFit:
    """A fitted lexicon. The lower bound is on the sum over items, None where the distance offers none."""

    lexicon: FloatArray  # [columns, numbers]
    per_item: FloatArray
    lower_bound: float | None
    gradient_norm: float | None  # largest entry of the mean distance's gradient; None where there are corners
    iterations: int


@dataclass(frozen=True, eq=False)
class Design:
    """An items x columns matrix in compressed sparse rows."""

    first: npt.NDArray[np.int64]  # [items + 1]
    column: npt.NDArray[np.int64]  # [entries]
    weight: FloatArray  # [entries]
    columns: int

    @staticmethod
    def from_entries(row: Any, column: Any, rows: int, columns: int) -> Design:
        """Count how often each (row, column) occurs; the rows must come sorted."""
        key = row * columns + column
        if (np.diff(key) < 0).any():
            key = np.sort(key)
        new = np.concatenate([[True], np.diff(key) > 0]) if len(key) else np.zeros(0, np.bool_)
        where = np.flatnonzero(new)
        weight = np.diff(np.concatenate([where, [len(key)]])).astype(np.float64)
        kept = key[where]
        first = np.searchsorted(kept // columns, np.arange(rows + 1)).astype(np.int64)
        return Design(first, (kept % columns).astype(np.int64), weight, columns)

    @staticmethod
    def from_dense(matrix: FloatArray) -> Design:
        rows, columns = matrix.shape
        row, column = np.nonzero(matrix)
        first = np.searchsorted(row, np.arange(rows + 1)).astype(np.int64)
        return Design(first, column.astype(np.int64), np.ascontiguousarray(matrix[row, column], np.float64), columns)

    def __len__(self) -> int:
        return len(self.first) - 1

    def dense(self) -> FloatArray:
        matrix = np.zeros((len(self), self.columns))
        matrix[np.repeat(np.arange(len(self)), np.diff(self.first)), self.column] = self.weight
        return matrix

    def times(self, lexicon: Floats) -> FloatArray:
        """C E."""
        return _times(self.first, self.column, self.weight, np.ascontiguousarray(lexicon, np.float64))

    def transposed_times(self, values: Floats, row_weight: Floats | None = None) -> FloatArray:
        """C' diag(w) R. Many rows in single precision are added up in chunks: as exact as their own rounding."""
        factor = np.ones(len(self)) if row_weight is None else row_weight
        values = np.ascontiguousarray(values)
        if values.dtype == np.float32 and len(self) > CHUNK:
            weight, factor = self.weight.astype(np.float32), factor.astype(np.float32)
            return _transposed_in_chunks(self.first, self.column, weight, values, factor, self.columns)
        return _transposed_times(self.first, self.column, self.weight, values, factor, self.columns)

    def weighted_gram(self, row_weight: Floats) -> FloatArray:
        """C' diag(w) C."""
        return _gram(self.first, self.column, self.weight, row_weight, self.columns)

    @cached_property
    def gram(self) -> FloatArray:
        return self.weighted_gram(np.ones(len(self)))

    @cached_property
    def distinct(self) -> tuple[Design, npt.NDArray[np.int64], FloatArray]:
        """The distinct rows in order of appearance, which of them each row is, and how often each occurs."""
        rng = np.random.default_rng(0)
        marks = rng.integers(1, 2**63, size=max(self.columns, 1), dtype=np.uint64)
        _, head, group = np.unique(_hashes(self.first, self.column, self.weight, marks), return_index=True,
                                   return_inverse=True)  # fmt: skip
        rank = np.argsort(np.argsort(head))
        head, group = np.sort(head), rank[group.ravel()]
        if len(head) == len(self) or not _all_equal(self.first, self.column, self.weight, head[group]):
            return self, np.arange(len(self)), np.ones(len(self))
        sizes = np.diff(self.first)[head]
        first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        entry = np.arange(first[-1]) - np.repeat(first[:-1] - self.first[head], sizes)
        kept = Design(first, self.column[entry], self.weight[entry], self.columns)
        return kept, group, np.bincount(group).astype(np.float64)

    @cached_property
    def spectrum(self) -> tuple[FloatArray, FloatArray]:
        """The eigenvalues of C'C above rounding level, and their eigenvectors."""
        from scipy.linalg import eigh

        values, vectors = eigh(self.gram, driver="evd")
        kept = values > max(values[-1], 1e-300) * len(values) * np.finfo(np.float64).eps
        return values[kept], vectors[:, kept]

    @cached_property
    def _cholesky(self) -> Any:
        """The Cholesky factor of C'C, or None where C'C is nearly singular."""
        from scipy.linalg import LinAlgError, cho_factor

        try:
            factor = cho_factor(self.gram, lower=True)
        except LinAlgError:
            return None
        diagonal = np.abs(np.diag(factor[0]))
        # The spread of the diagonal only bounds the condition number from below; 1e-4 leaves a wide margin.
        return factor if diagonal.min() > 1e-4 * diagonal.max() else None

    @cached_property
    def rank(self) -> int | None:
        """The rank of C: how many vectors the data determine; None where there are too many columns to decompose."""
        if self.columns > DENSE_COLUMNS:
            return None
        return self.columns if self._cholesky is not None else len(self.spectrum[0])

    def solve(self, right: FloatArray) -> FloatArray:
        """(C'C)^+ B: where the data do not determine every direction, the solution of least norm."""
        if self.columns > DENSE_COLUMNS:
            return self._conjugate_gradients(right)
        if self._cholesky is not None:
            from scipy.linalg import cho_solve

            return np.ascontiguousarray(cho_solve(self._cholesky, right, check_finite=False))
        values, vectors = self.spectrum
        return np.ascontiguousarray(vectors @ ((vectors.T @ right) / values[:, None]))

    def least_norm(self, lexicon: FloatArray) -> FloatArray:
        """The lexicon of least norm with the same predictions."""
        if self.columns > DENSE_COLUMNS or self._cholesky is not None:
            return lexicon
        vectors = self.spectrum[1]
        return np.asarray(vectors @ (vectors.T @ lexicon))

    def _conjugate_gradients(self, right: FloatArray, tolerance: float = 1e-12, limit: int = 2000) -> FloatArray:
        """Solve for all right-hand sides at once. Starting from zero gives the solution of least norm."""
        solution = np.zeros_like(right)
        residual = right.copy()
        direction = residual.copy()
        power = np.einsum("vd,vd->d", residual, residual)
        goal = tolerance**2 * np.maximum(power, 1e-300)
        for _ in range(limit):
            if (power <= goal).all():
                break
            image = self.transposed_times(self.times(direction))
            curvature = np.einsum("vd,vd->d", direction, image)
            step = np.where(power > goal, power / np.maximum(curvature, 1e-300), 0.0)
            solution += step * direction
            residual -= step * image
            fresh = np.einsum("vd,vd->d", residual, residual)
            direction = residual + (fresh / np.maximum(power, 1e-300)) * direction
            power = fresh
        return solution


@summed
def gather(guess: Floats, low: int, high: int, column: Ints, weight: Floats, lexicon: Floats) -> None:
    """guess = a weighted sum of lexicon rows. Four rows at a time, since each pass loads and stores all of guess."""
    guess[:] = 0.0
    entry = low
    while entry + 3 < high:
        a, b = lexicon[column[entry]], lexicon[column[entry + 1]]
        c, d = lexicon[column[entry + 2]], lexicon[column[entry + 3]]
        wa, wb, wc, wd = weight[entry], weight[entry + 1], weight[entry + 2], weight[entry + 3]
        for j in range(len(guess)):
            guess[j] += wa * a[j] + wb * b[j] + wc * c[j] + wd * d[j]
        entry += 4
    while entry < high:
        a, wa = lexicon[column[entry]], weight[entry]
        for j in range(len(guess)):
            guess[j] += wa * a[j]
        entry += 1


@compiled
def _times(first: Ints, column: Ints, weight: Floats, lexicon: Floats) -> FloatArray:
    width = lexicon.shape[1]
    out = np.zeros((len(first) - 1, width))
    for row in range(len(first) - 1):
        for entry in range(first[row], first[row + 1]):
            k, w = column[entry], weight[entry]
            for j in range(width):
                out[row, j] += w * lexicon[k, j]
    return out


@compiled
def _transposed_times(
    first: Ints, column: Ints, weight: Floats, values: Floats, row_weight: Floats, columns: int
) -> FloatArray:
    width = values.shape[1]
    out = np.zeros((columns, width))
    for row in range(len(first) - 1):
        for entry in range(first[row], first[row + 1]):
            k, w = column[entry], weight[entry] * row_weight[row]
            for j in range(width):
                out[k, j] += w * values[row, j]
    return out


@summed
def _transposed_in_chunks(
    first: Ints, column: Ints, weight: Floats, values: Floats, row_weight: Floats, columns: int
) -> FloatArray:
    """The same, with half the memory to read and write: each chunk adds up in the precision of the values."""
    out = np.zeros((columns, values.shape[1]))
    part = np.zeros(out.shape, values.dtype)
    for low in range(0, len(first) - 1, CHUNK):
        part[:] = 0.0
        for row in range(low, min(low + CHUNK, len(first) - 1)):
            own = values[row]
            for entry in range(first[row], first[row + 1]):
                into, w = part[column[entry]], weight[entry] * row_weight[row]
                for j in range(len(own)):
                    into[j] += w * own[j]
        for k in range(columns):
            for j in range(out.shape[1]):
                out[k, j] += part[k, j]
    return out


@compiled
def _gram(first: Ints, column: Ints, weight: Floats, row_weight: Floats, columns: int) -> FloatArray:
    out = np.zeros((columns, columns))
    for row in range(len(first) - 1):
        for a in range(first[row], first[row + 1]):
            w = weight[a] * row_weight[row]
            for b in range(first[row], first[row + 1]):
                out[column[a], column[b]] += w * weight[b]
    return out


@compiled
def _hashes(first: Ints, column: Ints, weight: Floats, marks: Ints) -> Ints:
    """A hash of each row: equal for equal rows, and almost surely different for others."""
    out = np.zeros(len(first) - 1, np.uint64)
    for row in range(len(first) - 1):
        for entry in range(first[row], first[row + 1]):
            mixed = marks[column[entry]] ^ np.uint64(np.int64(weight[entry] * 4096.0) * 2654435761)
            mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
            out[row] += mixed ^ (mixed >> np.uint64(32))
    return out


@compiled
def _all_equal(first: Ints, column: Ints, weight: Floats, other: Ints) -> bool:
    """Whether each row equals the row it is paired with."""
    for row in range(len(first) - 1):
        low, its = first[row], first[other[row]]
        if first[row + 1] - low != first[other[row] + 1] - its:
            return False
        for entry in range(first[row + 1] - low):
            if column[low + entry] != column[its + entry] or weight[low + entry] != weight[its + entry]:
                return False
    return True
