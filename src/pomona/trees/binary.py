"""Binary trees over a sentence: from list trees, from the steps of a parser, and as baselines that ignore the words.

    >>> forest = brackets.read("[MAX 2 9 ]")
    >>> brackets.write(binarise(forest))
    ['( ( ( [MAX 2 ) 9 ) ] )']
    >>> transitions(binarise(forest))[0].tolist()
    [0, 0, 1, 0, 1, 0, 1]

In post-order, the nodes of a binary tree are the transitions of a shift-reduce parser: a leaf is a SHIFT and an inner
node a REDUCE, 2n-1 steps for n tokens. ListOps (Nangia and Bowman 2018, section 3) binarises `[OP a1 .. ak ]` to the
left, with the operator first and `]` last: ((((OP a1) a2) .. ak) ]).
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Ints
from pomona.base.compiled import compiled, inlined
from pomona.base.errors import TreeError
from pomona.base.randomness import below, mix, open_stream, stream_key
from pomona.trees import brackets
from pomona.trees.forest import Forest, numbered
from pomona.trees.values import position_type

Style = Literal["left", "right", "balanced"]
SHIFT, REDUCE = 0, 1
_STYLES: dict[str, int] = {"left": 0, "right": 1, "balanced": 2}


def _style_number(style: str) -> int:
    if style not in _STYLES:
        raise TreeError(f"there is no branching style {style!r}; choose left, right or balanced")
    return _STYLES[style]


def binarise(forest: Forest, style: Style = "left", *, tokens: bool = True) -> Forest:
    """Binary trees over the sentence. With `tokens`, operators `[OP` and closing `]` are leaves too, as in ListOps.

    Without `tokens`, only the leaves of the forest are leaves, and a node with a single child is skipped. The result
    has no links.
    """
    number = _style_number(style)
    inner = np.unique(forest.symbol[~forest.leaf]).tolist()
    index = numbered(forest.names)
    opening = np.zeros(len(forest.names), np.int64)
    if tokens:
        for symbol in inner:
            opening[symbol] = index.setdefault(f"[{forest.names[symbol]}", len(index))
    closing = index.setdefault("]", len(index))
    unnamed = index.setdefault(brackets.UNNAMED, len(index))
    names = tuple(numbered(index))
    opening = opening.astype(position_type(len(names)))
    symbol, parent, start = _binarise(
        forest.symbol, forest.parent, forest.arity, forest.start, opening, closing, unnamed, number, tokens
    )
    return Forest(symbol, parent, start, names)


@inlined
def _closed_by(part: int, parts: int, style: int) -> int:
    """How many groups end after part number `part` of `parts` in this branching style."""
    if style == 0:
        return 1 if part else 0
    if style == 1:
        return parts - 1 if part == parts - 1 else 0
    low, high, closed = 0, parts, 0
    while high - low > 1:
        if part == high - 1:
            closed += 1
        middle = (low + high + 1) // 2
        if part < middle:
            high = middle
        else:
            low = middle
    return closed


@compiled
def _binarise(
    symbol: Ints,
    parent: Ints,
    arity: Ints,
    start: Ints,
    opening: Ints,
    closing: int,
    unnamed: int,
    style: int,
    tokens: bool,
) -> tuple[Ints, npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Visit the nodes in reading order: shift each token, then reduce once for each group that ends there."""
    total = 0
    offsets = np.zeros(len(start), np.int64)
    for tree in range(len(start) - 1):
        leaves = 0
        for node in range(start[tree], start[tree + 1]):
            leaves += 1 if arity[node] == 0 else 2 if tokens else 0
        total += 2 * leaves - 1
        offsets[tree + 1] = total
    out_symbol = np.empty(total, opening.dtype)
    out_parent = np.empty(total, np.int32)
    stack = np.empty(total + 1, np.int64)
    finished = np.zeros(len(parent), np.int32)  # parts of each list that are complete
    seen = np.zeros(len(parent), np.bool_)
    chain = np.empty(len(parent) + 1, np.int64)
    extra = 2 if tokens else 0
    for tree in range(len(start) - 1):
        first, node_out, top = start[tree], offsets[tree], 0
        for node in range(first, start[tree + 1]):
            if arity[node] == 0:
                opened, up = 0, node
                while parent[up] >= 0 and not seen[first + parent[up]]:
                    up = first + parent[up]
                    seen[up] = True
                    chain[opened] = up
                    opened += 1
                if tokens:
                    for step in range(opened - 1, -1, -1):
                        out_symbol[node_out] = opening[symbol[chain[step]]]
                        stack[top] = node_out
                        node_out, top = node_out + 1, top + 1
                        finished[chain[step]] = 1
                out_symbol[node_out] = symbol[node]
                stack[top] = node_out
                node_out, top = node_out + 1, top + 1
            elif tokens:
                out_symbol[node_out] = closing
                stack[top] = node_out
                node_out, top = node_out + 1, top + 1
                for _ in range(_closed_by(arity[node] + 1, arity[node] + 2, style)):
                    out_symbol[node_out] = unnamed
                    out_parent[stack[top - 1]] = out_parent[stack[top - 2]] = node_out - offsets[tree]
                    stack[top - 2] = node_out
                    node_out, top = node_out + 1, top - 1
            up = parent[node]
            if up >= 0:
                owner = first + up
                for _ in range(_closed_by(finished[owner], arity[owner] + extra, style)):
                    out_symbol[node_out] = unnamed
                    out_parent[stack[top - 1]] = out_parent[stack[top - 2]] = node_out - offsets[tree]
                    stack[top - 2] = node_out
                    node_out, top = node_out + 1, top - 1
                finished[owner] += 1
        out_parent[offsets[tree + 1] - 1] = -1
    return out_symbol, out_parent, offsets


