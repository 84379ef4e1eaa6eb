"""ORCHARD's slow twins: the generator by rejection, and two evaluators, plain enough to be believed at a glance.

Nothing here imports `pomona`. A tree is a string (an integer), `("COPY", n)`, or `(operator, operand, ...)`.
"""

from __future__ import annotations

import math
import random
from collections import deque
from fractions import Fraction
from functools import cache
from typing import Any

Tree = Any


# -- the generator by rejection --------------------------------------------------------------------------------------


def draw(
    rng: random.Random, operators: list[str], level: int, cap: int, copying: float, positions: int, **options: Any
) -> Tree:
    """An operator on this level: its left and right child, or one terminal where no more levels are left."""
    integers, branching, unary = options.get("integers", 2), options.get("branching", 0.5), options.get("unary", True)

    def terminal() -> list[Tree]:
        if positions and rng.random() < copying:
            return [("COPY", rng.randrange(positions))]
        return [str(rng.randrange(10)) for _ in range(rng.randint(1, integers))]

    operator = rng.choice(operators)
    operands: list[Tree] = []
    last = level == cap - 1
    for _ in range(1 if last and unary else 2):
        if not last and rng.random() < branching:
            operands.append(draw(rng, operators, level + 1, cap, copying, positions, **options))
        else:
            operands += terminal()
    return (operator, *operands)


def depth(tree: Tree) -> int:
    if isinstance(tree, str) or tree[0] == "COPY":
        return 0
    return 1 + max(map(depth, tree[1:]))


def draw_bin(
    rng: random.Random, operators: list[str], cap: int, wanted: int, copying: float, **options: Any
) -> tuple[Tree, Tree]:
    """Both trees of depth `wanted`: drawn until they are."""
    while True:
        first = draw(rng, operators, 0, cap, 0.0, 0, **options)
        if depth(first) != wanted:
            continue
        second = draw(rng, operators, 0, cap, copying, len(level_order(first)), **options)
        if depth(second) == wanted:
            return first, second


def draw_mixed(
    rng: random.Random, operators: list[str], rows: int, low: int, high: int, copying: float
) -> list[tuple[Tree, Tree]]:
    """`rows` pairs of depths low .. high: drawn until both find room in the bins of their depths."""
    room = rows // (high - low + 1) + 1
    bins: list[dict[int, int]] = [{}, {}]
    kept: list[tuple[Tree, Tree]] = []
    while len(kept) < rows:
        first = draw(rng, operators, 0, high, 0.0, 0)
        second = draw(rng, operators, 0, high, copying, len(level_order(first)))
        depths = depth(first), depth(second)
        if min(depths) < low or any(bins[place].get(one, 0) == room for place, one in enumerate(depths)):
            continue
        for place, one in enumerate(depths):
            bins[place][one] = bins[place].get(one, 0) + 1
        kept.append((first, second))
    return kept


@cache
def chance_at_most(levels: int, height: int, branching: Fraction = Fraction(1, 2)) -> Fraction:
    """P(depth <= height) with so many levels to grow in."""
    if height <= 0:
        return Fraction(0)
    if height >= levels:
        return Fraction(1)
    return ((1 - branching) + branching * chance_at_most(levels - 1, height - 1, branching)) ** 2


# -- evaluating --------------------------------------------------------------------------------------------------------


def level_order(tree: Tree) -> list[Tree]:
    """Operators, integers and COPYs, level by level, each from left to right."""
    queue, found = deque([tree]), []
    while queue:
        node = queue.popleft()
        found.append(node)
        if not isinstance(node, str) and node[0] != "COPY":
            queue.extend(node[1:])
    return found


RULES = {
    "FIRST": lambda xs: xs[0],
    "LAST": lambda xs: xs[-1],
    "MIN": min,
    "MAX": max,
    "SM": lambda xs: sum(xs) % 10,
    "PM": lambda xs: math.prod(xs) % 10,
    "MED": lambda xs: (sorted(xs)[(len(xs) - 1) // 2] + sorted(xs)[len(xs) // 2]) // 2,
}


def value(tree: Tree, earlier: list[Tree]) -> int:
    """By recursion; `earlier` are the trees before this one."""
    if isinstance(tree, str):
        return int(tree)
    if tree[0] == "COPY":
        left = tree[1]
        for place, other in enumerate(earlier):
            order = level_order(other)
            if left < len(order):
                return value(order[left], earlier[:place])
            left -= len(order)
        raise IndexError(tree[1])
    return int(RULES[tree[0]]([value(child, earlier) for child in tree[1:]]))


def answers(trees: list[Tree]) -> list[int]:
    return [value(tree, list(trees[:place])) for place, tree in enumerate(trees)]


def stack_answers(text: str) -> list[int]:
    """By a stack over the tokens; of each finished tree only the values on its levels are kept."""
    found: list[int] = []
    known: list[int] = []  # values by position, all earlier trees
    stack: list[list[Any]] = []
    levels: dict[int, list[int]] = {}  # values of the nodes on each level, in reading order of where they begin
    places: list[int] = []

    def put(number: int, level: int, place: int | None = None) -> None:
        row = levels.setdefault(level, [])
        if place is None:
            row.append(number)
        else:
            row[place] = number
        if stack:
            stack[-1].append(number)
        else:
            found.append(number)

    for token in [*text.replace("]", " ]").split(), "X"]:
        if token == "X":
            known += [number for level in sorted(levels) for number in levels[level]]
            levels = {}
        elif token.startswith("["):
            if token != "[COPY":
                row = levels.setdefault(len(stack), [])
                places.append(len(row))
                row.append(-1)
            stack.append([token[1:]])
        elif token == "]":
            operator, *operands = stack.pop()
            if operator == "COPY":
                put(known[int("".join(map(str, operands)))], len(stack))
            else:
                put(int(RULES[operator](operands)), len(stack), places.pop())
        elif stack and stack[-1][0] == "COPY":
            stack[-1].append(int(token))
        else:
            put(int(token), len(stack))
    return found


def text_of(tree: Tree) -> str:
    if isinstance(tree, str):
        return tree
    if tree[0] == "COPY":
        return f"[COPY {tree[1]} ]"
    return " ".join([f"[{tree[0]}", *map(text_of, tree[1:]), "]"])


def parse(text: str) -> list[Tree]:
    """The trees of a line in which every token stands alone; an argument of several digits is joined."""
    trees: list[Tree] = []
    for part in text.split(" X "):
        stack: list[list[Any]] = [[]]
        for token in part.split():
            if token.startswith("["):
                stack.append([token[1:]])
            elif token == "]":
                node = stack.pop()
                stack[-1].append(("COPY", int("".join(node[1:]))) if node[0] == "COPY" else tuple(node))
            else:
                stack[-1].append(token)
        (tree,) = stack[0]
        trees.append(tree)
    return trees


def shape(tree: Tree) -> Any:
    """The tree without names: how many leaves stand together, and where operators are."""
    if isinstance(tree, str) or tree[0] == "COPY":
        return "."
    return tuple(shape(child) for child in tree[1:])


def rest(tree: Tree) -> int:
    """Operators on the shortest proof of a FIRST, LAST, MIN or MAX tree without COPY."""
    if isinstance(tree, str):
        return 0
    operands = tree[1:]
    if tree[0] == "FIRST":
        return 1 + rest(operands[0])
    if tree[0] == "LAST":
        return 1 + rest(operands[-1])
    answer = value(tree, [])
    return 1 + min(rest(one) for one in operands if value(one, []) == answer)
