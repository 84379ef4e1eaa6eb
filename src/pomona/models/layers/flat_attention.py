"""Reads of attention over sequences that lie end to end, without padding.

    read_flat(query, states, start)      [sequences, reads, memory] from queries of the same shape
    e_i = s_i . q,    a = softmax(e),    read = sum_i a_i s_i        over the tokens i of a sequence

Padded to the longest sequence, the same takes a product over positions that are not there, a copy of all states, and
another copy for each part of the gradient. Here all queries of a sequence walk over its states while they are in the
cache, and the derivative is written by hand. `plain=True` is the same in plain torch, one sequence after the other:
it is used on a GPU, and as the twin in the tests.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pomona.base.arrays import Floats, Ints
from pomona.base.compiled import fused
from pomona.models.layers.rows import dot


def read_flat(query: Tensor, states: Tensor, start: Ints, *, plain: bool = False) -> Tensor:
    """What each query reads, [sequences, reads, memory]; `states` are [tokens, memory], sequence k those from
    start[k] to start[k + 1]."""
    if plain or states.device.type != "cpu":
        parts = (states[first:last] for first, last in pairwise(start.tolist()))
        return torch.stack([(q @ s.t()).softmax(1) @ s for q, s in zip(query, parts, strict=True)])
    read: Tensor = _Reads.apply(query, states, start)  # type: ignore[no-untyped-call]
    return read


@fused
def _forward(query: Floats, states: Floats, start: Ints, weight: Floats, out: Floats) -> None:
    """`weight` is [reads, tokens]."""
    for row in range(len(query)):
        first, last = start[row], start[row + 1]
        for read in range(query.shape[1]):
            q, a, mixed = query[row, read], weight[read, first:last], out[row, read]
            for i in range(last - first):
                a[i] = dot(states[first + i], q)
            top = a.max()
            for i in range(last - first):
                a[i] = np.exp(a[i] - top)
            total = a.sum()
            for i in range(last - first):
                a[i] /= total
                part, s = a[i], states[first + i]
                for k in range(len(s)):
                    mixed[k] += part * s[k]


@fused
def _backward(
    query: Floats, states: Floats, start: Ints, weight: Floats, d_out: Floats, d_query: Floats, d_states: Floats
) -> None:
    """The gradients of queries and states; the weights become the gradients of the scores."""
    for row in range(len(query)):
        first, last = start[row], start[row + 1]
        for read in range(query.shape[1]):
            q, a, d, dq = query[row, read], weight[read, first:last], d_out[row, read], d_query[row, read]
            expected = dot(d, d_query[row, read])  # 0, of the right type
            slope = np.empty_like(a)
            for i in range(last - first):
                slope[i] = dot(states[first + i], d)
                expected += a[i] * slope[i]
            for i in range(last - first):
                part, d_score, s, ds = a[i], a[i] * (slope[i] - expected), states[first + i], d_states[first + i]
                for k in range(len(s)):
                    ds[k] += part * d[k] + d_score * q[k]
                for k in range(len(s)):
                    dq[k] += d_score * s[k]


class _Reads(torch.autograd.Function):
    """Reads of flat sequences, with a derivative written by hand."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, states: Tensor, start: Ints) -> Tensor:
        query, states = query.contiguous(), states.contiguous()
        weight, out = states.new_empty(query.shape[1], len(states)), torch.zeros_like(query)
        _forward(query.detach().numpy(), states.detach().numpy(), start, weight.numpy(), out.numpy())
        ctx.save_for_backward(query, states, weight)
        ctx.start = start
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> Any:
        query, states, weight = ctx.saved_tensors
        d_query, d_states = torch.zeros_like(query), torch.zeros_like(states)
        arrays = [x.numpy() for x in (weight, d_out.contiguous(), d_query, d_states)]
        _backward(query.detach().numpy(), states.detach().numpy(), ctx.start, *arrays)
        return d_query, d_states, None
