"""The one door between NumPy and torch: rows of a corpus as tensors, with a schedule for their trees.

    sentences = Sentences.of(corpus, vocabulary, outcomes)     # the corpus in a model's own numbers, once
    for rows in bucketed(sentences.lengths, 64, key):          # batches of like length, in random order
        batch = Batch.of(sentences, rows)
        batch.tokens, batch.lengths, batch.targets             # [batch, length], [batch], [batch]
        batch.plan                                             # a level schedule over all trees, built when touched

A Plan computes the trees of a whole batch height by height. Subtrees that are equal (the same children, by number) are
one node, wherever they stand in the batch: values and gradients are those of computing each by itself, for a sixth less
work at 64 examples and half at all. Leaves are the rows of the vocabulary. Nodes of a height are consecutive, and so
are, for each side, those that are some node's child on that side: a projection of a height is one product of matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from pomona.base.arrays import Bytes, Ints
from pomona.base.compiled import compiled
from pomona.base.errors import FormatError, RunError
from pomona.data.corpus import Corpus
from pomona.trees.binary import binarise, from_transitions, transitions
from pomona.trees.forest import Forest, gather
from pomona.trees.values import renumber


@dataclass(frozen=True, eq=False)
class Sentences:
    """A corpus in the numbers of one model: tokens, answers (-1 where there is none) and binary trees."""

    tokens: npt.NDArray[np.int64]
    start: npt.NDArray[np.int64]
    targets: npt.NDArray[np.int64]
    steps: npt.NDArray[np.uint8]  # shift-reduce steps of the gold binary trees, 2n-1 a sentence
    vocabulary: tuple[str, ...]

    @classmethod
    def of(cls, corpus: Corpus, vocabulary: tuple[str, ...], outcomes: Sequence[Any]) -> Sentences:
        """The corpus, which must be classified sentences with one tree each over words the model knows."""
        if not len(corpus):
            raise RunError(f"{corpus!r} is empty: there is nothing to train on or to answer")
        if corpus.width != 1 or corpus.targets.shape[1] != 1:
            raise RunError(f"{corpus!r} has {corpus.width} trees an example; these models read one, with one answer")
        tokens = renumber(corpus.tokens, corpus.vocabulary, vocabulary)
        if tokens.min(initial=0) < 0:
            first = int(np.argmax(tokens < 0))
            row = int(np.searchsorted(corpus.token_start, first, side="right")) - 1
            word = corpus.vocabulary[int(corpus.tokens[first])]
            raise RunError(
                f"row {row} has the token {word!r}, which the model has never seen; it knows {' '.join(vocabulary)}"
            )
        answers = renumber(corpus.targets[:, 0], corpus.outcomes, outcomes)
        return cls(tokens, corpus.token_start, answers, cls._binary(corpus), vocabulary)

    @staticmethod
    def _binary(corpus: Corpus) -> npt.NDArray[np.uint8]:
        """Steps of trees whose leaves are the tokens: with brackets as in ListOps, or without."""
        for tokens in (True, False):
            steps, start = transitions(binarise(corpus.forest, tokens=tokens))
            if np.array_equal((np.diff(start) + 1) // 2, corpus.lengths):
                return steps
        raise FormatError("the trees of this corpus do not stand over its tokens")

    def __len__(self) -> int:
        return len(self.targets)

    @cached_property
    def lengths(self) -> npt.NDArray[np.int64]:
        return np.diff(self.start)

    @cached_property
    def step_start(self) -> npt.NDArray[np.int64]:
        return 2 * self.start - np.arange(len(self.start))  # 2n-1 steps for n tokens

    def batch(self, rows: Ints, device: torch.device | str = "cpu") -> Batch:
        return Batch.of(self, rows, device)

    def take(self, rows: Ints) -> Sentences:
        start, tokens = gather(self.start, rows)
        _, steps = gather(self.step_start, rows)
        return Sentences(self.tokens[tokens], start, self.targets[rows], self.steps[steps], self.vocabulary)


@dataclass(frozen=True, eq=False)
class Batch:
    """Some sentences side by side; positions behind a sentence's end hold token 0 and must not matter."""

    sentences: Sentences
    rows: npt.NDArray[np.int64]
    tokens: torch.Tensor  # [batch, length], int64
    lengths: torch.Tensor  # [batch], int64
    targets: torch.Tensor  # [batch], int64; -1 where there is no answer

    @classmethod
    def of(cls, sentences: Sentences, rows: Ints, device: torch.device | str = "cpu") -> Batch:
        taken = np.asarray(rows, np.int64)
        lengths = sentences.lengths[taken]
        tokens = padded(sentences.tokens, sentences.start, taken, int(lengths.max(initial=0)))
        return cls(
            sentences,
            taken,
            torch.from_numpy(tokens).to(device),
            torch.from_numpy(lengths).to(device),
            torch.from_numpy(sentences.targets[taken]).to(device),
        )

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def vocabulary(self) -> tuple[str, ...]:
        return self.sentences.vocabulary

    @cached_property
    def plan(self) -> Plan:
        """The schedule of the gold trees."""
        some = self.sentences
        return Plan.of(some.steps, some.step_start, some.tokens, some.start, self.rows, len(some.vocabulary))

    @cached_property
    def gold(self) -> Forest:
        """The gold binary trees."""
        _, steps = gather(self.sentences.step_start, self.rows)
        return self.trees(self.sentences.steps[steps])

    @cached_property
    def flat(self) -> npt.NDArray[np.int64]:
        """All tokens, sentence after sentence."""
        return self.sentences.tokens[gather(self.sentences.start, self.rows)[1]]

    @cached_property
    def start(self) -> npt.NDArray[np.int64]:
        """Where each sentence begins in `flat`."""
        return np.concatenate([[0], np.cumsum(self.sentences.lengths[self.rows])])

    def trees(self, steps: Bytes) -> Forest:
        """Trees over these sentences from shift-reduce steps, sentence after sentence."""
        start = 2 * self.start - np.arange(len(self.start))
        return from_transitions(steps, start, self.flat, self.vocabulary)

    def plan_of(self, steps: Bytes) -> Plan:
        """The schedule of other trees over the same sentences."""
        start = 2 * self.start - np.arange(len(self.start))
        return Plan.of(steps, start, self.flat, self.start, np.arange(len(self)), len(self.vocabulary))


