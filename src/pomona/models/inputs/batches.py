"""Which rows are batched together."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Ints
from pomona.base.compiled import compiled


def bucketed(lengths: Ints, size: int, key: np.uint64, *, parts: int = 10) -> list[npt.NDArray[np.int64]]:
    """Shuffle, cut into tenths, sort each by length, cut into batches, shuffle the batches (as the paper's code)."""
    random = np.random.Generator(np.random.Philox(key=int(key)))
    made: list[npt.NDArray[np.int64]] = []
    for part in np.array_split(random.permutation(len(lengths)), min(parts, max(1, len(lengths) // size))):
        ordered = part[np.argsort(lengths[part], kind="stable")]
        made += [ordered[first : first + size] for first in range(0, len(ordered), size)]
    return [made[place] for place in random.permutation(len(made))]


def shuffled(lengths: Ints, size: int, key: np.uint64) -> list[npt.NDArray[np.int64]]:
    """Batches of random rows."""
    order = np.random.Generator(np.random.Philox(key=int(key))).permutation(len(lengths))
    return [order[first : first + size] for first in range(0, len(order), size)]


def by_length(lengths: Ints, size: int, area: int) -> list[npt.NDArray[np.int64]]:
    """For answering: rows from short to long, at most `size` of them and `area` positions a batch."""
    order = np.argsort(lengths, kind="stable")
    made, first = [], 0
    while first < len(order):
        last = first + 1
        while last < len(order) and last - first < size and (last + 1 - first) * lengths[order[last]] <= area:
            last += 1
        made.append(order[first:last])
        first = last
    return made


@compiled
def padded(tokens: Ints, start: Ints, rows: Ints, width: int) -> npt.NDArray[np.int64]:
    out = np.zeros((len(rows), width), np.int64)
    for place in range(len(rows)):
        first = start[rows[place]]
        for step in range(start[rows[place] + 1] - first):
            out[place, step] = tokens[first + step]
    return out
