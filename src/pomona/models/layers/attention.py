"""Attention over whole sequences: the Transformer's layers, positions, and geometric attention.

A layer is that of Vaswani et al. (2017), post-norm with ReLU as in fairseq, or pre-norm; it may attend to a memory.
Positions are `sinusoidal` (added to the words), `relative` (a learned number for each head and distance, those beyond
`FAR` alike) or `none`.

Geometric attention (Csordas, Irie and Schmidhuber 2022, the Neural Data Router) gives position j the weight that it
matches and nothing closer does:

    A_ij = P_ij prod_{k closer to i than j} (1 - P_ik),    P = sigmoid(score), no position matches itself

Of two that are equally close the left one is the closer. Taken as written that is a product for every pair, n^3 in all.
Going outward from i the product is at hand, so a row is one walk, and its derivative is the walk back: with g the
gradient of A, that of the score is (1 - P_ij) A_ij g_ij - P_ij sum_{k farther than j} A_ik g_ik. Those are compiled
loops; on a GPU, and as their twin, the product is a difference of two prefix sums of logarithms along the row: what is
closer than j > i lies between 2i - j and j.
"""

from __future__ import annotations

import math
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from pomona.base.arrays import Floats
from pomona.base.compiled import fused
from pomona.base.errors import SpecError
from pomona.models.layers.tree_lstm import sigmoid_row
from pomona.models.model import dropped

Positions = Literal["sinusoidal", "relative", "none"]
Norm = Literal["post", "pre"]
FAR = 16  # distances from here on are one


class Attention(nn.Module):
    """Heads of attention from `x` to `memory`; `bias` is added to the scores, [heads, length, length] or wider."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        if width % heads:
            raise SpecError(f"width = {width} cannot be shared among {heads} heads")
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        for layer in (self.query, self.key, self.value):
            nn.init.xavier_uniform_(layer.weight, gain=1 / math.sqrt(2))
        nn.init.xavier_uniform_(self.out.weight)
        for layer in (self.query, self.key, self.value, self.out):
            nn.init.zeros_(layer.bias)

    def split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)  # [batch, heads, length, width / heads]

    def remember(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        return self.split(self.key(memory)), self.split(self.value(memory))

    def forward(self, x: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        """`mask` is true where it may look, or a number added to the score."""
        found = nn.functional.scaled_dot_product_attention(self.split(self.query(x)), key, value, mask)
        out: Tensor = self.out(found.transpose(1, 2).flatten(2))
        return out


class Layer(nn.Module):
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
    ) -> Tensor:
        def look(y: Tensor) -> Tensor:
            return cast(Tensor, self.attention(y, *self.attention.remember(y), mask))

        def look_back(y: Tensor) -> Tensor:
            assert self.to_memory is not None
            assert memory is not None
            return cast(Tensor, self.to_memory(y, *memory, memory_mask))

        def think(y: Tensor) -> Tensor:
            return cast(Tensor, self.down(self.up(y).relu()))

        parts = [look, think] if self.to_memory is None else [look, look_back, think]
        for part, norm in zip(parts, self.norms, strict=True):
            y = part(norm(x) if self.norm == "pre" else x)
            x = x + dropped(y, share, random)
            if self.norm == "post":
                x = norm(x)
        return x


class RelativeBias(nn.Module):
    """What distance adds to the scores: a number for each head and each step from -FAR to FAR."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(heads, 2 * FAR + 1))

    def forward(self, length: int) -> Tensor:
        """[1, heads, length, length]"""
        steps = torch.arange(length, device=self.table.device)
        distance = (steps[None] - steps[:, None]).clamp(-FAR, FAR) + FAR
        return self.table[:, distance][None]


def sinusoids(length: int, width: int, like: Tensor) -> Tensor:
    """[length, width]: sines, then cosines, of wavelengths from 2 pi to 10000 * 2 pi; positions count from 1."""
    half = width // 2
    rates = torch.exp(torch.arange(half, dtype=torch.float64) * -(math.log(10_000) / (half - 1)))
    angles = torch.arange(1, length + 1, dtype=torch.float64)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], 1).to(like)


def geometric(score: Tensor, *, plain: bool = False) -> Tensor:
    """Weights [.., length, length] of geometric attention from scores, -inf where nothing can match."""
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
    # closer than j > i: 2i - j <= k < j (the left one of two goes first);  than j < i: j < k < 2i - j
    low = torch.where(column > row, 2 * row - column, column + 1).clamp(0, length)
    high = torch.where(column > row, column, 2 * row - column).clamp(0, length)
    shape = score.shape
    closer = upto.gather(-1, high.expand(shape)) - upto.gather(-1, low.expand(shape))
    return (nn.functional.logsigmoid(score) + closer).exp()


_NEVER = -80.0  # scores from here down do not match, not even by a number too small to be added to anything


@fused
def _outward(chance: Floats, weight: Floats) -> None:
    """Scores to chances, in place, and weights, [rows, length, length]."""
    length = chance.shape[1]
    for row in range(len(chance)):
        for i in range(length):
            p, w = chance[row, i], weight[row, i]
            never = p <= _NEVER
            never[i] = True
            sigmoid_row(p)
            for j in range(length):
                if never[j]:
                    p[j] = 0
            left = 1.0  # what no closer one has taken
            for step in range(1, max(i, length - 1 - i) + 1):
                if i >= step:
                    w[i - step] = left * p[i - step]
                    left -= w[i - step]
                if i + step < length:
                    w[i + step] = left * p[i + step]
                    left -= w[i + step]


@fused
def _inward(chance: Floats, weight: Floats, given: Floats, out: Floats) -> None:
    """The gradient of the scores from that of the weights."""
    length = chance.shape[1]
    for row in range(len(chance)):
        for i in range(length):
            p, w, g, d = chance[row, i], weight[row, i], given[row, i], out[row, i]
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
    @staticmethod
    def forward(ctx: Any, score: Tensor) -> Tensor:
        length = score.shape[-1]
        chance = score.detach().clone(memory_format=torch.contiguous_format)
        weight = torch.zeros_like(chance)
        _outward(*(x.view(-1, length, length).numpy() for x in (chance, weight)))
        ctx.save_for_backward(chance, weight)
        return weight

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, given: Tensor) -> Tensor:
        chance, weight = ctx.saved_tensors
        length, out = chance.shape[-1], torch.zeros_like(chance)
        _inward(*(x.view(-1, length, length).numpy() for x in (chance, weight, given.contiguous(), out)))
        return out
