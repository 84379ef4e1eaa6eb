"""The same bits for the same plot as PDF.

The program that turns SVG into PDF numbers the parts of a document, and lists its resources, in an order that changes
from call to call. `in_one_order` numbers the parts as they are first needed and sorts the resources by name. A document
that is not built as expected is left as it is.
"""

from __future__ import annotations

import re

_RESOURCES = re.compile(rb"(?:^ *\/[A-Za-z]+[0-9]+ [0-9]+ 0 R\n){2,}", re.M)
_REFERENCE = re.compile(rb"\b([0-9]+) 0 R\b")
_TABLE = re.compile(
    rb"xref\n0 ([0-9]+)\n((?:[0-9]{10} [0-9]{5} [fn][ \r\n]{2})+)trailer\n(.*?)startxref\n([0-9]+)\n%%EOF", re.S
)


def in_one_order(content: bytes) -> bytes:
    """A PDF document with its parts in an order that depends on nothing but the parts."""
    table = _TABLE.search(content)
    if table is None:
        return content
    entries = re.findall(rb"([0-9]{10}) [0-9]{5} ([fn])", table[2])
    offsets = {number: int(entry[0]) for number, entry in enumerate(entries) if entry[1] == b"n"}
    order = sorted(offsets, key=lambda number: offsets[number])
    ends = [*(offsets[number] for number in order[1:]), table.start()]
    parts = {}
    for number, end in zip(order, ends, strict=True):
        text = content[offsets[number] : end]
        mark = f"{number} 0 obj\n".encode()
        if not text.startswith(mark):
            return content
        parts[number] = _sorted(text.removeprefix(mark))
    return _joined(content[: offsets[order[0]]], parts, table[3])


def _sorted(part: bytes) -> bytes:
    """A part whose resources are sorted by name; what follows the word `stream` is not touched."""
    head, stream, rest = part.partition(b"\nstream\n")
    return _RESOURCES.sub(lambda found: b"".join(sorted(found[0].splitlines(keepends=True))), head) + stream + rest


def _joined(begin: bytes, parts: dict[int, bytes], trailer: bytes) -> bytes:
    numbers: dict[int, int] = {}
    waiting = [int(number) for number in _REFERENCE.findall(trailer)]
    while waiting:
        number = waiting.pop(0)
        if number in parts and number not in numbers:
            numbers[number] = len(numbers) + 1
            waiting += [int(other) for other in _REFERENCE.findall(parts[number].partition(b"\nstream\n")[0])]

    def renumbered(text: bytes) -> bytes:
        return _REFERENCE.sub(lambda found: f"{numbers.get(int(found[1]), 0)} 0 R".encode(), text)

    written, places = begin, []
    for number, new in numbers.items():
        head, stream, rest = parts[number].partition(b"\nstream\n")
        places.append(len(written))
        written += f"{new} 0 obj\n".encode() + renumbered(head) + stream + rest
    table = "".join(f"{place:010} 00000 n\r\n" for place in places).encode()
    trailer = re.sub(rb"/Size [0-9]+", f"/Size {len(places) + 1}".encode(), renumbered(trailer))
    head = f"xref\n0 {len(places) + 1}\n0000000000 65535 f\r\n".encode()
    return written + head + table + b"trailer\n" + trailer + f"startxref\n{len(written)}\n%%EOF".encode()
