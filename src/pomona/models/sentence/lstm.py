"""LSTM over the tokens (Hochreiter and Schmidhuber 1997): the ListOps paper's sequential baseline.

The state after the last token is classified. Each sentence is read from its own first token to its own last, so an
answer does not depend on what else is in the batch. The paper's code pads shorter sentences on the left with a word
that is trained (`left_padding`); then it does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from pomona.models.inputs.sentences import Batch
from pomona.models.layers.lstm import LSTM
from pomona.models.layers.precision import Precision
from pomona.models.model import MODELS, Output, Shape
from pomona.models.sentence_model import SentenceModel


@MODELS.add("lstm")
@dataclass(frozen=True)
class LSTMModel(SentenceModel):
    """A one-layer LSTM that reads from left to right."""

    precision: Precision = "float32"  # of the factors of its products; bfloat16 is faster if it is wide
    left_padding: bool = False  # read trainable padding before every shorter sentence, as in the ListOps code

    def build(self, shape: Shape) -> nn.Module:
        return LSTMModule(self, shape)


class LSTMModule(nn.Module):
    def __init__(self, settings: LSTMModel, shape: Shape) -> None:
        super().__init__()
        self.padding = shape.vocabulary if settings.left_padding else None
        words = shape.vocabulary + (self.padding is not None)
        self.lstm = LSTM(words, settings.width, settings.width, precision=settings.precision)
        self.classifier = settings.classifier(settings.width, shape)

    def forward(self, batch: Batch, random: torch.Generator | None = None) -> Output:
        tokens, start = batch.flat, batch.start  # [tokens of the batch], [batch + 1]
        if self.padding is not None:
            tokens, start = left_padded(tokens, start, self.padding)
        states = self.lstm(tokens, start)  # [tokens, width]
        logits = self.classifier(states[start[1:] - 1])
        if self.training:
            return Output(logits)
        return Output(logits, nodes=states if self.padding is None else states[tokens != self.padding])


def left_padded(
    tokens: npt.NDArray[np.int64], start: npt.NDArray[np.int64], padding: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Every sentence at the length of the longest, with `padding` before it."""
    lengths = np.diff(start)
    longest = int(lengths.max())
    padded = np.full((len(lengths), longest), padding, np.int64)
    padded[np.arange(longest) >= longest - lengths[:, None]] = tokens
    return padded.ravel(), np.arange(len(lengths) + 1) * longest
