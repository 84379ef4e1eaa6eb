"""A model of pairs that is not given the aligned tree: which words to compare and how to group them is learned.

    pair i        h = cell(E[premise i], sum_j A_ij E[hypothesis j])                A: a softmax over distances j - i
    span i..j     h = normed(W_2 sum_k s_ijk f(W_left h_ik + W_right h_kj + b_1) + b_2)       s: a softmax over cuts k

All 45 spans of nine positions are computed (a chart), each a mixture over the ways to cut it in two, with one cell for
all of them. A and s begin uniform and are learned from the same twelve questions as everything else, asked at the spans
of the premise that they are about. Noise on every vector does what it does in `noisy_channel`. W_2 is linear and s sums
to one, so the mixture is taken before it: three products a span, however many cuts there are.

The sentences of this fragment all have nine places, so attention depends on distance and cuts depend on position alone:
this is one alignment and one tree for all sentences, learned, and no parser. `tree` reads it off.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pomona.errors import SpecError
from pomona.modelling import MODELS, Shape
from pomona.pairing import SPANS, Heads, Layer, PairBatch, PairModel, PairModule, Parts, Words, activated, first_weights

LENGTH = 9


@MODELS.add("learned_tree")
@dataclass(frozen=True)
class LearnedTree(PairModel):
    """A soft chart over the positions of the pair; alignment and tree are learned."""

    noise: float = 1.0
    sharpness: float = 10.0  # by which the logits of attention and cuts are multiplied: they learn so much faster

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.noise < 0 or self.sharpness <= 0:
            raise SpecError(f"noise = {self.noise}, sharpness = {self.sharpness}: 0 or more, and above 0")

    def build(self, shape: Shape) -> nn.Module:
        return LearnedTreeModule(self, shape)


class LearnedTreeModule(PairModule):
    settings: LearnedTree

    def __init__(self, settings: LearnedTree, shape: Shape) -> None:
        super().__init__(settings)
        width, hidden, activation = settings.width, settings.hidden, settings.activation
        self.word = Words(settings, shape)
        self.attention = nn.Parameter(torch.zeros(2 * LENGTH - 1))
        self.meet = nn.Sequential(Layer(2 * width, hidden, activation), nn.Linear(hidden, width))
        self.cuts = nn.ParameterDict(
            {str(size): nn.Parameter(torch.zeros(LENGTH + 1 - size, size - 1)) for size in range(3, LENGTH + 1)}
        )
        self.left = nn.Parameter(first_weights(hidden, 2 * width, activation)[:, :width].clone())
        self.right = nn.Parameter(first_weights(hidden, 2 * width, activation)[:, :width].clone())
        self.bias = nn.Parameter(torch.zeros(hidden))
        self.out = nn.Linear(hidden, width)
        self.heads = Heads(settings, width)

    def answers(self, batch: PairBatch, random: torch.Generator | None) -> Parts:
        chart = self.chart(batch.tokens, random)
        vectors = {
            kind: torch.stack([chart[last - first][first] for first, last in SPANS[kind]]) for kind in self.kinds()
        }
        answers: Parts = self.heads(vectors, random)
        return answers

    def chart(self, tokens: Tensor, random: torch.Generator | None) -> dict[int, Tensor]:
        """[spans, batch, width] for each length of span."""
        words = self.word(tokens)  # [batch, 2, 9, width]
        seen = torch.einsum("ij,bjd->ibd", self.alignment(), words[:, 1])
        pairs = self.meet(torch.cat([words[:, 0].transpose(0, 1), seen], -1))
        chart = {1: self._normed(pairs, random)}
        lefts, rights = {1: chart[1] @ self.left.t()}, {1: chart[1] @ self.right.t() + self.bias}
        for size in range(2, LENGTH + 1):
            spans, shares = LENGTH + 1 - size, self.shares(size)
            mixed = torch.zeros((), dtype=words.dtype, device=words.device)
            for cut in range(1, size):
                both = lefts[cut][:spans] + rights[size - cut][cut : cut + spans]
                mixed = mixed + shares[:, cut - 1, None, None] * activated(both, self.settings.activation)
            chart[size] = self._normed(self.out(mixed), random)
            lefts[size], rights[size] = chart[size] @ self.left.t(), chart[size] @ self.right.t() + self.bias
        return chart

    def alignment(self) -> Tensor:
        """[9, 9]: how much each place of the premise sees of each place of the hypothesis."""
        place = torch.arange(LENGTH, device=self.attention.device)
        sharp = self.settings.sharpness * self.attention[place - place[:, None] + LENGTH - 1]
        return sharp.softmax(1)

    def shares(self, size: int) -> Tensor:
        """[spans, cuts]: how much each cut counts in spans of this length."""
        if size == 2:
            return self.attention.new_ones(LENGTH - 1, 1)
        shares: Tensor = (self.settings.sharpness * self.cuts[str(size)]).softmax(1)
        return shares

    def tree(self, first: int = 0, last: int = LENGTH) -> object:
        """The tree of the largest shares, as nested pairs of positions."""
        if last - first == 1:
            return first
        cut = first + 1 + int(self.shares(last - first)[first].argmax())
        return (self.tree(first, cut), self.tree(cut, last))

    def _normed(self, h: Tensor, random: torch.Generator | None) -> Tensor:
        h = nn.functional.layer_norm(h, h.shape[-1:])
        if random is not None and self.settings.noise:
            h = h + self.settings.noise * torch.randn(h.shape, generator=random, dtype=h.dtype, device=h.device)
        return h
