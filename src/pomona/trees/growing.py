"""Random trees of a given height, drawn without rejection from the distribution that rejection would give.

ORCHARD's generator gives an operator two children. Each child is an operator with probability p (`branching`), else a
terminal. The generator draws whole trees until one has the wanted height. With R levels left to grow, let

    G_R(h) = P(height <= h) = ((1 - p) + p G_{R-1}(h-1))^2        G_R(0) = 0,  G_R(h) = 1 for h >= R

A child with R levels has height 0 (a terminal) with probability 1 - p, and height k with probability
p (G_R(k) - G_R(k-1)). A tree of height h is an operator whose children have heights (a, b) with max(a, b) = h - 1. The
pair is drawn with the product of these probabilities as its weight; then each child grows in the same way. No draw is
rejected, and the distribution of the trees is the generator's.

`grow_decided` grows trees of a given height *and* dependency depth e: the number of operators between the root and the
digits that decide the answer. For FIRST and LAST the shape alone tells which digits decide. P(height = h, dependency =
e) then has a similar recursion, and the distribution is again that of rejection. For MIN, MAX and MED the values matter
too. Here the deciding path is drawn first, with the shapes of FIRST and LAST; then, from the bottom up, its siblings
are drawn until the path decides. `rules.close` evaluates every list on the path, so the dependency depth is exact for
all operators. The distribution is not that of rejection, which would weight each shape by the chance that its values
let the path decide.

A tree is stored in post-order. The entry of a node holds its symbol, number of arguments, level, value and dependency
depth. That of a COPY also holds the position it quotes; a COPY counts as a digit, so the dependency depth counts only
operators of the tree itself. No entry refers to another, so concatenating the entries joins trees.
"""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Floats, Ints
from pomona.base.compiled import compiled, inlined
from pomona.base.randomness import below, mix
from pomona.trees.rules import apply, close

TOO_SMALL, UNDECIDED = -1, -2  # returned instead of the end position
SHAPES, VALUES, DEPENDENCIES = range(3)
_GUIDE = 5  # bits
PATIENCE = 400  # tries to draw siblings that let the chosen path decide
_32 = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


class Heights(NamedTuple):
    """For each (R, h, e), the pairs of children's heights with cumulative weights; e = 0 allows any dependency."""

    first: npt.NDArray[np.int64]  # [R, h, e]: where its pairs begin; one more entry in the last axis ends them
    left: npt.NDArray[np.int64]
    right: npt.NDArray[np.int64]
    upto: npt.NDArray[np.float64]
    guide: npt.NDArray[np.int64]  # [R, h, first bits of a random number]: where to begin the search, for e = 0


class Grammar(NamedTuple):
    """What to grow: the table of heights, and what operators and terminals hold."""

    heights: Heights
    cap: int
    unary: bool  # whether an operator on the last level has one child
    operators: npt.NDArray[np.int64]  # the numbers of their rules
    integers: int  # a terminal holds 1 to this many integers
    copying: np.uint64  # times 2**-32: the probability that a terminal quotes, where it can
    worked_out: int  # compute SHAPES only, also VALUES, or also DEPENDENCIES


class Nodes(NamedTuple):
    """Buffers for the nodes of an example."""

    symbol: npt.NDArray[np.int64]
    arity: npt.NDArray[np.int64]
    level: npt.NDArray[np.int64]
    quoted: npt.NDArray[np.int64]
    value: npt.NDArray[np.int64]
    rest: npt.NDArray[np.int64]


def height_distribution(cap: int, branching: float) -> npt.NDArray[np.float64]:
    """P(height = h) of a tree with `cap` levels, at [h]; it is 0 for h = 0.

    >>> height_distribution(6, 0.5).round(4).tolist()
    [0.0, 0.25, 0.1406, 0.0928, 0.0667, 0.0506, 0.3992]
    """
    return np.diff(_at_most(cap, branching)[cap], prepend=0.0)


