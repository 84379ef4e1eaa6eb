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
import re
import reprlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pomona.base import deep_json
from pomona.base.arrays import Ints
from pomona.base.compiled import compiled
from pomona.base.errors import FormatError, TreeError
from pomona.base.files import read_bytes
from pomona.data.corpus import FIELDS, Corpus, Outcome, narrowest
from pomona.data.formats import FORMATS, Format
from pomona.trees import brackets, links
from pomona.trees.forest import Forest

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
    lines = data.removesuffix(b"\n").split(b"\n")
    for number, raw in enumerate(lines, 1):
        if not raw.strip():
            raise FormatError("the line is empty", path=path, line=number, column=1)
        rows.add(number, raw)
    return rows.corpus()


class _Numbers(dict[Any, int]):
    """Words by number, in the order in which they were first asked for."""

    def __missing__(self, word: Any) -> int:
        number = self[word] = len(self)
        return number


class _Rows:
    """What the lines have given so far; the nodes of each tree in reverse: root first, last child before first."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.decode = json.JSONDecoder(parse_constant=_refuse).decode
        self.names, self.words, self.outcomes = _Numbers(), _Numbers(), _Numbers({None: 0})
        self.symbol: list[int] = []
        self.arity: list[int] = []
        self.value: list[int] = []
        self.link: list[int] = []
        self.start: list[int] = [0]
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
            raise wrong(f"this is not JSON we can take: {error}") from None
        if not isinstance(row, dict) or ("tree" in row) == ("trees" in row):
            raise wrong('a line is an object with "tree": NODE or "trees": [NODE, ...]')
        trees = [row["tree"]] if "tree" in row else row["trees"]
        if not isinstance(trees, list) or not trees:
            raise wrong('"trees" is a list of at least one NODE')
        if self.width and len(trees) != self.width:
            raise wrong(f"this line has {len(trees)} trees, the lines before it {self.width}")
        self.width = len(trees)
        linked = "link" in text or "\\" in text  # a name may be spelled with escapes
        if not all(self._add_tree(tree, linked) for tree in trees):
            _explain(trees, "tree" in row, wrong)
        name = row.get("id")
        if name is not None:
            if isinstance(name, bool) or not isinstance(name, (str, int)):
                raise wrong(f'"id" is a string; got {_short(name)}')
            self.ids.append(str(name))
        self.tokens.append(self._words(row, wrong))
        target = row.get("target")
        if target is None:
            self.targets.append([self.value[root] for root in self.start[-self.width - 1 : -1]])
        else:
            target = target if isinstance(target, list) else [target]
            for value in target:
                if not _is_outcome(value):
                    raise wrong(f"target: a value is {_VALUE}; got {_short(value)}")
            self.targets.append([self.outcomes[value] for value in target])
        if len(self.targets[-1]) != len(self.targets[0]):
            raise wrong(f"this line has {len(self.targets[-1])} targets, the first {len(self.targets[0])}")
        self.lines.append(line)
        self.columns.append({key: value for key, value in row.items() if key not in _OWN})

    def _text(self, raw: bytes, wrong: _Wrong) -> str:
        if raw.endswith(b"\r"):
            raise wrong("the line ends in CR LF; save the file with Unix line ends (LF)", len(raw))
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise wrong("this is not UTF-8", error.start + 1) from None
        if "\\u" in text:
            half = next((match for match in _SURROGATES.finditer(text) if match.lastgroup == "half"), None)
            if half is not None:
                raise wrong(f"{half.group()} is half a character; it cannot be kept as UTF-8", half.start() + 1)
        return text

    def _words(self, row: dict[str, Any], wrong: _Wrong) -> list[int] | None:
        tokens = row.get("tokens")
        if tokens is None and "text" in row:
            if not isinstance(row["text"], str):
                raise wrong(f'"text" is a string; got {_short(row["text"])}')
            tokens = row["text"].split()
        if tokens is None:
            return None
        if not isinstance(tokens, list) or not {str}.issuperset(map(type, tokens)):
            raise wrong('"tokens" is a list of strings')
        words = self.words
        return [words[word] for word in tokens]

    def _add_tree(self, tree: Any, linked: bool) -> bool:
        """Put the nodes down, a whole tree at a time for speed; False where one is not as it should be."""
        nodes: list[Any] = []
        arities: list[int] = []
        waiting = [tree]
        known = len(self.names), len(self.outcomes)
        names, outcomes = self.names, self.outcomes
        try:
            while waiting:
                node = waiting.pop()
                children = node.get("children")
                nodes.append(node)
                if children:
                    waiting += children
                    arities.append(len(children))
                elif children is None:
                    arities.append(0)
                else:
                    return False
            symbols = [names[node["type"]] for node in nodes]
            given = [node.get("value") for node in nodes]
            if not _KINDS.issuperset(map(type, given)):  # before they are looked up: True is 1 to a dictionary
                return False
            values = [outcomes[value] for value in given]
        except (TypeError, KeyError, AttributeError):
            return False
        if known != (len(names), len(outcomes)) and not (
            all(isinstance(name, str) and name for name in itertools.islice(names, known[0], None))
            and all(map(_is_outcome, itertools.islice(outcomes, known[1], None)))
        ):
            return False
        links = [node.get("link", 0) for node in nodes] if linked else [0] * len(nodes)
        before = len(self.symbol) - self.start[-self._placed() - 1]
        if linked and not _links_fit(links, before):
            return False
        self.symbol += symbols
        self.arity += arities
        self.value += values
        self.link += links
        self.start.append(len(self.symbol))
        return True

    def _placed(self) -> int:
        """Trees of the present line that stand already."""
        return len(self.start) - 1 - len(self.lines) * self.width

    def corpus(self) -> Corpus:
        if max(len(self.names), len(self.outcomes)) > np.iinfo(np.int16).max:
            raise FormatError("more than 32,766 different node types or values", path=self.path)
        start = np.array(self.start, np.int64)
        turned = np.arange(start[-1])
        turned = np.repeat(start[:-1] + start[1:] - 1, np.diff(start)) - turned  # from reverse to post-order
        forest = Forest(
            np.array(self.symbol, np.int16)[turned],
            parents(np.array(self.arity, np.int32)[turned], start),
            start,
            tuple(self.names),
            np.array(self.link, np.int32)[turned] if any(self.link) else None,
        )
        outcomes, table = _ordered_outcomes(list(self.outcomes)[1:])
        tokens = self._all_tokens(forest)
        token_start = np.zeros(len(tokens) + 1, np.int64)
        np.cumsum([len(row) for row in tokens], out=token_start[1:])
        flat = itertools.chain.from_iterable(tokens)
        corpus = Corpus(
            np.fromiter(flat, narrowest(len(self.words)), int(token_start[-1])),
            token_start,
            tuple(self.words),
            forest,
            table[np.array(self.value, np.int64)[turned]],
            outcomes,
            table[np.array(self.targets, np.int64).reshape(len(self.lines), -1)],
            width=self.width,
            origin={"path": str(self.path)},
            lines=np.array(self.lines, np.int64),
            columns=_columns(self.columns, self.path, self.lines),
        )
        return dataclasses.replace(corpus, ids=self._own_ids(corpus))

    def _all_tokens(self, forest: Forest) -> list[list[int]]:
        """The tokens of every line; a line without any is its trees in brackets."""
        tokens: list[list[int]] = []
        for row, given in enumerate(self.tokens):
            if given is None:
                try:
                    trees = forest[row * self.width : (row + 1) * self.width]
                    # A COPY is written with the position that it quotes.
                    texts = links.texts(trees, self.width) if trees.links.any() else brackets.write(trees)
                except TreeError as error:
                    message = f'there are no "tokens", and {error}'
                    raise FormatError(message, path=self.path, line=self.lines[row]) from None
                given = [self.words[word] for word in " X ".join(texts).split()]
            tokens.append(given)
        return tokens

    def _own_ids(self, corpus: Corpus) -> tuple[str, ...] | None:
        """The ids, unless there are none or they are the content keys, of which equal examples have equal ones."""
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
                message = f"the id {_short(name)} stands on line {seen[name]} already"
                raise FormatError(message, path=self.path, line=line)
        return tuple(self.ids)


_Wrong: TypeAlias = Callable[..., FormatError]
_KINDS = {int, str, type(None)}
_VALUE = "a whole number of 64 bits, a string or null"
# Escapes that may be half a character: those that are whole, or not escapes at all, are passed over first.
_SURROGATES = re.compile(
    r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)


def _is_outcome(value: Any) -> bool:
    return type(value) in _KINDS and not (isinstance(value, int) and not -(2**63) <= value < 2**63)


def _links_fit(links: list[Any], before: int) -> bool:
    """Whether each counts nodes back inside the example, of which `before` nodes stand in front of this tree."""
    if set(map(type, links)) != {int}:
        return False
    return all(0 <= link <= before + len(links) - 1 - place for place, link in enumerate(links))


def _explain(trees: list[Any], alone: bool, wrong: _Wrong) -> None:
    """Find the node for which a tree was refused, and say which one it is."""
    seen = 0  # nodes finished, in post-order
    for number, tree in enumerate(trees):
        stack: list[tuple[Any, _Way, bool]] = [(tree, ("tree" if alone else f"trees[{number}]", None), False)]
        while stack:
            node, way, opened = stack.pop()
            if not opened:
                if not isinstance(node, dict) or not isinstance(node.get("type"), str) or not node["type"]:
                    raise wrong(f'{_path(way)}: a node is an object with a "type" that is a string; got {_short(node)}')
                children = node.get("children")
                if children is not None and not (isinstance(children, list) and children):
                    raise wrong(f'{_path(way)}: "children" is a list of nodes, and left out at a leaf')
                if not _is_outcome(node.get("value")):
                    raise wrong(f"{_path(way)}: a value is {_VALUE}; got {_short(node['value'])}")
                if children:
                    stack.append((node, way, True))
                    stack.extend((children[place], (place, way), False) for place in reversed(range(len(children))))
                    continue
            link = node.get("link", 0)
            if isinstance(link, bool) or not isinstance(link, int) or not 0 <= link <= seen:
                raise wrong(f'{_path(way)}: "link" counts nodes back inside the example; got {_short(link)}')
            seen += 1
    raise AssertionError("a tree was refused that has no fault")


@compiled
def parents(arity: Ints, start: Ints) -> npt.NDArray[np.int32]:
    """The parent of each node, from how many children each one has in post-order."""
    parent = np.full(len(arity), -1, np.int32)
    stack = np.empty(len(arity), np.int64)
    for tree in range(len(start) - 1):
        high = 0
        for node in range(start[tree], start[tree + 1]):
            for _ in range(arity[node]):
                high -= 1
                parent[stack[high]] = node - start[tree]
            stack[high] = node
            high += 1
    return parent


def _ordered_outcomes(values: list[Outcome]) -> tuple[tuple[Outcome, ...], Any]:
    """The outcomes in a natural order (small whole numbers at their own place) and where each one went, null first."""
    numbers = [value for value in values if isinstance(value, int)]
    if len(numbers) == len(values) and all(0 <= number < 1000 for number in numbers):
        ordered: tuple[Outcome, ...] = tuple(range(max([9, *numbers]) + 1))
    else:
        ordered = (*sorted(numbers), *sorted(value for value in values if isinstance(value, str)))
    place = {(type(value), value): position for position, value in enumerate(ordered)}
    return ordered, np.array([-1, *(place[type(value), value] for value in values)], np.int16)


def _columns(rows: list[dict[str, Any]], path: Path, lines: list[int]) -> dict[str, Any]:
    """Fields that every line has, as arrays; a field that only some lines have is an error, not a silent loss."""
    columns: dict[str, Any] = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        missing = next((row for row, fields in enumerate(rows) if name not in fields), None)
        if missing is not None:
            message = f"the field {_short(name)} is missing here but not on other lines"
            raise FormatError(message, path=path, line=lines[missing])
        if name in FIELDS:
            raise FormatError(f"the field {name!r} has another meaning in Parquet files; rename it", path=path)
        given = [row[name] for row in rows]
        try:
            column = np.array(given)
            kept = column.dtype.kind in "biufU" and column.tolist() == given  # not [1, "a"], which NumPy makes strings
        except (ValueError, RecursionError):
            kept = False
        if not kept or (column.dtype.kind == "f" and not np.isfinite(column).all()):
            allowed = "numbers, strings, lists of a length"
            for line, value in zip(lines, given, strict=True):
                if value is None or isinstance(value, dict):
                    kind = "null" if value is None else "an object"
                    message = f"the field {_short(name)} is {kind}, which a column cannot keep: {allowed}"
                    raise FormatError(message, path=path, line=line)
            raise FormatError(f"the field {_short(name)} is not the same kind on every line: {allowed}", path=path)
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
    text = reprlib.repr(value)  # which does not go to the bottom of what is deep or long
    return text if len(text) <= 60 else text[:57] + "..."


FORMATS.add(Format("jsonl", SUFFIX, recognises, read, Writer, holds_everything=True))
