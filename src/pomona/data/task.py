"""Tasks: a declaration from which examples, splits, vocabulary, verification and baselines follow.

    @TASKS.add("coins")
    @dataclass(frozen=True)
    class Coins(Task):
        sides: int = 2
        def example(self, random): return f"[SM {random.integers(self.sides)} {random.integers(self.sides)} ]"

    generate("coins", split="test", seed=7)

A task's fields are its settings. Each split has a *distribution*: the task with the shifts of that split and without
sizes. Splits of the same distribution share a pool of distinct draws (`pomona.data.pool`). A shuffle that depends only
on the seed deals the pool out to test, dev and train; train can then continue with later draws, without end. Splits of
different distributions (for example a deeper test) are drawn one after the other, held-out splits first, and each
leaves out every example of those before it. So no example of train is ever in dev or test.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Ints
from pomona.base.errors import PomonaError, SpecError, SplitError, did_you_mean
from pomona.base.progress import shown
from pomona.base.randomness import stream_key
from pomona.base.registry import Registry, settings_of
from pomona.data.corpus import Corpus, Example, Outcome
from pomona.data.label_report import LabelReport
from pomona.data.pool import NOBODY, Crew, Listeners, Pool, Progress, Scan, batches, shuffled
from pomona.data.remembered import Remembered, Rows, Tree
from pomona.trees import brackets
from pomona.trees.forest import Forest
from pomona.trees.operators import LeafValues
from pomona.trees.values import Value, distinct, value_of_text

CHUNK = 1 << 15  # examples built at a time

Information: TypeAlias = Callable[[Corpus], Sequence[Any] | npt.NDArray[Any]]
"""One key for each example (a number, a row or a text): all that a baseline sees of it."""


@dataclass(frozen=True)
class Task:
    """The base class of tasks: settings, splits with their sizes, and examples drawn by number.

    A task must define `example(random)`, which returns a tree as text or nested tuples, or None to reject the draw. A
    fast task overrides `scan` and `build` with compiled versions. Everything else is optional.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1  # raise it when the same settings and seed no longer give the same examples
    splits: ClassVar[tuple[str, ...]] = ("test", "iid", "dev", "train")  # held-out first; each is a field: its size
    shortcuts: ClassVar[Mapping[str, Information]] = {}  # further baselines: a name, and what that baseline sees

    train: int = 10_000  # rows of the split train
    dev: int = 1_000  # rows of the split dev
    test: int = 1_000  # rows of the split test
    iid: int = 0  # a second test set, drawn like train, for tasks whose test has another distribution
    pool: int = 0  # rows dealt to train and the splits drawn like it; later rows are all train. 0: all rows
    shift: tuple[tuple[str, str, Any], ...] = ()  # (split, setting, value): settings that differ in a split

    def __post_init__(self) -> None:
        shift = tuple((*change, tuple(value) if isinstance(value, list) else value) for *change, value in self.shift)
        object.__setattr__(self, "shift", shift)  # JSON has lists, which would not equal tuples
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
        if every.get("iid") and self.distribution("iid") == self.distribution("test"):
            raise SpecError("iid is for tasks whose test differs in distribution from train; here it equals test")

    # -- splits ------------------------------------------------------------------------------------------------------

    @property
    def every_split(self) -> dict[str, int]:
        """The number of rows of every split (0 included), held-out splits first; override it to have more splits."""
        return {split: getattr(self, split) for split in self.splits}

    @property
    def sizes(self) -> dict[str, int]:
        """The number of rows of the splits that have any, held-out splits first."""
        return {split: rows for split, rows in self.every_split.items() if rows}

    def distribution(self, split: str) -> Task:
        """The task that a split is drawn from: with the shifts of this split, without sizes."""
        return dataclasses.replace(
            self, shift=(), pool=0, **dict.fromkeys(self.splits, 0), **self.shifted_settings(split)
        )

    def shifted_settings(self, split: str) -> dict[str, Any]:
        """The settings that `shift` changes in this split, with their values."""
        return {setting: value for where, setting, value in self.shift if where == split}

    def shares(self, split: str) -> dict[str, int]:
        """The splits that share the pool of this split, and how many rows of the pool each gets."""
        distribution = self.distribution(split)
        shares = {other: rows for other, rows in self.sizes.items() if self.distribution(other) == distribution}
        if self.pool and "train" in shares:
            held_out = sum(shares.values()) - shares["train"]
            if not held_out <= self.pool <= held_out + shares["train"]:
                raise SpecError(
                    f"pool = {self.pool}: it holds the {held_out:,} held-out rows drawn like train and some of train, "
                    f"so at most {held_out + shares['train']:,}"
                )
            shares["train"] = self.pool - held_out
        return shares

    def purpose(self, seed: int) -> tuple[Any, ...]:
        """What the random numbers of a distribution depend on: task, version, seed, and settings that are not defaults
        (defaults are left out so that adding a setting does not change published data)."""
        default = {item.name: item.default for item in dataclasses.fields(self)}
        chosen = {name: value for name, value in settings_of(self).items() if getattr(self, name) != default[name]}
        return self.name, self.version, chosen, int(seed)

    # -- drawing: methods of the distribution of a split -------------------------------------------------------------

    def example(self, random: np.random.Generator) -> Tree | None:
        """One draw: a tree as bracket text or nested tuples, or None to reject the draw."""
        raise NotImplementedError(f"{type(self).__name__} must define example(random), or scan and build")

    @staticmethod
    def leaf_value(text: str) -> Value:
        """The value of a leaf, from its text: a numeral is its number, any other word is itself."""
        return value_of_text(text)

    def scan(self, key: np.uint64, first: int, count: int) -> Scan:
        """The accepted draws among first .. first+count-1."""
        numbers, trees = self._drawn(key, range(first, first + count))
        keys = self.assemble(trees).keys
        return Scan(np.array(numbers, np.int64), keys, trees=trees if type(self).build is Task.build else ())

    def build(self, key: np.uint64, numbers: Ints) -> Corpus:
        """The examples of accepted draws, in the order of `numbers`."""
        return self.assemble(self._drawn(key, np.asarray(numbers).tolist())[1])

    def assemble(self, trees: Remembered) -> Corpus:
        """A corpus of trees returned by `example`; override it for a `scan` that gives rows of tokens."""
        if isinstance(trees, Rows):
            raise SpecError(f"task {self.name}: its `scan` gives rows, so it must also define `assemble`.")
        texts = [tree if isinstance(tree, str) else brackets.write(Forest.from_nested([tree]))[0] for tree in trees]
        return corpus_of_trees(brackets.read(texts), values=self.leaf_value)

    def _drawn(self, key: np.uint64, numbers: Iterable[int]) -> tuple[list[int], list[Tree]]:
        """The accepted draws among these numbers, with their trees."""
        accepted: list[int] = []
        trees: list[Tree] = []
        for number in numbers:
            tree = self.example(np.random.Generator(np.random.Philox(key=[int(key), number])))
            if tree is not None:
                accepted.append(number)
                trees.append(tree)
        return accepted, trees

    def disjoint_from(self, other: Task) -> bool:
        """Whether the two distributions can share no example; then they are not checked against each other."""
        return False

    def bins(self) -> int:
        """The number of bins into which `scan` sorts the draws, to be filled equally; 0 for no balancing."""
        return 0

    def room(self, key: np.uint64, count: int) -> npt.NDArray[np.int64] | None:
        """How many of `count` rows each bin takes, None for no balancing."""
        bins = self.bins()
        return np.array([count // bins + (bin_ < count % bins) for bin_ in range(bins)], np.int64) if bins else None

    # -- what a model must know before it sees an example ------------------------------------------------------------

    def words(self) -> tuple[str, ...] | None:
        """Every token that training can contain, whatever is drawn; None: whatever the training data contain."""
        return None

    def outcomes(self) -> tuple[Outcome, ...] | None:
        """Everything that a node's value or a target can be; None: whatever the training data contain."""
        return None

    # -- for verification and baselines: class methods, because a file may not record its settings ------------------

    @classmethod
    def node_values(cls, corpus: Corpus) -> npt.NDArray[np.integer[Any]] | None:
        """Every node's value by the rules of this task, as positions in `corpus.outcomes`: -1 where a node has none, -2
        where the value is not an outcome. None: the values follow from the operators of the trees."""
        return None

    @classmethod
    def targets(cls, corpus: Corpus) -> npt.NDArray[np.integer[Any]] | None:
        """[rows, questions]: the right targets, as positions in `corpus.outcomes`. None: the values of the roots."""
        return None

    @classmethod
    def labels(cls) -> tuple[Outcome, ...] | None:
        """What a target can be, if that is less than `outcomes`; None: any outcome."""
        return None

    @classmethod
    def parts(cls, corpus: Corpus) -> Mapping[str, Sequence[str]]:
        """The named parts of each input, for a model outside Pomona (`pomona export`); none: it is one text."""
        return {}

    @classmethod
    def ceilings(cls, corpus: Corpus) -> Mapping[str, float]:
        """Exact accuracies of the best predictors that see only part of an example, on the distribution of a corpus.
        The name says which part."""
        return {}

    @classmethod
    def prove(cls, corpus: Corpus, prover: str, sample: int | None, seed: int) -> LabelReport | None:
        """What a prover says about the labels of a sample of rows (None: all rows).

        None if there is no prover for this task, or if the corpus is not of this task.
        """
        return None


TASKS: Registry[Task] = Registry("task", "pomona.tasks")


def corpus_of_trees(
    forest: Forest, origin: Mapping[str, Any] | None = None, values: LeafValues = value_of_text
) -> Corpus:
    """A corpus of list trees; `values` gives the value of a leaf from its text (`Corpus.of_trees`)."""
    return Corpus.of_trees(forest, values, origin=origin)


# -- from a corpus back to its task ------------------------------------------------------------------------------------


def task_class(corpus: Corpus) -> type[Task]:
    """The class of the task that a corpus names as its origin, else `Task`, which has no rules."""
    try:
        return TASKS.entry(str(corpus.origin.get("task") or ""))[0].kind
    except PomonaError:
        return Task


def task_of(corpus: Corpus) -> Task | None:
    """The task that generated a corpus, with its settings; None if the corpus names none, or an unknown one."""
    settings = corpus.origin.get("settings")
    if not isinstance(settings, Mapping):
        return None
    try:
        return TASKS.build(str(corpus.origin.get("task") or ""), settings)
    except PomonaError:  # an unknown task, or another version of it
        return None


def declared_first(
    corpus: Corpus, words: Iterable[str], outcomes: Iterable[Outcome]
) -> tuple[tuple[str, ...], tuple[Outcome, ...]]:
    """The words and outcomes that the task of a corpus declares, then the remaining ones of the arguments."""
    task = task_of(corpus)
    known, answers = (None, None) if task is None else (task.words(), task.outcomes())
    return tuple(dict.fromkeys([*(known or ()), *words])), distinct([*(answers or ()), *outcomes])


# -- examples of a split -----------------------------------------------------------------------------------------------


def generate(
    name: str | Task,
    split: str = "train",
    seed: int = 0,
    size: int | None = None,
    *,
    workers: int = 1,
    chunk: int = 1 << 20,
    progress: Progress | bool | None = None,
    **settings: Any,
) -> Corpus:
    """The examples of one split of a task: the same for any number of workers and any chunk size.

    `progress` is called with the number of rows of each chunk; by default progress is shown where that is possible
    (`base.progress`), and with False nowhere.

    >>> generate("listops/d20s", split="test", seed=7, size=2).origin["split"]
    'test'
    """
    task = name if isinstance(name, Task) else TASKS.build(name, settings)
    parts = partial(chunks, task, split, seed, size, workers=workers, chunk=chunk)
    if progress is False or callable(progress):
        return Corpus.concatenate(list(parts(listeners=Listeners(built=progress or None))))
    _check_split(task, split)
    work = sum(task.shares(split).values()) + (task.sizes[split] if size is None else size)
    with shown(f"{task.name} {split}", work) as step:
        return Corpus.concatenate(list(parts(listeners=Listeners(step, step))))


def stream(name: str | Task, split: str = "train", seed: int = 0, **settings: Any) -> Iterator[Example]:
    """The examples of a split, one by one; for train, new examples follow without end, none of them twice."""
    task = name if isinstance(name, Task) else TASKS.build(name, settings)
    _check_split(task, split)
    with ThreadPoolExecutor(1) as executor:
        dealt = Dealt(task, split, seed, Crew(executor, 1))
        for batch in batches(dealt.numbers, dealt.later, 4096, None):
            yield from dealt.build(batch)


def chunks(
    task: Task,
    split: str,
    seed: int,
    size: int | None = None,
    *,
    workers: int = 1,
    chunk: int = CHUNK,
    listeners: Listeners = NOBODY,
) -> Iterator[Corpus]:
    """The rows of a split, a chunk at a time, so that any number of them fits in memory."""
    if workers < 1 or chunk < 1:
        raise SpecError(f"workers = {workers}, chunk = {chunk}: both are at least 1")
    wanted = rows_wanted(task, split, size)
    with ThreadPoolExecutor(workers) as executor:
        dealt = Dealt(task, split, seed, Crew(executor, workers), listeners.drawn)
        later = dealt.later if wanted > len(dealt.numbers) else None
        for batch in batches(dealt.numbers, later, chunk, wanted):
            yield dealt.build(batch)
            if listeners.built:
                listeners.built(len(batch))


def rows_wanted(task: Task, split: str, size: int | None) -> int:
    """How many rows of a split to make: all that it has, or as many as are asked for, if it can have so many."""
    _check_split(task, split)
    if size is not None and size < 0:
        raise SpecError(f"size = {size}: ask for 0 or more rows")
    rows = task.sizes[split]
    wanted = rows if size is None else size
    if wanted > rows and (split != "train" or task.distribution(split).bins()):  # full bins end a balanced pool
        raise SplitError(
            f"{task.name} has {rows:,} rows of {split}; {wanted:,} were asked for. "
            f"Set {split}={wanted} to draw more (this changes the pool, and so every split)."
        )
    return wanted


def _check_split(task: Task, split: str) -> None:
    if split not in task.sizes:
        raise SpecError(f"{task.name} has no split {split!r} here. {did_you_mean(split, task.sizes)}")


class Dealt:
    """The rows of one split: the numbers of its draws, dealt from the pool, and how to build them."""

    def __init__(self, task: Task, split: str, seed: int, crew: Crew, progress: Progress | None = None) -> None:
        distribution = task.distribution(split)
        purpose = distribution.purpose(seed)
        self._pool = Pool(distribution, stream_key(*purpose), crew)
        self.excluded = _earlier_keys(task, split, seed, crew)  # keys that are never drawn
        self._pool.exclude(self.excluded)
        shares = task.shares(split)
        self.pooled = sum(shares.values())
        numbers = self._pool.first(self.pooled, progress).numbers
        self.draws_a_row = (1 + int(numbers.max(initial=0))) / max(1, len(numbers))
        order = shuffled(stream_key("deal", *purpose), len(numbers))
        before = sum(shares[other] for other in list(shares)[: list(shares).index(split)])
        self.numbers = numbers[order[before : before + shares[split]]]
        endless = split == "train" and not distribution.bins()
        self.later = self._pool.later if endless else None
        about = {"task": task.name, "version": task.version, "settings": settings_of(task)}
        self.origin = {**about, "split": split, "seed": int(seed)}

    def build(self, numbers: npt.NDArray[np.int64]) -> Corpus:
        return dataclasses.replace(self._pool.build(numbers), origin=self.origin)


def _earlier_keys(task: Task, split: str, seed: int, crew: Crew) -> list[npt.NDArray[np.uint64]]:
    """The keys of the splits drawn before this one from other distributions that could share an example with it."""
    distribution = task.distribution(split)
    before: dict[Task, str] = {}
    for other in task.sizes:
        earlier = task.distribution(other)
        if earlier == distribution:
            break
        before.setdefault(earlier, other)
    # The rows of an earlier split depend in turn on the splits before it with which it could share an example.
    needed = [distribution]
    for earlier in reversed(before):
        if not all(later.disjoint_from(earlier) for later in needed):
            needed.append(earlier)
    keys: dict[Task, npt.NDArray[np.uint64]] = {}
    for current in reversed(needed[1:]):
        pool = Pool(current, stream_key(*current.purpose(seed)), crew)
        pool.exclude([keys[earlier] for earlier in keys if not current.disjoint_from(earlier)])
        keys[current] = pool.first(sum(task.shares(before[current]).values())).keys
    return [keys[earlier] for earlier in keys if not distribution.disjoint_from(earlier)]
