"""Local facts: a function, its inputs and its output at one node. One compiled pass collects those of a corpus.

    facts = FactTable()
    train = facts.add(corpus)            # what the corpus shows; `train.fact[node]` is the number of each node's fact
    facts.rows(range(3))                 # [("C1", ("¬", "T"), "F"), ...]

A function is a node's *type* (all MAX nodes share one table) or its position in the one tree that all examples share
(Definition 1 of Geiger et al. 2019). The inputs of a node are its children's values. A leaf without a value counts with
its type, a node that quotes another with the value of that node. COPY is a function too: it maps a number to a position
(`copies`). Facts are numbered by first occurrence. The facts of training therefore come first, and the facts that a
test set adds are exactly those that training lacks.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Bools, Ints
from pomona.base.errors import FairnessError, SpecError, did_you_mean
from pomona.data.corpus import Corpus, Outcome
from pomona.fairness.copies import Addresses, Spelling, addresses
from pomona.fairness.tables import EMPTY, UNKNOWN, collect, compose_nodes, join_facts, rehash
from pomona.trees.values import Interner, exact_key

By: TypeAlias = Literal["type", "node"]
Inputs: TypeAlias = "tuple[Outcome, ...]"
_Columns: TypeAlias = "tuple[Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints, Bools, bool, Ints, Ints]"

_OTHER_SHAPE = (
    "{}: this tree does not have the shape of those before it; by='node' needs the same tree for all examples. Use "
    "by='type'."
)
NOT_A_FACT = -1  # in arrays of facts: a leaf, or a function taken as given


@dataclass(frozen=True, eq=False)
class Shown:
    """What one corpus shows: the fact of each node, and the nodes whose output contradicts the table."""

    corpus: Corpus
    fact: npt.NDArray[np.int32]  # empty with `add(..., facts=False)`
    first: npt.NDArray[np.int64]  # the first node that shows each fact of the table; -1 if none does
    clash: npt.NDArray[np.int64]  # the first node with another output than the table has for the fact; -1 if none
    copies: Addresses | None  # its COPYs, if it has any

    def place(self, node: int) -> tuple[int, int]:
        """The example of a node, and the node's number within the example."""
        row = int(np.searchsorted(self.corpus.forest.start, node, side="right")) - 1
        row //= self.corpus.width
        return row, node - int(self.corpus.forest.start[row * self.corpus.width])

    def output(self, node: int) -> Outcome:
        """The output of the function at a node: the node's value or, at a COPY, a position."""
        if self.copies is not None and self.corpus.forest.links[node]:
            return int(self.copies.position[np.searchsorted(self.copies.node, node)])
        value: Outcome = self.corpus.outcomes[self.corpus.values[node]]
        return value


