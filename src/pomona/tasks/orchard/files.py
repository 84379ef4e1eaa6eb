"""The original ORCHARD files for fairseq: train.input, one example a line, and train.label beside it.

    train.input    [MAX 2 6 0 1 ] X [COPY 1 ]
    train.label    6,2

The name of either file stands for both. Without a .label file the answers are computed, and the corpus's origin says
so. A single file with source and label, in either order and separated by a tab, can be read too. Sources longer than
fairseq's limit of 1,024 tokens, at which the original stops, are written whole, with a warning.
"""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pomona.base.errors import FormatError
from pomona.base.files import read_lines
from pomona.data.corpus import Corpus
from pomona.data.formats import FORMATS, Format
from pomona.tasks.orchard import text as orchard_text

SUFFIX = ".input"
LABELS = ".label"
_LABEL_FIRST = re.compile(rb"[0-9](,[0-9])+\t")
FAIRSEQ_LIMIT = 1024  # tokens of a source, fairseq's default


def recognises(path: Path, head: bytes) -> bool:
    """Whether the file holds lists with an X between them, or the labels of such a file."""
    if path.suffix == LABELS and path.with_suffix(SUFFIX).is_file():
        return True
    first = head.split(b"\n", 1)[0]
    labelled = _LABEL_FIRST.match(first) is not None
    return path.suffix == SUFFIX or labelled or (first.lstrip().startswith(b"[") and b" X " in first)


def read(path: Path) -> Corpus:
    """The corpus of a pair of files."""
    source = path.with_suffix(SUFFIX) if path.suffix == LABELS else path
    labels = source.with_suffix(LABELS)
    data = read_lines(source)
    if b"\t" in data.split(b"\n", 1)[0]:
        return _read_table(data, source)
    corpus = orchard_text.parse(data, path=source)
    if not labels.is_file():
        corpus.origin["answers"] = "worked out: there is no file of labels"  # type: ignore[index]
        return corpus
    answers = _answers(read_lines(labels), corpus.width, labels)
    if len(answers) != len(corpus):
        raise FormatError(f"{len(answers)} labels for the {len(corpus)} examples of {source.name}", path=labels)
    corpus.targets[:] = answers
    return corpus


def _read_table(data: bytes, path: Path) -> Corpus:
    """Read source and label from each line; the first line shows their order."""
    rows = [line.split(b"\t") for line in data.removesuffix(b"\n").split(b"\n")]
    for number, row in enumerate(rows, 1):
        if len(row) != 2:
            message = f"a line is a source and a label with one tab between; this one has {len(row) - 1} tabs"
            raise FormatError(message, path=path, line=number)
    last = _LABEL_FIRST.match(data) is not None
    try:
        corpus = orchard_text.parse(b"\n".join(row[last] for row in rows) + b"\n", path=path)
    except FormatError as error:
        if not last or error.line is None or error.column is None:
            raise
        message = str(error).removeprefix(f"{path}, line {error.line}, column {error.column}: ")
        column = error.column + len(rows[error.line - 1][0]) + 1
        raise FormatError(message, path=path, line=error.line, column=column) from None
    corpus.targets[:] = _answers(b"\n".join(row[not last] for row in rows) + b"\n", corpus.width, path)
    return corpus


def _answers(data: bytes, width: int, path: Path) -> npt.NDArray[np.int16]:
    answers = []
    for number, line in enumerate(data.removesuffix(b"\n").split(b"\n"), 1):
        parts = line.split(b",")
        if len(parts) != width or not all(len(part) == 1 and part.isdigit() for part in parts):
            shown = line[:40].decode("utf-8", "replace")
            wanted = ",".join("6274"[:width])
            message = f"a label is {width} digits with commas between, for example {wanted}; got {shown!r}"
            raise FormatError(message, path=path, line=number)
        answers.append([int(part) for part in parts])
    return np.array(answers, np.int16).reshape(-1, width)


class Writer:
    """Writes two files, which appear together when both are complete."""

    def __init__(self, path: Path, shown: Path, labels: Path) -> None:
        self._shown = shown
        self._sources, self._answers = path.open("wb"), labels.open("wb")
        self._rows = self._long = self._longest = 0

    def write(self, corpus: Corpus) -> None:
        roots = corpus.values[corpus.forest.root]
        wrong = [
            word for word in corpus.vocabulary if word[:1] != "[" and word not in ("X", "]") and not word.isdigit()
        ]
        answers = {repr(corpus.outcomes[value]) if value >= 0 else "?" for value in np.unique(roots).tolist()}
        if wrong or not answers <= set("0123456789"):
            raise FormatError(
                "this corpus is not ORCHARD (trees of integers and operators with X between, answers 0-9); write it as "
                "parquet or jsonl instead",
                path=self._shown,
            )
        outcomes = [str(outcome) for outcome in corpus.outcomes]
        labels = [",".join(outcomes[value] for value in row) for row in corpus.targets.tolist()]
        self._sources.write("".join(text + "\n" for text in corpus.texts).encode())
        self._answers.write("".join(label + "\n" for label in labels).encode())
        self._rows += len(corpus)
        self._long += int((corpus.lengths > FAIRSEQ_LIMIT).sum())
        self._longest = max(self._longest, int(corpus.lengths.max(initial=0)))

    def close(self) -> None:
        self.abandon()
        if self._long:
            warnings.warn(
                f"{self._shown}: {self._long:,} of {self._rows:,} sources are longer than fairseq's {FAIRSEQ_LIMIT:,} "
                f"tokens (the longest has {self._longest:,}); none was cut. Train with --max-source-positions "
                f"{self._longest + 1}",
                stacklevel=3,
            )

    def abandon(self) -> None:
        self._sources.close()
        self._answers.close()


FORMATS.add(Format("orchard", SUFFIX, recognises, read, Writer, also=(LABELS,)))
