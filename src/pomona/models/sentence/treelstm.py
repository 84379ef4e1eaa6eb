"""TreeLSTM over the gold trees (Tai, Socher and Manning 2015; the ListOps paper's upper bound).

A leaf is the row of its word in a table of (h, c). An inner node is the cell of `layers.tree_lstm` applied to its two
children. The root is classified. ListOps is easy for a model that is given the tree: a node never has to remember more
than one open list.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from pomona.models.inputs.sentences import Batch
from pomona.models.layers.tree_lstm import TreeLSTM
from pomona.models.model import MODELS, Output, Shape
from pomona.models.sentence_model import SentenceTreeModel


@MODELS.add("treelstm")
@dataclass(frozen=True)
class TreeLSTMModel(SentenceTreeModel):
    """A TreeLSTM that is given the gold trees."""

    given_trees = True
    leaf_deviation: float = 0.1  # of the first leaf vectors; 1.0, as in the paper's code, learns far more slowly

    def build(self, shape: Shape) -> nn.Module:
        return TreeLSTMModule(self, shape)


class TreeLSTMModule(nn.Module):
    def __init__(self, settings: TreeLSTMModel, shape: Shape) -> None:
        super().__init__()
        width = settings.size
        self.leaf = nn.Parameter(torch.randn(shape.vocabulary, 2 * width) * settings.leaf_deviation)
        self.cell = TreeLSTM(width)
        self.classifier = settings.classifier(width, shape)

    def forward(self, batch: Batch, random: torch.Generator | None = None) -> Output:
        h, c = self.leaf.chunk(2, 1)  # [words, H] each
        nodes = self.cell(batch.schedule, h, c)  # [words + distinct inner nodes, H]
        logits = self.classifier(nodes[batch.schedule.root])
        if self.training:
            return Output(logits)
        return Output(logits, batch.gold, nodes[batch.schedule.node_at])
