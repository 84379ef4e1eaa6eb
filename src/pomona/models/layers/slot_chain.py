"""The chain of Ordered Memory (Shen et al. 2019): one token is composed with the slots of a memory, from the lowest up.

    q = W2 relu(W1 [o; m_i] + b1) + b2,      g1, g2, g3 = sigmoid(q_1 .. q_3),     u = q_4
    cell(o, m_i) = LN(g1 * o + g2 * m_i + g3 * u)
    o_i = (1 - c_i) x + c_i cell(o_(i-1), m_i),     o_(-1) = x

c_i is the share of the attention that fell on slot i or below. Where it is 0, o_i is x, exactly, and no cell is
computed: early in a sentence and wherever the attention is sharp this is most of the memory. c never falls from slot to
slot, so the slots that a sentence needs are its upper ones. Sentences are ordered from many to few of them; then those
that need a slot are the first rows, and a slot is two products of matrices. The derivative is written by hand: it keeps
less, and the gradients of W1 and W2 are one product each for all slots.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn


class SlotChain(nn.Module):
    """The gated recursive cell of the paper (with ReLU), and its chain over slots."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.first = nn.Linear(2 * width, 4 * width)
        self.second = nn.Linear(4 * width, 4 * width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, memory: Tensor, share: Tensor, active: Tensor) -> Tensor:
        """Tokens [rows, width] and the upper slots of their memories [rows, slots, width] to o, [rows, slots, width].

        `share` is c, [rows, slots], and `active` says how many of the last slots have c above 0.
        """
        weights = [weight for layer in (self.first, self.second, self.norm) for weight in (layer.weight, layer.bias)]
        out: Tensor = _Chain.apply(x, memory, share, active, self.norm.eps, *weights)  # type: ignore[no-untyped-call]
        return out


class _Chain(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any, x: Tensor, memory: Tensor, share: Tensor, active: Tensor, eps: float, *weights: Tensor
    ) -> Tensor:
        first, first_bias, second, second_bias, gain, bias = weights
        slots, D = memory.shape[1:]
        order = active.argsort(descending=True, stable=True)
        needed = (active[:, None] >= torch.arange(slots, 0, -1)).sum(0)  # [slots]: how many rows need each slot
        ends = [0, *needed.cumsum(0).tolist()]
        # the cells, slot after slot: where each stands among all rows and slots
        cell = torch.cat([order[:count] * slots + slot for slot, count in enumerate(needed.tolist())])
        x_sorted, c = x[order], share.reshape(-1)[cell][:, None]
        m = memory.reshape(-1, D)[cell]  # [cells, D]
        inner = torch.addmm(first_bias, m, first[:, D:].t())  # [cells, 4D]
        gates, normal = torch.empty_like(inner), torch.empty_like(m)
        below, composed = torch.empty_like(m), torch.empty_like(m)  # o_(i-1) and o_i
        scale = torch.empty_like(c)
        o = x_sorted.clone()
        for low, high in pairwise(ends):
            here, top = slice(low, high), o[: high - low]
            below[here] = top
            inner[here].addmm_(top, first[:, :D].t()).relu_()
            q = torch.addmm(second_bias, inner[here], second.t(), out=gates[here])
            q[:, : 3 * D].sigmoid_()
            mixed = q[:, :D] * top
            mixed.addcmul_(q[:, D : 2 * D], m[here]).addcmul_(q[:, 2 * D : 3 * D], q[:, 3 * D :])
            parents, mean, scale[here] = torch.native_layer_norm(mixed, [D], gain, bias, eps)
            torch.mul(mixed.sub_(mean), scale[here], out=normal[here])
            torch.lerp(x_sorted[: high - low], parents, c[here], out=top)
            composed[here] = top
        out = x[:, None].repeat(1, slots, 1)
        out.view(-1, D)[cell] = composed
        context.save_for_backward(first, second, gain, bias, x_sorted, order, cell, c, m)
        context.known = (ends, slots, inner, gates, normal, scale, below)
        return out

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        first, second, gain, bias, x, order, cell, c, m = context.saved_tensors
        ends, slots, inner, gates, normal, scale, below = context.known
        rows, D = x.shape
        d_out = gradients[0].reshape(-1, D)
        idle = d_out.clone()
        idle[cell] = 0
        d_x = idle.view(rows, slots, D).sum(1)[order]  # of slots in which o is x
        d_composed = d_out[cell]
        # the derivative of each gate and of the update, but for the factor from the norm
        held = torch.cat([below, m, gates[:, 3 * D :]], 1)
        by_q = torch.cat([gates[:, : 3 * D] * (1 - gates[:, : 3 * D]) * held, gates[:, 2 * D : 3 * D]], 1)
        by_q = by_q.view(-1, 4, D)
        d_q, d_inner = torch.empty_like(gates), torch.empty_like(inner)
        d_parents, d_m, d_c = torch.empty_like(m), torch.empty_like(m), torch.empty_like(c)
        d_o = torch.zeros_like(x)  # of o_i, from the slot above it
        for low, high in list(pairwise(ends))[::-1]:
            here, top = slice(low, high), slice(high - low)
            d_here = d_composed[here].add_(d_o[top])
            parents = torch.addcmul(bias, normal[here], gain)
            d_c[here] = (d_here * (parents - x[top])).sum(1, keepdim=True)
            torch.mul(d_here, c[here], out=d_parents[here])
            d_x[top] += d_here - d_parents[here]
            d_normal, n = d_parents[here] * gain, normal[here]
            d_mixed = d_normal - d_normal.mean(1, keepdim=True) - n * (d_normal * n).mean(1, keepdim=True)
            d_mixed *= scale[here]
            torch.mul(by_q[here], d_mixed[:, None], out=d_q[here].view(-1, 4, D))
            torch.mm(d_q[here], second, out=d_inner[here])
            d_inner[here].masked_fill_(inner[here] == 0, 0)
            torch.mm(d_inner[here], first[:, :D], out=d_o[top])
            d_o[top].addcmul_(gates[here, :D], d_mixed)
            torch.mul(gates[here, D : 2 * D], d_mixed, out=d_m[here])
        d_x += d_o  # below the lowest slot of a row, o is x
        d_m.addmm_(d_inner, first[:, D:])
        d_memory, d_share = torch.zeros_like(d_out), d_out.new_zeros(len(d_out))
        d_memory[cell], d_share[cell] = d_m, d_c[:, 0]
        d_sorted = torch.empty_like(d_x)
        d_sorted[order] = d_x
        return (
            d_sorted, d_memory.view(rows, slots, D), d_share.view(rows, slots), None, None,
            torch.cat([d_inner.t() @ below, d_inner.t() @ m], 1), d_inner.sum(0),
            d_q.t() @ inner, d_q.sum(0),
            (d_parents * normal).sum(0), d_parents.sum(0),
        )  # fmt: skip
