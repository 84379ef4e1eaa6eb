"""Values of nodes: what may be a value, when two values are the same, and how many of them share little memory.

    >>> values = Interner(["T", "F"])
    >>> values.add("F"), values.add(("a", "b")), values.add(True), values.add(1)
    (1, 2, 3, 4)
    >>> values.table
    ['T', 'F', ('a', 'b'), True, 1]

A value is a truth value, a whole number of 64 bits, a finite number, a string, or a tuple of values. Two values are the
same only if their types are: 1, 1.0, True and "1" are four values, and so are (1,) and (True,). Columns of a corpus
hold *positions* in a table of distinct values, -1 where nothing is known; the table costs memory once.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Ints

Value: TypeAlias = "bool | int | float | str | tuple[Any, ...]"

ALLOWED = "True, False, a whole number of 64 bits, a finite number, a string, or a tuple of such values"
DEEPEST = 50  # tuples inside tuples
_BARE = (str, int, type(None))  # types whose values are their own exact keys: no str equals an int
_ORDER = {int: 0, str: 1, bool: 2, float: 3, tuple: 4}
_SMALL = 1000  # whole numbers below this stand at their own position


def plain_value(value: Any, depth: int = 0) -> Value:
    """The value itself, a NumPy number as a Python one; anything that is no value is a ValueError."""
    if isinstance(value, np.generic):
        value = value.item()
    kind = type(value)
    if kind is str or kind is bool:
        return value  # type: ignore[no-any-return]
    if kind is int and -(2**63) <= value < 2**63:
        return int(value)
    if kind is float and math.isfinite(value):
        return float(value)
    if kind is tuple and depth < DEEPEST:
        return tuple(plain_value(part, depth + 1) for part in value)
    raise ValueError(f"{type(value).__name__} is no type of value" if kind not in _ORDER else "out of range")


def from_json(value: Any, depth: int = 0) -> Value:
    """A value as JSON writes it: a list is a tuple."""
    if isinstance(value, list):
        if depth >= DEEPEST:
            raise ValueError("out of range")
        return tuple(from_json(part, depth + 1) for part in value)
    return plain_value(value)


def to_json(value: Value) -> str:
    """The text of a value in JSON; `from_json` undoes it."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def exact_key(value: Any) -> Hashable:
    """What two values have in common only if they are the same: strings and whole numbers are their own keys."""
    return value if type(value) in _BARE else (type(value).__name__, repr(value))


def same_values(first: Sequence[Any], second: Sequence[Any]) -> bool:
    """Whether two tables hold the same values in the same order."""
    return len(first) == len(second) and all(map(_same, first, second))


def _same(first: Any, second: Any) -> bool:
    return first is second or exact_key(first) == exact_key(second)


class Interner(dict[Hashable, int]):
    """Distinct values in the order in which they came; the mapping is from exact keys to positions.

    `interner[value]` is a short way to add a string, a whole number or None; `add` takes any value.
    """

    def __init__(self, values: Iterable[Any] = ()) -> None:
        super().__init__()
        self.table: list[Any] = []
        for value in values:
            self.add(value)

    def __missing__(self, key: Hashable) -> int:
        position = self[key] = len(self.table)
        self.table.append(key)
        return position

    def add(self, value: Any) -> int:
        """The position of a value, which is new or known."""
        key = exact_key(value)
        position = self.setdefault(key, len(self.table))
        if position == len(self.table):
            self.table.append(value)
        return position

    def find(self, value: Any) -> int:
        """The position of a value, -1 where it is unknown."""
        return self.get(exact_key(value), -1)


def distinct(values: Iterable[Any]) -> tuple[Any, ...]:
    """Each value once, in the order of first occurrence."""
    return tuple(Interner(values).table)


def position_type(count: int) -> np.dtype[Any]:
    """The smallest signed type that holds the positions of a table of this length, and -1."""
    return np.dtype(np.int16 if count <= 1 << 15 else np.int32)


def renumber(
    positions: Ints, old: Sequence[Any], new: Sequence[Any], dtype: npt.DTypeLike = np.int64
) -> npt.NDArray[Any]:
    """Positions in the table `old` as positions in `new`; -1 where `new` lacks the value, and where they were -1.

    >>> renumber(np.array([0, 1, -1]), ["T", "F"], ["F", "U", "T"]).tolist()
    [2, 0, -1]
    """
    if old is new or same_values(old, new[: len(old)]):
        return positions.astype(dtype, copy=False)
    known = Interner(new)
    table = np.array([*map(known.find, old), -1], np.int64).astype(dtype)
    return np.asarray(table[positions])


def natural_order(values: Iterable[Value]) -> tuple[Value, ...]:
    """A table of these values whose order depends on nothing but the values.

    Small whole numbers stand at their own positions (a corpus of digits has all ten); otherwise whole numbers come
    first, then strings, truth values, other numbers and tuples, each in increasing order.
    """
    listed = list(values)
    if all(type(value) is int and 0 <= value < _SMALL for value in listed):
        return tuple(range(max([9, *(int(value) for value in listed)]) + 1))  # type: ignore[arg-type]
    return tuple(sorted(listed, key=_sorting_key))


def _sorting_key(value: Any) -> tuple[Any, ...]:
    kind = type(value)
    return _ORDER[kind], tuple(map(_sorting_key, value)) if kind is tuple else value, repr(value)


def labels_of(values: Sequence[Any]) -> list[str]:
    """A text for each value, no two alike: plain if that tells them apart, else with quotes, so that 1 is not "1"."""
    plain = [str(value) for value in values]
    return plain if len(set(plain)) == len(plain) else [repr(value) for value in values]


def value_of_text(text: str) -> Value:
    """The value of a leaf, unless a task says otherwise: a numeral is its number, any other word is itself."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else text
