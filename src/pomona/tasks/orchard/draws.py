"""ORCHARD's examples by number: grown, spelled as tokens, written down. Compiled; what is drawn is `tasks.orchard`'s.

A *kind* is a row of a table: the depths of an example's trees, then the dependency depths that they must have (0: any).
Draw number n takes its kind and all else from the stream of that number, so `scan`, which only looks at draws, and
`build`, which writes the chosen ones down, see the same trees.
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
    """Draw `number`: its kind, with the trees in `nodes`, their ends in `ends`; or TOO_SMALL or UNDECIDED."""
    width = table.shape[1] // 2
    state, gamma = open_stream(key, number)
    state += gamma
    random = float(mix(state) >> np.uint64(11)) / 9007199254740992.0
    kind = min(int(np.searchsorted(upto, random, "right")), len(upto) - 1)
    none = int(table[0, 0]) * 0  # a literal 0 would have everything below compiled twice
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
            for place in range(previous, known):
                told[place] = nodes.value[order[place]]
    return kind


@compiled
def _spell(nodes: Nodes, ends: Ints, grammar: Grammar, digits: bool, tokens: Ints) -> int:
    """The tokens of an example, written to the end of `tokens`; where they begin.

    Post-order read backwards meets a list's `]` first and its operator after its arguments, so tokens come last first.
    """
    delimiter = 10 + len(grammar.operators)
    closing, copy = delimiter + 1, delimiter + 2
    opened, left = np.empty(grammar.cap + 2, np.int64), np.empty(grammar.cap + 2, np.int64)
    place = len(tokens)
    for tree in range(len(ends) - 1, -1, -1):
        level = 0
        for node in range(ends[tree] - 1, (ends[tree - 1] if tree else 0) - 1, -1):
            if nodes.arity[node]:
                place -= 1
                tokens[place] = closing
                opened[level], left[level] = nodes.symbol[node], nodes.arity[node]
                level += 1
                continue
            quoted = nodes.quoted[node]
            if quoted >= 0:
                place -= 1
                tokens[place] = closing
                if digits or quoted < 10:
                    while True:
                        place -= 1
                        tokens[place] = quoted % 10
                        quoted //= 10
                        if quoted == 0:
                            break
                else:
                    place -= 1
                    tokens[place] = copy + quoted - 9
            place -= 1
            tokens[place] = copy if nodes.quoted[node] >= 0 else nodes.symbol[node]
            while level:
                left[level - 1] -= 1
                if left[level - 1]:
                    break
                level -= 1
                place -= 1
                tokens[place] = opened[level]
        if tree:
            place -= 1
            tokens[place] = delimiter
    return place


@compiled
def scan(
    key: np.uint64, first: int, count: int, table: Ints, upto: Floats, grammar: Grammar, references: int, digits: bool,
    code: Ints,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64], npt.NDArray[np.int64], bool]:  # fmt: skip
    """Number, content key and kind of each accepted draw; False where a token has no code yet."""
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
        for place in range(_spell(nodes, ends, grammar, digits, tokens), len(tokens)):
            if tokens[place] >= len(code):
                return numbers[:0], keys[:0], bins[:0], False
            content = absorb(content, code[tokens[place]])
        numbers[kept], keys[kept], bins[kept] = number, mix(content), kind
        kept += 1
    return numbers[:kept].copy(), keys[:kept].copy(), bins[:kept].copy(), True


@compiled
def build(
    key: np.uint64, numbers: Ints, first: int, token_start: Ints, start: Ints, tokens: Ints, symbol: Ints,
    parent: Ints, link: Ints, values: Ints, table: Ints, upto: Floats, grammar: Grammar, references: int, digits: bool,
) -> int:  # fmt: skip
    """The same draws again, this time written down from row `first` on; how many rows the arrays had room for."""
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
        for place in range(size):
            tokens[word + place] = spelled[begin + place]
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
