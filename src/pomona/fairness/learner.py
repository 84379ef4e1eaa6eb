"""Composition trees and the learner that fairness is defined by (Geiger et al. 2019, section 3).

    learned = learn(train)                       # Algorithm 2: remember the output of every input
    learned.table("C1")                          # {("¬", "T"): "F", ("¬", "F"): "T", ...}
    compose_values(learned, test).right.mean()   # Algorithm 1: look up, from the leaves to the root

A training set is fair if this learner, which only remembers, then answers everything. The paper leaves three cases
open. Here a child that is a leaf counts with its input. A look-up that misses is undefined, and so is every node above
it. If two examples give one input two outputs, this is a conflict and the entry is undefined. Each node type has a
table (`by="type"`, for any trees), or each position of one fixed tree has one (`by="node"`, Definition 1). Functions
named in `given` are taken as known and never looked up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Bools
from pomona.base.errors import FairnessError, SpecError, did_you_mean
from pomona.data.corpus import Corpus, Outcome
from pomona.data.shards.folder import Shards
from pomona.fairness.evidence import Evidence
from pomona.fairness.facts import By, FactTable, Inputs, known_functions, where
from pomona.fairness.tables import UNKNOWN


class Place(NamedTuple):
    """A node: the split ("train" or "test"), the row of its example, and its number within the example."""

    split: str
    example: int
    node: int


class Conflict(NamedTuple):
    """One input with two outputs, so that no function fits the data."""

    function: str
    inputs: Inputs
    outputs: tuple[Outcome, Outcome]
    places: tuple[Place, Place]


@dataclass(frozen=True, eq=False)
class CompositionTree:
    """What was learned: for each function a table of the inputs that training shows."""

    facts: FactTable
    conflicts: tuple[Conflict, ...]

    @property
    def functions(self) -> list[str]:
        """The functions that have at least one entry."""
        return [self.facts.functions[number] for number in np.unique(self.facts.function).tolist()]

    def table(self, function: str) -> dict[Inputs, Outcome]:
        """The output of each input that training shows without conflict."""
        if function not in self.functions:
            raise SpecError(f"no function is called {function!r}. {did_you_mean(function, self.functions)}")
        number = self.facts.functions.index(function)
        wanted = np.flatnonzero((self.facts.function == number) & ~self.undefined).tolist()
        return {inputs: output for _, inputs, output in self.facts.rows(wanted)}

    @cached_property
    def undefined(self) -> Bools:
        """Which facts of the table are in conflict."""
        lost: Bools = np.zeros(len(self.facts), np.bool_)
        lost[self.facts.numbered((conflict.function, conflict.inputs) for conflict in self.conflicts)] = True
        return lost


@dataclass(frozen=True, eq=False)
class ComposedValues:
    """The values that a composition tree computes for the nodes of a corpus, and the values in the corpus."""

    corpus: Corpus
    facts: FactTable
    composed: npt.NDArray[np.int32]  # the value of every node, as a number in `facts.values`; UNKNOWN if undefined
    gold: npt.NDArray[np.int32]

    def __repr__(self) -> str:
        return f"ComposedValues({int(self.right.sum()):,} of {len(self.corpus):,} examples right)"

    @cached_property
    def right(self) -> Bools:
        """[examples]: every root has the value that the corpus gives it."""
        root = self.corpus.forest.root
        same: Bools = (self.composed[root] == self.gold[root]).reshape(len(self.corpus), -1).all(axis=1)
        return same

    @cached_property
    def right_throughout(self) -> Bools:
        """[examples]: every node has the value that the corpus gives it."""
        wrong = self.corpus.forest.tree[self.composed != self.gold] // self.corpus.width
        fine: Bools = np.bincount(wrong, minlength=len(self.corpus)) == 0
        return fine

    @property
    def undefined(self) -> Bools:
        """[examples]: some root has no value, because a look-up below it missed."""
        root = self.corpus.forest.root
        lost: Bools = (self.composed[root] == UNKNOWN).reshape(len(self.corpus), -1).any(axis=1)
        return lost

    @property
    def outputs(self) -> list[Outcome | None]:
        """The value composed at each tree's root, None for undefined."""
        values = [*self.facts.values, None]
        return [values[value] for value in self.composed[self.corpus.forest.root].tolist()]


def learn(train: Corpus, *, by: By = "type", given: Sequence[str] = (), conflicts: str = "raise") -> CompositionTree:
    """Algorithm 2. A conflict in the data is an error; with `conflicts="record"` its entry stays undefined.

    learn(train).table("C1")      {('¬', 'F'): 'T', ('ε', 'F'): 'F', ('¬', 'T'): 'F', ('ε', 'T'): 'T'}
    """
    if conflicts not in ("raise", "record"):
        raise SpecError(f"conflicts={conflicts!r}: 'raise' an error or 'record' them")
    facts = FactTable(by, given)
    shown = Evidence.of(facts.add(train, facts=False))
    check_given(facts)
    in_train = conflicts_of(facts, shown, "train", shown)
    if in_train and conflicts == "raise":
        raise FairnessError(told(in_train[0], {"train": train}))
    return CompositionTree(facts, in_train)


def compose_values(tree: CompositionTree, corpus: Corpus) -> ComposedValues:
    """Algorithm 1 on every example of a corpus; the corpus's own values are only kept for comparison."""
    return ComposedValues(corpus, tree.facts, *tree.facts.compose_values(corpus, tree.undefined))


def conflicts_of(facts: FactTable, train: Evidence, split: str, shown: Evidence) -> tuple[Conflict, ...]:
    """The conflicts of `shown` with the table, each with the two nodes that disagree."""
    clashing = np.flatnonzero(shown.clash[:, 0] >= 0).tolist()
    conflicts = []
    for fact, (function, inputs, output) in zip(clashing, facts.rows(clashing), strict=True):
        earlier = train if fact < len(train.first) and train.first[fact, 0] >= 0 else shown
        before = Place("train" if earlier is train else split, *earlier.first[fact].tolist())
        outputs = output, shown.clash_output[fact]
        conflicts.append(Conflict(function, inputs, outputs, (before, Place(split, *shown.clash[fact].tolist()))))
    return tuple(conflicts)


def located(split: Corpus | Shards, row: int, node: int) -> str:
    """File, line and node of a node of an example."""
    if isinstance(split, Corpus):
        return where(split, int(split.forest.start[row * split.width]) + node)
    _, inside, example = split.row(row)
    return where(example, node).replace("example 0", f"example {inside}", 1)


def told(conflict: Conflict, corpora: Mapping[str, Corpus | Shards]) -> str:
    """A conflict in one sentence, with file, line and node of both sides."""
    sides = [
        f"{value!r} at {located(corpora[split], row, node)}"
        for value, (split, row, node) in zip(conflict.outputs, conflict.places, strict=True)
    ]
    inputs = ", ".join(map(str, conflict.inputs))
    return f"{conflict.function}({inputs}) is {sides[0]}, but {sides[1]}; one input has one output"


def check_given(facts: FactTable) -> None:
    """Raise an error if a name or pattern in `given` matches no function."""
    for pattern in facts.given:
        if not known_functions([pattern], facts.functions):
            near = did_you_mean(pattern, facts.functions)
            raise SpecError(f"given: no function is called {pattern!r} or matches it. {near}")
