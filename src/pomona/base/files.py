"""Files that are whole or not there: write beside, flush to disk, then put in place in one step.

    with replacing("data/train.parquet") as path:
        ...                                          # write to `path`, a file of another name in the same folder

Killed at any moment, the old file is still there or the new one is; an exception leaves the old one and no litter.
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
    """A path to write to, which becomes `path` when the block ends well."""
    target = Path(path)
    if target.is_dir() or not target.name:
        raise FormatError("this is a folder; name a file in it", path=target)
    if target.exists() and not target.is_file():  # never put a file in the place of /dev/null
        raise FormatError("this is a device or a pipe; name a file", path=target)
    beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield beside
        with beside.open("rb+") as done:
            os.fsync(done.fileno())
        beside.replace(target)
    except OSError as error:
        raise FormatError(f"cannot be written: {error.strerror or error}", path=target) from error
    finally:
        with suppress(OSError):  # where the folder itself could not be made there is nothing to take away
            beside.unlink(missing_ok=True)


def write_json(path: str | Path, value: Any) -> None:
    """A JSON document, atomically."""
    with replacing(path) as beside:
        beside.write_text(json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def kind_of(path: str | Path) -> Literal["file", "folder", ""]:
    """What stands at a path; nothing, too, where a text that a user gave is too long or too strange to be a path."""
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
