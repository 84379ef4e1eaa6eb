"""Where the pieces of a JSON text end: strings, numbers, values, keys. Compiled, for `pomona.data.json_scan`.

The text is a block of bytes whose last is a newline. A newline ends a line and is no white space here. Values are told
from each other by their brackets and quotes alone: whoever decodes them must check them.
"""

from __future__ import annotations

import numpy as np

from pomona.base.arrays import Bytes
from pomona.base.compiled import compiled

WRONG = -1  # returned where there is no such piece
_NEWLINE, _QUOTE, _ESCAPE, _COMMA, _COLON, _ZERO, _NINE = (ord(letter) for letter in '\n"\\,:09')
_OPEN, _CLOSE, _LIST, _LIST_END, _SPACE, _TAB, _RETURN = (ord(letter) for letter in "{}[] \t\r")


@compiled
def skip_blanks(text: Bytes, at: int) -> int:
    """The next byte that is not white space; a newline ends the line and is none."""
    while text[at] == _SPACE or text[at] == _TAB or text[at] == _RETURN:
        at += 1
    return at


@compiled
def string_end(text: Bytes, at: int) -> int:
    """The end of the string that begins at `at`, WRONG if there is none."""
    if text[at] != _QUOTE:
        return WRONG
    at += 1
    while text[at] != _QUOTE:
        if text[at] == _ESCAPE:
            at += 1
        if text[at] == _NEWLINE:
            return WRONG
        at += 1
    return at + 1


@compiled
def value_end(text: Bytes, at: int) -> int:
    """The end of the value that begins at `at`, by its brackets alone; WRONG if there is none."""
    first, level = at, 0
    while True:
        byte = text[at]
        if byte == _QUOTE:
            at = string_end(text, at)
            if at == WRONG or level == 0:
                return at
            continue
        if byte == _NEWLINE:
            return WRONG
        if byte in (_LIST, _OPEN):
            level += 1
        elif byte in (_LIST_END, _CLOSE):
            if level <= 1:
                return at + 1 if level else at if at > first else WRONG
            level -= 1
        elif level == 0 and byte in (_COMMA, _SPACE, _TAB, _RETURN):
            return at if at > first else WRONG
        at += 1


@compiled
def number_end(text: Bytes, at: int) -> int:
    """The end of a whole number without a sign, of at most nine digits; WRONG if there is none."""
    first = at
    while _ZERO <= text[at] <= _NINE:
        at += 1
    return WRONG if at == first or at > first + 9 or (text[first] == _ZERO and at > first + 1) else at


@compiled
def read_key(text: Bytes, at: int) -> tuple[int, np.uint64, int]:
    """A key and its colon: where its value begins (or WRONG), its last eight letters as a number, and its length."""
    if text[at] != _QUOTE:
        return WRONG, np.uint64(0), 0
    at += 1
    first, word = at, np.uint64(0)
    while text[at] != _QUOTE:
        if text[at] == _ESCAPE or text[at] == _NEWLINE:
            return WRONG, word, 0
        word = (word << np.uint64(8)) | np.uint64(text[at])
        at += 1
    size = at - first
    at = skip_blanks(text, at + 1)
    if text[at] != _COLON:
        return WRONG, word, 0
    return skip_blanks(text, at + 1), word, size
