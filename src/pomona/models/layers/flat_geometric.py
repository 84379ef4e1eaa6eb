"""Geometric attention over sequences that lie end to end, to answer; what it computes is in `attention`.

    attend_geometric(query, key, value, flat, side)      # [asking, width]

Queries of neighbouring tokens stand side by side and walk outward together, four steps at a time: the keys that are one
step to the left of them stand side by side as well, and so do those one step to the right, and all others. So every
loop runs along the queries. They stop where the positions that are left have next to no weight for any of them
(NEXT_TO_NONE), so far scores are seldom computed.
"""

from __future__ import annotations

import math

import numpy as np
from torch import Tensor

from pomona.base.arrays import Floats, Ints
from pomona.base.compiled import fused
from pomona.models.layers.flat_loop import LANES, Flat, whole_lanes
from pomona.models.layers.flat_softmax import as_columns
from pomona.models.layers.rows import ONE, exp32

NEXT_TO_NONE = 1e-9  # of the weight 1 of a token; rounding to 32 bits takes 6e-8
TOGETHER = 512  # the most queries that walk together
STEPS = 4  # that are taken at a time; every second time they look at what is left


def attend_geometric(query: Tensor, key: Tensor, value: Tensor, flat: Flat, side: Tensor) -> Tensor:
    """[asking, width]; `side` is [heads, 2]: what is added to scores on the left and on the right."""
    out = query.new_empty(query.shape)
    at = np.arange(len(query)) if flat.asking is None else flat.asking.numpy()
    places = (flat.start, flat.asking_start, at)
    _attend(query.contiguous().numpy(), key.numpy(), value.numpy(), side.contiguous().numpy(), *places, out.numpy())
    return out


@fused
def _attend(
    query: Floats, key: Floats, value: Floats, side: Floats, start: Ints, asking: Ints, at: Ints, out: Floats
) -> None:
    heads, size = len(side), query.shape[1] // len(side)
    longest = 0
    for row in range(len(start) - 1):
        longest = max(longest, start[row + 1] - start[row])
    wide, before = (size + 3) // 4 * 4, longest + STEPS  # columns before the first token and behind the last
    keys = np.zeros((wide, 2 * before + longest + TOGETHER + LANES), query.dtype)
    values, inside = np.zeros_like(keys), np.zeros(keys.shape[1], query.dtype)
    queries, mixed = np.zeros((wide, TOGETHER), query.dtype), np.zeros((wide, TOGETHER), query.dtype)
    sides, left = np.zeros((2, STEPS, TOGETHER), query.dtype), np.zeros(TOGETHER, query.dtype)
    for row in range(len(start) - 1):
        first, length = start[row], start[row + 1] - start[row]
        inside[:] = 0
        inside[before : before + length] = 1
        for head in range(heads):
            part = head * size
            as_columns(key, first, length, part, size, keys[:, before:], 1.0)
            as_columns(value, first, length, part, size, values[:, before:], 1.0)
            low = asking[row]
            while low < asking[row + 1]:
                here, count = at[low] - first, 1
                while count < TOGETHER and low + count < asking[row + 1] and at[low + count] == at[low] + count:
                    count += 1
                as_columns(query, low, count, part, size, queries, 1 / math.sqrt(size))
                mixed[:] = 0
                left[:] = 1
                _walk(queries, keys, values, inside, side[head], sides, left, mixed, before, here, count, length)
                for n in range(count):
                    for d in range(size):
                        out[low + n, part + d] = mixed[d, n]
                low += count


@fused
def _walk(
    queries: Floats, keys: Floats, values: Floats, inside: Floats, side: Floats, sides: Floats, left: Floats,
    mixed: Floats, before: int, at: int, count: int, length: int,
) -> None:  # fmt: skip
    """Outward from the queries of the tokens from `at` on, until nothing is left to match for any of them."""
    lanes, here = whole_lanes(count), before + at
    for step in range(1, max(at + count, length - at), STEPS):
        low = max(0, step - at) // LANES * LANES  # the queries that have a key so far to the left
        high = whole_lanes(min(count, max(0, length - at - step)))  # and to the right
        for k in range(0, STEPS, 2):
            _scores(queries, keys, here - step - k, -1, side[0], sides[0, k : k + 2], low, lanes)
            _scores(queries, keys, here + step + k, 1, side[1], sides[1, k : k + 2], 0, high)
        for k in range(STEPS):  # of two that are equally close, the left one is closer
            _match(sides[0, k], inside, here - step - k, left, low, lanes)
            _match(sides[1, k], inside, here + step + k, left, 0, high)
        _add_values(sides[0], values, here - step, -1, mixed, low, lanes)
        _add_values(sides[1], values, here + step, 1, mixed, 0, high)
        if step % (2 * STEPS) == 1:
            most = left[0]
            for n in range(1, count):
                most = max(most, left[n])
            if most <= NEXT_TO_NONE:
                return


@fused
def _scores(
    queries: Floats, keys: Floats, column: int, way: int, side: float, out: Floats, low: int, high: int
) -> None:
    """Each query from `low` to `high` times the key that stands in its place from `column` on, and times the next one
    that way; four numbers of the vectors at a time. Places are unsigned, so they never count from the end."""
    first, last, shift, farther = np.uint64(low), np.uint64(high), np.uint64(column), np.uint64(column + way)
    near, far = out[0], out[1]
    for n in range(first, last):
        near[n] = side
        far[n] = side
    for d in range(0, len(queries), 4):
        a, b, c, e = queries[d], queries[d + 1], queries[d + 2], queries[d + 3]
        one, two, three, four = keys[d], keys[d + 1], keys[d + 2], keys[d + 3]
        for n in range(first, last):
            i, j = n + shift, n + farther
            near[n] += a[n] * one[i] + b[n] * two[i] + c[n] * three[i] + e[n] * four[i]
            far[n] += a[n] * one[j] + b[n] * two[j] + c[n] * three[j] + e[n] * four[j]


@fused
def _match(score: Floats, inside: Floats, column: int, left: Floats, low: int, high: int) -> None:
    """Scores become weights: the probability of a match here, and of none closer (what is left)."""
    first, last, shift = np.uint64(low), np.uint64(high), np.uint64(column)
    if score.itemsize == 8:
        for n in range(first, last):
            score[n] = left[n] * inside[n + shift] / (1 + math.exp(-score[n]))
            left[n] -= score[n]
    else:
        for n in range(first, last):
            score[n] = left[n] * inside[n + shift] / (ONE + exp32(-score[n]))
            left[n] -= score[n]


@fused
def _add_values(weights: Floats, values: Floats, column: int, way: int, mixed: Floats, low: int, high: int) -> None:
    """What four steps on one side add to the results."""
    first, last = np.uint64(low), np.uint64(high)
    one, two, three, four = weights[0], weights[1], weights[2], weights[3]
    a, b = np.uint64(column), np.uint64(column + way)
    c, e = np.uint64(column + 2 * way), np.uint64(column + 3 * way)
    for d in range(len(mixed)):
        row, out = values[d], mixed[d]
        for n in range(first, last):
            out[n] += one[n] * row[n + a] + two[n] * row[n + b] + three[n] * row[n + c] + four[n] * row[n + e]
