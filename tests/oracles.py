"""The slow twins: plain recursion on nested tuples, written to be believed at a glance.

A tree is a string (a leaf) or a tuple `(symbol, child, child, ...)`. Nothing here imports `pomona`, so nothing here can
share its mistakes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations, pairwise
from typing import Any

Tree = Any  # str | tuple[str, Tree, ...]


# -- text ------------------------------------------------------------------------------------------------------------


def to_text(tree: Tree) -> str:
    """`[OP a b ]` with a space between all tokens; a node without a name is written `( a b )`."""
    if isinstance(tree, str):
        return tree
    opening, closing = (f"[{tree[0]}", "]") if tree[0] else ("(", ")")
    return " ".join([opening, *map(to_text, tree[1:]), closing])


def parse(text: str) -> Tree:
    """The tree of a text in which every token stands alone."""
    tokens = text.split()
    grouped = tokens[0] == "("

    def tree_at(place: int) -> tuple[Tree, int]:
        if not (tokens[place] == "(" if grouped else tokens[place].startswith("[")):
            return tokens[place], place + 1
        symbol = "" if grouped else tokens[place][1:]
        children, place = [], place + 1
        while tokens[place] != (")" if grouped else "]"):
            child, place = tree_at(place)
            children.append(child)
        return (symbol, *children), place + 1

    tree, end = tree_at(0)
    assert end == len(tokens)
    return tree


# -- shape -----------------------------------------------------------------------------------------------------------


def children(tree: Tree) -> tuple[Tree, ...]:
    return () if isinstance(tree, str) else tree[1:]


def subtrees(tree: Tree) -> Iterator[Tree]:
    """All subtrees in post-order."""
    for child in children(tree):
        yield from subtrees(child)
    yield tree


def leaves(tree: Tree) -> list[str]:
    return [node for node in subtrees(tree) if isinstance(node, str)]


def size(tree: Tree) -> int:
    return 1 + sum(map(size, children(tree)))


def height(tree: Tree) -> int:
    return max((1 + height(child) for child in children(tree)), default=0)


def parents(tree: Tree, base: int = 0, up: int = -1) -> list[int]:
    """Parent numbers in post-order, counted from the first node of the tree."""
    found: list[int] = []
    here = base + size(tree) - 1
    for child in children(tree):
        found += parents(child, base + len(found), here)
    return [*found, up]


def depths(tree: Tree, above: int = 0) -> list[int]:
    """Edges up to the root, in post-order."""
    return [depth for child in children(tree) for depth in depths(child, above + 1)] + [above]


def spans(tree: Tree, first: int = 0) -> list[tuple[int, int]]:
    """(first leaf, one past the last leaf) of every node, in post-order."""
    found, place = [], first
    for child in children(tree):
        found += spans(child, place)
        place += len(leaves(child))
    return [*found, (first, first + len(leaves(tree)))]


def is_forest(parent: Sequence[int], start: Sequence[int]) -> bool:
    """Whether these arrays are post-order trees: rebuild each tree from its parents and see whether they come back."""
    for low, high in pairwise(start):
        piece = list(parent[low:high])
        if not piece or piece[-1] != -1 or any(not node < up < len(piece) for node, up in enumerate(piece[:-1])):
            return False

        def build(node: int, piece: list[int] = piece) -> Tree:
            return ("x", *(build(child) for child, up in enumerate(piece) if up == node))

        if parents(build(len(piece) - 1)) != piece:
            return False
    return True


# -- values ----------------------------------------------------------------------------------------------------------


def median(arguments: Sequence[int]) -> int:
    ranked = sorted(arguments)
    middle = len(ranked) // 2
    return ranked[middle] if len(ranked) % 2 else int((ranked[middle - 1] + ranked[middle]) / 2)


RULES: dict[str, Callable[[Sequence[int]], int]] = {
    "MIN": min,
    "MAX": max,
    "MED": median,
    "SM": lambda arguments: int(str(sum(arguments))[-1]),
    "FIRST": lambda arguments: arguments[0],
    "LAST": lambda arguments: arguments[-1],
    "PM": lambda arguments: int(str(math.prod(arguments))[-1]),
}


def evaluate(tree: Tree) -> int:
    return int(tree) if isinstance(tree, str) else RULES[tree[0]]([evaluate(child) for child in tree[1:]])


def decides(operator: str, arguments: Sequence[int], chosen: tuple[int, ...]) -> bool:
    """Whether the answer can be read off the chosen arguments alone, in the sense of Csordás et al. (2022)."""
    held = sorted(arguments[place] for place in chosen)
    if operator in ("MIN", "MAX"):
        return held == [RULES[operator](arguments)]
    if operator == "MED":
        ranked, middle = sorted(arguments), len(arguments) // 2
        return held == (ranked[middle : middle + 1] if len(ranked) % 2 else ranked[middle - 1 : middle + 1])
    if operator == "FIRST":
        return chosen == (0,)
    if operator == "LAST":
        return chosen == (len(arguments) - 1,)
    if operator == "PM" and len(chosen) < len(arguments):  # the others may multiply to anything
        return all(RULES["PM"]([*held, rest]) == RULES["PM"](arguments) for rest in range(10))
    return len(chosen) == len(arguments)


def dependency(tree: Tree) -> int:
    """Operators on the way to the deciding digits: try every set of arguments, keep the shallowest that decides."""
    if isinstance(tree, str):
        return 0
    arguments = [evaluate(child) for child in tree[1:]]
    return 1 + min(
        max(dependency(tree[1 + place]) for place in chosen)
        for count in range(1, len(arguments) + 1)
        for chosen in combinations(range(len(arguments)), count)
        if decides(tree[0], arguments, chosen)
    )


# -- binary trees ----------------------------------------------------------------------------------------------------


def branch(parts: Sequence[Tree], style: str) -> Tree:
    if len(parts) == 1:
        return parts[0]
    cut = {"left": len(parts) - 1, "right": 1, "balanced": (len(parts) + 1) // 2}[style]
    return ("", branch(parts[:cut], style), branch(parts[cut:], style))


def binarise(tree: Tree, style: str, tokens: bool) -> Tree:
    if isinstance(tree, str):
        return tree
    parts = [binarise(child, style, tokens) for child in tree[1:]]
    return branch([f"[{tree[0]}", *parts, "]"] if tokens else parts, style)


def transitions(tree: Tree) -> list[int]:
    """0 shifts, 1 reduces."""
    return [step for child in children(tree) for step in transitions(child)] + [0 if isinstance(tree, str) else 1]


@cache
def split_law(length: int) -> dict[Tree, Fraction]:
    """Every binary tree over `length` tokens and its probability when each piece is cut uniformly at random."""
    if length == 1:
        return {"token": Fraction(1)}
    law: dict[Tree, Fraction] = {}
    for cut in range(1, length):
        for left, one in split_law(cut).items():
            for right, other in split_law(length - cut).items():
                law["", left, right] = law.get(("", left, right), Fraction(0)) + one * other / (length - 1)
    return law


@cache
def merge_law(length: int) -> dict[Tree, Fraction]:
    """The same by another road: merge a uniformly chosen adjacent pair until one piece is left."""

    def merged(pieces: tuple[Tree, ...]) -> dict[Tree, Fraction]:
        if len(pieces) == 1:
            return {pieces[0]: Fraction(1)}
        law: dict[Tree, Fraction] = {}
        for place in range(len(pieces) - 1):
            pair = ("", pieces[place], pieces[place + 1])
            for tree, chance in merged((*pieces[:place], pair, *pieces[place + 2 :])).items():
                law[tree] = law.get(tree, Fraction(0)) + chance / (len(pieces) - 1)
        return law

    return merged(("token",) * length)


def span_chance(length: int, low: int, high: int) -> Fraction:
    """The closed form: the probability that tokens low..high-1 are a constituent of a random tree."""
    width = high - low
    if width == length or width == 1:
        return Fraction(1)
    return Fraction(1, width) if low == 0 or high == length else Fraction(2, width * (width + 1))


# -- comparing trees -------------------------------------------------------------------------------------------------


def constituents(tree: Tree, root: bool = True, leaves_too: bool = False) -> set[tuple[int, int]]:
    """The set of spans that count."""
    length = len(leaves(tree))
    return {
        (low, high) for low, high in spans(tree) if (root or high - low < length) and (leaves_too or high - low > 1)
    }


def sentence_f1(predicted: Tree, gold: Tree, root: bool = True, leaves_too: bool = False) -> Fraction | None:
    """F1 by precision and recall, None where there is nothing to compare."""
    mine, theirs = constituents(predicted, root, leaves_too), constituents(gold, root, leaves_too)
    if len(leaves(gold)) == 1 or not mine | theirs:
        return None
    if not mine & theirs:
        return Fraction(0)
    precision, recall = Fraction(len(mine & theirs), len(mine)), Fraction(len(mine & theirs), len(theirs))
    return 2 * precision * recall / (precision + recall)


def list_token_spans(tree: Tree) -> set[tuple[int, int]]:
    """Where each list stands in the text, tokens counted from 0."""
    found, opened = set(), []
    for place, token in enumerate(to_text(tree).split()):
        if token.startswith("["):
            opened.append(place)
        elif token == "]":
            found.add((opened.pop(), place + 1))
    return found
