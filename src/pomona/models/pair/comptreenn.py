"""CompTreeNN: one aligned tree for the pair, h = f(W [children] + b) (Geiger et al. 2019, section 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pomona.models.layers.aligned_tree import AlignedTreeModel, ClassifiedTree
from pomona.models.layers.pair_heads import DenseLayer
from pomona.models.model import MODELS, Shape


@MODELS.add("comptreenn")
@dataclass(frozen=True)
class CompTreeNN(AlignedTreeModel):
    """A one-layer network composes premise and hypothesis together, along the aligned tree."""

    def build(self, shape: Shape) -> nn.Module:
        return ClassifiedTree(self, shape, lambda arity: Cell(self, arity))


class Cell(nn.Module):
    def __init__(self, settings: CompTreeNN, arity: int) -> None:
        super().__init__()
        self.layer = DenseLayer(arity * settings.width, settings.width, settings.activation)

    def forward(self, children: Sequence[Tensor]) -> Tensor:
        h: Tensor = self.layer(torch.cat(list(children), -1))
        return h
