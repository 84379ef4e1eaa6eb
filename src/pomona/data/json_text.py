"""A corpus as lines of JSON, by a compiled loop; `pomona.data.formats.jsonl` has the schema.

Lines are written from their ends: nodes are stored in post-order, so from the last to the first they come in the order
in which their text ends. Nothing recurses, so trees may be of any depth. A line is put together from a few hundred
texts (`Texts`), which are copied eight letters at a time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Bytes, Ints
from pomona.base.compiled import compiled, inlined
from pomona.base.letters import put_letters
from pomona.data.corpus import Corpus

_MOST_ROWS, _MOST_ENTRIES = 1 << 13, 1 << 17  # that are written at a time; a single row may have more entries
_FIXED = (
    b'{"id": ', b', "tokens": [', b'], "target": [', b'], "tree": ', b'], "trees": [', b"]", b', "length": ',
    b', "nesting": ', b', "dependency": ', b"}\n", b", ", b"]}", b"}", b', "children": [', b', "link": ',
)  # fmt: skip
(
    _ID, _TOKENS, _TARGET, _TREE, _TREES, _TREES_END, _LENGTH,
    _NESTING, _DEPENDENCY, _END, _COMMA, _LIST_END, _LEAF_END, _CHILDREN, _LINK,
) = range(len(_FIXED))  # fmt: skip
# Texts of each outcome (the last is null, for an unknown value): alone, at the end of a leaf, before children.
_ALONE, _AT_LEAF, _AT_LIST = range(3)


class Texts(NamedTuple):
    """Texts in words of eight letters. The last word of a text comes first and is full; the others are before it."""

    words: npt.NDArray[np.uint64]
    first: npt.NDArray[np.int64]  # of the words of each text, and their end
    size: npt.NDArray[np.int64]  # letters
    outcomes: int  # the number of the first text of outcomes, of names and of the vocabulary
    names: int
    vocabulary: int


class _Arrays(NamedTuple):
    """The arrays of the rows."""

    tokens: Ints
    token_start: Ints
    symbol: Ints
    arity: Ints
    link: Ints
    start: Ints
    values: Ints
    targets: Ints
    depths: npt.NDArray[np.int32]  # [rows, 2] nesting and dependency


def lines(corpus: Corpus) -> Iterator[memoryview]:
    """The lines of a corpus in blocks of bytes. A block is valid until the next is asked for."""
    dump = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
    common, text = _common_texts(corpus), np.empty(0, np.uint8)
    for first, last in _blocks(corpus):
        part = corpus[first:last]
        ids = [] if part.ids is None else [dump(name).encode() for name in part.ids]
        fields = [
            "".join(f", {dump(name)}: {dump(column[row].tolist())}" for name, column in part.columns.items()).encode()
            for row in range(len(part) if part.columns else 0)
        ]
        forest = part.forest
        arrays = _Arrays(
            part.tokens, part.token_start, forest.symbol, forest.arity, forest.links, forest.start, part.values,
            part.targets, np.stack([part.nesting, part.dependency], axis=1),
        )  # fmt: skip
        room = _room(part, common) + sum(map(len, ids)) + sum(map(len, fields))
        if room > len(text):
            text = np.empty(room, np.uint8)
        yield text[_write(arrays, common, part.keys, _texts(ids), _texts(fields), part.width, text) :].data


def _common_texts(corpus: Corpus) -> Texts:
    """The texts that all lines share."""
    dump = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
    outcomes = [*(dump(outcome).encode() for outcome in corpus.outcomes), b"null"]
    names = [b'{"type": ' + dump(name).encode() + b', "value": ' for name in corpus.forest.names]
    words = [dump(word).encode() for word in corpus.vocabulary]
    texts = [
        *_FIXED,
        *(text + end for text in outcomes for end in (b"", _FIXED[_LEAF_END], _FIXED[_CHILDREN])),
        *(text for name in names for text in (name, _FIXED[_COMMA] + name)),
        *(text for word in words for text in (word, _FIXED[_COMMA] + word)),
    ]
    starts = len(_FIXED), len(_FIXED) + 3 * len(outcomes), len(_FIXED) + 3 * len(outcomes) + 2 * len(names)
    return _texts(texts)._replace(outcomes=starts[0], names=starts[1], vocabulary=starts[2])


def _texts(pieces: Sequence[bytes]) -> Texts:
    size = np.array([len(piece) for piece in pieces], np.int64)
    first = np.zeros(len(pieces) + 1, np.int64)
    np.cumsum((size + 7) // 8, out=first[1:])
    letters = b"".join(piece.rjust(-(-len(piece) // 8) * 8) for piece in pieces)
    words = np.frombuffer(letters, "<u8").astype(np.uint64)
    backwards = np.repeat(first[:-1] + first[1:] - 1, np.diff(first)) - np.arange(len(words))
    return Texts(words[backwards], first, size, 0, 0, 0)


def _blocks(corpus: Corpus) -> Iterator[tuple[int, int]]:
    """First and last row of each block; a corpus without rows has none."""
    entries = np.maximum(corpus.token_start, corpus.forest.start[:: corpus.width])
    first = 0
    while first < len(corpus):
        fitting = int(np.searchsorted(entries, entries[first] + _MOST_ENTRIES, "right")) - 1
        last = min(len(corpus), first + _MOST_ROWS, max(fitting, first + 1))
        yield first, last
        first = last


def _room(part: Corpus, texts: Texts) -> int:
    """At least as many bytes as the lines take, without ids and further fields."""

    def of(numbers: Ints, sizes: Ints) -> int:
        return int(np.bincount(np.where(numbers < 0, len(sizes) - 1, numbers), minlength=len(sizes)) @ sizes)

    outcomes = texts.size[texts.outcomes : texts.names : 3]
    return (
        of(part.tokens, texts.size[texts.vocabulary + 1 :: 2])
        + of(part.forest.symbol, texts.size[texts.names + 1 : texts.vocabulary : 2])
        + of(part.values, outcomes)
        + of(part.targets.ravel(), outcomes + 2)
        + 50 * len(part.values)  # the ends of nodes, and links
        + 200 * len(part)  # the names of fields, lengths and keys
        + 8  # letters are written eight at a time
    )


@inlined
def _put(texts: Texts, number: int, text: Bytes, at: int) -> int:
    """Write a text so that it ends at `at`. Returns where it begins; up to seven bytes before that are changed too."""
    place = at
    for position in range(texts.first[number], texts.first[number + 1]):
        place = put_letters(texts.words[position], text, place) - 8
    return int(at - texts.size[number])


@compiled
def _put_number(number: int, text: Bytes, at: int) -> int:
    while True:
        at -= 1
        text[at] = 48 + number % 10
        number //= 10
        if number == 0:
            return at


@compiled
def _put_key(key: np.uint64, text: Bytes, at: int) -> int:
    """Write a content key as a string of 16 hex digits."""
    at -= 18
    text[at] = text[at + 17] = 34  # quotes
    for place in range(16):
        digit = (key >> np.uint64(60 - 4 * place)) & np.uint64(15)
        text[at + 1 + place] = np.uint8(digit + np.uint64(48 if digit < 10 else 87))
    return at


@compiled
def _put_tree(arrays: _Arrays, texts: Texts, tree: int, open_: Ints, text: Bytes, at: int) -> int:
    """Write a tree. `open_` is room for the nodes that are open and how many children of each are to be written."""
    unknown = (texts.names - texts.outcomes) // 3 - 1
    level = 0
    for leaf in range(arrays.start[tree + 1] - 1, arrays.start[tree] - 1, -1):
        if arrays.arity[leaf]:
            at = _put(texts, _LIST_END, text, at)
            open_[level, 0], open_[level, 1] = leaf, arrays.arity[leaf]
            level += 1
            continue
        node, end = leaf, _AT_LEAF
        while True:  # the leaf, and then the nodes whose first child is written
            value = arrays.values[node] if arrays.values[node] >= 0 else unknown
            if arrays.link[node]:
                at = _put(texts, _LEAF_END if end == _AT_LEAF else _CHILDREN, text, at)
                at = _put_number(arrays.link[node], text, at)
                at = _put(texts, _LINK, text, at)
                end = _ALONE
            at = _put(texts, texts.outcomes + 3 * value + end, text, at)
            if level:
                open_[level - 1, 1] -= 1
            more = level > 0 and open_[level - 1, 1] > 0
            at = _put(texts, texts.names + 2 * arrays.symbol[node] + (1 if more else 0), text, at)
            if more or level == 0:
                break
            level -= 1
            node, end = open_[level, 0], _AT_LIST
    return at


@compiled
def _write(
    arrays: _Arrays, texts: Texts, keys: Ints, ids: Texts, fields: Texts, width: int, text: Bytes
) -> int:  # fmt: skip
    """Fill `text` from its end with all lines. Returns where they begin."""
    open_ = np.empty((len(arrays.symbol) + 1, 2), np.int64)
    unknown = (texts.names - texts.outcomes) // 3 - 1
    at = len(text)
    for row in range(len(arrays.token_start) - 2, -1, -1):
        at = _put(texts, _END, text, at)
        if len(fields.size):
            at = _put(fields, row, text, at)
        at = _put_number(arrays.depths[row, 1], text, at)
        at = _put(texts, _DEPENDENCY, text, at)
        at = _put_number(arrays.depths[row, 0], text, at)
        at = _put(texts, _NESTING, text, at)
        at = _put_number(arrays.token_start[row + 1] - arrays.token_start[row], text, at)
        at = _put(texts, _LENGTH, text, at)
        if width > 1:
            at = _put(texts, _TREES_END, text, at)
        for tree in range((row + 1) * width - 1, row * width - 1, -1):
            at = _put_tree(arrays, texts, tree, open_, text, at)
            if tree > row * width:
                at = _put(texts, _COMMA, text, at)
        at = _put(texts, _TREE if width == 1 else _TREES, text, at)
        for question in range(arrays.targets.shape[1] - 1, -1, -1):
            target = arrays.targets[row, question]
            at = _put(texts, texts.outcomes + 3 * (target if target >= 0 else unknown) + _ALONE, text, at)
            if question:
                at = _put(texts, _COMMA, text, at)
        at = _put(texts, _TARGET, text, at)
        for token in range(arrays.token_start[row + 1] - 1, arrays.token_start[row] - 1, -1):
            first = 0 if token == arrays.token_start[row] else 1
            at = _put(texts, texts.vocabulary + 2 * arrays.tokens[token] + first, text, at)
        at = _put(texts, _TOKENS, text, at)
        at = _put(ids, row, text, at) if len(ids.size) else _put_key(keys[row], text, at)
        at = _put(texts, _ID, text, at)
    return at
