"""TreeLSTM over the gold trees (Tai, Socher and Manning 2015; the ListOps paper's upper bound).

A leaf is its word's row of a table of (h, c); an inner node is the cell of `tree_lstm` on its two children; the root
is classified. That the tree is given makes ListOps easy: at no node is more than one open list to be remembered.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from pomona.models.inputs.sentences import Batch
from pomona.models.layers.tree_lstm import Classifier, TreeLSTM
from pomona.models.model import MODELS, Model, Output, Shape, halved


@MODELS.add("treelstm")
@dataclass(frozen=True)
class TreeLSTMModel(Model):
    """A TreeLSTM that is given the gold trees."""

    quirks = True

    width: int = 128
    hidden: int = 16
    leaf_deviation: float = 0.1  # of the first leaf vectors; 1.0 in the paper's code learns far more slowly

    def build(self, shape: Shape) -> nn.Module:
        return TreeLSTMModule(self, shape)


class TreeLSTMModule(nn.Module):
    def __init__(self, settings: TreeLSTMModel, shape: Shape) -> None:
        super().__init__()
        width = halved(settings.width, shape)
        self.leaf = nn.Parameter(torch.randn(shape.vocabulary, 2 * width) * settings.leaf_deviation)
        self.cell = TreeLSTM(width)
        self.classifier = Classifier(
            width, settings.hidden, shape.classes, batch_layernorm="batch_layernorm" in shape.fidelity
        )

    def forward(self, batch: Batch, random: torch.Generator | None = None) -> Output:
        h, c = self.leaf.chunk(2, 1)  # [words, H] each
        nodes = self.cell(batch.schedule, h, c)  # [words + distinct inner nodes, H]
        logits = self.classifier(nodes[batch.schedule.root])
        if self.training:
            return Output(logits)
        return Output(logits, batch.gold, nodes[batch.schedule.place])
