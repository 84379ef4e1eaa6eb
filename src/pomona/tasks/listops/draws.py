"""Draws of ListOps by number: tokens and content keys.

Word n of a draw is an address (`base.randomness`), so words are made many at a time, before it is known how many the
draw takes. Three draws in four are single digits: their words are made for many draws at a time, and of equal digits
only the first is looked at.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Bools, Bytes, Ints
from pomona.base.compiled import compiled, inlined
from pomona.base.letters import Place
from pomona.base.randomness import mix, open_stream
from pomona.data.corpus import KEY_SEED, absorb
from pomona.data.remembered import Rows

_DRAWS, _WORDS = 1024, 32  # made at a time
_0, _1, _BYTE = Place(0), Place(1), np.uint64(255)
_3, _8, _16, _32 = np.uint64(3), np.uint64(8), np.uint64(16), np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)  # the low half of a random word
_DONE, _KEPT, _AT = range(3)
ENDLESS = 1 << 40
ANY = (0, ENDLESS)


class Grammar(NamedTuple):
    """The settings as the compiled loops take them."""

    root: np.uint64  # chance that the first token is a list and not a digit, of 2**32
    branching: np.uint64  # the same of an argument
    depth: int
    arguments: int
    operators: int
    length: tuple[int, int]
    nesting: tuple[int, int]
    code: npt.NDArray[np.uint64]  # of each token


class Drawn(NamedTuple):
    """Accepted draws: their numbers, content keys and tokens; no tokens where these would take too much memory."""

    numbers: npt.NDArray[np.int64]
    keys: npt.NDArray[np.uint64]
    rows: Rows | None


def draw(key: np.uint64, numbers: npt.NDArray[np.int64], grammar: Grammar, *, most: int) -> Drawn:
    """The draws that have the right length and nesting, and of equal digits only the first: three draws in four are
    digits, and an example is never accepted twice. No more than about `most` tokens are kept.
    """
    seen = np.zeros(16, np.bool_)
    seen[:] = not (grammar.length[0] <= 1 <= grammar.length[1] and grammar.nesting[0] == 0)
    drawn = _drawn(key, numbers, grammar, seen, most)
    return drawn if drawn.rows is None or len(drawn.rows.tokens) <= most else drawn._replace(rows=None)


def draw_again(key: np.uint64, numbers: npt.NDArray[np.int64], grammar: Grammar) -> Rows:
    """These draws, all of them."""
    rows = _drawn(key, numbers, grammar._replace(length=ANY, nesting=ANY), np.zeros(0, np.bool_), 1 << 62).rows
    assert rows is not None
    return rows


def _drawn(
    key: np.uint64, numbers: npt.NDArray[np.int64], grammar: Grammar, seen: npt.NDArray[np.bool_], most: int
) -> Drawn:
    """`seen` are the digits that are not wanted; without it, every digit is."""
    count = len(numbers)
    accepted, keys = np.empty(count, np.int64), np.empty(count, np.uint64)
    start, nodes = np.zeros(count + 1, np.int64), np.empty(count, np.int32)
    tokens, progress = np.empty(16 * count + 8 * _WORDS, np.uint8), np.zeros(3, np.int64)
    keeps = True
    while not _draw(key, numbers, grammar, keeps, seen, progress, tokens, accepted, keys, start, nodes):
        if keeps and len(tokens) > most:
            keeps = False  # from here on, a row is written over the one before
            progress[_AT] = 0
        else:
            larger = np.empty(2 * len(tokens), np.uint8)
            larger[: progress[_AT]] = tokens[: progress[_AT]]
            tokens = larger
    kept = progress[_KEPT]
    tokens.resize(progress[_AT], refcheck=False)  # gives the rest back
    rows = Rows(tokens, start[: kept + 1], nodes[:kept]) if keeps else None
    return Drawn(accepted[:kept], keys[:kept], rows)


@inlined
def _choice(word: np.uint64, branching: np.uint64, choices: np.uint64, operators: np.uint64) -> np.uint64:
    """What a random word chooses: a digit (8 bits), the token that opens a list (8), and its arguments; 0: no list."""
    product = (word & _LOW) * choices  # the high half: the arity, the low half: the operator
    opening = np.uint64(10) + (((product & _LOW) * operators) >> _32)
    digit = ((word & _LOW) * np.uint64(10)) >> _32
    size = np.uint64(2) + (product >> _32) if (word >> _32) < branching else np.uint64(0)
    return digit | (opening << _8) | (size << _16)


@compiled
def _first_choices(
    key: np.uint64, numbers: Ints, first: int, many: int, grammar: Grammar, states: Ints, gammas: Ints, chosen: Ints
) -> None:
    choices, operators = np.uint64(grammar.arguments - 1), np.uint64(grammar.operators)
    for draw in range(many):
        state, gamma = open_stream(key, numbers[first + draw])
        state += gamma
        states[draw], gammas[draw] = state, gamma
        chosen[draw] = _choice(mix(state), grammar.root, choices, operators)


@compiled
def _choices(state: np.uint64, gamma: np.uint64, grammar: Grammar, chosen: Ints) -> None:
    choices, operators, branching = np.uint64(grammar.arguments - 1), np.uint64(grammar.operators), grammar.branching
    for word in range(_WORDS):
        chosen[word] = _choice(mix(state + np.uint64(word + 1) * gamma), branching, choices, operators)


@compiled
def _draw(
    key: np.uint64, numbers: Ints, grammar: Grammar, keeps: bool, seen: Bools, progress: Ints, tokens: Bytes,
    accepted: Ints, keys: Ints, start: Ints, nodes: Ints,
) -> bool:  # fmt: skip
    """Go on with the draws until all are done; false if the tokens need more room.

    In the inner loop a token is a step, without branches, which no processor could predict: what the token may be is
    computed, then one is chosen. A list closes where its last argument was, and takes no word.
    """
    states, gammas = np.empty(_DRAWS, np.uint64), np.empty(_DRAWS, np.uint64)
    firsts, chosen = np.empty(_DRAWS, np.uint64), np.empty(_WORDS, np.uint64)
    wanted = np.empty(_DRAWS, np.int64)
    outside = np.empty(grammar.depth + 3, np.int64)  # of the open lists but two: how many arguments are to come
    once = len(seen) > 0
    closing, depth, code = np.uint64(10 + grammar.operators), Place(grammar.depth), grammar.code
    while progress[_DONE] < len(numbers):
        first = progress[_DONE]
        draws = min(_DRAWS, len(numbers) - first)
        _first_choices(key, numbers, first, draws, grammar, states, gammas, firsts)
        many = _0
        for draw in range(draws):
            wanted[many] = draw
            lists = (firsts[draw] >> _16) != 0
            many += Place(lists | (not once) | (not seen[Place(firsts[draw] & _BYTE)]))
        for which in range(many):
            draw = wanted[Place(which)]
            progress[_DONE] = first + draw
            entry, state, gamma = firsts[draw], states[draw], gammas[draw]
            size = entry >> _16
            kept, low = progress[_KEPT], Place(progress[_AT])
            if low + Place(2 * _WORDS) > Place(len(tokens)):
                return False
            token = (entry >> (np.uint64(size != 0) << _3)) & _BYTE
            if size == 0 and once and seen[Place(token)]:
                continue
            tokens[low], at = token, low + _1
            content = absorb(KEY_SEED, code[Place(token)])
            level, rest, outer, words = Place(size != 0), np.int64(size), np.int64(1), _1
            while level:
                if at + level + Place(2 * _WORDS) > Place(len(tokens)):
                    return False
                if np.int64(at - low) > grammar.length[1]:
                    break
                _choices(state, gamma, grammar, chosen)
                state += np.uint64(_WORDS) * gamma
                word = _0
                while (word < Place(_WORDS)) & (level > _0):
                    entry = chosen[word]
                    size = entry >> _16
                    closes = rest == 0
                    opens = (not closes) & (size != 0) & (level + _1 < depth)
                    token = (entry >> (np.uint64(opens) << _3)) & _BYTE
                    token = closing if closes else token
                    tokens[at] = token
                    at += _1
                    content = absorb(content, code[Place(token)])
                    outside[level] = outer  # free if no list opens
                    farther, inner = outside[level - _1], rest
                    rest = (outer if closes else rest) - 1
                    rest = np.int64(size) if opens else rest
                    outer = inner if opens else outer
                    outer = farther if closes else outer
                    level = level + Place(opens) - Place(closes)
                    word += Place(not closes)
                words += word
            if level or not _fits(tokens, low, at, closing, grammar):
                continue
            if once and at - low == _1:
                seen[Place(token)] = True
            accepted[kept], keys[kept] = numbers[first + draw], mix(content)
            start[kept + 1], nodes[kept] = at, words
            if keeps:
                progress[_AT] = at
            progress[_KEPT] += 1
        progress[_DONE] = first + draws
    return True


@compiled
def _fits(tokens: Bytes, low: np.uintp, high: np.uintp, closing: np.uint64, grammar: Grammar) -> bool:
    """Whether a row has the right length and nesting."""
    length = np.int64(high - low)
    if not grammar.length[0] <= length <= grammar.length[1]:
        return False
    level, deepest = 0, 0
    if grammar.nesting[0] > 0 or grammar.nesting[1] < grammar.depth:
        for place in range(Place(low), Place(high)):
            level += int(tokens[place] >= 10) - 2 * int(tokens[place] == closing)
            deepest = max(deepest, level)
        return grammar.nesting[0] <= deepest <= grammar.nesting[1]
    return True
