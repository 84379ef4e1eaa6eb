"""A pool: the first distinct draws of a distribution, which are then dealt out to splits.

    pool = Pool(distribution, key, crew)
    numbers, keys = pool.first(110_000)      # the first 110,000 distinct draws, by number
    order = shuffled(key, 110_000)           # the order in which splits take their rows
    pool.build(numbers[order[:10]])          # examples

Draw *number* i is a function of the distribution, its key and i. So a pool keeps only numbers and content keys: ten
million rows cost 240 MB. Where a scan has the tokens or trees of its draws at hand, they are remembered while memory
lasts (`data.remembered`); other examples are drawn a second time, when they are built. The number of workers does not
change the result, because draws are accepted in the order of their numbers. A pool makes about as many draws as it
still needs, given how many the last round rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Bools, Ints
from pomona.base.compiled import compiled
from pomona.base.errors import SplitError
from pomona.base.randomness import below, mix
from pomona.data.corpus import Corpus
from pomona.data.remembered import Memory, Remembered, Rows, Tree

PATIENCE = 30_000_000  # draws in a row without a new example, after which there are no more
BLOCK = 1 << 17  # the most draws that a worker scans at a time
Progress = Callable[[int], None]


@dataclass(frozen=True)
class Scan:
    """The accepted draws of a block: numbers, content keys and, where rows are balanced, bins.

    A draw that equals an earlier one of the block may be left out, since a pool would not keep it. `trees` holds the
    drawn trees where drawing them again would be slow; else it is empty. `rows` are the tokens, if they are at hand.
    """

    numbers: npt.NDArray[np.int64]
    keys: npt.NDArray[np.uint64]
    bins: npt.NDArray[np.int64] | None = None
    trees: Sequence[Tree] = ()
    rows: Rows | None = None


class Distribution(Protocol):
    """What a pool draws from; `pomona.data.task.Task` describes the methods."""

    name: ClassVar[str]

    def scan(self, key: np.uint64, first: int, count: int) -> Scan: ...
    def build(self, key: np.uint64, numbers: Ints) -> Corpus: ...
    def assemble(self, trees: Remembered) -> Corpus: ...
    def room(self, key: np.uint64, count: int) -> npt.NDArray[np.int64] | None: ...


class Crew(NamedTuple):
    """Threads that share the work."""

    executor: ThreadPoolExecutor
    workers: int


class Listeners(NamedTuple):
    """Progress callbacks: `drawn` counts rows drawn for the pool, `built` rows of the split."""

    drawn: Progress | None = None
    built: Progress | None = None


NOBODY = Listeners()


class Draws(NamedTuple):
    """Numbers and content keys of accepted draws."""

    numbers: npt.NDArray[np.int64]
    keys: npt.NDArray[np.uint64]


class Pool:
    """The accepted, distinct draws of a distribution, in order of number; it grows on demand."""

    def __init__(self, distribution: Distribution, key: np.uint64, crew: Crew) -> None:
        self.distribution, self.key, self._crew = distribution, key, crew
        self._table = np.zeros(1 << 14, np.uint64)  # the keys seen so far
        self._used = 0  # entries of the table
        self._next = 0  # the number of the next draw
        self._kept = 0
        self._fruitless = 0  # draws since the last accepted one
        self._draws_per_row = 1.0  # in the last round
        self._surplus = np.zeros(0, np.int64)
        self._room: npt.NDArray[np.int64] | None = None
        self._memory = Memory()
        self._deals = True  # until rows are asked for that follow those of `first`

    def exclude(self, keys: list[npt.NDArray[np.uint64]]) -> None:
        """Never accept examples with these keys."""
        for excluded in keys:
            self._insert(excluded)

    def first(self, count: int, progress: Progress | None = None) -> Draws:
        """The first `count` distinct draws; with bins, the first draws that fill each bin."""
        self._room = self.distribution.room(self.key, count)
        self._make_room(count + min(count, BLOCK))
        waves = [Draws(np.zeros(0, np.int64), np.zeros(0, np.uint64))]
        while self._kept < count:
            before = self._kept
            waves += self._look(count - self._kept)
            if progress:
                progress(min(count, self._kept) - before)
        numbers = np.concatenate([wave.numbers for wave in waves])
        keys = np.concatenate([wave.keys for wave in waves])
        self._surplus = numbers[count:]
        return Draws(numbers[:count], keys[:count])

    def later(self, missing: int) -> npt.NDArray[np.int64]:
        """Numbers that follow those of `first`; call it again for more, about `missing` at a time. Build in order."""
        self._deals = False
        if len(self._surplus):
            numbers, self._surplus = self._surplus, self._surplus[:0]
            return numbers
        return np.concatenate([wave.numbers for wave in self._look(missing)])

    def build(self, numbers: npt.NDArray[np.int64]) -> Corpus:
        """The examples of these draws, in this order."""
        self._memory.join()
        if self._crew.workers == 1 or len(numbers) < 2 * self._crew.workers:
            built = self._build(numbers)
        else:
            pieces = np.array_split(numbers, self._crew.workers)
            built = Corpus.concatenate(list(self._crew.executor.map(self._build, pieces)))
        if not self._deals and len(numbers):
            self._memory.forget(int(numbers[-1]))
        return built

    def _build(self, numbers: npt.NDArray[np.int64]) -> Corpus:
        remembered = self._memory.recall(numbers)
        if remembered is None:
            return self.distribution.build(self.key, numbers)
        return self.distribution.assemble(remembered)

    def _look(self, missing: int) -> list[Draws]:
        """One round: about as many draws as `missing` rows should take, a block for each worker."""
        workers = self._crew.workers
        block = min(BLOCK, max(1, -(-int(missing * self._draws_per_row) // workers)))
        firsts = [self._next + block * worker for worker in range(workers)]
        self._next += block * workers
        before = self._kept
        scans = self._crew.executor.map(lambda first: self.distribution.scan(self.key, first, block), firsts)
        kept = [self._keep(scan, block) for scan in scans]
        rows = self._kept - before
        self._draws_per_row = block * workers / rows if rows else 2 * max(1.0, block * workers / missing)
        return kept

    def _keep(self, scan: Scan, block: int) -> Draws:
        new = self._insert(scan.keys)
        if scan.bins is not None and self._room is not None:
            new = _fill(scan.bins, new, self._room)
        numbers = scan.numbers[new]
        self._kept += len(numbers)
        self._fruitless = 0 if len(numbers) else self._fruitless + block
        if self._fruitless >= PATIENCE:
            raise SplitError(
                f"{self.distribution.name}: {self._next:,} draws gave {self._kept:,} different examples, the last "
                f"{self._fruitless:,} none; these settings hold no more, or next to none. Ask for fewer rows, or "
                "loosen the length, nesting or depth settings."
            )
        if len(scan.trees):
            self._memory.add_trees(numbers, [scan.trees[row] for row in np.flatnonzero(new).tolist()])
        elif len(scan.numbers):
            self._memory.add_rows(scan.numbers, scan.rows)
        return Draws(numbers, scan.keys[new])

    def _insert(self, keys: npt.NDArray[np.uint64]) -> Bools:
        """Insert keys into the table; returns which of them are new."""
        self._make_room(len(keys))
        new = insert_keys(self._table, keys)
        self._used += int(new.sum())
        return new

    def _make_room(self, more: int) -> None:
        """Keep the table at most half full; its length is a power of two."""
        length = 1 << (2 * (self._used + more) - 1).bit_length()
        if length > len(self._table):
            larger = np.zeros(length, np.uint64)
            insert_keys(larger, self._table[self._table != 0])
            self._table = larger


def batches(
    first: npt.NDArray[np.int64], more: Callable[[int], npt.NDArray[np.int64]] | None, chunk: int, limit: int | None
) -> Iterator[npt.NDArray[np.int64]]:
    """Batches of `chunk` numbers: `first`, then those of `more(missing)`, `limit` in all (None: without end).

    There is at least one batch, which may be empty.
    """
    left = limit
    waiting = first
    yielded = False
    while left is None or left > 0:
        size = chunk if left is None else min(chunk, left)
        while more is not None and len(waiting) < size:
            waiting = np.concatenate([waiting, more(size - len(waiting))])
        if not len(waiting):
            break
        batch, waiting = waiting[:size], waiting[size:]
        yielded = True
        yield batch
        left = None if left is None else left - len(batch)
    if not yielded:
        yield waiting[:0]


@compiled
def insert_keys(table: Ints, keys: Ints) -> Bools:
    """Insert keys into an open-addressing table (its length a power of two, 0 for empty); returns which are new."""
    new = np.empty(len(keys), np.bool_)
    mask = np.uint64(len(table) - 1)
    for row in range(len(keys)):
        key = keys[row] if keys[row] else np.uint64(1)
        slot = key & mask
        while table[slot] != 0 and table[slot] != key:
            slot = (slot + np.uint64(1)) & mask
        new[row] = table[slot] == 0
        table[slot] = key
    return new


@compiled
def _fill(bins: Ints, new: Bools, room: Ints) -> Bools:
    """Which new draws still fit into their bins; counts `room` down."""
    kept = np.zeros(len(bins), np.bool_)
    for row in range(len(bins)):
        if new[row] and room[bins[row]] > 0:
            room[bins[row]] -= 1
            kept[row] = True
    return kept


@compiled
def shuffled(key: np.uint64, count: int) -> npt.NDArray[np.int64]:
    """A permutation of 0 .. count-1 (Fisher and Yates) that depends only on the key."""
    order = np.arange(count)
    for last in range(count - 1, 0, -1):
        other = below(mix(key + np.uint64(last) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32), last + 1)
        order[last], order[other] = order[other], order[last]
    return order
