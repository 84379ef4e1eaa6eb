"""Neighbours are merged until one is left, each pair chosen by straight-through Gumbel softmax; exact with O(n) cells.

One round (Choi, Yoo and Lee 2018, equations 8-12) on the states s_1 .. s_m of a sentence:

    p_i = cell(s_i, s_{i+1}),   e_i = q . h(p_i),   y = softmax((e + g) / tau),   k = argmax y
    s'_j = y_j p_j + (1 - y_1 - .. - y_j) s_j + (y_1 + .. + y_{j-1}) s_{j+1}

where the forward pass takes the one-hot vector of k for y (so s' is s with the pair k merged) and the backward pass
takes y itself. Computed as written, a round needs m-1 cells. But all except those beside the last merge are known from
the round before, so the forward pass needs at most 3n-5 cells for n tokens. In the backward pass a cell cannot simply
be shared between rounds, since each round sends its own gradient into its states. But a pair that is not chosen
receives gradient only through its score, alpha_i q. So it passes on alpha_i v_i with v_i = (d h(p_i) / d s)^T q: one
vector for each pair, all of them computed by one product. With G_j the gradient of s'_j,

    dL/dy_i = G_i . p_i  -  sum_{j >= i} G_j . s_j  +  sum_{j > i} G_j . s_{j+1},
    alpha_i = y_i (dL/dy_i - sum_k y_k dL/dy_k) / tau

so a backward round costs three dot products and two additions for each position, and one cell for the chosen pair.
Values are shared (leaves of the same word, pairs of leaves of the same two words); gradients are kept for each
occurrence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pomona.base.arrays import Floats, Ints
from pomona.base.compiled import compiled, fused
from pomona.models.layers.rows import dot
from pomona.models.layers.tree_lstm import node_backward, node_forward

SHARED_WORDS = 64  # with more distinct leaves than this, pairs of leaves are not shared


class LeafTokens(NamedTuple):
    """What is merged: for each token the number of its leaf, sentence after sentence, and the noise of all choices."""

    row: npt.NDArray[np.int64]  # [tokens]
    start: npt.NDArray[np.int64]  # [sentences + 1]: where each sentence begins
    noise: Tensor | None  # as many numbers as `choices` says; None in evaluation


@dataclass(frozen=True, eq=False)
class Rounds:
    """The order of computation: sentences from long to short; merge `at[t] + r` is that of sentence r in round t."""

    order: npt.NDArray[np.int64]
    first: npt.NDArray[np.int64]  # the first token of each sentence, in that order, ...
    length: npt.NDArray[np.int64]  # ... and its number of tokens
    at: npt.NDArray[np.int64]

    @classmethod
    def of(cls, start: npt.NDArray[np.int64]) -> Rounds:
        lengths = np.diff(start)
        order = np.argsort(-lengths, kind="stable")
        active = [int((lengths > t + 1).sum()) for t in range(int(lengths.max()) - 1)]
        return cls(order, start[order], lengths[order], np.concatenate([[0], np.cumsum(active, dtype=np.int64)]))


def choices(lengths: Ints) -> int:
    """The number of noise values that a batch needs: one for each candidate of each round."""
    return int((lengths * (lengths - 1) // 2).sum())


@fused
def _pair(
    number: int, left: int, right: int, h: Floats, c: Floats, projected: Floats, q: Floats, gates: Floats, t: Floats,
    pair_h: Floats, pair_c: Floats, score: Floats, sides: Ints,
) -> None:  # fmt: skip
    """Compute pair `number` from the values `left` and `right`."""
    H = h.shape[1]
    node_forward(
        projected[left, : 5 * H], projected[right, 5 * H :], c[left], c[right],
        gates[number], pair_h[number], pair_c[number], t[number],
    )  # fmt: skip
    score[number] = dot(pair_h[number], q)
    sides[number, 0], sides[number, 1] = left, right


@fused
def _first_pairs(
    row: Ints, first: Ints, length: Ints, shared: int, h: Floats, c: Floats, projected: Floats, q: Floats,
    gates: Floats, t: Floats, pair_h: Floats, pair_c: Floats, score: Floats, sides: Ints, pairs: Ints,
) -> int:  # fmt: skip
    """The pairs of neighbouring leaves; returns their number. There are `shared` words, or 0 if nothing is shared."""
    table = np.full((shared, shared), -1, np.int32)
    count = 0
    for r in range(len(first)):
        for j in range(first[r], first[r] + length[r] - 1):
            left, right = row[j], row[j + 1]
            number = table[left, right] if shared else -1
            if number < 0:
                number = count
                _pair(number, left, right, h, c, projected, q, gates, t, pair_h, pair_c, score, sides)
                count += 1
                if shared:
                    table[left, right] = number
            pairs[j] = number
    return count


@fused
def _forward(
    step: int, base: int, active: int, count: int, leaves: int, first: Ints, length: Ints, noise: Floats,
    noise_at: Ints, tau: float, value: Ints, live: Ints, pairs: Ints, merges: Ints, y: Floats, before: int, q: Floats,
    h: Floats, c: Floats, projected: Floats, gates: Floats, t: Floats, pair_h: Floats, pair_c: Floats, score: Floats,
    sides: Ints,
) -> int:  # fmt: skip
    """One round of every sentence that has one: the pairs beside the last merge, the choice, the merge.

    Returns the number of pairs, which was `count` before.
    """
    H = h.shape[1]
    for r in range(active):
        left = length[r] - step  # states before this round
        s, p = live[first[r] : first[r] + left], pairs[first[r] : first[r] + left - 1]
        if step:
            k = merges[before + r, 0]
            for beside in range(max(k - 1, 0), min(k + 1, left - 1)):
                _pair(
                    count, value[s[beside]], value[s[beside + 1]], h, c, projected, q, gates, t, pair_h, pair_c, score,
                    sides,
                )  # fmt: skip
                p[beside] = count
                count += 1
        at = noise_at[r] + step * (length[r] - 1) - step * (step - 1) // 2
        k = 0
        if len(y):
            soft = y[at : at + left - 1]
            for j in range(left - 1):
                soft[j] = (score[p[j]] + noise[at + j]) / tau
                if soft[j] > soft[k]:
                    k = j
            top, total = soft[k], soft[0] * 0
            for j in range(left - 1):
                soft[j] = np.exp(soft[j] - top)
                total += soft[j]
            for j in range(left - 1):
                soft[j] /= total
        else:
            for j in range(left - 1):
                if score[p[j]] > score[p[k]]:
                    k = j
        number = base + r
        new = len(pairs) + number
        merges[number, 0], merges[number, 1], merges[number, 2] = k, s[k], s[k + 1]
        merges[number, 3] = p[k]
        merges[number, 4] = p[k - 1] if k else -1
        merges[number, 5] = p[k + 1] if k + 1 < left - 1 else -1
        value[new] = leaves + number
        for x in range(H):
            h[leaves + number, x] = pair_h[p[k], x]
            c[leaves + number, x] = pair_c[p[k], x]
        s[k] = new
        for j in range(k + 1, left - 1):
            s[j] = s[j + 1]
        for j in range(k, left - 2):
            p[j] = p[j + 1]
    return count


@fused
def _scores_backward(
    count: int, q: Floats, c: Floats, gates: Floats, t: Floats, sides: Ints, d_z: Floats, v: Floats
) -> None:
    """The derivative of every pair's score by z and by both c; v is [pair, (h_l, h_r, c_l, c_r)]."""
    H = len(q)
    nothing = np.zeros_like(q)
    for number in range(count):
        v[number, 2 * H :] = 0
        node_backward(
            q, nothing, c[sides[number, 0]], c[sides[number, 1]], gates[number], t[number], d_z[number],
            v[number, 2 * H : 3 * H], v[number, 3 * H :],
        )  # fmt: skip


