"""Draw many sentence pairs: example i of a stream depends only on the key and on i, not on chunks.

    pairs = draw(BalancedPairs(train), 500_000, key=stream_key("fair_nli", "train", 7), vocabulary=100)
    pairs.words, pairs.codes            [n, 18] word numbers, [n] encodings
    pairs.values, pairs.targets         [n, 15] node values, [n, 12] predictions of Figure 4

Labels come in threes: each three consecutive examples are one entailment, one neutral and one contradiction in random
order, so any number of examples is balanced to within one. Given the label, an encoding is drawn from `BalancedPairs`.
Given the encoding, the words are drawn: a shared modifier is one of V words or none, and different words are an ordered
pair without repetition. Every choice is exactly uniform: random 64-bit words that would bias it are skipped.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Bools, Bytes, Ints
from pomona.base.compiled import compiled, inlined
from pomona.base.errors import SpecError
from pomona.base.randomness import mix, open_stream, random_order
from pomona.tasks.fair_nli.logic.balance import CELLS, BalancedPairs
from pomona.tasks.fair_nli.logic.fragment import Codes, encode, labels, node_values, targets
from pomona.tasks.fair_nli.logic.relations import Label, RelationTable

Words = npt.NDArray[np.int16]

LARGEST_VOCABULARY: Final = 2**15 - 1
_ORDERS: Final = np.array([[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]], np.uint8)
_LABEL_STREAMS: Final = np.uint64(0x6C62272E07BB0142)  # keeps the streams of labels apart from those of examples


@dataclass(frozen=True, eq=False)
class DrawnPairs:
    """Premise-hypothesis pairs as arrays."""

    words: Words
    codes: Codes

    def __len__(self) -> int:
        return len(self.codes)

    @cached_property
    def values(self) -> RelationTable:
        """[n, 15]: the value of every inner node, in the order of `fragment.NODES`."""
        return node_values(self.codes)

    @cached_property
    def targets(self) -> RelationTable:
        """[n, 12]: the paper's predictions, the last one the label."""
        return targets(self.values)

    @cached_property
    def labels(self) -> RelationTable:
        """[n]: the label."""
        return labels(self.codes)

    def take(self, rows: Ints | Bools | slice) -> DrawnPairs:
        """The pairs of these rows, in this order."""
        return DrawnPairs(self.words[rows], self.codes[rows])

    def followed_by(self, other: DrawnPairs) -> DrawnPairs:
        """These pairs, then the others."""
        return DrawnPairs(np.concatenate([self.words, other.words]), np.concatenate([self.codes, other.codes]))

    def first_of_equal(self) -> Bools:
        """[n]: which pairs are the first of those equal to them."""
        rows = np.ascontiguousarray(self.words).view(np.dtype((np.void, self.words.dtype.itemsize * 18))).ravel()
        first = np.zeros(len(rows), np.bool_)
        first[np.unique(rows, return_index=True)[1]] = True
        return first


def of_words(words: Ints) -> DrawnPairs:
    """The pairs of [n, 18] word numbers."""
    return DrawnPairs(np.asarray(words).astype(np.int16), encode(words))


def draw(
    distribution: BalancedPairs,
    count: int,
    *,
    key: np.uint64,
    vocabulary: int = 100,
    start: int = 0,
    before: Ints | None = None,
) -> DrawnPairs:
    """Examples start .. start + count - 1 of the stream of a key; see `draw_numbers` for `before`."""
    if count < 0 or start < 0:
        raise SpecError(f"count={count} and start={start} must not be negative.")
    return draw_numbers(distribution, np.arange(start, start + count), key=key, vocabulary=vocabulary, before=before)


def draw_numbers(
    distribution: BalancedPairs, numbers: Ints, *, key: np.uint64, vocabulary: int = 100, before: Ints | None = None
) -> DrawnPairs:
    """The examples of these numbers in the stream of a key, in the order asked for.

    `before` are the labels of other examples in the same data, for example of a strict core. The stream then begins
    with examples of the rarer labels, until all labels are equally frequent.
    """
    check_vocabulary(vocabulary)
    numbers = np.asarray(numbers, np.int64)
    wanted = label_stream(key, numbers, _arrears(key, before))
    words, codes = np.zeros((len(numbers), 18), np.int16), np.empty(len(numbers), np.int32)
    cells = [np.flatnonzero(distribution.sizes[:, label]) for label in Label]
    table = np.zeros((len(Label), CELLS), np.int64)
    for label, label_cells in enumerate(cells):
        table[label, : len(label_cells)] = label_cells
    counts = np.array([len(label_cells) for label_cells in cells])
    _draw(
        key,
        numbers,
        wanted,
        counts,
        table,
        distribution.starts,
        distribution.sizes,
        distribution.members,
        vocabulary,
        words,
        codes,
    )
    return DrawnPairs(words, codes)


def draw_encodings(codes: Ints, *, key: np.uint64, vocabulary: int = 100) -> DrawnPairs:
    """One pair of each of these encodings, words drawn as in `draw`."""
    check_vocabulary(vocabulary)
    wanted: Codes = np.asarray(codes).astype(np.int32)
    words = np.zeros((len(wanted), 18), np.int16)
    _draw_codes(key, wanted, vocabulary, words)
    return DrawnPairs(words, wanted)


