"""A table of attributes: a header row, one column for each part, one row for each item.

    shape,colour,target                      tree: row(shape = circle, colour = red); tokens: circle red; target: yes
    circle,red,yes
    square,"dark, blue",no

Each row is a tree of two levels: a root of type `row`, and a leaf for each column, whose type is the name of the column
and whose value is the cell. A cell of digits is a whole number, any other is a string. Three columns have a meaning of
their own, wherever they stand, and are no parts:

| column | what |
|---|---|
| id | the name of the row, different in every row; else the content key |
| target | the answer, which is also the value of the root; else there is none |
| text | the sequence a model reads, split at blanks; else the cells |

Cells are separated by commas; a cell with a comma, a quotation mark or a line break is quoted, and "" inside stands for
one quotation mark. No cell is empty.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pomona.base.errors import FormatError
from pomona.base.files import read_text
from pomona.data.corpus import Corpus, narrowest
from pomona.data.formats import FORMATS, Format
from pomona.trees.forest import Forest
from pomona.trees.values import Interner, exact_key, natural_order, position_type, renumber, value_of_text

SUFFIX = ".csv"
ROW = "row"  # the type of the root
_OWN = ("id", "target", "text")
_CELL = re.compile(r'"(?P<quoted>(?:[^"]|"")*)"|(?P<plain>[^",\n]*)')
_HELD = "a table of attributes holds trees of a root and its leaves, the same columns in every row, and no empty cell"


def recognises(path: Path, head: bytes) -> bool:
    """A header of names with a comma, or any file called .csv that is not clearly something else."""
    line, end, _ = head.partition(b"\n")
    if line[:1] in (b"{", b"[", b"(", b"") or line.startswith(b"PAR1") or b"\t" in line:
        return False
    if path.suffix == SUFFIX:
        return True
    names = [name.strip('" ') for name in line.decode("utf-8", "replace").split(",")]
    return bool(end) and len(names) > 1 and all(name.isprintable() and name and not name.isdigit() for name in names)


class _Cell(NamedTuple):
    text: str
    line: int
    column: int


def read(path: Path) -> Corpus:
    """Read and check every cell; an error names line and column."""
    return parse(read_text(path), path)


def parse(text: str, path: Path) -> Corpus:
    """The table in a text as a corpus; errors name `path`."""
    header, *rows = _rows(text, path)
    names = [cell.text.strip() for cell in header]
    for number, (name, cell) in enumerate(zip(names, header, strict=True)):
        if not name or name in names[:number]:
            why = "has no name" if not name else f"is called {name!r}, as another one is"
            raise _wrong(f"column {number + 1} of the header {why}; every column has a name of its own", cell, path)
    if not rows:
        raise FormatError("there is a header and no row below it", path=path, line=1)
    if not set(names) - set(_OWN):
        raise FormatError(f"there is no column but {', '.join(names)}; a part is a column", path=path, line=1)
    for row in rows:
        if len(row) != len(names):
            message = f"this row has {len(row)} cells, the header {len(names)} ({', '.join(names)})"
            raise _wrong(message, row[min(len(row), len(names)) - 1], path)
        for name, cell in zip(names, row, strict=True):
            if not cell.text.strip():
                raise _wrong(f"the cell of {name!r} is empty; write a word for it, for example none", cell, path)
    columns = {name: [row[number] for row in rows] for number, name in enumerate(names)}
    return _corpus(columns, path)


def _wrong(message: str, cell: _Cell, path: Path) -> FormatError:
    return FormatError(message, path=path, line=cell.line, column=cell.column)


def _rows(text: str, path: Path) -> list[list[_Cell]]:
    rows: list[list[_Cell]] = []
    line, begin, at = 1, 0, 0  # the line, where it begins, and the next character
    while at < len(text) or not rows:
        cells: list[_Cell] = []
        while True:
            match = _CELL.match(text, at)
            cell = _Cell("", line, at - begin + 1)
            if match is None or (match["quoted"] is None and text.startswith('"', at)):
                raise _wrong("a quotation mark opens this cell and none closes it", cell, path)
            quoted = match["quoted"]
            cells.append(cell._replace(text=match["plain"] if quoted is None else quoted.replace('""', '"')))
            if quoted is not None and "\n" in quoted:
                line, begin = line + quoted.count("\n"), text.rindex("\n", at, match.end()) + 1
            at = match.end()
            if at == len(text) or text[at] == "\n":
                break
            if text[at] != ",":
                message = f'{text[at]!r} inside a cell; put the cell in quotation marks, and write "" for one inside'
                raise _wrong(message, _Cell("", line, at - begin + 1), path)
            at += 1
        if len(cells) == 1 and not cells[0].text:
            raise _wrong("the line is empty", cells[0], path)
        rows.append(cells)
        line, begin, at = line + 1, at + 1, at + 1
    return rows


def _corpus(columns: dict[str, list[_Cell]], path: Path) -> Corpus:
    parts = {name: [cell.text for cell in cells] for name, cells in columns.items() if name not in _OWN}
    count, width = len(next(iter(parts.values()))), len(parts)
    table = Interner()
    cells = np.array([[table.add(value_of_text(cell)) for cell in column] for column in parts.values()], np.int64).T
    roots = [table.add(value_of_text(cell.text)) for cell in columns["target"]] if "target" in columns else [-1] * count
    outcomes = natural_order(table.table)
    values = np.concatenate([cells, np.array(roots, np.int64)[:, None]], 1)
    values = renumber(values, table.table, outcomes, position_type(len(outcomes)))
    forest = Forest(
        np.tile(np.arange(width + 1), count).astype(position_type(width + 1)),
        np.tile(np.append(np.full(width, width), -1), count).astype(np.int32),
        np.arange(count + 1, dtype=np.int64) * (width + 1),
        (*parts, ROW),
    )
    if "text" in columns:
        texts = [cell.text.split() for cell in columns["text"]]
    else:
        texts = list(map(list, zip(*parts.values(), strict=True)))
    words = Interner(word for text in texts for word in text)
    corpus = Corpus(
        np.array([words[word] for text in texts for word in text], narrowest(len(words))),
        np.cumsum([0, *map(len, texts)], dtype=np.int64),
        tuple(words.table),
        forest,
        values.ravel(),
        outcomes,
        values[:, -1:],
        origin={"path": str(path)},
        lines=np.array([cell.line for cell in next(iter(columns.values()))], np.int64),
    )
    return replace(corpus, ids=_ids(columns["id"], path)) if "id" in columns else corpus


def _ids(cells: list[_Cell], path: Path) -> tuple[str, ...]:
    seen: dict[str, int] = {}
    for cell in cells:
        if cell.text in seen:
            raise _wrong(f"the id {cell.text[:40]!r} is already on line {seen[cell.text]}", cell, path)
        seen[cell.text] = cell.line
    return tuple(seen)


# -- writing -----------------------------------------------------------------------------------------------------------


class Writer:
    """A row a line, every cell quoted, chunk after chunk. What reading would not restore is refused."""

    def __init__(self, path: Path, shown: Path) -> None:
        self._file, self._shown = path.open("w", encoding="utf-8", newline="\n"), shown
        self._header: str | None = None

    def write(self, corpus: Corpus) -> None:
        if not len(corpus):
            return
        header, rows = self._table(corpus)
        again = parse(header + rows, self._shown)
        same = again.fingerprint == corpus.fingerprint and again.ids == corpus.ids and not corpus.columns
        if not same or "\r" in header + rows or header != (self._header or header):
            raise self._refusal()
        self._file.write(rows if self._header else header + rows)
        self._header = header

    def _table(self, corpus: Corpus) -> tuple[str, str]:
        """The header line, and the lines of the rows."""
        forest, size = corpus.forest, int(corpus.forest.start[1])
        shape = forest.symbol.reshape(-1, size) if len(forest.symbol) == len(forest) * size else forest.symbol[:0, None]
        flat = corpus.width == 1 and size > 1 and len(shape) and (shape == shape[0]).all() and not forest.links.any()
        if not flat or (forest.parent.reshape(-1, size)[:, :-1] != size - 1).any():
            raise self._refusal()
        names = [forest.names[symbol] for symbol in shape[0, :-1].tolist()]
        values = corpus.values.reshape(-1, size)
        if values[:, :-1].min() < 0 or not {exact_key(value_of_text(str(v))) for v in corpus.outcomes} >= {
            exact_key(v) for v in corpus.outcomes
        }:
            raise self._refusal()
        cells = [[str(corpus.outcomes[value]) for value in row] for row in values[:, :-1].tolist()]
        texts = [example.tokens for example in corpus]
        own = {
            "id": corpus.ids,
            "target": None if values[0, -1] < 0 else [str(corpus.outcomes[value]) for value in values[:, -1].tolist()],
            "text": None if list(map(list, texts)) == cells else [" ".join(tokens) for tokens in texts],
        }
        more = {name: column for name, column in own.items() if column is not None}
        rows = [[*(column[row] for column in more.values()), *here] for row, here in enumerate(cells)]
        return _line([*more, *names]), "".join(map(_line, rows))

    def _refusal(self) -> FormatError:
        return FormatError(f"this corpus cannot be written so: {_HELD}; write jsonl or parquet", path=self._shown)

    def close(self) -> None:
        self._file.close()


def _line(cells: list[str]) -> str:
    return ",".join('"' + cell.replace('"', '""') + '"' for cell in cells) + "\n"


FORMATS.add(Format("csv", SUFFIX, recognises, read, Writer))
