"""The schedule of many trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Bytes, Ints
from pomona.base.compiled import compiled


@dataclass(frozen=True, eq=False)
class TreeSchedule:
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
    ) -> TreeSchedule:
        return cls.of_pairs(leaves, *_nodes_of_trees(steps, step_start, tokens, start, rows, leaves, share))

    @classmethod
    def of_pairs(cls, leaves: int, left: Ints, right: Ints, height: Ints, root: Ints, place: Ints) -> TreeSchedule:
        """The schedule of nodes in any order; `root` and `place` are given in their numbers and renumbered."""
        return cls(leaves, *_by_height(left, right, height, root, place, leaves))

    def __len__(self) -> int:
        return len(self.left)


@compiled
def _nodes_of_trees(
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
                found = node_of(stack[high - 2], stack[high - 1], leaves, left, right, height, table, nodes)
                nodes = max(nodes, found + 1)
                high -= 1
                stack[high - 1] = leaves + found
            place[at] = stack[high - 1]
            at += 1
        root[number] = stack[0]
    return left[:nodes], right[:nodes], height[:nodes], root, place


@compiled
def node_of(one: int, two: int, leaves: int, left: Ints, right: Ints, height: Ints, table: Ints, nodes: int) -> int:
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
