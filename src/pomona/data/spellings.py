"""Distinct spellings: the strings and values of a text as they are written in it, each kept once.

Compiled loops number spellings while they read; Python decodes each of them once. `first_seen` tells in which order new
ones came.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Bytes, Ints
from pomona.base.compiled import compiled, inlined

_PRIME, _29 = np.uint64(0x9FB21C651E98DF25), np.uint64(29)


class Spellings(NamedTuple):
    """The distinct spellings so far, end to end, and a table of open addressing to find them."""

    letters: npt.NDArray[np.uint8]
    start: npt.NDArray[np.int64]
    slots: npt.NDArray[np.int64]  # 1 + the number of a spelling, 0 where empty; a power of two
    used: npt.NDArray[np.int64]  # one number: how many there are


def no_spellings() -> Spellings:
    """An empty table."""
    return Spellings(
        np.empty(1 << 16, np.uint8), np.zeros(1 << 12, np.int64), np.zeros(1 << 13, np.int64), np.zeros(1, np.int64)
    )


def enlarged(old: Spellings) -> Spellings:
    """The same spellings in a table with more room."""
    new = Spellings(
        np.empty(4 * len(old.letters), np.uint8), np.zeros(2 * len(old.start), np.int64),
        np.zeros(2 * len(old.slots), np.int64), old.used.copy(),
    )  # fmt: skip
    new.letters[: len(old.letters)] = old.letters
    new.start[: len(old.start)] = old.start
    _rehash(new)
    return new


@inlined
def _marked(mark: np.uint64, byte: int) -> np.uint64:
    return (mark ^ np.uint64(byte)) * _PRIME


@compiled
def _rehash(spellings: Spellings) -> None:
    mask = np.uint64(len(spellings.slots) - 1)
    for number in range(spellings.used[0]):
        mark = np.uint64(spellings.start[number + 1] - spellings.start[number])
        for at in range(spellings.start[number], spellings.start[number + 1]):
            mark = _marked(mark, spellings.letters[at])
        slot = (mark ^ (mark >> _29)) & mask
        while spellings.slots[slot]:
            slot = (slot + np.uint64(1)) & mask
        spellings.slots[slot] = number + 1


@compiled
def spelling(text: Bytes, low: int, high: int, spellings: Spellings) -> int:
    """The number of the spelling text[low:high], which is new or known; -1 if there is no room for it."""
    size = high - low
    mark = np.uint64(size)
    for at in range(low, high):
        mark = _marked(mark, text[at])
    mask = np.uint64(len(spellings.slots) - 1)
    slot = (mark ^ (mark >> _29)) & mask
    while spellings.slots[slot]:
        number = spellings.slots[slot] - 1
        first = spellings.start[number]
        if spellings.start[number + 1] - first == size:
            step = 0
            while step < size and spellings.letters[first + step] == text[low + step]:
                step += 1
            if step == size:
                return int(number)
        slot = (slot + np.uint64(1)) & mask
    number = spellings.used[0]
    first = spellings.start[number]
    if (
        number + 2 > len(spellings.start)
        or 2 * number + 2 > len(spellings.slots)
        or first + size > len(spellings.letters)
    ):
        return -1
    for step in range(size):
        spellings.letters[first + step] = text[low + step]
    spellings.start[number + 1] = first + size
    spellings.slots[slot] = number + 1
    spellings.used[0] = number + 1
    return int(number)


@compiled
def first_seen(numbers: Ints, known: Ints, ends: Ints, backwards: bool) -> npt.NDArray[np.int64]:
    """The numbers that `known` has as -1, in the order in which they come, run by run; in each run perhaps backwards.

    They become -2 in `known`.
    """
    order = np.empty(len(known), np.int64)
    count, low = 0, 0
    for run in range(len(ends)):
        size = ends[run] - low
        for step in range(size):
            number = numbers[low + (size - 1 - step if backwards else step)]
            if known[number] == -1:
                known[number] = -2
                order[count] = number
                count += 1
        low = ends[run]
    return order[:count]


@compiled
def looked_up(numbers: Ints, table: Ints, out: Ints) -> None:
    """`out[:] = table[numbers]`, in one pass."""
    for place in range(len(numbers)):
        out[place] = table[numbers[place]]
