"""Read trees from text and write them as text; errors name the column.

Two notations, told apart by the first character:

    [MAX 2 9 [MIN 4 7 ] 0 ]                       lists: `[OP` opens, `]` closes, anything else is a leaf
    ( ( ( [MAX 2 ) 9 ) ] )                        groups: every token between `(` and `)` is a leaf, groups are unnamed

A closing bracket needs no space before it: `[MIN 4 7]`, as the ListOps paper prints, is `[MIN 4 7 ]`. `read` inverts
`write`; a tree that `read` could not restore is an error in `write`. Large ListOps files have a compiled reader
(`pomona.tasks.listops.text`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Ints
from pomona.base.compiled import compiled
from pomona.base.errors import TreeError
from pomona.trees.forest import Forest, numbered

UNNAMED = ""  # the symbol of a group that has no operator

_PIECE = re.compile(r"[()\]]|\[[^\s()\[\]]*|[^\s()\[\]]+")
_WORD = re.compile(r"[^\s()\[\]]+")  # an operator, or a leaf between square brackets
_TOKEN = re.compile(r"\]|\[[^\s()\[\]]*|[^\s()\[\]]+")  # a leaf between round brackets: also `[MAX` and `]`


def read(text: str | Iterable[str], names: Sequence[str] = ()) -> Forest:
    """Parse one text or several. An error names the column, counted from 1, and the text, counted from 0.

    >>> read("[MAX 2 9 [MIN 4 7] 0]").nested()
    [('MAX', '2', '9', ('MIN', '4', '7'), '0')]
    """
    index = numbered(names)
    symbols: list[int] = []
    parents: list[int] = []
    start = [0]
    texts = [text] if isinstance(text, str) else text
    for number, line in enumerate(texts):
        try:
            _read_one(line, index, symbols, parents)
        except TreeError as error:
            if isinstance(text, str):
                raise
            placed = TreeError(f"text {number}, {error}")
            placed.column = error.column
            raise placed from None
        start.append(len(symbols))
    table = tuple(numbered(index))
    return Forest.of_lists(symbols, parents, start, table)


def _read_one(text: str, index: dict[str, int], symbols: list[int], parents: list[int]) -> None:
    base = len(symbols)
    grouped = text.lstrip().startswith("(")
    opener, closer = ("(", ")") if grouped else ("[", "]")
    opened: list[tuple[str, int, list[int]]] = []  # symbol, column, children
    finished = False
    for match in _PIECE.finditer(text):
        piece, column = match.group(), match.start() + 1
        if finished:
            raise TreeError(f"{piece!r} comes after the end of the tree", column=column)
        if piece[0] == opener:
            if not grouped and len(piece) == 1:
                raise TreeError("'[' without an operator: write [MAX 2 9 ]", column=column)
            opened.append((UNNAMED if grouped else piece[1:], column, []))
            continue
        if piece == closer:
            if not opened:
                raise TreeError(f"'{closer}' closes a list that was never opened", column=column)
            symbol, began, children = opened.pop()
            if not children:
                raise TreeError(f"the list opened at column {began} is empty", column=column)
            for child in children:
                parents[child] = len(symbols) - base
        elif not grouped and piece in "()":
            raise TreeError(f"{piece!r} in a text of square brackets", column=column)
        else:
            symbol = piece
        if opened:
            opened[-1][2].append(len(symbols))
        else:
            finished = True
        symbols.append(index.setdefault(symbol, len(index)))
        parents.append(-1)
    if opened:
        began = opened[-1][1]
        raise TreeError(f"the text ends before the list opened at column {began} is closed", column=len(text) + 1)
    if not finished:
        raise TreeError("there is no tree in an empty text", column=1)


def write(forest: Forest) -> list[str]:
    """Each tree as text: lists for named trees, groups where inner nodes are unnamed.

    >>> write(Forest.from_nested([("MAX", "2", "9")]))
    ['[MAX 2 9 ]']
    """
    _check_writable(forest)
    node, kind, start = walk(forest)
    shown = (
        forest.names,
        tuple(f"[{name}" if name else "(" for name in forest.names),
        tuple("]" if name else ")" for name in forest.names),
    )
    pieces = [shown[action][symbol] for symbol, action in zip(forest.symbol[node].tolist(), kind.tolist(), strict=True)]
    return [" ".join(pieces[low:high]) for low, high in zip(start[:-1].tolist(), start[1:].tolist(), strict=True)]


def _check_writable(forest: Forest) -> None:
    """Reject what `read` could not restore: names that are not one token, trees with named and unnamed lists."""
    named = np.array([name != UNNAMED for name in forest.names], bool)
    word = np.array([_WORD.fullmatch(name) is not None for name in forest.names], bool)
    token = np.array([_TOKEN.fullmatch(name) is not None for name in forest.names], bool)
    inner = ~forest.leaf
    grouped = (inner & ~named[forest.symbol])[forest.root][forest.tree]  # is the node's tree written with groups?
    fine = np.where(
        inner,
        np.where(grouped, ~named[forest.symbol], word[forest.symbol]),
        np.where(grouped, token[forest.symbol], word[forest.symbol]),
    )
    if not fine.all():
        node = int(np.argmin(fine))
        name, tree = forest.names[forest.symbol[node]], forest.tree[node]
        what = "a list" if inner[node] else "a leaf"
        notation = "groups" if grouped[node] else "lists"
        raise TreeError(f"tree {tree} cannot be written as {notation}: {what} is called {name!r}")


LEAF, OPEN, CLOSE = 0, 1, 2


def walk(forest: Forest) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """The trees in reading order: the node of each step, its kind (LEAF, OPEN or CLOSE), and tree offsets."""
    inner = np.zeros(len(forest.symbol) + 1, np.int64)
    np.cumsum(forest.arity > 0, out=inner[1:])
    start = forest.start + inner[forest.start]
    return (*_walk(forest.parent, forest.arity, forest.start, int(start[-1])), start)


def list_tokens(forest: Forest) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64], tuple[str, ...]]:
    """The tokens of list trees, the offsets of the trees, and the vocabulary: leaves, `[OP` and `]`."""
    node, kind, start = walk(forest)
    inner = np.unique(forest.symbol[~forest.leaf]).tolist()
    leaves = np.unique(forest.symbol[forest.leaf]).tolist()
    words = [*(forest.names[leaf] for leaf in leaves), *(f"[{forest.names[operator]}" for operator in inner), "]"]
    position = {word: number for number, word in enumerate(dict.fromkeys(words))}
    table = np.zeros((3, len(forest.names)), np.promote_types(np.uint16, np.min_scalar_type(len(position))))
    for leaf in leaves:
        table[LEAF, leaf] = position[forest.names[leaf]]
    for operator in inner:
        table[OPEN, operator] = position[f"[{forest.names[operator]}"]
        table[CLOSE, operator] = position["]"]
    return table[kind, forest.symbol[node]], start, tuple(position)


@compiled
def _walk(parent: Ints, arity: Ints, start: Ints, total: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """From post-order to reading order: before a leaf, open every ancestor of which it is the first leaf."""
    step = np.empty(total, np.int64)
    kind = np.empty(total, np.uint8)
    seen = np.zeros(len(parent), np.bool_)
    at = 0
    for tree in range(len(start) - 1):
        base = start[tree]
        for node in range(base, start[tree + 1]):
            if arity[node]:
                step[at], kind[at] = node, CLOSE
                at += 1
                continue
            opened, up = 0, node
            while parent[up] >= 0 and not seen[base + parent[up]]:
                up = base + parent[up]
                seen[up] = True
                opened += 1
            up = node
            for back in range(opened):
                up = base + parent[up]
                step[at + opened - 1 - back], kind[at + opened - 1 - back] = up, OPEN
            at += opened
            step[at], kind[at] = node, LEAF
            at += 1
    return step, kind
