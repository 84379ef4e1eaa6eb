"""Attention over whole sequences: the layers of a Transformer, positions, and geometric attention.

A layer is that of Vaswani et al. (2017), post-norm with ReLU as in fairseq, or pre-norm; it may attend to a memory.
Positions are sinusoids added to the words, or a learned number added to the scores for each head and distance
(`RelativeBias`).

Geometric attention (Csordas, Irie and Schmidhuber 2022, the Neural Data Router) gives position j the probability that
it matches and that no closer position does:

    A_ij = P_ij prod_{k closer to i than j} (1 - P_ik),    P = sigmoid(score), no position matches itself

Of two positions that are equally close, the left one counts as closer. Computed as written, this is a product for every
pair, n^3 in all. In order of distance from i, each product follows from the last, so a row takes one walk outward, and
its derivative one walk inward: with g the gradient of A, that of the score is
(1 - P_ij) A_ij g_ij - P_ij sum_{k farther than j} A_ik g_ik. Both walks are compiled loops. On a GPU, and as the
twin in the tests, the product is a difference of two prefix sums of logarithms along the row: what is closer than j > i
lies between 2i - j and j.
"""

from __future__ import annotations

import math
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from pomona.base.arrays import Floats
from pomona.base.compiled import fused
from pomona.base.errors import SpecError
from pomona.models.layers.dropout import dropped
from pomona.models.layers.rows import sigmoid_row

Norm = Literal["post", "pre"]
FAR = 16  # all distances from here on are treated alike


class Attention(nn.Module):
    """Multi-head attention from `x` to keys and values."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        if width % heads:
            raise SpecError(f"width = {width} is not a multiple of heads = {heads}")
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        for layer in (self.query, self.key, self.value):
            nn.init.xavier_uniform_(layer.weight, gain=1 / math.sqrt(2))
        nn.init.xavier_uniform_(self.out.weight)
        for layer in (self.query, self.key, self.value, self.out):
            nn.init.zeros_(layer.bias)

    def split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)  # [batch, heads, length, width / heads]

    def keys_and_values(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        return self.split(self.key(memory)), self.split(self.value(memory))

    def projected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of the same vectors, in one matrix product."""
        layers = (self.query, self.key, self.value)
        weight, bias = torch.cat([layer.weight for layer in layers]), torch.cat([layer.bias for layer in layers])
        query, key, value = nn.functional.linear(x, weight, bias).chunk(3, -1)
        return query, key, value

    def forward(self, x: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        """`mask` is true where attention is allowed, or a number that is added to the score."""
        return self.mixed(self.split(self.query(x)), key, value, mask)

    def to_itself(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Attention of a sequence to itself."""
        query, key, value = (self.split(part) for part in self.projected(x))
        return self.mixed(query, key, value, mask)

    def mixed(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, mask)
        out: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return out


class TransformerLayer(nn.Module):
    """Self-attention, attention to a memory if there is one, a feed-forward network; each with residual and norm."""

    def __init__(self, width: int, inner: int, heads: int, *, memory: bool = False, norm: Norm = "post") -> None:
        super().__init__()
        self.norm = norm
        self.attention = Attention(width, heads)
        self.to_memory = Attention(width, heads) if memory else None
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3 if memory else 2))
        for layer in (self.up, self.down):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None,
        share: float = 0.0,
        random: torch.Generator | None = None,
        *,
        memory: tuple[Tensor, Tensor] | None = None,
        memory_mask: Tensor | None = None,
        asking: Tensor | None = None,
    ) -> Tensor:
        """With `asking`, [batch, positions], only the vectors at these positions: the others offer keys and values."""

        def attend(y: Tensor) -> Tensor:
            if asking is None:
                return self.attention.to_itself(y, mask)
            return cast(Tensor, self.attention(at(y, asking), *self.attention.keys_and_values(y), mask))

        def attend_to_memory(y: Tensor) -> Tensor:
            assert self.to_memory is not None
            assert memory is not None
            return cast(Tensor, self.to_memory(y, *memory, memory_mask))

        def feed_forward(y: Tensor) -> Tensor:
            return cast(Tensor, self.down(self.up(y).relu()))

        parts = [attend, feed_forward] if self.to_memory is None else [attend, attend_to_memory, feed_forward]
        for part, norm in zip(parts, self.norms, strict=True):
            y = part(norm(x) if self.norm == "pre" else x)
            if asking is not None and part is attend:
                x = at(x, asking)
            x = x + dropped(y, share, random)
            if self.norm == "post":
                x = norm(x)
        return x


def at(states: Tensor, positions: Tensor) -> Tensor:
    """The vectors at these positions, [batch, positions, width], of [batch, length, width]."""
    return states.gather(1, positions[:, :, None].expand(-1, -1, states.shape[2]))


class RelativeBias(nn.Module):
    """A number that is added to the scores, for each head and each distance from -FAR to FAR."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(heads, 2 * FAR + 1))

    def forward(self, length: int) -> Tensor:
        """[1, heads, length, length]"""
        steps = torch.arange(length, device=self.table.device)
        distance = (steps[None] - steps[:, None]).clamp(-FAR, FAR) + FAR
        return self.table[:, distance][None]


def sinusoids(length: int, width: int, like: Tensor) -> Tensor:
    """[length, width]: sines, then cosines, with wavelengths from 2 pi to 10000 * 2 pi; positions count from 1."""
    half = width // 2
    rates = torch.exp(torch.arange(half, dtype=torch.float64) * -(math.log(10_000) / (half - 1)))
    angles = torch.arange(1, length + 1, dtype=torch.float64)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], 1).to(like)


