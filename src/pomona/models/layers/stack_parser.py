"""Shift-reduce parsing of many sentences at once, in which equal pairs and equal nodes are computed once.

    stacks = Stacks(tokens, start, sentences, leaves)    # one stack for each tree; a sentence may have several trees
    while (asked := stacks.advance(draws)) is not None:
        nodes, pairs = asked                             # children of new nodes, new pairs to be scored: [n, 2] each
        ...                                              # compute the vectors of the nodes, then score the pairs
        stacks.answer(logits of these pairs)
    stacks.steps, stacks.node_at, stacks.root, stacks.height
    stacks.choices                                       # (pair, action, tree) of every step with a choice

The policy sees the two topmost nodes (l, r) of the stack: whether they are reduced depends on nothing else. So a pair
is scored once in a batch, wherever it stands. With fewer than two nodes on the stack a word is shifted, without words
left the topmost two are reduced; these steps are no choices. Each tree advances until it needs the score of a new pair,
or the node above a node that is itself new; then all new nodes and pairs of all trees are computed together.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Bytes, Floats, Ints
from pomona.base.compiled import compiled

_NODES, _COMPUTED, _PAIRS, _CHOICES, _ASKED = range(5)  # places in the array of counts


class Stacks:
    """The stacks of many trees, advanced together."""

    def __init__(self, tokens: Ints, start: Ints, sentences: Ints, leaves: int) -> None:
        lengths = np.diff(start)[sentences]
        self.start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        self.first = np.asarray(start, np.int64)[sentences]
        self.tokens, self.leaves = np.asarray(tokens, np.int64), leaves
        total = int(2 * lengths.sum() - len(lengths))
        size = 16
        while size < 2 * total:
            size *= 2
        self.steps = np.zeros(total, np.uint8)
        self.node_at = np.empty(total, np.int64)
        self._where = np.zeros((len(lengths), 3), np.int64)  # height of the stack, next token, next step
        self._stack = np.empty(int(lengths.sum()), np.int64)
        self._table = np.full(size, -1, np.int64)
        self._children = np.empty((total, 2), np.int64)  # of every pair
        self._logit = np.empty(total)
        self._scored = np.zeros(total, np.uint8)  # 1 when the score was asked for, 2 when it is there
        self._node = np.full(total, -1, np.int64)  # of every pair; -1 if it was never reduced
        self._made = np.empty(total, np.int64)  # the pair of every node
        self._height = np.zeros(total, np.int64)
        self._chosen = np.empty((total, 3), np.int64)
        self._asked = np.empty(total, np.int64)
        self._counts = np.zeros(5, np.int64)

    def advance(self, draws: Floats) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None:
        """Advance every tree as far as it comes: the children of the nodes and the pairs that are needed now; None if
        all trees are finished. A step with the draw u reduces if u < P(reduce); if u is below 0, if P(reduce) > 1/2.
        """
        counts = self._counts
        counts[_COMPUTED], counts[_ASKED] = counts[_NODES], 0
        before = counts[_NODES]
        _advance(
            self.tokens, self.start, self.first, draws, self.leaves, counts, self._where, self._stack, self.steps,
            self.node_at, self._table, self._children, self._logit, self._scored, self._node, self._made,
            self._height, self._chosen, self._asked,
        )  # fmt: skip
        if counts[_NODES] == before and not counts[_ASKED]:
            return None
        made = self._made[before : counts[_NODES]]
        return self._children[made], self._children[self._asked[: counts[_ASKED]]]

    def answer(self, logits: Floats) -> None:
        """The logits of P(reduce) of the pairs that were asked for."""
        asked = self._asked[: self._counts[_ASKED]]
        self._logit[asked], self._scored[asked] = logits, 2

    @property
    def most(self) -> int:
        """The most nodes there can be."""
        return len(self._stack) - len(self.first)

    @property
    def root(self) -> npt.NDArray[np.int64]:
        """The last node of each tree."""
        return self._stack[self.start[:-1]]

    @property
    def height(self) -> npt.NDArray[np.int64]:
        """The height of each node in the order of computing, from 0."""
        return self._height[: self._counts[_NODES]]

    @property
    def nodes(self) -> npt.NDArray[np.int64]:
        """The children of each node in the order of computing, [nodes, 2]."""
        return self._children[self._made[: self._counts[_NODES]]]

    @property
    def pairs(self) -> npt.NDArray[np.int64]:
        """The children of every pair, [pairs, 2]."""
        return self._children[: self._counts[_PAIRS]]

    @property
    def choices(self) -> npt.NDArray[np.int64]:
        """The steps with a choice, [choices, 3]: pair, action (1 for reduce) and tree."""
        return self._chosen[: self._counts[_CHOICES]]


@compiled
def pair_of(first: int, second: int, table: Ints, children: Ints, pairs: int) -> int:
    """The number of a pair: one of the first `pairs`, or else a new one, which is written down."""
    mixed = np.uint64(first) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(second)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    slot = np.int64((mixed >> np.uint64(32)) & np.uint64(len(table) - 1))
    while table[slot] >= 0:
        if children[table[slot], 0] == first and children[table[slot], 1] == second:
            return int(table[slot])
        slot = (slot + 1) & (len(table) - 1)
    table[slot] = pairs
    children[pairs, 0], children[pairs, 1] = first, second
    return pairs


@compiled
def _advance(
    tokens: Ints, start: Ints, origin: Ints, draws: Floats, leaves: int, counts: Ints, where: Ints, stack: Ints,
    steps: Bytes, node_at: Ints, table: Ints, children: Ints, logit: Floats, scored: Bytes, node: Ints, made: Ints,
    height: Ints, chosen: Ints, asked: Ints,
) -> None:  # fmt: skip
    """Advance every tree until it waits for a score or a vector, or is finished."""
    known = leaves + counts[1]  # nodes below this have vectors
    for tree in range(len(origin)):
        length = start[tree + 1] - start[tree]
        mine = stack[start[tree] : start[tree + 1]]
        high, token, step = where[tree, 0], where[tree, 1], where[tree, 2]
        while step < 2 * length - 1:
            at = 2 * start[tree] - tree + step
            reduce, pair, choice = high > 1, -1, False
            if reduce:
                first, second = mine[high - 2], mine[high - 1]
                pair = pair_of(first, second, table, children, counts[2])
                if pair == counts[2]:
                    counts[2] += 1
                choice = token < length
                if choice:
                    if scored[pair] != 2:
                        if scored[pair] == 0:
                            scored[pair] = 1
                            asked[counts[4]] = pair
                            counts[4] += 1
                        break
                    gain = logit[pair]
                    reduce = gain > 0 if draws[at] < 0 else draws[at] * (1 + np.exp(-gain)) < 1
                if reduce and node[pair] < 0:
                    if first >= known or second >= known:
                        break  # a child is new itself
                    new = counts[0]
                    node[pair], made[new] = leaves + new, pair
                    counts[0] += 1
                    below = 0
                    if first >= leaves:
                        below = height[first - leaves] + 1
                    if second >= leaves:
                        below = max(below, height[second - leaves] + 1)
                    height[new] = below
            if choice:
                chosen[counts[3], 0], chosen[counts[3], 1], chosen[counts[3], 2] = pair, reduce, tree
                counts[3] += 1
            if reduce:
                high -= 1
                mine[high - 1] = node[pair]
            else:
                mine[high] = tokens[origin[tree] + token]
                high, token = high + 1, token + 1
            node_at[at] = mine[high - 1]
            steps[at] = reduce
            step += 1
        where[tree, 0], where[tree, 1], where[tree, 2] = high, token, step
