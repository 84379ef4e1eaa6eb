"""The paper's own pictures (section 4), read from the archive of the author's repository, `cls2_data/data.tar.gz`.

    tasks = read_archive("concepts/data.tar.gz")      10,000 tasks: two examples of a concept, then two test pictures
    tasks.derivations[0]                              as in metadata.csv: a word, or a pair of derivations

The archive holds `metadata.csv`, a line `0,(red eight)` for each task, and four JPEG pictures of 28 x 28 pixels a task
(`0_train_a.jpg`, `_train_b`, `_test_pos`, `_test_neg`). It is read as a stream and nothing is unpacked to disk. An
archive from anywhere is refused if it has links, paths that lead out of it, or more than such data can have.
"""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pomona.base.errors import FormatError, SpecError

SIDE = 28
WHICH = ("train_a", "train_b", "test_pos", "test_neg")
PICTURE = re.compile(rf"(0|[1-9][0-9]{{0,5}})_({'|'.join(WHICH)})\.jpg")
TOKEN = re.compile(r"[()]|[^()\s]+")
LARGEST_PICTURE, LARGEST_TABLE, LARGEST_ARCHIVE = 1 << 16, 1 << 24, 1 << 30  # bytes, when unpacked
MOST_TASKS, MOST_MEMBERS, DEEPEST = 50_000, 500_000, 100
Images = npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class PublishedTasks:
    """Many tasks: a derivation and four pictures (two examples, one test that shows the concept, one that does not)."""

    derivations: list[Any]
    images: Images  # [tasks, 4, 28, 28, 3]

    def __len__(self) -> int:
        return len(self.derivations)

    def pictures(self, rows: npt.NDArray[np.int64], which: npt.NDArray[np.int64] | int) -> Tensor:
        """[n, 3, 28, 28], between 0 and 1: one picture of each of these tasks."""
        chosen = torch.from_numpy(self.images[rows, which])
        return chosen.permute(0, 3, 1, 2).float() / 256

    def of_attributes(self, each: int) -> PublishedTasks:
        """At most `each` tasks of every concept that is one word, to estimate the information about attributes."""
        rows: dict[str, list[int]] = {}
        for row, derivation in enumerate(self.derivations):
            if isinstance(derivation, str) and len(rows.setdefault(derivation, [])) < each:
                rows[derivation].append(row)
        chosen = [row for some in rows.values() for row in some]
        return PublishedTasks([self.derivations[row] for row in chosen], self.images[chosen])


def read_archive(path: str | Path) -> PublishedTasks:
    """The tasks of an archive, in the order of their numbers."""
    path = Path(path)
    table: dict[int, Any] | None = None
    pictures: dict[tuple[int, int], Images] = {}
    for name, content in _members(path):
        found = PICTURE.fullmatch(name)
        if name == "metadata.csv":
            table = _table(content, path)
        elif found:
            pictures[int(found[1]), WHICH.index(found[2])] = _decoded(content, name, path)
    if table is None:
        raise FormatError("has no metadata.csv, which names the concept of each task", path=path)
    numbers = sorted(table)
    for number in numbers:
        for which, kind in enumerate(WHICH):
            if (number, which) not in pictures:
                raise FormatError(f"has no picture {number}_{kind}.jpg, but metadata.csv has task {number}", path=path)
    images = np.stack([[pictures[number, which] for which in range(len(WHICH))] for number in numbers])
    return PublishedTasks([table[number] for number in numbers], images)


def _members(path: Path) -> Iterator[tuple[str, bytes]]:
    """Name and content of every file that belongs to the data. Nothing is written, and every size has a limit."""
    total = count = 0
    try:
        with tarfile.open(path, "r|*") as archive:
            for member in archive:
                parts = PurePosixPath(member.name).parts
                count, total = count + 1, total + max(0, member.size)
                if member.name.startswith("/") or ".." in parts or "\\" in member.name or "\0" in member.name:
                    raise FormatError(f"holds {member.name!r}, a path that leads out of the archive", path=path)
                if not (member.isreg() or member.isdir()):
                    raise FormatError(f"holds {member.name!r}, which is no plain file or folder", path=path)
                if count > MOST_MEMBERS or total > LARGEST_ARCHIVE:
                    raise FormatError("is larger than the paper's pictures can be", path=path)
                name = parts[-1] if parts else ""
                limit = LARGEST_TABLE if name == "metadata.csv" else LARGEST_PICTURE
                if not member.isreg() or not (name == "metadata.csv" or PICTURE.fullmatch(name)):
                    continue
                if member.size > limit:
                    raise FormatError(f"{name} has {member.size:,} bytes; at most {limit:,} are expected", path=path)
                file = archive.extractfile(member)
                assert file is not None
                yield name, file.read(limit)
    except (OSError, EOFError, tarfile.TarError) as error:
        raise FormatError(f"is not a whole tar archive: {error}", path=path) from None


def _table(content: bytes, path: Path) -> dict[int, Any]:
    """The derivation of each task, by its number."""
    table: dict[int, Any] = {}
    for line, text in enumerate(content.decode("utf-8-sig", "replace").splitlines(), 1):
        number, comma, derivation = text.strip().partition(",")
        if not comma or not re.fullmatch("[0-9]{1,6}", number) or int(number) in table or len(table) >= MOST_TASKS:
            raise FormatError(
                f"metadata.csv has {text[:60]!r}; expected the number of a new task, a comma and its concept, in at "
                f"most {MOST_TASKS:,} lines", path=path, line=line,
            )  # fmt: skip
        table[int(number)] = _derivation(derivation, path, line)
    if not table:
        raise FormatError("its metadata.csv has no tasks", path=path)
    return table


def _derivation(text: str, path: Path, line: int) -> Any:
    """`red`, or `(red eight)`, or pairs of such: a word or a nested pair."""
    opened: list[list[Any]] = [[]]
    for token in TOKEN.findall(text):
        if token == "(" and len(opened) <= DEEPEST:
            opened.append([])
        elif token == ")" and len(opened) > 1 and len(opened[-1]) == 2:
            pair = tuple(opened.pop())
            opened[-1].append(pair)
        elif token not in "()":
            opened[-1].append(token)
        else:
            break
    else:
        if len(opened) == 1 and len(opened[0]) == 1:
            return opened[0][0]
    raise FormatError(f"metadata.csv has the concept {text[:60]!r}; expected a word or a pair", path=path, line=line)


def _decoded(content: bytes, name: str, path: Path) -> Images:
    """[28, 28, 3] from a JPEG picture of that size."""
    try:
        from PIL import Image
    except ImportError:
        raise SpecError(
            f"the pictures of {path} are JPEG files, which need Pillow: pip install 'pomona[experiments]'"
        ) from None
    try:
        with Image.open(io.BytesIO(content), formats=("JPEG",)) as picture:
            if picture.size != (SIDE, SIDE):
                width, height = picture.size
                raise FormatError(f"{name} has {width} x {height} pixels; the paper's have 28 x 28", path=path)
            return np.asarray(picture.convert("RGB"), np.uint8)
    except (OSError, ValueError, SyntaxError) as error:
        raise FormatError(f"{name} is not a JPEG picture: {error}", path=path) from None
