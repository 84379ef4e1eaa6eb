"""Bracketings: the binary trees over a sequence of positions.

    branching(3, left=True)                       # ((0, 1), 2)
    all_bracketings(3)                            # (((0, 1), 2), (0, (1, 2)))
    fill(((0, 1), 2), ("big", "red", "square"))   # (("big", "red"), "square")

`latent` searches over them.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache
from typing import Any

import numpy as np

EXHAUSTIVE = 7  # sequences up to this length try all bracketings (132); longer ones try those one rotation away
Bracketing = Any  # nested pairs of positions, for example ((0, 1), 2)


def branching(length: int, left: bool) -> Bracketing:
    """The left-branching or right-branching tree."""
    tree: Bracketing = 0 if left else length - 1
    for position in range(1, length):
        tree = (tree, position) if left else (length - 1 - position, tree)
    return tree


def random_bracketing(length: int, rng: np.random.Generator) -> Bracketing:
    """Join random neighbours until one tree is left."""
    parts: list[Bracketing] = list(range(length))
    while len(parts) > 1:
        at = int(rng.integers(len(parts) - 1))
        parts[at : at + 2] = [(parts[at], parts[at + 1])]
    return parts[0]


@cache
def all_bracketings(length: int) -> tuple[Bracketing, ...]:
    """Every binary bracketing of positions 0 to length - 1."""
    table: dict[tuple[int, int], list[Bracketing]] = {(i, i + 1): [i] for i in range(length)}
    for width in range(2, length + 1):
        for i in range(length - width + 1):
            table[i, i + width] = [
                (a, b) for cut in range(i + 1, i + width) for a in table[i, cut] for b in table[cut, i + width]
            ]
    return tuple(table[0, length])


def alternatives(bracket: Bracketing, length: int) -> list[Bracketing]:
    """What a search tries next: all bracketings of a short sequence, else the neighbours of the present one."""
    if length <= EXHAUSTIVE:
        return list(all_bracketings(length))
    near = [bracket, *rotations(bracket)]
    for left in (True, False):
        near.append(branching(length, left))
    return list(dict.fromkeys(near))


def rotations(bracket: Bracketing) -> list[Bracketing]:
    """Every tree one rotation away: ((a, b), c) <-> (a, (b, c)) at some node."""
    neighbours: list[Bracketing] = []
    stack: list[tuple[Bracketing, tuple[tuple[Bracketing, bool], ...]]] = [(bracket, ())]
    while stack:
        node, path = stack.pop()
        if not isinstance(node, tuple):
            continue
        left, right = node
        turned = []
        if isinstance(left, tuple):
            turned.append((left[0], (left[1], right)))
        if isinstance(right, tuple):
            turned.append(((left, right[0]), right[1]))
        for tree in turned:
            for sibling, on_left in reversed(path):
                tree = (tree, sibling) if on_left else (sibling, tree)
            neighbours.append(tree)
        stack.append((left, (*path, (right, True))))
        stack.append((right, (*path, (left, False))))
    return neighbours


def fill(bracket: Bracketing, sequence: tuple[Hashable, ...]) -> Any:
    """Replace positions by primitives, without recursion."""
    done: list[Any] = []
    stack: list[tuple[Bracketing, bool]] = [(bracket, False)]
    while stack:
        node, ready = stack.pop()
        if not isinstance(node, tuple):
            done.append(sequence[node])
        elif ready:
            right, left = done.pop(), done.pop()
            done.append((left, right))
        else:
            stack += [(node, True), (node[1], False), (node[0], False)]
    return done[0]
