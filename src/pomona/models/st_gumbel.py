"""ST-Gumbel (Choi, Yoo and Lee 2018): a TreeLSTM that chooses its own trees, one merge of neighbours after another.

In each round every pair of neighbours is composed, a query vector scores the results, and the best pair, by scores with
Gumbel noise, is merged; going back, the choice counts as a softmax (straight-through). In evaluation there is no noise.
`pomona.merging` holds the mathematics and computes it exactly with a few cells a token.

Leaves: the word's vector cut in two, (h, c), as the ListOps paper's code has it (`none`), after a linear map
(`linear`), or the states of an LSTM over the words (`rnn`), as Choi et al. do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from pomona.batch import Batch
from pomona.cells import Classifier, TreeLSTM
from pomona.merging import Merged, choices
from pomona.modelling import MODELS, Model, Output, Shape, halved
from pomona.recurrent import LSTM


@MODELS.add("st_gumbel")
@dataclass(frozen=True)
class STGumbelModel(Model):
    """A TreeLSTM over trees of its own choice, trained by straight-through Gumbel softmax."""

    width: int = 128
    hidden: int = 16
    leaf: Literal["none", "linear", "rnn"] = "none"
    leaf_deviation: float = 0.5
    temperature: float = 1.0
    trainable_temperature: bool = False

    def build(self, shape: Shape) -> nn.Module:
        return STGumbelModule(self, shape)


class STGumbelModule(nn.Module):
    def __init__(self, settings: STGumbelModel, shape: Shape) -> None:
        super().__init__()
        width = halved(settings.width, shape)
        self.kind = settings.leaf
        if self.kind == "rnn":
            self.lstm = LSTM(shape.vocabulary, width, 2 * width)
        else:
            self.leaf = nn.Parameter(torch.randn(shape.vocabulary, 2 * width) * settings.leaf_deviation)
            self.linear = nn.Linear(2 * width, 2 * width) if self.kind == "linear" else nn.Identity()
        self.cell = TreeLSTM(width)
        self.query = nn.Parameter(torch.randn(width))
        start = torch.tensor(math.log(settings.temperature))
        if settings.trainable_temperature:
            self.log_temperature = nn.Parameter(start)
        else:
            self.register_buffer("log_temperature", start, persistent=False)
        self.classifier = Classifier(
            width, settings.hidden, shape.classes, batch_layernorm="batch_layernorm" in shape.fidelity
        )

    def forward(self, batch: Batch, random: torch.Generator | None = None) -> Output:
        leaves, row = self._leaves(batch)  # [rows, 2H], the row of each token
        noise = self._noise(batch, leaves, random) if self.training else None
        cell, query = self.cell, self.query / math.sqrt(len(self.query))
        root, nodes, steps = Merged.apply(  # type: ignore[no-untyped-call]
            *leaves.chunk(2, 1), cell.left, cell.right, cell.bias, query, self.log_temperature.exp(),
            row, batch.start, noise,
        )  # fmt: skip
        logits = self.classifier(root)
        return Output(logits) if self.training else Output(logits, batch.trees(steps), nodes)

    def _leaves(self, batch: Batch) -> tuple[Tensor, np.ndarray]:
        if self.kind == "rnn":
            return self.lstm(batch.flat, batch.start), np.arange(len(batch.flat))
        return self.linear(self.leaf), batch.flat

    def _noise(self, batch: Batch, like: Tensor, random: torch.Generator | None) -> Tensor:
        count = choices(np.diff(batch.start))
        if random is None:
            return like.new_zeros(count)
        return -torch.empty(count, dtype=like.dtype).exponential_(generator=random).log()
