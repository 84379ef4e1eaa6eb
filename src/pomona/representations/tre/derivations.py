"""Derivations: how each item is built from primitives, stored as flat arrays.

    Derivations.of([("red", "square"), (("dark", "blue"), "square"), "red"])

A derivation (Andreas 2019, section 3) is a *primitive* (an atomic part such as "red") or a bracket around two or more
derivations. Any hashable value that is not a tuple or a list is a primitive; a tuple or list is a bracket (a bracket
around a single part stands for that part). Texts are read by `derivation_text`.

Three views of the same arrays are computed on first use:

* `counts`, the items x primitives matrix of how often each primitive occurs, which is all that addition sees;
* `steps`, the distinct subtrees in order of height, so that any composition function runs as a few batched calls;
* `slots`, with one column for each (tree shape, leaf position, primitive), used for lower bounds.

Primitives and subtrees are numbered in a canonical order, so the order of the data changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Ints
from pomona.base.compiled import compiled
from pomona.base.errors import MeasureError
from pomona.representations.tre.derivation_text import parsed
from pomona.representations.tre.design import Design
from pomona.representations.tre.inputs import array_of
from pomona.representations.tre.nested import check_primitive, read_nested

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Step:
    """Subtrees `first` to `first + len(parts)`, composed at once from the earlier subtrees `parts[:, k]`."""

    first: int
    parts: IntArray  # [subtrees, arity]
    leaf: tuple[bool, ...]  # which parts are primitives: the same for the whole step


@dataclass(frozen=True, eq=False)
class Derivations:
    """One derivation for each item: nodes in post-order; those of item i are `start[i]:start[i + 1]`."""

    primitive: IntArray  # [nodes]: index into names at a leaf, -1 at an inner node
    parent: IntArray  # [nodes]: counted from the tree's first node, -1 at its root
    start: IntArray  # [items + 1]
    names: tuple[Hashable, ...]

    def __len__(self) -> int:
        return len(self.start) - 1

    def __repr__(self) -> str:
        return f"Derivations({len(self)} items, {len(self.names)} primitives, {self.distinct} distinct)"

    # ---- constructors --------------------------------------------------------------------------------------------

    @staticmethod
    def of(source: Any, known: Collection[Hashable] = ()) -> Derivations:
        """Derivations from nested tuples, texts, attribute columns, a Forest or Derivations.

        A text that is one of the `known` primitives is not split at its spaces.
        """
        if isinstance(source, Derivations):
            return source
        if all(hasattr(source, field) for field in ("symbol", "parent", "start", "names")):
            return Derivations.from_forest(source)
        if hasattr(source, "columns") and hasattr(source, "to_dict"):  # a data frame of attributes
            return Derivations.from_attributes({name: source[name] for name in source.columns})
        if isinstance(source, Mapping) and not hasattr(source, "toarray"):
            return Derivations.from_attributes(source)
        if hasattr(source, "detach") or hasattr(source, "toarray"):
            source = array_of(source, "derivations")
        if isinstance(source, np.ndarray) and source.ndim == 2:
            return Derivations.from_attributes({position: source[:, position] for position in range(source.shape[1])})
        if isinstance(source, str | bytes | set | frozenset) or not isinstance(source, Iterable):
            raise MeasureError(
                f"derivations are nested tuples, texts, attribute columns or a Forest, one for each row; "
                f"got {type(source).__name__}."
            )
        return Derivations.from_trees(parsed(source, known))

    @staticmethod
    def from_trees(trees: Iterable[Any]) -> Derivations:
        """Read nested tuples or lists of any arity and any depth (without recursion)."""
        return _canonical(*read_nested(list(trees)))

    @staticmethod
    def from_attributes(columns: Mapping[Any, Any]) -> Derivations:
        """One bracket around all attributes of each row; the primitives are (column, value) pairs.

        The same value in two columns is two primitives: 'red' as a stroke is not 'red' as a fill.
        """
        if not columns:
            raise MeasureError("no attribute columns: give at least two, each with one value for each row.")
        values = {name: np.asarray(column) for name, column in columns.items()}
        lengths = {name: len(column) if column.ndim else 0 for name, column in values.items()}
        if len(set(lengths.values())) != 1 or min(lengths.values()) == 0:
            raise MeasureError(f"attribute columns must have one value for each row; their lengths are {lengths}.")
        items, width = next(iter(lengths.values())), len(values)
        index: dict[Hashable, int] = {}
        table = np.empty((items, width), np.int64)
        for position, (name, column) in enumerate(values.items()):
            for row, value in enumerate(column.tolist()):
                check_primitive(value, row)
                table[row, position] = index.setdefault((name, value), len(index))
        if width == 1:
            flat = table.ravel()
            return _canonical(flat, np.full(items, -1), np.arange(items + 1), list(index))
        nodes = np.concatenate([table, np.full((items, 1), -1)], axis=1).ravel()
        parent = np.tile(np.array([width] * width + [-1]), items)
        return _canonical(nodes, parent, np.arange(items + 1) * (width + 1), list(index))

    @staticmethod
    def from_forest(forest: Any) -> Derivations:
        """Each leaf's symbol is its primitive; the symbols of inner nodes are labels that TRE does not use."""
        symbol = np.asarray(forest.symbol, np.int64)
        parent = np.asarray(forest.parent, np.int64)
        start = np.asarray(forest.start, np.int64)
        if len(start) < 2:
            raise MeasureError("an empty Forest: TRE needs one tree for each row of the representations.")
        if (np.diff(start) < 1).any():
            raise MeasureError(f"row {int(np.argmax(np.diff(start) < 1))}: the tree has no nodes.")
        inner = np.zeros(len(symbol), np.bool_)
        offset = np.repeat(start[:-1], np.diff(start))
        inner[(parent + offset)[parent >= 0]] = True
        return _canonical(np.where(inner, -1, symbol), parent, start, list(forest.names))

    def take(self, rows: npt.ArrayLike) -> Derivations:
        """The derivations of these rows, over the same primitives."""
        chosen = np.asarray(rows)
        chosen = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen.astype(np.int64)
        sizes = np.diff(self.start)[chosen]
        start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        nodes = np.arange(start[-1]) - np.repeat(start[:-1] - self.start[chosen], sizes)
        return Derivations(self.primitive[nodes], self.parent[nodes], start, self.names)

    def tree(self, row: int) -> Any:
        """The nested tuple of one row, for messages and tables."""
        lo, hi = int(self.start[row]), int(self.start[row + 1])
        parts: list[list[Any]] = [[] for _ in range(hi - lo)]
        whole: Any = None
        for node in range(hi - lo):
            leaf = int(self.primitive[lo + node])
            whole = self.names[leaf] if leaf >= 0 else tuple(parts[node])
            if self.parent[lo + node] >= 0:
                parts[int(self.parent[lo + node])].append(whole)
        return whole

    # ---- views for solvers ---------------------------------------------------------------------------------------

    @cached_property
    def row(self) -> IntArray:
        """The item each node belongs to."""
        return np.repeat(np.arange(len(self), dtype=np.int64), np.diff(self.start))

    @cached_property
    def counts(self) -> Design:
        """Items x primitives: how often each primitive occurs. Addition uses nothing else of a derivation."""
        leaf = self.primitive >= 0
        return Design.from_entries(self.row[leaf], self.primitive[leaf], len(self), len(self.names))

    @cached_property
    def _classes(self) -> tuple[tuple[Step, ...], IntArray]:
        """Number the distinct subtrees level by level; return the steps that build them and each item's subtree."""
        nodes = len(self.primitive)
        above = np.where(self.parent >= 0, self.parent + np.repeat(self.start[:-1], np.diff(self.start)), -1)
        height, arity = _heights(above)
        label = np.where(self.primitive >= 0, self.primitive, -1)
        first = len(self.names)
        steps: list[Step] = []
        children = np.argsort(np.where(above >= 0, above, nodes), kind="stable")  # siblings together, left to right
        offset = np.concatenate([[0], np.cumsum(arity)])
        order = np.lexsort((arity, height))
        order = order[height[order] > 0]
        cuts = np.flatnonzero(np.diff(height[order]) | np.diff(arity[order])) + 1
        for group in np.split(order, cuts) if len(order) else []:
            width = int(arity[group[0]])
            parts = label[children[offset[group][:, None] + np.arange(width)]]
            patterns, pattern = np.unique(parts < len(self.names), axis=0, return_inverse=True)
            for kind, leaf in enumerate(patterns.tolist()):
                chosen = pattern.ravel() == kind
                distinct, which = np.unique(parts[chosen], axis=0, return_inverse=True)
                label[group[chosen]] = first + which.ravel()
                steps.append(Step(first, distinct, tuple(leaf)))
                first += len(distinct)
        return tuple(steps), label[self.start[1:] - 1]

    @property
    def steps(self) -> tuple[Step, ...]:
        """How to build every distinct subtree bottom-up; subtree ids below len(names) are the primitives."""
        return self._classes[0]

    @property
    def root(self) -> IntArray:
        """Each item's subtree id: equal exactly where derivations are equal."""
        return self._classes[1]

    @cached_property
    def canonical(self) -> Derivations:
        """The same derivations, sorted, for fits whose result must not depend on the order of the data."""
        return self.take(np.argsort(self.root, kind="stable"))

    @cached_property
    def subtrees(self) -> int:
        """How many distinct subtrees there are, primitives included."""
        return len(self.names) + sum(len(step.parts) for step in self.steps)

    @cached_property
    def distinct(self) -> int:
        """How many distinct derivations there are."""
        return len(np.unique(self.root))

    @cached_property
    def arity(self) -> int:
        """The largest number of parts in a bracket."""
        return max((step.parts.shape[1] for step in self.steps), default=1)

    @cached_property
    def side(self) -> IntArray:
        """For each primitive its position in every bracket; -1 if the position varies, -2 if it never occurs."""
        side = np.full(len(self.names), -2, np.int64)
        side[self.root[self.root < len(self.names)]] = -1  # a primitive that stands alone has no position
        for step in self.steps:
            for slot in np.flatnonzero(step.leaf).tolist():
                here = np.unique(step.parts[:, slot])
                side[here] = np.where((side[here] == -2) | (side[here] == slot), slot, -1)
        return side

    @cached_property
    def never_composed(self) -> IntArray:
        """The nodes of items that are a single primitive which occurs in no bracket."""
        leaf = self.primitive >= 0
        alone = leaf & (self.parent < 0)
        composed = np.zeros(len(self.names), np.bool_)
        composed[self.primitive[leaf & ~alone]] = True
        nodes = np.flatnonzero(alone)
        return nodes[~composed[self.primitive[nodes]]]

    @cached_property
    def sizes(self) -> IntArray:
        """|d| of Definition 1: the number of leaves of each item."""
        return np.bincount(self.row[self.primitive >= 0], minlength=len(self)).astype(np.int64)

    @cached_property
    def shape(self) -> IntArray:
        """An id for the shape of each item's tree, ignoring the primitives."""
        blank = Derivations(np.where(self.primitive >= 0, 0, -1), self.parent, self.start, ("leaf",))
        return np.unique(blank.root, return_inverse=True)[1].astype(np.int64).ravel()

    @cached_property
    def slots(self) -> Design:
        """Items x (shape, leaf position, primitive), one-hot. Any maps of the parts are a special case of free vectors
        for these columns."""
        leaf = self.primitive >= 0
        row, primitive = self.row[leaf], self.primitive[leaf]
        first = np.concatenate([[0], np.cumsum(self.sizes)])
        position = np.arange(len(row)) - first[row]
        key = np.stack([self.shape[row], position, primitive], axis=1)
        column = np.unique(key, axis=0, return_inverse=True)[1].ravel().astype(np.int64)
        return Design.from_entries(row, column, len(self), int(column.max()) + 1)

    def align(self, names: Sequence[Hashable]) -> Derivations:
        """The same trees, numbered by the primitives of a fit; an unknown primitive is an error that names the row."""
        known = {name: position for position, name in enumerate(names)}
        table = np.array([known.get(name, -1) for name in self.names], np.int64)
        leaf = self.primitive >= 0
        unseen = leaf & (table[self.primitive] < 0)
        if unseen.any():
            node = int(np.argmax(unseen))
            raise MeasureError(
                f"row {int(self.row[node])}: primitive {self.names[self.primitive[node]]!r} was not in the data of the "
                f"fit, so it has no vector. The fit knows {len(known)} primitives; drop the row or fit with it."
            )
        return Derivations(np.where(leaf, table[self.primitive], -1), self.parent, self.start, tuple(names))


