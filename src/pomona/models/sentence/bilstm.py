"""Bidirectional LSTM: one LSTM reads the sentence from the left, another from the right, each with its own words.

The last states of both are classified side by side; that of the second is at the first token. In ListOps the LSTM from
the right reads a `]` before the list that it closes, so it knows how many lists are open but not their operators.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from pomona.models.inputs.sentences import Batch
from pomona.models.layers.lstm import LSTM
from pomona.models.model import MODELS, Output, Shape
from pomona.models.sentence_model import SentenceModel


@MODELS.add("bilstm")
@dataclass(frozen=True)
class BiLSTMModel(SentenceModel):
    """Two LSTMs that read from either end, each of size `width`."""

    def build(self, shape: Shape) -> nn.Module:
        return BiLSTMModule(self, shape)


class BiLSTMModule(nn.Module):
    def __init__(self, settings: BiLSTMModel, shape: Shape) -> None:
        super().__init__()
        self.forth = LSTM(shape.vocabulary, settings.width, settings.width)
        self.back = LSTM(shape.vocabulary, settings.width, settings.width, reverse=True)
        self.classifier = settings.classifier(2 * settings.width, shape)

    def forward(self, batch: Batch, random: torch.Generator | None = None) -> Output:
        right, left = self.forth(batch.flat, batch.start), self.back(batch.flat, batch.start)  # [tokens, width] each
        whole = torch.cat([right[batch.start[1:] - 1], left[batch.start[:-1]]], 1)  # each after its last token
        logits = self.classifier(whole)
        if self.training:
            return Output(logits)
        return Output(logits, nodes=torch.cat([right, left], 1), sentences=whole)
