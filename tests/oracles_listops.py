"""Slow, obvious twins of the ListOps generator and reader.

`draw` follows the same random words as the compiled loops, in whole Python numbers. `original_steps` is a generator of
our own with the steps of the paper's script (draw a binary tuple tree, collect in a set, evaluate, format, write), the
yardstick of the benchmarks. `parse_line` is a plain stack parser that gives what the compiled reader gives.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pomona.trees.operators import OPERATORS

WORD = (1 << 64) - 1


def mix(word: int) -> int:
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & WORD
    return word ^ (word >> 31)


def draw(
    key: int, number: int, *, branching: float, depth: int, arguments: int, operators: Sequence[str], no_digit: bool
) -> Any:
    """Draw number `number` as a nested tuple (operator, argument, ...), by recursion."""
    state = mix((key + number * 0x9E3779B97F4A7C15) & WORD)
    gamma = mix(state ^ 0xD6E8FEB86659FD93) | 1

    def next_word() -> int:
        nonlocal state
        state = (state + gamma) & WORD
        return mix(state)

    def node(level: int) -> Any:
        word = next_word()
        high, low = word >> 32, word & 0xFFFFFFFF
        if level + 1 < depth and (high < round(branching * 2**32) or (no_digit and level == 0)):
            choice = (low * (arguments - 1) * len(operators)) >> 32
            return (operators[choice % len(operators)], *(node(level + 1) for _ in range(2 + choice // len(operators))))
        return str((low * 10) >> 32)

    return node(0)


def evaluate(tree: Any) -> int:
    return int(tree) if isinstance(tree, str) else OPERATORS[tree[0]].rule([evaluate(child) for child in tree[1:]])


def dependency(tree: Any) -> int:
    """The shallowest set of deciding arguments, deepest member, plus one; straight from the definition."""
    if isinstance(tree, str):
        return 0
    values = [evaluate(child) for child in tree[1:]]
    deciding = OPERATORS[tree[0]].deciding
    sets = deciding(values) if deciding else [tuple(range(len(values)))]
    deep = [dependency(child) for child in tree[1:]]
    return 1 + min(max(deep[place] for place in one) for one in sets)


def nesting(tree: Any) -> int:
    return 0 if isinstance(tree, str) else 1 + max(nesting(child) for child in tree[1:])


def text(tree: Any) -> str:
    return tree if isinstance(tree, str) else f"[{tree[0]} {' '.join(text(child) for child in tree[1:])} ]"


# -- the original's steps ----------------------------------------------------------------------------------------------

END = "]"
SPELLED = ("[MIN", "[MAX", "[MED", "[SM")


def original_steps(count: int, seed: int, path: Path | None) -> int:
    """Draw until `count` different trees are in the set, then evaluate, format and (with a path) write each one."""
    source = random.Random(seed)
    trees: set[Any] = set()
    while len(trees) < count:
        trees.add(_binary_tree(source, 1))
    lines = [f"{_value(tree)}\t{_parenthesised(tree)}\n" for tree in trees]
    if path is not None:
        with path.open("w") as file:
            for line in lines:
                file.write(line)
    return len(lines)


def _binary_tree(source: random.Random, depth: int) -> Any:
    chance = source.random() if depth < 20 else 1.0
    if chance > 0.25:
        return source.choice(range(10))
    values = [_binary_tree(source, depth + 1) for _ in range(source.randint(2, 5))]
    tree: Any = (source.choice(SPELLED), values[0])
    for value in values[1:]:
        tree = (tree, value)
    return (tree, END)


def _value(tree: Any) -> Any:
    if not isinstance(tree, tuple):
        return tree
    left, right = _value(tree[0]), _value(tree[1])
    if left in SPELLED:
        return (left, [right])
    if right == END:
        return OPERATORS[left[0][1:]].rule(left[1])
    return (left[0], [*left[1], right])


def _parenthesised(tree: Any) -> str:
    if isinstance(tree, tuple):
        return f"( {_parenthesised(tree[0])} {_parenthesised(tree[1])} )"
    return str(tree)


def parse_line(line: str) -> tuple[int, list[str], list[str], list[int], list[int]]:
    """Answer, tokens, and the tree in post-order (symbols, parents, values) of one line of the original file."""
    answer, expression = line.rstrip("\n").split("\t")
    tokens: list[str] = []
    symbols: list[str] = []
    parents: list[int] = []
    values: list[int] = []
    stack: list[tuple[str, list[int]]] = []
    for word in expression.split():
        if word in "()":
            continue
        tokens.append(word)
        if word[0] == "[":
            stack.append((word[1:], []))
            continue
        if word == "]":
            operator, children = stack.pop()
            for child in children:
                parents[child] = len(symbols)
            symbols.append(operator)
            values.append(OPERATORS[operator].rule([values[child] for child in children]))
        else:
            symbols.append(word)
            values.append(int(word))
        parents.append(-1)
        if stack:
            stack[-1][1].append(len(symbols) - 1)
    return int(answer), tokens, symbols, parents, values
