"""ST-Gumbel (Choi, Yoo and Lee 2018): a TreeLSTM that chooses its own trees, one merge of neighbours after another.

In each round every pair of neighbours is composed, a query vector scores the results, and the pair with the highest
score, with Gumbel noise added, is merged. In the backward pass the choice is treated as a softmax (straight-through).
In evaluation there is no noise. `pomona.models.layers.gumbel_merge` has the mathematics, and computes it exactly with a
few cells for each token.

The leaves (h, c) are the two halves of the word's vector, as in the ListOps paper's code (`none`), the same after a
linear map (`linear`), or the states of an LSTM over the words (`rnn`), as in Choi et al.

The temperature may be trained, fall by a factor every 10,000 steps, and swing with a cosine, as in the paper's search:
at step t it is  start x decay^(t / 10,000) x (cos(t / cycle) + 1) / 2,  the last factor only if there is a cycle.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from pomona.base.errors import SpecError
from pomona.models.inputs.sentences import Batch
from pomona.models.layers.gumbel_merge import LeafTokens, Merged, choices
from pomona.models.layers.lstm import LSTM
from pomona.models.layers.tree_lstm import TreeLSTM
from pomona.models.model import MODELS, Output, Shape
from pomona.models.sentence_model import SentenceTreeModel

SMALLEST = 1e-5  # keeps a temperature that swings above 0


@MODELS.add("st_gumbel")
@dataclass(frozen=True)
class STGumbelModel(SentenceTreeModel):
    """A TreeLSTM that chooses its own trees, trained by straight-through Gumbel softmax."""

    gpu = False

    leaf: Literal["none", "linear", "rnn"] = "none"  # what is between words and leaves: nothing, a linear map, an LSTM
    leaf_deviation: float = 0.5  # of the first leaf vectors
    temperature: float = 1.0  # of the softmax, at first
    trainable_temperature: bool = False  # learn the temperature, too
    temperature_decay: float = 1.0  # factor every 10,000 steps
    temperature_cycle: int = 0  # steps in which the cosine advances by one radian; 0 for no cosine

    def __post_init__(self) -> None:
        if self.temperature <= 0 or not 0 < self.temperature_decay <= 1 or self.temperature_cycle < 0:
            raise SpecError(
                f"temperature = {self.temperature}, temperature_decay = {self.temperature_decay}, temperature_cycle = "
                f"{self.temperature_cycle}: must be above 0, above 0 and at most 1, and 0 or more"
            )

    def build(self, shape: Shape) -> nn.Module:
        return STGumbelModule(self, shape)


class STGumbelModule(nn.Module):
    log_temperature: Tensor
    step: Tensor  # of the training, only where the temperature depends on it

    def __init__(self, settings: STGumbelModel, shape: Shape) -> None:
        super().__init__()
        width = settings.size
        self.kind, self.decay, self.cycle = settings.leaf, settings.temperature_decay, settings.temperature_cycle
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
        if self.decay != 1 or self.cycle:
            self.register_buffer("step", torch.tensor(0))
        self.classifier = settings.classifier(width, shape)

    def forward(self, batch: Batch, random: torch.Generator | None = None) -> Output:
        leaves, row = self._leaves(batch)  # [rows, 2H], the row of each token
        noise = self._noise(batch, leaves, random) if self.training else None
        cell, query = self.cell, self.query / math.sqrt(len(self.query))
        root, nodes, steps = Merged.apply(  # type: ignore[no-untyped-call]
            leaves, torch.cat([cell.left, cell.right]), cell.bias, query, self.next_temperature(),
            LeafTokens(row, batch.start, noise),
        )  # fmt: skip
        logits = self.classifier(root)
        return Output(logits) if self.training else Output(logits, batch.trees(steps), nodes)

    def next_temperature(self) -> Tensor:
        """The temperature of this step, which counts as done. In evaluation there is no noise, so any will do."""
        temperature: Tensor = self.log_temperature.exp()
        if not self.training or (self.decay == 1 and not self.cycle):
            return temperature
        step = int(self.step)
        self.step.add_(1)
        swing = (math.cos(step / self.cycle) + 1 + SMALLEST) / 2 if self.cycle else 1.0
        return temperature * float(self.decay ** (step / 10_000) * swing)

    def _leaves(self, batch: Batch) -> tuple[Tensor, np.ndarray]:
        if self.kind == "rnn":
            return self.lstm(batch.flat, batch.start), np.arange(len(batch.flat))
        return self.linear(self.leaf), batch.flat

    def _noise(self, batch: Batch, like: Tensor, random: torch.Generator | None) -> Tensor:
        count = choices(np.diff(batch.start))
        if random is None:
            return like.new_zeros(count)
        return -torch.empty(count, dtype=like.dtype).exponential_(generator=random).log()
