"""Softmax attention over sequences that lie end to end, to answer: all of a sequence and a head in one compiled walk.

    attend_softmax(query, key, value, flat, bias)      # [asking, width]
    a_ij = exp(q_i . k_j + b_(j - i)) / sum over j,    out_i = sum over j of a_ij v_j

The queries of a sequence stand side by side, so every loop runs along them: four keys at a time, their scores, the
exponentials, and what their values add to the results. Scores are never stored beyond these four rows. Exponentials
need no largest score as long as none can be far from 0, which the lengths of the vectors tell (|q . k| <= |q| |k|);
else a first walk finds it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from torch import Tensor

from pomona.base.arrays import Floats, Ints
from pomona.base.compiled import fused, summed
from pomona.models.layers.flat_loop import LANES, Flat, whole_lanes
from pomona.models.layers.rows import exp32

SAFE = 60.0  # exponentials of scores up to this, and sums of thousands of them, fit into 32 bits
_NONE = -1e30  # the score of a key that is not there: its exponential is next to nothing beside exp(-SAFE)


def attend_softmax(query: Tensor, key: Tensor, value: Tensor, flat: Flat, bias: Tensor) -> Tensor:
    """[asking, width] from queries of the same shape; `bias` is [heads, distances], as in `RelativeBias`."""
    out = query.new_empty(query.shape)
    at = np.arange(len(query)) if flat.asking is None else flat.asking.numpy()
    places = (flat.start, flat.asking_start, at)
    _attend(query.contiguous().numpy(), key.numpy(), value.numpy(), bias.contiguous().numpy(), *places, out.numpy())
    return out


@fused
def _attend(
    query: Floats, key: Floats, value: Floats, bias: Floats, start: Ints, asking: Ints, at: Ints, out: Floats
) -> None:
    heads, size = len(bias), query.shape[1] // len(bias)
    longest, most = 0, 0
    for row in range(len(start) - 1):
        longest, most = max(longest, start[row + 1] - start[row]), max(most, asking[row + 1] - asking[row])
    rows, wide = (longest + 3) // 4 * 4, (size + 3) // 4 * 4  # the loops take four at a time
    most = whole_lanes(most)
    keys, values = np.zeros((rows, wide), query.dtype), np.zeros((wide, rows), query.dtype)
    queries, mixed = np.zeros((wide, most), query.dtype), np.zeros((wide, most), query.dtype)
    four = np.zeros((4, most), query.dtype)
    top, total, near = np.zeros(most, query.dtype), np.zeros(most, query.dtype), np.empty(2 * rows + LANES, query.dtype)
    for row in range(len(start) - 1):
        first, length = start[row], start[row + 1] - start[row]
        low, count = asking[row], asking[row + 1] - asking[row]
        if count == 0:
            continue
        here = at[low : low + count] - first
        for head in range(heads):
            part, by_distance = head * size, bias[head]
            reach = as_columns(query, low, count, part, size, queries, 1 / math.sqrt(size))
            reach *= _rows(key, first, length, part, size, keys)
            as_columns(value, first, length, part, size, values, 1.0)
            _near(by_distance, near, rows)
            lanes = whole_lanes(count)
            for n in range(lanes):
                top[n], total[n] = 0, 0
            for d in range(size):
                for n in range(lanes):
                    mixed[d, n] = 0
            if math.sqrt(reach) + np.abs(by_distance).max() > SAFE:
                _tops(queries, keys, four, top, total, near, by_distance, here, length)
            for j in range(0, length, 4):
                _scores(queries, keys, four, top, near, by_distance, here, j, length)
                _exponentials(four, total, lanes)
                _add_products(values, 0, j, four, mixed, lanes)
            for n in range(count):
                share = 1 / total[n]
                for d in range(size):
                    out[low + n, part + d] = mixed[d, n] * share


@summed
def as_columns(vectors: Floats, first: int, count: int, part: int, size: int, out: Floats, scale: float) -> Any:
    """The numbers from `part` on of some vectors, times `scale`, as columns; the largest square of their lengths."""
    largest = vectors[0, 0] * 0
    for n in range(count):
        square, vector = largest * 0, vectors[first + n]
        for d in range(size):
            out[d, n] = vector[part + d] * scale
            square += vector[part + d] * vector[part + d]
        largest = max(largest, square)
    return largest * scale * scale


@summed
def _rows(vectors: Floats, first: int, count: int, part: int, size: int, out: Floats) -> Any:
    """The same numbers as rows without gaps."""
    largest = vectors[0, 0] * 0
    for n in range(count):
        square, vector, row = largest * 0, vectors[first + n], out[n]
        for d in range(size):
            row[d] = vector[part + d]
            square += row[d] * row[d]
        largest = max(largest, square)
    return largest


@fused
def _near(by_distance: Floats, near: Floats, rows: int) -> None:
    """near[rows + i - j] is what is added to the score of key j for the query at i."""
    far = len(by_distance) // 2
    for step in range(len(near)):
        near[step] = by_distance[min(max(rows - step, -far), far) + far]


@fused
def _scores(
    queries: Floats, keys: Floats, four: Floats, top: Floats, near: Floats, by_distance: Floats, here: Ints, j: int,
    length: int,
) -> None:  # fmt: skip
    """The scores of the keys from j on, less `top`, in the four rows of `four`."""
    count, far, rows, lanes = len(here), len(by_distance) // 2, (len(near) - LANES) // 2, whole_lanes(len(here))
    every = here[count - 1] - here[0] == count - 1  # the queries of a whole stretch of the sequence
    for k in range(4):
        row = four[k]
        if j + k >= length:
            for n in range(lanes):
                row[n] = _NONE
        elif every:
            shift = np.uint64(rows + here[0] - j - k)  # unsigned: it never counts from the end
            for n in range(np.uint64(lanes)):
                row[n] = near[n + shift] - top[n]
        else:
            for n in range(count):
                row[n] = by_distance[min(max(j + k - here[n], -far), far) + far] - top[n]
    _add_products(keys, j, 0, queries, four, lanes)


@fused
def _add_products(weights: Floats, top: int, left: int, rows: Floats, out: Floats, count: int) -> None:
    """out += weights @ rows, along the first `count` columns, four of both at a time; the weights that are meant begin
    at row `top` and column `left`."""
    for k in range(0, len(out), 4):
        one, two, three, four = out[k], out[k + 1], out[k + 2], out[k + 3]
        w1, w2, w3, w4 = weights[top + k], weights[top + k + 1], weights[top + k + 2], weights[top + k + 3]
        for d in range(0, len(rows), 4):
            a, b, c, e = rows[d], rows[d + 1], rows[d + 2], rows[d + 3]
            at = left + d
            p1, q1, r1, s1 = w1[at], w1[at + 1], w1[at + 2], w1[at + 3]
            p2, q2, r2, s2 = w2[at], w2[at + 1], w2[at + 2], w2[at + 3]
            p3, q3, r3, s3 = w3[at], w3[at + 1], w3[at + 2], w3[at + 3]
            p4, q4, r4, s4 = w4[at], w4[at + 1], w4[at + 2], w4[at + 3]
            for n in range(count):
                one[n] += p1 * a[n] + q1 * b[n] + r1 * c[n] + s1 * e[n]
                two[n] += p2 * a[n] + q2 * b[n] + r2 * c[n] + s2 * e[n]
                three[n] += p3 * a[n] + q3 * b[n] + r3 * c[n] + s3 * e[n]
                four[n] += p4 * a[n] + q4 * b[n] + r4 * c[n] + s4 * e[n]


@fused
def _tops(
    queries: Floats, keys: Floats, four: Floats, top: Floats, zero: Floats, near: Floats, by_distance: Floats,
    here: Ints, length: int,
) -> None:  # fmt: skip
    """The largest score of every query."""
    for n in range(len(here)):
        top[n] = _NONE
    for j in range(0, length, 4):
        _scores(queries, keys, four, zero, near, by_distance, here, j, length)
        one, two, three, last = four[0], four[1], four[2], four[3]
        for n in range(len(here)):
            top[n] = max(top[n], max(max(one[n], two[n]), max(three[n], last[n])))


@fused
def _exponentials(four: Floats, total: Floats, count: int) -> None:
    """Scores to exponentials in place, and their sums."""
    one, two, three, last = four[0], four[1], four[2], four[3]
    if four.itemsize == 8:
        for n in range(count):
            one[n], two[n] = math.exp(one[n]), math.exp(two[n])
            three[n], last[n] = math.exp(three[n]), math.exp(last[n])
            total[n] += one[n] + two[n] + three[n] + last[n]
    else:
        for n in range(count):
            a, b, c, d = exp32(one[n]), exp32(two[n]), exp32(three[n]), exp32(last[n])
            one[n], two[n], three[n], last[n] = a, b, c, d
            total[n] += a + b + c + d
