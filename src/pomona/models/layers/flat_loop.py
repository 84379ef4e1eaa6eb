"""Answering with a repeated layer, over sequences that lie end to end.

    roots = repeated(x, batch, steps, layer)           # [batch, answers, width]: the vectors that are classified
    layer(x, flat)                                     # one step: the new vectors of the tokens that ask

In training every token of a padded batch goes through every step. To answer, less is needed: no padding; a row leaves
when its steps are over; and in its last step only the tokens that are classified have to ask, while the others offer
keys and values. Attention over such rows is in `flat_softmax` and `flat_geometric`. The modules' own forward pass is
the twin in the tests.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pomona.base.arrays import Floats, Ints
from pomona.base.compiled import inlined, summed
from pomona.models.inputs.sequences import SequenceBatch
from pomona.trees.forest import gather


class Flat(NamedTuple):
    """The tokens of the rows that still run, and those of them that ask."""

    tokens: npt.NDArray[np.int64]  # their places among all tokens of the batch
    start: npt.NDArray[np.int64]  # where each row begins
    asking: Tensor | None  # the places of those that ask, row after row; None if all do
    asking_start: npt.NDArray[np.int64]

    def asked(self, x: Tensor) -> Tensor:
        """The vectors of the tokens that ask."""
        return x if self.asking is None else x[self.asking]


LANES = 16  # numbers of 32 bits in the widest register


@inlined
def whole_lanes(count: int) -> int:
    """Whole registers: what is computed beyond `count` is cheaper than a loop that ends earlier, and is not used."""
    return (count + LANES - 1) // LANES * LANES


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


def normed_sum(x: Tensor, y: Tensor, norm: nn.Module, rows: Ints | None = None) -> tuple[Tensor, Tensor]:
    """x + y and its norm, in one walk over the vectors; with `rows`, y[rows] is added."""
    assert isinstance(norm, nn.LayerNorm)
    total, out = torch.empty_like(x), torch.empty_like(x)
    left, right, weight, bias = (part.detach().numpy() for part in (x, y, norm.weight, norm.bias))
    which = np.arange(len(x)) if rows is None else rows
    _normed_sum(left, right, which, weight, bias, norm.eps, total.numpy(), out.numpy())
    return total, out


@summed
def _normed_sum(
    x: Floats, y: Floats, rows: Ints, weight: Floats, bias: Floats, eps: float, total: Floats, out: Floats
) -> None:
    width = x.shape[1]
    for i in range(len(x)):
        a, b, t, o = x[i], y[rows[i]], total[i], out[i]
        mean = a[0] * 0
        for k in range(width):
            t[k] = a[k] + b[k]
            mean += t[k]
        mean /= width
        square = mean * 0
        for k in range(width):
            square += (t[k] - mean) * (t[k] - mean)
        scale = mean * 0 + 1 / math.sqrt(square / width + eps)
        for k in range(width):
            o[k] = (t[k] - mean) * scale * weight[k] + bias[k]
