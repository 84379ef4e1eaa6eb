"""Relation bottleneck: a node passes nothing to its parent but the class that it predicts for itself.

    h = cell(children)      z = W h      passed to the parent: softmax(z) E       with E a learned vector for each class

A split is fair if the label of a node is all that its parent must know, and this model cannot use anything else. No
relation algebra is given: what the classes mean for a parent is learned like everything else. Pairs of quantifiers and
of negations have no label, so their vectors are passed on as they are. `channel` says how z is passed on:

    softdet   softmax(z), without gradient: the error of a parent does not reach its children
    hard      the most likely class; the gradient is that of softmax(z) (straight-through)
    soft      softmax(z)
    gold      the true class in training, the most likely one in evaluation
    logit     z itself: a channel of the same width, but not a choice

`where` names the kinds of nodes that have the bottleneck (the others pass on h), and `skip` adds h to what is passed
on. Both serve to find out which part matters; docs/fair_nli_2019.md has the answers.
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
from pomona.models.layers.dropout import bernoulli_dropped
from pomona.models.layers.pair_heads import DenseLayer
from pomona.models.model import MODELS, Shape
from pomona.models.pair_model import Parts

Channel = Literal["softdet", "hard", "soft", "gold", "logit"]
BELOW = tuple(kind for kind in KINDS if kind in ASKED and kind != "label")


@MODELS.add("relation_bottleneck")
@dataclass(frozen=True)
class RelationBottleneck(AlignedTreeModel):
    """The aligned tree in which a node passes only its own predicted class to its parent."""

    width: int = 64
    tying: Tying = "type"
    channel: Channel = "softdet"  # how the prediction is passed on
    where: tuple[str, ...] = BELOW  # the kinds of nodes that have the bottleneck
    skip: bool = False  # pass on h as well
    layers: int = 2  # of a cell: 1, or 2 with a hidden layer

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.channel not in ("softdet", "hard", "soft", "gold", "logit"):
            raise SpecError(f"channel = {self.channel!r}: must be 'softdet', 'hard', 'soft', 'gold' or 'logit'")
        if not set(self.where) <= set(BELOW):
            raise SpecError(f"where = {self.where}: must be some of {', '.join(BELOW)}")
        if self.inner != "hidden":
            raise SpecError(
                f"inner = {self.inner!r}: this model answers its questions with a softmax alone; leave the setting out"
            )
        if self.layers not in (1, 2):
            raise SpecError(f"layers = {self.layers}: must be 1 or 2")

    def build(self, shape: Shape) -> nn.Module:
        return BottleneckModule(self, shape)


class Cell(nn.Module):
    def __init__(self, settings: RelationBottleneck, arity: int) -> None:
        super().__init__()
        inputs, width = arity * settings.width, settings.width
        if settings.layers == 1:
            self.layers: nn.Module = DenseLayer(inputs, width, settings.activation)
        else:
            self.layers = nn.Sequential(
                DenseLayer(inputs, settings.hidden, settings.activation), nn.Linear(settings.hidden, width)
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

    def node_output(
        self, kind: str, h: Tensor, batch: PairBatch, random: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        h = bernoulli_dropped(h, self.settings.dropout, random)
        if kind not in ASKED:
            return h, h
        z: Tensor = self.classifier[kind](h)
        if kind not in self.settings.where:
            return z, h
        passed = self._channel(z, batch.asked[kind]) @ self.table[kind]
        return z, passed + h if self.settings.skip else passed

    def _channel(self, z: Tensor, gold: Tensor) -> Tensor:
        """The class of a node as it is passed on: a row of numbers, one for each class."""
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
