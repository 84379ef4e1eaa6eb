"""The Neural Data Router (Csordas, Irie and Schmidhuber 2022): a looped layer whose positions wait for their turn.

    a = Norm(x + Attention(x)),    g = sigmoid(Gate(a)),    x <- (1 - g) x + g Norm(Update(a))

The gate is closed at first (bias -3), so a position keeps what it has until its arguments are ready; attention is
geometric: each head goes to the nearest position that matches (`attention.geometric`). To its score each side
adds a number of its own, so a head can look to the left or to the right. Steps as in `looped_transformer`: `extra` and
so many for each level of brackets. The vector at the first token of each tree is classified.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from pomona.base.errors import SpecError
from pomona.models.inputs.sequences import SequenceBatch
from pomona.models.layers.attention import Attention, geometric
from pomona.models.layers.decoder import TreeHeads, rounded
from pomona.models.model import MODELS, Output, Shape, dropped
from pomona.models.sequence_model import SequenceModel

CLOSED = -3.0  # the first bias of the gates


@MODELS.add("data_router")
@dataclass(frozen=True)
class DataRouterModel(SequenceModel):
    """Copy gates and geometric attention over one layer, taken as many times as the brackets are deep."""

    width: int = 128
    inner: int = 256
    heads: int = 4
    extra: int = 2
    per_level: float = 1.0
    answers: int = 2
    node_weight: float = 0.0  # of the values of all lists in the loss
    dropout: float = 0.0
    gate_dropout: float = 0.05

    def __post_init__(self) -> None:
        if self.node_weight < 0:
            raise SpecError(f"node_weight = {self.node_weight}: 0 or more is needed")

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
        self.heads = TreeHeads(width, settings.answers, shape.classes - 1, settings.node_weight)

    def forward(self, batch: SequenceBatch, random: torch.Generator | None = None) -> Output:
        settings = self.settings
        x = self.word[batch.tokens] * math.sqrt(settings.width)  # [batch, length, width]
        length = batch.tokens.shape[1]
        steps = torch.arange(length, device=x.device)
        right = (steps[None] > steps[:, None]).long()
        side = self.side[:, right].masked_fill(
            ~batch.inside[:, None, None], -torch.inf
        )  # [batch, heads, length, length]
        count = settings.extra + (settings.per_level * batch.nesting).ceil()  # [batch]
        for step in range(int(count.max())):
            a = self.after_attention(x + dropped(self.look(x, side), settings.dropout, random))
            g = dropped(self.gate(a).sigmoid(), settings.gate_dropout, random)
            y = (1 - g) * x + g * self.after_update(self.update(a))
            x = torch.where((step < count)[:, None, None], y, x)
        return cast(Output, self.heads(x, batch))

    def look(self, x: Tensor, side: Tensor) -> Tensor:
        attention = self.attention
        query, key, value = (attention.split(layer(x)) for layer in (attention.query, attention.key, attention.value))
        score = query @ key.transpose(2, 3) / math.sqrt(query.shape[-1]) + side
        found: Tensor = attention.out((geometric(score) @ value).transpose(1, 2).flatten(2))
        return found