def _at_most(cap: int, branching: float) -> npt.NDArray[np.float64]:
    """G_R(h) at [R, h]."""
    at_most = np.ones((cap + 1, cap + 1))
    at_most[1:, 0] = 0.0
    for levels in range(2, cap + 1):
        for height in range(1, levels):
            at_most[levels, height] = ((1 - branching) + branching * at_most[levels - 1, height - 1]) ** 2
    return at_most


@lru_cache(maxsize=64)
def heights(cap: int, branching: float, unary: bool) -> Heights:
    """The table for trees of up to `cap` levels."""
    at_most = _at_most(cap, branching)
    child = np.zeros((cap + 1, cap + 1))  # [R, k]: probability that a child with R levels has height k
    child[0, 0] = 1.0
    decided = np.zeros((cap + 1, cap + 1, cap + 1))  # [R, k, e]: and depends on e operators (FIRST and LAST)
    decided[0, 0, 0] = 1.0
    first = np.zeros((cap + 1, cap + 1, cap + 2), np.int64)
    left: list[int] = []
    right: list[int] = []
    upto: list[float] = []
    for levels in range(1, cap + 1):
        child[levels, 0] = decided[levels, 0, 0] = 1 - branching
        child[levels, 1:] = branching * np.diff(at_most[levels])
        for height in range(cap + 1):
            for rest in range(cap + 1):
                first[levels, height, rest] = len(left)
                if not 0 < height <= levels or rest > height:
                    continue
                pairs = [(a, height - 1) for a in range(height)] + [(height - 1, b) for b in range(height - 1)]
                if levels == 1 and unary:
                    pairs = [(0, -1)]  # one child, which decides
                weights = np.array([
                    (decided[levels - 1, a, rest - 1] if rest else child[levels - 1, a])
                    * (child[levels - 1, b] if b >= 0 else 1.0)
                    for a, b in pairs
                ])  # fmt: skip
                if rest:
                    decided[levels, height, rest] = branching * weights.sum()
                if weights.sum() > 0:
                    order = np.argsort(-weights, kind="stable")  # likeliest first, to shorten the search
                    left += [pairs[choice][0] for choice in order]
                    right += [pairs[choice][1] for choice in order]
                    upto += list(np.cumsum(weights[order]) / weights.sum())
            first[levels, height, cap + 1] = len(left)
    guide = np.zeros((cap + 1, cap + 1, 1 << _GUIDE), np.int64)
    least = np.arange(1 << _GUIDE) / (1 << _GUIDE)  # the least random number with these bits
    for levels, height in itertools.product(range(1, cap + 1), repeat=2):
        low, high = first[levels, height, :2].tolist()
        if low < high:
            guide[levels, height] = low + np.minimum(np.searchsorted(upto[low:high], least, "right"), high - low - 1)
    return Heights(first, np.array(left, np.int64), np.array(right, np.int64), np.array(upto), guide)


@inlined
def height_pair(table: Heights, levels: int, height: int, rest: int, half: np.uint64) -> int:
    """The pair of heights drawn with 32 random bits."""
    pair = int(table.first[levels, height, rest])
    last = table.first[levels, height, rest + 1] - 1
    random = float(half) / 4294967296.0
    while pair < last and table.upto[pair] <= random:
        pair += 1
    return pair


@inlined
def any_pair(table: Heights, levels: int, height: int, half: np.uint64) -> int:
    """`height_pair` for any dependency depth, in fewer steps."""
    pair = int(table.guide[levels, height, half >> np.uint64(32 - _GUIDE)])
    last = table.first[levels, height, 1] - 1
    random = float(half) / 4294967296.0
    while pair < last and table.upto[pair] <= random:
        pair += 1
    return pair


