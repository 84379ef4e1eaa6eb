"""Compiled drawing of ORCHARD's examples by number; `tasks.orchard.task` says what to draw.

A *kind* of example is a row of a table: the depths of its trees, then their dependency depths (0: any). All random
choices of draw number n come from the stream of that number. So `scan`, which only computes content keys, and `build`,
which writes the chosen draws to arrays, see the same trees.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Floats, Ints
from pomona.base.compiled import compiled
from pomona.base.randomness import mix, open_stream
from pomona.data.corpus import KEY_SEED, absorb
from pomona.trees.growing import TOO_SMALL, UNDECIDED, Grammar, Nodes, grow, grow_decided, level_order


@compiled
def _nodes(room: int) -> Nodes:
    return Nodes(
        np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64),
        np.empty(room, np.int64), np.empty(room, np.int64),
    )  # fmt: skip


@compiled
def _draw(
    key: np.uint64, number: int, table: Ints, upto: Floats, grammar: Grammar, references: int, nodes: Nodes,
    order: Ints, told: Ints, ends: Ints,
) -> int:  # fmt: skip
    """Draw the trees of `number` into `nodes`, their ends into `ends`. Returns the kind, TOO_SMALL or UNDECIDED."""
    width = table.shape[1] // 2
    state, gamma = open_stream(key, number)
    state += gamma
    random = float(mix(state) >> np.uint64(11)) / 9007199254740992.0
    kind = min(int(np.searchsorted(upto, random, "right")), len(upto) - 1)
    none = int(table[0, 0]) * 0  # a literal 0 would compile everything below twice
    at, known, previous = none, none, none  # the last two: positions in the level orders of the earlier trees
    for tree in range(width):
        low = previous if references == 1 else none
        high = ends[0] if references == 2 and tree else known
        begin = at
        if table[kind, width + tree]:
            state, at = grow_decided(
                state, gamma, grammar, table[kind, tree], table[kind, width + tree], low, high, told, nodes, at
            )
        else:
            state, at = grow(state, gamma, grammar, table[kind, tree], none, low, high, told, nodes, at)
        if at < 0:
            return at
        ends[tree] = at
        if grammar.copying and tree < width - 1:
            previous = known
            known = level_order(nodes.level, begin, at, order, known)
            for position in range(previous, known):
                told[position] = nodes.value[order[position]]
    return kind


@compiled
def _spell(nodes: Nodes, ends: Ints, grammar: Grammar, digits: bool, tokens: Ints) -> int:
    """Write the tokens of an example to the end of `tokens`. Returns where they begin.

    The nodes are visited in reverse post-order, which gives the tokens from last to first: a list's `]`, its arguments,
    then its operator.
    """
    delimiter = 10 + len(grammar.operators)
    closing, copy = delimiter + 1, delimiter + 2
    opened, left = np.empty(grammar.cap + 2, np.int64), np.empty(grammar.cap + 2, np.int64)
    begin = len(tokens)
    for tree in range(len(ends) - 1, -1, -1):
        level = 0
        for node in range(ends[tree] - 1, (ends[tree - 1] if tree else 0) - 1, -1):
            if nodes.arity[node]:
                begin -= 1
                tokens[begin] = closing
                opened[level], left[level] = nodes.symbol[node], nodes.arity[node]
                level += 1
                continue
            quoted = nodes.quoted[node]
            if quoted >= 0:
                begin -= 1
                tokens[begin] = closing
                if digits or quoted < 10:
                    while True:
                        begin -= 1
                        tokens[begin] = quoted % 10
                        quoted //= 10
                        if quoted == 0:
                            break
                else:
                    begin -= 1
                    tokens[begin] = copy + quoted - 9
            begin -= 1
            tokens[begin] = copy if nodes.quoted[node] >= 0 else nodes.symbol[node]
            while level:
                left[level - 1] -= 1
                if left[level - 1]:
                    break
                level -= 1
                begin -= 1
                tokens[begin] = opened[level]
        if tree:
            begin -= 1
            tokens[begin] = delimiter
    return begin


@compiled
def scan(
    key: np.uint64, first: int, count: int, table: Ints, upto: Floats, grammar: Grammar, references: int, digits: bool,
    code: Ints,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64], npt.NDArray[np.int64], bool]:  # fmt: skip
    """Number, content key and kind of each accepted draw; the last result is False if a token has no code."""
    numbers, bins, keys = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.uint64)
    room = 1024
    nodes, order, told = _nodes(room), np.empty(room, np.int64), np.empty(room, np.int64)
    tokens = np.empty(10 * room, np.int64)
    ends = np.zeros(table.shape[1] // 2, np.int64)
    kept = 0
    for number in range(first, first + count):
        kind = _draw(key, number, table, upto, grammar, references, nodes, order, told, ends)
        while kind == TOO_SMALL:
            room *= 2
            nodes, order, told = _nodes(room), np.empty(room, np.int64), np.empty(room, np.int64)
            tokens = np.empty(10 * room, np.int64)
            kind = _draw(key, number, table, upto, grammar, references, nodes, order, told, ends)
        if kind == UNDECIDED:
            continue
        content = KEY_SEED
        for position in range(_spell(nodes, ends, grammar, digits, tokens), len(tokens)):
            if tokens[position] >= len(code):
                return numbers[:0], keys[:0], bins[:0], False
            content = absorb(content, code[tokens[position]])
        numbers[kept], keys[kept], bins[kept] = number, mix(content), kind
        kept += 1
    return numbers[:kept].copy(), keys[:kept].copy(), bins[:kept].copy(), True


@compiled
def build(
    key: np.uint64, numbers: Ints, first: int, token_start: Ints, start: Ints, tokens: Ints, symbol: Ints,
    parent: Ints, link: Ints, values: Ints, table: Ints, upto: Floats, grammar: Grammar, references: int, digits: bool,
) -> int:  # fmt: skip
    """Write these draws to the arrays, from row `first` on. Returns the number of rows that fit."""
    width = table.shape[1] // 2
    room = 1024
    nodes, order, told = _nodes(room), np.empty(room, np.int64), np.empty(room, np.int64)
    spelled = np.empty(10 * room, np.int64)
    ends = np.zeros(width, np.int64)
    open_ = np.empty(2 * (grammar.cap + 1) * (grammar.integers + 1), np.int64)  # nodes that wait for their parents
    for row in range(first, len(numbers)):
        while _draw(key, numbers[row], table, upto, grammar, references, nodes, order, told, ends) == TOO_SMALL:
            room *= 2
            nodes, order, told = _nodes(room), np.empty(room, np.int64), np.empty(room, np.int64)
            spelled = np.empty(10 * room, np.int64)
        begin = _spell(nodes, ends, grammar, digits, spelled)
        base, word, size = start[row * width], token_start[row], len(spelled) - begin
        if base + ends[width - 1] > len(symbol) or word + size > len(tokens):
            return row
        for position in range(size):
            tokens[word + position] = spelled[begin + position]
        token_start[row + 1] = word + size
        tree, foot, high = 0, 0, 0
        for node in range(ends[width - 1]):
            symbol[base + node], values[base + node] = nodes.symbol[node], nodes.value[node]
            link[base + node] = node - order[nodes.quoted[node]] if nodes.quoted[node] >= 0 else 0
            for argument in range(high - nodes.arity[node], high):
                parent[base + open_[argument]] = node - foot
            high -= nodes.arity[node]
            open_[high] = node
            high += 1
            if node == ends[tree] - 1:
                parent[base + node] = -1
                start[row * width + tree + 1] = base + node + 1
                tree, foot, high = tree + 1, node + 1, 0
    return len(numbers)
