"""Arrays and a JSON object in one safetensors file, with a digest of the whole file in its header.

    write_bytes(path, to_bytes({"logits": logits}, {"corpus": fingerprint}))
    arrays, about = read(path)                 # an error if any bit of the file is not the one that was written

The header's metadata has one entry, `sealed`: the JSON object, whose first key is the SHA-256 of the file with zeros in
the digest's place. Files of earlier versions have an entry `about` instead and no digest; they are still read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base.errors import FormatError, RunError
from pomona.base.files import read_bytes

Arrays = dict[str, npt.NDArray[Any]]

_NOTHING = "0" * 64
_TYPES = {
    "F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "U64": np.uint64, "I32": np.int32,
    "U32": np.uint32, "I16": np.int16, "U16": np.uint16, "I8": np.int8, "U8": np.uint8, "BOOL": np.bool_,
}  # fmt: skip


def to_bytes(arrays: Mapping[str, npt.NDArray[Any]], about: Mapping[str, Any]) -> bytes:
    """The content of a file with these arrays, and `about` in its header."""
    from safetensors.numpy import save

    header = {"sealed": json.dumps({"sha256": _NOTHING, **about})}
    return sealed(save({name: np.asarray(array, order="C") for name, array in arrays.items()}, header))


def sealed(content: bytes) -> bytes:
    """The content of a file with its own digest in the place of the digest that it has."""
    place = _place(content)
    blank = content[:place] + _NOTHING.encode() + content[place + 64 :] if place else content
    return blank[:place] + hashlib.sha256(blank).hexdigest().encode() + blank[place + 64 :] if place else blank


def _place(content: bytes) -> int:
    """Where the digest begins: behind the first key of the JSON in the header; 0 if there is none."""
    mark = b'\\"sha256\\": \\"'
    end = 8 + int.from_bytes(content[:8], "little")
    return content.find(mark, 8, min(end, len(content))) + len(mark) if mark in content[8:end] else 0


def read(path: Path) -> tuple[Arrays, dict[str, Any]]:
    """The arrays of a file, and the JSON object of its header."""
    from safetensors import SafetensorError, deserialize

    try:
        content = read_bytes(path)
        tensors = deserialize(content)  # type: ignore[no-untyped-call]  # checks every size against the length of the file
        about = _about(content)
        arrays = {name: _array(part) for name, part in tensors}
    except (FormatError, SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise RunError(f"{path} cannot be read as a safetensors file: {str(error)[:300]}") from None
    return arrays, about


def _about(content: bytes) -> dict[str, Any]:
    """The JSON object of the header, after a check of the digest."""
    size = int.from_bytes(content[:8], "little")
    metadata = json.loads(content[8 : 8 + size]).get("__metadata__")
    if not isinstance(metadata, dict) or not (metadata.keys() == {"sealed"} or metadata.keys() == {"about"}):
        raise ValueError("its header is not ours")
    about = json.loads(next(iter(metadata.values())))
    if not isinstance(about, dict):
        raise ValueError("its header holds no object")
    if "sealed" in metadata and (not about.pop("sha256", "") or sealed(content) != content):
        raise ValueError("its bytes are not those that were written (its SHA-256 is another); copy or make it again")
    return about


def _array(part: Mapping[str, Any]) -> npt.NDArray[Any]:
    kind = _TYPES.get(part["dtype"])
    if kind is None:
        raise ValueError(f"it holds numbers of type {part['dtype']}, which Pomona does not write")
    return np.frombuffer(part["data"], dtype=kind).reshape(part["shape"]).copy()