@fused
def _backward(
    step: int, base: int, active: int, after: int, pending: int, first: Ints, length: Ints, noise_at: Ints, tau: float,
    value: Ints, live: Ints, pairs: Ints, merges: Ints, y: Floats, q: Floats, h: Floats, c: Floats, gates: Floats,
    t: Floats, pair_h: Floats, pair_c: Floats, v: Floats, G: Floats, from_z: Floats, d_z: Floats, d_projected: Floats,
    alphas: Floats, d_q: Floats, work: Floats,
) -> float:  # fmt: skip
    """The derivative of a round; returns its part of that of tau. G is [occurrence, (h, c)]."""
    H = len(q)
    for r in range(pending):  # the gradient of the later round through the projections of its chosen pairs
        to_left, to_right = G[merges[after + r, 1]], G[merges[after + r, 2]]
        for x in range(H):
            to_left[x] += from_z[r, x]
        for x in range(H):
            to_right[x] += from_z[r, H + x]
    d_tau = 0.0
    for r in range(active):
        left = length[r] - step
        number = base + r
        k, left_child, right_child, chosen = merges[number, 0], merges[number, 1], merges[number, 2], merges[number, 3]
        new = len(pairs) + number
        s, p = live[first[r] : first[r] + left], pairs[first[r] : first[r] + left - 1]
        for j in range(left - 1, k + 1, -1):  # undo the merge in both lists
            s[j] = s[j - 1]
        for j in range(left - 2, k, -1):
            p[j] = p[j - 1]
        s[k], s[k + 1], p[k] = left_child, right_child, chosen
        if k:
            p[k - 1] = merges[number, 4]
        if k + 1 < left - 1:
            p[k + 1] = merges[number, 5]
        alpha = G[new, 0] * 0
        if left > 2:
            at = noise_at[r] + step * (length[r] - 1) - step * (step - 1) // 2
            soft, d_y = y[at : at + left - 1], work[: left - 1]
            later = alpha  # sum over j > i of G_j . (s_{j+1} - s_j)
            for j in range(left - 2, -1, -1):
                g = G[s[j] if j < k else new if j == k else s[j + 1]]
                stay, move = value[s[j]], value[s[j + 1]]
                kept = dot(g[:H], h[stay]) + dot(g[H:], c[stay])
                d_y[j] = dot(g[:H], pair_h[p[j]]) + dot(g[H:], pair_c[p[j]]) - kept + later
                later += dot(g[:H], h[move]) + dot(g[H:], c[move]) - kept
            mean = dot(soft, d_y)
            for j in range(left - 1):
                d_x = soft[j] * (d_y[j] - mean)
                if soft[j] > 0:
                    d_tau -= d_x * np.log(soft[j]) / tau
                if j == k:
                    alpha = d_x / tau
                    continue
                weight = d_x / tau
                alphas[p[j]] += weight
                unit, g, more = v[p[j]], G[s[j]], G[s[j + 1]]
                for x in range(H):
                    g[x] += weight * unit[x]
                for x in range(H):
                    more[x] += weight * unit[H + x]
                for x in range(H):
                    g[H + x] += weight * unit[2 * H + x]
                for x in range(H):
                    more[H + x] += weight * unit[3 * H + x]
        for x in range(H):
            G[new, x] += alpha * q[x]
            d_q[x] += alpha * pair_h[chosen, x]
        node_backward(
            G[new, :H], G[new, H:], c[value[left_child]], c[value[right_child]], gates[chosen], t[chosen], d_z[r],
            G[left_child, H:], G[right_child, H:],
        )  # fmt: skip
        low, high = d_projected[value[left_child], : 5 * H], d_projected[value[right_child], 5 * H :]
        for x in range(5 * H):
            low[x] += d_z[r, x]
        for x in range(5 * H):
            high[x] += d_z[r, x]
    return d_tau


