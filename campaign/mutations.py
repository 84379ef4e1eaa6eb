"""Mutations of files: of their bytes, and of the structure of the JSON in them.

    mutated(data, random.Random(7), others)           one mutation of some kind, or a few of them

JSON documents, lines of JSON, and the JSON inside safetensors and gzip files are also changed as structures, so that
what is read after the parser is reached, too.
"""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

STRANGE: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**31, 2**63, 10**30, -(10**30), 0.5, -0.0, 1e-320, 1e308, float("inf"), float("nan"),
    "", "x", "0", "-1", "\ud800", "\x00", "\x1b[31m", "__proto__", "é" * 300, "9" * 5000, [], {}, [[]], [None], ["x"],
    [0, 0], {"x": 1}, {"": []},
)  # fmt: skip
BYTES = (
    b"\x00", b"\xff", b"\x7f", b"\x80", b"\n", b"\r\n", b"\t", b" ", b'"', b"[", b"]", b"{", b"}", b"(", b")", b",",
    b"\xed\xa0\x80", b"\xef\xbb\xbf", b"99999999999999999999", b"-1", b"1e999", b"NaN", b"\\ud800", b"null",
)  # fmt: skip
SIZES = (0, 1, 2**7, 2**8 - 1, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1)

Random = random.Random


def mutated(data: bytes, draw: Random, others: Sequence[bytes] = ()) -> bytes:
    """The bytes of a file, changed; `others` are files of the same kind to take pieces from."""
    if draw.random() < 0.55 and (structured := _structured(data, draw)) is not None:
        return structured
    for _ in range(draw.choice((1, 1, 1, 2, 4, 16))):
        data = draw.choice(_OF_BYTES)(data, draw, others)
    return data


# -- of bytes ----------------------------------------------------------------------------------------------------------


def _place(data: bytes, draw: Random) -> tuple[int, int]:
    start = draw.randrange(len(data) + 1)
    return start, min(len(data), start + draw.choice((1, 1, 2, 4, 8, 64, 1000)))


def _flip(data: bytes, draw: Random, _: Any) -> bytes:
    if not data:
        return b"\x01"
    at = draw.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :]


def _delete(data: bytes, draw: Random, _: Any) -> bytes:
    start, end = _place(data, draw)
    return data[:start] + data[end:]


def _cut(data: bytes, draw: Random, _: Any) -> bytes:
    return data[: draw.randrange(len(data) + 1)]


def _repeat(data: bytes, draw: Random, _: Any) -> bytes:
    start, end = _place(data, draw)
    return data[:end] + data[start:end] * draw.choice((1, 2, 50)) + data[end:]


def _insert(data: bytes, draw: Random, _: Any) -> bytes:
    start, end = _place(data, draw)
    return (
        data[:start]
        + draw.choice(BYTES) * draw.choice((1, 1, 1, 3, 3000))
        + data[end if draw.random() < 0.5 else start :]
    )


def _number(data: bytes, draw: Random, _: Any) -> bytes:
    """Another size in little or big endian somewhere: lengths, counts and offsets of binary files."""
    width = draw.choice((1, 2, 4, 8))
    value = (draw.choice(SIZES) & (1 << 8 * width) - 1).to_bytes(width, draw.choice(("little", "big")))
    start = draw.randrange(len(data) + 1)
    return data[:start] + value + data[start + width :]


def _spelt(data: bytes, draw: Random, _: Any) -> bytes:
    """Another number where a number is spelt."""
    found = list(re.finditer(rb"-?\d+(\.\d+)?", data))
    if not found:
        return _flip(data, draw, _)
    place = draw.choice(found)
    return (
        data[: place.start()]
        + str(draw.choice((*SIZES, -1, 10**30, "1e400", "9" * 5000))).encode()
        + data[place.end() :]
    )


