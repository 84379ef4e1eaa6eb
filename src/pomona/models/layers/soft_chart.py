"""The soft chart (Maillard, Clark and Yogatama 2017): every binary tree over a sentence at once, weighted.

    (h_s, c_s) = cell(left part, right part),   a = softmax of cos(q, h_s) / tau over s,   (h, c) = sum_s a_s (h_s, c_s)

for each span and its cuts s. Computed as written, this is a TreeLSTM cell with full matrices for each of n^3 / 6 cuts.
Here each span is projected once for each side that it can stand on, n^2 / 2 times in all and for one width at a time,
and only the gates are left for a cut. A gate is a logistic function of a sum, 1 / (1 + e^-x e^-y), so its exponentials
too are computed once for a span (`tree_lstm.to_exponentials`), unless a product of exponentials could overflow. The
backward pass computes the gates again, so memory grows with the number of spans, not with that of cuts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pomona.base.arrays import Floats, Ints
from pomona.base.compiled import compiled, fused
from pomona.models.layers.rows import dot
from pomona.models.layers.tree_lstm import node_backward, node_forward, node_forward_exponential, to_exponentials


@compiled
def _spans(start: Ints) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The span of w + 1 tokens from token i of sentence b has number `cell[w, b] + i`; width w begins at `at[w]`."""
    longest = (start[1:] - start[:-1]).max()
    at, cell = np.zeros(longest + 1, np.int64), np.zeros((longest, len(start) - 1), np.int64)
    total = 0
    for width in range(longest):
        for b in range(len(start) - 1):
            cell[width, b] = total
            total += max(0, start[b + 1] - start[b] - width)
        at[width + 1] = total
    return at, cell


@fused
def _forward(
    width: int, exponential: bool, start: Ints, cell: Ints, u: Floats, tau: float, h: Floats, c: Floats,
    projected: Floats, best: Ints, gates: Floats, t: Floats, cut_h: Floats, cut_c: Floats, a: Floats,
) -> None:  # fmt: skip
    """h and c of all spans of width + 1 tokens."""
    H = h.shape[1]
    for b in range(len(start) - 1):
        for i in range(start[b + 1] - start[b] - width):
            span = cell[width, b] + i
            _cuts(width, exponential, b, i, cell, u, tau, c, projected, gates, t, cut_h, cut_c, a)
            top, total = 0, a[0] * 0
            for s in range(width):
                if a[s] > a[top]:
                    top = s
            best[span] = top
            peak = a[top]
            for s in range(width):
                a[s] = np.exp(a[s] - peak)
                total += a[s]
            for x in range(H):
                h[span, x] = c[span, x] = 0
            for s in range(width):
                share = a[s] / total
                for x in range(H):
                    h[span, x] += share * cut_h[s, x]
                for x in range(H):
                    c[span, x] += share * cut_c[s, x]


@fused
def _cuts(
    width: int, exponential: bool, b: int, i: int, cell: Ints, u: Floats, tau: float, c: Floats, projected: Floats,
    gates: Floats, t: Floats, cut_h: Floats, cut_c: Floats, a: Floats,
) -> None:  # fmt: skip
    """The cell and the score of every cut of one span."""
    H = c.shape[1]
    for s in range(width):
        first, second = cell[s, b] + i, cell[width - 1 - s, b] + i + s + 1
        left, right = projected[first, : 5 * H], projected[second, 5 * H :]
        if exponential:
            node_forward_exponential(left, right, c[first], c[second], gates[s], cut_h[s], cut_c[s], t[s])
        else:
            node_forward(left, right, c[first], c[second], gates[s], cut_h[s], cut_c[s], t[s])
        a[s] = dot(u, cut_h[s]) / (np.sqrt(dot(cut_h[s], cut_h[s])) * tau)


@fused
def _backward(
    width: int, exponential: bool, start: Ints, cell: Ints, u: Floats, tau: float, c: Floats, projected: Floats,
    d_h: Floats, d_c: Floats, d_projected: Floats, d_u: Floats, gates: Floats, t: Floats, cut_h: Floats, cut_c: Floats,
    a: Floats, d_a: Floats, d_z: Floats, part: Floats, other: Floats,
) -> None:  # fmt: skip
    """The derivative of `_forward`."""
    H = c.shape[1]
    for b in range(len(start) - 1):
        for i in range(start[b + 1] - start[b] - width):
            span = cell[width, b] + i
            _cuts(width, exponential, b, i, cell, u, tau, c, projected, gates, t, cut_h, cut_c, a)
            peak, total, mean = a[:width].max(), a[0] * 0, a[0] * 0
            for s in range(width):
                a[s] = np.exp(a[s] - peak)
                total += a[s]
            for s in range(width):
                a[s] /= total
                d_a[s] = dot(d_h[span], cut_h[s]) + dot(d_c[span], cut_c[s])
                mean += a[s] * d_a[s]
            for s in range(width):
                d_score = a[s] * (d_a[s] - mean) / tau
                length = np.sqrt(dot(cut_h[s], cut_h[s]))
                along = d_score / length
                down = d_score * dot(u, cut_h[s]) / (length * length * length)
                for x in range(H):
                    part[x] = a[s] * d_h[span, x] + along * u[x] - down * cut_h[s, x]
                for x in range(H):
                    other[x] = a[s] * d_c[span, x]
                for x in range(H):
                    d_u[x] += along * cut_h[s, x]
                first, second = cell[s, b] + i, cell[width - 1 - s, b] + i + s + 1
                node_backward(part, other, c[first], c[second], gates[s], t[s], d_z, d_c[first], d_c[second])
                low, high = d_projected[first, : 5 * H], d_projected[second, 5 * H :]
                for x in range(5 * H):
                    low[x] += d_z[x]
                for x in range(5 * H):
                    high[x] += d_z[x]


