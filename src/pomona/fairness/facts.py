"""Local facts: at this node, this function made this output of these inputs. All of them, counted in one compiled pass.

    facts = FactTable()
    train = facts.add(corpus)            # what the corpus shows; `train.fact[node]` is the number of each node's fact
    facts.rows(range(3))                 # [("C1", ("¬", "T"), "F"), ...]

A function is a node's *type* (tied weights: one table for every MAX) or its position in the one tree that all examples
share (Definition 1 of Geiger et al. 2019). An input is the tuple of the children's values; a leaf that has no value
gives its type, a node that quotes another gives that one's value. A COPY with its argument is a function too, of the
word to the position that it stands for (`copies`). Facts are numbered in the order in which they first occur, so those
of the training set come first and whatever a test set adds is exactly what it was not shown.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Bools, Ints
from pomona.base.errors import FairnessError, SpecError, did_you_mean
from pomona.data.corpus import Corpus, Outcome
from pomona.fairness.copies import Addresses, Spelling, addresses
from pomona.fairness.tables import EMPTY, UNKNOWN, collect, compose_nodes, rehash
from pomona.trees.values import Interner

By: TypeAlias = Literal["type", "node"]
Inputs: TypeAlias = "tuple[Outcome, ...]"
_Columns: TypeAlias = "tuple[Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints, Bools, bool, Ints, Ints]"

NOT_A_FACT = -1  # in arrays of facts: a leaf, or a function taken as given


@dataclass(frozen=True, eq=False)
class Shown:
    """What one corpus shows: the fact of each node, and the nodes whose output contradicts the table."""

    corpus: Corpus
    fact: npt.NDArray[np.int32]  # empty if it was not asked for
    first: npt.NDArray[np.int64]  # the node that first shows each fact of the table; -1 where none does
    clash: npt.NDArray[np.int64]  # the first node that gives each fact another output than the table; -1 for none
    copies: Addresses | None  # what stands at its COPYs, and where it leads

    def place(self, node: int) -> tuple[int, int]:
        """Example, and node counted from the example's first."""
        row = int(np.searchsorted(self.corpus.forest.start, node, side="right")) - 1
        row //= self.corpus.width
        return row, node - int(self.corpus.forest.start[row * self.corpus.width])

    def output(self, node: int) -> Outcome:
        """What the function of a node makes of its inputs there: the node's value or, at a COPY, a position."""
        if self.copies is not None and self.corpus.forest.links[node]:
            return int(self.copies.position[np.searchsorted(self.copies.node, node)])
        value: Outcome = self.corpus.outcomes[self.corpus.values[node]]
        return value


