"""The order in which the nodes of many binary trees are computed: all those of one height at once.

    schedule = TreeSchedule.of(parsed, rows, leaves=len(vocabulary))
    schedule.left, schedule.right            # the children of each node
    schedule.at                              # height h is nodes at[h] to at[h + 1]
    schedule.root                            # the node that is the root of each tree

Subtrees that are equal (the same two children, by number) are one node, wherever they stand in the batch. Values and
gradients are the same as if each were computed by itself, for a sixth less work in a batch of 64 and half in a whole
corpus. Leaves are the rows of the vocabulary. The nodes of one height have consecutive numbers. So have, for each side,
those that are some node's child on that side, so that the projection of a height is one product of matrices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Bytes, Ints
from pomona.base.compiled import compiled


class ParsedSentences(NamedTuple):
    """Sentences and the shift-reduce steps of their trees, one after the other."""

    steps: Bytes  # 0 for shift, 1 for reduce
    step_start: Ints  # where the steps of each sentence begin, and where the last ones end
    tokens: Ints
    start: Ints  # where the tokens of each sentence begin, and where the last ones end


@dataclass(frozen=True, eq=False)
class TreeSchedule:
    """The distinct nodes of many binary trees, by height. Numbers below `leaves` are rows of the vocabulary.

    Inner node k has the number `leaves + k` and the children `left[k]` and `right[k]`. Every node that is a left child
    somewhere has a row among the left projections (leaf v has row v): `left_row[k]` is the row of k's left child, and
    `own_left[k]` that of k itself, -1 if it has none. The same holds for the right. Height h, from 0, is nodes
    `at[h]:at[h+1]` and the rows `left_at[h]:left_at[h+1]`.
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
    root: npt.NDArray[np.int64]  # the root of each tree
    node_at: npt.NDArray[np.int64]  # the node at each step of each tree, in post-order

    @classmethod
    def of(cls, parsed: ParsedSentences, rows: Ints, leaves: int, *, share: bool = True) -> TreeSchedule:
        """The schedule of the trees in these rows; `share` says whether equal subtrees are computed once."""
        return cls.of_nodes(leaves, *_nodes_of_trees(*parsed, rows, leaves, share))

    @classmethod
    def of_nodes(cls, leaves: int, left: Ints, right: Ints, height: Ints, root: Ints, node_at: Ints) -> TreeSchedule:
        """The schedule of nodes in any order; `root` and `node_at` are in their numbers, and are renumbered."""
        return cls(leaves, *_by_height(left, right, height, root, node_at, leaves))

    def __len__(self) -> int:
        return len(self.left)

    @property
    def children(self) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints]:
        """The children of every node and the rows of all projections, as the compiled loops need them."""
        return self.left, self.right, self.left_row, self.right_row, self.own_left, self.own_right


@compiled
def _nodes_of_trees(
    steps: Bytes, step_start: Ints, tokens: Ints, start: Ints, rows: Ints, leaves: int, share: bool
) -> tuple[Any, ...]:
    """Children and heights of the distinct inner nodes; the root of each tree; the node at each step."""
    total, inner, deepest = 0, 0, 0
    for row in rows:
        length = start[row + 1] - start[row]
        total += 2 * length - 1
        inner += length - 1
        deepest = max(deepest, length)
    node_at = np.empty(total, np.int64)
    root = np.empty(len(rows), np.int64)
    left, right = np.empty(inner, np.int32), np.empty(inner, np.int32)
    height = np.empty(inner, np.int32)
    size = 16
    while size < 2 * inner:
        size *= 2
    table = np.full(size if share else 1, -1, np.int32)
    stack = np.empty(deepest + 1, np.int32)
    nodes, at = 0, 0
    # A shift puts a leaf on the stack; a reduce combines the two on top into a node, new or already in the table.
    for number in range(len(rows)):
        row = rows[number]
        token, high = start[row], 0
        for step in range(step_start[row], step_start[row + 1]):
            if steps[step] == 0:
                stack[high] = tokens[token]
                token, high = token + 1, high + 1
            else:
                node = node_of(stack[high - 2], stack[high - 1], leaves, left, right, height, table, nodes)
                nodes = max(nodes, node + 1)
                high -= 1
                stack[high - 1] = leaves + node
            node_at[at] = stack[high - 1]
            at += 1
        root[number] = stack[0]
    return left[:nodes], right[:nodes], height[:nodes], root, node_at


@compiled
def node_of(
    first: int, second: int, leaves: int, left: Ints, right: Ints, height: Ints, table: Ints, nodes: int
) -> int:
    """The inner node with these two children: one of the first `nodes`, or else a new one, which is written down.

    `table` is a hash table whose length is a power of two, at least twice the number of nodes there can be; it is all
    -1 at first. If its length is 1, nothing is shared.
    """
    slot = np.int64(0)
    if len(table) > 1:
        mixed = np.uint64(first) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(second)
        mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        slot = np.int64((mixed >> np.uint64(32)) & np.uint64(len(table) - 1))
        while table[slot] >= 0:
            if left[table[slot]] == first and right[table[slot]] == second:
                return int(table[slot])
            slot = (slot + 1) & (len(table) - 1)
        table[slot] = nodes
    left[nodes], right[nodes] = first, second
    below = 0
    if first >= leaves:
        below = height[first - leaves] + 1
    if second >= leaves:
        below = max(below, height[second - leaves] + 1)
    height[nodes] = below
    return nodes


@compiled
def _by_height(left: Ints, right: Ints, height: Ints, root: Ints, node_at: Ints, leaves: int) -> tuple[Any, ...]:
    """Number the nodes by height, and give a row to each that is a child, for each side."""
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
            first, second = left[before], right[before]
            if first < leaves:
                children[0, node] = children[2, node] = first
            else:
                children[0, node] = leaves + new[first - leaves]
                children[2, node] = children[4, new[first - leaves]]
            if second < leaves:
                children[1, node] = children[3, node] = second
            else:
                children[1, node] = leaves + new[second - leaves]
                children[3, node] = children[5, new[second - leaves]]
    left_at[heights], right_at[heights] = lefts, rights
    for number in range(len(root)):
        if root[number] >= leaves:
            root[number] = leaves + new[root[number] - leaves]
    for step in range(len(node_at)):
        if node_at[step] >= leaves:
            node_at[step] = leaves + new[node_at[step] - leaves]
    return (
        children[0], children[1], children[2], children[3], children[4], children[5],
        level, left_at, right_at, root, node_at,
    )  # fmt: skip
