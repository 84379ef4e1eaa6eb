"""The corpus that a user names: a file, a split of a dataset's folder, or a task whose examples are then generated.

corpus_from("data/test.parquet")
corpus_from("data", split="test")                        a folder that `pomona generate` wrote
corpus_from("listops/d20s", split="test", seed=7)
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, Literal

from pomona.base.errors import FormatError, SpecError
from pomona.base.files import kind_of
from pomona.data import formats
from pomona.data.corpus import Corpus
from pomona.data.datasets import Dataset
from pomona.data.shards.folder import Shards, shards_in
from pomona.data.task import TASKS, generate, task_of


def corpus_from(
    source: str,
    *,
    split: str = "",
    seed: int | None = None,
    size: int | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Corpus:
    """The corpus in a file or in a dataset's folder, or generated from a task (by default its split test, seed 0).

    An error explains a source that is none of these, and options that would have no effect.
    """
    kind = source_kind(source)
    if kind == "task":
        return generate(TASKS.build(source, settings or {}), split=split or "test", seed=seed or 0, size=size)
    for option, value, example in (("settings", settings, "--set"), ("seed", seed, "--data-seed")):
        if value not in (None, {}):
            message = f"{source} is a {kind}; {option} ({example}) go with a task's name, for example listops/d20s"
            raise SpecError(message.replace("seed (--data-seed) go", "a seed (--data-seed) goes"))
    if kind == "folder":
        dataset = Dataset.read(source)
        shards = shards_in(dataset).get(split or "test")
        if shards is not None:
            return shards.corpus(size)
        corpus = dataset.corpus(split or "test")
    else:
        if split and split != PurePath(formats.FORMATS.stem(Path(source))).name:
            raise SpecError(f"{source} is one file; a split ({split}) goes with a task's name or a dataset's folder")
        corpus = formats.read(source)
    return corpus if size is None else corpus[:size]


def read(path: str | Path, split: str = "") -> Corpus:
    """The corpus in a file, whatever its format, or of a split of a dataset's folder (with one split: that one)."""
    if kind_of(path) != "folder":
        if split:
            raise SpecError(f"{path} is no folder; a split ({split}) goes with a dataset's folder")
        return formats.read(path)
    splits = Dataset.read(path).splits
    if not split and len(splits) > 1:
        raise SpecError(f"{path} has {', '.join(splits)}; name one, for example split={splits[0]!r}")
    return corpus_from(str(path), split=split or splits[0])


def shards_of(source: str, split: str = "") -> Shards | None:
    """The shards of a split (by default test), if this is a dataset's folder where it is in shards."""
    if kind_of(source) != "folder" or source_kind(source) != "folder":
        return None
    return shards_in(Dataset.read(source)).get(split or "test")


@dataclass(frozen=True)
class Named:
    """The examples that a user named, with all that is needed to have them again."""

    source: str
    split: str = ""
    seed: int | None = None
    size: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def corpus(self) -> Corpus:
        corpus: Corpus = corpus_from(self.source, split=self.split, seed=self.seed, settings=self.settings)[: self.size]
        return corpus

    @property
    def label(self) -> str:
        """A short name: that of the split, or of the file without its suffix."""
        if source_kind(self.source) != "file":
            return self.split or "test"
        return PurePath(formats.FORMATS.stem(Path(self.source))).name or "test"

    @property
    def plain(self) -> dict[str, Any]:
        """What was said, as JSON values."""
        said = {"source": self.source, "split": self.split, "seed": self.seed, "size": self.size,
                "settings": dict(self.settings)}  # fmt: skip
        return {name: value for name, value in said.items() if value not in ("", None, {})}

    @classmethod
    def from_plain(cls, said: Any) -> Named | None:
        """The same again, from a file; None if these are no such values."""
        kinds = {"source": str, "split": str, "seed": int, "size": int, "settings": dict}
        if not isinstance(said, dict) or "source" not in said or not said.keys() <= kinds.keys():
            return None
        if not all(isinstance(value, kinds[name]) for name, value in said.items()) or said.get("size", 1) < 1:
            return None
        return cls(**said)


def source_kind(source: str) -> Literal["file", "folder", "task"]:
    """What a source is; an error if it is nothing. The name of a task comes before a folder of the same name."""
    kind = kind_of(source)
    if kind == "file":
        return "file"
    try:
        TASKS.entry(source)
    except SpecError as error:
        if kind == "folder":
            return "folder"
        if formats.FORMATS.has_suffix(source):
            raise FormatError("there is no such file", path=source) from None
        raise SpecError(f"there is no file or folder {source!r}, and {error}") from None
    return "task"


def splits_of(source: str, settings: Mapping[str, Any] | None = None) -> Mapping[str, int | None]:
    """The splits of a task or of a dataset's folder, with their numbers of rows where known; none of a file."""
    kind = source_kind(source)
    if kind == "file":
        return {}
    if kind == "task":
        return dict(TASKS.build(source, settings or {}).sizes)
    dataset = Dataset.read(source)
    return {split: dataset.about(split).get("rows") for split in dataset.splits}


def training_for(corpus: Corpus) -> Corpus | None:
    """The whole train split of the task that generated a corpus; None if the corpus does not name its task."""
    task = task_of(corpus)
    if task is None or not task.sizes.get("train", 0):
        return None
    return generate(task, split="train", seed=int(corpus.origin.get("seed", 0)))


def data_folder() -> Path:
    """The folder of the papers' data: POMONA_DATA, by default ../shared/data."""
    return Path(os.environ.get("POMONA_DATA", "../shared/data"))


def has_data_file(path: str) -> bool:
    """Whether `data_file` finds this file."""
    return "file" in (kind_of(path), kind_of(data_folder() / path))


def data_file(path: str) -> Path:
    """A file of a paper's data: at this path, or under the data folder."""
    if not has_data_file(path):
        message = "there is no such file here or under the data folder; set POMONA_DATA to it"
        raise FormatError(message, path=data_folder() / path)
    return Path(path) if kind_of(path) == "file" else data_folder() / path