def transitions(forest: Forest) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """SHIFT (0) and REDUCE (1) for each tree, and offsets; the trees must be binary."""
    wrong = (forest.arity != 0) & (forest.arity != 2)
    if wrong.any():
        node = int(np.argmax(wrong))
        raise TreeError(
            f"tree {forest.tree[node]} has a node with {forest.arity[node]} children; transitions need binary trees "
            "(binarise the forest first)"
        )
    return (forest.arity == 2).astype(np.uint8), forest.start


def from_transitions(steps: Ints, start: Ints, leaves: Ints, names: tuple[str, ...]) -> Forest:
    """Binary trees from shift-reduce steps and the symbols of the shifted tokens, in order."""
    steps, offsets = np.asarray(steps), np.asarray(start, np.int64)
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != len(steps) or np.any(np.diff(offsets) < 0):
        raise TreeError(f"start must rise from 0 to {len(steps)}, the number of steps")
    leaves = np.asarray(leaves)
    if steps.ndim != 1 or offsets.ndim != 1 or leaves.ndim != 1 or (leaves.size and leaves.dtype.kind not in "iu"):
        raise TreeError("steps, start and leaves are lists of whole numbers")
    if leaves.min(initial=0) < 0 or leaves.max(initial=-1) >= len(names):
        raise TreeError(f"a token has the number {int(leaves.max())}; there are {len(names)} names")
    if int((steps == SHIFT).sum()) != len(leaves):
        raise TreeError(f"{int((steps == SHIFT).sum())} SHIFTs for {len(leaves)} tokens")
    known = (steps == SHIFT) | (steps == REDUCE)
    steps = np.where(known, steps, REDUCE + 1).astype(np.uint8)  # as a byte, an invalid 256 would become 0
    parent, tree, step = _parents(steps, offsets)
    if tree >= 0:
        raise TreeError(
            f"tree {tree}, step {step}: these transitions do not build one binary tree "
            "(REDUCE needs two parts on the stack, and one part is left at the end)"
        )
    names = names if brackets.UNNAMED in names else (*names, brackets.UNNAMED)
    symbol = np.full(len(steps), names.index(brackets.UNNAMED), position_type(len(names)))
    symbol[steps == SHIFT] = leaves
    return Forest(symbol, parent, offsets, names)