def geometric(score: Tensor, *, plain: bool = False) -> Tensor:
    """The weights [.., length, length] of geometric attention from scores, which are -inf where nothing can match."""
    if plain or score.device.type != "cpu":
        return _plain_geometric(score)
    weights: Tensor = _Geometric.apply(score)  # type: ignore[no-untyped-call]
    return weights


def _plain_geometric(score: Tensor) -> Tensor:
    length = score.shape[-1]
    steps = torch.arange(length, device=score.device)
    row, column = steps[:, None], steps[None]
    score = score.masked_fill(row == column, -torch.inf)
    missed = nn.functional.logsigmoid(-score)  # log(1 - P); 0 where nothing can match
    upto = nn.functional.pad(missed.cumsum(-1), (1, 0))  # upto[.., j]: sum over k < j
    # closer than j > i: 2i - j <= k < j (of two equally close, the left is closer);  than j < i: j < k < 2i - j
    low = torch.where(column > row, 2 * row - column, column + 1).clamp(0, length)
    high = torch.where(column > row, column, 2 * row - column).clamp(0, length)
    shape = score.shape
    closer = upto.gather(-1, high.expand(shape)) - upto.gather(-1, low.expand(shape))
    return (nn.functional.logsigmoid(score) + closer).exp()


_NEVER = -80.0  # scores up to this one do not match at all; their probability is too small to change a sum


@fused
def _outward(match: Floats, weight: Floats) -> None:
    """Scores to probabilities of a match, in place, and to weights, [rows, length, length]."""
    length = match.shape[1]
    for row in range(len(match)):
        for i in range(length):
            p, w = match[row, i], weight[row, i]
            never = p <= _NEVER
            never[i] = True
            sigmoid_row(p)
            for j in range(length):
                if never[j]:
                    p[j] = 0
            left = 1.0  # the probability that no closer position matches
            for step in range(1, max(i, length - 1 - i) + 1):
                if i >= step:
                    w[i - step] = left * p[i - step]
                    left -= w[i - step]
                if i + step < length:
                    w[i + step] = left * p[i + step]
                    left -= w[i + step]


@fused
def _inward(match: Floats, weight: Floats, d_weight: Floats, out: Floats) -> None:
    """The gradient of the scores from that of the weights."""
    length = match.shape[1]
    for row in range(len(match)):
        for i in range(length):
            p, w, g, d = match[row, i], weight[row, i], d_weight[row, i], out[row, i]
            farther = 0.0
            for step in range(max(i, length - 1 - i), 0, -1):
                if i + step < length:
                    j = i + step
                    d[j] = (1 - p[j]) * w[j] * g[j] - p[j] * farther
                    farther += w[j] * g[j]
                if i >= step:
                    j = i - step
                    d[j] = (1 - p[j]) * w[j] * g[j] - p[j] * farther
                    farther += w[j] * g[j]


class _Geometric(torch.autograd.Function):
    """Geometric attention with a derivative written by hand."""

    @staticmethod
    def forward(ctx: Any, score: Tensor) -> Tensor:
        length = score.shape[-1]
        match = score.detach().clone(memory_format=torch.contiguous_format)
        weight = torch.zeros_like(match)
        _outward(*(x.view(-1, length, length).numpy() for x in (match, weight)))
        ctx.save_for_backward(match, weight)
        return weight

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, d_weight: Tensor) -> Tensor:
        match, weight = ctx.saved_tensors
        length, out = match.shape[-1], torch.zeros_like(match)
        _inward(*(x.view(-1, length, length).numpy() for x in (match, weight, d_weight.contiguous(), out)))
        return out
