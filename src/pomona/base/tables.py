"""Look-ups in a table, in one pass of a compiled loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Ints
from pomona.base.compiled import compiled
from pomona.base.letters import Place

_PIECE = 1 << 14  # entries hashed at a time; they stay in the processor's cache


def put_entries(digest: Any, table: npt.NDArray[np.uint64], positions: Ints) -> None:
    """Add the entry at each position to a digest."""
    found = np.empty(min(_PIECE, len(positions)), "<u8")
    for low in range(0, len(positions), _PIECE):
        count = look_up(table, positions[low : low + _PIECE], found)
        digest.update(found[:count].data)


@compiled
def look_up(table: Ints, positions: Ints, found: Ints) -> int:
    """Write `table[positions]` to the beginning of `found`, where position -1 is the last entry; how many there are."""
    for place in range(len(positions)):
        position = np.int64(positions[place])
        if position < -1 or position >= len(table):
            raise IndexError("a position lies outside its table")
        found[place] = table[Place(position if position >= 0 else len(table) - 1)]
    return len(positions)
