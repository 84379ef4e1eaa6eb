"""JSONL: one object a line, trees as nested objects. Ours, and anybody's node-labelled trees.

    {"id": "7f0c...", "tokens": ["[MAX", "2", "9", "]"], "target": [9],
     "tree": {"type": "MAX", "value": 9, "children": [{"type": "2", "value": 2}, {"type": "9", "value": 9}]},
     "length": 4, "nesting": 1, "dependency": 1}

| field | needed | what |
|---|---|---|
| tree, or trees | yes | a NODE, or a list of NODEs for tasks with several trees |
| NODE: type, value | yes, no | a string; a whole number, a string or null |
| NODE: children, link | no | a list of NODEs, absent at leaves; how many nodes back the one stands that it quotes |
| id | no | a string, different on every line; else the content key |
| tokens, or text | no | the sequence a model reads; else the tree written in brackets |
| target | no | a list; else the values of the roots |
| anything else | no | numbers, strings and lists of them become columns of the corpus |

`length`, `nesting` and `dependency` are written for the reader's comfort and computed anew on reading.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from pomona import brackets, deep_json
from pomona.corpus import Corpus, Outcome
from pomona.errors import FormatError
from pomona.files import read_bytes
from pomona.trees import Forest

SUFFIX = ".jsonl"
_DERIVED = {"length", "nesting", "dependency"}
_OWN = {"id", "tokens", "text", "target", "tree", "trees", *_DERIVED}


def recognises(path: Path, head: bytes) -> bool:
    line = head.removeprefix(b"\xef\xbb\xbf").lstrip().split(b"\n", 1)[0]
    return line.startswith(b"{") and (b'"sentence1"' not in line or b'"tree"' in line)  # else it is SNLI's


# -- writing ---------------------------------------------------------------------------------------------------------


class Writer:
    """Lines of JSON, chunk after chunk."""

    def __init__(self, path: Path, shown: Path) -> None:
        self._file = path.open("w", encoding="utf-8", newline="\n")

    def write(self, corpus: Corpus) -> None:
        self._file.writelines(line + "\n" for line in _lines(corpus))

    def close(self) -> None:
        self._file.close()


def _lines(corpus: Corpus) -> Iterator[str]:
    dump = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
    words = [dump(word) for word in corpus.vocabulary]
    outcomes = [*(dump(outcome) for outcome in corpus.outcomes), "null"]
    types = [dump(name) for name in corpus.forest.names]
    heads = [
        f'{{"type": {types[symbol]}, "value": {outcomes[value]}' + (f', "link": {link}' if link else "")
        for symbol, value, link in zip(
            corpus.forest.symbol.tolist(), corpus.values.tolist(), corpus.forest.links.tolist(), strict=True
        )
    ]
    step, kind, start = brackets.walk(corpus.forest)
    trees = list(_trees(heads, step.tolist(), kind.tolist(), start.tolist()))
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


def _trees(heads: list[str], step: list[int], kind: list[int], start: list[int]) -> Iterator[str]:
    """Each tree as nested objects, written down in reading order."""
    for low, high in itertools.pairwise(start):
        pieces: list[str] = []
        after = False  # a sibling stands before
        for place in range(low, high):
            if kind[place] == brackets.CLOSE:
                pieces.append("]}")
                after = True
                continue
            if after:
                pieces.append(", ")
            pieces.append(heads[step[place]])
            after = kind[place] == brackets.LEAF
            pieces.append("}" if after else ', "children": [')
        yield "".join(pieces)


# -- reading ---------------------------------------------------------------------------------------------------------


def read(path: Path) -> Corpus:
    """Every line, checked; the message of an error names line and node."""
    rows = _Rows(path)
    data = read_bytes(path)
    if data.startswith(b"\xef\xbb\xbf"):
        message = "the file begins with a byte order mark; save it as UTF-8 without one"
        raise FormatError(message, path=path, line=1, column=1)
    for number, raw in enumerate(data.split(b"\n"), 1):
        if raw.strip():
            rows.add(number, raw)
        elif number <= data.count(b"\n"):
            raise FormatError("the line is empty", path=path, line=number)
    return rows.corpus()


class _Rows:
    """What the lines have given so far."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.names: dict[str, int] = {}
        self.outcomes: dict[tuple[type, Outcome], int] = {}
        self.symbol: list[int] = []
        self.parent: list[int] = []
        self.value: list[int] = []
        self.link: list[int] = []
        self.start: list[int] = [0]
        self.tokens: list[list[str] | None] = []
        self.targets: list[list[int]] = []
        self.ids: dict[str, int] = {}
        self.keyed = True  # every id so far is a content key
        self.lines: list[int] = []
        self.columns: list[dict[str, Any]] = []
        self.width = 0

    def add(self, line: int, raw: bytes) -> None:
        def wrong(message: str, column: int | None = None) -> FormatError:
            return FormatError(message, path=self.path, line=line, column=column)

        if raw.endswith(b"\r"):
            raise wrong("the line ends in CR LF; save the file with Unix line ends (LF)", len(raw))
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise wrong("this is not UTF-8", error.start + 1) from None
        try:
            try:
                row = json.loads(text, parse_constant=_refuse)
            except RecursionError:
                row = deep_json.loads(text)
        except json.JSONDecodeError as error:
            raise wrong(f"this is not JSON: {error.msg}", error.colno) from None
        except ValueError as error:
            raise wrong(f"this is not JSON we can take: {error}") from None
        if not isinstance(row, dict) or ("tree" in row) == ("trees" in row):
            raise wrong('a line is an object with "tree": NODE or "trees": [NODE, ...]')
        trees = [row["tree"]] if "tree" in row else row["trees"]
        if not isinstance(trees, list) or not trees:
            raise wrong('"trees" is a list of at least one NODE')
        if self.width and len(trees) != self.width:
            raise wrong(f"this line has {len(trees)} trees, the lines before it {self.width}")
        self.width = len(trees)
        first = len(self.symbol)
        for number, tree in enumerate(trees):
            self._add_tree(tree, "tree" if "tree" in row else f"trees[{number}]", first, wrong)
        name = row.get("id")
        if name is not None and not isinstance(name, (str, int)):
            raise wrong(f'"id" is a string; got {name!r}')
        if name is not None:
            before = self.ids.setdefault(str(name), line)
            if before != line:
                raise wrong(f"the id {str(name)!r} stands on line {before} already")
        tokens = row["text"].split() if isinstance(row.get("text"), str) and "tokens" not in row else row.get("tokens")
        if tokens is not None and not (isinstance(tokens, list) and all(isinstance(word, str) for word in tokens)):
            raise wrong('"tokens" is a list of strings')
        self.tokens.append(tokens)
        target = row.get("target")
        if target is None:
            ends = self.start[-self.width :]
            self.targets.append([self.value[end - 1] for end in ends])
        else:
            target = target if isinstance(target, list) else [target]
            self.targets.append([self._outcome(value, ("target", None), wrong) for value in target])
        if len(self.targets[-1]) != len(self.targets[0]):
            raise wrong(f"this line has {len(self.targets[-1])} targets, the first {len(self.targets[0])}")
        self.lines.append(line)
        self.columns.append({key: value for key, value in row.items() if key not in _OWN})

    def _outcome(self, value: Any, way: _Way, wrong: Any) -> int:
        if value is None:
            return -1
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            raise wrong(f"{_path(way)}: a value is a whole number, a string or null; got {value!r}")
        return self.outcomes.setdefault((type(value), value), len(self.outcomes))

    def _add_tree(self, tree: Any, where: str, example: int, wrong: Any) -> None:
        """Nested objects to post-order, without recursion; an error names the path to the node."""
        base = len(self.symbol)
        stack: list[tuple[Any, _Way, bool]] = [(tree, (where, None), False)]
        finished: list[list[int]] = [[]]
        while stack:
            node, way, opened = stack.pop()
            if not opened:
                if not isinstance(node, dict) or not isinstance(node.get("type"), str) or not node["type"]:
                    raise wrong(f'{_path(way)}: a node is an object with a "type" that is a string; got {_short(node)}')
                children = node.get("children", [])
                if not isinstance(children, list) or ("children" in node and not children):
                    raise wrong(f'{_path(way)}: "children" is a list of nodes, and left out at a leaf')
                if children:
                    finished.append([])
                    stack.append((node, way, True))
                    stack.extend((children[place], (place, way), False) for place in reversed(range(len(children))))
                    continue
            else:
                for child in finished.pop():
                    self.parent[child] = len(self.symbol) - base
            here = len(self.symbol)
            link = node.get("link", 0)
            if isinstance(link, bool) or not isinstance(link, int) or not 0 <= link <= here - example:
                raise wrong(f'{_path(way)}: "link" counts nodes back inside the example; got {link!r}')
            finished[-1].append(here)
            self.symbol.append(self.names.setdefault(node["type"], len(self.names)))
            self.value.append(self._outcome(node.get("value"), way, wrong))
            self.parent.append(-1)
            self.link.append(link)
        self.start.append(len(self.symbol))

    def corpus(self) -> Corpus:
        if not self.lines:
            raise FormatError("the file holds no rows", path=self.path)
        if len(self.names) > np.iinfo(np.int16).max or len(self.outcomes) > np.iinfo(np.int16).max:
            raise FormatError("more than 32,767 different node types or values", path=self.path)
        forest = Forest(
            np.array(self.symbol, np.int16),
            np.array(self.parent, np.int32),
            np.array(self.start, np.int64),
            tuple(self.names),
            np.array(self.link, np.int32) if any(self.link) else None,
        )
        outcomes, table = _ordered_outcomes([value for _, value in self.outcomes])
        if any(tokens is None for tokens in self.tokens):
            texts = brackets.write(forest)
            for row, tokens in enumerate(self.tokens):
                if tokens is None:
                    self.tokens[row] = " X ".join(texts[row * self.width : (row + 1) * self.width]).split()
        vocabulary: dict[str, int] = {}
        flat = [vocabulary.setdefault(word, len(vocabulary)) for tokens in self.tokens for word in tokens or ()]
        token_start = np.zeros(len(self.tokens) + 1, np.int64)
        np.cumsum([len(tokens or ()) for tokens in self.tokens], out=token_start[1:])
        corpus = Corpus(
            np.array(flat, np.uint8 if len(vocabulary) < 256 else np.uint32),
            token_start,
            tuple(vocabulary),
            forest,
            table[np.array(self.value, np.int64)],
            outcomes,
            table[np.array(self.targets, np.int64).reshape(len(self.lines), -1)],
            width=self.width,
            origin={"path": str(self.path)},
            lines=np.array(self.lines, np.int64),
            columns=_columns(self.columns, self.path, self.lines),
        )
        if len(self.ids) not in (0, len(self.lines)):
            raise FormatError(
                f"{len(self.ids)} of {len(self.lines)} lines have an id; give one to all or to none", path=self.path
            )
        own = tuple(self.ids) if self.ids else None
        if own is None or all(name == f"{key:016x}" for name, key in zip(own, corpus.keys.tolist(), strict=True)):
            return corpus
        return dataclasses.replace(corpus, ids=own)


def _ordered_outcomes(values: list[Outcome]) -> tuple[tuple[Outcome, ...], Any]:
    """The outcomes in a natural order (small whole numbers stand at their own place) and where each one went."""
    numbers = [value for value in values if isinstance(value, int)]
    if len(numbers) == len(values) and all(0 <= number < 1000 for number in numbers):
        ordered: tuple[Outcome, ...] = tuple(range(max([9, *numbers]) + 1))
    else:
        ordered = (*sorted(numbers), *sorted(value for value in values if isinstance(value, str)))
    place = {(type(value), value): position for position, value in enumerate(ordered)}
    return ordered, np.array([*(place[type(value), value] for value in values), -1], np.int16)


def _columns(rows: list[dict[str, Any]], path: Path, lines: list[int]) -> dict[str, Any]:
    """Fields that every line has, as arrays; a field that only some lines have is an error, not a silent loss."""
    columns: dict[str, Any] = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        missing = next((row for row, fields in enumerate(rows) if name not in fields), None)
        if missing is not None:
            raise FormatError(
                f"the field {name!r} is missing here but not on other lines", path=path, line=lines[missing]
            )
        try:
            column = np.array([row[name] for row in rows])
        except ValueError:
            column = np.array([None])
        if column.dtype == object:
            raise FormatError(f"the field {name!r} is neither numbers, strings nor lists of one length", path=path)
        columns[name] = column
    return columns


_Way: TypeAlias = "tuple[str | int, _Way | None]"  # a node's place among its siblings, and the way to its parent


def _path(way: _Way | None) -> str:
    steps: list[str] = []
    while way is not None:
        place, way = way
        steps.append(place if isinstance(place, str) else f".children[{place}]")
    return "".join(reversed(steps)) if len(steps) <= 40 else f"a node {len(steps) - 1} levels deep"


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a number")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
