"""Sentence pairs in the format of SNLI: one JSON object a line with `sentence1`, `sentence2` and `gold_label`.

    {"gold_label": "neutral", "sentence1": "every sadj7 snoun3 ...", "sentence2": "no sadj7 ...", "pairID": "7f0c..."}

It holds pairs of the fair NLI fragment, with nine tokens a sentence. Reading rebuilds the aligned tree, computes the
values of its nodes from the words, and keeps the label of the file. So writing and reading change nothing, and files
from elsewhere can be verified and certified. An unknown field is an error.

The authors' training files answer all twelve questions of Figure 4 in `gold_label`. Reading keeps their answers:

    {"gold_label": ["equivalence", "independence", ..., "alternation", "contradiction2", "neutral"], "sentence1": ...}
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pomona.base.errors import FormatError, PomonaError
from pomona.base.files import parse_json, read_lines
from pomona.base.shapes import is_text
from pomona.data.corpus import Corpus
from pomona.data.formats import FORMATS, Format
from pomona.data.nested_objects import short
from pomona.tasks.fair_nli.logic.aligned import aligned, answered, check_shape
from pomona.tasks.fair_nli.logic.fragment import TARGETS
from pomona.tasks.fair_nli.logic.relations import Label, Relation

SUFFIX = ".snli.jsonl"
_FIELDS = {"gold_label", "sentence1", "sentence2", "pairID"}
_INNER = len(TARGETS) - 1  # questions about phrases, before the one about the sentences
_LABELS = {label.text: int(label) for label in Label}
_RELATIONS: dict[str, int] = {  # the names of the authors; "contradiction2" is the relation, not the label
    "equivalence": Relation.EQ, "entails": Relation.FWD, "reverse entails": Relation.REV,
    "contradiction2": Relation.NEG, "contradiction": Relation.NEG, "alternation": Relation.ALT,
    "cover": Relation.COV, "independence": Relation.IND,
}  # fmt: skip


def recognises(path: Path, head: bytes) -> bool:
    line = head.lstrip().split(b"\n", 1)[0]
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
    vocabulary: dict[str, int] = {}
    tokens: list[int] = []
    targets: list[int] = []
    relations: list[list[int]] = []
    ids: dict[str, int] = {}
    data = read_lines(path)
    lines = data.split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    for number, raw in enumerate(lines, 1):
        row = _row(raw, path, number)
        *inner, label = _answers(row["gold_label"], path, number)
        targets.append(label)
        relations.append(inner)
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
    corpus = answered(corpus, np.array(relations))
    corpus = replace(corpus, origin={"path": str(path), "task": "fair_nli"}, lines=np.arange(1, len(targets) + 1))
    if not ids or all(name == f"{key:016x}" for name, key in zip(ids, corpus.keys.tolist(), strict=True)):
        return corpus
    return replace(corpus, ids=tuple(ids))


def _answers(given: Any, path: Path, line: int) -> list[int]:
    """Eleven relations (-1: not given) and the label."""
    answers = given if isinstance(given, list) else [given]
    *inner, label = answers or [None]
    if len(inner) not in (0, _INNER):
        message = f'"gold_label" lists {len(answers)} answers; there are {len(TARGETS)} questions, the label last'
        raise FormatError(message, path=path, line=line)
    tables = [*([_RELATIONS] * len(inner)), _LABELS]
    for name, known in zip(answers or [None], tables, strict=True):
        if not isinstance(name, str) or name.strip() not in known:
            message = f'"gold_label" is {short(name)}; expected {", ".join(known)}'
            raise FormatError(message, path=path, line=line)
    return [*([_RELATIONS[name.strip()] for name in inner] or [-1] * _INNER), _LABELS[label.strip()]]


def _row(raw: bytes, path: Path, line: int) -> dict[str, Any]:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError("this is not UTF-8", path=path, line=line, column=error.start + 1) from None
    row = parse_json(text, path, line)
    texts = isinstance(row, dict) and all(isinstance(row.get(name), str) for name in ("sentence1", "sentence2"))
    if not texts or "gold_label" not in row:
        raise FormatError('a line is an object with "sentence1", "sentence2" and "gold_label"', path=path, line=line)
    if not all(is_text(row[name]) for name in ("sentence1", "sentence2")):
        raise FormatError("a sentence has half of a surrogate pair, which is no character", path=path, line=line)
    unknown = sorted(set(row) - _FIELDS)
    if unknown:
        raise FormatError(f"the field {unknown[0]!r} is unknown; remove it", path=path, line=line)
    return dict(row)


FORMATS.add(Format("snli", SUFFIX, recognises, read, Writer))