@compiled
def padded(tokens: Ints, start: Ints, rows: Ints, width: int) -> npt.NDArray[np.int64]:
    out = np.zeros((len(rows), width), np.int64)
    for place in range(len(rows)):
        first = start[rows[place]]
        for step in range(start[rows[place] + 1] - first):
            out[place, step] = tokens[first + step]
    return out


# -- which rows together ----------------------------------------------------------------------------------------------


def bucketed(lengths: Ints, size: int, key: np.uint64, *, parts: int = 10) -> list[npt.NDArray[np.int64]]:
    """Shuffle, cut into tenths, sort each by length, cut into batches, shuffle the batches (as the paper's code)."""
    random = np.random.Generator(np.random.Philox(key=int(key)))
    made: list[npt.NDArray[np.int64]] = []
    for part in np.array_split(random.permutation(len(lengths)), min(parts, max(1, len(lengths) // size))):
        ordered = part[np.argsort(lengths[part], kind="stable")]
        made += [ordered[first : first + size] for first in range(0, len(ordered), size)]
    return [made[place] for place in random.permutation(len(made))]


def shuffled(lengths: Ints, size: int, key: np.uint64) -> list[npt.NDArray[np.int64]]:
    """Batches of random rows."""
    order = np.random.Generator(np.random.Philox(key=int(key))).permutation(len(lengths))
    return [order[first : first + size] for first in range(0, len(order), size)]


def by_length(lengths: Ints, size: int, area: int) -> list[npt.NDArray[np.int64]]:
    """For answering: rows from short to long, at most `size` of them and `area` positions a batch."""
    order = np.argsort(lengths, kind="stable")
    made, first = [], 0
    while first < len(order):
        last = first + 1
        while last < len(order) and last - first < size and (last + 1 - first) * lengths[order[last]] <= area:
            last += 1
        made.append(order[first:last])
        first = last
    return made


# -- the schedule of many trees ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Plan:
    """The distinct nodes of many binary trees, by height. Numbers below `leaves` are rows of the vocabulary.

    Inner node k has number `leaves + k`, children `left[k]`, `right[k]`. A node that is a left child somewhere has a
    row among the left projections (leaf v: row v): `left_row[k]` is that of k's left child, `own_left[k]` that of k
    itself, -1 if it has none. The same for the right. Height h, from 0, is `at[h]:at[h+1]`, its rows
    `left_at[h]:left_at[h+1]`.
    """

    leaves: int
    left: npt.NDArray[np.int32]
    right: npt.NDArray[np.int32]
    left_row: npt.NDArray[np.int32]
    right_row: npt.NDArray[np.int32]
    own_left: npt.NDArray[np.int32]
    own_right: npt.NDArray[np.int32]
    at: npt.NDArray[np.int64]
    left_at: npt.NDArray[np.int64]
    right_at: npt.NDArray[np.int64]
    root: npt.NDArray[np.int64]  # the node that is each tree
    place: npt.NDArray[np.int64]  # the node at each step of each tree, in post-order

    @classmethod
    def of(
        cls, steps: Bytes, step_start: Ints, tokens: Ints, start: Ints, rows: Ints, leaves: int, *, share: bool = True
    ) -> Plan:
        return cls.of_pairs(leaves, *_plan(steps, step_start, tokens, start, rows, leaves, share))

    @classmethod
    def of_pairs(cls, leaves: int, left: Ints, right: Ints, height: Ints, root: Ints, place: Ints) -> Plan:
        """The schedule of nodes in any order; `root` and `place` are given in their numbers and renumbered."""
        return cls(leaves, *_by_height(left, right, height, root, place, leaves))

    def __len__(self) -> int:
        return len(self.left)


@compiled
def _plan(
    steps: Bytes, step_start: Ints, tokens: Ints, start: Ints, rows: Ints, leaves: int, share: bool
) -> tuple[Any, ...]:
    total, inner, deepest = 0, 0, 0
    for row in rows:
        length = start[row + 1] - start[row]
        total += 2 * length - 1
        inner += length - 1
        deepest = max(deepest, length)
    place = np.empty(total, np.int64)
    root = np.empty(len(rows), np.int64)
    left, right = np.empty(inner, np.int32), np.empty(inner, np.int32)
    height = np.empty(inner, np.int32)
    size = 16
    while size < 2 * inner:
        size *= 2
    table = np.full(size if share else 1, -1, np.int32)
    stack = np.empty(deepest + 1, np.int32)
    nodes, at = 0, 0
    # Post-order: a shift puts a leaf on the stack, a reduce makes a node of the two on top, or finds it in the table.
    for number in range(len(rows)):
        row = rows[number]
        token, high = start[row], 0
        for step in range(step_start[row], step_start[row + 1]):
            if steps[step] == 0:
                stack[high] = tokens[token]
                token, high = token + 1, high + 1
            else:
                found = pair(stack[high - 2], stack[high - 1], leaves, left, right, height, table, nodes)
                nodes = max(nodes, found + 1)
                high -= 1
                stack[high - 1] = leaves + found
            place[at] = stack[high - 1]
            at += 1
        root[number] = stack[0]
    return left[:nodes], right[:nodes], height[:nodes], root, place


@compiled
def pair(one: int, two: int, leaves: int, left: Ints, right: Ints, height: Ints, table: Ints, nodes: int) -> int:
    """The inner node of these two children: found among the first `nodes`, or written down as the next one.

    `table` is as long as a power of two, of at least twice the nodes there will be, and all -1 at first; if it is of
    length 1, nothing is shared.
    """
    slot = np.int64(0)
    if len(table) > 1:
        mixed = np.uint64(one) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(two)
        mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        slot = np.int64((mixed >> np.uint64(32)) & np.uint64(len(table) - 1))
        while table[slot] >= 0:
            if left[table[slot]] == one and right[table[slot]] == two:
                return int(table[slot])
            slot = (slot + 1) & (len(table) - 1)
        table[slot] = nodes
    left[nodes], right[nodes] = one, two
    below = 0
    if one >= leaves:
        below = height[one - leaves] + 1
    if two >= leaves:
        below = max(below, height[two - leaves] + 1)
    height[nodes] = below
    return nodes


@compiled
def _by_height(left: Ints, right: Ints, height: Ints, root: Ints, place: Ints, leaves: int) -> tuple[Any, ...]:
    """Number the nodes by height, and give rows to those that are children on each side."""
    nodes = len(left)
    heights = 0
    for node in range(nodes):
        heights = max(heights, height[node] + 1)
    level = np.zeros(heights + 1, np.int64)
    for node in range(nodes):
        level[height[node] + 1] += 1
    for step in range(heights):
        level[step + 1] += level[step]
    filled = level.copy()
    new = np.empty(nodes, np.int32)
    old = np.empty(nodes, np.int32)
    used = np.zeros((nodes, 2), np.bool_)
    for node in range(nodes):
        new[node] = filled[height[node]]
        old[new[node]] = node
        filled[height[node]] += 1
        if left[node] >= leaves:
            used[left[node] - leaves, 0] = True
        if right[node] >= leaves:
            used[right[node] - leaves, 1] = True
    left_at, right_at = np.empty(heights + 1, np.int64), np.empty(heights + 1, np.int64)
    children = np.empty((6, nodes), np.int32)
    lefts = rights = leaves
    for step in range(heights):
        left_at[step], right_at[step] = lefts, rights
        for node in range(level[step], level[step + 1]):
            before = old[node]
            children[4, node] = children[5, node] = -1
            if used[before, 0]:
                children[4, node] = lefts
                lefts += 1
            if used[before, 1]:
                children[5, node] = rights
                rights += 1
            one, two = left[before], right[before]
            if one < leaves:
                children[0, node] = children[2, node] = one
            else:
                children[0, node] = leaves + new[one - leaves]
                children[2, node] = children[4, new[one - leaves]]
            if two < leaves:
                children[1, node] = children[3, node] = two
            else:
                children[1, node] = leaves + new[two - leaves]
                children[3, node] = children[5, new[two - leaves]]
    left_at[heights], right_at[heights] = lefts, rights
    for number in range(len(root)):
        if root[number] >= leaves:
            root[number] = leaves + new[root[number] - leaves]
    for step in range(len(place)):
        if place[step] >= leaves:
            place[step] = leaves + new[place[step] - leaves]
    return (
        children[0], children[1], children[2], children[3], children[4], children[5],
        level, left_at, right_at, root, place,
    )  # fmt: skip
