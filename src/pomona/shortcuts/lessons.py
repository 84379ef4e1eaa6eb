"""What baselines learn from a training set: counts, which add up, and a few first examples.

    lessons = learn(train, {"root operator": root_operators}, crew)        train is a corpus, or shards
    lessons.counts("root operator", 0, outcomes).best(keys)                the most frequent answer to each key

A look-up needs how often each answer goes with each key, the truncated evaluators how often each operator has each
value, the COPY ceiling which arguments occur: all sums over the training examples. So workers count the shards in
parallel, in the memory of the different keys, and the sums are those of the whole. The softmax on token counts is no
sum; it learns from the first 10,000 usable examples only, in shards as in memory, so these are read and kept.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pomona.base.errors import MeasureError
from pomona.base.workers import HERE, Crew
from pomona.data.answers import asked
from pomona.data.corpus import Corpus
from pomona.data.shards.folder import Shard, Shards
from pomona.data.task import Information
from pomona.shortcuts import enumeration, truncation
from pomona.trees.links import copy_arguments
from pomona.trees.values import Value, distinct, from_json, renumber, to_json

RUNS_A_WORKER = 4  # into which shards are shared out
NEED_RULES = ("root list",)  # informations that only corpora have whose operators have rules
Ints64: TypeAlias = "npt.NDArray[np.int64]"


class Counted(NamedTuple):
    """How often each answer goes with each key: keys as codes, answers as positions in a table of outcomes."""

    keys: npt.NDArray[np.uint64]
    answers: Ints64
    times: Ints64

    @classmethod
    def of(cls, keys: npt.NDArray[np.uint64], answers: Ints64, times: Ints64) -> Counted:
        """Equal pairs of a key and an answer, added up; the pairs in order."""
        order = np.lexsort((answers, keys))
        keys, answers = keys[order], answers[order]
        new = np.ones(len(keys), np.bool_)
        new[1:] = (keys[1:] != keys[:-1]) | (answers[1:] != answers[:-1])
        first = np.flatnonzero(new)
        sums = np.add.reduceat(times[order], first) if len(first) else np.zeros(0, np.int64)
        return cls(keys[first], answers[first], sums.astype(np.int64))

    @classmethod
    def joined(cls, some: Counted, more: Counted) -> Counted:
        """The counts of both."""
        return cls.of(*(np.concatenate(both) for both in zip(some, more, strict=True)))

    def best(self, other: npt.NDArray[np.uint64]) -> tuple[Ints64, npt.NDArray[np.bool_]]:
        """For each of other keys, the most frequent answer (of equally frequent ones the last), and whether there is
        one."""
        order = np.lexsort((self.answers, self.times, self.keys))
        keys = self.keys[order]
        last = np.flatnonzero(np.append(keys[1:] != keys[:-1], True)) if len(keys) else np.zeros(0, np.int64)
        if not len(last):
            return np.zeros(len(other), np.int64), np.zeros(len(other), np.bool_)
        at = np.minimum(np.searchsorted(keys[last], other), len(last) - 1)
        return self.answers[order][last][at], np.asarray(keys[last][at] == other)


def coded(keys: Any) -> npt.NDArray[np.uint64]:
    """A 64-bit code for each key (a number, a row of numbers, a text or any other value): equal for equal keys."""
    if isinstance(keys, np.ndarray) and np.issubdtype(keys.dtype, np.integer):
        rows = keys.reshape(len(keys), math.prod(keys.shape[1:]))
        codes = np.zeros(len(rows), np.uint64)
        for column in rows.T:
            codes = (codes ^ column.astype(np.int64).view(np.uint64)) * np.uint64(0x9FB21C651E98DF25)
            codes ^= codes >> np.uint64(29)
        return codes
    digests = (hashlib.blake2b(repr(key).encode(), digest_size=8).digest() for key in keys)
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)


def about(keys: Any, question: int) -> Any:
    """The keys of one question, where there is one for each."""
    return keys[:, question] if isinstance(keys, np.ndarray) and keys.ndim == 3 else keys


def keys_of(information: Information, corpus: Corpus) -> Any:
    """The keys of a corpus: one for each example or, in an array of three dimensions, for each of its questions."""
    keys = information(corpus)
    if len(keys) != len(corpus):
        raise MeasureError(f"an information gives one key an example; got {len(keys)} for {len(corpus)}")
    return keys


class ValueCounts(NamedTuple):
    """How often the lists of each operator have each value: [names, outcomes]."""

    names: tuple[str, ...]
    outcomes: tuple[Value, ...]
    counts: Ints64

    @classmethod
    def of(cls, corpus: Corpus) -> ValueCounts:
        inner = ~corpus.forest.leaf & (corpus.values >= 0)
        used, operator = np.unique(corpus.forest.symbol[inner], return_inverse=True)
        counts = np.zeros((len(used), len(corpus.outcomes)), np.int64)
        np.add.at(counts, (operator, corpus.values[inner]), 1)
        return cls(tuple(corpus.forest.names[symbol] for symbol in used.tolist()), corpus.outcomes, counts)

    def join(self, later: ValueCounts) -> ValueCounts:
        names = tuple(dict.fromkeys([*self.names, *later.names]))
        outcomes = distinct([*self.outcomes, *later.outcomes])
        counts = np.zeros((len(names), len(outcomes)), np.int64)
        for one in (self, later):
            rows = renumber(np.arange(len(one.names)), one.names, names)
            columns = renumber(np.arange(len(one.outcomes)), one.outcomes, outcomes)
            counts[np.ix_(rows, columns)] += one.counts
        return ValueCounts(names, outcomes, counts)


class Teaching:
    """What a training set teaches; answers are positions in `outcomes`."""

    questions: int
    outcomes: tuple[Value, ...]
    complete: bool  # whether some example has all its answers
    values: ValueCounts
    digits: bool  # whether the fast evaluators apply (`truncation.applies`)
    not_evaluable: str  # why the rules of the operators do not give the values; empty if they do
    copied: frozenset[int]  # arguments of COPY
    source: str
    memory: dict[Any, Any]  # for what a predictor has fitted to it

    def table(self, name: str) -> tuple[Counted, ...]:
        """The answers to the keys of an information, for each question."""
        raise NotImplementedError

    def first(self, outcomes: Sequence[Value], size: int) -> Corpus:
        """The first examples whose answers are all among these outcomes."""
        raise NotImplementedError

    def lessons(self) -> Lessons:
        """All of it, as a value that can be joined with others and written down."""
        raise NotImplementedError

    def counts(self, name: str, question: int, outcomes: Sequence[Value]) -> Counted:
        """The same with answers as positions in other outcomes; those that are not among them are left out."""
        table = self.table(name)[question]
        answers = renumber(table.answers, self.outcomes, outcomes)
        known = answers >= 0
        return Counted(table.keys[known], answers[known], table.times[known])

    def prior(self, *, digits: bool) -> Any:
        """p(value | operator), for the fast evaluators or for those of any operators."""
        return truncation.prior_of(*self.values) if digits else enumeration.prior_of(*self.values)


class FromCorpus(Teaching):
    """What a corpus teaches, computed when it is asked for."""

    def __init__(self, corpus: Corpus, informations: Mapping[str, Information]) -> None:
        self.corpus, self.informations = corpus, informations
        self.outcomes, self.source = corpus.outcomes, repr(corpus)
        self._wanted = asked(corpus)
        self.questions = self._wanted.shape[1]
        self.complete = bool((self._wanted >= 0).all(axis=1).any())
        self._tables: dict[str, tuple[Counted, ...]] = {}
        self.memory = {}

    def table(self, name: str) -> tuple[Counted, ...]:
        if name not in self._tables:
            keys = keys_of(self.informations[name], self.corpus)
            self._tables[name] = tuple(
                _counted(coded(about(keys, question)), self._wanted[:, question]) for question in range(self.questions)
            )
        return self._tables[name]

    def first(self, outcomes: Sequence[Value], size: int) -> Corpus:
        return _first([self.corpus], outcomes, size)

    @cached_property
    def values(self) -> ValueCounts:  # type: ignore[override]
        return ValueCounts.of(self.corpus)

    @cached_property
    def digits(self) -> bool:  # type: ignore[override]
        return truncation.applies(self.corpus)

    @cached_property
    def not_evaluable(self) -> str:  # type: ignore[override]
        return "" if self.digits else _reason(self.corpus)

    @cached_property
    def copied(self) -> frozenset[int]:  # type: ignore[override]
        forest = self.corpus.forest
        return frozenset(() if forest.link is None else copy_arguments(forest, self.corpus.width)[1].tolist())

    def lessons(self) -> Lessons:
        left_out = NEED_RULES if self.not_evaluable else ()
        tables = {name: self.table(name) for name in self.informations if name not in left_out}
        return Lessons(
            self.questions, self.outcomes, self.complete, self.values, self.digits, self.not_evaluable, self.copied,
            self.source, tables, lambda: [self.corpus],
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Lessons(Teaching):
    """What many examples teach, as sums; the first examples are asked for from `parts`."""

    questions: int
    outcomes: tuple[Value, ...]
    complete: bool
    values: ValueCounts
    digits: bool
    not_evaluable: str
    copied: frozenset[int]
    source: str
    tables: Mapping[str, tuple[Counted, ...]]
    parts: Callable[[], Iterable[Corpus]] = tuple
    memory: dict[Any, Any] = field(default_factory=dict)

    def lessons(self) -> Lessons:
        return self

    def table(self, name: str) -> tuple[Counted, ...]:
        return self.tables[name]

    def first(self, outcomes: Sequence[Value], size: int) -> Corpus:
        return _first(self.parts(), outcomes, size)

    def join(self, later: Lessons) -> Lessons:
        """The lessons of the rows of both."""
        if self.questions != later.questions:
            raise MeasureError(
                f"some training examples ask {self.questions} questions and others {later.questions}; read them apart"
            )
        outcomes = distinct([*self.outcomes, *later.outcomes])
        tables = {
            name: tuple(
                Counted.joined(
                    a._replace(answers=renumber(a.answers, self.outcomes, outcomes)),
                    b._replace(answers=renumber(b.answers, later.outcomes, outcomes)),
                )
                for a, b in zip(self.tables[name], later.tables[name], strict=True)
            )
            for name in self.tables
            if name in later.tables
        }
        return Lessons(
            self.questions, outcomes, self.complete or later.complete, self.values.join(later.values),
            self.digits and later.digits, self.not_evaluable or later.not_evaluable, self.copied | later.copied,
            self.source, tables, self.parts,
        )  # fmt: skip

    def plain(self) -> dict[str, Any]:
        """As JSON values; `from_plain` undoes it. The first examples are not part of it."""
        return {
            "questions": self.questions, "outcomes": list(map(to_json, self.outcomes)), "complete": self.complete,
            "digits": self.digits, "not_evaluable": self.not_evaluable, "copied": sorted(self.copied),
            "source": self.source,
            "tables": {name: [[column.tolist() for column in one] for one in some]
                       for name, some in self.tables.items()},
            "values": [list(self.values.names), list(map(to_json, self.values.outcomes)), self.values.counts.tolist()],
        }  # fmt: skip

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], parts: Callable[[], Iterable[Corpus]] = tuple) -> Lessons:
        names, outcomes, counts = plain["values"]
        shape = len(names), len(outcomes)
        values = ValueCounts(tuple(names), tuple(map(_value, outcomes)), np.array(counts, np.int64).reshape(shape))
        tables = {
            name: tuple(
                Counted(np.array(keys, np.uint64), np.array(answers, np.int64), np.array(times, np.int64))
                for keys, answers, times in some
            )
            for name, some in plain["tables"].items()
        }
        return cls(
            plain["questions"], tuple(map(_value, plain["outcomes"])), plain["complete"], values, plain["digits"],
            plain["not_evaluable"], frozenset(plain["copied"]), plain["source"], tables, parts,
        )  # fmt: skip


def _value(text: str) -> Value:
    return from_json(json.loads(text))


def _counted(codes: npt.NDArray[np.uint64], answers: Ints64) -> Counted:
    known = answers >= 0
    return Counted.of(codes[known], answers[known], np.ones(int(known.sum()), np.int64))


def _first(parts: Iterable[Corpus], outcomes: Sequence[Value], size: int) -> Corpus:
    found: list[Corpus] = []
    left = size
    for part in parts:
        usable = np.flatnonzero((renumber(asked(part), part.outcomes, outcomes) >= 0).all(axis=1))[:left]
        found.append(part.take(usable))
        left -= len(usable)
        if left <= 0:
            break
    return Corpus.concatenate(found)


# -- from examples ---------------------------------------------------------------------------------------------------


def learn(train: Corpus | Shards, informations: Mapping[str, Information], crew: Crew = HERE) -> Teaching:
    """What a training set teaches about these informations."""
    if not len(train):
        raise MeasureError("the training corpus is empty")
    if isinstance(train, Corpus):
        return FromCorpus(train, informations)
    named = {name: name_of(information) for name, information in informations.items()}
    if not all(named.values()):  # a function without a name of its own cannot be sent to another process
        crew = HERE
    runs = train.groups(RUNS_A_WORKER * crew.size if crew.size > 1 else 1)
    orders = [
        {"shards": [shard.plain() for shard in run], "informations": dict(informations) if crew is HERE else named}
        for run in runs
    ]
    answers = dict(crew.run(lessons_of_run, orders))
    lessons = reduce(Lessons.join, (Lessons.from_plain(answers[number]) for number in range(len(runs))))
    return replace(lessons, source=repr(train), parts=train.parts)


def name_of(information: Information) -> str:
    """A function of a module as module:name; nothing if it cannot be found by that name."""
    module, name = getattr(information, "__module__", ""), getattr(information, "__qualname__", "")
    try:
        same = resolved(f"{module}:{name}") is information
    except (ImportError, AttributeError, ValueError):
        return ""
    return f"{module}:{name}" if same and module != "__main__" else ""


def resolved(name: str | Information) -> Information:
    """The function of this name; a function is itself."""
    if not isinstance(name, str):
        return name
    module, _, path = name.partition(":")
    value: Any = importlib.import_module(module)
    for part in path.split("."):
        value = getattr(value, part)
    found: Information = value
    return found


def lessons_of_run(
    shards: Sequence[Mapping[str, Any]], informations: Mapping[str, str | Information]
) -> dict[str, Any]:
    """What neighbouring shards teach."""
    known = {name: resolved(information) for name, information in informations.items()}

    def parts() -> Iterator[Corpus]:
        for shard in shards:
            yield from Shard.of(shard).parts()

    return reduce(Lessons.join, (FromCorpus(part, known).lessons() for part in parts())).plain()


def _reason(corpus: Corpus) -> str:
    """Why the rules of a corpus's operators do not give its values; empty if they do."""
    try:
        enumeration.check_evaluable(corpus)
    except MeasureError as error:
        return str(error)
    return ""