@fused
def _finish(
    pending: int, merges: Ints, row: Ints, sides: Ints, count: int, alphas: Floats, d_scores: Floats, from_z: Floats,
    G: Floats, d_projected: Floats, d_h: Floats, d_c: Floats,
) -> None:  # fmt: skip
    """What is still pending, the gradients through the scores of all rounds at once, and the leaves."""
    H = d_h.shape[1]
    for r in range(pending):
        for x in range(H):
            G[merges[r, 1], x] += from_z[r, x]
        for x in range(H):
            G[merges[r, 2], x] += from_z[r, H + x]
    for number in range(count):
        low, high = d_projected[sides[number, 0], : 5 * H], d_projected[sides[number, 1], 5 * H :]
        for x in range(5 * H):
            low[x] += alphas[number] * d_scores[number, x]
        for x in range(5 * H):
            high[x] += alphas[number] * d_scores[number, x]
    for j in range(len(row)):
        for x in range(H):
            d_h[row[j], x] += G[j, x]
        for x in range(H):
            d_c[row[j], x] += G[j, H + x]


@compiled
def _outline(first: Ints, length: Ints, order: Ints, at: Ints, merges: Ints, start: Ints) -> tuple[Any, ...]:
    """The shift-reduce steps of the trees, and the occurrence (leaf or merge) at each step, sentence after sentence.

    After a token come the merges that end with it, in the order in which they were made.
    """
    tokens = start[-1]
    end = np.empty(tokens + len(merges), np.int64)
    end[:tokens] = np.arange(tokens)
    steps = np.zeros(2 * tokens - len(order), np.uint8)
    occurrence = np.empty(len(steps), np.int64)
    count = np.zeros(tokens + 1, np.int64)
    for number in range(len(merges)):
        end[tokens + number] = end[merges[number, 2]]
        count[end[tokens + number]] += 1
    where = np.empty(tokens, np.int64)
    position = 0
    for j in range(tokens):
        occurrence[position] = j
        where[j] = position + 1
        position += 1 + count[j]
    for number in range(len(merges)):
        j = end[tokens + number]
        steps[where[j]] = 1
        occurrence[where[j]] = tokens + number
        where[j] += 1
    return steps, occurrence