def node_derivations(forest: Any, lowest: int = 1, highest: int | None = None) -> tuple[list[Any], IntArray]:
    """The derivation of every node of a Forest whose height is between these, and which nodes these are.

    >>> from pomona.trees import Forest
    >>> node_derivations(Forest.from_nested([("S", ("A", "x", "y"), "z")]))
    ([('x', 'y'), (('x', 'y'), 'z')], array([2, 4]))
    """
    height = np.asarray(forest.height)
    chosen = np.flatnonzero((height >= lowest) & (height <= (height.max(initial=0) if highest is None else highest)))
    wanted = set(chosen.tolist())
    found: list[Any] = []
    stack: list[Any] = []
    columns = (np.asarray(column).tolist() for column in (forest.symbol, forest.arity, forest.parent))
    for node, (symbol, arity, parent) in enumerate(zip(*columns, strict=True)):
        whole = tuple(stack[len(stack) - arity :]) if arity else forest.names[symbol]
        del stack[len(stack) - arity :]
        if node in wanted:
            found.append(whole)
        stack.append(whole)
        if parent < 0:
            stack.clear()
    return found, chosen


def _canonical(primitive: Any, parent: Any, start: Any, names: list[Hashable]) -> Derivations:
    """Keep the primitives that occur, sorted by type and text, so that the order of the data changes nothing."""
    primitive = np.asarray(primitive, np.int64)
    leaf = primitive >= 0
    used = np.unique(primitive[leaf])
    used = np.array(sorted(used.tolist(), key=lambda k: (type(names[k]).__name__, repr(names[k]))), np.int64)
    table = np.full(len(names), -1, np.int64)
    table[used] = np.arange(len(used))
    return Derivations(
        np.where(leaf, table[primitive], -1),
        np.asarray(parent, np.int64),
        np.asarray(start, np.int64),
        tuple(names[k] for k in used),
    )


@compiled
def _heights(above: Ints) -> tuple[Ints, Ints]:
    """Height and arity of every node; children come before their parent."""
    height = np.zeros(len(above), np.int64)
    arity = np.zeros(len(above), np.int64)
    for node in range(len(above)):
        parent = above[node]
        if parent >= 0:
            height[parent] = max(height[parent], height[node] + 1)
            arity[parent] += 1
    return height, arity
