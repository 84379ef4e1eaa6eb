"""A model of pairs that is not given the aligned tree: it learns which words to compare and how to group them.

    pair i        h = cell(E[premise i], sum_j A_ij E[hypothesis j])                A: a softmax over distances j - i
    span i..j     h = W_ij sum_k s_ijk f(L_ik x_ik + R_kj x_kj + b_ij) + c_ij       s: a softmax over cuts k

    x = h + noise * N(0, 1) in training,       price * |h|^2 / 2 of every span is added to the loss

All 45 spans of nine positions are computed (a chart), each as a mixture over the ways to cut it in two. A and s are
uniform at first and are learned from the same twelve questions as everything else, asked at the spans of the premise
that they are about. W is linear and s sums to one, so the mixture is taken before W: three matrix products for a span,
however many cuts it has.

It is the price that finds the tree. A vector must be long to be told apart from the noise, and length has a price, so
each bit that a span passes on costs something. A part that is asked about has paid for its class already; passing on
its vector costs nothing more, while a path around it would have to carry everything that the class sums up. So spans
that are no part of the tree come to carry nothing: `carried` measures what each still carries, and `tree_of` reads the
tree from that. (The shares s do not show it: a cut may have a large share and carry nothing.) docs/fair_nli_2019.md has
what happens without a price.

The sentences of this fragment all have nine words, so attention depends on the distance alone, and cuts and cells on
the position alone. The model learns one alignment and one tree for all sentences; it is no parser.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from pomona.base.errors import SpecError
from pomona.models.inputs.pairs import SPANS, PairBatch
from pomona.models.layers.pair_heads import DenseLayer, Heads, Words, activated, first_weights
from pomona.models.model import MODELS, Output, Shape
from pomona.models.pair_model import PairModel, PairModule, Parts
from pomona.tasks.fair_nli.logic.fragment import TARGETS

LENGTH = 9
Span = tuple[int, int]  # its first position, and the one behind its last


@MODELS.add("learned_tree")
@dataclass(frozen=True)
class LearnedTree(PairModel):
    """A soft chart over the pair with a price on the vectors that are passed on; it learns alignment and tree."""

    noise: float = 1.0  # deviation of the noise
    price: float = 1e-3  # of half the squared length of every vector, relative to the loss of one question
    sharpness: float = 10.0  # factor of the logits of attention and cuts, so that they learn this much faster

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.noise < 0 or self.price < 0 or self.sharpness <= 0:
            raise SpecError(
                f"noise = {self.noise}, price = {self.price}, sharpness = {self.sharpness}: the first two must be 0 or "
                "more, the last above 0"
            )

    def build(self, shape: Shape) -> nn.Module:
        return LearnedTreeModule(self, shape)


class LearnedTreeModule(PairModule):
    settings: LearnedTree

    def __init__(self, settings: LearnedTree, shape: Shape) -> None:
        super().__init__(settings)
        width, hidden, activation = settings.width, settings.hidden, settings.activation
        self.word = Words(settings, shape)
        self.attention = nn.Parameter(torch.zeros(2 * LENGTH - 1))
        self.meet = nn.Sequential(DenseLayer(2 * width, hidden, activation), nn.Linear(hidden, width))
        self.cuts = nn.ParameterDict(
            {str(size): nn.Parameter(torch.zeros(LENGTH + 1 - size, size - 1)) for size in range(3, LENGTH + 1)}
        )
        # weights of every span as a left and as a right part, then of every span as a whole
        self.left = _of_spans(range(1, LENGTH), lambda: first_weights(hidden, 2 * width, activation)[:, :width].t())
        self.right = _of_spans(range(1, LENGTH), lambda: first_weights(hidden, 2 * width, activation)[:, :width].t())
        self.bias = _of_spans(range(2, LENGTH + 1), lambda: torch.zeros(1, hidden))
        self.out = _of_spans(
            range(2, LENGTH + 1), lambda: torch.empty(hidden, width).uniform_(-1, 1) / math.sqrt(hidden)
        )
        self.out_bias = _of_spans(range(2, LENGTH + 1), lambda: torch.zeros(1, width))
        self.heads = Heads(settings, width)

    def forward(self, batch: PairBatch, random: torch.Generator | None = None) -> Output:
        answers, energy = self._read(batch, random if self.training else None)
        if not self.training:
            return Output(answers["label"][0])
        loss = self.loss(batch, answers) + self.settings.price * energy / len(TARGETS)
        return Output(answers["label"][0], loss=loss)

    def answers(self, batch: PairBatch, random: torch.Generator | None) -> Parts:
        return self._read(batch, random)[0]

    def _read(self, batch: PairBatch, random: torch.Generator | None) -> tuple[Parts, Tensor]:
        chart, energy = self.chart(batch.tokens, random)
        vectors = {
            kind: torch.stack([chart[last - first][first] for first, last in SPANS[kind]]) for kind in self.kinds()
        }
        answers: Parts = self.heads(vectors, random)
        return answers, energy

    def chart(self, tokens: Tensor, random: torch.Generator | None) -> tuple[dict[int, Tensor], Tensor]:
        """What the spans pass on, [spans, batch, width] for each length, and half its squared length a pair."""
        words = self.word(tokens)  # [batch, 2, 9, width]
        attended = torch.einsum("ij,bjd->ibd", self.alignment(), words[:, 1])
        h = self.meet(torch.cat([words[:, 0].transpose(0, 1), attended], -1))
        energy, chart = self._energy(h), {1: self._noisy(h, random)}
        lefts, rights = {1: chart[1] @ self.left["1"]}, {1: chart[1] @ self.right["1"]}
        for size in range(2, LENGTH + 1):
            spans, shares, key = LENGTH + 1 - size, self.shares(size), str(size)
            mixed = torch.zeros((), dtype=words.dtype, device=words.device)
            for cut in range(1, size):
                both = lefts[cut][:spans] + rights[size - cut][cut : cut + spans] + self.bias[key]
                mixed = mixed + shares[:, cut - 1, None, None] * activated(both, self.settings.activation)
            h = mixed @ self.out[key] + self.out_bias[key]
            energy, chart[size] = energy + self._energy(h), self._noisy(h, random)
            if size < LENGTH:
                lefts[size], rights[size] = chart[size] @ self.left[key], chart[size] @ self.right[key]
        return chart, energy

    def alignment(self) -> Tensor:
        """[9, 9]: the attention of each position of the premise to each position of the hypothesis."""
        position = torch.arange(LENGTH, device=self.attention.device)
        sharp = self.settings.sharpness * self.attention[position - position[:, None] + LENGTH - 1]
        return sharp.softmax(1)

    def shares(self, size: int) -> Tensor:
        """[spans, cuts]: the share of each cut in the spans of this length."""
        if size == 2:
            return self.attention.new_ones(LENGTH - 1, 1)
        shares: Tensor = (self.settings.sharpness * self.cuts[str(size)]).softmax(1)
        return shares

    def carried(self, tokens: Tensor) -> dict[Span, float]:
        """What each span carries about these pairs: half the variance of its vector, 0 if it is always the same."""
        with torch.no_grad():
            chart, _ = self.chart(tokens, None)
            return {
                (first, first + size): 0.5 * h.var(0).sum().item()
                for size, spans in chart.items()
                for first, h in enumerate(spans)
            }

    def _energy(self, h: Tensor) -> Tensor:
        return 0.5 * h.square().sum() / h.shape[1]

    def _noisy(self, h: Tensor, random: torch.Generator | None) -> Tensor:
        if random is not None and self.settings.noise:
            h = h + self.settings.noise * torch.randn(h.shape, generator=random, dtype=h.dtype, device=h.device)
        return h


def tree_of(carried: Mapping[Span, float]) -> Any:
    """The binary tree whose nodes carry the most, as nested pairs of positions."""
    best: dict[Span, tuple[float, Any]] = {}
    for size in range(1, LENGTH + 1):
        for first in range(LENGTH + 1 - size):
            span = (first, first + size)
            ways = [
                (best[first, cut][0] + best[cut, first + size][0], (best[first, cut][1], best[cut, first + size][1]))
                for cut in range(first + 1, first + size)
            ]
            below, tree = max(ways, key=lambda way: way[0]) if ways else (0.0, first)
            best[span] = below + carried[span], tree
    return best[0, LENGTH][1]


def phrases_in(tree: Any) -> float:
    """The share of the phrases asked about (longer than a word, shorter than all) that are nodes of a tree."""
    asked = [span for spans in SPANS.values() for span in spans if 1 < span[1] - span[0] < LENGTH]
    nodes = _nodes(tree)
    return sum(span in nodes for span in asked) / len(asked)


def _nodes(tree: Any) -> set[Span]:
    if isinstance(tree, int):
        return {(tree, tree + 1)}
    left, right = (_nodes(part) for part in tree)
    return left | right | {(min(left)[0], max(last for _, last in right))}


def _of_spans(sizes: range, draw: Callable[[], Tensor]) -> nn.ParameterDict:
    """A separate matrix for each span of these lengths: [spans, .., ..] for each length."""
    return nn.ParameterDict(
        {str(size): nn.Parameter(torch.stack([draw() for _ in range(LENGTH + 1 - size)])) for size in sizes}
    )
