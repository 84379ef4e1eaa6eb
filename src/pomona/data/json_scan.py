"""The usual lines of a JSONL file, read by a compiled loop.

`scan` goes over the bytes of a block of lines once and writes tokens, trees and values as numbers of *spellings*: each
distinct string or value, as it is written in the file, is kept once (`Spellings`), and Python decodes it once. A line
that is unusual (an escaped key, a key of a node that we do not know, a field twice, an empty list of children ...) or
wrong stops the loop. `pomona.data.json_rows` reads that line and says what is wrong, if anything is; so this loop never
has to explain itself, and never accepts what that one would refuse, but for spellings, which are checked when decoded.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Bytes, Ints
from pomona.base.compiled import compiled
from pomona.data.json_pieces import WRONG, number_end, read_key, skip_blanks, string_end, value_end
from pomona.data.spellings import Spellings, spelling

DONE, ODD, FULL = range(3)  # why `scan` ended: all lines are read, a line is unusual, the table of spellings is full
AT, ROWS, TOKENS, NODES, TREES, TARGETS, FIELDS, WIDTH, QUESTIONS = range(9)  # of the state

_NEWLINE, _QUOTE, _COMMA, _ZERO, _NINE = (ord(letter) for letter in '\n",09')
_OPEN, _CLOSE, _LIST, _LIST_END = (ord(letter) for letter in "{}[]")
_NULL = ord("n")
_MOST_FIELDS = 1 << 20  # further fields that are collected before the next line is read one by one


def _word(key: str) -> np.uint64:
    return np.uint64(int.from_bytes(key.encode()[-8:], "big"))


_TYPE, _VALUE, _LINK, _CHILDREN = map(_word, ("type", "value", "link", "children"))
_ID, _TOKENS, _TARGET, _TREE, _TREES, _TEXT = map(_word, ("id", "tokens", "target", "tree", "trees", "text"))
_LENGTH, _NESTING, _DEPENDENCY = map(_word, ("length", "nesting", "dependency"))


class Found(NamedTuple):
    """What is found: room for everything that a block of lines can hold."""

    tokens: npt.NDArray[np.int32]  # spellings
    token_end: npt.NDArray[np.int64]  # of each row
    given: npt.NDArray[np.bool_]  # whether a row has tokens
    code: npt.NDArray[np.int32]  # of each node: twice the spelling of its type or, without one, of its value plus 1
    value: npt.NDArray[np.int32]  # 1 + the spelling, 0 for none
    parent: npt.NDArray[np.int32]
    link: npt.NDArray[np.int32]
    tree_end: npt.NDArray[np.int64]
    targets: npt.NDArray[np.int32]  # as values
    id_span: npt.NDArray[np.int64]  # [rows, 2] first and last byte; 0, 0 for none
    id_key: npt.NDArray[np.uint64]  # the id as a number, if it is written with 16 hex digits
    id_hex: npt.NDArray[np.bool_]
    fields: npt.NDArray[np.int64]  # [further fields, 5] row, bytes of the key, bytes of the value


class Open(NamedTuple):
    """The nodes that are open, from the root down, and the children that wait for their parents."""

    name: npt.NDArray[np.int32]
    value: npt.NDArray[np.int32]
    link: npt.NDArray[np.int32]
    children: npt.NDArray[np.int32]  # -1: none yet
    waiting: npt.NDArray[np.int32]


def rooms(size: int) -> tuple[Found, Open]:
    """Room for the lines of a block of this many bytes. What stays unused costs nothing."""
    tokens, nodes = size // 3 + 2, size // 10 + 2  # '"",' and '{"value":1}' are the shortest
    rows, fields = nodes, min(size // 5 + 2, _MOST_FIELDS)

    def numbers(count: int) -> npt.NDArray[np.int32]:
        return np.empty(count, np.int32)

    found = Found(
        numbers(tokens), np.empty(rows, np.int64), np.empty(rows, np.bool_), numbers(nodes), numbers(nodes),
        numbers(nodes), numbers(nodes), np.empty(nodes, np.int64), numbers(size // 2 + 2),
        np.empty((rows, 2), np.int64), np.empty(rows, np.uint64), np.empty(rows, np.bool_),
        np.empty((fields, 5), np.int64),
    )  # fmt: skip
    return found, Open(*(numbers(nodes) for _ in range(5)))


@compiled
def _tree(
    text: Bytes, at: int, first: int, node: int, spellings: Spellings, found: Found, open_: Open
) -> tuple[int, int]:  # fmt: skip
    """Read a NODE and those below it. Returns its end and the number of nodes so far, or WRONG or -1 - FULL.

    `first` is the first node of the example, to which links may lead; this tree begins with `node`.
    """
    base, level, high = node, 0, 0
    opening = True
    while True:
        if opening:
            if text[at] != _OPEN:
                return WRONG, node
            open_.name[level] = open_.value[level] = open_.children[level] = -1
            open_.link[level] = 0
            at = skip_blanks(text, at + 1)
        # a member of the node on this level
        at, word, size = read_key(text, at)
        if at == WRONG:
            return WRONG, node
        opening = False
        if size == 8 and word == _CHILDREN:
            if open_.children[level] >= 0 or text[at] != _LIST:
                return WRONG, node
            at = skip_blanks(text, at + 1)
            open_.children[level] = 0
            level += 1
            opening = True
            continue
        if size == 4 and word == _TYPE:
            end = string_end(text, at)
        elif size == 5 and word == _VALUE:
            end = value_end(text, at)
        elif size == 4 and word == _LINK:
            end = number_end(text, at)
        else:
            return WRONG, node
        if end == WRONG:
            return WRONG, node
        if word == _LINK:
            link = 0
            for place in range(at, end):
                link = 10 * link + text[place] - _ZERO
            open_.link[level] = link
        else:
            number = spelling(text, at, end, spellings)
            if number < 0:
                return -1 - FULL, node
            if word == _TYPE:
                open_.name[level] = number
            else:
                open_.value[level] = number
        at = skip_blanks(text, end)
        # what follows a member: another, or the end of this node and perhaps of nodes above it
        while text[at] == _CLOSE:
            children = max(open_.children[level], 0)
            if open_.link[level] > node - first or (open_.name[level] < 0 and (children or open_.value[level] < 0)):
                return WRONG, node
            for place in range(high - children, high):
                found.parent[open_.waiting[place]] = node - base
            high -= children
            open_.waiting[high] = node
            high += 1
            named = open_.name[level] >= 0
            found.code[node] = 2 * open_.name[level] if named else 2 * open_.value[level] + 1
            found.value[node] = open_.value[level] + 1
            found.link[node] = open_.link[level]
            node += 1
            at += 1
            if level == 0:
                found.parent[node - 1] = -1
                return at, node
            level -= 1
            open_.children[level] += 1
            at = skip_blanks(text, at)
            if text[at] == _COMMA:  # the next child
                at = skip_blanks(text, at + 1)
                level += 1
                opening = True
                break
            if text[at] != _LIST_END:
                return WRONG, node
            at = skip_blanks(text, at + 1)
        if not opening:
            if text[at] != _COMMA:
                return WRONG, node
            at = skip_blanks(text, at + 1)


@compiled
def _words(text: Bytes, at: int, token: int, spellings: Spellings, found: Found) -> tuple[int, int]:
    """Read a list of strings. Returns its end and the number of tokens so far, or WRONG or -1 - FULL."""
    if text[at] != _LIST:
        return WRONG, token
    at = skip_blanks(text, at + 1)
    if text[at] == _LIST_END:
        return at + 1, token
    while True:
        end = string_end(text, at)
        if end == WRONG:
            return WRONG, token
        number = spelling(text, at, end, spellings)
        if number < 0:
            return -1 - FULL, token
        found.tokens[token] = number
        token += 1
        at = skip_blanks(text, end)
        if text[at] == _LIST_END:
            return at + 1, token
        if text[at] != _COMMA:
            return WRONG, token
        at = skip_blanks(text, at + 1)


@compiled
def _targets(text: Bytes, at: int, target: int, spellings: Spellings, found: Found) -> tuple[int, int]:
    """Read a value, or a list of them. Returns its end and the number of targets so far, or WRONG or -1 - FULL."""
    listed = text[at] == _LIST
    if text[at] == _NULL:
        return WRONG, target
    if listed:
        at = skip_blanks(text, at + 1)
        if text[at] == _LIST_END:
            return at + 1, target
    while True:
        end = value_end(text, at)
        if end == WRONG:
            return WRONG, target
        number = spelling(text, at, end, spellings)
        if number < 0:
            return -1 - FULL, target
        found.targets[target] = number + 1
        target += 1
        if not listed:
            return end, target
        at = skip_blanks(text, end)
        if text[at] == _LIST_END:
            return at + 1, target
        if text[at] != _COMMA:
            return WRONG, target
        at = skip_blanks(text, at + 1)


@compiled
def _identity(text: Bytes, at: int, row: int, found: Found) -> int:
    """Read an id: a string or a whole number. Returns its end, or WRONG."""
    end = string_end(text, at) if text[at] == _QUOTE else number_end(text, at)
    if end == WRONG:
        return WRONG
    found.id_span[row, 0], found.id_span[row, 1] = at, end
    key, hexadecimal = np.uint64(0), end - at == 18
    if hexadecimal:
        for place in range(at + 1, end - 1):
            byte = text[place]
            if _ZERO <= byte <= _NINE:
                key = (key << np.uint64(4)) | np.uint64(byte - _ZERO)
            elif 97 <= byte <= 102:  # a to f
                key = (key << np.uint64(4)) | np.uint64(byte - 87)
            else:
                hexadecimal = False
    found.id_key[row], found.id_hex[row] = key, hexadecimal
    return end


@compiled
def scan(text: Bytes, state: Ints, spellings: Spellings, found: Found, open_: Open) -> int:
    """Read the lines of `text` from state[AT] on, until one is unusual; each line ends in a newline.

    `state` counts what was found in all lines that were read. It holds the trees and the targets of a line as well,
    which are the same for all lines: 0 and -1 where no line was read yet.
    """
    at = state[AT]
    while at < len(text):
        row, first, token, target = state[ROWS], state[NODES], state[TOKENS], state[TARGETS]
        node, tree, field = first, state[TREES], state[FIELDS]
        treed, given, asked = False, False, False
        found.id_span[row, 0], found.id_span[row, 1], found.id_hex[row] = 0, 0, False
        at = skip_blanks(text, at)
        if text[at] != _OPEN:
            return ODD
        while True:
            begin = skip_blanks(text, at + 1)
            at, word, size = read_key(text, begin)
            if at == WRONG:
                return ODD
            if (size == 4 and word == _TREE) or (size == 5 and word == _TREES):
                if treed or (size == 5 and text[at] != _LIST):
                    return ODD
                treed = True
                if size == 5:
                    at = skip_blanks(text, at + 1)
                while True:
                    at, node = _tree(text, at, first, node, spellings, found, open_)
                    if at < 0:
                        return FULL if at == -1 - FULL else ODD
                    found.tree_end[tree] = node
                    tree += 1
                    if size == 4:
                        break
                    at = skip_blanks(text, at)
                    if text[at] == _LIST_END:
                        at += 1
                        break
                    if text[at] != _COMMA:
                        return ODD
                    at = skip_blanks(text, at + 1)
            elif size == 6 and word in (_TOKENS, _TARGET):
                if (given and word == _TOKENS) or (asked and word == _TARGET):
                    return ODD
                if word == _TOKENS:
                    given = True
                    at, token = _words(text, at, token, spellings, found)
                else:
                    asked = True
                    at, target = _targets(text, at, target, spellings, found)
                if at < 0:
                    return FULL if at == -1 - FULL else ODD
            elif size == 2 and word == _ID:
                at = _identity(text, at, row, found)
            elif (
                (size == 6 and word == _LENGTH)
                or (size == 7 and word == _NESTING)
                or (size == 10 and word == _DEPENDENCY and text[begin + 1] == 100 and text[begin + 2] == 101)  # "de"
            ):
                at = number_end(text, at)
            elif (size == 4 and word == _TEXT) or field == len(found.fields):
                return ODD
            else:
                end = value_end(text, at)
                found.fields[field, 0], found.fields[field, 1], found.fields[field, 2] = row, begin, begin + size + 2
                found.fields[field, 3], found.fields[field, 4] = at, end
                field += 1
                at = end
            if at == WRONG:
                return ODD
            at = skip_blanks(text, at)
            if text[at] == _CLOSE:
                break
            if text[at] != _COMMA:
                return ODD
        at = skip_blanks(text, at + 1)
        width = tree - state[TREES]
        if text[at] != _NEWLINE or not treed or (state[WIDTH] and width != state[WIDTH]):
            return ODD
        if not asked:
            for root in range(state[TREES], tree):
                found.targets[target] = found.value[found.tree_end[root] - 1]
                target += 1
        questions = target - state[TARGETS]
        if state[QUESTIONS] >= 0 and questions != state[QUESTIONS]:
            return ODD
        found.token_end[row], found.given[row] = token, given
        at += 1
        state[AT], state[ROWS], state[TOKENS], state[NODES] = at, row + 1, token, node
        state[TREES], state[TARGETS], state[FIELDS] = tree, target, field
        state[WIDTH], state[QUESTIONS] = width, questions
    return DONE
