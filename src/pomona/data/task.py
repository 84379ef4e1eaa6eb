"""From a task to its splits: draws by number, the first of equal ones kept, train, dev and test disjoint.

    pool    the first N distinct draws of a law, N = all the rows that share the law
    splits  a keyed shuffle of the pool deals out test, dev and train; train goes on with later draws, without end

Draw *number* i of a law is a function of (task, its settings, seed, i). A first pass over the numbers keeps only
content keys, so a pool of ten million costs 240 MB; a second pass builds the examples of the numbers it kept, chunk by
chunk, in their final order. Workers share both passes and change nothing: what a block may keep is decided in order of
number. Splits drawn from different laws (a longer or deeper test) are made held-out first, and each later one leaves
out every key of the earlier ones, so no example of train ever stands in dev or test.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Bools, Ints
from pomona.base.compiled import compiled
from pomona.base.errors import SpecError, SplitError, did_you_mean
from pomona.base.randomness import below, mix, stream_key
from pomona.base.registry import Registry, settings_of
from pomona.data.corpus import Corpus, Example
from pomona.trees import brackets
from pomona.trees.forest import Forest, Nested
from pomona.trees.operators import LeafValues
from pomona.trees.values import Value, value_of_text

PATIENCE = 30_000_000  # draws in a row without a new example before we say that there are no more
BLOCK = 1 << 17  # draws looked at in one go by one worker
CHUNK = 1 << 15  # examples built in one go
Progress = Callable[[int], None]


@dataclasses.dataclass(frozen=True)
class Scan:
    """The draws of a block that a law accepts: their numbers, content keys and, where rows are balanced, their bins."""

    numbers: npt.NDArray[np.int64]
    keys: npt.NDArray[np.uint64]
    bins: npt.NDArray[np.int64] | None = None


@dataclasses.dataclass(frozen=True)
class Task:
    """What every task is: settings, splits and their sizes, and draws by number.

    The least a task must give is `example(random)`: one tree as text or nested tuples, or None to reject the draw.
    A fast task overrides `scan` and `build` with compiled ones.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1  # raise it when the same settings and seed no longer give the same examples
    splits: ClassVar[tuple[str, ...]] = (
        "test",
        "iid",
        "dev",
        "train",
    )  # held-out ones first; each is a field, its size

    train: int = 10_000
    dev: int = 1_000
    test: int = 1_000
    iid: int = 0  # a second test set, drawn like train, for tasks whose test is drawn otherwise
    pool: int = 0  # rows dealt out to train and the splits drawn like it, train taking more after them; 0: all rows
    shift: tuple[tuple[str, str, Any], ...] = ()  # (split, setting, value): what a split does differently

    def __post_init__(self) -> None:
        fields = {item.name for item in dataclasses.fields(self)} - {"shift", "pool", *self.splits}
        every = self.every_split
        for split, setting, _ in self.shift:
            if split not in every:
                raise SpecError(f"shift: no split is called {split!r}. {did_you_mean(split, every)}")
            if setting not in fields:
                raise SpecError(f"shift: {setting!r} is not a setting. {did_you_mean(setting, fields)}")
        for split in self.splits:
            if getattr(self, split) < 0:
                raise SpecError(f"{split} = {getattr(self, split)}: a split has 0 or more rows")
        if every.get("iid") and self.law("iid") == self.law("test"):
            raise SpecError("iid is for tasks whose test is drawn otherwise than train; here it would be a second test")

    @property
    def every_split(self) -> dict[str, int]:
        """All splits and their rows, be they 0, held-out ones first; a task with a test set for each depth says so."""
        return {split: getattr(self, split) for split in self.splits}

    @property
    def sizes(self) -> dict[str, int]:
        """The splits and their rows, held-out ones first."""
        return {split: rows for split, rows in self.every_split.items() if rows}

    def shares(self, split: str) -> dict[str, int]:
        """The splits that are dealt from the same pool as this one, and how many rows of it each gets."""
        law = self.law(split)
        shares = {one: rows for one, rows in self.sizes.items() if self.law(one) == law}
        if self.pool and "train" in shares:
            held_out = sum(shares.values()) - shares["train"]
            if not held_out <= self.pool <= held_out + shares["train"]:
                raise SpecError(
                    f"pool = {self.pool}: it holds the {held_out:,} held-out rows drawn like train and some of train, "
                    f"so at most {held_out + shares['train']:,}"
                )
            shares["train"] = self.pool - held_out
        return shares

    def law(self, split: str) -> Task:
        """This task as it is for one split: shifts applied, sizes forgotten. Splits of equal law share a pool."""
        changes = {setting: value for where, setting, value in self.shift if where == split}
        changes = {key: tuple(value) if isinstance(value, list) else value for key, value in changes.items()}
        return dataclasses.replace(self, shift=(), pool=0, **dict.fromkeys(self.splits, 0), **changes)

    # -- what a task gives ----------------------------------------------------------------------------------------

    def example(self, random: np.random.Generator) -> str | Nested | None:
        """One draw: a tree as bracket text or nested tuples, or None when the draw is to be thrown away."""
        raise NotImplementedError(f"{type(self).__name__} must define example(random), or scan and build")

    @staticmethod
    def leaf_value(text: str) -> Value:
        """The value of a leaf, from its text: a numeral is its number, any other word is itself."""
        return value_of_text(text)

    def scan(self, key: np.uint64, first: int, count: int) -> Scan:
        """The accepted ones of draws first .. first+count-1."""
        numbers, texts = self._drawn(key, range(first, first + count))
        return Scan(np.array(numbers, np.int64), corpus_of_trees(brackets.read(texts), values=self.leaf_value).keys)

    def build(self, key: np.uint64, numbers: Ints) -> Corpus:
        """The examples of accepted draws, in the order asked for."""
        return corpus_of_trees(brackets.read(self._drawn(key, np.asarray(numbers).tolist())[1]), values=self.leaf_value)

    def apart(self, other: Task) -> bool:
        """Whether no draw of this law can be a draw of the other; then neither need be checked against the other."""
        return False

    def bins(self) -> int:
        """Into how many bins `scan` sorts the draws, each to be filled equally; 0 for no balancing."""
        return 0

    def room(self, key: np.uint64, count: int) -> npt.NDArray[np.int64] | None:
        """How many of `count` rows each bin takes, None for no balancing."""
        bins = self.bins()
        return np.array([count // bins + (one < count % bins) for one in range(bins)], np.int64) if bins else None

    def ahead(self, missing: int) -> int:
        """How many draws to look at when so many rows are missing; it changes the time taken and nothing else."""
        return max(1024, 16 * missing)

    def _drawn(self, key: np.uint64, numbers: Iterable[int]) -> tuple[list[int], list[str]]:
        """The accepted ones of these draws, as bracket text."""
        accepted: list[int] = []
        texts: list[str] = []
        for number in numbers:
            tree = self.example(np.random.Generator(np.random.Philox(key=[int(key), number])))
            if tree is not None:
                accepted.append(number)
                texts.append(tree if isinstance(tree, str) else brackets.write(Forest.from_nested([tree]))[0])
        return accepted, texts


def corpus_of_trees(
    forest: Forest, origin: Mapping[str, Any] | None = None, values: LeafValues = value_of_text
) -> Corpus:
    """A corpus of list trees; `values` gives the value of a leaf from its text (`Corpus.of_trees`)."""
    return Corpus.of_trees(forest, values, origin=origin)


TASKS: Registry[Task] = Registry("task", "pomona.tasks")


# -- the pipeline ----------------------------------------------------------------------------------------------------


def generate(
    name: str | Task,
    split: str = "train",
    seed: int = 0,
    size: int | None = None,
    *,
    workers: int = 1,
    chunk: int = 1 << 20,
    progress: Progress | None = None,
    **settings: Any,
) -> Corpus:
    """The examples of one split of a task: the same for any number of workers and any chunk size.

    >>> generate("listops/d20s", split="test", seed=7, size=2).origin["split"]
    'test'
    """
    task = name if isinstance(name, Task) else TASKS.build(name, settings)
    parts = list(chunks(task, split, seed, size, workers=workers, chunk=chunk, progress=progress))
    return Corpus.concatenate(parts)


def stream(name: str | Task, split: str = "train", seed: int = 0, **settings: Any) -> Iterator[Example]:
    """Examples without end: the split's own rows first, for train then ever more, each different from all others."""
    task = name if isinstance(name, Task) else TASKS.build(name, settings)
    for part in chunks(task, split, seed, None, endless=True, chunk=4096):
        yield from part


def chunks(
    task: Task,
    split: str,
    seed: int,
    size: int | None = None,
    *,
    workers: int = 1,
    chunk: int = CHUNK,
    endless: bool = False,
    progress: Progress | None = None,
    drawing: Progress | None = None,
) -> Iterator[Corpus]:
    """The rows of a split, a chunk at a time, so that any number of them fits in memory.

    `drawing` is told how many rows of the pool were found, `progress` how many of the split were built.
    """
    if split not in task.sizes:
        raise SpecError(f"{task.name} has no split {split!r} here. {did_you_mean(split, task.sizes)}")
    if size is not None and size < 0:
        raise SpecError(f"size = {size}: ask for 0 or more rows")
    if workers < 1 or chunk < 1:
        raise SpecError(f"workers = {workers}, chunk = {chunk}: both are at least 1")
    own = task.sizes[split]
    wanted = own if size is None else size
    law = task.law(split)
    if wanted > own and (split != "train" or law.bins()):  # a balanced pool is full when its bins are
        raise SplitError(
            f"{task.name} has {own:,} rows of {split}; {wanted:,} were asked for. "
            f"Set {split}={wanted} to draw more (the pool, and so every split, is then another)."
        )
    origin = {
        "task": task.name,
        "version": task.version,
        "settings": settings_of(task),
        "split": split,
        "seed": int(seed),
    }
    with ThreadPoolExecutor(workers) as crew:
        pool = _Pool(law, seed, crew, workers)
        pool.exclude(_earlier_keys(task, split, seed, crew, workers))
        shares = task.shares(split)
        numbers, _ = pool.first(sum(shares.values()), drawing)
        order = _dealt(stream_key("deal", *_purpose(law, seed)), len(numbers))
        place = sum(shares[one] for one in list(shares)[: list(shares).index(split)])
        mine = numbers[order[place : place + shares[split]]]
        goes_on = split == "train" and not law.bins() and (endless or wanted > len(mine))
        left = None if endless else wanted
        for batch in _batches(mine, pool.beyond() if goes_on else iter(()), chunk, left):
            yield _built(law, pool.key, batch, origin, crew, workers)
            if progress:
                progress(len(batch))


def _batches(
    first: npt.NDArray[np.int64], more: Iterator[npt.NDArray[np.int64]], chunk: int, limit: int | None
) -> Iterator[npt.NDArray[np.int64]]:
    """`first` and then `more`, re-cut into pieces of `chunk`, `limit` in all; at least one piece, be it empty."""
    left = limit
    held = first
    given = False
    while left is None or left > 0:
        want = chunk if left is None else min(chunk, left)
        while len(held) < want and (new := next(more, None)) is not None:
            held = np.concatenate([held, new])
        if not len(held):
            break
        batch, held = held[:want], held[want:]
        given = True
        yield batch
        left = None if left is None else left - len(batch)
    if not given:
        yield held[:0]


def _purpose(law: Task, seed: int) -> tuple[Any, ...]:
    """What a stream is for: the task, its version, the seed, and the settings of the law that are not the defaults.

    Defaults are left out so that a new setting, whose default changes nothing, leaves published data as they are.
    """
    default = {item.name: item.default for item in dataclasses.fields(law)}
    chosen = {name: value for name, value in settings_of(law).items() if getattr(law, name) != default[name]}
    return law.name, law.version, chosen, int(seed)


def _earlier_keys(
    task: Task, split: str, seed: int, crew: ThreadPoolExecutor, workers: int
) -> list[npt.NDArray[np.uint64]]:
    """The keys of every split with another law that is made before this one and could share an example with it."""
    law = task.law(split)
    before: dict[Task, str] = {}
    for other in task.sizes:
        another = task.law(other)
        if another == law:
            break
        before.setdefault(another, other)
    # What an earlier split holds rests in turn on those before it that it could share an example with.
    needed = [law]
    for another in reversed(before):
        if not all(one.apart(another) for one in needed):
            needed.append(another)
    keys: dict[Task, npt.NDArray[np.uint64]] = {}
    for another in reversed(needed[1:]):
        pool = _Pool(another, seed, crew, workers)
        pool.exclude([keys[one] for one in keys if not another.apart(one)])
        keys[another] = pool.first(sum(task.shares(before[another]).values()))[1]
    return [keys[one] for one in keys if not law.apart(one)]


def _built(
    law: Task, key: np.uint64, numbers: Ints, origin: Mapping[str, Any], crew: ThreadPoolExecutor, workers: int
) -> Corpus:
    if workers == 1 or len(numbers) < 2 * workers:
        return dataclasses.replace(law.build(key, numbers), origin=origin)
    pieces = crew.map(lambda piece: law.build(key, piece), np.array_split(numbers, workers))
    return dataclasses.replace(Corpus.concatenate(list(pieces)), origin=origin)


class _Pool:
    """The accepted, distinct draws of one law, in order of number; it grows as far as it is asked."""

    def __init__(self, law: Task, seed: int, crew: ThreadPoolExecutor, workers: int) -> None:
        self.law, self.key = law, stream_key(*_purpose(law, seed))
        self._crew, self._workers = crew, workers
        self._table = np.zeros(1 << 14, np.uint64)
        self._used, self._next, self._kept, self._fruitless = 0, 0, 0, 0
        self._surplus = np.zeros(0, np.int64)
        self._room: npt.NDArray[np.int64] | None = None

    def exclude(self, keys: list[npt.NDArray[np.uint64]]) -> None:
        for some in keys:
            self._fresh(some)

    def first(
        self, count: int, drawing: Progress | None = None
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
        """Numbers and keys of the first `count` distinct draws; with bins, of the first that fill each bin equally."""
        self._room = self.law.room(self.key, count)
        self._make_room(count + BLOCK)
        found = [(np.zeros(0, np.int64), np.zeros(0, np.uint64))]
        while self._kept < count:
            # Small pools are scanned in small blocks: a look at two examples should not cost 100,000 draws.
            before = self._kept
            found += self._wave(int(min(BLOCK, self.law.ahead(count - self._kept))))
            if drawing:
                drawing(min(count, self._kept) - before)
        numbers, keys = (np.concatenate(column) for column in zip(*found, strict=True))
        self._surplus = numbers[count:]
        return numbers[:count], keys[:count]

    def beyond(self) -> Iterator[npt.NDArray[np.int64]]:
        """The numbers that follow those of `first`, without end."""
        yield self._surplus
        while True:
            for numbers, _ in self._wave(BLOCK):
                yield numbers

    def _wave(self, block: int) -> list[tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]]:
        """Each worker scans a block; what is kept is decided in order of number."""
        firsts = [self._next + block * worker for worker in range(self._workers)]
        self._next += block * self._workers
        scans = self._crew.map(lambda first: self.law.scan(self.key, first, block), firsts)
        return [self._keep(scan, block) for scan in scans]

    def _keep(self, scan: Scan, block: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
        fresh = self._fresh(scan.keys)
        if scan.bins is not None and self._room is not None:
            fresh = _find_room(scan.bins, fresh, self._room)
        numbers = scan.numbers[fresh]
        self._kept += len(numbers)
        self._fruitless = 0 if len(numbers) else self._fruitless + block
        if self._fruitless >= PATIENCE:
            raise SplitError(
                f"{self.law.name}: {self._next:,} draws gave {self._kept:,} different examples, the last "
                f"{self._fruitless:,} none; these settings hold no more, or next to none. Ask for fewer rows, or "
                "loosen the length, nesting or depth settings."
            )
        return numbers, scan.keys[fresh]

    def _fresh(self, keys: npt.NDArray[np.uint64]) -> Bools:
        self._make_room(len(keys))
        fresh = _insert(self._table, keys)
        self._used += int(fresh.sum())
        return fresh

    def _make_room(self, more: int) -> None:
        """The table is a power of two long and at most half full."""
        length = 1 << (2 * (self._used + more) - 1).bit_length()
        if length > len(self._table):
            larger = np.zeros(length, np.uint64)
            _insert(larger, self._table[self._table != 0])
            self._table = larger


@compiled
def _insert(table: Ints, keys: Ints) -> Bools:
    """Put keys into an open-addressing table (a power of two long, 0 for empty); which were new, in order."""
    fresh = np.empty(len(keys), np.bool_)
    mask = np.uint64(len(table) - 1)
    for row in range(len(keys)):
        key = keys[row] if keys[row] else np.uint64(1)
        place = key & mask
        while table[place] != 0 and table[place] != key:
            place = (place + np.uint64(1)) & mask
        fresh[row] = table[place] == 0
        table[place] = key
    return fresh


@compiled
def _find_room(bins: Ints, fresh: Bools, full: Ints) -> Bools:
    """Which fresh draws still find room in their bin; `full` counts the room down."""
    room = np.zeros(len(bins), np.bool_)
    for row in range(len(bins)):
        if fresh[row] and full[bins[row]] > 0:
            full[bins[row]] -= 1
            room[row] = True
    return room


@compiled
def _dealt(key: np.uint64, count: int) -> npt.NDArray[np.int64]:
    """A permutation of 0 .. count-1 (Fisher and Yates) that depends only on the key."""
    order = np.arange(count)
    for place in range(count - 1, 0, -1):
        other = below(mix(key + np.uint64(place) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32), place + 1)
        order[place], order[other] = order[other], order[place]
    return order