def _splice(data: bytes, draw: Random, others: Sequence[bytes]) -> bytes:
    other = draw.choice(others) if others else data[::-1]
    return data[: draw.randrange(len(data) + 1)] + other[draw.randrange(len(other) + 1) :]


_OF_BYTES: tuple[Callable[[bytes, Random, Any], bytes], ...] = (
    _flip, _flip, _delete, _cut, _repeat, _insert, _number, _spelt, _splice,
)  # fmt: skip


# -- of structure ------------------------------------------------------------------------------------------------------


def _structured(data: bytes, draw: Random) -> bytes | None:
    """The file with a change in the structure of its JSON; None if there is none in it."""
    if data[:2] == b"\x1f\x8b":
        return gzip.compress(mutated(gzip.decompress(data), draw), mtime=0)
    if len(data) > 8 and (size := int.from_bytes(data[:8], "little")) <= len(data) - 8 and data[8:9] == b"{":
        return _tensors(data[8 : 8 + size], data[8 + size :], draw)
    if data[:1] not in b"{[" or not data:
        return None
    try:
        return dumped(changed(json.loads(data), draw)).encode("utf-8", "surrogatepass")
    except RecursionError:
        return None
    except ValueError:
        pass
    lines = data.split(b"\n")
    at = draw.randrange(len(lines))
    try:
        lines[at] = dumped(changed(json.loads(lines[at]), draw)).encode("utf-8", "surrogatepass")
    except ValueError:
        return None
    return b"\n".join(lines)


def _tensors(header: bytes, rest: bytes, draw: Random) -> bytes:
    """A safetensors file: its header, or the JSON inside its header, is changed; often its seal is made anew."""
    about = json.loads(header)
    texts = about.get("__metadata__")
    if isinstance(texts, dict) and "sealed" in texts and draw.random() < 0.6:
        texts["sealed"] = dumped(changed(json.loads(texts["sealed"]), draw))
    else:
        about = changed(about, draw)
    content = dumped(about).encode("utf-8", "surrogatepass")
    data = len(content).to_bytes(8, "little") + content + rest
    return resealed(data) if draw.random() < 0.6 else data


def resealed(data: bytes) -> bytes:
    """A safetensors file with the right digest in its header, as one who wanted to deceive would write it."""
    from pomona.training.tensors import sealed

    return sealed(data)


def dumped(value: Any) -> str:
    return json.dumps(value)


def changed(value: Any, draw: Random) -> Any:
    """A JSON value with one part replaced, removed, added or doubled."""
    if draw.random() < 0.03:
        return draw.choice((*STRANGE, _deep(draw)))
    parts = list(_parts(value))
    holder, key = draw.choice(parts) if parts else (None, None)
    if holder is None:
        return draw.choice(STRANGE)
    kind = draw.randrange(10)
    if kind < 6:
        holder[key] = _deep(draw) if draw.random() < 0.03 else _other(holder[key], draw)
    elif kind < 8:
        del holder[key]
    elif isinstance(holder, dict):
        holder[draw.choice(("x", "", "__proto__", "recipe", "by", str(key) * 2))] = draw.choice(STRANGE)
    else:
        holder.insert(key, draw.choice((*STRANGE, holder[key])))
    return value


def _other(value: Any, draw: Random) -> Any:
    """Another value, of the same type half of the time."""
    if draw.random() < 0.5:
        alike = [one for one in STRANGE if type(one) is type(value)]
        if alike:
            return draw.choice(alike)
    return draw.choice(STRANGE)


def _deep(draw: Random) -> Any:
    value: Any = draw.choice(STRANGE)
    for _ in range(draw.choice((60, 900))):
        value = [value] if draw.random() < 0.5 else {"x": value}
    return value


def _parts(value: Any) -> Any:
    """Every place in a JSON value: what holds it, and its key."""
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        for key, part in list(
            holder.items() if isinstance(holder, dict) else enumerate(holder) if isinstance(holder, list) else ()
        ):
            yield holder, key
            waiting.append(part)
