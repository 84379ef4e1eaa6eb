"""Compiled loops over the arrays of a forest: arities, heights, depths, children, spans, and the check of post-order.

`trees.forest.Forest` offers what they compute as properties; its docstring explains the arrays.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Ints
from pomona.base.compiled import compiled
from pomona.base.letters import Place


@compiled
def gathered(start: Ints, rows: Ints) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Offsets and positions of the pieces `rows` of a ragged array cut at `start`."""
    offsets = np.zeros(len(rows) + 1, np.int64)
    for position in range(len(rows)):
        offsets[position + 1] = offsets[position] + start[rows[position] + 1] - start[rows[position]]
    positions = np.empty(offsets[-1], np.int64)
    for position in range(len(rows)):
        first = start[rows[position]]
        for step in range(offsets[position + 1] - offsets[position]):
            positions[offsets[position] + step] = first + step
    return offsets, positions


@compiled
def first_misplaced(parent: Ints, start: Ints) -> int:
    """The first node that breaks post-order, -1 if none does.

    The parents of open nodes wait on a stack, the next one on top: a node that waits longer than the one it covers
    crosses it.
    """
    if _is_post_order(parent, start):
        return -1
    waiting = np.empty(len(parent) + 1, np.int64)
    for tree in range(len(start) - 1):
        first, root = start[tree], start[tree + 1] - 1 - start[tree]
        high = 0
        waiting[0] = root  # every node but the root waits at most for the root
        for node in range(root):
            while high and waiting[high] == node:
                high -= 1
            up = parent[first + node]
            if up <= node or up > waiting[high]:
                return int(first + node)
            high += 1
            waiting[high] = up
        if parent[first + root] != -1:
            return int(first + root)
    return -1


@compiled
def _is_post_order(parent: Ints, start: Ints) -> bool:
    """Whether the parent of each node is the node after it, or on the path from there to the root. Backwards, and
    without branches that depend on the tree; the stack above finds the node."""
    longest = 0
    for tree in range(len(start) - 1):
        longest = max(longest, start[tree + 1] - start[tree])
    depth = np.empty(longest + 1, np.int64)  # edges to the root
    path = np.empty(longest + 1, np.int64)  # from the root to the last node, by depth
    for tree in range(len(start) - 1):
        first, root = start[tree], start[tree + 1] - 1 - start[tree]
        right = parent[first + root] == -1
        depth[root], path[0], deepest = 0, root, 0
        for node in range(root - 1, -1, -1):
            up = np.int64(parent[Place(first + node)])
            inside = (up > node) & (up <= root)
            above = depth[Place(up if inside else root)]
            right &= inside & (above <= deepest) & (path[Place(above)] == up)
            deepest = above + 1
            depth[Place(node)], path[Place(deepest)] = deepest, node
        if not right:
            return False
    return True


@compiled
def arities(parent: Ints, start: Ints) -> npt.NDArray[np.int32]:
    """How many children each node has."""
    arity = np.zeros(len(parent), np.int32)
    for tree in range(len(start) - 1):
        for node in range(start[tree], start[tree + 1] - 1):
            arity[start[tree] + parent[node]] += 1
    return arity


@compiled
def accumulated(parent: Ints, start: Ints, longest: bool) -> npt.NDArray[np.int32]:
    """Bottom-up: heights if `longest`, else subtree sizes."""
    total = np.zeros(len(parent), np.int32) if longest else np.ones(len(parent), np.int32)
    for tree in range(len(start) - 1):
        for node in range(start[tree], start[tree + 1] - 1):
            up = start[tree] + parent[node]
            total[up] = max(total[up], total[node] + 1) if longest else total[up] + total[node]
    return total


@compiled
def depths(parent: Ints, start: Ints) -> npt.NDArray[np.int32]:
    """Edges from each node up to the root of its tree."""
    depth = np.zeros(len(parent), np.int32)
    for tree in range(len(start) - 1):
        for node in range(start[tree + 1] - 2, start[tree] - 1, -1):
            depth[node] = depth[start[tree] + parent[node]] + 1
    return depth


@compiled
def child_lists(parent: Ints, start: Ints, offsets: Ints) -> npt.NDArray[np.int64]:
    """The children of every node, in order, those of node v at offsets[v] : offsets[v + 1]."""
    children = np.empty(offsets[-1], np.int64)
    filled = np.zeros(len(parent), np.int32)
    for tree in range(len(start) - 1):
        for node in range(start[tree], start[tree + 1] - 1):
            up = start[tree] + parent[node]
            children[offsets[up] + filled[up]] = node
            filled[up] += 1
    return children


@compiled
def spans(arity: Ints, start: Ints) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """First leaf and one past the last leaf under each node."""
    low = np.empty(len(arity), np.int32)
    high = np.empty(len(arity), np.int32)
    stack = np.empty(len(arity), np.int32)
    for tree in range(len(start) - 1):
        leaves, depth = 0, 0
        for node in range(start[tree], start[tree + 1]):
            if arity[node] == 0:
                low[node] = leaves
                leaves += 1
            else:
                depth -= arity[node]
                low[node] = stack[depth]
            high[node] = leaves
            stack[depth] = low[node]
            depth += 1
    return low, high
