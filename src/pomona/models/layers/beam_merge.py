"""Beam search over trees that are built from the bottom up, easiest pair first, for many sentences at once.

    beams = Beams(tokens, start, size, leaves)           # one beam a sentence: the sentence itself
    scores = ...                                         # of beams.pairs, which are pairs of words
    while not beams.finished:
        nodes, pairs = beams.merge(scores, noise)        # one more merge in every beam
        ...                                              # children of new nodes, new pairs: [n, 2] each;
        scores = ...                                     # compute the vectors of the nodes, then score the pairs
    beams.total, beams.root                              # [sentences, size]: log p (-inf: no beam), root

A beam is a row of nodes. Each pair of neighbours (l, r) has a score e(l, r), and log p of merging it is its log-softmax
among the pairs of the beam. Every beam proposes its `size` best merges, and the `size` best proposals of a sentence, by
the sum of log p over all of their merges, are its next beams. With Gumbel noise both choices are samples.

Beams differ in few places, and sentences have much in common. So a node (the same two children, by number) is computed
once in a batch and a pair is scored once, wherever they stand. `derivative` passes the gradient of the sums of log p on
to the scores, one number for each distinct pair, along the merges of the beams that are left in the end.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Floats, Ints
from pomona.base.compiled import compiled
from pomona.models.layers.stack_parser import pair_of

_NODES, _PAIRS, _KEPT = range(3)  # places in the array of counts


class _Known(NamedTuple):
    """Distinct pairs and nodes of a batch, and the merges of all beams, as the compiled loops need them."""

    start: Ints  # where each sentence begins
    counts: Ints  # nodes, pairs, pairs of `before`
    drawn: Ints  # [sentences]: the next number of noise
    table: Ints  # hash table of pairs
    children: npt.NDArray[np.int64]  # [pairs, 2]
    score: Floats  # of every pair
    node: Ints  # of every pair; -1 if it was never merged
    made: Ints  # the pair of every node
    height: npt.NDArray[np.int64]  # of every node, from 0
    link: Ints  # [merges of all beams, 2]: the beam before the merge, and the pair that was merged
    at: Ints  # [sentences, rounds, 3]: links begin at, pairs of the beams before begin at, how many beams there were
    before: Ints  # pairs of the beams before each merge


class Beams:
    """The beams of many sentences, which merge in step."""

    def __init__(self, tokens: Ints, start: Ints, size: int, leaves: int, *, keep: bool) -> None:
        lengths = np.diff(start)
        words = int(lengths.sum())
        pairs = (2 * size + 1) * words
        slots = 16
        while slots < 2 * pairs:
            slots *= 2
        self.size, self.leaves, self.most = size, leaves, size * words
        self.total = np.full((len(lengths), size), -np.inf)
        self.total[:, 0] = 0
        self._count = np.ones(len(lengths), np.int64)  # beams of each sentence
        self._round, self._rounds, self._keep = 0, int(lengths.max(initial=1)) - 1, keep
        noise = _draws(lengths, size)
        self.draws = int(noise.sum())  # the most numbers of noise that are needed
        self._rows = np.empty((2, size * words), np.int64)  # nodes and, in the same places, pairs of all beams
        kept = size * int((lengths * (lengths + 1) // 2).sum()) if keep else 0
        self._known = _Known(
            np.asarray(start, np.int64), np.zeros(3, np.int64), np.cumsum(noise) - noise,
            np.full(slots, -1, np.int64), np.empty((pairs, 2), np.int64), np.zeros(pairs),
            np.full(pairs, -1, np.int64), np.empty(self.most, np.int64), np.zeros(self.most, np.int64),
            np.empty((self.most if keep else 0, 2), np.int64),
            np.zeros((len(lengths), self._rounds if keep else 0, 3), np.int64), np.empty(kept, np.int64),
        )  # fmt: skip

        _begin(np.asarray(tokens, np.int64), self._known, size, self._rows)

    def merge(self, scores: Floats, noise: Floats) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Merge once in every beam, with the scores of the newest pairs: the children of new nodes, and new pairs.

        `noise` has `draws` numbers, the same array each time; if it is empty, there is none.
        """
        known = self._known
        nodes, pairs = known.counts[_NODES], known.counts[_PAIRS]
        known.score[pairs - len(scores) : pairs] = scores
        self._rows, self.total = _merge(
            known, self._count, self._rows, self.total, noise, self._round, self.leaves, self._keep
        )
        self._round += 1
        return known.children[known.made[nodes : known.counts[_NODES]]], known.children[pairs : known.counts[_PAIRS]]

    @property
    def finished(self) -> bool:
        """Whether every beam is a single node."""
        return self._round == self._rounds

    @property
    def root(self) -> npt.NDArray[np.int64]:
        """[sentences, beams]: the node that each beam has become; any node where there is no beam."""
        start = self._known.start
        length = np.diff(start)[:, None]
        number = np.minimum(np.arange(self.size), self._count[:, None] - 1)
        roots: npt.NDArray[np.int64] = self._rows[0, self.size * start[:-1, None] + number * length]
        return roots

    @property
    def height(self) -> npt.NDArray[np.int64]:
        """The height of each node in the order of computing, from 0."""
        return self._known.height[: self._known.counts[_NODES]]

    @property
    def pairs(self) -> npt.NDArray[np.int64]:
        """The children of every pair, [pairs, 2]."""
        return self._known.children[: self._known.counts[_PAIRS]]

    def derivative(self, gradient: Floats) -> npt.NDArray[np.float64]:
        """The gradient of the score of every pair, from that of `total`, [sentences, beams]."""
        return _derivative(self._known, self._count, np.ascontiguousarray(gradient, np.float64), False)

    def used(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The numbers of the pairs that `total` depends on, and of the nodes below them and below the roots."""
        pairs = np.flatnonzero(_derivative(self._known, self._count, np.ones(self.total.shape), True))
        return pairs, np.flatnonzero(_below(self._known, pairs, self.root, self.leaves))

    def trees(self, beam: Ints) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """The shift-reduce steps of a beam of each sentence, and the node at each step."""
        roots = self.root[np.arange(len(beam)), beam]
        return _steps_of_roots(self._known, roots, self.leaves)


def _draws(lengths: Ints, size: int) -> npt.NDArray[np.int64]:
    """How many numbers of noise sentences of these lengths need at most."""
    rounds = np.maximum(np.asarray(lengths, np.int64) - 2, 0)  # the last merge is no choice
    needed: npt.NDArray[np.int64] = size * (rounds * (rounds + 3) // 2) + size * size * rounds
    return needed


@compiled
def _begin(tokens: Ints, known: Any, size: int, rows: Ints) -> None:
    for sentence in range(len(known.start) - 1):
        first, last = known.start[sentence], known.start[sentence + 1]
        base = size * first
        for position in range(last - first):
            rows[0, base + position] = tokens[first + position]
            if position:
                rows[1, base + position - 1] = _pair(known, tokens[first + position - 1], tokens[first + position])


@compiled
def _pair(known: Any, first: int, second: int) -> int:
    """The number of a pair, which may be new."""
    pair = pair_of(first, second, known.table, known.children, known.counts[1])
    if pair == known.counts[1]:
        known.counts[1] += 1
    return pair


@compiled
def _merged(known: Any, pair: int, leaves: int) -> int:
    """The node that a pair becomes, which may be new."""
    if known.node[pair] < 0:
        new = known.counts[0]
        known.node[pair], known.made[new] = leaves + new, pair
        known.counts[0] += 1
        for child in known.children[pair]:
            if child >= leaves:
                known.height[new] = max(known.height[new], known.height[child - leaves] + 1)
    return int(known.node[pair])


@compiled
def _insert(best: Floats, chosen: Ints, filled: int, value: float, number: int) -> int:
    """Keep a number among the best ones, in falling order of value; of equal ones the earlier is the better."""
    place = filled
    while place and value > best[place - 1]:
        place -= 1
    if place == len(best):
        return filled
    for other in range(min(filled, len(best) - 1), place, -1):
        best[other], chosen[other] = best[other - 1], chosen[other - 1]
    best[place], chosen[place] = value, number
    return min(filled + 1, len(best))


@compiled
def _log_sum(pairs: Ints, score: Floats) -> float:
    highest, total = -np.inf, 0.0
    for pair in pairs:
        highest = max(highest, score[pair])
    for pair in pairs:
        total += np.exp(score[pair] - highest)
    return float(highest + np.log(total))


@compiled
def _merge(
    known: Any, count: Ints, rows: Ints, total: Floats, noise: Floats, done: int, leaves: int, keep: bool
) -> tuple[Any, Any]:
    """One merge in every beam that has two nodes or more."""
    size = total.shape[1]
    new_rows, new_total = rows.copy(), total.copy()
    best, chosen = np.empty(size), np.empty(size, np.int64)
    proposed, place = np.empty(size * size), np.empty((size * size, 2), np.int64)
    for sentence in range(len(count)):
        length = known.start[sentence + 1] - known.start[sentence]
        left = length - done - 1  # pairs of each beam
        if left < 1:
            continue
        base = size * known.start[sentence]
        proposals = 0
        for beam in range(count[sentence]):
            pairs = rows[1, base + beam * length : base + beam * length + left]
            log_sum = _log_sum(pairs, known.score) if left > 1 else known.score[pairs[0]]
            filled = 0
            for position in range(left):
                value = known.score[pairs[position]] - log_sum
                if left > 1 and len(noise):
                    value += noise[known.drawn[sentence]]
                    known.drawn[sentence] += 1
                filled = _insert(best, chosen, filled, value, position)
            for number in range(filled):
                place[proposals, 0], place[proposals, 1] = beam, chosen[number]
                proposed[proposals] = total[sentence, beam] + known.score[pairs[chosen[number]]] - log_sum
                proposals += 1
        filled = min(size, proposals)
        if proposals > size:
            filled = 0
            for number in range(proposals):
                value = proposed[number]
                if len(noise):
                    value += noise[known.drawn[sentence]]
                    known.drawn[sentence] += 1
                filled = _insert(best, chosen, filled, value, number)
        else:
            for number in range(proposals):
                chosen[number] = number
        if keep:
            kept = known.counts[2]
            known.at[sentence, done, 0], known.at[sentence, done, 1] = size * (known.start[sentence] + done), kept
            known.at[sentence, done, 2] = count[sentence]
            for beam in range(count[sentence]):
                for position in range(left):
                    known.before[kept] = rows[1, base + beam * length + position]
                    kept += 1
            known.counts[2] = kept
        for number in range(filled):
            beam, position = place[chosen[number], 0], place[chosen[number], 1]
            old, new = base + beam * length, base + number * length
            pair = rows[1, old + position]
            if keep:
                link = known.link[size * (known.start[sentence] + done) + number]
                link[0], link[1] = beam, pair
            new_total[sentence, number] = proposed[chosen[number]]
            for other in range(left):
                source = old + other + (1 if other > position else 0)
                new_rows[0, new + other], new_rows[1, new + other] = rows[0, source], rows[1, source]
            node = _merged(known, pair, leaves)
            new_rows[0, new + position] = node
            if position:
                new_rows[1, new + position - 1] = _pair(known, new_rows[0, new + position - 1], node)
            if position + 1 < left:
                new_rows[1, new + position] = _pair(known, node, new_rows[0, new + position + 1])
        count[sentence] = filled
    return new_rows, new_total


@compiled
def _derivative(known: Any, count: Ints, gradient: Floats, reached: bool) -> npt.NDArray[np.float64]:
    """The gradient of every score; if `reached`, 1 for every pair that the totals depend on."""
    size = gradient.shape[1]
    out = np.zeros(known.counts[1])
    for sentence in range(len(count)):
        length = known.start[sentence + 1] - known.start[sentence]
        after = gradient[sentence].copy()
        beams = count[sentence]
        for done in range(length - 2, -1, -1):
            links, kept = known.at[sentence, done, 0], known.at[sentence, done, 1]
            parents = known.at[sentence, done, 2]
            left = length - done - 1
            before = np.zeros(size)
            for number in range(beams):
                before[known.link[links + number, 0]] += after[number]
                if left > 1 and not reached:
                    out[known.link[links + number, 1]] += after[number]
            for parent in range(parents):
                pairs = known.before[kept + parent * left : kept + (parent + 1) * left]
                if before[parent] == 0 or left == 1:
                    continue
                log_sum = _log_sum(pairs, known.score)
                for pair in pairs:
                    if reached:
                        out[pair] = 1
                    else:
                        out[pair] -= before[parent] * np.exp(known.score[pair] - log_sum)
            after, beams = before, parents
    return out


@compiled
def _below(known: Any, pairs: Ints, roots: Ints, leaves: int) -> npt.NDArray[np.bool_]:
    """Which nodes are children of these pairs, roots, or below one of them."""
    used = np.zeros(known.counts[0], np.bool_)
    for pair in pairs:
        for child in known.children[pair]:
            if child >= leaves:
                used[child - leaves] = True
    for root in roots.ravel():
        if root >= leaves:
            used[root - leaves] = True
    for node in range(len(used) - 1, -1, -1):  # children have lower numbers
        if used[node]:
            for child in known.children[known.made[node]]:
                if child >= leaves:
                    used[child - leaves] = True
    return used


@compiled
def _steps_of_roots(known: Any, roots: Ints, leaves: int) -> tuple[Any, Any]:
    total = 2 * known.start[-1] - len(roots)
    steps, node_at = np.zeros(total, np.uint8), np.empty(total, np.int64)
    stack = np.empty(total + 1, np.int64)
    at = total
    for sentence in range(len(roots) - 1, -1, -1):  # backwards: a node, then its right and its left subtree
        stack[0], high = roots[sentence], 1
        while high:
            high -= 1
            node = stack[high]
            at -= 1
            node_at[at] = node
            if node >= leaves:
                steps[at] = 1
                pair = known.made[node - leaves]
                stack[high], stack[high + 1] = known.children[pair, 0], known.children[pair, 1]
                high += 2
    return steps, node_at
