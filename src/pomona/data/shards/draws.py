"""Which draws are the rows: the first distinct ones, found by many workers without one table of all keys.

    draws = find_draws(source, folder, target, crew)        draws.slices(10, 20): where draws 10 .. 19 are
    block_numbers(folder, draws, block)                     the numbers of the distinct draws of one block, in order

A pool in memory (`data.pool`) keeps every key that it has seen. Here the draws are cut into *blocks* of equal size and
the keys into *partitions*. Each block is scanned once; the first draw of each key in the block goes to a file, by
partition. Then each partition is read from all blocks in order, and of equal keys the first counts. Both steps depend
on nothing but the draws, so any number of workers finds the same. How many blocks are needed is not known in advance: a
sample of the keys (those whose last bits are 0), distinct ones only, tells how many distinct draws there are so far.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pomona.base.errors import FormatError, SplitError
from pomona.base.files import read_json, write_json
from pomona.base.randomness import stream_key
from pomona.base.shapes import COUNT, check
from pomona.base.workers import Crew
from pomona.data.pool import BLOCK, PATIENCE, insert_keys
from pomona.data.shards.keys import (
    first_of_each,
    is_whole,
    partitions_for,
    read_keys,
    read_numbers,
    read_starts,
    table_for,
    write_keys,
    write_numbers,
)  # fmt: skip
from pomona.data.task import TASKS, Task

SMALLEST, LARGEST = 1 << 14, 1 << 22  # draws of a block
SAMPLE = 1 << 16  # keys of the sample, about
_PLAN, _EXCLUDED = "draws.json", "excluded.keys"
Step = Callable[[int], None]


@dataclass(frozen=True)
class Source:
    """What is drawn, in plain values: the distribution of a split of a task, and the seed."""

    task: str
    settings: Mapping[str, Any]
    split: str
    seed: int

    def open(self) -> tuple[Task, np.uint64]:
        """The distribution and the key of its streams."""
        distribution = TASKS.build(self.task, self.settings).distribution(self.split)
        return distribution, stream_key(*distribution.purpose(self.seed))

    def plain(self) -> dict[str, Any]:
        return asdict(self)


class Target(NamedTuple):
    """How many distinct draws are needed, about how many draws each takes, and the keys that never count."""

    draws: int
    per_draw: float
    excluded: npt.NDArray[np.uint64]
    shard_rows: int


@dataclass(frozen=True)
class Draws:
    """Distinct draws in order: `ends[b]` of them are in the blocks up to b."""

    block: int
    partitions: int
    ends: tuple[int, ...]

    def slices(self, low: int, high: int) -> list[tuple[int, int, int]]:
        """Where the distinct draws low .. high-1 are: a block, and from where to where in it."""
        found = []
        begin = 0
        for block, end in enumerate(self.ends):
            if begin < high and low < end:
                found.append((block, max(low, begin) - begin, min(high, end) - begin))
            begin = end
        return found


def find_draws(source: Source, folder: Path, target: Target, crew: Crew, step: Step) -> Draws:
    """The first distinct draws, at least as many as the target. What is in the folder already is not done again."""
    plan = _planned(folder, target)
    excluded = target.excluded
    write_keys(folder / _EXCLUDED, np.zeros(len(excluded), np.uint32), excluded, plan["partitions"])
    aim = target.draws
    while True:
        if not plan["blocks"] or aim > target.draws:
            plan["blocks"] = _scan(source, folder, plan, target, aim, crew, step)
            write_json(folder / _PLAN, plan)
        ends = _distinct(folder, plan, crew)
        if ends[-1] >= target.draws:
            return Draws(plan["block"], plan["partitions"], tuple(ends))
        aim = 1 + int(max(aim, target.draws) * 1.02 * target.draws / max(1, ends[-1]))  # the sample was too hopeful


def _planned(folder: Path, target: Target) -> dict[str, Any]:
    """Sizes of blocks, partitions and the sample, and how many blocks a command that was killed here has scanned.

    What it left is used where it is whole and was made with the same sizes; otherwise it is made again.
    """
    draws_of_shard = int(min(target.shard_rows, target.draws) * target.per_draw)
    sizes = {
        "block": min(LARGEST, max(SMALLEST, 1 << draws_of_shard.bit_length())),
        "partitions": partitions_for(2 * target.draws),
        "sample_bits": max(0, (target.draws // SAMPLE).bit_length() - 1),
    }
    blocks, before = 0, {}
    with suppress(FormatError):
        before = check(read_json(folder / _PLAN), dict.fromkeys((*sizes, "blocks"), COUNT), folder / _PLAN)
    if {name: before.get(name) for name in sizes} != sizes:
        for path in (*folder.glob("*.keys"), *folder.glob("*.numbers")):
            path.unlink()
    elif all(is_whole(_block_path(folder, block), sizes["partitions"]) for block in range(before["blocks"])):
        blocks = before["blocks"]
    plan = {**sizes, "blocks": blocks}
    write_json(folder / _PLAN, plan)
    return plan


def _scan(
    source: Source, folder: Path, plan: Mapping[str, Any], target: Target, aim: int, crew: Crew, step: Step
) -> int:
    """Scan blocks until the sample says that there are enough distinct draws; how many blocks."""
    bits = plan["sample_bits"]
    needed = (aim >> bits) + 4 * math.isqrt(aim >> bits) + 1 if bits else aim
    excluded, seen = set(target.excluded.tolist()), set[int]()
    blocks = fruitless = 0

    def orders() -> Iterator[dict[str, Any]]:
        about = {"folder": str(folder), "source": source.plain(), "plan": dict(plan)}
        for block in itertools.count():
            if len(seen) >= needed:
                return
            if fruitless >= PATIENCE:
                raise SplitError(
                    f"{source.task}: {blocks * plan['block']:,} draws gave about {len(seen) << bits:,} different "
                    f"examples, the last {fruitless:,} none; these settings hold no more, or next to none. Ask for "
                    "fewer rows, or loosen the length, nesting or depth settings."
                )
            yield {**about, "block": block}

    for number, sample in crew.run(scan_block, orders()):
        before = len(seen)
        seen.update(key for key in sample if key not in excluded)
        blocks = max(blocks, number + 1)
        fruitless = 0 if len(seen) > before else fruitless + plan["block"]
        step((min(len(seen), needed) - min(before, needed)) << bits)
    return blocks


def scan_block(folder: str, source: Mapping[str, Any], plan: Mapping[str, Any], block: int) -> list[int]:
    """Scan a block, unless its file is there, and write the first draw of each key; the sampled keys."""
    path = _block_path(Path(folder), block)
    if not is_whole(path, plan["partitions"]):
        distribution, key = Source(**source).open()
        first = block * plan["block"]
        scans = [
            distribution.scan(key, at, min(BLOCK, first + plan["block"] - at))
            for at in range(first, first + plan["block"], BLOCK)
        ]
        keys = np.concatenate([scan.keys for scan in scans])
        numbers = np.concatenate([scan.numbers for scan in scans])
        new = first_of_each(keys)
        write_keys(path, numbers[new] - first, keys[new], plan["partitions"])
    sampled: list[int] = []
    last_bits = np.uint64((1 << plan["sample_bits"]) - 1)
    for partition in range(plan["partitions"]):
        keys = read_keys(path, partition).keys
        sampled += keys[(keys & last_bits) == 0].tolist()
    return sampled


def _distinct(folder: Path, plan: Mapping[str, Any], crew: Crew) -> list[int]:
    """How many distinct draws there are up to the end of each block, after each partition has been gone through."""
    about = {"folder": str(folder), "blocks": plan["blocks"], "partitions": plan["partitions"]}
    orders = ({**about, "partition": partition} for partition in range(plan["partitions"]))
    counts = np.zeros(plan["blocks"], np.int64)
    for _, found in crew.run(distinct_in_partition, orders):
        counts += np.array(found, np.int64)
    ends: list[int] = np.cumsum(counts).tolist()
    return ends


def distinct_in_partition(folder: str, blocks: int, partitions: int, partition: int) -> list[int]:
    """Write, for one partition, the numbers of the first draw of each key, by block; how many each block has."""
    place = Path(folder)
    path = _distinct_path(place, partition, blocks)
    if not is_whole(path, blocks, numbers=True):
        files = [_block_path(place, block) for block in range(blocks)]
        excluded = read_keys(place / _EXCLUDED, partition).keys
        room = sum(int(np.diff(read_starts(file))[partition]) for file in files)
        table = table_for(len(excluded) + room)
        insert_keys(table, excluded)
        numbers = []
        for file in files:
            entries = read_keys(file, partition)
            numbers.append(entries.numbers[insert_keys(table, entries.keys)])
        write_numbers(path, numbers)
    counts: list[int] = np.diff(read_starts(path, numbers=True)).tolist()
    return counts


def block_numbers(folder: Path, draws: Draws, block: int) -> npt.NDArray[np.int64]:
    """The numbers of the distinct draws in a block, in order."""
    blocks = len(draws.ends)
    pieces = [read_numbers(_distinct_path(folder, partition, blocks), block) for partition in range(draws.partitions)]
    return np.sort(np.concatenate(pieces)).astype(np.int64) + block * draws.block


def _block_path(folder: Path, block: int) -> Path:
    return folder / f"block-{block:06}.keys"


def _distinct_path(folder: Path, partition: int, blocks: int) -> Path:
    return folder / f"distinct-{partition:05}-of-{blocks}-blocks.numbers"
