"""What draws have given, kept until it is built: so a draw is made once, as long as memory lasts.

A pool needs the content key of a draw first, and then, if it is new, its example. A scan that has tokens or trees at
hand gives them to the pool's memory. Rows beyond its limits are drawn a second time, so any number of rows fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Bytes, Ints
from pomona.base.compiled import compiled
from pomona.base.letters import Place
from pomona.trees.forest import Nested

Tree: TypeAlias = "str | Nested"
TREES = 1 << 16  # that are remembered
BYTES = 1 << 27  # of rows that are remembered: tokens, and numbers beside them


class Rows(NamedTuple):
    """Rows of tokens, one behind the other, and how many nodes the tree of each has."""

    tokens: npt.NDArray[np.uint8]
    start: npt.NDArray[np.int64]
    nodes: npt.NDArray[np.int32]

    def chosen(self, rows: Ints) -> Rows:
        """The rows with these numbers, in this order."""
        start = np.zeros(len(rows) + 1, np.int64)
        np.cumsum((self.start[1:] - self.start[:-1])[rows], out=start[1:])
        tokens = np.empty(start[-1], np.uint8)
        _copy(self.tokens, self.start, rows, tokens)
        return Rows(tokens, start, self.nodes[rows])


Remembered: TypeAlias = "Sequence[Tree] | Rows"


class _Piece(NamedTuple):
    """Accepted draws in order of their numbers, and the row of each."""

    numbers: npt.NDArray[np.int64]
    rows: Rows

    @classmethod
    def joined(cls, pieces: Sequence[_Piece]) -> _Piece:
        rows = [piece.rows for piece in pieces]
        firsts = np.cumsum([0, *(len(row.tokens) for row in rows[:-1])])
        starts = [row.start[:-1] + first for row, first in zip(rows, firsts, strict=True)]
        tokens = np.concatenate([row.tokens for row in rows])
        start = np.concatenate([*starts, [len(tokens)]])
        numbers = np.concatenate([piece.numbers for piece in pieces])
        return cls(numbers, Rows(tokens, start, np.concatenate([row.nodes for row in rows])))

    def after(self, last: int) -> _Piece:
        """The draws after this one."""
        first = int(np.searchsorted(self.numbers, last, "right"))
        tokens, start, nodes = self.rows
        rows = Rows(tokens[start[first] :], start[first:] - start[first], nodes[first:])
        return _Piece(self.numbers[first:], rows)

    @property
    def size(self) -> int:
        """Bytes, with the index of the draws."""
        span = int(self.numbers[-1] - self.numbers[0])
        return len(self.rows.tokens) + 20 * len(self.numbers) + 4 * span


class Memory:
    """The trees or rows of accepted draws, by number; they are added in the order of their numbers."""

    def __init__(self) -> None:
        self._trees: dict[int, Tree] = {}
        self._pieces: list[_Piece] = []
        self._index = np.zeros(0, np.int32)  # of each draw from the first on: where its row is
        self._lacks = False  # whether there were draws whose rows are not remembered

    def add_trees(self, numbers: npt.NDArray[np.int64], trees: Sequence[Tree]) -> None:
        """Remember the trees of these draws."""
        if len(self._trees) < TREES:
            self._trees.update(zip(numbers.tolist(), trees, strict=True))

    def add_rows(self, numbers: npt.NDArray[np.int64], rows: Rows | None) -> None:
        """Remember the rows of these draws; None: there are none."""
        if rows is not None and not self._lacks:
            self._pieces.append(_Piece(numbers, rows))
            self._index = self._index[:0]
        self._lacks |= rows is None or sum(piece.size for piece in self._pieces) > BYTES
        if self._lacks:
            self._pieces = []

    def recall(self, numbers: npt.NDArray[np.int64]) -> Remembered | None:
        """The trees or rows of these draws, in this order; None unless all are remembered. First call `join`."""
        if self._trees:
            drawn = numbers.tolist()
            return [self._trees[number] for number in drawn] if all(map(self._trees.__contains__, drawn)) else None
        if not self._pieces:
            return None
        known, rows = self._pieces[0]
        draws = numbers - known[0]
        if draws.min(initial=0) < 0 or draws.max(initial=0) >= len(self._index):
            return None
        places = self._index[draws]
        return rows.chosen(places) if places.min(initial=0) >= 0 else None

    def forget(self, last: int) -> None:
        """Forget the draws up to this one."""
        self._lacks = False
        self._trees = {number: tree for number, tree in self._trees.items() if number > last}
        pieces = [piece.after(last) for piece in self._pieces]
        self._pieces = [piece for piece in pieces if len(piece.numbers)]
        self._index = self._index[:0]

    def join(self) -> None:
        """Make the pieces one, with an index."""
        if self._pieces and not len(self._index):
            self._pieces = [_Piece.joined(self._pieces)]
            numbers = self._pieces[0].numbers
            self._index = np.full(int(numbers[-1] - numbers[0]) + 1, -1, np.int32)
            _place(numbers, self._index)


@compiled
def _place(numbers: Ints, index: Ints) -> None:
    for row in range(len(numbers)):
        index[numbers[row] - numbers[0]] = row


@compiled
def _copy(tokens: Bytes, start: Ints, rows: Ints, copied: Bytes) -> None:
    at = Place(0)
    for row in range(len(rows)):
        low, high = Place(start[rows[row]]), Place(start[rows[row] + 1])
        for place in range(low, high):
            copied[at + place - low] = tokens[place]
        at += high - low
