"""Text that compiled loops write from its end, eight letters at a time.

    at = put_letters(packed(b" [MAX"), text, at) - 5          # " [MAX" ends where `at` was

A store of eight letters costs as much as one of a single letter. It changes the bytes before a short text too, which is
harmless where text is written backwards: they are written next.
"""

from __future__ import annotations

import numpy as np

from pomona.base.arrays import Bytes
from pomona.base.compiled import inlined

Place = np.uintp  # an unsigned index: compiled loops need not ask whether it counts from the end
_1, _2, _3, _4, _5, _6, _7 = (Place(step) for step in range(1, 8))
_8, _16, _24, _32, _40, _48, _56 = (np.uint64(8 * step) for step in range(1, 8))


def packed(text: bytes) -> np.uint64:
    """The last eight letters of a text, with blanks before a shorter one, as a number."""
    return np.uint64(int.from_bytes(text[-8:].rjust(8), "little"))


@inlined
def put_letters(word: np.uint64, text: Bytes, at: int) -> int:
    """Write eight letters so that they end at `at`, which must be at least 8. Returns `at`."""
    first = Place(at - 8)  # the single stores below become one
    text[first] = np.uint8(word)
    text[first + _1] = np.uint8(word >> _8)
    text[first + _2] = np.uint8(word >> _16)
    text[first + _3] = np.uint8(word >> _24)
    text[first + _4] = np.uint8(word >> _32)
    text[first + _5] = np.uint8(word >> _40)
    text[first + _6] = np.uint8(word >> _48)
    text[first + _7] = np.uint8(word >> _56)
    return at
