"""CBoW: a sentence is the mean of its words (Geiger et al. 2019, section 5); word order is lost."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from pomona.models.inputs.pairs import SPANS, PairBatch
from pomona.models.layers.pair_heads import Heads, Words
from pomona.models.model import MODELS, Shape
from pomona.models.pair_model import PairModel, PairModule, Parts


@MODELS.add("cbow")
@dataclass(frozen=True)
class CBoW(PairModel):
    """Premise and hypothesis as means of word vectors, side by side."""

    def build(self, shape: Shape) -> nn.Module:
        return CBoWModule(self, shape)


class CBoWModule(PairModule):
    def __init__(self, settings: CBoW, shape: Shape) -> None:
        super().__init__(settings)
        self.word = Words(settings, shape)
        self.heads = Heads(settings, 2 * settings.width)

    def answers(self, batch: PairBatch, random: torch.Generator | None) -> Parts:
        words = self.word(batch.tokens)  # [batch, 2, 9, width]
        vectors: Parts = {}
        for kind in self.kinds():
            if kind in batch.words:
                vectors[kind] = self.word.side_by_side(batch.words[kind])
            else:
                means = [words[:, :, first:last].mean(2).flatten(1) for first, last in SPANS[kind]]
                vectors[kind] = torch.stack(means)  # [slots, batch, 2 width]
        answers: Parts = self.heads(vectors, random)
        return answers
