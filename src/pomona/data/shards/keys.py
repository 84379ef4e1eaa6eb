"""Files of content keys, cut into partitions by the keys themselves: equal keys are in the same partition of any file.

    write_keys(path, numbers, keys, partitions=8)
    read_keys(path, 3)            the numbers and keys of partition 3, in the order in which they were given

So who looks for equal keys among those of many files takes one partition of each at a time, and needs the memory of one
partition. A number (of a draw in its block, of a row in its shard) is below 2**32. A file of numbers alone is cut in
the same way. Each file holds a checksum (`is_whole`): a damaged one that a killed command left is made again.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Ints
from pomona.base.compiled import compiled
from pomona.base.errors import FormatError
from pomona.base.files import replacing
from pomona.data.pool import insert_keys

_MAGIC = 0x504F4D4B45595332
_HEAD = 4  # the magic number, the partitions, the entries, the checksum; then where each partition begins
_OF_A_KEY, _OF_A_NUMBER = 12, 4  # bytes of an entry


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
    _write(path, start, sorted_numbers.astype("<u4", copy=False), sorted_keys.astype("<u8", copy=False))


def write_numbers(path: Path, pieces: Sequence[Ints]) -> None:
    """Write numbers alone: one partition for each piece."""
    start = np.cumsum([0, *map(len, pieces)])
    _write(path, start, np.concatenate([np.zeros(0, "<u4"), *pieces]).astype("<u4", copy=False))


def is_whole(path: Path, partitions: int, *, numbers: bool = False) -> bool:
    """Whether a file of keys (or of numbers) is there and is as it was written, with so many partitions."""
    try:
        if len(read_starts(path, numbers=numbers)) != partitions + 1:
            return False
        with path.open("rb") as file:
            head, found = np.fromfile(file, "<i8", _HEAD), 0
            while piece := file.read(1 << 22):
                found = zlib.crc32(piece, found)
    except (FormatError, OSError):
        return False
    return bool(head[3] == found)


def read_starts(path: Path, *, numbers: bool = False) -> npt.NDArray[np.int64]:
    """Where the partitions of a file begin and the last ends; an error if the file is not whole."""
    width = _OF_A_NUMBER if numbers else _OF_A_KEY
    try:
        head = np.fromfile(path, "<i8", _HEAD)
        whole = len(head) == _HEAD and head[0] == _MAGIC and 0 <= head[1] < 1 << 32 and 0 <= head[2] < 1 << 48
        if whole and path.stat().st_size == 8 * (_HEAD + head[1] + 1) + width * head[2]:
            start = np.fromfile(path, "<i8", int(head[1]) + 1, offset=8 * _HEAD)
            if start[0] == 0 and start[-1] == head[2] and bool(np.all(start[1:] >= start[:-1])):
                return start
    except OSError as error:
        raise FormatError(f"cannot be read: {error.strerror or error}", path=path) from None
    raise FormatError("this file of keys is not whole; remove it and run the command again", path=path)


def read_keys(path: Path, partition: int) -> Keyed:
    """The numbers and keys of one partition."""
    start = read_starts(path)
    low, high = int(start[partition]), int(start[partition + 1])
    keys_at = 8 * (_HEAD + len(start)) + 4 * int(start[-1])
    return Keyed(_numbers(path, start, partition), _part(path, "<u8", high - low, keys_at + 8 * low))


def read_numbers(path: Path, partition: int) -> npt.NDArray[np.uint32]:
    """The numbers of one partition of a file that has no keys."""
    return _numbers(path, read_starts(path, numbers=True), partition)


def _numbers(path: Path, start: npt.NDArray[np.int64], partition: int) -> npt.NDArray[np.uint32]:
    low, high = int(start[partition]), int(start[partition + 1])
    return _part(path, "<u4", high - low, 8 * (_HEAD + len(start)) + 4 * low)


def _part(path: Path, kind: str, count: int, offset: int) -> npt.NDArray[Any]:
    """So many numbers of a file; NumPy gives fewer if the disk does."""
    try:
        found: npt.NDArray[Any] = np.fromfile(path, kind, count, offset=offset)
    except OSError as error:
        raise FormatError(f"cannot be read: {error.strerror or error}", path=path) from None
    if len(found) != count:
        raise FormatError("cannot be read to its end; remove it and run the command again", path=path)
    return found


def _write(path: Path, start: npt.NDArray[Any], *columns: npt.NDArray[Any]) -> None:
    parts = [start.astype("<i8", copy=False), *map(np.ascontiguousarray, columns)]
    checksum = 0
    for part in parts:
        checksum = zlib.crc32(part.data.cast("B") if part.size else b"", checksum)
    with replacing(path) as beside, beside.open("wb") as file:
        for part in (np.array([_MAGIC, len(start) - 1, start[-1], checksum], "<i8"), *parts):
            file.write(part.data)  # `tofile` does not say that a full disk took only some of it


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
