"""Sentence pairs in the format of SNLI: one JSON object a line with `sentence1`, `sentence2` and `gold_label`.

    {"gold_label": "neutral", "sentence1": "every sadj7 snoun3 ...", "sentence2": "no sadj7 ...", "pairID": "7f0c..."}

It holds pairs of the fair NLI fragment, with nine tokens a sentence. Reading rebuilds the aligned tree, computes the
values of its nodes from the words, and keeps the label of the file. So writing and reading change nothing, and files
from elsewhere can be verified and certified. An unknown field is an error.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pomona.base.errors import FormatError, PomonaError
from pomona.base.files import read_bytes
from pomona.data.corpus import Corpus
from pomona.data.formats import FORMATS, Format
from pomona.tasks.fair_nli.logic.aligned import aligned, check_shape
from pomona.tasks.fair_nli.logic.relations import Label

SUFFIX = ".snli.jsonl"
_FIELDS = {"gold_label", "sentence1", "sentence2", "pairID"}


def recognises(path: Path, head: bytes) -> bool:
    line = head.removeprefix(b"\xef\xbb\xbf").lstrip().split(b"\n", 1)[0]
    return line.startswith(b"{") and b'"sentence1"' in line and b'"tree"' not in line


class Writer:
    """Write lines of JSON, one chunk of examples after the other."""

    def __init__(self, path: Path, shown: Path) -> None:
        self._file, self._shown = path.open("w", encoding="utf-8", newline="\n"), shown

    def write(self, corpus: Corpus) -> None:
        try:
            check_shape(corpus.forest)
        except PomonaError as error:
            raise FormatError(
                f"only pairs of sentences can be written in this format; {error}", path=self._shown
            ) from None
        labels = {corpus.outcomes[label] for label in np.unique(corpus.targets[:, 0]).tolist() if label >= 0}
        if corpus.targets.min(initial=0) < 0 or not labels <= {label.text for label in Label}:
            raise FormatError("only the labels of NLI can be written in this format", path=self._shown)
        dump = json.JSONEncoder(ensure_ascii=False).encode
        words = np.array([dump(word)[1:-1] for word in corpus.vocabulary], object)[corpus.tokens].reshape(-1, 2, 9)
        ids = [f"{key:016x}" for key in corpus.keys.tolist()] if corpus.ids is None else corpus.ids
        for pair, label, name in zip(words.tolist(), corpus.targets[:, 0].tolist(), ids, strict=True):
            premise, hypothesis = (" ".join(sentence) for sentence in pair)
            self._file.write(
                f'{{"gold_label": {dump(corpus.outcomes[label])}, "sentence1": "{premise}", '
                f'"sentence2": "{hypothesis}", "pairID": {dump(name)}}}\n'
            )

    def close(self) -> None:
        self._file.close()


def read(path: Path) -> Corpus:
    """Read and check every line; an error names the line."""
    labels = {label.text: int(label) for label in Label}
    vocabulary: dict[str, int] = {}
    tokens: list[int] = []
    targets: list[int] = []
    ids: dict[str, int] = {}
    data = read_bytes(path)
    lines = data.split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    for number, raw in enumerate(lines, 1):
        row = _row(raw, path, number)
        if row["gold_label"] not in labels:
            message = f'"gold_label" is {row["gold_label"]!r}; expected {", ".join(labels)}'
            raise FormatError(message, path=path, line=number)
        targets.append(labels[row["gold_label"]])
        for name in ("sentence1", "sentence2"):
            words = row[name].split(" ")
            if len(words) != 9 or not all(words):
                message = f'"{name}" has {len(words)} tokens; a sentence has 9, one blank apart: {row[name]!r}'
                raise FormatError(message, path=path, line=number)
            tokens += [vocabulary.setdefault(word, len(vocabulary)) for word in words]
        if "pairID" in row:
            before = ids.setdefault(str(row["pairID"]), number)
            if before != number:
                message = f"the pairID {row['pairID']!r} stands on line {before} already"
                raise FormatError(message, path=path, line=number)
    if not targets:
        raise FormatError("the file holds no rows", path=path)
    if len(ids) not in (0, len(targets)):
        raise FormatError(f"{len(ids)} of {len(targets)} lines have a pairID; give one to all or to none", path=path)
    try:
        corpus = aligned(np.array(tokens, np.uint32).reshape(-1, 18), tuple(vocabulary), given=np.array(targets))
    except FormatError as error:
        pair, colon, message = str(error).removeprefix("pair ").partition(": ")
        line = int(pair) + 1 if colon and pair.isdigit() else None
        raise FormatError(message if line else str(error), path=path, line=line) from None
    corpus = replace(corpus, origin={"path": str(path), "task": "fair_nli"}, lines=np.arange(1, len(targets) + 1))
    if not ids or all(name == f"{key:016x}" for name, key in zip(ids, corpus.keys.tolist(), strict=True)):
        return corpus
    return replace(corpus, ids=tuple(ids))


def _row(raw: bytes, path: Path, line: int) -> dict[str, Any]:
    try:
        row = json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise FormatError("this is not UTF-8", path=path, line=line, column=error.start + 1) from None
    except ValueError as error:
        raise FormatError(f"this is not JSON: {error}", path=path, line=line) from None
    strings = isinstance(row, dict) and all(isinstance(row.get(name), str) for name in sorted(_FIELDS - {"pairID"}))
    if not strings:
        raise FormatError('a line is an object with "sentence1", "sentence2" and "gold_label"', path=path, line=line)
    unknown = sorted(set(row) - _FIELDS)
    if unknown:
        raise FormatError(f"the field {unknown[0]!r} is unknown; remove it", path=path, line=line)
    return dict(row)


FORMATS.add(Format("snli", SUFFIX, recognises, read, Writer))
