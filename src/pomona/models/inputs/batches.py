"""Which rows of a corpus go into a batch together, and their tokens side by side.

bucketed(lengths, 64, key)           for training: rows of like length together, batches in random order
shuffled(lengths, 64, key)           for training: random rows together
by_length(lengths, 512, 1 << 13)     for answering: from short to long
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Ints
from pomona.base.compiled import compiled
from pomona.base.errors import RunError

if TYPE_CHECKING:  # so that the loop below does not depend on it
    from pomona.data.corpus import Corpus


def bucketed(lengths: Ints, size: int, key: np.uint64, *, parts: int = 10) -> list[npt.NDArray[np.int64]]:
    """Shuffle, cut into tenths, sort each by length, cut into batches, shuffle the batches (as the ListOps code)."""
    random = np.random.Generator(np.random.Philox(key=int(key)))
    batches: list[npt.NDArray[np.int64]] = []
    for part in np.array_split(random.permutation(len(lengths)), min(parts, max(1, len(lengths) // size))):
        ordered = part[np.argsort(lengths[part], kind="stable")]
        batches += [ordered[first : first + size] for first in range(0, len(ordered), size)]
    return [batches[number] for number in random.permutation(len(batches))]


def shuffled(lengths: Ints, size: int, key: np.uint64) -> list[npt.NDArray[np.int64]]:
    """Batches of random rows."""
    order = np.random.Generator(np.random.Philox(key=int(key))).permutation(len(lengths))
    return [order[first : first + size] for first in range(0, len(order), size)]


def by_length(lengths: Ints, size: int, area: int) -> list[npt.NDArray[np.int64]]:
    """Rows from short to long, in batches of at most `size` rows and `area` positions."""
    order = np.argsort(lengths, kind="stable")
    batches, first = [], 0
    while first < len(order):
        last = first + 1
        while last < len(order) and last - first < size and (last + 1 - first) * lengths[order[last]] <= area:
            last += 1
        batches.append(order[first:last])
        first = last
    return batches


@compiled
def padded(tokens: Ints, start: Ints, rows: Ints, width: int) -> npt.NDArray[np.int64]:
    """The tokens of these rows side by side, [rows, width], with 0 behind the end of each."""
    out = np.zeros((len(rows), width), np.int64)
    for number in range(len(rows)):
        first = start[rows[number]]
        for step in range(start[rows[number] + 1] - first):
            out[number, step] = tokens[first + step]
    return out


def refuse_empty(corpus: Corpus) -> None:
    """An error if there is no example."""
    if not len(corpus):
        raise RunError(f"{corpus!r} is empty: there is nothing to train on or to answer")
