"""Answering with a repeated layer, over sequences that lie end to end.

    roots = repeated(x, batch, steps, layer)           # [batch, answers, width]: the vectors that are classified
    layer(x, flat)                                     # one step: the new vectors of the tokens that ask

In training every token of a padded batch goes through every step. To answer, less is needed: no padding; a row leaves
when its steps are over; and in its last step only the tokens that are classified have to ask, while the others offer
keys and values. Softmax attention is a matrix product, one walk over each row of scores and another product. Geometric
attention walks outward from a token and stops where the positions that are left have next to no weight (NEXT_TO_NONE),
so for most tokens far scores are never computed. The modules' own forward pass is the twin in the tests.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pomona.base.arrays import Floats, Ints
from pomona.base.compiled import fused, summed
from pomona.models.inputs.sequences import SequenceBatch
from pomona.models.layers.rows import exp32, sigmoid_row
from pomona.trees.forest import gather

NEXT_TO_NONE = 1e-9  # of the weight 1 of a token; rounding to 32 bits takes 6e-8
BLOCK = 16  # scores on one side that are computed at a time


class Flat(NamedTuple):
    """The tokens of the rows that still run, and those of them that ask."""

    tokens: npt.NDArray[np.int64]  # their places among all tokens of the batch
    start: npt.NDArray[np.int64]  # where each row begins
    asking: Tensor | None  # the places of those that ask, row after row; None if all do
    asking_start: npt.NDArray[np.int64]

    def asked(self, x: Tensor) -> Tensor:
        """The vectors of the tokens that ask."""
        return x if self.asking is None else x[self.asking]


def can_answer_flat(module: nn.Module, batch: SequenceBatch, steps: Tensor) -> bool:
    """Whether this is the way now: in evaluation, without gradients, on the processor, one step at least for a row."""
    here = batch.tokens.device.type == "cpu" and not torch.is_grad_enabled()
    return here and not module.training and len(steps) > 0 and int(steps.min()) > 0


def repeated(x: Tensor, batch: SequenceBatch, steps: Tensor, layer: Callable[[Tensor, Flat], Tensor]) -> Tensor:
    """Repeat a layer on `x`, [tokens, width], for each row as often as `steps` says; the last vectors of its heads."""
    heads, count = batch.heads.numpy(), steps.numpy().astype(np.int64)
    out = x.new_empty(*heads.shape, x.shape[1])
    rows = np.arange(len(count))
    tokens, start = np.arange(len(x)), batch.start
    for step in range(int(count.max())):
        ends = count[rows] == step + 1
        asking, asking_start = None, start
        if ends.any():
            asks = np.repeat(~ends, np.diff(start))
            asks[(start[:-1, None] + heads[rows])[ends]] = True
            asking = torch.from_numpy(np.flatnonzero(asks))
            asking_start = np.concatenate([[0], np.cumsum(asks)])[start]
        x = layer(x, Flat(tokens, start, asking, asking_start))
        if ends.any():
            place = np.searchsorted(np.flatnonzero(asks), start[:-1, None] + heads[rows])
            out[torch.from_numpy(rows[ends])] = x[torch.from_numpy(place[ends])]
            rest = np.flatnonzero(~ends)
            x = x[torch.from_numpy(gather(asking_start, rest)[1])]
            start, kept = gather(start, rest)
            rows, tokens = rows[rest], tokens[kept]
    return out


# -- softmax attention ------------------------------------------------------------------------------------------------


def attend_softmax(query: Tensor, key: Tensor, value: Tensor, flat: Flat, bias: Tensor) -> Tensor:
    """[asking, width] from queries of the same shape; `bias` is [heads, distances], as in `RelativeBias`."""
    heads = len(bias)
    size, out = query.shape[1] // heads, torch.empty_like(query)
    longest = int(np.diff(flat.start).max())
    most = int(np.diff(flat.asking_start).max())
    buffer, table = query.new_empty(most * longest), bias.numpy()
    at = np.arange(len(query)) if flat.asking is None else flat.asking.numpy()
    key, total = key / math.sqrt(size), query.new_empty(len(query), heads)
    for row in range(len(flat.start) - 1):
        first, last = int(flat.start[row]), int(flat.start[row + 1])
        low, high = int(flat.asking_start[row]), int(flat.asking_start[row + 1])
        score = buffer[: (high - low) * (last - first)].view(high - low, last - first)
        distances = at[low:high] - first
        for head in range(heads):
            part = slice(head * size, (head + 1) * size)
            torch.mm(query[low:high, part], key[first:last, part].t(), out=score)
            _soften(score.numpy(), table[head], distances, total[low:high, head:].numpy())
            torch.mm(score, value[first:last, part], out=out[low:high, part])
    out.view(len(out), heads, size).div_(total[:, :, None])
    return out


@summed
def _soften(score: Floats, bias: Floats, at: Ints, total: Floats) -> None:
    """Each row of scores becomes exp(score + bias of its distance - top), and its sum is kept."""
    length, far = score.shape[1], len(bias) // 2
    for i in range(len(score)):
        row = score[i]
        low, high = max(0, at[i] - far), min(length, at[i] + far + 1)
        for j in range(low, high):
            row[j] += bias[j - at[i] + far]
        top = _top(row[low:high])
        if low > 0:
            top = max(top, _top(row[:low]) + bias[0])
        if high < length:
            top = max(top, _top(row[high:]) + bias[2 * far])
        total[i, 0] = _exponentials(row[:low], bias[0] - top)
        total[i, 0] += _exponentials(row[low:high], -top)
        total[i, 0] += _exponentials(row[high:], bias[2 * far] - top)


@summed
def _exponentials(row: Floats, shift: Any) -> Any:
    """exp(row + shift) in place, and its sum."""
    total = shift * 0
    if row.itemsize == 8:
        for j in range(len(row)):
            row[j] = math.exp(row[j] + shift)
            total += row[j]
    else:
        for j in range(len(row)):
            row[j] = exp32(row[j] + shift)
            total += row[j]
    return total


@fused
def _top(row: Floats) -> Any:
    """The largest number; eight at a time, since one maximum after the other would wait for each other."""
    a = b = c = d = e = f = g = h = row[0]
    whole = len(row) // 8 * 8
    for j in range(0, whole, 8):
        a, b, c, d = max(a, row[j]), max(b, row[j + 1]), max(c, row[j + 2]), max(d, row[j + 3])
        e, f, g, h = max(e, row[j + 4]), max(f, row[j + 5]), max(g, row[j + 6]), max(h, row[j + 7])
    for j in range(whole, len(row)):
        a = max(a, row[j])
    return max(max(max(a, b), max(c, d)), max(max(e, f), max(g, h)))


# -- geometric attention ----------------------------------------------------------------------------------------------


def attend_geometric(query: Tensor, key: Tensor, value: Tensor, flat: Flat, side: Tensor) -> Tensor:
    """[asking, width]; `side` is [heads, 2]: what is added to scores on the left and on the right."""
    out = torch.zeros_like(query)
    at = np.arange(len(query)) if flat.asking is None else flat.asking.numpy()
    query = query / math.sqrt(query.shape[1] // len(side))
    query, key, value = (x.contiguous() for x in (query, key, value))
    places = (flat.start, flat.asking_start, at)
    _outward(query.numpy(), key.numpy(), value.numpy(), side.contiguous().numpy(), *places, out.numpy())
    return out


@fused
def _outward(
    query: Floats, key: Floats, value: Floats, side: Floats, start: Ints, asking: Ints, at: Ints, out: Floats
) -> None:
    heads, size = len(side), query.shape[1] // len(side)
    longest = 0
    for row in range(len(start) - 1):
        longest = max(longest, start[row + 1] - start[row])
    keys, values = np.empty((size, longest), query.dtype), np.empty((size, longest), query.dtype)
    match, weight = np.empty(longest, query.dtype), np.empty(longest, query.dtype)
    for row in range(len(start) - 1):
        first, length = start[row], start[row + 1] - start[row]
        for head in range(heads):
            for j in range(length):
                for d in range(size):
                    keys[d, j] = key[first + j, head * size + d]
                    values[d, j] = value[first + j, head * size + d]
            for number in range(asking[row], asking[row + 1]):
                i, mine = at[number] - first, query[number, head * size : (head + 1) * size]
                low, high, left, step = i, i + 1, 1.0, 1
                weight[i] = 0
                while left > NEXT_TO_NONE and (low > 0 or high < length):
                    new_low, new_high = max(0, low - BLOCK), min(length, high + BLOCK)
                    _matches(mine, keys, match, new_low, low, side[head, 0])
                    _matches(mine, keys, match, high, new_high, side[head, 1])
                    low, high = new_low, new_high
                    for _ in range(BLOCK):
                        if i >= step:
                            weight[i - step] = left * match[i - step]
                            left -= weight[i - step]
                        if i + step < length:
                            weight[i + step] = left * match[i + step]
                            left -= weight[i + step]
                        step += 1
                _mix(weight, values, low, high, out[number, head * size : (head + 1) * size])


@fused
def _matches(query: Floats, keys: Floats, match: Floats, low: int, high: int, side: float) -> None:
    """The probabilities that positions low .. high match."""
    for j in range(low, high):
        match[j] = side
    d = 0
    while d + 4 <= len(query):  # four at a time, so that match is written less often
        a, b, c, e = query[d], query[d + 1], query[d + 2], query[d + 3]
        one, two, three, four = keys[d], keys[d + 1], keys[d + 2], keys[d + 3]
        for j in range(low, high):
            match[j] += a * one[j] + b * two[j] + c * three[j] + e * four[j]
        d += 4
    while d < len(query):
        a, one = query[d], keys[d]
        for j in range(low, high):
            match[j] += a * one[j]
        d += 1
    sigmoid_row(match[low:high])


@summed
def _mix(weight: Floats, values: Floats, low: int, high: int, out: Floats) -> None:
    for d in range(len(out)):
        row, total = values[d], weight[low] * 0
        for j in range(low, high):
            total += weight[j] * row[j]
        out[d] = total
