"""Blocks of JSON lines: the usual lines by a compiled loop, the others one by one.

    blocks = Blocks(rows)
    for block in line_blocks(path):
        blocks.add(block)
    blocks.finish()
    rows.corpus()

Memory is that of a block and of what `rows` keeps: the parts of the corpus, which are joined at the end. The result,
errors included, is that of reading all lines one by one (`pomona.data.json_rows.Lines`); the tests compare the two.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Ints
from pomona.data import json_scan as scanner
from pomona.data.corpus import narrowest
from pomona.data.json_rows import NO_FIELDS, Lines, Piece, Rows, decode, half_character
from pomona.data.spellings import enlarged, first_seen, looked_up, no_spellings
from pomona.trees.values import from_json, position_type

_LINES_AT_ONCE = 1024  # of those that are read one by one; then their rows are packed into arrays


class _SpellingError(Exception):
    """A spelling is no JSON, or nothing that may stand where it stands."""


class Blocks:
    """Reads blocks of whole lines, each ended by a newline, into rows."""

    def __init__(self, rows: Rows) -> None:
        self._rows, self._lines, self._line = rows, Lines(rows), 0
        self._fast = True  # until a spelling is wrong, which is an error nearly always
        self._spellings = no_spellings()
        self._room = 0
        self._words, self._names, self._values = (np.full(1, -1, np.int64) for _ in range(3))

    def add(self, block: bytes) -> None:
        text = np.frombuffer(block, np.uint8)
        if len(text) > self._room:
            self._room = len(text)
            self._found, self._open = scanner.rooms(self._room)
        at = 0
        while self._fast and at < len(text):
            at = self._stretch(text, block, at)
        if at < len(block):
            self._one_by_one(block[at:-1])

    def _stretch(self, text: npt.NDArray[np.uint8], block: bytes, first: int) -> int:
        """Read the lines from `first` on up to an unusual one, and that one. Returns where the next line begins."""
        state = np.array([first, 0, 0, 0, 0, 0, 0, self._rows.width, self._rows.questions], np.int64)
        status = scanner.FULL
        while status == scanner.FULL:
            status = scanner.scan(text, state, self._spellings, self._found, self._open)
            if status == scanner.FULL:
                self._spellings = enlarged(self._spellings)
        end = int(state[scanner.AT])
        if state[scanner.ROWS]:
            try:
                piece = self._piece(block, state)
            except _SpellingError:
                self._fast = False
                return first
            self._lines.flush()
            self._rows.add(piece)
            self._rows.width, self._rows.questions = int(state[scanner.WIDTH]), int(state[scanner.QUESTIONS])
            self._line += len(piece.lengths)
        if status == scanner.ODD:
            newline = block.index(b"\n", end)
            self._one_by_one(block[end:newline])
            end = newline + 1
        return end

    def _one_by_one(self, lines: bytes) -> None:
        for raw in lines.split(b"\n"):
            self._line += 1
            self._lines.add(self._line, raw)
            if len(self._lines.lengths) >= _LINES_AT_ONCE:
                self._lines.flush()

    def finish(self) -> None:
        """Hand over what was read one by one."""
        self._lines.flush()

    def _piece(self, block: bytes, state: Ints) -> Piece:
        """What the compiled loop found, with the numbers of words, names and values in the tables of all rows."""
        found, rows, nodes = self._found, int(state[scanner.ROWS]), int(state[scanner.NODES])
        tokens = found.tokens[: state[scanner.TOKENS]]
        token_end, tree_end = found.token_end[:rows], found.tree_end[: state[scanner.TREES]]
        code, value = found.code[:nodes], found.value[:nodes]
        targets = found.targets[: state[scanner.TARGETS]]
        count = int(self._spellings.used[0])
        self._words, self._values = _longer(self._words, count), _longer(self._values, count + 1)
        self._names = _longer(self._names, 2 * count)
        self._number_values(value, targets)
        for number in first_seen(code, self._names, tree_end, True).tolist():
            name = self._spelled(number // 2)
            if number % 2:  # a leaf without a type is called by its value
                name = None if name is None else str(from_json(name))
            if not isinstance(name, str) or not name:
                raise _SpellingError
            self._names[number] = self._rows.names[name]
        for number in first_seen(tokens, self._words, token_end, False).tolist():
            self._words[number] = self._rows.words[self._spelled(number)]
        lengths = np.diff(token_end, prepend=0)
        link = found.link[:nodes]
        return Piece(
            _taken(code, self._names, position_type(len(self._rows.names))),
            found.parent[:nodes].copy(),
            np.diff(tree_end, prepend=0),
            _taken(value, self._values, position_type(len(self._rows.outcomes))),
            link.copy() if link.any() else None,
            _taken(tokens, self._words, narrowest(len(self._rows.words))),
            np.where(found.given[:rows], lengths, -1),
            _taken(targets, self._values, position_type(len(self._rows.outcomes))).reshape(rows, -1),
            self._ids(block, rows),
            self._fields(block, rows, found.fields[: state[scanner.FIELDS]]),
        )

    def _number_values(self, *columns: Ints) -> None:
        self._values[0] = 0  # unknown
        for column in columns:
            for number in first_seen(column, self._values, np.array([len(column)]), False).tolist():
                value = self._spelled(number - 1)
                try:
                    self._values[number] = self._rows.outcomes.add(None if value is None else from_json(value))
                except ValueError:
                    raise _SpellingError from None

    def _spelled(self, number: int) -> Any:
        low, high = self._spellings.start[number : number + 2].tolist()
        return _decoded(self._spellings.letters[low:high].tobytes())

    def _ids(self, block: bytes, rows: int) -> npt.NDArray[np.uint64] | list[str]:
        spans = self._found.id_span[:rows]
        given = spans[:, 1] > 0
        if not given.any():
            return []
        if self._found.id_hex[:rows].all():
            return self._found.id_key[:rows].copy()
        return [str(_decoded(block[low:high])) for low, high in spans[given].tolist()]

    def _fields(self, block: bytes, rows: int, fields: npt.NDArray[np.int64]) -> list[dict[str, Any]]:
        if not len(fields):
            return [NO_FIELDS] * rows
        each: list[dict[str, Any]] = [{} for _ in range(rows)]
        for row, low, high, first, last in fields.tolist():
            each[row][_decoded(block[low:high])] = _decoded(block[first:last])
        return each


def _decoded(spelling: bytes) -> Any:
    try:
        text = spelling.decode("utf-8")
        if half_character(text) is not None:
            raise _SpellingError
        return decode(text)
    except (ValueError, RecursionError):
        raise _SpellingError from None


def _longer(table: npt.NDArray[np.int64], length: int) -> npt.NDArray[np.int64]:
    """The table with at least this many entries; new ones are -1."""
    if len(table) >= length:
        return table
    larger = np.full(max(length, 2 * len(table)), -1, np.int64)
    larger[: len(table)] = table
    return larger


def _taken(numbers: Ints, table: npt.NDArray[np.int64], kind: np.dtype[Any]) -> npt.NDArray[Any]:
    out = np.empty(len(numbers), kind)
    looked_up(numbers, table, out)
    return out
