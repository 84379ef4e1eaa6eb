"""The rows of a JSONL file as they are collected, and the reader of single lines.

`Rows` keeps what was read as compact arrays and makes the corpus of it at the end. `Lines` reads lines one by one, with
all of JSON and any depth of nesting, and names line and node of whatever is wrong; `pomona.data.json_blocks` reads the
usual lines, many times faster. The schema is in `pomona.data.formats.jsonl`.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pomona.base import deep_json
from pomona.base.arrays import Ints
from pomona.base.errors import FormatError, TreeError
from pomona.data.corpus import FIELDS, Corpus, narrowest
from pomona.data.nested_objects import VALUE, Nodes, Wrong, is_value, short
from pomona.trees import links
from pomona.trees.forest import Forest
from pomona.trees.values import Interner, from_json, natural_order, position_type, renumber

_DERIVED = {"length", "nesting", "dependency"}
OWN = {"id", "tokens", "text", "target", "tree", "trees", *_DERIVED}
NO_FIELDS: dict[str, Any] = {}  # the further fields of a row that has none

# Finds escapes of half a character: escaped backslashes and whole pairs match first and are skipped.
_SURROGATES = re.compile(
    r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a number")


decode = json.JSONDecoder(parse_constant=_refuse).decode


def half_character(text: str) -> re.Match[str] | None:
    """The first escape of half a character, which UTF-8 cannot hold."""
    if "\\u" not in text:
        return None
    return next((match for match in _SURROGATES.finditer(text) if match.lastgroup == "half"), None)


class Piece(NamedTuple):
    """Some rows: trees in post-order, and positions in the tables of `Rows`."""

    symbol: npt.NDArray[Any]
    parent: npt.NDArray[np.int32]
    sizes: npt.NDArray[np.int64]  # of each tree
    value: npt.NDArray[Any]
    link: npt.NDArray[np.int32] | None  # None: no node quotes another
    tokens: npt.NDArray[Any]
    lengths: npt.NDArray[np.int64]  # tokens of each row, -1 where none are given
    targets: npt.NDArray[Any]  # [rows, questions]
    ids: npt.NDArray[np.uint64] | list[str]  # of the rows that have one; as numbers where all have 16 hex digits
    fields: list[dict[str, Any]]  # further fields of each row


class Rows:
    """All rows so far. Names, words and values are numbered as they come; value 0 means unknown."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.names, self.outcomes, self.words = Interner(), Interner([None]), Interner()
        self.width, self.questions = 0, -1  # trees and targets of every line; 0 and -1 before the first
        self.count = 0
        self._pieces: list[Piece] = []

    def add(self, piece: Piece) -> None:
        self._pieces.append(piece)
        self.count += len(piece.lengths)

    def corpus(self) -> Corpus:
        forest = Forest(
            self._column("symbol").astype(position_type(len(self.names)), copy=False),
            self._column("parent"),
            _offsets(self._column("sizes")),
            tuple(self.names.table),
            self._links(),
        )
        outcomes = natural_order(self.outcomes.table[1:])
        values, targets = (
            renumber(self._column(name), self.outcomes.table, outcomes, position_type(len(outcomes)))
            for name in ("value", "targets")
        )
        tokens, token_start = self._tokens(forest, values, outcomes)
        corpus = Corpus(
            tokens.astype(narrowest(len(self.words)), copy=False),
            token_start,
            tuple(self.words.table),
            forest,
            values,
            outcomes,
            targets,
            width=self.width,
            origin={"path": str(self.path)},
            lines=np.arange(1, self.count + 1),
            columns=_columns([row for piece in self._pieces for row in piece.fields], self.path),
        )
        return dataclasses.replace(corpus, ids=self._own_ids(corpus))

    def _column(self, name: str) -> npt.NDArray[Any]:
        """A column of all rows, which the pieces then no longer hold."""
        joined = np.concatenate([getattr(piece, name) for piece in self._pieces])
        nothing: dict[str, Any] = {name: None}
        self._pieces = [piece._replace(**nothing) for piece in self._pieces]
        return joined

    def _links(self) -> npt.NDArray[np.int32] | None:
        if all(piece.link is None for piece in self._pieces):
            return None
        sizes = [len(piece.value) for piece in self._pieces]
        given = [piece.link for piece in self._pieces]
        return np.concatenate([
            np.zeros(size, np.int32) if link is None else link for size, link in zip(sizes, given, strict=True)
        ])  # fmt: skip

    def _tokens(self, forest: Forest, values: Ints, outcomes: Sequence[Any]) -> tuple[Ints, npt.NDArray[np.int64]]:
        """The tokens of every line; by default its trees in brackets, leaves by value and a COPY by its position."""
        lengths, given = self._column("lengths"), self._column("tokens")
        rows = np.flatnonzero(lengths < 0)
        if not len(rows):
            return given, _offsets(lengths)
        shown = links.with_leaf_texts(forest, values, tuple(outcomes))
        spelt = shown[(rows[:, None] * self.width + np.arange(self.width)).ravel()]
        try:
            tokens, start, vocabulary = links.spell(spelt, self.width)
        except TreeError as error:
            quoting = spelt.tree[spelt.links.astype(bool) & ~spelt.leaf][0] // self.width
            message = f'there are no "tokens", and {error}'
            raise FormatError(message, path=self.path, line=int(rows[quoting]) + 1) from None
        words = np.full(len(vocabulary), -1, np.int64)
        for token in dict.fromkeys(tokens.tolist()):
            words[token] = self.words[vocabulary[token]]
        lacking = lengths < 0
        lengths[rows] = np.diff(start)
        everything = np.empty(int(lengths.sum()), narrowest(len(self.words)))
        of_trees = np.repeat(lacking, lengths)
        everything[of_trees], everything[~of_trees] = words[tokens], given
        return everything, _offsets(lengths)

    def _own_ids(self, corpus: Corpus) -> tuple[str, ...] | None:
        """The ids; None if there are none, or if they are the content keys (which equal examples share)."""
        given = [piece.ids for piece in self._pieces if len(piece.ids)]
        count = sum(map(len, given))
        if not count:
            return None
        if count < self.count:
            message = f"{count} of {self.count} lines have an id; give one to all or to none"
            raise FormatError(message, path=self.path)
        if all(isinstance(ids, np.ndarray) for ids in given) and np.array_equal(np.concatenate(given), corpus.keys):
            return None
        names = [
            name
            for ids in given
            for name in (ids if isinstance(ids, list) else [f"{key:016x}" for key in ids.tolist()])
        ]
        if all(name == f"{key:016x}" for name, key in zip(names, corpus.keys.tolist(), strict=True)):
            return None
        seen: dict[str, int] = {}
        for line, name in enumerate(names, 1):
            if seen.setdefault(name, line) != line:
                message = f"the id {short(name)} is already on line {seen[name]}"
                raise FormatError(message, path=self.path, line=line)
        return tuple(names)


