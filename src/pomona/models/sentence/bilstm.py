"""Bidirectional LSTM: one LSTM reads the sentence from the left, another from the right, each with words of its own.

The last state of the one and the last of the other (at the first token), side by side, are classified. In ListOps the
reader from the right meets a `]` before the list it closes, so it knows how much is open but not under which operator.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from pomona.models.inputs.sentences import Batch
from pomona.models.layers.lstm import LSTM
from pomona.models.layers.tree_lstm import Classifier
from pomona.models.model import MODELS, Model, Output, Shape


@MODELS.add("bilstm")
@dataclass(frozen=True)
class BiLSTMModel(Model):
    """Two LSTMs that read from either end; `width` is that of each."""

    quirks = True

    width: int = 128
    hidden: int = 16

    def build(self, shape: Shape) -> nn.Module:
        return BiLSTMModule(self, shape)


class BiLSTMModule(nn.Module):
    def __init__(self, settings: BiLSTMModel, shape: Shape) -> None:
        super().__init__()
        self.forth = LSTM(shape.vocabulary, settings.width, settings.width)
        self.back = LSTM(shape.vocabulary, settings.width, settings.width, reverse=True)
        self.classifier = Classifier(
            2 * settings.width, settings.hidden, shape.classes, batch_layernorm="batch_layernorm" in shape.fidelity
        )

    def forward(self, batch: Batch, random: torch.Generator | None = None) -> Output:
        forth, back = self.forth(batch.flat, batch.start), self.back(batch.flat, batch.start)  # [tokens, width] each
        whole = torch.cat([forth[batch.start[1:] - 1], back[batch.start[:-1]]], 1)  # each where it has read everything
        logits = self.classifier(whole)
        if self.training:
            return Output(logits)
        return Output(logits, nodes=torch.cat([forth, back], 1), sentences=whole)
