"""Files of content keys, cut into partitions by the keys themselves: equal keys are in the same partition of any file.

    write_keys(path, numbers, keys, partitions=8)
    read_keys(path, 3)            the numbers and keys of partition 3, in the order in which they were given

So who looks for equal keys among those of many files takes one partition of each at a time, and needs the memory of one
partition. A number (of a draw in its block, of a row in its shard) is below 2**32.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Ints
from pomona.base.compiled import compiled
from pomona.base.errors import FormatError
from pomona.base.files import replacing
from pomona.data.pool import insert_keys

_MAGIC = 0x504F4D4B45595331
_HEAD = 3  # the magic number, the partitions, the entries; then where each partition begins


class Keyed(NamedTuple):
    """Numbers and the key of each."""

    numbers: npt.NDArray[np.uint32]
    keys: npt.NDArray[np.uint64]


def partitions_for(keys: int, most: int = 1 << 22) -> int:
    """How many partitions (a power of two, at least 2) keep each below about `most` keys."""
    return max(2, 1 << (-(-keys // most) - 1).bit_length()) if keys > most else 2


def first_of_each(keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Which keys are not equal to an earlier one."""
    return np.asarray(insert_keys(table_for(len(keys)), keys))


def table_for(keys: int) -> npt.NDArray[np.uint64]:
    """An empty hash table with room for so many keys (`insert_keys`)."""
    return np.zeros(1 << max(4, (2 * keys).bit_length()), np.uint64)


def write_keys(path: Path, numbers: Ints, keys: npt.NDArray[np.uint64], partitions: int) -> None:
    """Write numbers and keys, by partition."""
    start, sorted_numbers, sorted_keys = _by_partition(
        np.asarray(numbers, np.uint32), np.asarray(keys, np.uint64), np.uint64(65 - partitions.bit_length()), partitions
    )
    with replacing(path) as beside, beside.open("wb") as file:
        np.array([_MAGIC, partitions, len(keys)], "<i8").tofile(file)
        start.astype("<i8", copy=False).tofile(file)
        sorted_numbers.astype("<u4", copy=False).tofile(file)
        sorted_keys.astype("<u8", copy=False).tofile(file)


def read_starts(path: Path) -> npt.NDArray[np.int64]:
    """Where the partitions of a file begin and the last ends; an error if the file is not whole."""
    try:
        head = np.fromfile(path, "<i8", _HEAD)
        whole = len(head) == _HEAD and head[0] == _MAGIC and 0 < head[1] < 1 << 32 and head[2] >= 0
        if whole and path.stat().st_size == 8 * (_HEAD + head[1] + 1) + 12 * head[2]:
            return np.fromfile(path, "<i8", int(head[1]) + 1, offset=8 * _HEAD)
    except OSError as error:
        raise FormatError(f"cannot be read: {error.strerror or error}", path=path) from None
    raise FormatError("this file of keys is not whole; remove it and run the command again", path=path)


def read_keys(path: Path, partition: int) -> Keyed:
    """The numbers and keys of one partition."""
    start = read_starts(path)
    low, high = int(start[partition]), int(start[partition + 1])
    numbers_at = 8 * (_HEAD + len(start))
    keys_at = numbers_at + 4 * int(start[-1])
    return Keyed(
        np.fromfile(path, "<u4", high - low, offset=numbers_at + 4 * low),
        np.fromfile(path, "<u8", high - low, offset=keys_at + 8 * low),
    )


@compiled
def _by_partition(
    numbers: Ints, keys: Ints, shift: np.uint64, partitions: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32], npt.NDArray[np.uint64]]:
    """Numbers and keys sorted by the first bits of the keys, otherwise in the same order; where partitions begin."""
    start = np.zeros(partitions + 1, np.int64)
    for row in range(len(keys)):
        start[(keys[row] >> shift) + np.uint64(1)] += 1
    for partition in range(partitions):
        start[partition + 1] += start[partition]
    place = start[:-1].copy()
    sorted_numbers, sorted_keys = np.empty(len(keys), np.uint32), np.empty(len(keys), np.uint64)
    for row in range(len(keys)):
        partition = keys[row] >> shift
        sorted_numbers[place[partition]], sorted_keys[place[partition]] = numbers[row], keys[row]
        place[partition] += 1
    return start, sorted_numbers, sorted_keys
