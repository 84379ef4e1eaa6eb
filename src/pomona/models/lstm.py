"""LSTM over the tokens (Hochreiter and Schmidhuber 1997): the ListOps paper's sequential baseline.

The state after the last token is classified. Sentences are padded on the right and the state is read at each one's own
end, so padding changes nothing; the paper's code pads on the left, with a word that is trained (`left_padding`).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from pomona.batch import Batch
from pomona.cells import Classifier
from pomona.modelling import MODELS, Model, Output, Shape


@MODELS.add("lstm")
@dataclass(frozen=True)
class LSTMModel(Model):
    """A one-layer LSTM that reads from left to right."""

    width: int = 128
    hidden: int = 16

    def build(self, shape: Shape) -> nn.Module:
        return LSTMModule(self, shape)


class LSTMModule(nn.Module):
    def __init__(self, settings: LSTMModel, shape: Shape) -> None:
        super().__init__()
        self.left_padding = "left_padding" in shape.fidelity
        self.embedding = nn.Embedding(shape.vocabulary + self.left_padding, settings.width)
        self.lstm = nn.LSTM(settings.width, settings.width, batch_first=True)
        with torch.no_grad():
            self.lstm.get_parameter("bias_ih_l0")[settings.width : 2 * settings.width] = 1  # forget gates start open
        self.classifier = Classifier(
            settings.width, settings.hidden, shape.classes, batch_layernorm="batch_layernorm" in shape.fidelity
        )

    def forward(self, batch: Batch, random: torch.Generator | None = None) -> Output:
        tokens, last = batch.tokens, batch.lengths - 1  # [batch, length], [batch]
        if self.left_padding:
            tokens, last = self._left_padded(tokens, batch.lengths)
        states, _ = self.lstm(self.embedding(tokens))  # [batch, length, width]
        logits = self.classifier(states[torch.arange(len(batch), device=states.device), last])
        if self.training:
            return Output(logits)
        place = torch.arange(states.shape[1], device=states.device)
        first = last + 1 - batch.lengths
        return Output(logits, nodes=states[(place >= first[:, None]) & (place <= last[:, None])])

    def _left_padded(self, tokens: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        width = tokens.shape[1]
        source = torch.arange(width, device=tokens.device) - (width - lengths)[:, None]
        padding = self.embedding.num_embeddings - 1
        moved = torch.where(source >= 0, tokens.gather(1, source.clamp(min=0)), padding)
        return moved, torch.full_like(lengths, width - 1)
