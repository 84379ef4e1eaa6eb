"""The gated recursive cell (GRC; Shen et al. 2019, Ordered Memory, equation of the cell), over all nodes of many trees.

    q = W2 gelu(W1 [l; r] + b1) + b2,     g1, g2, g3 = sigmoid(q_1 .. q_3),     u = q_4
    parent = LN(g1 * l + g2 * r + g3 * u)

Nodes are computed in rounds: a node of one round has its children in earlier ones. A round is two products of matrices.
`Tape` keeps what the derivative needs, so that nodes computed while a parser decides (without gradient) need not be
computed again: `Tape.nodes` gives them a gradient. The derivative runs over heights, of which there are fewer than
rounds; the gradients of W1 and W2 are one product each.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pomona.base.arrays import Ints
from pomona.models.inputs.schedule import TreeSchedule


class GRC(nn.Module):
    """The cell: two vectors in, one out."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.first = nn.Linear(2 * width, 4 * width)
        self.second = nn.Linear(4 * width, 4 * width)
        self.norm = nn.LayerNorm(width)

    def forward(self, pairs: Tensor) -> Tensor:
        """The parents of these pairs of children, [nodes, 2 * width]."""
        return self.parents(pairs)[0]

    def parents(self, pairs: Tensor) -> tuple[Tensor, ...]:
        """The parents, and what their derivative needs: inner sums, inner values, gates and update, mean, deviation."""
        D = self.width
        inner = self.first(pairs)
        active = nn.functional.gelu(inner)
        q = self.second(active)
        gates = q[:, : 3 * D].sigmoid()
        mixed = gates[:, 2 * D :] * q[:, 3 * D :]
        mixed = mixed + (gates[:, : 2 * D] * pairs).view(-1, 2, D).sum(1)
        parents, mean, scale = torch.native_layer_norm(mixed, [D], self.norm.weight, self.norm.bias, self.norm.eps)
        return parents, inner, active, torch.cat([gates, q[:, 3 * D :]], 1), (mixed - mean) * scale, scale


class Tape:
    """The nodes of many trees as they are computed, round by round, without gradient.

    Node numbers below `leaves` are rows of the leaf vectors; the nodes of each round follow.
    """

    def __init__(self, cell: GRC, leaves: Tensor, most: int, *, keep: bool) -> None:
        self.cell, self.leaves, self.keep = cell, len(leaves), keep
        self.vectors = leaves.new_empty(len(leaves) + most, cell.width)
        self.vectors[: len(leaves)] = leaves.detach()
        self.count = 0  # nodes computed
        self._children: list[Tensor] = []
        self._kept: list[tuple[Tensor, ...]] = []

    @classmethod
    def of_schedule(cls, cell: GRC, leaves: Tensor, schedule: TreeSchedule, *, keep: bool) -> Tape:
        """The nodes of trees that are known, height by height."""
        tape = cls(cell, leaves, len(schedule), keep=keep)
        children = np.stack([schedule.left, schedule.right], 1).astype(np.int64)
        for first, last in zip(schedule.at[:-1], schedule.at[1:], strict=True):
            tape.add(children[first:last])
        return tape

    def pairs(self, children: Tensor) -> Tensor:
        """The vectors of pairs of nodes side by side, [pairs, 2 * width]."""
        return self.vectors.index_select(0, children.view(-1)).view(len(children), -1)

    @torch.no_grad()
    def add(self, children: npt.NDArray[np.int64]) -> None:
        """Compute the nodes with these children, [nodes, 2]."""
        numbers = torch.from_numpy(children)
        parents, *kept = self.cell.parents(self.pairs(numbers))
        first = self.leaves + self.count
        self.vectors[first : first + len(parents)] = parents
        self.count += len(parents)
        if self.keep:
            self._children.append(numbers)
            self._kept.append(tuple(kept))

    def nodes(self, leaves: Tensor, height: Ints) -> Tensor:
        """All leaves and nodes with their gradient, [leaves + nodes, width]; `height` of each node, from 0."""
        cell = self.cell
        if not self.count:
            return leaves
        if not any(weight.requires_grad for weight in (leaves, *cell.parameters())):
            return self.vectors[: self.leaves + self.count]
        order = torch.from_numpy(np.argsort(height, kind="stable"))
        ends = np.cumsum(np.bincount(height)).tolist()
        kept = [torch.cat(parts)[order] for parts in zip(*self._kept, strict=True)]
        weights = [weight for layer in (cell.first, cell.second, cell.norm) for weight in (layer.weight, layer.bias)]
        known = (self, order, ends, torch.cat(self._children)[order], kept)
        nodes: Tensor = _Nodes.apply(known, leaves, *weights)  # type: ignore[no-untyped-call]
        return nodes


class _Nodes(torch.autograd.Function):
    """Nodes that a tape has computed already; only their derivative is computed here."""

    @staticmethod
    def forward(context: Any, known: tuple[Any, ...], leaves: Tensor, *weights: Tensor) -> Tensor:
        context.known = known
        context.save_for_backward(*weights)
        tape: Tape = known[0]
        return tape.vectors[: tape.leaves + tape.count].clone()

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        tape, order, ends, children, (inner, active, gates, normal, scale) = context.known
        first, _, second, _, gain, _ = context.saved_tensors
        V, D = tape.leaves, tape.cell.width
        total = gradients[0].clone()  # of every node, complete when its height is reached
        slope = 0.5 * (1 + torch.erf(inner / math.sqrt(2)))
        slope += inner * torch.exp(-0.5 * inner * inner) / math.sqrt(2 * math.pi)
        pairs = tape.pairs(children)
        # the derivative of each gate and of the update, but for the factor from the norm
        by_gate = gates[:, : 3 * D] * (1 - gates[:, : 3 * D]) * torch.cat([pairs, gates[:, 3 * D :]], 1)
        by_q = torch.cat([by_gate, gates[:, 2 * D : 3 * D]], 1).view(-1, 4, D)
        d_q, d_inner = torch.empty_like(gates), torch.empty_like(inner)
        d_nodes = torch.empty_like(normal)
        for low, high in zip([0, *ends[:-1]][::-1], ends[::-1], strict=True):
            here = slice(low, high)
            d_nodes[here] = d_node = total[V + order[here]]
            d_normal, n = d_node * gain, normal[here]
            d_mixed = d_normal - d_normal.mean(1, keepdim=True) - n * (d_normal * n).mean(1, keepdim=True)
            d_mixed *= scale[here]
            torch.mul(by_q[here], d_mixed[:, None], out=d_q[here].view(-1, 4, D))
            torch.mul(d_q[here] @ second, slope[here], out=d_inner[here])
            d_pairs = d_inner[here] @ first
            d_pairs += (gates[here, : 2 * D].view(-1, 2, D) * d_mixed[:, None]).view(-1, 2 * D)
            total.index_add_(0, children[here].view(-1), d_pairs.view(-1, D))
        return (
            None, total[:V],
            d_inner.t() @ pairs, d_inner.sum(0), d_q.t() @ active, d_q.sum(0),
            (d_nodes * normal).sum(0), d_nodes.sum(0),
        )  # fmt: skip