def check_vocabulary(vocabulary: int) -> None:
    """Raise an error unless an open class of this size has two different words and fits the arrays."""
    if not 2 <= vocabulary <= LARGEST_VOCABULARY:
        raise SpecError(f"vocabulary={vocabulary} is not possible; allowed: 2 to {LARGEST_VOCABULARY} words.")


def label_stream(key: np.uint64, numbers: Ints, arrears: Bytes) -> Bytes:
    """The labels of the examples of these numbers: first the arrears, then blocks of three."""
    wanted = np.empty(len(numbers), np.uint8)
    _labels(key ^ _LABEL_STREAMS, numbers, arrears, _ORDERS, wanted)
    return wanted


def _arrears(key: np.uint64, before: Ints | None) -> Bytes:
    """The labels that must follow `before` to make all labels equally frequent, in random order."""
    counts = np.bincount(np.asarray([] if before is None else before, np.int64), minlength=len(Label))
    missing = np.repeat(np.arange(len(Label), dtype=np.uint8), counts.max() - counts)
    return missing[random_order(key ^ ~_LABEL_STREAMS, len(missing))]


@inlined
def uniform(state: np.uint64, gamma: np.uint64, bound: int) -> tuple[np.uint64, np.int64]:
    """The stream after a choice among `bound` things, and the choice; the first 2^64 mod bound words are skipped."""
    limit = np.uint64(bound)
    skipped = (np.uint64(0) - limit) % limit
    state += gamma
    word = mix(state)
    while word < skipped:
        state += gamma
        word = mix(state)
    return state, np.int64(word % limit)


@compiled
def _labels(key: np.uint64, numbers: Ints, arrears: Bytes, orders: Bytes, wanted: Bytes) -> None:
    for n in range(len(wanted)):
        number = numbers[n]
        if number < len(arrears):
            wanted[n] = arrears[number]
        else:
            block, place = divmod(number - len(arrears), 3)
            state, gamma = open_stream(key, block)
            state, order = uniform(state, gamma, 6)
            wanted[n] = orders[order, place]


@compiled
def _put_words(state: np.uint64, gamma: np.uint64, code: int, vocabulary: int, row: Words) -> None:
    """Words of an encoding, from what follows in a stream."""
    row[0], row[6], row[3] = code >> 16 & 3, code >> 14 & 3, code >> 18
    row[9], row[15], row[12] = code >> 11 & 3, code >> 9 & 3, code >> 13 & 1
    for phrase in range(3):
        if phrase == 0:
            modifier, how, equal = 1, code >> 7 & 3, code >> 2 & 1
        elif phrase == 1:
            modifier, how, equal = 7, code >> 5 & 3, code & 1
        else:
            modifier, how, equal = 4, code >> 3 & 3, code >> 1 & 1
        if how == 0:
            state, word = uniform(state, gamma, vocabulary + 1)
            row[modifier], row[modifier + 9] = word, word
        elif how == 1:
            state, word = uniform(state, gamma, vocabulary)
            row[modifier + 9] = word + 1
        elif how == 2:
            state, word = uniform(state, gamma, vocabulary)
            row[modifier] = word + 1
        else:
            state, word = uniform(state, gamma, vocabulary * (vocabulary - 1))
            row[modifier], row[modifier + 9] = different(word, vocabulary)
        head = modifier + 1
        if equal:
            state, word = uniform(state, gamma, vocabulary)
            row[head], row[head + 9] = word + 1, word + 1
        else:
            state, word = uniform(state, gamma, vocabulary * (vocabulary - 1))
            row[head], row[head + 9] = different(word, vocabulary)


@compiled
def _draw(
    key: np.uint64,
    numbers: Ints,
    wanted: Bytes,
    cell_counts: Ints,
    cells: Ints,
    starts: Ints,
    sizes: Ints,
    members: Ints,
    vocabulary: int,
    words: Words,
    codes: Codes,
) -> None:
    for n in range(len(wanted)):
        state, gamma = open_stream(key, numbers[n])
        label = wanted[n]
        while True:  # a cell that has the label, one of all its members; kept if that member has the label
            state, place = uniform(state, gamma, cell_counts[label])
            cell = cells[label, place]
            state, member = uniform(state, gamma, sizes[cell, 0] + sizes[cell, 1] + sizes[cell, 2])
            if member < sizes[cell, label]:
                break
        code = members[starts[cell, label] + member]
        codes[n] = code
        _put_words(state, gamma, code, vocabulary, words[n])


@compiled
def _draw_codes(key: np.uint64, codes: Ints, vocabulary: int, words: Words) -> None:
    for n in range(len(codes)):
        state, gamma = open_stream(key, n)
        _put_words(state, gamma, codes[n], vocabulary, words[n])


@inlined
def different(number: np.int64, vocabulary: int) -> tuple[np.int64, np.int64]:
    """The number-th ordered pair of different words out of 1 .. vocabulary."""
    first, second = divmod(number, vocabulary - 1)
    return first + 1, second + 1 + (second >= first)
