"""A split in shards as one value, which `describe`, `certify` and `ladder` take in place of a corpus.

    train = Shards.read("data", "train")
    len(train), train.fingerprint              as the manifest says
    for part in train.parts(): ...             its rows in order, a row group at a time
    train.corpus()                             all of them, in memory

A shard is read only if it is the one that the manifest lists: the right number of rows, of the same draw, and with the
right fingerprint, which the rows are then compared with. Anything else is an error that names the file.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pomona.base.errors import FormatError, did_you_mean
from pomona.base.files import kind_of
from pomona.data.corpus import Corpus
from pomona.data.datasets import MANIFEST, Dataset


@dataclass(frozen=True)
class Shard:
    """One file: where it is, its number of rows, the number of its first row, and its fingerprint."""

    path: Path
    rows: int
    first: int
    fingerprint: str
    seed: int | None = None
    view: str = ""  # a function, as module:name, through which the rows are seen

    def plain(self) -> dict[str, Any]:
        """As an order for a worker; `Shard.of` undoes it."""
        return {**vars(self), "path": str(self.path)}

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Shard:
        return cls(**{**plain, "path": Path(plain["path"])})

    def difference(self) -> str:
        """How the file differs from what the manifest says of it, from what it says of itself; empty if it does not."""
        from pomona.data.formats import parquet

        if kind_of(self.path) != "file":
            return "the manifest lists this shard, and it is not there; run the same `pomona generate` again"
        said = parquet.said(self.path)
        if said.get("rows") == self.rows and said.get("fingerprint") == self.fingerprint:
            return ""
        seed = dict(said.get("origin") or {}).get("seed")
        if seed is not None and self.seed is not None and seed != self.seed:
            return f"this shard is of data seed {seed}, and {MANIFEST} is of data seed {self.seed}"
        return (
            f"this is not the shard that {MANIFEST} lists: {said.get('rows')} rows with the fingerprint "
            f"{str(said.get('fingerprint'))[:16]}..., where {self.rows} with {self.fingerprint[:16]}... are listed"
        )

    def parts(self) -> Iterator[Corpus]:
        """The rows, a row group at a time; the last comes after a check of all of them."""
        from pomona.data.formats import parquet

        difference = self.difference()
        if difference:
            raise FormatError(difference, path=self.path)
        module, _, name = self.view.partition(":")
        view = getattr(importlib.import_module(module), name) if module else None
        for part in parquet.parts(self.path):
            yield part if view is None else view(part)


@dataclass(frozen=True, eq=False)
class Shards:
    """The shards of one split, in order."""

    folder: Path
    split: str
    files: tuple[Shard, ...]
    about: Mapping[str, Any]  # what the manifest says of the split
    origin: Mapping[str, Any]

    @classmethod
    def read(cls, folder: str | Path, split: str = "train") -> Shards:
        """The shards of a split, by the manifest of their folder."""
        dataset = Dataset.read(folder)
        found = shards_in(dataset)
        if split not in found:
            what = "is not in shards" if split in dataset.splits else "is not here"
            raise FormatError(f"the split {split!r} {what}. {did_you_mean(split, found)}", path=folder)
        return found[split]

    def __len__(self) -> int:
        return sum(shard.rows for shard in self.files)

    def __repr__(self) -> str:
        files = "1 file" if len(self.files) == 1 else f"{len(self.files):,} files"
        return f"Shards({self.origin.get('task')}, {self.split}: {len(self):,} examples in {files})"

    @property
    def fingerprint(self) -> str:
        return str(self.about.get("fingerprint"))

    def parts(self) -> Iterator[Corpus]:
        """All rows in order, a row group at a time."""
        for shard in self.files:
            yield from shard.parts()

    def corpus(self, size: int | None = None) -> Corpus:
        """All rows, or the first ones, in memory."""
        parts: list[Corpus] = []
        missing = len(self) if size is None else size
        for part in self.parts():
            parts.append(part[:missing])
            missing -= len(parts[-1])
            if size is not None and missing <= 0:
                break
        return Corpus.concatenate(parts)

    def through(self, view: Callable[[Corpus], Corpus]) -> Shards:
        """The same shards, each part of which is seen through a function of a module."""
        name = f"{view.__module__}:{view.__qualname__}"
        return replace(self, files=tuple(replace(shard, view=name) for shard in self.files))

    def row(self, number: int) -> tuple[Shard, int, Corpus]:
        """The shard of a row, the number of the row in it, and the row as a corpus."""
        shard = next(shard for shard in self.files if shard.first <= number < shard.first + shard.rows)
        begin = shard.first
        for part in shard.parts():
            if number < begin + len(part):
                return shard, number - shard.first, part[number - begin : number - begin + 1]
            begin += len(part)
        raise IndexError(f"row {number} of {self!r}")

    def groups(self, count: int) -> list[Sequence[Shard]]:
        """The shards in at most `count` runs of neighbours."""
        size = -(-len(self.files) // max(1, count))
        return [self.files[first : first + size] for first in range(0, len(self.files), size)]


def shards_in(dataset: Dataset) -> dict[str, Shards]:
    """The splits of a dataset that are in shards."""
    found = {}
    for split in dataset.splits:
        about = dataset.about(split)
        if "shards" not in about:
            continue
        files, first = [], 0
        for path, shard in zip(dataset.files[split], about["shards"], strict=True):
            seed = dataset.manifest.get("seed")
            files.append(Shard(path.absolute(), shard["rows"], first, shard["fingerprint"], seed))
            first += shard["rows"]
        found[split] = Shards(dataset.folder, split, tuple(files), about, dataset.origin(split))
    return found
