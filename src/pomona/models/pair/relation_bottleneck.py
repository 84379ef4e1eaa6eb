"""Relation bottleneck: all that a node hands up is the class that it predicts for itself.

    h = cell(children)      z = W h      handed up: softmax(z) E       with E a learned vector for each class

Fairness rests on the label of a node being all that its parent must know, and this model cannot use anything else. No
relation algebra is given: what the classes mean for a parent is learned like everything. Quantifier and negation pairs
have no label, so their vectors are handed up as they are. `channel` says how z is handed up:

    softdet   softmax(z), whose gradient stops here: a parent's error does not reach its children
    hard      the most likely class; the gradient is that of softmax(z) (straight through)
    soft      softmax(z)
    gold      the true class in training, the most likely one in answering
    logit     z itself: as narrow a channel, but not a choice

`where` names the kinds of nodes that have it (the others hand up h), and `skip` adds h to what is handed up: both are
there to find out which part does the work. docs/fair_nli_2019.md has the answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from pomona.base.errors import SpecError
from pomona.models.inputs.pairs import ASKED, CLASSES, PairBatch
from pomona.models.layers.aligned_tree import KINDS, AlignedTree, AlignedTreeModel, Tying
from pomona.models.layers.pair_heads import Layer, dropped
from pomona.models.model import MODELS, Shape
from pomona.models.pair_model import Parts

Channel = Literal["softdet", "hard", "soft", "gold", "logit"]
BELOW = tuple(kind for kind in KINDS if kind in ASKED and kind != "label")


@MODELS.add("relation_bottleneck")
@dataclass(frozen=True)
class RelationBottleneck(AlignedTreeModel):
    """The aligned tree with each node's own predicted class as the only thing handed up."""

    width: int = 64
    tying: Tying = "type"
    channel: Channel = "softdet"
    where: tuple[str, ...] = BELOW
    skip: bool = False
    layers: int = 2  # of a cell: one, or a hidden one as well

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.channel not in ("softdet", "hard", "soft", "gold", "logit"):
            raise SpecError(f"channel = {self.channel!r}: 'softdet', 'hard', 'soft', 'gold' or 'logit'")
        if not set(self.where) <= set(BELOW):
            raise SpecError(f"where = {self.where}: some of {', '.join(BELOW)}")
        if self.inner != "hidden":
            raise SpecError(f"inner = {self.inner!r}: this model's questions always go to a softmax alone")
        if self.layers not in (1, 2):
            raise SpecError(f"layers = {self.layers}: 1 or 2")

    def build(self, shape: Shape) -> nn.Module:
        return BottleneckModule(self, shape)


class Cell(nn.Module):
    def __init__(self, settings: RelationBottleneck, arity: int) -> None:
        super().__init__()
        inputs, width = arity * settings.width, settings.width
        if settings.layers == 1:
            self.layers: nn.Module = Layer(inputs, width, settings.activation)
        else:
            self.layers = nn.Sequential(
                Layer(inputs, settings.hidden, settings.activation), nn.Linear(settings.hidden, width)
            )

    def forward(self, children: Sequence[Tensor]) -> Tensor:
        h: Tensor = self.layers(torch.cat(list(children), -1))
        return h


class BottleneckModule(AlignedTree):
    settings: RelationBottleneck

    def __init__(self, settings: RelationBottleneck, shape: Shape) -> None:
        super().__init__(settings, shape, lambda arity: Cell(settings, arity))
        self.classifier = nn.ModuleDict({kind: nn.Linear(settings.width, CLASSES[kind]) for kind in ASKED})
        table = {kind: nn.Parameter(torch.randn(CLASSES[kind], settings.width)) for kind in settings.where}
        self.table = nn.ParameterDict(table)

    def rise(self, kind: str, h: Tensor, batch: PairBatch, random: torch.Generator | None) -> tuple[Tensor, Tensor]:
        h = dropped(h, self.settings.dropout, random)
        if kind not in ASKED:
            return h, h
        z: Tensor = self.classifier[kind](h)
        if kind not in self.settings.where:
            return z, h
        up = self._channel(z, batch.asked[kind]) @ self.table[kind]
        return z, up + h if self.settings.skip else up

    def _channel(self, z: Tensor, gold: Tensor) -> Tensor:
        channel = self.settings.channel
        if channel == "logit":
            return z
        soft = z.softmax(-1)
        if channel == "soft":
            return soft
        if channel == "softdet":
            return soft.detach()
        best = z.argmax(-1)
        if channel == "gold" and self.training:
            best = torch.where(gold >= 0, gold, best)
        hard = nn.functional.one_hot(best, z.shape[-1]).to(z)
        return hard + soft - soft.detach() if channel == "hard" and self.training else hard

    def classify(self, classified: Parts, random: torch.Generator | None) -> Parts:
        return {kind: classified[kind] for kind in self.kinds()}
