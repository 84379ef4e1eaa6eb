"""Slow twins of the fairness room: the paper's algorithms and definitions word for word, on nested tuples.

A node is `(type, value, child, child, ...)`; a leaf is `(type, value)` with value None where the type is the input.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

UNDEFINED = object()
Node = tuple[Any, ...]


def value(node: Node) -> Any:
    """What a node gives to its parent: its value, or the type of a leaf that has none."""
    return node[0] if node[1] is None else node[1]


def inner_nodes(tree: Node) -> Iterator[Node]:
    if len(tree) > 2:
        for child in tree[2:]:
            yield from inner_nodes(child)
        yield tree


def local_facts(tree: Node) -> Iterator[tuple[str, tuple[Any, ...], Any]]:
    for node in inner_nodes(tree):
        yield node[0], tuple(value(child) for child in node[2:]), value(node)


def learn(trees: list[Node]) -> tuple[dict[Any, Any], set[Any]]:
    """Algorithm 2, tied by type: the table, and the inputs that were given two outputs."""
    table: dict[Any, Any] = {}
    conflicts = set()
    for tree in trees:
        for function, inputs, output in local_facts(tree):
            if table.setdefault((function, inputs), output) != output:
                conflicts.add((function, inputs))
    return table, conflicts


def compose(table: dict[Any, Any], node: Node) -> Any:
    """Algorithm 1 by recursion; a miss is UNDEFINED all the way up."""
    if len(node) == 2:
        return value(node)
    inputs = tuple(compose(table, child) for child in node[2:])
    if UNDEFINED in inputs:
        return UNDEFINED
    return table.get((node[0], inputs), UNDEFINED)


def answers_everything(train: list[Node], test: list[Node]) -> bool:
    """The property itself: without conflicts, and every node of every test tree composed as the tree says."""
    table, conflicts = learn(train)
    return not conflicts and all(compose(table, node) == value(node) for tree in test for node in inner_nodes(tree))


def fair_for_its_domains(train: list[Node]) -> bool:
    """Definition 2 over trimmed domains: every function total on the product of what was seen at its arguments."""
    table, conflicts = learn(train)
    if conflicts:
        return False
    groups: dict[Any, list[tuple[Any, ...]]] = {}
    for function, inputs in table:
        groups.setdefault((function, len(inputs)), []).append(inputs)
    return all(
        set(itertools.product(*(set(column) for column in zip(*rows, strict=True)))) == set(rows)
        for rows in groups.values()
    )


def smallest_cover(sets: list[frozenset[Any]], wanted: frozenset[Any]) -> int:
    """How few of the sets cover all that is wanted, by trying all choices in order of size."""
    for count in range(len(sets) + 1):
        for chosen in itertools.combinations(sets, count):
            if wanted <= frozenset().union(*chosen):
                return count
    raise AssertionError("nothing covers it")


def folded(operator: str, arguments: list[int]) -> list[tuple[str, tuple[Any, ...], Any]]:
    """The transitions of one list, by the words of the module."""
    rule = {
        "MIN": min,
        "MAX": max,
        "SM": lambda state, digit: (state + digit) % 10,
        "PM": lambda state, digit: state * digit % 10,
        "FIRST": lambda state, digit: state,
        "LAST": lambda state, digit: digit,
    }

    def name(digits: list[int]) -> str:
        return "{" + ",".join(str(digit) for digit in sorted(digits)) + "}"

    if operator == "MED":
        facts = [("MED·first", (arguments[0],), name(arguments[:1]))]
        for count in range(1, len(arguments)):
            facts.append(("MED·next", (name(arguments[:count]), arguments[count]), name(arguments[: count + 1])))
        ranked = sorted(arguments)
        middle = (ranked[(len(ranked) - 1) // 2] + ranked[len(ranked) // 2]) // 2
        return [*facts, ("MED·last", (name(arguments),), middle)]
    state = arguments[0]
    facts = [(f"{operator}·first", (state,), state)]
    for digit in arguments[1:]:
        after = rule[operator](state, digit)
        facts.append((f"{operator}·next", (state, digit), after))
        state = after
    return facts
