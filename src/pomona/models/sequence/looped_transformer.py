"""A looped Transformer: one layer repeated as often as the brackets are deep (Dehghani et al. 2019 and later work).

    x_0 = words,    x_t = Norm(Layer(x_{t-1} + words)),    t = 1 .. steps,    steps = `extra` + `per_level` * nesting

The words are added again at every step ("recall"), so a step need not carry them. Nesting is read from the tokens: the
largest number of brackets that are open at once. So a deeper tree has more steps than any in training. The number of
steps of an example does not depend on what else is in its batch. Positions are `relative` or `none`. The vector at the
first token of each tree is classified.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import Tensor, nn

from pomona.models.inputs.sequences import SequenceBatch
from pomona.models.layers.attention import RelativeBias, TransformerLayer
from pomona.models.layers.decoder import TreeHeads, rounded
from pomona.models.layers.dropout import dropped
from pomona.models.layers.flat_loop import Flat, can_answer_flat, normed_sum, repeated
from pomona.models.layers.flat_softmax import attend_softmax
from pomona.models.model import MODELS, Output, Shape
from pomona.models.sequence_model import LoopedModel


@MODELS.add("looped_transformer")
@dataclass(frozen=True)
class LoopedTransformerModel(LoopedModel):
    """One Transformer layer, repeated as often as the brackets are deep."""

    positions: Literal["relative", "none"] = "relative"  # what attention knows of the distance of two tokens

    def build(self, shape: Shape) -> nn.Module:
        return LoopedTransformerModule(self, shape)


class LoopedTransformerModule(nn.Module):
    def __init__(self, settings: LoopedTransformerModel, shape: Shape) -> None:
        super().__init__()
        width = settings.width
        self.settings = settings
        self.word = nn.Parameter(torch.randn(rounded(shape.vocabulary), width) / math.sqrt(width))
        self.layer = TransformerLayer(width, settings.inner, settings.heads, norm="pre")
        self.norm = nn.LayerNorm(width)
        self.bias = RelativeBias(settings.heads) if settings.positions == "relative" else None
        self.heads = TreeHeads(width, settings.questions, shape.classes - 1, settings.node_weight)

    def forward(self, batch: SequenceBatch, random: torch.Generator | None = None) -> Output:
        settings = self.settings
        steps = settings.steps(batch.nesting)  # [batch]
        if can_answer_flat(self, batch, steps):
            return self.heads.of_roots(self.answer(batch, steps))
        words = self.word[batch.tokens] * math.sqrt(settings.width)  # [batch, length, width]
        words = dropped(words, settings.dropout, random)
        mask = batch.inside[:, None, None]
        if self.bias is not None:
            mask = self.bias(batch.tokens.shape[1]).masked_fill(~mask, -torch.inf)
        x = words
        for step in range(int(steps.max())):
            y = self.norm(self.layer(x + words, mask, settings.dropout, random))
            x = torch.where((step < steps)[:, None, None], y, x)
        return cast(Output, self.heads(x, batch))

    def answer(self, batch: SequenceBatch, steps: Tensor) -> Tensor:
        """The last vectors of the roots, [batch, answers, width], without padding."""
        words = self.word * math.sqrt(self.settings.width)
        bias = self.word.new_zeros(self.settings.heads, 1) if self.bias is None else self.bias.table
        attention, (before, between) = self.layer.attention, self.layer.norms

        def layer(x: Tensor, flat: Flat) -> Tensor:
            x, y = normed_sum(x, words, before, batch.flat[flat.tokens])
            query, key, value = attention.projected(y)
            x, y = flat.asked(x), attention.out(attend_softmax(flat.asked(query), key, value, flat, bias))
            x, y = normed_sum(x, y, between)
            return normed_sum(x, self.layer.down(self.layer.up(y).relu_()), self.norm)[1]

        return repeated(words[torch.from_numpy(batch.flat)], batch, steps, layer)
