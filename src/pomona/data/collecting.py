"""One corpus from parts that come one after the other, in the memory of the corpus and one part.

    collected(parts, Room(rows=1_000_000, tokens=47_076_553, nodes=36_912_427))

`Corpus.concatenate` holds all parts and the result at once. Here the arrays of the result are made first; each part is
copied to its place and can then be freed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pomona.data.corpus import Corpus
from pomona.trees.forest import Forest


class Room(NamedTuple):
    """The most rows, tokens and nodes that the parts can have in all."""

    rows: int
    tokens: int
    nodes: int


def collected(parts: Iterator[Corpus], room: Room) -> Corpus:
    """The rows of all parts, at least one. The parts have the same vocabulary, names, outcomes and columns."""
    first = next(parts)
    tokens, symbol, parent = _Filled(room.tokens), _Filled(room.nodes), _Filled(room.nodes)
    values, link, targets = _Filled(room.nodes), _Filled(room.nodes), _Filled(room.rows)
    lengths, sizes = _Filled(room.rows), _Filled(room.rows * first.width)
    ids: list[str] = []
    columns: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in first.columns}
    part: Corpus | None = first
    while part is not None:
        tokens.add(part.tokens)
        lengths.add(part.lengths)
        symbol.add(part.forest.symbol)
        parent.add(part.forest.parent)
        sizes.add(np.diff(part.forest.start))
        if first.forest.link is not None:
            link.add(part.forest.links)
        values.add(part.values)
        targets.add(part.targets)
        ids += part.ids or ()
        for name, pieces in columns.items():
            pieces.append(part.columns[name])
        part = next(parts, None)
    linked = None if first.forest.link is None else link.array
    return dataclasses.replace(
        first,
        tokens=tokens.array,
        token_start=_offsets(lengths.array),
        forest=Forest(symbol.array, parent.array, _offsets(sizes.array), first.forest.names, linked),
        values=values.array,
        targets=targets.array,
        ids=None if first.ids is None else tuple(ids),
        columns={name: np.concatenate(pieces) for name, pieces in columns.items()},
    )


class _Filled:
    """An array that is filled from its beginning; memory is used only for what is filled."""

    def __init__(self, most: int) -> None:
        self._most, self._used = most, 0
        self._array: npt.NDArray[Any] | None = None

    def add(self, piece: npt.NDArray[Any]) -> None:
        if self._array is None:
            self._array = np.empty((self._most, *piece.shape[1:]), piece.dtype)
        self._array[self._used : self._used + len(piece)] = piece
        self._used += len(piece)

    @property
    def array(self) -> npt.NDArray[Any]:
        assert self._array is not None
        return self._array[: self._used]


def _offsets(lengths: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets
