"""The shape of a JSON value: what a document must hold before anything uses it.

    SUMMARY = {"dev": NUMBER, "best_epoch": WHOLE, "core_seconds?": NUMBER}
    check(value, SUMMARY, path)            # FormatError: run/summary.json: dev is "", not a number

| shape | values |
|---|---|
| `{"a": S, "b?": T}` | an object with "a", and possibly "b"; other keys are not looked at |
| `Each(S)` | an object whose values all are S |
| `[S]`, `(S, T)` | a list of any number of S; a list of exactly these two |
| `Maybe(S)` | S or null |
| `Either(S, T)` | S or T |
| `NUMBER`, `SHARE`, `WHOLE`, `COUNT` | a finite number; one from 0 to 1; a whole number; one that is not negative |
| `TEXT`, `TRUTH`, `ANYTHING` | a string; true or false; anything |
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from pomona.base.errors import FormatError

LARGEST = 2**53  # whole numbers beyond this are not exact in JSON readers, and overflow what counts with them
_SHOWN = 60  # characters of a wrong value in a message


class Kind(NamedTuple):
    """Values that a function accepts, and what they are called."""

    words: str
    accepts: Callable[[Any], bool]


class Each(NamedTuple):
    """An object whose values all have one shape."""

    shape: Any


class Maybe(NamedTuple):
    """A shape, or null."""

    shape: Any


class Either(NamedTuple):
    """One of two shapes."""

    one: Any
    other: Any


def is_number(value: Any) -> bool:
    """A finite number, small enough to count and compute with."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) <= LARGEST if isinstance(value, int) else math.isfinite(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and is_number(value)


def is_text(value: Any) -> bool:
    """A string without half of a surrogate pair, which JSON can hold and no encoding can write."""
    return isinstance(value, str) and (value.isascii() or not any("\ud800" <= one <= "\udfff" for one in value))


def is_finite(value: Any) -> bool:
    """Whether a value holds neither NaN nor an infinity anywhere, which Python reads from JSON and must not write."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, float) and not math.isfinite(part):
            return False
        if isinstance(part, (dict, list)):
            waiting += part.values() if isinstance(part, dict) else part
    return True


NUMBER = Kind("a number", is_number)
SHARE = Kind("a number from 0 to 1", lambda value: is_number(value) and 0 <= value <= 1)
WHOLE = Kind("a whole number", _is_whole)
COUNT = Kind("a whole number that is not negative", lambda value: _is_whole(value) and value >= 0)
TEXT = Kind("a text", is_text)
TRUTH = Kind("true or false", lambda value: isinstance(value, bool))
ANYTHING = Kind("anything", lambda value: True)


def check(value: Any, shape: Any, path: str | Path | None = None, what: str = "") -> Any:
    """The value, if it has this shape; else an error that says which part of it has not. `what` is its name."""
    wrong = fault(value, shape, what)
    if wrong:
        raise FormatError(wrong, path=path)
    return value


def fault(value: Any, shape: Any, place: str = "") -> str:
    """What is wrong with a value, and where; empty if it has the shape.

    >>> fault({"dev": [0.5, "x"]}, {"dev": [NUMBER]})
    'dev[1] is "x", not a number'
    """
    if isinstance(shape, Maybe):
        return "" if value is None else fault(value, shape.shape, place)
    if isinstance(shape, Either):
        first = fault(value, shape.one, place)
        return first and fault(value, shape.other, place)
    if isinstance(shape, Kind):
        return "" if shape.accepts(value) else _wrong(place, value, shape.words)
    if isinstance(shape, Each):
        if not isinstance(value, dict):
            return _wrong(place, value, "an object")
        return _first(fault(part, shape.shape, _inside(place, key)) for key, part in value.items())
    if isinstance(shape, dict):
        return _fault_of_object(value, shape, place)
    if not isinstance(value, list):
        return _wrong(place, value, "a list")
    if isinstance(shape, tuple):
        if len(value) != len(shape):
            return _wrong(place, value, f"a list of {len(shape)}")
        pairs = enumerate(zip(value, shape, strict=True))
        return _first(fault(part, one, f"{place}[{at}]") for at, (part, one) in pairs)
    return _first(fault(part, shape[0], f"{place}[{at}]") for at, part in enumerate(value))


def _fault_of_object(value: Any, shape: dict[str, Any], place: str) -> str:
    if not isinstance(value, dict):
        return _wrong(place, value, "an object")
    for key, part in shape.items():
        name = key.removesuffix("?")
        if name in value:
            wrong = fault(value[name], part, _inside(place, name))
            if wrong:
                return wrong
        elif not key.endswith("?"):
            return f"{_inside(place, name)} is missing"
    return ""


def _first(faults: Any) -> str:
    return next(filter(None, faults), "")


def _inside(place: str, key: str) -> str:
    return f"{place}.{key}" if place else str(key)[:_SHOWN]


def _wrong(place: str, value: Any, words: str) -> str:
    if isinstance(value, (dict, list)):
        shown = f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    else:
        shown = json.dumps(value)
        shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
    return f"{place[-200:] or 'it'} is {shown}, not {words}"
