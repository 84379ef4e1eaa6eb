"""Beam tree (EBT-GRC; Ray Chowdhury and Caragea 2023): a beam search over trees, whose results are mixed.

A sentence is a row of vectors, at first h_t = LN(W e_t + b). Neighbours are merged until one vector is left, the
easiest pair first:

    s(l, r) = v . gelu(A [l_(1..d); r_(1..d)] + a)                score of a pair; d = 64 numbers of each vector
    log p(merge pair i) = log softmax over the pairs of the row
    parent = GRC(l, r)                                            (`layers.grc`)

`beam` rows with the highest sum of log p are kept (`layers.beam_merge`); in training both choices of the search have
Gumbel noise, so that other trees are tried (`noise`). The roots z_k of the rows with the sums q_k are mixed, and a
linear layer classifies the mixture:

    z = sum_k softmax(q)_k z_k

With `tied`, which is not in the paper, z is compared with the vectors of the words instead (`layers.tied_words`).
So the scores learn from the answer alone, by how much better the rows that they prefer are, and no gold tree is used.
The score needs no parent (that is the "efficient" of EBT; in BT-GRC every pair is composed to be scored), so the cell
is computed only for pairs that are merged. There is no dropout (the paper: 0.1). The tree is that of the best row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pomona.base.errors import SpecError
from pomona.models.inputs.sentences import Batch
from pomona.models.layers.beam_merge import Beams
from pomona.models.layers.grc import GRC, Tape
from pomona.models.layers.tied_words import Words
from pomona.models.model import MODELS, Model, Output, Shape


@MODELS.add("beam_tree")
@dataclass(frozen=True)
class BeamTreeModel(Model):
    """A gated cell over the trees of a beam search that merges neighbours, mixed by their probability (EBT-GRC)."""

    gpu = False
    answer_positions = 1 << 15  # nothing is padded, and more sentences take no more rounds

    width: int = 128  # of the vectors
    beam: int = 5  # trees that are kept
    slice: int = 64  # numbers of each vector that the score sees; all, if there are fewer
    noise: bool = True  # Gumbel noise in the search while training
    tied: bool = False  # an answer that is a word has the word's vector

    def __post_init__(self) -> None:
        if self.beam < 1 or self.slice < 1:
            raise SpecError(f"beam = {self.beam}, slice = {self.slice}: must be at least 1")

    def build(self, shape: Shape) -> nn.Module:
        return BeamTreeModule(self, shape)


class BeamTreeModule(nn.Module):
    def __init__(self, settings: BeamTreeModel, shape: Shape) -> None:
        super().__init__()
        width = settings.width
        self.beam, self.noise = settings.beam, settings.noise
        self.slice = min(settings.slice, width)
        self.words: Words | None = Words(settings, shape) if settings.tied else None
        if self.words is None:
            self.leaf = nn.Parameter(torch.randn(shape.vocabulary, width))
            self.project, self.norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.cell = GRC(width)
        self.scorer = nn.Linear(2 * self.slice, self.slice)
        self.scorer_out = nn.Linear(self.slice, 1, bias=False)  # a softmax does not see a bias
        if self.words is None:
            self.answer = nn.Linear(width, shape.classes)

    def forward(self, batch: Batch, random: torch.Generator | None = None) -> Output:
        leaves = self.words() if self.words else self.norm(self.project(self.leaf))  # [vocabulary, width]
        beams, tape = self.search(batch, leaves, random if self.training and self.noise else None)
        roots = torch.from_numpy(beams.root)  # [batch, beam]
        if not self.training:
            total = torch.from_numpy(beams.total).to(leaves)
            sentences = (total.softmax(1)[:, :, None] * tape.vectors[roots]).sum(1)
            steps, node_at = beams.trees(beams.total.argmax(1))
            nodes = tape.vectors[torch.from_numpy(node_at)]
            return Output(self.logits(sentences, leaves), batch.trees(steps), nodes, sentences)
        pairs, used = beams.used()
        nodes = tape.nodes(leaves, beams.height, used)
        scores = self.score(nodes, torch.from_numpy(beams.pairs[pairs]))
        total = _Totals.apply(scores, beams, pairs)  # type: ignore[no-untyped-call]
        return Output(self.logits((total.softmax(1)[:, :, None] * nodes[roots]).sum(1), leaves))

    def logits(self, sentences: Tensor, leaves: Tensor) -> Tensor:
        logits: Tensor = self.words.logits(sentences, leaves) if self.words else self.answer(sentences)
        return logits

    @torch.no_grad()
    def search(self, batch: Batch, leaves: Tensor, random: torch.Generator | None) -> tuple[Beams, Tape]:
        """The beams of every sentence, and the vectors of all nodes that were made."""
        beams = Beams(batch.flat, batch.start, self.beam, len(leaves), keep=self.training)
        tape = Tape(self.cell, leaves, beams.most, keep=self.training)
        noise = np.empty(0)
        if random is not None:
            noise = -torch.empty(beams.draws, dtype=torch.double).exponential_(generator=random).log().numpy()
        scores = self.score(tape.vectors, torch.from_numpy(beams.pairs))
        while not beams.finished:
            nodes, pairs = beams.merge(scores.numpy(), noise)
            if len(nodes):
                tape.add(nodes)
            scores = self.score(tape.vectors, torch.from_numpy(pairs))
        return beams, tape

    def score(self, nodes: Tensor, pairs: Tensor) -> Tensor:
        """The scores of pairs of these nodes, [pairs, 2]."""
        seen = nodes[:, : self.slice].index_select(0, pairs.view(-1)).view(-1, 2 * self.slice)
        scores: Tensor = self.scorer_out(nn.functional.gelu(self.scorer(seen)))[:, 0]
        return scores


class _Totals(torch.autograd.Function):
    """The sums of log p of the beams that a search has found already, [batch, beam]; its derivative is `beams`' own."""

    @staticmethod
    def forward(context: Any, scores: Tensor, beams: Beams, pairs: np.ndarray) -> Tensor:
        context.known = (beams, pairs)
        return torch.from_numpy(beams.total).to(scores)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        beams, pairs = context.known
        derivative = beams.derivative(gradients[0].double().numpy())
        return torch.from_numpy(derivative[pairs]).to(gradients[0]), None, None
