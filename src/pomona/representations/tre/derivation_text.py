"""Derivations written as text, one string for each item.

    "dark red square"            three parts of one bracket: the text is split at spaces
    "((dark red) square)"        round brackets: every word is a part
    "[MAX 2 [MIN 4 7 ] ]"        lists: the operator is the first part of its bracket

A string without spaces and brackets is a primitive. Strings are read only where *all* derivations are strings: beside
tuples, "New York" is the name of one primitive.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from typing import Any

from pomona.base.errors import MeasureError, TreeError
from pomona.trees.brackets import UNNAMED, read

BRACKETS = frozenset("()[]")


def parsed(source: Iterable[Any], known: Collection[Hashable] = ()) -> Iterable[Any]:
    """The derivations as nested tuples; those that are not all texts are returned as they are.

    `known` are names of primitives: a text that is one of them is not split.
    """
    derivations = source if isinstance(source, list | tuple) else list(source)
    if not derivations or not all(isinstance(text, str) for text in derivations):
        return derivations
    return [text if text in known else _tree(text, row) for row, text in enumerate(derivations)]


def _tree(text: str, row: int) -> Any:
    if not text.strip():
        raise MeasureError(f"row {row}: an empty text is not a derivation. Drop the row or name its parts.")
    if BRACKETS.isdisjoint(text):
        return tuple(text.split())
    try:
        (nested,) = read(_enclosed(text)).nested()
    except TreeError as error:
        raise MeasureError(f"row {row}: {text!r} is not a derivation: {error}") from None
    return _without_labels(nested)


def _enclosed(text: str) -> str:
    """In brackets, also where the outermost are left out: "(dark red) square"."""
    depth = 0
    for position, letter in enumerate(text.strip()):
        depth += (letter in "([") - (letter in ")]")
        if depth == 0 and position + 1 < len(text.strip()):
            return f"({text})"
    return text.strip()


def _without_labels(nested: Any) -> Any:
    """Without the empty operators of round brackets; from the leaves up, since trees may be deep."""
    if not isinstance(nested, tuple):
        return nested
    done: list[list[Any]] = [[]]
    stack = [iter(nested)]
    while stack:
        part = next(stack[-1], done)
        if part is done:
            stack.pop()
            whole = tuple(done.pop())
            if not done:
                return whole
            done[-1].append(whole)
        elif isinstance(part, tuple):
            stack.append(iter(part))
            done.append([])
        elif part != UNNAMED:
            done[-1].append(part)
    raise AssertionError("a tree has a root")
