"""Trees as nested JSON objects, node by node.

    {"type": "MAX", "value": 9, "children": [{"type": "2", "value": 2}, {"type": "9", "value": 9}]}
    {"type": "MAX", "value": 9, "children": [{"value": 2}, {"value": 9}]}                            the same tree

`Nodes` collects trees as they are read and checks every node; `nodes.forest()` is the result. The schema is in
`pomona.data.formats.jsonl`, and `pomona.data.json_text` writes it. Nothing here recurses, so any depth can be read.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Ints
from pomona.base.compiled import compiled
from pomona.base.errors import FormatError
from pomona.trees.forest import Forest
from pomona.trees.values import Interner, from_json, position_type

Wrong: TypeAlias = Callable[..., FormatError]  # turns a message into an error with file and line
VALUE = "true, false, a whole number of 64 bits, a finite number, a string, a list of such values, or null"
_SIMPLE = {int, str, type(None)}


class Nodes:
    """The trees read so far, the nodes of each in reverse post-order: root first, last child before first."""

    def __init__(self, names: Interner, outcomes: Interner) -> None:
        self.names, self.outcomes = names, outcomes  # an unknown value is number 0
        self.symbol: list[int] = []
        self.arity: list[int] = []
        self.value: list[int] = []
        self.link: list[int] = []
        self.start: list[int] = [0]

    def add_example(self, trees: list[Any], *, alone: bool, linked: bool, wrong: Wrong) -> None:
        """Add the trees of an example; an error names the faulty node. `linked`: there may be links."""
        first = len(self.symbol)
        for tree in trees:
            if not self._add(tree, linked, first):
                explain(trees, alone, wrong)

    def _add(self, tree: Any, linked: bool, first: int) -> bool:
        """Add all nodes of a tree at once, for speed; False if one of them has a fault."""
        nodes: list[Any] = []
        arities: list[int] = []
        waiting = [tree]
        known = len(self.names), len(self.outcomes)
        try:
            while waiting:
                node = waiting.pop()
                children = node.get("children")
                nodes.append(node)
                if children:
                    waiting += children
                    arities.append(len(children))
                elif children is None:
                    arities.append(0)
                else:
                    return False
            symbols = [self.names[_type(node, arity)] for node, arity in zip(nodes, arities, strict=True)]
            values = self._values([node.get("value") for node in nodes])
        except (TypeError, KeyError, AttributeError, ValueError):
            return False
        if known != (len(self.names), len(self.outcomes)) and not (
            all(isinstance(name, str) and name for name in self.names.table[known[0] :])
            and all(map(is_value, self.outcomes.table[known[1] :]))
        ):
            return False
        links = [node.get("link", 0) for node in nodes] if linked else [0] * len(nodes)
        if linked and not _links_fit(links, len(self.symbol) - first):
            return False
        self.symbol += symbols
        self.arity += arities
        self.value += values
        self.link += links
        self.start.append(len(self.symbol))
        return True

    def _values(self, values: list[Any]) -> list[int]:
        """The positions of values read from JSON. Whole numbers and strings, the usual case, need no conversion."""
        outcomes = self.outcomes
        if _SIMPLE.issuperset(map(type, values)):
            return [outcomes[value] for value in values]
        return [outcomes.add(None if value is None else from_json(value)) for value in values]

    def forest(self) -> tuple[Forest, Ints]:
        """All trees in post-order, and the value of each node: a position in `outcomes`, where 0 means unknown."""
        start = np.array(self.start, np.int64)
        turned = np.repeat(start[:-1] + start[1:] - 1, np.diff(start)) - np.arange(start[-1])  # reverse to post-order
        forest = Forest(
            np.array(self.symbol, position_type(len(self.names)))[turned],
            parents(np.array(self.arity, np.int32)[turned], start),
            start,
            tuple(self.names.table),
            np.array(self.link, np.int32)[turned] if any(self.link) else None,
        )
        return forest, np.array(self.value, np.int64)[turned]


def is_value(value: Any) -> bool:
    """Whether this, read from JSON, is a value or null (unknown)."""
    try:
        return value is None or from_json(value) is not None
    except ValueError:
        return False


def _type(node: Any, arity: int) -> Any:
    """The type of a node; a leaf without one is called by its value."""
    name = node.get("type")
    if name is None and not arity and "type" not in node:
        value = node["value"]
        return None if value is None else str(from_json(value))
    return name


def _links_fit(links: list[Any], before: int) -> bool:
    """Whether each link stays inside the example, which has `before` nodes before this tree."""
    if set(map(type, links)) != {int}:
        return False
    return all(0 <= link <= before + len(links) - 1 - position for position, link in enumerate(links))


def explain(trees: list[Any], alone: bool, wrong: Wrong) -> None:
    """Raise the error that names the node for which a tree was rejected."""
    seen = 0  # nodes finished, in post-order
    for number, tree in enumerate(trees):
        stack: list[tuple[Any, _Route, bool]] = [(tree, ("tree" if alone else f"trees[{number}]", None), False)]
        while stack:
            node, route, opened = stack.pop()
            if not opened:
                children = _checked_children(node, route, wrong)
                if children:
                    stack.append((node, route, True))
                    stack += [(children[index], (index, route), False) for index in reversed(range(len(children)))]
                    continue
            link = node.get("link", 0)
            if isinstance(link, bool) or not isinstance(link, int) or not 0 <= link <= seen:
                raise wrong(f'{_path(route)}: "link" counts nodes back inside the example; got {short(link)}')
            seen += 1
    raise AssertionError("a tree without a fault was rejected")


def _checked_children(node: Any, route: _Route, wrong: Wrong) -> list[Any] | None:
    if not isinstance(node, dict):
        raise wrong(f'{_path(route)}: a node is an object with a "type" that is a string; got {short(node)}')
    children = node.get("children")
    if children is not None and not (isinstance(children, list) and children):
        raise wrong(f'{_path(route)}: "children" is a list of nodes; leave it out at a leaf')
    if not is_value(node.get("value")):
        raise wrong(f"{_path(route)}: a value is {VALUE}; got {short(node['value'])}")
    if "type" in node or children is not None:
        if not isinstance(node.get("type"), str) or not node["type"]:
            raise wrong(f'{_path(route)}: a node is an object with a "type" that is a string; got {short(node)}')
    elif node.get("value") is None or node["value"] == "":
        raise wrong(f'{_path(route)}: a leaf has a "value" or a "type" that is a string; got {short(node)}')
    return children


_Route: TypeAlias = "tuple[str | int, _Route | None]"  # a node's number among its siblings, and its parent's route


def _path(route: _Route | None) -> str:
    steps: list[str] = []
    while route is not None:
        step, route = route
        steps.append(step if isinstance(step, str) else f".children[{step}]")
    return "".join(reversed(steps)) if len(steps) <= 40 else f"a node {len(steps) - 1} levels deep"


def short(value: Any) -> str:
    """A value as short text, for an error message."""
    text = reprlib.repr(value)  # quick also for deep or long values
    return text if len(text) <= 60 else text[:57] + "..."


@compiled
def parents(arity: Ints, start: Ints) -> npt.NDArray[np.int32]:
    """The parent of each node, from the numbers of children in post-order."""
    parent = np.full(len(arity), -1, np.int32)
    stack = np.empty(len(arity), np.int64)
    for tree in range(len(start) - 1):
        high = 0
        for node in range(start[tree], start[tree + 1]):
            for _ in range(arity[node]):
                high -= 1
                parent[stack[high]] = node - start[tree]
            stack[high] = node
            high += 1
    return parent
