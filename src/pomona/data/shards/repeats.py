"""Equal examples among many shards: how many rows are different, which are there twice, which splits share some.

    count_distinct(files, partitions, crew)
    find_repeats(files, groups, inside, partitions, crew)

Each shard has a file of keys (`keys`). A worker takes one partition of all files, so that its memory is that of one
partition, and equal keys always meet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pomona.base.workers import Crew
from pomona.data.shards.keys import read_keys

LISTED = 10_000  # repeated rows listed at most of each partition; all are counted


class Row(NamedTuple):
    """A row: the number of its file, and its number in it."""

    file: int
    row: int


@dataclass
class Repeats:
    """Rows that are equal to an earlier one of the same group, and what groups share."""

    rows: list[tuple[Row, Row]] = field(default_factory=list)  # a row and the first that it equals
    count: int = 0
    shared: dict[tuple[int, int], tuple[int, Row, Row]] = field(default_factory=dict)  # how many, and the first


def count_distinct(files: Sequence[Path], partitions: int, crew: Crew) -> int:
    """How many different keys the files hold."""
    orders = ({"files": list(map(str, files)), "partition": partition} for partition in range(partitions))
    return sum(count for _, count in crew.run(distinct_in_partition, orders))


def distinct_in_partition(files: Sequence[str], partition: int) -> int:
    return len(np.unique(np.concatenate([read_keys(Path(file), partition).keys for file in files])))


def find_repeats(files: Sequence[Path], groups: Sequence[int], inside: int, partitions: int, crew: Crew) -> Repeats:
    """Equal rows of files, each of which belongs to a group (a split): inside the first groups, and between any."""
    about = {"files": list(map(str, files)), "groups": list(groups), "inside": inside}
    orders = ({**about, "partition": partition} for partition in range(partitions))
    found = Repeats()
    for _, answer in crew.run(repeats_in_partition, orders):
        found.count += answer["count"]
        found.rows += [(Row(*row), Row(*earlier)) for row, earlier in answer["rows"]]
        for first, second, count, row, earlier in answer["shared"]:
            pair = first, second
            before = found.shared.get(pair, (0, Row(*row), Row(*earlier)))
            found.shared[pair] = before[0] + count, *min(before[1:], (Row(*row), Row(*earlier)))
    found.rows.sort()
    return found


def repeats_in_partition(
    files: Sequence[str], groups: Sequence[int], inside: int, partition: int
) -> Mapping[str, Any]:
    """Of one partition: rows that repeat one of their own group, and for each two groups what they share."""
    entries = [read_keys(Path(file), partition) for file in files]
    keys = np.concatenate([entry.keys for entry in entries])
    file = np.repeat(np.arange(len(files)), [len(entry.keys) for entry in entries])
    row = np.concatenate([entry.numbers for entry in entries])
    group = np.asarray(groups)[file]
    order = np.lexsort((row, file, group, keys))
    key, own = keys[order], group[order]
    again = np.zeros(len(order), np.bool_)
    again[1:] = (key[1:] == key[:-1]) & (own[1:] == own[:-1])
    begins = np.maximum.accumulate(np.where(again, 0, np.arange(len(order))))  # the first of the same group and key
    repeated = np.flatnonzero(again & (own < inside))
    places = np.column_stack([file, row])[order]
    firsts = [np.flatnonzero(~again & (own == number)) for number in range(max(groups) + 1)]
    shared = [_shared(key, places, firsts, pair) for pair in combinations(range(len(firsts)), 2)]
    return {
        "count": len(repeated),
        "rows": [[places[at].tolist(), places[begins[at]].tolist()] for at in repeated[:LISTED].tolist()],
        "shared": [found for found in shared if found],
    }


def _shared(
    keys: npt.NDArray[np.uint64], places: npt.NDArray[np.int64], firsts: Sequence[npt.NDArray[np.int64]],
    pair: tuple[int, int],
) -> list[Any]:  # fmt: skip
    """Two groups, how many keys they share, and the first row of the second group with the row that it equals."""
    earlier, later = (firsts[number] for number in pair)
    common, at, other = np.intersect1d(keys[earlier], keys[later], assume_unique=True, return_indices=True)
    if not len(common):
        return []
    found = places[later[other]]
    first = int(np.lexsort((found[:, 1], found[:, 0]))[0])
    return [*pair, len(common), found[first].tolist(), places[earlier[at[first]]].tolist()]
