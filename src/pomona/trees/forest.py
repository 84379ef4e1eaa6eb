"""Forests: many ordered trees as flat arrays.

    >>> forest = Forest.from_nested([("MAX", "2", "9", ("MIN", "4", "7"), "0")])
    >>> [forest.names[symbol] for symbol in forest.symbol]
    ['2', '9', '4', '7', 'MIN', '0', 'MAX']
    >>> forest.parent.tolist()
    [6, 6, 4, 4, 6, 6, -1]

A node is a position in the arrays. The nodes of a tree are in post-order: children from left to right, then their
parent, so the root is last. A bottom-up computation is therefore one loop, and a subtree is a contiguous run of nodes.
`parent` counts from the first node of the tree and is -1 at the root, so trees can be selected and concatenated without
renumbering. A node may quote an earlier one (ORCHARD's COPY): `link[node]` is how many nodes back that is, 0 for none.
Nothing here recurses, so trees may be of any depth.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Bools, Ints
from pomona.base.errors import TreeError
from pomona.trees.traversals import accumulated, arities, child_lists, depths, first_misplaced, gathered, spans
from pomona.trees.values import position_type

Nested: TypeAlias = "str | tuple[Any, ...]"  # a leaf is its symbol; an inner node is (symbol, child, child, ...)


@dataclass(frozen=True, eq=False)
class Forest:
    """Many ordered trees; the name of a node is `names[symbol[node]]`."""

    symbol: Ints  # 16-bit, or 32-bit where there are more names
    parent: npt.NDArray[np.int32]
    start: npt.NDArray[np.int64]
    names: tuple[str, ...]
    link: npt.NDArray[np.int32] | None = None

    # -- creating --------------------------------------------------------------------------------------------------

    @classmethod
    def from_nested(cls, trees: Iterable[Nested], names: Sequence[str] = ()) -> Forest:
        """Trees written as nested tuples `(symbol, child, ...)`; a bare string is a leaf."""
        index = numbered(names)
        symbols: list[int] = []
        parents: list[int] = []
        start = [0]
        for tree in trees:
            base = len(symbols)
            # An entry is a node to open (children: None) or, after its children, to close.
            waiting: list[tuple[Nested, list[int] | None]] = [(tree, None)]
            collected: list[list[int]] = [[]]
            while waiting:
                node, children = waiting.pop()
                if isinstance(node, tuple) and children is None:
                    if not node or not isinstance(node[0], str):
                        raise TreeError(f"a tree is a string or a tuple (symbol, child, ...); got {reprlib.repr(node)}")
                    waiting.append((node, []))
                    collected.append([])
                    waiting.extend((child, None) for child in reversed(node[1:]))
                    continue
                if not isinstance(node, (str, tuple)):
                    raise TreeError(f"a tree is a string or a tuple (symbol, child, ...); got {reprlib.repr(node)}")
                here = len(symbols)
                if isinstance(node, tuple):
                    for child in collected.pop():
                        parents[child] = here - base
                collected[-1].append(here)
                symbols.append(index.setdefault(node if isinstance(node, str) else node[0], len(index)))
                parents.append(-1)
            start.append(len(symbols))
        table = tuple(numbered(index))
        return cls.of_lists(symbols, parents, start, table)

    @classmethod
    def of_lists(
        cls, symbols: Sequence[int], parents: Sequence[int], start: Sequence[int], names: tuple[str, ...]
    ) -> Forest:
        """A forest from plain lists of numbers."""
        symbol = np.array(symbols, position_type(len(names)))
        return cls(symbol, np.array(parents, np.int32), np.array(start, np.int64), names)

    @classmethod
    def concatenate(cls, forests: Sequence[Forest]) -> Forest:
        """One forest of all the trees, in order; symbols are renumbered where the name tables differ."""
        if not forests:
            return cls.from_nested([])
        names = forests[0].names
        if any(forest.names != names for forest in forests):
            names = tuple(numbered(dict.fromkeys(name for forest in forests for name in forest.names)))
        start = np.zeros(sum(map(len, forests)) + 1, np.int64)
        np.cumsum(np.concatenate([np.diff(forest.start) for forest in forests]), out=start[1:])
        linked = any(forest.link is not None for forest in forests)
        return cls(
            np.concatenate([forest.renamed(names).symbol for forest in forests]),
            np.concatenate([forest.parent for forest in forests]),
            start,
            names,
            np.concatenate([forest.links for forest in forests]) if linked else None,
        )

    def renamed(self, names: tuple[str, ...]) -> Forest:
        """The same trees with another table of names, which must contain every name in use."""
        if names == self.names:
            return self
        position = numbered(names)
        for symbol in np.unique(self.symbol).tolist():
            if self.names[symbol] not in position:
                raise TreeError(f"the table of names lacks {self.names[symbol]!r}, which occurs in the trees")
        table = np.array([position.get(name, -1) for name in self.names], position_type(len(names)))
        return Forest(table[self.symbol], self.parent, self.start, names, self.link)

    # -- parts -----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.start) - 1

    def __getitem__(self, item: int | slice | Sequence[int] | Ints) -> Forest:
        """Some of the trees: by number, slice, list of rows (in any order) or mask.

        A tree that quotes a node of another must be selected with it, at the same distance; anything else is an error.
        """
        if isinstance(item, slice):
            first, last, step = item.indices(len(self))
            if step == 1:
                last = max(first, last)
                low, high = self.start[first], self.start[last]
                link = None if self.link is None else self._links_kept(np.arange(low, high))
                return Forest(
                    self.symbol[low:high], self.parent[low:high], self.start[first : last + 1] - low, self.names, link
                )
            return self[np.arange(first, last, step)]
        if isinstance(item, (int, np.integer)):
            if not -len(self) <= item < len(self):
                raise IndexError(f"tree {item} of a forest of {len(self)}")
            row = int(item) % len(self)
            return self[row : row + 1]
        rows = np.asarray(item)
        if rows.dtype == bool:
            if rows.shape != (len(self),):
                raise IndexError(f"a mask of shape {rows.shape} for a forest of {len(self)}")
            rows = np.flatnonzero(rows)
        start, nodes = gather(self.start, rows)
        link = None if self.link is None else self._links_kept(nodes)
        return Forest(self.symbol[nodes], self.parent[nodes], start, self.names, link)

    def _links_kept(self, nodes: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """The links of these nodes; an error if one no longer leads to the node it quotes."""
        link = self.links[nodes]
        quoting = np.flatnonzero(link)
        quoted = quoting - link[quoting]
        lost = (quoted < 0) | (nodes[quoted] != nodes[quoting] - link[quoting])
        if lost.any():
            node = int(nodes[quoting[np.argmax(lost)]])
            other = self.tree[node - int(self.links[node])]
            raise TreeError(
                f"tree {self.tree[node]} quotes a node of tree {other}, which is not selected at the same distance "
                "before it; select both trees, in order"
            )
        return link

    def __iter__(self) -> Iterator[Forest]:
        return (self[row] for row in range(len(self)))

    def __eq__(self, other: object) -> bool:
        """Whether both hold the same trees in the same order; the numbering of the names does not matter."""
        if not isinstance(other, Forest):
            return NotImplemented
        if len(self) != len(other) or len(self.symbol) != len(other.symbol):
            return False
        mine, theirs = np.array(self.names, object), np.array(other.names, object)
        return bool(
            np.array_equal(np.diff(self.start), np.diff(other.start))
            and np.array_equal(self.parent, other.parent)
            and np.array_equal(self.links, other.links)
            and np.array_equal(mine[self.symbol], theirs[other.symbol])
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Forest({len(self):,} trees, {len(self.symbol):,} nodes)"

    def nested(self) -> list[Nested]:
        """The trees as nested tuples; the inverse of `from_nested`."""
        trees: list[Nested] = []
        stack: list[Nested] = []
        for name, arity, parent in zip(
            (self.names[symbol] for symbol in self.symbol.tolist()),
            self.arity.tolist(),
            self.parent.tolist(),
            strict=True,
        ):
            node: Nested = (name, *stack[len(stack) - arity :]) if arity else name
            del stack[len(stack) - arity :]
            stack.append(node)
            if parent < 0:
                trees.append(stack.pop())
        return trees

    def checked(self) -> Forest:
        """This forest if its arrays are post-order trees; otherwise an error that names tree and node."""
        if not (len(self.symbol) == len(self.parent) == (self.start[-1] if len(self.start) else -1)):
            raise TreeError(
                f"a forest of {len(self.symbol)} symbols and {len(self.parent)} parents needs start[-1] to equal both"
            )
        if self.link is not None and len(self.link) != len(self.symbol):
            raise TreeError(f"a forest of {len(self.symbol)} symbols has {len(self.link)} links")
        numbered(self.names)
        if self.start[0] != 0 or np.any(np.diff(self.start) < 1):
            raise TreeError("every tree has at least one node, and start begins with 0")
        if self.symbol.min(initial=0) < 0 or self.symbol.max(initial=0) >= max(len(self.names), 1):
            bad = int(np.argmax((self.symbol < 0) | (self.symbol >= len(self.names))))
        else:
            bad = first_misplaced(self.parent, self.start)
        if bad < 0 and self.link is not None:
            back = np.arange(len(self.symbol)) - self.link
            wrong = (self.link < 0) | (back < 0)
            bad = int(np.argmax(wrong)) if wrong.any() else -1
        if bad >= 0:
            tree = int(np.searchsorted(self.start, bad, side="right")) - 1
            raise TreeError(
                f"tree {tree}, node {bad - int(self.start[tree])}: symbol, parent or link is out of place "
                "(nodes are in post-order, parents count from the first node of the tree, the root's is -1)"
            )
        return self

    # -- derived, computed once --------------------------------------------------------------------------------------

    @cached_property
    def links(self) -> npt.NDArray[np.int32]:
        """`link`, or zeros if no node quotes another."""
        return np.zeros(len(self.symbol), np.int32) if self.link is None else self.link

    @cached_property
    def tree(self) -> npt.NDArray[np.int64]:
        """The tree of each node."""
        return np.repeat(np.arange(len(self)), np.diff(self.start))

    @cached_property
    def root(self) -> npt.NDArray[np.int64]:
        """The node that is the root of each tree."""
        return self.start[1:] - 1

    @cached_property
    def arity(self) -> npt.NDArray[np.int32]:
        """How many children each node has."""
        return arities(self.parent, self.start)

    @property
    def leaf(self) -> Bools:
        """Which nodes are leaves."""
        leaf: Bools = self.arity == 0
        return leaf

    @cached_property
    def size(self) -> npt.NDArray[np.int32]:
        """How many nodes each node's subtree has; the subtree is the run of nodes that ends at the node."""
        return accumulated(self.parent, self.start, False)

    @cached_property
    def height(self) -> npt.NDArray[np.int32]:
        """Edges on the longest path down to a leaf: 0 at leaves. A root's height is the nesting depth of its tree."""
        return accumulated(self.parent, self.start, True)

    @cached_property
    def depth(self) -> npt.NDArray[np.int32]:
        """Edges up to the root: 0 at roots."""
        return depths(self.parent, self.start)

    @cached_property
    def children(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Offsets and nodes: the children of node v, in order, are `nodes[offsets[v]:offsets[v + 1]]`."""
        offsets = np.zeros(len(self.symbol) + 1, np.int64)
        np.cumsum(self.arity, out=offsets[1:])
        return offsets, child_lists(self.parent, self.start, offsets)

    @cached_property
    def span(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """First leaf and one past the last leaf under each node, leaves counted from 0 in each tree."""
        return spans(self.arity, self.start)

    @cached_property
    def levels(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Offsets and nodes by height, to work bottom-up: `nodes[offsets[h]:offsets[h + 1]]` have height h.

        Links are not followed: a node that quotes another counts as a leaf.
        """
        order = np.argsort(self.height, kind="stable")
        offsets = np.zeros(int(self.height.max(initial=-1)) + 2, np.int64)
        np.cumsum(np.bincount(self.height, minlength=len(offsets) - 1), out=offsets[1:])
        return offsets, order


def numbered(names: Iterable[str]) -> dict[str, int]:
    """The number of each name; names must differ."""
    listed = tuple(names)
    index = {name: number for number, name in enumerate(listed)}
    if len(index) < len(listed):
        twice = next(name for number, name in enumerate(listed) if index[name] != number)
        raise TreeError(f"the table of names has {twice!r} twice")
    return index


def gather(start: Ints, rows: Ints) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Offsets and positions of the pieces `rows` of a ragged array cut at `start`.

    >>> gather(np.array([0, 2, 5]), np.array([1, 0]))
    (array([0, 3, 5]), array([2, 3, 4, 0, 1]))
    """
    rows = np.asarray(rows, np.int64)
    count = len(start) - 1
    if len(rows) and not (-count <= rows.min() and rows.max() < count):
        raise IndexError(f"row {rows.min() if rows.min() < -count else rows.max()} of {count}")
    rows = np.where(rows < 0, rows + count, rows)
    return gathered(np.asarray(start, np.int64), rows)