@compiled
def _terminal(
    state: np.uint64, gamma: np.uint64, grammar: Grammar, level: int, low: int, high: int, told: Ints, nodes: Nodes,
    at: int,
) -> tuple[np.uint64, int]:  # fmt: skip
    """Write a terminal: integers, or a COPY of one of the positions low .. high-1, whose values are in `told`."""
    state += gamma
    word = mix(state)
    if low < high and (word >> _32) < grammar.copying:
        quoted = low + below(word & _LOW, high - low)
        nodes.symbol[at], nodes.arity[at], nodes.level[at] = 10 + len(grammar.operators), 0, level
        nodes.quoted[at], nodes.value[at], nodes.rest[at] = quoted, told[quoted], 0
        return state, at + 1
    for _ in range(1 + below(word & _LOW, grammar.integers)):
        state += gamma
        digit = below(mix(state) >> _32, 10)
        nodes.symbol[at], nodes.arity[at], nodes.level[at] = digit, 0, level
        nodes.quoted[at], nodes.value[at], nodes.rest[at] = -1, digit, 0
        at += 1
    return state, at


@compiled
def grow(
    state: np.uint64, gamma: np.uint64, grammar: Grammar, height: int, top: int, low: int, high: int, told: Ints,
    nodes: Nodes, at: int,
) -> tuple[np.uint64, int]:  # fmt: skip
    """Write a tree of this height, its root on level `top`, from position `at` on. Returns its end, or TOO_SMALL."""
    cap, count = grammar.cap, len(grammar.operators)
    if at + 2 * grammar.integers + cap + 2 > len(nodes.symbol):
        return state, TOO_SMALL
    if height == 0:
        return _terminal(state, gamma, grammar, top, low, high, told, nodes, at)
    operator = np.empty(cap + 1, np.int64)
    right = np.empty(cap + 1, np.int64)  # height of the right child while it waits, else -1
    began = np.empty(cap + 1, np.int64)  # where its arguments begin on the stacks
    room = (cap + 1) * (2 * grammar.integers + 1)
    value, ranked, rest = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    level, stacked, wanted = top, 0, height
    while True:
        if wanted > 0:
            state += gamma
            word = mix(state)
            pair = any_pair(grammar.heights, cap - level, wanted, word >> _32)
            operator[level] = below(word & _LOW, count)
            right[level], began[level] = grammar.heights.right[pair], stacked
            wanted = grammar.heights.left[pair]
            level += 1
            continue
        if at + 2 * grammar.integers + cap + 2 > len(nodes.symbol):
            return state, TOO_SMALL
        before = at
        state, at = _terminal(state, gamma, grammar, level, low, high, told, nodes, at)
        for node in range(before, at):
            value[stacked], rest[stacked] = nodes.value[node], nodes.rest[node]
            stacked += 1
        answer, deepest = 0, 0
        while level > top and right[level - 1] < 0:
            level -= 1
            first = began[level]
            if grammar.worked_out == DEPENDENCIES:
                answer, deepest = close(grammar.operators[operator[level]], value, rest, ranked, first, stacked)
            elif grammar.worked_out == VALUES:
                answer = apply(grammar.operators[operator[level]], value, first, stacked)
            nodes.symbol[at], nodes.arity[at], nodes.level[at] = 10 + operator[level], stacked - first, level
            nodes.quoted[at], nodes.value[at], nodes.rest[at] = -1, answer, deepest
            value[first], rest[first] = answer, deepest
            stacked = first + 1
            at += 1
        if level == top:
            return state, at
        wanted = right[level - 1]
        right[level - 1] = -1


@compiled
def _swap(column: Ints, first: int, middle: int, last: int) -> None:
    """Exchange the neighbouring runs first .. middle-1 and middle .. last-1."""
    saved = np.empty(middle - first, np.int64)
    for offset in range(middle - first):
        saved[offset] = column[first + offset]
    for offset in range(last - middle):
        column[first + offset] = column[middle + offset]
    for offset in range(middle - first):
        column[last - middle + first + offset] = saved[offset]