@compiled
def _parents(steps: Ints, start: Ints) -> tuple[npt.NDArray[np.int32], int, int]:
    """Parents, then tree and step of the first error (-1 and -1 if there is none)."""
    parent = np.full(len(steps), -1, np.int32)
    stack = np.empty(len(steps) + 1, np.int64)
    for tree in range(len(start) - 1):
        stacked = 0
        for node in range(start[tree], start[tree + 1]):
            if steps[node] == REDUCE:
                if stacked < 2:
                    return parent, tree, node - start[tree]
                parent[stack[stacked - 1]] = parent[stack[stacked - 2]] = node - start[tree]
                stacked -= 2
            elif steps[node] != SHIFT:
                return parent, tree, node - start[tree]
            stack[stacked] = node
            stacked += 1
        if stacked != 1:
            return parent, tree, start[tree + 1] - start[tree]
    return parent, -1, -1


def branching(lengths: Ints, style: Style) -> Forest:
    """Left-branching, right-branching or balanced trees over sentences of these lengths; a baseline."""
    lengths, start = _over_sentences(lengths)
    return _unnamed(_branching(lengths, start, _style_number(style)), start)


def random_trees(lengths: Ints, seed: int) -> Forest:
    """Random trees: split the sentence at a uniformly random point, then split each half in the same way.

    Merging random adjacent pairs until one is left gives the same distribution. It is the random baseline of the
    ListOps paper. It is that of random search trees and is not uniform over binary trees.
    Tree i depends only on (seed, i, its length).
    """
    lengths, start = _over_sentences(lengths)
    return _unnamed(_random_splits(lengths, start, stream_key("random trees", int(seed))), start)


def _over_sentences(lengths: Ints) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    counts = np.asarray(lengths, np.int64)
    if len(counts) and counts.min() < 1:
        raise TreeError(f"sentence {int(np.argmin(counts))} has {counts.min()} tokens; a tree needs at least one")
    start = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(2 * counts - 1, out=start[1:])
    return counts, start


def _unnamed(steps: npt.NDArray[np.uint8], start: npt.NDArray[np.int64]) -> Forest:
    leaves = np.zeros(int((steps == SHIFT).sum()), np.int16)
    return from_transitions(steps, start, leaves, ("token", brackets.UNNAMED))


@compiled
def _branching(lengths: Ints, start: Ints, style: int) -> npt.NDArray[np.uint8]:
    steps = np.zeros(start[-1], np.uint8)
    for tree in range(len(lengths)):
        step = start[tree]
        for part in range(lengths[tree]):
            step += 1
            for _ in range(_closed_by(part, lengths[tree], style)):
                steps[step] = REDUCE
                step += 1
    return steps


@compiled
def _random_splits(lengths: Ints, start: Ints, key: np.uint64) -> npt.NDArray[np.uint8]:
    """Split top-down with an explicit stack; a size of -1 marks the REDUCE that follows the two halves."""
    steps = np.zeros(start[-1], np.uint8)
    stack = np.empty(lengths.max() * 2 + 2 if len(lengths) else 1, np.int64)
    for tree in range(len(lengths)):
        state, gamma = open_stream(key, tree)
        step, waiting = start[tree], 1
        stack[0] = lengths[tree]
        while waiting:
            waiting -= 1
            size = stack[waiting]
            if size < 0:
                steps[step] = REDUCE
                step += 1
            elif size == 1:
                step += 1
            else:
                state += gamma
                left = 1 + below(mix(state) >> np.uint64(32), size - 1)
                stack[waiting], stack[waiting + 1], stack[waiting + 2] = -1, size - left, left
                waiting += 3
    return steps