def _offsets(lengths: Ints) -> npt.NDArray[np.int64]:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


class Lines:
    """Reads lines one by one and checks them; an error names line and node."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self._restart()

    def _restart(self) -> None:
        self.nodes = Nodes(self.rows.names, self.rows.outcomes)
        self.tokens: list[int] = []
        self.lengths: list[int] = []
        self.targets: list[list[int]] = []
        self.ids: list[str] = []
        self.fields: list[dict[str, Any]] = []

    def flush(self) -> None:
        """Hand over the rows that were read."""
        if not self.lengths:
            return
        forest, values = self.nodes.forest()
        self.rows.add(
            Piece(
                forest.symbol,
                forest.parent,
                np.diff(forest.start),
                values.astype(position_type(len(self.rows.outcomes)), copy=False),
                forest.link,
                np.array(self.tokens, narrowest(len(self.rows.words))),
                np.array(self.lengths, np.int64),
                np.array(self.targets, np.int64).reshape(len(self.lengths), -1),
                self.ids,
                self.fields,
            )
        )
        self._restart()

    def add(self, line: int, raw: bytes) -> None:
        def wrong(message: str, column: int | None = None) -> FormatError:
            return FormatError(message, path=self.rows.path, line=line, column=column)

        if not raw.strip():
            raise wrong("the line is empty", 1)
        text = _text(raw, wrong)
        try:
            try:
                row = decode(text)
            except RecursionError:
                row = deep_json.loads(text)
        except json.JSONDecodeError as error:
            raise wrong(f"this is not JSON: {error.msg}", error.colno) from None
        except ValueError as error:
            raise wrong(f"this JSON cannot be read: {error}") from None
        if not isinstance(row, dict) or ("tree" in row) == ("trees" in row):
            raise wrong('a line is an object with "tree": NODE or "trees": [NODE, ...]')
        trees = [row["tree"]] if "tree" in row else row["trees"]
        if not isinstance(trees, list) or not trees:
            raise wrong('"trees" is a list of at least one NODE')
        width, questions = self.rows.width, self.rows.questions
        if width and len(trees) != width:
            raise wrong(f"this line has {len(trees)} trees, the lines before it {width}")
        linked = "link" in text or "\\" in text  # a key may be written with escapes
        self.nodes.add_example(trees, alone="tree" in row, linked=linked, wrong=wrong)
        name = row.get("id")
        if name is not None and (isinstance(name, bool) or not isinstance(name, (str, int))):
            raise wrong(f'"id" is a string; got {short(name)}')
        words = self._words(row, wrong)
        targets = self._targets(row.get("target"), len(trees), wrong)
        if questions >= 0 and len(targets) != questions:
            raise wrong(f"this line has {len(targets)} targets, the first {questions}")
        self.rows.width, self.rows.questions = len(trees), len(targets)
        if name is not None:
            self.ids.append(str(name))
        self.tokens += words or []
        self.lengths.append(-1 if words is None else len(words))
        self.targets.append(targets)
        self.fields.append({key: value for key, value in row.items() if key not in OWN})

    def _targets(self, target: Any, width: int, wrong: Wrong) -> list[int]:
        """The targets of a line; by default the values of the roots."""
        if target is None:
            return [self.nodes.value[root] for root in self.nodes.start[-width - 1 : -1]]
        values = target if isinstance(target, list) else [target]
        for value in values:
            if not is_value(value):
                raise wrong(f"target: a value is {VALUE}; got {short(value)}")
        return [self.nodes.outcomes.add(None if value is None else from_json(value)) for value in values]

    def _words(self, row: dict[str, Any], wrong: Wrong) -> list[int] | None:
        tokens = row.get("tokens")
        if tokens is None and "text" in row:
            if not isinstance(row["text"], str):
                raise wrong(f'"text" is a string; got {short(row["text"])}')
            tokens = row["text"].split()
        if tokens is None:
            return None
        if not isinstance(tokens, list) or not {str}.issuperset(map(type, tokens)):
            raise wrong('"tokens" is a list of strings')
        words = self.rows.words
        return [words[word] for word in tokens]


def _text(raw: bytes, wrong: Wrong) -> str:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise wrong("this is not UTF-8", error.start + 1) from None
    half = half_character(text)
    if half is not None:
        raise wrong(f"{half.group()} is half a character, which UTF-8 cannot hold", half.start() + 1)
    return text


def _columns(rows: list[dict[str, Any]], path: Path) -> dict[str, Any]:
    """The further fields as arrays; a field that only some lines have is an error."""
    columns: dict[str, Any] = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        missing = next((row for row, fields in enumerate(rows) if name not in fields), None)
        if missing is not None:
            message = f"the field {short(name)} is missing here but not on other lines"
            raise FormatError(message, path=path, line=missing + 1)
        if name in FIELDS:
            raise FormatError(f"the field {name!r} has another meaning in Parquet files; rename it", path=path)
        values = [row[name] for row in rows]
        try:
            column = np.array(values)
            kept = column.dtype.kind in "biufU" and column.tolist() == values  # not [1, "a"]: NumPy makes strings
        except (ValueError, RecursionError):
            kept = False
        if not kept or (column.dtype.kind == "f" and not np.isfinite(column).all()):
            allowed = "numbers, strings, lists of equal length"
            for line, value in enumerate(values, 1):
                if value is None or isinstance(value, dict):
                    kind = "null" if value is None else "an object"
                    message = f"the field {short(name)} is {kind}, which a column cannot keep: {allowed}"
                    raise FormatError(message, path=path, line=line)
            raise FormatError(f"the field {short(name)} is not the same kind on every line: {allowed}", path=path)
        columns[name] = column
    return columns
