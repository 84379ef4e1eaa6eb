"""Read ORCHARD's lines: trees with `X` between them, and COPY with level-order positions.

    [MAX 2 6 0 1 ] X [MIN [COPY 1 ] 7 ]       `]` needs no space before it, as the paper prints it

An argument of COPY is one token, `[COPY 37 ]`, or one token a digit, `[COPY 3 7 ]`; integers elsewhere have one digit.
`pomona.trees.links` defines positions and writes such lines.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Bytes, Ints
from pomona.base.compiled import compiled
from pomona.base.errors import FormatError, TreeError
from pomona.base.files import unix_lines
from pomona.data.corpus import Corpus, Outcome
from pomona.trees.forest import Forest
from pomona.trees.growing import level_order
from pomona.trees.links import COPY
from pomona.trees.operators import OPERATORS, denote

DIGITS = tuple(str(digit) for digit in range(10))
_SPACE, _CLOSE, _OPEN, _NINE, _ZERO, _X, _NEWLINE, _RETURN = (ord(character) for character in " ][90X\n\r")
_FAULTS = {
    1: "{piece!r} is not an ORCHARD token; there are integers, {operators}, [COPY, ']' and X",
    2: "']' closes a list that was never opened",
    3: "this list is empty; a list has at least one argument",
    4: "the line ends before a list is closed",
    5: "a tree is missing here",
    6: "{piece!r} comes after the end of a tree; write X between trees",
    7: "a carriage return (CR) stands inside the line; lines end in LF or CR LF",
    9: "COPY has one argument: a number, or its digits one by one",
    10: "the line is empty",
    11: "this line does not have as many trees as the first",
    12: "COPY points beyond the nodes of the earlier trees, which are counted from 0",
    13: "{piece!r}: integers outside COPY have one digit",
}


def read(text: str) -> Forest:
    """The trees of one line.

    >>> read("[MAX 2 6 0 1] X [COPY 1]").links.tolist()
    [0, 0, 0, 0, 0, 5]
    """
    try:
        return parse(unix_lines(text.encode()), path="text").forest
    except FormatError as error:
        raise TreeError(str(error).partition(": ")[2], column=error.column) from None


def parse(data: bytes, *, path: str | Path, answers: npt.NDArray[np.int16] | None = None) -> Corpus:
    """A corpus of all lines. Node values are computed and, without `answers`, the targets too."""
    text = np.frombuffer(data, np.uint8)
    names = [name for name in OPERATORS if name.isascii() and len(name) <= 8]
    spellings = np.array([int.from_bytes(name.encode(), "big") for name in (*names, COPY)], np.uint64)
    ends = np.flatnonzero(text == _NEWLINE)
    rows = len(ends) + (len(text) > 0 and text[-1] != _NEWLINE)
    if not rows:
        raise FormatError("the file holds no rows", path=path)
    longest = int(np.diff(ends, prepend=-1, append=len(text)).max())
    delimiter = np.flatnonzero(text[: ends[0] if len(ends) else len(text)] == _X)
    lone = [at for at in delimiter.tolist() if at == 0 or text[at - 1] in (_SPACE, _CLOSE)]  # not the X of [MAX
    width = 1 + len(lone)
    tokens, token_start, symbol, parent, link, start, (fault, at) = _parse(text, rows, width, longest + 2, spellings)
    if fault:
        begin = data.rfind(b"\n", 0, at) + 1
        piece = data[at : at + 40].split(None, 1)
        shown = piece[0].decode("utf-8", "replace") if piece else ""
        message = _FAULTS[fault].format(piece=shown, operators=" ".join(f"[{name}" for name in names))
        raise FormatError(message, path=path, line=1 + data.count(b"\n", 0, begin), column=at - begin + 1)
    # Keep the operators in use, in their order; the vocabulary is that of the generator.
    plain = 13 + len(names)
    used = np.flatnonzero(np.bincount(symbol, minlength=11 + len(names)))
    kept = [row for row in range(len(names)) if 10 + row in used]
    quoting = 10 + len(names) in used
    table = np.full(max(plain, int(tokens.max(initial=0)) + 1), -1, np.int64)
    table[:10] = np.arange(10)
    table[[10 + row for row in kept]] = 10 + np.arange(len(kept))
    table[plain - 3 : plain] = 10 + len(kept) + np.arange(3)  # X ] [COPY
    table[plain:] = 13 + len(kept) + np.arange(len(table) - plain)
    symbols = table[: 11 + len(names)].copy()
    symbols[10 + len(names)] = 10 + len(kept)
    operators = [names[row] for row in kept]
    numbers = tuple(map(str, range(10, 10 + len(table) - plain)))
    vocabulary = (*DIGITS, *(f"[{name}" for name in operators), "X", "]", *(("[COPY", *numbers) if quoting else ()))
    forest = Forest(
        symbols[symbol].astype(np.int16), parent, start, (*DIGITS, *operators, *((COPY,) if quoting else ())),
        link if quoting else None,
    )  # fmt: skip
    values = denote(forest)
    outcomes: tuple[Outcome, ...] = tuple(range(max(10, int(values.max(initial=0)) + 1)))
    return Corpus(
        table[tokens].astype(np.uint16),
        token_start,
        vocabulary,
        forest,
        values,
        outcomes,
        values[forest.root].reshape(rows, width) if answers is None else answers,
        width=width,
        origin={"path": str(path)},
        lines=1 + np.arange(rows, dtype=np.int64),
    )


@compiled
def _parse(
    text: Bytes, lines: int, width: int, most: int, spellings: Ints
) -> tuple[
    npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int32],
    npt.NDArray[np.int64], tuple[int, int],
]:  # fmt: skip
    """Tokens and trees of all lines, or the number and the byte of the first fault."""
    size = len(text)
    tokens, symbol = np.empty(size + 1, np.int32), np.empty(size + 1, np.int32)
    parent, link = np.empty(size + 1, np.int32), np.zeros(size + 1, np.int32)
    token_start, start = np.zeros(lines + 1, np.int64), np.zeros(lines * width + 1, np.int64)
    operator, began = np.empty(most, np.int64), np.empty(most, np.int64)  # of the open lists
    child, order = np.empty(most, np.int64), np.empty(most, np.int64)
    level_of = np.empty(size + 1, np.int64)
    copy = len(spellings) - 1
    delimiter = 10 + copy
    at, token, node = 0, 0, 0
    for line in range(lines):
        known, tree, base, high, level = 0, 0, node, 0, 0
        quoting, argument, pieces, done = False, 0, 0, False
        if at >= size or text[at] == _NEWLINE:
            return tokens, token_start, symbol, parent, link, start, (10, at)
        while True:
            while at < size and text[at] == _SPACE:
                at += 1
            if at >= size or text[at] == _NEWLINE:
                break
            byte, here, finished = text[at], at, False
            if byte == _RETURN:
                return tokens, token_start, symbol, parent, link, start, (7, at)
            if byte == _X and (at + 1 >= size or text[at + 1] <= _SPACE or text[at + 1] == _OPEN):
                if not done:
                    return tokens, token_start, symbol, parent, link, start, (4 if level or quoting else 5, at)
                if tree + 1 >= width:
                    return tokens, token_start, symbol, parent, link, start, (11, at)
                known = level_order(level_of, base, node, order, known)
                start[line * width + tree + 1] = node
                tree, base, high, done = tree + 1, node, 0, False
                tokens[token] = delimiter
                token, at = token + 1, at + 1
                continue
            if done:
                return tokens, token_start, symbol, parent, link, start, (6, at)
            if byte == _OPEN:
                if quoting:
                    return tokens, token_start, symbol, parent, link, start, (9, at)
                spelled, at = np.uint64(0), at + 1
                while at < size and text[at] > _SPACE and text[at] != _CLOSE and text[at] != _OPEN and at - here <= 8:
                    spelled = (spelled << np.uint64(8)) | np.uint64(text[at])
                    at += 1
                which = 0
                while which < len(spellings) and spellings[which] != spelled:
                    which += 1
                if which == len(spellings) or (at < size and text[at] > _SPACE and text[at] != _CLOSE):
                    return tokens, token_start, symbol, parent, link, start, (1, here)
                if which == copy:
                    quoting, argument, pieces = True, 0, 0
                    tokens[token] = delimiter + 2
                else:
                    operator[level], began[level] = which, high
                    tokens[token] = 10 + which
                    level += 1
                token += 1
                continue
            if _ZERO <= byte <= _NINE:
                number = 0
                while at < size and _ZERO <= text[at] <= _NINE and number < 1_000_000:
                    number = 10 * number + text[at] - _ZERO
                    at += 1
                if at < size and text[at] > _SPACE and text[at] != _CLOSE and text[at] != _OPEN:
                    return tokens, token_start, symbol, parent, link, start, (1, here)
                if not quoting and at > here + 1:
                    return tokens, token_start, symbol, parent, link, start, (13, here)
                if at > here + 1 and (byte == _ZERO or pieces):  # 07, or a number after another
                    return tokens, token_start, symbol, parent, link, start, (9, here)
                tokens[token] = number if at == here + 1 else delimiter + 3 + number - 10
                token += 1
                if quoting:
                    if pieces and (argument == 0 or (argument > 9 and pieces == 1)):
                        return tokens, token_start, symbol, parent, link, start, (9, here)
                    argument, pieces = 10 * argument + number, pieces + 1
                    if argument > 1_000_000:
                        return tokens, token_start, symbol, parent, link, start, (12, here)
                    continue
                symbol[node], level_of[node], finished = number, level, True
            elif byte == _CLOSE:
                at += 1
                tokens[token] = delimiter + 1
                token += 1
                if quoting:
                    if pieces == 0:
                        return tokens, token_start, symbol, parent, link, start, (9, here)
                    if argument >= known:
                        return tokens, token_start, symbol, parent, link, start, (12, here)
                    symbol[node], level_of[node] = delimiter, level
                    link[node] = node - order[argument]
                    quoting = False
                else:
                    if level == 0:
                        return tokens, token_start, symbol, parent, link, start, (2, here)
                    level -= 1
                    if began[level] == high:
                        return tokens, token_start, symbol, parent, link, start, (3, here)
                    for argument_at in range(began[level], high):
                        parent[child[argument_at]] = node - base
                    high = began[level]
                    symbol[node], level_of[node] = 10 + operator[level], level
                finished = True
            else:
                return tokens, token_start, symbol, parent, link, start, (1, here)
            if finished:
                child[high] = node
                high, node, done = high + 1, node + 1, level == 0
                if done:
                    parent[node - 1] = -1
        if not done:
            return tokens, token_start, symbol, parent, link, start, (4 if level or quoting else 5, at)
        if tree + 1 < width:
            return tokens, token_start, symbol, parent, link, start, (11, at)
        start[line * width + tree + 1] = node
        token_start[line + 1] = token
        at += 1
    return tokens[:token], token_start, symbol[:node], parent[:node], link[:node], start, (0, 0)
