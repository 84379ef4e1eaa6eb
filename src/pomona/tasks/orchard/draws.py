"""Compiled drawing of ORCHARD's examples by number; `tasks.orchard.task` says what to draw.

A *kind* of example is a row of a table: the depths of its trees, then their dependency depths (0: any). All random
choices of draw number n come from the stream of that number. So `scan`, which only computes content keys, and `build`,
which writes the chosen draws to arrays, see the same trees.

Where any dependency depth will do, `scan_natural` and `build_natural` make the same choices and write each token and
node where it belongs as it is drawn, several times faster; the tests compare them with `scan` and `build`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Floats, Ints
from pomona.base.compiled import compiled
from pomona.base.letters import Place
from pomona.base.randomness import below, mix, open_stream
from pomona.data.corpus import KEY_SEED, absorb
from pomona.trees.growing import TOO_SMALL, UNDECIDED, Grammar, Nodes, any_pair, grow, grow_decided, level_order
from pomona.trees.rules import MAX, MIN, apply

_11, _32, _LOW = np.uint64(11), np.uint64(32), np.uint64(0xFFFFFFFF)


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


@compiled
def scan_natural(
    key: np.uint64, first: int, count: int, table: Ints, upto: Floats, grammar: Grammar, references: int, digits: bool,
    code: Ints,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64], npt.NDArray[np.int64], bool]:  # fmt: skip
    """`scan` where dependency depths do not matter."""
    numbers, bins, keys = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.uint64)
    width, cap, heights, copying = table.shape[1] // 2, grammar.cap, grammar.heights, grammar.copying
    operators, integers = len(grammar.operators), grammar.integers
    delimiter = 10 + operators
    closing, copy = delimiter + 1, delimiter + 2
    right = np.empty(cap + 1, np.int64)  # height of the right child while it waits, else -1
    for number in range(first, first + count):
        state, gamma = open_stream(key, number)
        state += gamma
        kind = min(int(np.searchsorted(upto, float(mix(state) >> _11) / 9007199254740992.0, "right")), len(upto) - 1)
        content = KEY_SEED
        known, previous, size_of_first = 0, 0, 0
        for tree in range(width):
            low = previous if references == 1 else 0
            high = size_of_first if references == 2 and tree else known
            level, wanted, size = 0, table[kind, tree], 0
            if tree:
                content = absorb(content, code[delimiter])
            while True:
                state += gamma
                word = mix(state)
                if wanted > 0:
                    pair = any_pair(heights, cap - level, wanted, word >> _32)
                    content = absorb(content, code[Place(10 + below(word & _LOW, operators))])
                    right[Place(level)], wanted = heights.right[Place(pair)], heights.left[Place(pair)]
                    level, size = level + 1, size + 1
                    continue
                if low < high and (word >> _32) < copying:
                    quoted = low + below(word & _LOW, high - low)
                    content = absorb(content, code[copy])
                    if digits or quoted < 10:
                        unit = 1
                        while unit * 10 <= quoted:
                            unit *= 10
                        while unit:
                            content = absorb(content, code[quoted // unit % 10])
                            unit //= 10
                    elif copy + quoted - 9 < len(code):
                        content = absorb(content, code[copy + quoted - 9])
                    else:
                        return numbers[:0], keys[:0], bins[:0], False
                    content = absorb(content, code[closing])
                    size += 1
                else:
                    for _ in range(1 + below(word & _LOW, integers)):
                        state += gamma
                        content = absorb(content, code[Place(below(mix(state) >> _32, 10))])
                        size += 1
                while level and right[Place(level - 1)] < 0:
                    level -= 1
                    content = absorb(content, code[closing])
                if level == 0:
                    break
                wanted = right[level - 1]
                right[level - 1] = -1
            previous, known = known, known + size
            if tree == 0:
                size_of_first = size
        row = number - first
        numbers[row], keys[row], bins[row] = number, mix(content), kind
    return numbers, keys, bins, True


@compiled
def build_natural(
    key: np.uint64, numbers: Ints, first: int, token_start: Ints, start: Ints, tokens: Ints, symbol: Ints,
    parent: Ints, link: Ints, values: Ints, table: Ints, upto: Floats, grammar: Grammar, references: int, digits: bool,
) -> int:  # fmt: skip
    """`build` where dependency depths do not matter."""
    width, cap, heights, copying = table.shape[1] // 2, grammar.cap, grammar.heights, grammar.copying
    rules, integers = grammar.operators, grammar.integers
    operators = len(rules)
    delimiter = 10 + operators
    closing, copy = delimiter + 1, delimiter + 2
    right, operator, began = np.empty(cap + 1, np.int64), np.empty(cap + 1, np.int64), np.empty(cap + 1, np.int64)
    value = np.empty((cap + 2) * (2 * integers + 1), np.int64)  # of the nodes that wait for their parents
    waiting = np.empty(len(value), np.int64)
    levels, order = np.empty(1024, np.int64), np.empty(1024, np.int64)
    longest = cap + integers + 24  # tokens or nodes that one step can write
    for row in range(first, len(numbers)):
        state, gamma = open_stream(key, numbers[row])
        state += gamma
        kind = min(int(np.searchsorted(upto, float(mix(state) >> _11) / 9007199254740992.0, "right")), len(upto) - 1)
        base, token = start[row * width], token_start[row]
        node, known, previous, size_of_first = base, 0, 0, 0
        for tree in range(width):
            low = previous if references == 1 else 0
            high = size_of_first if references == 2 and tree else known
            level, wanted, foot, stacked = 0, table[kind, tree], node, 0
            while True:
                if token + longest > len(tokens) or node + longest > len(symbol):
                    return row
                if node - base + longest > len(levels):
                    levels, order = _doubled(levels), _doubled(order)
                state += gamma
                word = mix(state)
                if wanted > 0:
                    pair = any_pair(heights, cap - level, wanted, word >> _32)
                    which = below(word & _LOW, operators)
                    operator[Place(level)], began[Place(level)], tokens[Place(token)] = which, stacked, 10 + which
                    right[Place(level)], wanted = heights.right[Place(pair)], heights.left[Place(pair)]
                    level, token = level + 1, token + 1
                    continue
                if low < high and (word >> _32) < copying:
                    quoted = low + below(word & _LOW, high - low)
                    tokens[token] = copy
                    token += 1
                    if digits or quoted < 10:
                        unit = 1
                        while unit * 10 <= quoted:
                            unit *= 10
                        while unit:
                            tokens[token] = quoted // unit % 10
                            unit, token = unit // 10, token + 1
                    else:
                        tokens[token] = copy + quoted - 9
                        token += 1
                    tokens[token] = closing
                    token += 1
                    symbol[node], values[node] = delimiter, values[base + order[quoted]]
                    link[node], levels[node - base] = node - base - order[quoted], level
                    value[stacked], waiting[stacked] = values[node], node
                    node, stacked = node + 1, stacked + 1
                else:
                    for _ in range(1 + below(word & _LOW, integers)):
                        state += gamma
                        digit = below(mix(state) >> _32, 10)
                        tokens[Place(token)] = symbol[Place(node)] = values[Place(node)] = value[Place(stacked)] = digit
                        link[Place(node)], levels[Place(node - base)], waiting[Place(stacked)] = 0, level, node
                        token, node, stacked = token + 1, node + 1, stacked + 1
                while level and right[Place(level - 1)] < 0:
                    level -= 1
                    below_it, which = began[Place(level)], operator[Place(level)]
                    least = most = value[Place(below_it)]
                    for argument in range(below_it, stacked):
                        parent[Place(waiting[Place(argument)])] = node - foot
                        least, most = min(least, value[Place(argument)]), max(most, value[Place(argument)])
                    rule = rules[Place(which)]
                    answer = least if rule == MIN else most
                    if rule not in (MIN, MAX):
                        answer = apply(rule, value, below_it, stacked)
                    tokens[Place(token)], symbol[Place(node)], values[Place(node)] = closing, 10 + which, answer
                    link[Place(node)], levels[Place(node - base)] = 0, level
                    stacked = below_it
                    value[Place(stacked)], waiting[Place(stacked)] = answer, node
                    token, node, stacked = token + 1, node + 1, stacked + 1
                if level == 0:
                    break
                wanted = right[level - 1]
                right[level - 1] = -1
            parent[node - 1] = -1
            start[row * width + tree + 1] = node
            if tree == 0:
                size_of_first = node - foot
            if tree < width - 1:
                if copying:
                    previous, known = known, level_order(levels, foot - base, node - base, order, known)
                tokens[token] = delimiter
                token += 1
        token_start[row + 1] = token
    return len(numbers)


@compiled
def _doubled(column: Ints) -> npt.NDArray[np.int64]:
    larger = np.empty(2 * len(column), np.int64)
    larger[: len(column)] = column
    return larger