class FactTable:
    """Every (function, inputs) seen so far with its first output; corpora are added one after the other."""

    def __init__(self, by: By = "type", given: Sequence[str] = ()) -> None:
        if by not in ("type", "node"):
            raise SpecError(f"by={by!r}: functions are told apart by 'type' or by 'node'")
        self.by, self.given = by, tuple(given)
        self._functions: dict[str, int] = {}
        self._values = Interner()
        self._shape: npt.NDArray[np.int32] | None = None
        self.spelling: Spelling | None = None  # how the corpora so far write the arguments of COPY
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
        """[facts]: the number of the value that each gives."""
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
        """Function, inputs and output of these facts, in words."""
        functions, values = self.functions, self.values
        function, output, start = self.function.tolist(), self.output.tolist(), self.start.tolist()
        inputs = [values[value] for value in self.inputs.tolist()]
        for fact in facts:
            yield functions[function[fact]], tuple(inputs[start[fact] : start[fact + 1]]), values[output[fact]]

    def numbered(self, facts: Iterable[tuple[str, Inputs]]) -> list[int]:
        """The numbers of facts given in words; one that is not in the table is an error."""
        known = {(function, inputs): fact for fact, (function, inputs, _) in enumerate(self.rows(range(len(self))))}
        found = []
        for function, inputs in facts:
            if (function, tuple(inputs)) not in known:
                near = did_you_mean(function, self.functions) if function not in self._functions else ""
                shown = ", ".join(map(str, inputs))
                raise FairnessError(f"no example shows {function}({shown}). {near}".rstrip())
            found.append(known[function, tuple(inputs)])
        return found

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
        """Algorithm 1 on every example: composed and given values of every node, as numbers; UNKNOWN for a miss.

        Facts that are `undefined` count as missing; nodes of functions taken as given have the value they are given.
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
        """Room for the values of the largest example's nodes."""
        starts = corpus.forest.start[:: corpus.width]
        return np.empty(int(np.diff(starts).max(initial=0)) + 1, np.int32)

    def _tables(self, corpus: Corpus) -> tuple[_Columns, Addresses | None]:
        """A corpus as the compiled loops take it: what its symbols and values are called in this table."""
        forest = corpus.forest.checked()
        if len(corpus.values) and not -1 <= int(corpus.values.min()) <= int(corpus.values.max()) < len(corpus.outcomes):
            node = int(np.argmax((corpus.values < -1) | (corpus.values >= len(corpus.outcomes))))
            value = corpus.values[node]
            raise FairnessError(f"{where(corpus, node)}: the value {value} is no place among {len(corpus.outcomes)}")
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
        """What is written at each COPY and the position it stands for, as values; and where those of each row begin."""
        quote_start = np.zeros(len(corpus) + 1, np.int64)
        nothing = np.empty((0, 2), np.int32)
        if copies is None:
            return nothing, quote_start
        spellings = {self.spelling, copies.spelling} - {None}
        if len(spellings) > 1:
            raise FairnessError(
                f"{where(corpus, int(copies.node[0]))}: arguments of COPY are written as {copies.spelling} here and as "
                f"{self.spelling} before; write both sets alike"
            )
        self.spelling = copies.spelling or self.spelling
        if self.spelling == "digits":
            return nothing, quote_start
        np.cumsum(np.bincount(copies.row, minlength=len(corpus)), out=quote_start[1:])
        both = np.column_stack([copies.argument, copies.position])
        numbers, place = np.unique(both, return_inverse=True)
        value = np.array([self._value(number) for number in numbers.tolist()], np.int32)
        return value[place.reshape(both.shape)], quote_start

    def _value(self, value: Outcome) -> int:
        return self._values.add(value)

    def _check_shape(self, corpus: Corpus, start: Ints) -> None:
        """By node, every example must have the same tree."""
        parent, sizes = corpus.forest.parent, np.diff(start)
        if not len(sizes):
            return
        shape = parent[: sizes[0]] if self._shape is None else self._shape
        other = sizes != len(shape)
        if not other.any():
            other = (parent.reshape(len(sizes), len(shape)) != shape).any(axis=1)
        if other.any():
            row = int(np.argmax(other))
            raise FairnessError(
                f"{where(corpus, int(start[row]), whole=True)}: this tree is not shaped like those before it; "
                "tables by node need one tree for all examples. Tell functions apart by type."
            )
        self._shape = shape.copy()
        # The compiled loops take the position for the number, so every position has one, leaves as well.
        self._functions = {f"node {node}": node for node in range(len(shape))}

    def _lacking(self, corpus: Corpus, node: int) -> FairnessError:
        """Why a node cannot be used: an inner node without a value, or a quotation that says otherwise."""
        name = corpus.forest.names[corpus.forest.symbol[node]]
        if corpus.forest.links[node]:
            return FairnessError(
                f"{where(corpus, node)}, {name!r}: the node quotes another one but has a value of its own"
            )
        return FairnessError(
            f"{where(corpus, node)}, {name!r}: an inner node without a value; a certificate needs the output of every "
            'inner node. Give it a "value".'
        )

    def _grow(self, example: int) -> None:
        """Twice the room, or as much as the largest example could need; the hash table stays less than half full."""
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
    """The functions that names or patterns such as 'REL_*' stand for."""
    return {name for pattern in given for name in fnmatch.filter(functions, pattern)}


def where(corpus: Corpus, node: int, *, whole: bool = False) -> str:
    """File, line and node, as far as they are known."""
    tree = int(np.searchsorted(corpus.forest.start, node, side="right")) - 1
    row = tree // corpus.width
    place = [str(corpus.origin["path"])] if "path" in corpus.origin else []
    place.append(f"line {corpus.lines[row]}" if corpus.lines is not None else f"example {row}")
    place += [f"id {corpus.ids[row]!r}"] if corpus.ids is not None else []
    if not whole:
        place.append(f"node {node - int(corpus.forest.start[row * corpus.width])} ({_path(corpus, tree, node)})")
    return ", ".join(place)


def _path(corpus: Corpus, tree: int, node: int) -> str:
    """The way to a node as JSON would write it: tree.children[2].children[0]."""
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