@compiled
def _outline(start: Ints, cell: Ints, best: Ints) -> tuple[Any, ...]:
    """The shift-reduce steps of the best trees, and the span that each step makes."""
    count = 2 * start[-1] - len(start) + 1
    steps, span_at = np.empty(count, np.uint8), np.empty(count, np.int64)
    stack = np.empty((len(steps) + 2, 3), np.int64)
    at = 0
    for b in range(len(start) - 1):
        high = 1
        stack[0] = 0, start[b + 1] - start[b] - 1, 0
        while high:
            high -= 1
            i, width, closing = stack[high]
            if width == 0 or closing:
                steps[at], span_at[at] = closing, cell[width, b] + i
                at += 1
            else:
                s = np.int64(best[cell[width, b] + i])
                stack[high] = i, width, 1
                stack[high + 1] = i + s + 1, width - 1 - s, 0
                stack[high + 2] = i, s, 0
                high += 3
    return steps, span_at


class Charted(torch.autograd.Function):
    """h of every sentence, h of every node of its best tree, and the steps of that tree."""

    @staticmethod
    def forward(
        ctx: Any, leaf: Tensor, weight: Tensor, bias: Tensor, u: Tensor, tau: float, start: npt.NDArray[np.int64]
    ) -> Any:
        """`leaf` has h and c of every token, [tokens, 2H]; `weight` is W_l on W_r, [10H, H]."""
        at, cell = _spans(start)
        H, longest = leaf.shape[1] // 2, len(at) - 1
        h, c, projected = (leaf.new_empty(int(at[-1]), size * H) for size in (1, 1, 10))
        h[: at[1]], c[: at[1]] = leaf.chunk(2, 1)
        best = np.zeros(int(at[-1]), np.int32)
        turned, offset = weight.t(), torch.cat([bias, torch.zeros_like(bias)])
        scratch = [leaf.new_empty(longest, size * H).numpy() for size in (5, 1, 1, 1)]
        scratch.append(leaf.new_empty(longest).numpy())
        query = u.detach().numpy()

        def fill(exponential: bool) -> bool:
            """Compute the whole chart; False if it was to be done with exponentials and they are too large."""
            for width in range(longest):
                if width:
                    _forward(
                        width,
                        exponential,
                        start,
                        cell,
                        query,
                        tau,
                        h.numpy(),
                        c.numpy(),
                        projected.numpy(),
                        best,
                        *scratch,
                    )
                rows = slice(int(at[width]), int(at[width + 1]))
                torch.addmm(offset, h[rows], turned, out=projected[rows])
                if exponential and not to_exponentials(projected[rows].view(-1, 5 * H)):
                    return False
            return True

        exponential = fill(True)
        if not exponential:
            fill(False)
        root = torch.from_numpy(cell[np.diff(start) - 1, np.arange(len(start) - 1)])
        steps, span_at = _outline(start, cell, best)
        ctx.save_for_backward(weight, u)
        ctx.kept = (at, cell, h, c, projected, scratch, root, start, tau, exponential)
        ctx.set_materialize_grads(False)
        nodes = h[torch.from_numpy(span_at)]
        ctx.mark_non_differentiable(nodes)
        return h[root], nodes, steps

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, d_root: Tensor, _nodes: Any, _steps: Any) -> Any:
        (at, cell, h, c, projected, scratch, root, start, tau, exponential), ctx.kept = ctx.kept, None
        weight, u = ctx.saved_tensors
        H = h.shape[1]
        d_h, d_c, d_projected, d_u = (torch.zeros_like(x) for x in (h, c, projected, u))
        d_h[root] = d_root
        more = [h.new_empty(size).numpy() for size in (len(at), 5 * H, H, H)]
        arrays = [x.numpy() for x in (c, projected, d_h, d_c, d_projected, d_u)]
        for width in range(len(at) - 2, -1, -1):
            low, high = int(at[width]), int(at[width + 1])
            d_h[low:high].addmm_(d_projected[low:high], weight)
            if width:
                _backward(width, exponential, start, cell, u.numpy(), tau, *arrays, *scratch, *more)
        d_leaf = torch.cat([d_h[: at[1]], d_c[: at[1]]], 1)
        return d_leaf, d_projected.t() @ h, d_projected[:, : 5 * H].sum(0), d_u, None, None
