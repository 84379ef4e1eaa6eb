"""JSONL: one object a line, trees as nested objects. Any trees with labelled nodes can be read.

    {"id": "7f0c...", "tokens": ["[MAX", "2", "9", "]"], "target": [9],
     "tree": {"type": "MAX", "value": 9, "children": [{"type": "2", "value": 2}, {"type": "9", "value": 9}]},
     "length": 4, "nesting": 1, "dependency": 1}

| field | needed | what |
|---|---|---|
| tree, or trees | yes | a NODE, or a list of NODEs for tasks with several trees |
| NODE: type | yes, but not at a leaf with a value | a string; by default the leaf's value as text |
| NODE: value | no | true, false, a number, a string, null, or a list of these (a tuple) |
| NODE: children, link | no | a list of NODEs, absent at leaves; how many nodes back the quoted node is |
| id | no | a string, different on every line; else the content key |
| tokens, or text | no | the sequence a model reads; else the tree in brackets, each leaf by its value: `[MAX 2 9 ]` |
| target | no | a list; else the values of the roots |
| anything else | no | numbers, strings and lists of them become columns of the corpus |

`length`, `nesting` and `dependency` are written for readers of the file and ignored by `read`, which computes them.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pomona.base import deep_json
from pomona.base.arrays import Ints
from pomona.base.errors import FormatError, TreeError
from pomona.base.files import read_lines
from pomona.data import nested_objects
from pomona.data.corpus import FIELDS, Corpus, narrowest
from pomona.data.formats import FORMATS, Format
from pomona.data.nested_objects import VALUE, Nodes, Wrong, is_value, short
from pomona.trees import links
from pomona.trees.forest import Forest
from pomona.trees.values import Interner, from_json

SUFFIX = ".jsonl"
_DERIVED = {"length", "nesting", "dependency"}
_OWN = {"id", "tokens", "text", "target", "tree", "trees", *_DERIVED}


def recognises(path: Path, head: bytes) -> bool:
    line = head.lstrip().split(b"\n", 1)[0]
    return line.startswith(b"{") and (b'"sentence1"' not in line or b'"tree"' in line)  # else it is SNLI


# -- writing ---------------------------------------------------------------------------------------------------------


class Writer:
    """Lines of JSON, chunk after chunk."""

    def __init__(self, path: Path, shown: Path) -> None:
        self._file, self._shown = path.open("w", encoding="utf-8", newline="\n"), shown

    def write(self, corpus: Corpus) -> None:
        try:
            self._file.writelines(line + "\n" for line in _lines(corpus))
        except (TypeError, ValueError) as error:  # a NaN, half a character, or a column of objects
            raise FormatError(
                f"JSON cannot hold this: {error}; leave it out or write parquet", path=self._shown
            ) from error

    def close(self) -> None:
        self._file.close()


def _lines(corpus: Corpus) -> Iterator[str]:
    dump = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
    words = [dump(word) for word in corpus.vocabulary]
    outcomes = [*(dump(outcome) for outcome in corpus.outcomes), "null"]
    trees = nested_objects.lines_of(corpus, outcomes)
    tokens, nesting, dependency = corpus.tokens.tolist(), corpus.nesting.tolist(), corpus.dependency.tolist()
    names = [dump(name) for name in corpus.columns]
    for row, (low, high) in enumerate(itertools.pairwise(corpus.token_start.tolist())):
        here = trees[row * corpus.width : (row + 1) * corpus.width]
        tree = f'"tree": {here[0]}' if corpus.width == 1 else f'"trees": [{", ".join(here)}]'
        target = ", ".join([outcomes[value] for value in corpus.targets[row].tolist()])
        more = "".join(
            f", {name}: {dump(column[row].tolist())}"
            for name, column in zip(names, corpus.columns.values(), strict=True)
        )
        yield (
            f'{{"id": {dump(f"{corpus.keys[row]:016x}" if corpus.ids is None else corpus.ids[row])}, '
            f'"tokens": [{", ".join([words[token] for token in tokens[low:high]])}], "target": [{target}], {tree}, '
            f'"length": {high - low}, "nesting": {nesting[row]}, "dependency": {dependency[row]}{more}}}'
        )


# -- reading ---------------------------------------------------------------------------------------------------------


def read(path: Path) -> Corpus:
    """Read and check every line; an error names line and node."""
    rows = _Rows(path)
    lines = read_lines(path).removesuffix(b"\n").split(b"\n")
    for number, raw in enumerate(lines, 1):
        if not raw.strip():
            raise FormatError("the line is empty", path=path, line=number, column=1)
        rows.add(number, raw)
    return rows.corpus()


class _Rows:
    """The rows read so far."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.decode = json.JSONDecoder(parse_constant=_refuse).decode
        self.nodes, self.words = Nodes(), Interner()
        self.tokens: list[list[int] | None] = []
        self.targets: list[list[int]] = []
        self.ids: list[str] = []
        self.lines: list[int] = []
        self.columns: list[dict[str, Any]] = []
        self.width = 0

    def add(self, line: int, raw: bytes) -> None:
        def wrong(message: str, column: int | None = None) -> FormatError:
            return FormatError(message, path=self.path, line=line, column=column)

        text = self._text(raw, wrong)
        try:
            try:
                row = self.decode(text)
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
        if self.width and len(trees) != self.width:
            raise wrong(f"this line has {len(trees)} trees, the lines before it {self.width}")
        self.width = len(trees)
        linked = "link" in text or "\\" in text  # a key may be written with escapes
        self.nodes.add_example(trees, alone="tree" in row, linked=linked, wrong=wrong)
        name = row.get("id")
        if name is not None:
            if isinstance(name, bool) or not isinstance(name, (str, int)):
                raise wrong(f'"id" is a string; got {short(name)}')
            self.ids.append(str(name))
        self.tokens.append(self._words(row, wrong))
        self.targets.append(self._targets(row.get("target"), wrong))
        if len(self.targets[-1]) != len(self.targets[0]):
            raise wrong(f"this line has {len(self.targets[-1])} targets, the first {len(self.targets[0])}")
        self.lines.append(line)
        self.columns.append({key: value for key, value in row.items() if key not in _OWN})

    def _targets(self, target: Any, wrong: Wrong) -> list[int]:
        """The targets of a line; by default the values of the roots."""
        if target is None:
            return [self.nodes.value[root] for root in self.nodes.start[-self.width - 1 : -1]]
        values = target if isinstance(target, list) else [target]
        for value in values:
            if not is_value(value):
                raise wrong(f"target: a value is {VALUE}; got {short(value)}")
        return [self.nodes.outcomes.add(None if value is None else from_json(value)) for value in values]

    def _text(self, raw: bytes, wrong: Wrong) -> str:
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise wrong("this is not UTF-8", error.start + 1) from None
        if "\\u" in text:
            half = next((match for match in _SURROGATES.finditer(text) if match.lastgroup == "half"), None)
            if half is not None:
                raise wrong(f"{half.group()} is half a character, which UTF-8 cannot hold", half.start() + 1)
        return text

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
        words = self.words
        return [words[word] for word in tokens]

    def corpus(self) -> Corpus:
        forest, numbers = self.nodes.forest()
        wanted = np.array(self.targets, np.int64).reshape(len(self.lines), -1)
        outcomes, (values, targets) = self.nodes.ordered(numbers, wanted)
        tokens = self._all_tokens(forest, values, outcomes)
        token_start = np.zeros(len(tokens) + 1, np.int64)
        np.cumsum([len(row) for row in tokens], out=token_start[1:])
        flat = itertools.chain.from_iterable(tokens)
        corpus = Corpus(
            np.fromiter(flat, narrowest(len(self.words)), int(token_start[-1])),
            token_start,
            tuple(self.words.table),
            forest,
            values,
            outcomes,
            targets,
            width=self.width,
            origin={"path": str(self.path)},
            lines=np.array(self.lines, np.int64),
            columns=_columns(self.columns, self.path, self.lines),
        )
        return dataclasses.replace(corpus, ids=self._own_ids(corpus))

    def _all_tokens(self, forest: Forest, values: Ints, outcomes: tuple[Any, ...]) -> list[list[int]]:
        """The tokens of every line; by default its trees in brackets, leaves by value and a COPY by its position."""
        rows = [row for row, words in enumerate(self.tokens) if words is None]
        if not rows:
            return [words for words in self.tokens if words is not None]
        shown = links.with_leaf_texts(forest, values, outcomes)
        spelt = shown[(np.array(rows)[:, None] * self.width + np.arange(self.width)).ravel()]
        try:
            tokens, start, vocabulary = links.spell(spelt, self.width)
        except TreeError as error:
            quoting = spelt.tree[spelt.links.astype(bool) & ~spelt.leaf][0] // self.width
            message = f'there are no "tokens", and {error}'
            raise FormatError(message, path=self.path, line=self.lines[rows[quoting]]) from None
        words = iter(
            [
                [self.words[vocabulary[token]] for token in tokens[low:high].tolist()]
                for low, high in itertools.pairwise(start.tolist())
            ]
        )
        return [next(words) if given is None else given for given in self.tokens]

    def _own_ids(self, corpus: Corpus) -> tuple[str, ...] | None:
        """The ids; None if there are none, or if they are the content keys (which equal examples share)."""
        if not self.ids:
            return None
        if len(self.ids) < len(self.lines):
            message = f"{len(self.ids)} of {len(self.lines)} lines have an id; give one to all or to none"
            raise FormatError(message, path=self.path)
        if all(name == f"{key:016x}" for name, key in zip(self.ids, corpus.keys.tolist(), strict=True)):
            return None
        seen: dict[str, int] = {}
        for name, line in zip(self.ids, self.lines, strict=True):
            if seen.setdefault(name, line) != line:
                message = f"the id {short(name)} is already on line {seen[name]}"
                raise FormatError(message, path=self.path, line=line)
        return tuple(self.ids)


# Finds escapes of half a character: escaped backslashes and whole pairs match first and are skipped.
_SURROGATES = re.compile(
    r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)


def _columns(rows: list[dict[str, Any]], path: Path, lines: list[int]) -> dict[str, Any]:
    """The further fields as arrays; a field that only some lines have is an error."""
    columns: dict[str, Any] = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        missing = next((row for row, fields in enumerate(rows) if name not in fields), None)
        if missing is not None:
            message = f"the field {short(name)} is missing here but not on other lines"
            raise FormatError(message, path=path, line=lines[missing])
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
            for line, value in zip(lines, values, strict=True):
                if value is None or isinstance(value, dict):
                    kind = "null" if value is None else "an object"
                    message = f"the field {short(name)} is {kind}, which a column cannot keep: {allowed}"
                    raise FormatError(message, path=path, line=line)
            raise FormatError(f"the field {short(name)} is not the same kind on every line: {allowed}", path=path)
        columns[name] = column
    return columns


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a number")


FORMATS.add(Format("jsonl", SUFFIX, recognises, read, Writer, holds_everything=True))
