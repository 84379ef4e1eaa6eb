"""Files that are complete or absent: write under another name, flush to disk, then rename in one step.

    with replacing("data/train.parquet") as path:
        ...                                          # write to `path`, a file of another name in the same folder

If the process is killed, either the old file is there or the new one. After an exception the old file is unchanged and
no temporary file is left.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from pomona.base.errors import FormatError


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A path to write to. The file becomes `path` when the block ends without an exception."""
    target = Path(path)
    if target.is_dir() or not target.name:
        raise FormatError("this is a folder; name a file in it", path=target)
    if target.exists() and not target.is_file():  # never replace /dev/null by a file
        raise FormatError("this is a device or a pipe; name a file", path=target)
    beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield beside
        with beside.open("rb+") as written:
            os.fsync(written.fileno())
        beside.replace(target)
    except OSError as error:
        raise FormatError(f"cannot be written: {error.strerror or error}", path=target) from error
    finally:
        with suppress(OSError):  # if the folder could not be made, there is nothing to remove
            beside.unlink(missing_ok=True)


def write_json(path: str | Path, value: Any) -> None:
    """Write a JSON document, completely or not at all."""
    with replacing(path) as beside:
        beside.write_text(json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def kind_of(path: str | Path) -> Literal["file", "folder", ""]:
    """What is at a path: nothing, too, if a text that a user gave is too long or too strange to be a path."""
    try:
        return "file" if Path(path).is_file() else "folder" if Path(path).is_dir() else ""
    except (OSError, ValueError):
        return ""


def read_bytes(path: str | Path) -> bytes:
    """The whole file, or an error that says why not."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise FormatError(f"cannot be read: {error.strerror or error}", path=path) from error
