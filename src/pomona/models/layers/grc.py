"""The gated recursive cell (GRC; Shen et al. 2019, Ordered Memory, equation of the cell), over all nodes of many trees.

    q = W2 gelu(W1 [l; r] + b1) + b2,     g1, g2, g3 = sigmoid(q_1 .. q_3),     u = q_4
    parent = LN(g1 * l + g2 * r + g3 * u)

A vector may also have counters c, which are 0 for a word and which no norm bounds. They add up along left children, and
the cell sees them squashed, so that it meets nothing new when they go further than in training:

    q has the inputs [l; r; tanh(c_l)] and a fifth part w,     c = c_l + tanh(w)

Nodes are computed in rounds: a node of one round has its children in earlier ones. A round is two products of matrices.
`Tape` keeps what the derivative needs, so that nodes computed while a parser decides (without gradient) need not be
computed again: `Tape.nodes` gives them a gradient. The derivative runs over heights, of which there are fewer than
rounds; the gradients of W1 and W2 are one product each. Noise may be added to the nodes; every node has its own, and
the vector without it is kept as well (`quiet`).
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
    """The cell: two vectors in, one out. A vector is `width` numbers and the counters behind them: `size` in all."""

    def __init__(self, width: int, counters: int = 0) -> None:
        super().__init__()
        self.width, self.counters, self.size = width, counters, width + counters
        self.first = nn.Linear(2 * width + counters, 4 * width)
        self.second = nn.Linear(4 * width, 4 * width + counters)
        self.norm = nn.LayerNorm(width)

    def forward(self, pairs: Tensor) -> Tensor:
        """The parents of these pairs of children, [nodes, 2 * size]."""
        return self.parents(pairs)[0]

    def parents(self, pairs: Tensor) -> tuple[Tensor, ...]:
        """The parents, and what their derivative needs: inner sums, inner values, gates and update (and what is
        counted), mean, deviation."""
        D = self.width
        seen = self.seen(pairs)
        inner = self.first(seen)
        active = nn.functional.gelu(inner)
        q = self.second(active)
        gates = q[:, : 3 * D].sigmoid()
        mixed = gates[:, 2 * D :] * q[:, 3 * D : 4 * D]
        mixed = mixed + (gates[:, : 2 * D] * seen[:, : 2 * D]).view(-1, 2, D).sum(1)
        parents, mean, scale = torch.native_layer_norm(mixed, [D], self.norm.weight, self.norm.bias, self.norm.eps)
        rest = q[:, 3 * D :]
        if self.counters:
            counted = torch.tanh(q[:, 4 * D :])
            parents = torch.cat([parents, pairs[:, D : self.size] + counted], 1)
            rest = torch.cat([q[:, 3 * D : 4 * D], counted], 1)
        return parents, inner, active, torch.cat([gates, rest], 1), (mixed - mean) * scale, scale

    def seen(self, pairs: Tensor) -> Tensor:
        """What the cell sees of pairs of vectors: both without counters, and those of the left one, squashed."""
        if not self.counters:
            return pairs
        D, size = self.width, self.size
        return torch.cat([pairs[:, :D], pairs[:, size : size + D], torch.tanh(pairs[:, D:size])], 1)


class Tape:
    """The nodes of many trees as they are computed, round by round, without gradient.

    Node numbers below `leaves` are rows of the leaf vectors, whose counters are 0; the nodes of each round follow.
    `noise` is added to the nodes, not to their counters, in the order in which they are computed, [most, width].
    """

    def __init__(self, cell: GRC, leaves: Tensor, most: int, *, keep: bool, noise: Tensor | None = None) -> None:
        self.cell, self.leaves, self.keep, self.noise = cell, len(leaves), keep, noise
        self.vectors = leaves.new_empty(len(leaves) + most, cell.size)
        self.vectors[: len(leaves), : cell.width] = leaves.detach()
        self.vectors[: len(leaves), cell.width :] = 0
        self.quiet = self.vectors if noise is None else self.vectors.clone()  # the same before the noise
        self.count = 0  # nodes computed
        self._children: list[Tensor] = []
        self._kept: list[tuple[Tensor, ...]] = []

    @classmethod
    def of_schedule(
        cls, cell: GRC, leaves: Tensor, schedule: TreeSchedule, *, keep: bool, noise: Tensor | None = None
    ) -> Tape:
        """The nodes of trees that are known, height by height."""
        tape = cls(cell, leaves, len(schedule), keep=keep, noise=noise)
        children = np.stack([schedule.left, schedule.right], 1).astype(np.int64)
        for first, last in zip(schedule.at[:-1], schedule.at[1:], strict=True):
            tape.add(children[first:last])
        return tape

    def pairs(self, children: Tensor, *, quiet: bool = False) -> Tensor:
        """The vectors of pairs of nodes side by side, as they were without noise if `quiet`, [pairs, 2 * size]."""
        vectors = self.quiet if quiet else self.vectors
        return vectors.index_select(0, children.view(-1)).view(len(children), -1)

    @torch.no_grad()
    def add(self, children: npt.NDArray[np.int64]) -> None:
        """Compute the nodes with these children, [nodes, 2]."""
        numbers = torch.from_numpy(children)
        parents, *kept = self.cell.parents(self.pairs(numbers))
        first = self.leaves + self.count
        if self.noise is not None:
            self.quiet[first : first + len(parents)] = parents
            parents[:, : self.cell.width] += self.noise[self.count : self.count + len(parents)]
        self.vectors[first : first + len(parents)] = parents
        self.count += len(parents)
        if self.keep:
            self._children.append(numbers)
            self._kept.append(tuple(kept))

    def nodes(self, leaves: Tensor, height: Ints, used: Ints | None = None) -> Tensor:
        """All leaves and nodes without counters, with their gradient, [leaves + nodes, width]; `height` of each node,
        from 0.

        If only some nodes and those below them are used, `used` has their numbers, and others get no gradient.
        """
        cell = self.cell
        if not self.count:
            return leaves
        if not any(weight.requires_grad for weight in (leaves, *cell.parameters())):
            return self.vectors[: self.leaves + self.count, : cell.width]
        some = np.arange(self.count) if used is None else used
        order = torch.from_numpy(some[np.argsort(height[some], kind="stable")])
        ends = np.cumsum(np.bincount(height[some])).tolist()
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
        return tape.vectors[: tape.leaves + tape.count, : tape.cell.width].clone()

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        tape, order, ends, children, (inner, active, gates, normal, scale) = context.known
        first, _, second, _, gain, _ = context.saved_tensors
        cell: GRC = tape.cell
        V, D, size = tape.leaves, cell.width, cell.size
        total = gradients[0].new_zeros(len(gradients[0]), size)  # of every node, complete when its height is reached
        total[:, :D] = gradients[0]
        slope = 0.5 * (1 + torch.erf(inner / math.sqrt(2)))
        slope += inner * torch.exp(-0.5 * inner * inner) / math.sqrt(2 * math.pi)
        seen = cell.seen(tape.pairs(children))
        # the derivative of each gate and of the update, but for the factor from the norm
        by_gate = gates[:, : 3 * D] * (1 - gates[:, : 3 * D])
        by_gate *= torch.cat([seen[:, : 2 * D], gates[:, 3 * D : 4 * D]], 1)
        by_q = torch.cat([by_gate, gates[:, 2 * D : 3 * D]], 1).view(-1, 4, D)
        counts, reads = 1 - gates[:, 4 * D :].square(), 1 - seen[:, 2 * D :].square()  # derivatives of the two tanh
        d_q, d_inner = torch.empty_like(gates), torch.empty_like(inner)
        d_nodes = torch.empty_like(normal)
        for low, high in zip([0, *ends[:-1]][::-1], ends[::-1], strict=True):
            here = slice(low, high)
            d_all = total[V + order[here]]
            d_nodes[here] = d_node = d_all[:, :D]
            d_normal, n = d_node * gain, normal[here]
            d_mixed = d_normal - d_normal.mean(1, keepdim=True) - n * (d_normal * n).mean(1, keepdim=True)
            d_mixed *= scale[here]
            d_q[here, : 4 * D] = (by_q[here] * d_mixed[:, None]).view(-1, 4 * D)
            d_q[here, 4 * D :] = d_all[:, D:] * counts[here]
            torch.mul(d_q[here] @ second, slope[here], out=d_inner[here])
            d_seen = d_inner[here] @ first
            d_pairs = d_all.new_zeros(high - low, 2, size)
            d_pairs[:, :, :D] = gates[here, : 2 * D].view(-1, 2, D) * d_mixed[:, None]
            d_pairs[:, :, :D] += d_seen[:, : 2 * D].view(-1, 2, D)
            d_pairs[:, 0, D:] = d_seen[:, 2 * D :] * reads[here] + d_all[:, D:]
            total.index_add_(0, children[here].view(-1), d_pairs.view(-1, size))
        return (
            None, total[:V, :D],
            d_inner.t() @ seen, d_inner.sum(0), d_q.t() @ active, d_q.sum(0),
            (d_nodes * normal).sum(0), d_nodes.sum(0),
        )  # fmt: skip
