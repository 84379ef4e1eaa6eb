"""TreeNN: each sentence composed along its own tree, h = f(W [children] + b) (Socher et al. 2011; Geiger et al. 2019).

    phrase = (modifier, head)   object = (quantifier, verb phrase, object phrase)   negated = (negation, object)
    sentence = (quantifier, subject phrase, negated)

Premise and hypothesis are rows of the same matrix products and are joined only before the classifier. There is one W
for two children and one for three.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from pomona.models.inputs.pairs import PairBatch
from pomona.models.layers.pair_heads import DenseLayer, Heads, Words
from pomona.models.model import MODELS, Shape
from pomona.models.pair_model import PairModel, PairModule, Parts


@MODELS.add("treenn")
@dataclass(frozen=True)
class TreeNN(PairModel):
    """Premise and hypothesis each composed along its own tree, side by side."""

    def build(self, shape: Shape) -> nn.Module:
        return TreeNNModule(self, shape)


class TreeNNModule(PairModule):
    def __init__(self, settings: TreeNN, shape: Shape) -> None:
        super().__init__(settings)
        self.word = Words(settings, shape)
        width = settings.width
        self.two = DenseLayer(2 * width, width, settings.activation)
        self.three = DenseLayer(3 * width, width, settings.activation)
        self.heads = Heads(settings, 2 * width)

    def answers(self, batch: PairBatch, random: torch.Generator | None) -> Parts:
        words = self.word(batch.tokens)  # [batch, 2, 9, width]
        vectors: Parts = {}
        for kind in ("modifier", "head"):
            vectors[kind] = self.word.side_by_side(batch.words[kind])
        # AdjS NS, Adv V, AdjO NO stand side by side, so a phrase is two neighbours: [batch, 2, 3, 2 width]
        phrases = self.two(words[:, :, [1, 2, 4, 5, 7, 8]].unflatten(2, (3, 2)).flatten(3))
        subject, verb, thing = phrases.unbind(2)
        whole = self.three(torch.cat([words[:, :, 6], verb, thing], 2))
        negated = self.two(torch.cat([words[:, :, 3], whole], 2))
        sentence = self.three(torch.cat([words[:, :, 0], subject, negated], 2))  # [batch, 2, width]
        vectors["phrase"] = phrases.permute(2, 0, 1, 3).flatten(2)  # [3, batch, 2 width]
        vectors |= {"object": whole.flatten(1)[None], "negated": negated.flatten(1)[None]}
        vectors["label"] = sentence.flatten(1)[None]
        answers: Parts = self.heads({kind: vectors[kind] for kind in self.kinds()}, random)
        return answers