class FactTable:
    """Every (function, inputs) seen so far, with its first output; corpora are added one after the other."""

    def __init__(self, by: By = "type", given: Sequence[str] = ()) -> None:
        if by not in ("type", "node"):
            raise SpecError(f"by={by!r}: a function is a node's 'type' or a 'node' of the tree")
        self.by, self.given = by, tuple(given)
        self.clear()

    def clear(self, spelling: Spelling | None = None) -> None:
        """Forget all facts; what is known in advance is how the arguments of COPY are written."""
        self._functions: dict[str, int] = {}
        self._values = Interner()
        self.shape: npt.NDArray[np.int32] | None = None  # by node: the parents of the one tree
        self.spelling: Spelling | None = spelling  # how the corpora so far write the arguments of COPY
        self.addressed = False  # whether COPYs have facts
        self._slots = np.full(1 << 12, EMPTY, np.int32)
        self._function = np.empty(1 << 10, np.int32)
        self._output = np.empty(1 << 10, np.int32)
        self._start = np.zeros((1 << 10) + 1, np.int64)
        self._inputs = np.empty(1 << 12, np.int32)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    # -- what is known of each fact ------------------------------------------------------------------------------

    @property
    def functions(self) -> list[str]:
        """The name of each function's number."""
        return list(self._functions)

    @property
    def values(self) -> list[Outcome]:
        """The value of each value's number."""
        return self._values.table

    @property
    def function(self) -> npt.NDArray[np.int32]:
        """[facts]: the function of each."""
        return self._function[: self._count]

    @property
    def output(self) -> npt.NDArray[np.int32]:
        """[facts]: the output of each, as the number of a value."""
        return self._output[: self._count]

    @property
    def start(self) -> npt.NDArray[np.int64]:
        """[facts + 1]: where the inputs of each begin in `inputs`."""
        return self._start[: self._count + 1]

    @property
    def inputs(self) -> npt.NDArray[np.int32]:
        """The inputs of all facts, one after the other, as numbers of values."""
        return self._inputs[: int(self._start[self._count])]

    def rows(self, facts: Iterable[int]) -> Iterator[tuple[str, Inputs, Outcome]]:
        """Function, inputs and output of these facts, as names and values."""
        functions, values = self.functions, self.values
        function, output, start = self.function.tolist(), self.output.tolist(), self.start.tolist()
        inputs = [values[value] for value in self.inputs.tolist()]
        for fact in facts:
            yield functions[function[fact]], tuple(inputs[start[fact] : start[fact + 1]]), values[output[fact]]

    def numbered(self, facts: Iterable[tuple[str, Inputs]]) -> list[int]:
        """The numbers of facts given by name and values; a fact that is not in the table is an error."""
        rows = enumerate(self.rows(range(len(self))))
        known = {(function, tuple(map(exact_key, inputs))): fact for fact, (function, inputs, _) in rows}
        numbers = []
        for function, inputs in facts:
            fact = known.get((function, tuple(map(exact_key, inputs))))  # 1 and True are two inputs
            if fact is None:
                near = did_you_mean(function, self.functions) if function not in self._functions else ""
                shown = ", ".join(map(str, inputs))
                raise FairnessError(f"no example shows {function}({shown}). {near}".rstrip())
            numbers.append(fact)
        return numbers

    # -- adding and asking -----------------------------------------------------------------------------------------

    def add(self, corpus: Corpus, *, facts: bool = True) -> Shown:
        """Put every local fact of a corpus into the table; `facts=False` saves the memory of `Shown.fact`."""
        tables, copies = self._tables(corpus)
        nodes = len(corpus.forest.symbol)
        fact = np.full(nodes if facts else 0, NOT_A_FACT, np.int32)
        first, clash = np.full((2, len(self._function)), -1, np.int64)
        scratch = self._scratch(corpus)
        done = 0
        while True:
            done, self._count, bad = collect(
                *tables, done, scratch, self._slots, self._function, self._start, self._inputs, self._output,
                self._count, first, clash, fact,
            )  # fmt: skip
            if bad >= 0:
                raise self._lacking(corpus, int(bad))
            if done == len(corpus):
                break
            self._grow(len(scratch))
            first, clash = _wider(first, len(self._function), -1), _wider(clash, len(self._function), -1)
        return Shown(corpus, fact, first[: self._count], clash[: self._count], copies)

    def compose_values(self, corpus: Corpus, undefined: Bools) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Algorithm 1 on every example: the composed value and the corpus's value of every node, as numbers.

        A composed value is UNKNOWN if a fact that it needs is missing; facts marked `undefined` count as missing. Nodes
        of functions taken as given keep the value that the corpus gives them.
        """
        tables, _ = self._tables(corpus)
        composed, gold = np.empty((2, len(corpus.forest.symbol)), np.int32)
        output = np.where(undefined, UNKNOWN, self.output).astype(np.int32)
        bad = compose_nodes(
            *tables, self._scratch(corpus), self._slots, self._function, self._start, self._inputs, output, composed,
            gold,
        )  # fmt: skip
        if bad >= 0:
            raise self._lacking(corpus, int(bad))
        return composed, gold

    def _scratch(self, corpus: Corpus) -> npt.NDArray[np.int32]:
        """An array that has room for the values of the largest example."""
        starts = corpus.forest.start[:: corpus.width]
        return np.empty(int(np.diff(starts).max(initial=0)) + 1, np.int32)

    def _tables(self, corpus: Corpus) -> tuple[_Columns, Addresses | None]:
        """The arrays of a corpus for the compiled loops, with symbols and values renumbered as in this table."""
        forest = corpus.forest.checked()
        if len(corpus.values) and not -1 <= int(corpus.values.min()) <= int(corpus.values.max()) < len(corpus.outcomes):
            node = int(np.argmax((corpus.values < -1) | (corpus.values >= len(corpus.outcomes))))
            value = corpus.values[node]
            raise FairnessError(
                f"{where(corpus, node)}: value number {value} is outside the {len(corpus.outcomes)} outcomes"
            )
        arity = forest.arity
        leaf_value = np.array([self._value(name) for name in forest.names], np.int32)
        value = np.array([*(self._value(outcome) for outcome in corpus.outcomes), UNKNOWN], np.int32)
        function = np.zeros(len(forest.names), np.int32)
        start = forest.start[:: corpus.width]
        copies = addresses(corpus)
        address, quote_start = self._addressed(corpus, copies)
        if self.by == "type":
            working = (arity > 0) | (forest.links > 0) if len(address) else arity > 0
            used = np.flatnonzero(np.bincount(forest.symbol[working], minlength=len(forest.names)))
            for symbol in used.tolist():
                function[symbol] = self._functions.setdefault(forest.names[symbol], len(self._functions))
        else:
            self._check_shape(corpus, start)
        known = known_functions(self.given, self._functions)
        mask = np.array([name in known for name in self._functions] or [False], np.bool_)
        return (
            forest.symbol, arity, forest.links, corpus.values, start, leaf_value, value, function, mask,
            self.by == "node", address, quote_start,
        ), copies  # fmt: skip

    def _addressed(self, corpus: Corpus, copies: Addresses | None) -> tuple[Ints, Ints]:
        """Argument and position of each COPY, as numbers of values; and where the COPYs of each row begin."""
        quote_start = np.zeros(len(corpus) + 1, np.int64)
        nothing = np.empty((0, 2), np.int32)
        if copies is None:
            return nothing, quote_start
        spellings = {self.spelling, copies.spelling} - {None}
        if len(spellings) > 1:
            raise FairnessError(
                f"{where(corpus, int(copies.node[0]))}: arguments of COPY are written as {copies.spelling} here and as "
                f"{self.spelling} before; write both in the same way"
            )
        self.spelling = copies.spelling or self.spelling
        if self.spelling == "digits":
            return nothing, quote_start
        self.addressed |= len(copies.row) > 0
        np.cumsum(np.bincount(copies.row, minlength=len(corpus)), out=quote_start[1:])
        both = np.column_stack([copies.argument, copies.position])
        numbers, index = np.unique(both, return_inverse=True)
        value = np.array([self._value(number) for number in numbers.tolist()], np.int32)
        return value[index.reshape(both.shape)], quote_start

    def _value(self, value: Outcome) -> int:
        return self._values.add(value)

    def _check_shape(self, corpus: Corpus, start: Ints) -> None:
        """By node, every example must have the same tree."""
        parent, sizes = corpus.forest.parent, np.diff(start)
        if not len(sizes):
            return
        shape = parent[: sizes[0]] if self.shape is None else self.shape
        other = sizes != len(shape)
        if not other.any():
            other = (parent.reshape(len(sizes), len(shape)) != shape).any(axis=1)
        if other.any():
            row = int(np.argmax(other))
            raise FairnessError(_OTHER_SHAPE.format(where(corpus, int(start[row]), whole=True)))
        self.shape = shape.copy()
        # In the compiled loops a position is the number of its function, so leaves need numbers as well.
        self._functions = {f"node {node}": node for node in range(len(shape))}

    def join(
        self, functions: Sequence[str], values: Sequence[Outcome], table: Mapping[str, Ints], place: str
    ) -> tuple[npt.NDArray[np.int64], Bools]:
        """Add the facts of another table, whose rows come after those of this one and begin at `place`: its
        functions, values and arrays. The numbers of its facts here, and whether they have the same output."""
        if self.by == "node" and len(table["shape"]):
            if self.shape is not None and not np.array_equal(self.shape, table["shape"]):
                raise FairnessError(_OTHER_SHAPE.format(place))
            self.shape = table["shape"].astype(np.int32)
            self._functions = {name: node for node, name in enumerate(functions)}
        numbers = [self._functions.setdefault(name, len(self._functions)) for name in functions]
        function = np.array([*numbers, 0], np.int32)[table["function"]]
        value = np.array([*map(self._value, values), 0], np.int32)
        inputs, output = value[table["inputs"]], value[table["output"]]
        while self._count + len(function) + 1 > len(self._function) or (
            int(self._start[self._count]) + len(inputs) + 1 > len(self._inputs)
        ):
            self._grow(len(inputs))
        fact, self._count = join_facts(
            function, table["start"], inputs, output, self._slots, self._function, self._start, self._inputs,
            self._output, self._count,
        )  # fmt: skip
        return fact, np.asarray(self._output[fact] == output)

    def _lacking(self, corpus: Corpus, node: int) -> FairnessError:
        """Why a node cannot be used: an inner node without a value, or a quoting node with a different value."""
        name = corpus.forest.names[corpus.forest.symbol[node]]
        if corpus.forest.links[node]:
            return FairnessError(
                f"{where(corpus, node)}, {name!r}: the node quotes another one but has a different value"
            )
        return FairnessError(
            f"{where(corpus, node)}, {name!r}: an inner node without a value; a certificate needs the output of every "
            'inner node. Give it a "value".'
        )

    def _grow(self, example: int) -> None:
        """Double the room, or more if the largest example could need it; the hash table stays less than half full."""
        room = max(2 * len(self._function), self._count + example + 1)
        self._function, self._output = _wider(self._function, room), _wider(self._output, room)
        self._start = _wider(self._start, room + 1)
        self._inputs = _wider(self._inputs, max(2 * len(self._inputs), int(self._start[self._count]) + 2 * example + 1))
        size = len(self._slots)
        while size < 4 * room:
            size *= 2
        if size > len(self._slots):
            self._slots = np.full(size, EMPTY, np.int32)
            rehash(self._slots, self._function, self._start, self._inputs, self._count)


def known_functions(given: Sequence[str], functions: Iterable[str]) -> set[str]:
    """The functions that these names, or patterns such as 'REL_*', match."""
    return {name for pattern in given for name in fnmatch.filter(functions, pattern)}


def where(corpus: Corpus, node: int, *, whole: bool = False) -> str:
    """File, line and node, as far as they are known."""
    tree = int(np.searchsorted(corpus.forest.start, node, side="right")) - 1
    row = tree // corpus.width
    parts = [str(corpus.origin["path"])] if "path" in corpus.origin else []
    parts.append(f"line {corpus.lines[row]}" if corpus.lines is not None else f"example {row}")
    parts += [f"id {corpus.ids[row]!r}"] if corpus.ids is not None else []
    if not whole:
        parts.append(f"node {node - int(corpus.forest.start[row * corpus.width])} ({_path(corpus, tree, node)})")
    return ", ".join(parts)


def _path(corpus: Corpus, tree: int, node: int) -> str:
    """The path to a node in JSON, for example tree.children[2].children[0]."""
    forest, steps = corpus.forest, []
    offsets, children = forest.children
    while forest.parent[node] >= 0:
        up = int(forest.start[tree]) + int(forest.parent[node])
        steps.append(int(np.searchsorted(children[offsets[up] : offsets[up + 1]], node)))
        node = up
    if len(steps) > 40:
        return f"{len(steps)} levels deep"
    root = "tree" if corpus.width == 1 else f"trees[{tree % corpus.width}]"
    return root + "".join(f".children[{step}]" for step in reversed(steps))


def _wider(array: npt.NDArray[Any], room: int, filler: int = 0) -> npt.NDArray[Any]:
    longer = np.full(room, filler, array.dtype)
    longer[: len(array)] = array
    return longer
