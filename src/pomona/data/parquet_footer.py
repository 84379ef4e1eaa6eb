"""What a Parquet file announces in its footer, read without Arrow.

    announced(source)                # Announced(rows=6, values={"id": 6, "tokens": 41, ...}, size=3100)

Arrow ends the whole process, without an exception, when it is asked for the columns of some damaged footers: an
exception of C++ leaves a function that must not raise one (pyarrow 26, `RowGroupMetaData.column`). So we read the
numbers ourselves, from the structures FileMetaData, RowGroup and ColumnMetaData in Thrift's compact protocol
(https://github.com/apache/parquet-format, `parquet.thrift`).
"""

from __future__ import annotations

import struct
from collections import Counter
from functools import lru_cache
from typing import Any, NamedTuple

_MAGIC = b"PAR1"
_TRUE, _FALSE, _BYTE, _SHORT, _INT, _LONG, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_DEEPEST = 20  # a footer has about six levels


class Announced(NamedTuple):
    """Rows, values of every top column, and bytes of all pages, as the footer says."""

    rows: int
    values: Counter[str]
    size: int


def announced(source: Any) -> Announced:
    """The numbers in the footer of an open file. A ValueError if it cannot be read, or a number is negative."""
    length = source.size()
    source.seek(max(0, length - 8))
    ending = source.read(8)
    size = int.from_bytes(ending[:4], "little")
    if ending[4:] != _MAGIC or size > length - 8:
        raise ValueError("it does not end as a Parquet file does")
    source.seek(length - 8 - size)
    return _announced(source.read(size))


@lru_cache(maxsize=64)  # a shard is opened once for each of its columns
def _announced(footer: bytes) -> Announced:
    try:
        return _numbers(_Compact(footer).structure(0))
    except (KeyError, TypeError, AttributeError, IndexError):
        raise ValueError("its footer lacks something, or has something of another type") from None


def _numbers(footer: dict[int, Any]) -> Announced:
    values: Counter[str] = Counter()
    rows, size = 0, 0
    for group in footer[4]:
        rows += _positive(group[3])
        for column in group[1]:
            about = column[3]
            values[about[3][0].decode()] += _positive(about[5])
            size += max(_positive(about[6]), _positive(about[7]))
    return Announced(max(rows, _positive(footer[3])), values, size)


def _positive(number: int) -> int:
    if number < 0:
        raise ValueError(f"its footer announces {number} of something")
    return number


class _Compact:
    """A value in Thrift's compact protocol. Structures become dicts from the numbers of their fields."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def structure(self, depth: int) -> dict[int, Any]:
        if depth > _DEEPEST:
            raise ValueError("its footer is nested too deeply")
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._whole()
            kind = head & 15
            fields[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth + 1)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (_SHORT, _INT, _LONG):
            return self._whole()
        if kind == _BINARY:
            return self._bytes(self._count())
        if kind in (_LIST, _SET):
            return self._list(depth)
        if kind == _STRUCT:
            return self.structure(depth)
        if kind in (_TRUE, _FALSE, _BYTE):
            return self._byte()
        if kind == _DOUBLE:
            return struct.unpack("<d", self._bytes(8))[0]
        raise ValueError(f"its footer has a value of the unknown type {kind}")  # a footer has no maps

    def _list(self, depth: int) -> list[Any]:
        head = self._byte()
        count = self._count() if head >> 4 == 15 else head >> 4
        if depth > _DEEPEST or count > len(self._data) - self._at:
            raise ValueError("its footer announces a list that it cannot hold")
        return [self._value(head & 15, depth + 1) for _ in range(count)]

    def _whole(self) -> int:
        number = self._count()
        return number >> 1 ^ -(number & 1)

    def _count(self) -> int:
        number = shift = 0
        while True:
            byte = self._byte()
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return number
            if shift > 63:
                raise ValueError("its footer holds a number that is too long")

    def _byte(self) -> int:
        self._at += 1
        if self._at > len(self._data):
            raise ValueError("its footer is cut off")
        return self._data[self._at - 1]

    def _bytes(self, count: int) -> bytes:
        self._at += count
        if self._at > len(self._data):
            raise ValueError("its footer is cut off")
        return self._data[self._at - count : self._at]
