"""What the tests of bad files share: a few trees, and the one error that a bad file gives."""

from __future__ import annotations

from pathlib import Path

import pytest

import pomona as pm
from pomona.base.errors import FormatError

ALL = ["jsonl", "lra", "parquet", "tsv"]
GROVE = [("MAX", "2", "9", ("MIN", "4", "7")), "5", ("SM", ("MED", "1", "2", "3"), "8")]
DEEP = 100_000
def refused(path: Path, data: bytes | str) -> FormatError:
    """The error of a file of these bytes, which must begin with its name."""
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    with pytest.raises(FormatError) as caught:
        pm.read(path)
    assert str(caught.value).startswith(str(path))
    assert len(str(caught.value)) < len(str(path)) + 400  # a gigantic line is not a gigantic message
    return caught.value


def place(error: FormatError) -> tuple[int | None, int | None]:
    return error.line, error.column
