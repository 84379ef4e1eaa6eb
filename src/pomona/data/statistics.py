"""Statistics of a corpus: lengths, labels, operators, arities, nesting, dependency depth and binary trees.

These numbers compare a regenerated ListOps with the published files. Among them is the distribution of average tree
depth in Figure 3 of the paper, where the depth of a token is the number of groups around it in the binary tree.

All of them follow from counts (`Tally`), and counts add up: the tallies of shards, joined, give the same description to
the last digit as the rows in one piece. Only the number of distinct examples needs the keys themselves, partition by
partition (`data.shards.repeats`).
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Floats, Ints
from pomona.base.workers import HERE, Crew
from pomona.data.corpus import Corpus, Outcome
from pomona.data.shards.folder import Shard, Shards
from pomona.data.shards.keys import partitions_for, write_keys
from pomona.data.shards.repeats import count_distinct
from pomona.trees.binary import binarise
from pomona.trees.values import distinct, from_json, labels_of, renumber, to_json

PERCENTILES = (5.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 100.0)
SHARES = (50, 100, 130, 200, 500)
BUCKETS = (10, 20, 50, 100, 200, 500, 1000)


class Counts(NamedTuple):
    """Different amounts in increasing order, and how often each occurs."""

    amounts: npt.NDArray[Any]
    times: npt.NDArray[np.int64]

    @classmethod
    def of(cls, values: Ints | Floats) -> Counts:
        amounts, times = np.unique(np.asarray(values), return_counts=True)
        kind = np.float64 if np.issubdtype(amounts.dtype, np.floating) else np.int64
        return cls(amounts.astype(kind), times.astype(np.int64))

    def join(self, other: Counts) -> Counts:
        """The counts of both."""
        amounts, where = np.unique(np.concatenate([self.amounts, other.amounts]), return_inverse=True)
        times = np.zeros(len(amounts), np.int64)
        np.add.at(times, where, np.concatenate([self.times, other.times]))
        return Counts(amounts, times)

    def named(self) -> dict[str, int]:
        return dict(zip(map(str, self.amounts.tolist()), self.times.tolist(), strict=True))

    def up_to(self, bound: int) -> int:
        """How many are at most this."""
        return int(self.times[self.amounts <= bound].sum())

    def plain(self) -> list[list[Any]]:
        return [self.amounts.tolist(), self.times.tolist()]

    @classmethod
    def from_plain(cls, plain: list[list[Any]], kind: type) -> Counts:
        return cls(np.array(plain[0], kind), np.array(plain[1], np.int64))


@dataclass(frozen=True)
class Spread:
    """Mean, standard deviation and percentiles of one quantity."""

    mean: float
    deviation: float
    percentiles: dict[str, float]

    @classmethod
    def of(cls, values: Ints | Floats) -> Spread:
        return cls.from_counts(Counts.of(values))

    @classmethod
    def from_counts(cls, counts: Counts) -> Spread:
        """The spread of all amounts, each as often as it occurs; percentiles as NumPy interpolates them."""
        amounts, times = counts
        total = int(times.sum())
        if not total:
            return cls(0.0, 0.0, {})
        mean = float(amounts @ times) / total
        deviation = math.sqrt(float(((amounts - mean) ** 2) @ times) / total)
        ends = np.cumsum(times)
        named = {}
        for mark in PERCENTILES:
            place = mark / 100 * (total - 1)
            low = math.floor(place)
            below, above = amounts[np.searchsorted(ends, [low, min(low + 1, total - 1)], side="right")].tolist()
            named[f"{mark:g}"] = round(float(below + (above - below) * (place - low)), 3)
        return cls(mean, deviation, named)


@dataclass(frozen=True)
class Description:
    """The numbers of one corpus; `as_dict` is what `--json` prints."""

    rows: int
    distinct: int
    single_tokens: int
    tokens: int
    targets: list[dict[str, int]]
    majority: float
    operators: dict[str, int]
    arities: dict[str, int]
    length: Spread
    share_up_to: dict[str, float]
    length_buckets: dict[str, int]
    nesting: Spread
    nesting_counts: dict[str, int]
    dependency: Spread
    dependency_counts: dict[str, int]
    lists: Spread
    token_depth: Spread
    binary_depth: Spread
    fingerprint: str

    def __repr__(self) -> str:
        return (
            f"Description({self.rows:,} rows, {self.distinct:,} distinct, {self.tokens:,} tokens; mean length "
            f"{self.length.mean:.1f}, nesting {self.nesting.mean:.1f}; as_dict() has everything)"
        )

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def token_depths(corpus: Corpus) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """For each tree, the mean and the greatest depth of its tokens in the left-branching binary tree."""
    forest = binarise(corpus.forest)
    leaves = forest.leaf
    counts = np.add.reduceat(leaves.astype(np.int64), forest.start[:-1]) if len(forest) else np.zeros(0, np.int64)
    depths = np.where(leaves, forest.depth, 0)
    totals = np.add.reduceat(depths.astype(np.int64), forest.start[:-1]) if len(forest) else counts
    deepest = np.maximum.reduceat(depths, forest.start[:-1]).astype(np.int64) if len(forest) else counts
    return totals / np.maximum(counts, 1), deepest


@dataclass(frozen=True, eq=False)
class Tally:
    """Counts of the rows of a corpus, from which all numbers of a description follow; two of them can be joined."""

    rows: int
    tokens: int
    outcomes: tuple[Outcome, ...]
    targets: tuple[npt.NDArray[np.int64], ...]  # of each question: how often each outcome is the answer
    names: tuple[str, ...]
    operators: npt.NDArray[np.int64]  # how many lists each name has
    arity: Counts
    length: Counts
    nesting: Counts
    dependency: Counts
    lists: Counts
    binary_depth: Counts
    token_depth: Counts

    @classmethod
    def of(cls, corpus: Corpus) -> Tally:
        forest = corpus.forest
        inner = ~forest.leaf
        mean_depth, deepest = token_depths(corpus)
        return cls(
            rows=len(corpus),
            tokens=len(corpus.tokens),
            outcomes=corpus.outcomes,
            targets=tuple(_bins(column, len(corpus.outcomes)) for column in corpus.targets.T),
            names=forest.names,
            operators=_bins(forest.symbol[inner], len(forest.names)),
            arity=Counts.of(forest.arity[inner]),
            length=Counts.of(corpus.lengths),
            nesting=Counts.of(corpus.nesting),
            dependency=Counts.of(corpus.dependency),
            lists=Counts.of(np.bincount(forest.tree[inner] // corpus.width, minlength=len(corpus))),
            binary_depth=Counts.of(deepest),
            token_depth=Counts.of(mean_depth),
        )

    def join(self, later: Tally) -> Tally:
        """The tally of the rows of both; names and outcomes are numbered as `Corpus.concatenate` numbers them."""
        outcomes = distinct([*self.outcomes, *later.outcomes])
        names = tuple(dict.fromkeys([*self.names, *later.names]))
        both = zip(self.targets, later.targets, strict=True)
        return Tally(
            self.rows + later.rows,
            self.tokens + later.tokens,
            outcomes,
            tuple(_moved(a, self.outcomes, outcomes) + _moved(b, later.outcomes, outcomes) for a, b in both),
            names,
            _moved(self.operators, self.names, names) + _moved(later.operators, later.names, names),
            *(getattr(self, name).join(getattr(later, name)) for name in _COUNTED),
        )

    def plain(self) -> dict[str, Any]:
        """As JSON values; `from_plain` undoes it."""
        counted = {name: getattr(self, name).plain() for name in _COUNTED}
        return {
            **counted, "rows": self.rows, "tokens": self.tokens, "outcomes": [to_json(out) for out in self.outcomes],
            "targets": [column.tolist() for column in self.targets], "names": list(self.names),
            "operators": self.operators.tolist(),
        }  # fmt: skip

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Tally:
        return cls(
            plain["rows"],
            plain["tokens"],
            tuple(from_json(json.loads(out)) for out in plain["outcomes"]),
            tuple(np.array(column, np.int64) for column in plain["targets"]),
            tuple(plain["names"]),
            np.array(plain["operators"], np.int64),
            *(Counts.from_plain(plain[name], float if name == "token_depth" else int) for name in _COUNTED),
        )

    def description(self, different: int, fingerprint: str) -> Description:
        """The numbers of rows of which so many are different, with this fingerprint."""
        labels = labels_of(self.outcomes)
        targets = [_named(labels, column) for column in self.targets]
        ends = [*(self.length.up_to(bound - 1) for bound in BUCKETS), self.rows]
        named = [f"<{bound}" for bound in BUCKETS] + [f">={BUCKETS[-1]}"]
        share = {str(bound): self.length.up_to(bound) / self.rows if self.rows else 0.0 for bound in SHARES}
        return Description(
            rows=self.rows,
            distinct=different,
            single_tokens=self.length.up_to(1) - self.length.up_to(0),
            tokens=self.tokens,
            targets=targets,
            majority=max((max(counts.values(), default=0) for counts in targets), default=0) / max(self.rows, 1),
            operators=_named(self.names, self.operators),
            arities=self.arity.named(),
            length=Spread.from_counts(self.length),
            share_up_to=share,
            length_buckets=dict(zip(named, np.diff([0, *ends]).tolist(), strict=True)),
            nesting=Spread.from_counts(self.nesting),
            nesting_counts=self.nesting.named(),
            dependency=Spread.from_counts(self.dependency),
            dependency_counts=self.dependency.named(),
            lists=Spread.from_counts(self.lists),
            token_depth=Spread.from_counts(self.token_depth),
            binary_depth=Spread.from_counts(self.binary_depth),
            fingerprint=fingerprint,
        )


_COUNTED = tuple(item.name for item in fields(Tally) if item.type == "Counts")


def describe(corpus: Corpus | Shards, crew: Crew = HERE) -> Description:
    """The numbers that describe a corpus, or shards, which the workers of `crew` share."""
    return describe_and_tally(corpus, crew)[0]


def describe_and_tally(corpus: Corpus | Shards, crew: Crew = HERE) -> tuple[Description, Tally]:
    """The numbers that describe a corpus, and the counts that they follow from."""
    if isinstance(corpus, Corpus):
        tally = Tally.of(corpus)
        return tally.description(len(np.unique(corpus.keys)), corpus.fingerprint), tally
    partitions = partitions_for(len(corpus))
    with tempfile.TemporaryDirectory(prefix="pomona-keys-") as folder:
        files = [Path(folder) / f"{number}.keys" for number in range(len(corpus.files))]
        orders = [
            {"shard": shard.plain(), "keys": str(file), "partitions": partitions}
            for shard, file in zip(corpus.files, files, strict=True)
        ]
        tallies = dict(crew.run(tally_shard, orders))
        different = count_distinct(files, partitions, crew)
    tally = reduce(Tally.join, (Tally.from_plain(tallies[number]) for number in range(len(files))))
    return tally.description(different, corpus.fingerprint), tally


def tally_shard(shard: Mapping[str, Any], keys: str, partitions: int) -> dict[str, Any]:
    """The tally of a shard; the keys of its rows go to a file."""
    tallies, content = [], []
    for part in Shard.of(shard).parts():
        tallies.append(Tally.of(part))
        content.append(part.keys)
    whole = np.concatenate(content)
    write_keys(Path(keys), np.arange(len(whole)), whole, partitions)
    return reduce(Tally.join, tallies).plain()


def _bins(values: Ints, count: int) -> npt.NDArray[np.int64]:
    """How often each of 0 .. count-1 occurs; negative values are left out."""
    return np.bincount(values[values >= 0], minlength=count).astype(np.int64)


def _moved(counts: npt.NDArray[np.int64], old: Any, new: Any) -> npt.NDArray[np.int64]:
    """Counts of the entries of one table as counts of those of another, which has them all."""
    moved = np.zeros(len(new), np.int64)
    moved[renumber(np.arange(len(old)), old, new)] = counts
    return moved


def _named(names: Any, counts: npt.NDArray[np.int64]) -> dict[str, int]:
    """The counts that are not 0, by name."""
    return {name: count for name, count in zip(names, counts.tolist(), strict=True) if count}