@compiled
def grow_decided(
    state: np.uint64, gamma: np.uint64, grammar: Grammar, height: int, depth: int, low: int, high: int, told: Ints,
    nodes: Nodes, at: int,
) -> tuple[np.uint64, int]:  # fmt: skip
    """Write a tree of this height and dependency depth from `at` on. Returns its end, TOO_SMALL or UNDECIDED."""
    cap, begin = grammar.cap, at
    beside = np.empty(depth, np.int64)
    for level in range(depth):  # from the root down: the height of the deciding path's sibling
        state += gamma
        pair = height_pair(grammar.heights, cap - level, height, depth - level, mix(state) >> _32)
        height, beside[level] = grammar.heights.left[pair], grammar.heights.right[pair]
    if at + 2 * grammar.integers + cap + 2 > len(nodes.symbol):
        return state, TOO_SMALL
    room = 2 * grammar.integers + 2
    value, ranked, rest = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    for level in range(depth - 1, -1, -1):
        middle, tries = at, 0
        while True:
            if tries == PATIENCE:
                return state, UNDECIDED
            tries += 1
            state += gamma
            word = mix(state)
            operator = below(word & _LOW, len(grammar.operators))
            before = (word >> _32) & np.uint64(1) == 0  # does the path come before its sibling?
            at = middle
            if level == depth - 1:  # the path ends in a terminal, drawn again with its sibling
                state, at = _terminal(state, gamma, grammar, level + 1, low, high, told, nodes, begin)
            split = at
            if beside[level] >= 0:
                state, at = grow(state, gamma, grammar, beside[level], level + 1, low, high, told, nodes, at)
                if at == TOO_SMALL:
                    return state, TOO_SMALL
            on_path = split - begin if level == depth - 1 else 1
            others = 0 if beside[level] < 0 else at - split if beside[level] == 0 else 1
            for argument in range(on_path):
                slot = argument if before else others + argument
                node = split - on_path + argument
                value[slot], rest[slot] = nodes.value[node], nodes.rest[node]
            for argument in range(others):
                slot = on_path + argument if before else argument
                node = at - others + argument
                value[slot], rest[slot] = nodes.value[node], nodes.rest[node]
            answer, deepest = close(grammar.operators[operator], value, rest, ranked, 0, on_path + others)
            if deepest == depth - level:
                break
        if not before:
            for column in (nodes.symbol, nodes.arity, nodes.level, nodes.quoted, nodes.value, nodes.rest):
                _swap(column, begin, split, at)
        nodes.symbol[at], nodes.arity[at], nodes.level[at] = 10 + operator, on_path + others, level
        nodes.quoted[at], nodes.value[at], nodes.rest[at] = -1, answer, deepest
        at += 1
    return state, at


@compiled
def level_order(level: Ints, first: int, last: int, order: Ints, at: int) -> int:
    """Write the nodes first .. last-1 of a tree to `order` from `at` on, level by level and from left to right."""
    deepest = 0
    for node in range(first, last):
        deepest = max(deepest, level[node])
    next_at = np.zeros(deepest + 2, np.int64)
    for node in range(first, last):
        next_at[level[node] + 1] += 1
    for row in range(1, deepest + 2):
        next_at[row] += next_at[row - 1]
    for node in range(first, last):  # post-order visits the nodes of a level from left to right
        order[at + next_at[level[node]]] = node
        next_at[level[node]] += 1
    return at + last - first


@compiled
def fill_bins(key: np.uint64, rows: int, width: int, upto: Floats, capacity: int) -> npt.NDArray[np.int64]:
    """Heights of trees, [rows, width], drawn as ORCHARD's generator fills its bins of equal capacity.

    A row of `width` heights is drawn again until every one fits into its bin. `upto` holds the cumulative probabilities
    of the bins; each of the `width` trees has its own bins.
    """
    heights_drawn = np.empty((rows, width), np.int64)
    counters = np.zeros((width, len(upto)), np.int64)
    state, kept = key, 0
    while kept < rows:
        all_fit = True
        for tree in range(width):
            state += np.uint64(0x9E3779B97F4A7C15)
            random = float(mix(state) >> _32) / 4294967296.0
            row = 0
            while row < len(upto) - 1 and upto[row] <= random:
                row += 1
            heights_drawn[kept, tree] = row
            all_fit = all_fit and counters[tree, row] < capacity
        if all_fit:
            for tree in range(width):
                counters[tree, heights_drawn[kept, tree]] += 1
            kept += 1
    return heights_drawn