class Merged(torch.autograd.Function):
    """h of the last state of every sentence, h of every node of its tree, and the steps of the tree."""

    @staticmethod
    def forward(
        ctx: Any, leaf: Tensor, weight: Tensor, bias: Tensor, q: Tensor, tau: Tensor, tokens: LeafTokens
    ) -> Any:
        """`leaf` has h and c of every leaf, [leaves, 2H]; `weight` is W_l on W_r, [10H, H]."""
        row, start, noise = tokens
        rounds, R, H, T = Rounds.of(start), len(leaf), leaf.shape[1] // 2, len(row)
        at, M = rounds.at.tolist(), int(rounds.at[-1])
        h, c, projected = leaf.new_empty(R + M, H), leaf.new_empty(R + M, H), leaf.new_empty(R + M, 10 * H)
        h[:R], c[:R] = leaf.chunk(2, 1)
        turned, offset = weight.t(), torch.cat([bias, torch.zeros_like(bias)])
        torch.addmm(offset, h[:R], turned, out=projected[:R])
        shared = R if R <= SHARED_WORDS else 0
        room = (min(R * R, M) if shared else M) + 2 * M
        gates, t, pair_h, pair_c = (leaf.new_empty(room, size * H) for size in (5, 1, 1, 1))
        score = leaf.new_empty(room)
        sides, merges = np.empty((room, 2), np.int32), np.empty((M, 6), np.int32)
        live, pairs, value = np.arange(T), np.zeros(T, np.int32), np.concatenate([row, np.zeros(M, np.int64)])
        kept = [x.detach().numpy() for x in (q, h, c, projected, gates, t, pair_h, pair_c, score)]
        _q, _h, _c, _projected, _gates, _t, _pair_h, _pair_c, _score = kept
        count = _first_pairs(
            row, rounds.first, rounds.length, shared, _h, _c, _projected, _q, _gates, _t, _pair_h, _pair_c, _score,
            sides, pairs,
        )  # fmt: skip
        lengths = np.diff(start)
        noise_at = np.concatenate([[0], np.cumsum(lengths * (lengths - 1) // 2)])[rounds.order]
        draws = np.empty(0, _h.dtype) if noise is None else noise.numpy()
        y, temperature = np.empty_like(draws), float(tau)
        for step in range(len(at) - 1):
            low, high = at[step], at[step + 1]
            count = _forward(
                step, low, high - low, count, R, rounds.first, rounds.length, draws, noise_at, temperature, value, live,
                pairs, merges, y, at[step - 1] if step else 0, _q, _h, _c, _projected, _gates, _t, _pair_h, _pair_c,
                _score, sides,
            )  # fmt: skip
            more = at[step + 2] - high if step + 2 < len(at) else 0  # the first of these sentences have another round
            if more:
                torch.addmm(offset, h[R + low : R + low + more], turned, out=projected[R + low : R + low + more])
        roots = np.empty(len(rounds.order), np.int64)
        roots[rounds.order] = value[live[rounds.first]]
        steps, occurrence = _outline(rounds.first, rounds.length, rounds.order, rounds.at, merges, start)
        ctx.save_for_backward(weight, q)
        ctx.kept = (rounds, row, value, live, pairs, merges, sides, count, noise_at, y, temperature, kept, R)
        ctx.set_materialize_grads(False)
        nodes = h[torch.from_numpy(value[occurrence])]
        ctx.mark_non_differentiable(nodes)
        return h[torch.from_numpy(roots)], nodes, steps

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, d_root: Tensor, _nodes: Any, _steps: Any) -> Any:
        rounds, row, value, live, pairs, merges, sides, count, noise_at, y, temperature, kept, R = ctx.kept
        weight, q = ctx.saved_tensors
        _q, h, c, projected, gates, t, pair_h, pair_c, _ = kept
        at, H, T, M = rounds.at.tolist(), len(_q), len(row), len(merges)
        across = torch.cat(weight.chunk(2), 1)  # [5H, 2H]
        d_scores, v = np.empty((count, 5 * H), h.dtype), np.empty((count, 4 * H), h.dtype)
        _scores_backward(count, _q, c, gates, t, sides, d_scores, v)
        v[:, : 2 * H] = (torch.from_numpy(d_scores) @ across).numpy()
        G = np.zeros((T + M, 2 * H), h.dtype)
        G[live[rounds.first], :H] = d_root.numpy()[rounds.order]
        d_projected, d_q, alphas = np.zeros_like(projected), np.zeros_like(_q), np.zeros(count, h.dtype)
        d_z, from_z = (np.zeros((len(rounds.order), size * H), h.dtype) for size in (5, 2))
        work = np.empty(int(rounds.length.max()), h.dtype)
        d_tau, after, pending = 0.0, 0, 0
        for step in range(len(at) - 2, -1, -1):
            low, active = at[step], at[step + 1] - at[step]
            d_tau += _backward(
                step, low, active, after, pending, rounds.first, rounds.length, noise_at, temperature, value, live,
                pairs, merges, y, _q, h, c, gates, t, pair_h, pair_c, v, G, from_z, d_z, d_projected, alphas, d_q, work,
            )  # fmt: skip
            torch.mm(torch.from_numpy(d_z[:active]), across, out=torch.from_numpy(from_z[:active]))
            after, pending = low, active
        d_h, d_c = np.zeros((R, H), h.dtype), np.zeros((R, H), h.dtype)
        _finish(pending, merges, row, sides, count, alphas, d_scores, from_z, G, d_projected, d_h, d_c)
        d_q += alphas @ pair_h[:count]
        d_weight = torch.from_numpy(d_projected).t() @ torch.from_numpy(h)  # [10H, H]
        d_bias = torch.from_numpy(d_projected[:, : 5 * H].sum(0))
        ctx.kept = None
        d_leaf = torch.from_numpy(np.concatenate([d_h, d_c], 1))
        return d_leaf, d_weight, d_bias, torch.from_numpy(d_q), q.new_tensor(d_tau), None
