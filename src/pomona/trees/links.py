"""Trees that quote nodes of earlier trees (COPY): the positions of nodes, and the text of such trees.

    [MAX 2 6 0 1 ] X [MIN [COPY 1 ] 7 ]       `X` between trees; COPY names a node of an earlier tree by its position

Positions count the nodes of all earlier trees from 0, tree after tree, each level by level from left to right.
Operators, integers and COPYs all count. In the forest, a COPY is a leaf with a link to the quoted node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Ints
from pomona.base.compiled import compiled
from pomona.base.errors import TreeError
from pomona.trees import brackets
from pomona.trees.forest import Forest
from pomona.trees.growing import level_order
from pomona.trees.values import position_type

COPY = "COPY"


def positions(forest: Forest, width: int) -> npt.NDArray[np.int64]:
    """The level-order position of each node in its example of `width` trees: the argument of a COPY of it."""
    return _positions(forest.depth.astype(np.int64), forest.start, width)


@compiled
def _positions(level: Ints, start: Ints, width: int) -> npt.NDArray[np.int64]:
    order, position = np.empty(len(level), np.int64), np.empty(len(level), np.int64)
    for row in range((len(start) - 1) // width):
        at = start[row * width]
        for tree in range(row * width, (row + 1) * width):
            at = level_order(level, start[tree], start[tree + 1], order, at)
        for rank in range(start[row * width], at):
            position[order[rank]] = rank - start[row * width]
    return position


def copy_arguments(forest: Forest, width: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The example and the argument of every COPY, in order; an example has `width` trees."""
    nodes = np.flatnonzero(forest.links)
    quoted = positions(forest, width)[nodes - forest.links[nodes]]
    return forest.tree[nodes] // width, quoted


def spell(
    forest: Forest, width: int, *, digits: bool = False
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], tuple[str, ...]]:
    """The tokens of examples of `width` trees: their numbers, the offsets of the examples, and the vocabulary."""
    if np.any(forest.links[~forest.leaf]):
        raise TreeError("a node with arguments quotes another; only a leaf can be written as [COPY n ]")
    quoting = forest.links > 0
    quoted = np.full(len(forest.symbol), -1, np.int64)
    nodes = np.flatnonzero(quoting)
    quoted[nodes] = positions(forest, width)[nodes - forest.links[nodes]]
    names = [f"{forest.names[symbol]}" for symbol in range(len(forest.names))]
    largest = int(quoted.max(initial=9))
    words = [*names, *(f"[{name}" for name in names), "]", "X", f"[{COPY}", *map(str, range(largest + 1))]
    vocabulary = {word: number for number, word in enumerate(dict.fromkeys(words))}
    table = np.array([vocabulary[word] for word in words], np.int64)
    step, kind, start = brackets.walk(forest)
    tokens, token_start = _spell(step, kind, start, width, forest.symbol, quoted, len(names), digits)
    return table[tokens], token_start, tuple(vocabulary)


@compiled
def _spell(
    step: Ints, kind: Ints, start: Ints, width: int, symbol: Ints, quoted: Ints, names: int, digits: bool
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    rows = (len(start) - 1) // width
    room = len(step) + rows * width
    for node in range(len(quoted)):
        if quoted[node] >= 0:
            room += 2 + 20
    tokens, token_start = np.empty(room, np.int64), np.zeros(rows + 1, np.int64)
    figures = np.empty(20, np.int64)
    end = 0
    for row in range(rows):
        for tree in range(row * width, (row + 1) * width):
            if tree > row * width:
                tokens[end] = 2 * names + 1
                end += 1
            for at in range(start[tree], start[tree + 1]):
                node = step[at]
                if quoted[node] >= 0:
                    count, left = 0, quoted[node]
                    while digits and left > 9:
                        figures[count] = left % 10
                        left //= 10
                        count += 1
                    tokens[end], tokens[end + 1] = 2 * names + 2, 2 * names + 3 + left
                    end += 2
                    for figure in range(count - 1, -1, -1):
                        tokens[end] = 2 * names + 3 + figures[figure]
                        end += 1
                    tokens[end] = 2 * names
                elif kind[at] == brackets.CLOSE:
                    tokens[end] = 2 * names
                else:
                    tokens[end] = symbol[node] + (names if kind[at] == brackets.OPEN else 0)
                end += 1
        token_start[row + 1] = end
    return tokens[:end], token_start


def with_leaf_texts(forest: Forest, values: Ints, outcomes: Sequence[Any]) -> Forest:
    """The forest with each leaf named after its value, where it has one: what a reader of the tree sees.

    `values` are positions in `outcomes`, -1 where a value is unknown. A leaf that quotes another keeps its name.
    """
    leaves = np.flatnonzero(forest.leaf & (forest.links == 0) & (values >= 0))
    position = {name: number for number, name in enumerate(forest.names)}
    table = np.array([position.setdefault(str(value), len(position)) for value in outcomes], np.int64)
    symbol = forest.symbol.astype(position_type(len(position)))
    symbol[leaves] = table[values[leaves]]
    return Forest(symbol, forest.parent, forest.start, tuple(position), forest.link)


def texts(forest: Forest, width: int, *, digits: bool = False) -> list[str]:
    """Each example's trees as one line, for example `[MAX 2 6 0 1 ] X [COPY 1 ]`."""
    tokens, start, vocabulary = spell(forest, width, digits=digits)
    words = np.array(vocabulary, object)[tokens].tolist()
    return [" ".join(words[low:high]) for low, high in zip(start[:-1].tolist(), start[1:].tolist(), strict=True)]
