"""The Neural Data Router (Csordas, Irie and Schmidhuber 2022): a looped layer whose positions wait for their arguments.

    a = Norm(x + Attention(x)),    g = sigmoid(Gate(a)),    x <- (1 - g) x + g Norm(Update(a))

The gate is closed at first (bias -3), so a position keeps its vector until its arguments are ready. Attention is
geometric: each head attends to the nearest position that matches (`attention.geometric`). A number for each side is
added to the scores, so a head can prefer the left or the right. The number of steps is that of `looped_transformer`:
`extra`, and `per_level` for each level of brackets. The vector at the first token of each tree is classified.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from pomona.models.inputs.sequences import SequenceBatch
from pomona.models.layers.attention import Attention, geometric
from pomona.models.layers.decoder import TreeHeads, rounded
from pomona.models.layers.dropout import dropped
from pomona.models.layers.flat_geometric import attend_geometric
from pomona.models.layers.flat_loop import Flat, can_answer_flat, normed_sum, repeated
from pomona.models.model import MODELS, Output, Shape
from pomona.models.sequence_model import LoopedModel

CLOSED = -3.0  # first bias of the gates


@MODELS.add("data_router")
@dataclass(frozen=True)
class DataRouterModel(LoopedModel):
    """One layer with copy gates and geometric attention, repeated as often as the brackets are deep."""

    gate_dropout: float = 0.05  # share of the copy gates left out in training

    def build(self, shape: Shape) -> nn.Module:
        return DataRouterModule(self, shape)


class DataRouterModule(nn.Module):
    def __init__(self, settings: DataRouterModel, shape: Shape) -> None:
        super().__init__()
        width, inner = settings.width, settings.inner
        self.settings = settings
        self.word = nn.Parameter(torch.randn(rounded(shape.vocabulary), width) / math.sqrt(width))
        self.attention = Attention(width, settings.heads)
        self.side = nn.Parameter(torch.zeros(settings.heads, 2))  # added to the score on the left, on the right
        self.after_attention, self.after_update = nn.LayerNorm(width), nn.LayerNorm(width)
        self.update = nn.Sequential(nn.Linear(width, inner), nn.ReLU(), nn.Linear(inner, width))
        opening = nn.Linear(width, width)
        nn.init.constant_(opening.bias, CLOSED)
        self.gate = nn.Sequential(nn.Linear(width, width), nn.ReLU(), opening)
        self.heads = TreeHeads(width, settings.questions, shape.classes - 1, settings.node_weight)

    def forward(self, batch: SequenceBatch, random: torch.Generator | None = None) -> Output:
        settings = self.settings
        count = settings.steps(batch.nesting)  # [batch]
        if can_answer_flat(self, batch, count):
            return self.heads.of_roots(self.answer(batch, count))
        x = self.word[batch.tokens] * math.sqrt(settings.width)  # [batch, length, width]
        length = batch.tokens.shape[1]
        steps = torch.arange(length, device=x.device)
        right = (steps[None] > steps[:, None]).long()
        side = self.side[:, right].masked_fill(
            ~batch.inside[:, None, None], -torch.inf
        )  # [batch, heads, length, length]
        for step in range(int(count.max())):
            a = self.after_attention(x + dropped(self.attend(x, side), settings.dropout, random))
            g = dropped(self.gate(a).sigmoid(), settings.gate_dropout, random)
            y = (1 - g) * x + g * self.after_update(self.update(a))
            x = torch.where((step < count)[:, None, None], y, x)
        return cast(Output, self.heads(x, batch))

    def answer(self, batch: SequenceBatch, steps: Tensor) -> Tensor:
        """The last vectors of the roots, [batch, answers, width], without padding."""
        attention = self.attention

        def layer(x: Tensor, flat: Flat) -> Tensor:
            query, key, value = attention.projected(x)
            asked = flat.asked(x)
            mixed = attend_geometric(flat.asked(query), key, value, flat, self.side)
            a = normed_sum(asked, attention.out(mixed), self.after_attention)[1]
            g = self.gate(a).sigmoid_()
            return torch.lerp(asked, self.after_update(self.update(a)), g)

        return repeated(self.word[torch.from_numpy(batch.flat)] * math.sqrt(self.settings.width), batch, steps, layer)

    def attend(self, x: Tensor, side: Tensor) -> Tensor:
        attention = self.attention
        query, key, value = (attention.split(layer(x)) for layer in (attention.query, attention.key, attention.value))
        score = query @ key.transpose(2, 3) / math.sqrt(query.shape[-1]) + side
        out: Tensor = attention.out((geometric(score) @ value).transpose(1, 2).flatten(2))
        return out
