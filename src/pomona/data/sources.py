"""The corpus that a user names: a file, or a task whose examples are then generated.

corpus_from("data/test.parquet")
corpus_from("listops/d20s", split="test", seed=7)
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pomona.base.errors import FormatError, SpecError
from pomona.base.files import kind_of
from pomona.data import formats
from pomona.data.corpus import Corpus
from pomona.data.task import TASKS, generate, task_of


def corpus_from(
    source: str,
    *,
    split: str = "test",
    seed: int = 0,
    size: int | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Corpus:
    """The corpus in a file, or generated from a task; an error explains a source that is neither."""
    if kind_of(source) == "file":
        if settings:
            raise SpecError(f"{source} is a file; settings go with a task's name, for example listops/d20s")
        corpus = formats.read(source)
        return corpus if size is None else corpus[:size]
    try:
        TASKS.entry(source)  # first, because a folder of data may be called listops
    except SpecError as error:
        if kind_of(source) == "folder":
            raise FormatError("this is a folder; name one of the files in it", path=source) from None
        if formats.FORMATS.has_suffix(source):
            raise FormatError("there is no such file", path=source) from None
        raise SpecError(f"there is no file {source!r}, and {error}") from None
    return generate(TASKS.build(source, settings or {}), split=split, seed=seed, size=size)


def training_for(corpus: Corpus) -> Corpus | None:
    """The whole train split of the task that generated a corpus; None if the corpus does not name its task."""
    task = task_of(corpus)
    if task is None or not task.sizes.get("train", 0):
        return None
    return generate(task, split="train", seed=int(corpus.origin.get("seed", 0)))


def data_file(path: str) -> Path:
    """A file of a paper's data: at this path, or under the folder POMONA_DATA (default: ../shared/data)."""
    candidates = [Path(path), Path(os.environ.get("POMONA_DATA", "../shared/data")) / path]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    raise FormatError("there is no such file here or under the data folder; set POMONA_DATA to it", path=candidates[1])
