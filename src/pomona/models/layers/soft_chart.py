"""The soft chart (Maillard, Clark and Yogatama 2017): every binary tree over a sentence at once, weighted.

    (h_s, c_s) = cell(left part, right part),   a = softmax of cos(q, h_s) / tau over s,   (h, c) = sum_s a_s (h_s, c_s)

for each span and its cuts s. Written down directly this is a TreeLSTM of full matrices for each of n^3 / 6 cuts. Here
each span is projected once for each side it can stand on, n^2 / 2 in all and a width at a time, and what is left for a
cut is gates. Since a gate is a logistic function of a sum, 1 / (1 + e^-x e^-y), its exponentials too are taken once a
span (`cells.raise_rows`), unless the projections are so large that a product of exponentials could overflow. Going back
the gates are computed again, so memory grows with the spans, not with the cuts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pomona.base.arrays import Floats, Ints
from pomona.base.compiled import compiled, fused, summed
from pomona.models.layers.tree_lstm import compose, compose_raised, decompose, raise_rows


@summed
def _dot(one: Floats, two: Floats) -> Any:
    total = one[0] * two[0]
    for k in range(1, len(one)):
        total += one[k] * two[k]
    return total


@compiled
def _spans(start: Ints) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """`cell[w, b] + i` is the number of the span of w + 1 tokens from token i of sentence b; widths begin at `at`."""
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
def _forth(
    width: int, raised: bool, start: Ints, cell: Ints, u: Floats, tau: float, h: Floats, c: Floats, projected: Floats,
    best: Ints, gates: Floats, t: Floats, cut_h: Floats, cut_c: Floats, a: Floats,
) -> None:  # fmt: skip
    """All spans of width + 1 tokens."""
    H = h.shape[1]
    for b in range(len(start) - 1):
        for i in range(start[b + 1] - start[b] - width):
            me = cell[width, b] + i
            _cuts(width, raised, b, i, cell, u, tau, c, projected, gates, t, cut_h, cut_c, a)
            top, total = 0, a[0] * 0
            for s in range(width):
                if a[s] > a[top]:
                    top = s
            best[me] = top
            peak = a[top]
            for s in range(width):
                a[s] = np.exp(a[s] - peak)
                total += a[s]
            for x in range(H):
                h[me, x] = c[me, x] = 0
            for s in range(width):
                share = a[s] / total
                for x in range(H):
                    h[me, x] += share * cut_h[s, x]
                for x in range(H):
                    c[me, x] += share * cut_c[s, x]


@fused
def _cuts(
    width: int, raised: bool, b: int, i: int, cell: Ints, u: Floats, tau: float, c: Floats, projected: Floats,
    gates: Floats, t: Floats, cut_h: Floats, cut_c: Floats, a: Floats,
) -> None:  # fmt: skip
    """Every cut of one span: its cell and its score."""
    H = c.shape[1]
    for s in range(width):
        one, two = cell[s, b] + i, cell[width - 1 - s, b] + i + s + 1
        left, right = projected[one, : 5 * H], projected[two, 5 * H :]
        if raised:
            compose_raised(left, right, c[one], c[two], gates[s], cut_h[s], cut_c[s], t[s])
        else:
            compose(left, right, c[one], c[two], gates[s], cut_h[s], cut_c[s], t[s])
        a[s] = _dot(u, cut_h[s]) / (np.sqrt(_dot(cut_h[s], cut_h[s])) * tau)


@fused
def _back(
    width: int, raised: bool, start: Ints, cell: Ints, u: Floats, tau: float, c: Floats, projected: Floats,
    d_h: Floats, d_c: Floats, d_projected: Floats, d_u: Floats, gates: Floats, t: Floats, cut_h: Floats, cut_c: Floats,
    a: Floats, d_a: Floats, d_z: Floats, part: Floats, other: Floats,
) -> None:  # fmt: skip
    H = c.shape[1]
    for b in range(len(start) - 1):
        for i in range(start[b + 1] - start[b] - width):
            me = cell[width, b] + i
            _cuts(width, raised, b, i, cell, u, tau, c, projected, gates, t, cut_h, cut_c, a)
            peak, total, mean = a[:width].max(), a[0] * 0, a[0] * 0
            for s in range(width):
                a[s] = np.exp(a[s] - peak)
                total += a[s]
            for s in range(width):
                a[s] /= total
                d_a[s] = _dot(d_h[me], cut_h[s]) + _dot(d_c[me], cut_c[s])
                mean += a[s] * d_a[s]
            for s in range(width):
                d_score = a[s] * (d_a[s] - mean) / tau
                length = np.sqrt(_dot(cut_h[s], cut_h[s]))
                along = d_score / length
                down = d_score * _dot(u, cut_h[s]) / (length * length * length)
                for x in range(H):
                    part[x] = a[s] * d_h[me, x] + along * u[x] - down * cut_h[s, x]
                for x in range(H):
                    other[x] = a[s] * d_c[me, x]
                for x in range(H):
                    d_u[x] += along * cut_h[s, x]
                one, two = cell[s, b] + i, cell[width - 1 - s, b] + i + s + 1
                decompose(part, other, c[one], c[two], gates[s], t[s], d_z, d_c[one], d_c[two])
                low, high = d_projected[one, : 5 * H], d_projected[two, 5 * H :]
                for x in range(5 * H):
                    low[x] += d_z[x]
                for x in range(5 * H):
                    high[x] += d_z[x]


@compiled
def _outline(start: Ints, cell: Ints, best: Ints) -> tuple[Any, ...]:
    """Shift-reduce steps of the best trees, and the span made by each step: after a token, those that end with it."""
    steps, place = (
        np.empty(2 * start[-1] - len(start) + 1, np.uint8),
        np.empty(2 * start[-1] - len(start) + 1, np.int64),
    )
    stack = np.empty((len(steps) + 2, 3), np.int64)
    at = 0
    for b in range(len(start) - 1):
        high = 1
        stack[0] = 0, start[b + 1] - start[b] - 1, 0
        while high:
            high -= 1
            i, width, closing = stack[high]
            if width == 0 or closing:
                steps[at], place[at] = closing, cell[width, b] + i
                at += 1
            else:
                s = np.int64(best[cell[width, b] + i])
                stack[high] = i, width, 1
                stack[high + 1] = i + s + 1, width - 1 - s, 0
                stack[high + 2] = i, s, 0
                high += 3
    return steps, place


class Charted(torch.autograd.Function):
    """h of every sentence, of every node of its best tree, and that tree's steps."""

    @staticmethod
    def forward(
        ctx: Any, leaf_h: Tensor, leaf_c: Tensor, w_l: Tensor, w_r: Tensor, bias: Tensor, u: Tensor, tau: float,
        start: npt.NDArray[np.int64],
    ) -> Any:  # fmt: skip
        at, cell = _spans(start)
        H, longest = leaf_h.shape[1], len(at) - 1
        h, c, projected = (leaf_h.new_empty(int(at[-1]), size * H) for size in (1, 1, 10))
        h[: at[1]], c[: at[1]] = leaf_h, leaf_c
        best = np.zeros(int(at[-1]), np.int32)
        weight, offset = torch.cat([w_l, w_r]).t(), torch.cat([bias, torch.zeros_like(bias)])
        scratch = [leaf_h.new_empty(longest, size * H).numpy() for size in (5, 1, 1, 1)]
        scratch.append(leaf_h.new_empty(longest).numpy())
        query = u.detach().numpy()

        def fill(raised: bool) -> bool:
            """The whole chart; False if it was to be raised and cannot be."""
            for width in range(longest):
                if width:
                    _forth(
                        width, raised, start, cell, query, tau, h.numpy(), c.numpy(), projected.numpy(), best, *scratch
                    )
                rows = slice(int(at[width]), int(at[width + 1]))
                torch.addmm(offset, h[rows], weight, out=projected[rows])
                if raised and not raise_rows(projected[rows].view(-1, 5 * H)):
                    return False
            return True

        raised = fill(True)
        if not raised:
            fill(False)
        root = torch.from_numpy(cell[np.diff(start) - 1, np.arange(len(start) - 1)])
        steps, place = _outline(start, cell, best)
        ctx.save_for_backward(w_l, w_r, u)
        ctx.kept = (at, cell, h, c, projected, scratch, root, start, tau, raised)
        ctx.set_materialize_grads(False)
        nodes = h[torch.from_numpy(place)]
        ctx.mark_non_differentiable(nodes)
        return h[root], nodes, steps

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, d_root: Tensor, _nodes: Any, _steps: Any) -> Any:
        (at, cell, h, c, projected, scratch, root, start, tau, raised), ctx.kept = ctx.kept, None
        w_l, w_r, u = ctx.saved_tensors
        H = h.shape[1]
        d_h, d_c, d_projected, d_u = (torch.zeros_like(x) for x in (h, c, projected, u))
        d_h[root] = d_root
        weight = torch.cat([w_l, w_r])  # [10H, H]
        more = [h.new_empty(size).numpy() for size in (len(at), 5 * H, H, H)]
        given = [x.numpy() for x in (c, projected, d_h, d_c, d_projected, d_u)]
        for width in range(len(at) - 2, -1, -1):
            low, high = int(at[width]), int(at[width + 1])
            d_h[low:high].addmm_(d_projected[low:high], weight)
            if width:
                _back(width, raised, start, cell, u.numpy(), tau, *given, *scratch, *more)
        whole = d_projected.t() @ h
        leaves = int(at[1])
        return (
            d_h[:leaves], d_c[:leaves], whole[: 5 * H], whole[5 * H :], d_projected[:, : 5 * H].sum(0), d_u, None, None
        )  # fmt: skip
