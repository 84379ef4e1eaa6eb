"""Nested tuples and lists, read into flat arrays: a million leaves in a fifth of a second, at any depth.

A tuple or list is a bracket; a bracket around a single part stands for that part; any other hashable value is a
primitive. The trees are read level by level, all at once, with functions that loop in C, and then put into post-order.
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Ints
from pomona.base.compiled import compiled
from pomona.base.errors import MeasureError

IntArray = npt.NDArray[np.int64]


def read_nested(trees: list[Any]) -> tuple[IntArray, Ints, Ints, list[Hashable]]:
    """In post-order: each leaf's primitive (-1 at brackets), each node's parent, each tree's start; the primitives."""
    if not trees:
        raise MeasureError("no derivations: TRE needs one for each row of the representations.")
    try:
        symbol, arity, names = _by_level(trees)
    except (MeasureError, TypeError):
        for row, tree in enumerate(trees):
            _check_tree(tree, row)
        raise
    position, parent, start = _post_order(arity, len(trees))
    primitive = np.empty_like(symbol)
    primitive[position] = symbol
    return primitive, parent, start, names


def _by_level(level: list[Any]) -> tuple[IntArray, IntArray, list[Hashable]]:
    """The nodes of all trees, level by level: the index of each leaf's name (-1 at brackets) and each node's arity.

    Lists are taken whole, by functions that loop in C: a million leaves take a tenth of a second. Raises an error that
    names no row for what is not a derivation.
    """
    index: dict[Hashable, int] = {}
    symbols, arities = [], []
    while level:
        kinds = {kind for kind in set(map(type, level)) if issubclass(kind, tuple | list)}
        if kinds:
            level = [_unwrapped(node) if type(node) in kinds and len(node) < 2 else node for node in level]
        bracket = np.fromiter(map(kinds.__contains__, map(type, level)), np.bool_, len(level))
        leaves = level if not kinds else [node for node in level if type(node) not in kinds]
        for name in dict.fromkeys(leaves):
            if name not in index:
                check_primitive(name, 0)
                index[name] = len(index)
        symbol, arity = np.full(len(level), -1, np.int64), np.zeros(len(level), np.int64)
        symbol[~bracket] = np.fromiter(map(index.__getitem__, leaves), np.int64, len(leaves))
        brackets = [node for node in level if type(node) in kinds] if leaves else level
        arity[bracket] = np.fromiter(map(len, brackets), np.int64, len(brackets))
        symbols.append(symbol)
        arities.append(arity)
        level = list(chain.from_iterable(brackets))
    return np.concatenate(symbols), np.concatenate(arities), list(index)


def _unwrapped(node: Any) -> Any:
    """The part that brackets around a single part stand for."""
    while isinstance(node, tuple | list) and len(node) == 1:
        node = node[0]
    if isinstance(node, tuple | list) and not node:
        raise MeasureError("an empty composition")
    return node


def _check_tree(tree: Any, row: int) -> None:
    """Raise an error that names the row if it is not a derivation."""
    stack = [tree]
    while stack:
        node = stack.pop()
        if not isinstance(node, tuple | list):
            check_primitive(node, row)
        elif node:
            stack += node
        else:
            raise MeasureError(f"row {row}: an empty composition (). A derivation is a primitive or two or more parts.")


def check_primitive(value: Any, row: int) -> None:
    if value is None or value != value:
        raise MeasureError(f"row {row}: {value!r} is not a primitive. Name the missing part, or drop the row.")
    try:
        hash(value)
    except TypeError:
        raise MeasureError(
            f"row {row}: a primitive must be a name or a number, got {type(value).__name__}. "
            f"Compositions are tuples or lists."
        ) from None


@compiled
def _post_order(arity: Ints, roots: int) -> tuple[Ints, Ints, Ints]:
    """From nodes listed level by level: where each goes in post-order, each position's parent, each tree's start."""
    nodes = len(arity)
    size = np.ones(nodes, np.int64)
    last = nodes  # the parts of a node come together, after those of the nodes before it
    for node in range(nodes - 1, -1, -1):
        for part in range(last - arity[node], last):
            size[node] += size[part]
        last -= arity[node]
    begin = np.empty(nodes, np.int64)  # of the node's subtree
    start = np.zeros(roots + 1, np.int64)
    for tree in range(roots):
        begin[tree] = start[tree]
        start[tree + 1] = start[tree] + size[tree]
    first = np.empty(nodes, np.int64)  # position of the node's tree
    first[:roots] = start[:roots]
    parent = np.full(nodes, -1, np.int64)
    part = roots
    for node in range(nodes):
        at = begin[node]
        for _ in range(arity[node]):
            begin[part], first[part] = at, first[node]
            at += size[part]
            parent[at - 1] = begin[node] + size[node] - 1 - first[node]
            part += 1
    return begin + size - 1, parent, start
