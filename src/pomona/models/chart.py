"""Soft chart (Maillard, Clark and Yogatama 2017): every binary tree at once, weighted; the model the paper left out.

Each span mixes the TreeLSTMs of all ways to cut it in two, up to the whole sentence, which is classified; the tree is
read off the largest weights from the top. Memory and time grow with the square and the cube of the length: batches that
would not fit are done in parts; a sentence that does not fit alone is an error. `pomona.charts` has the mathematics.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from pomona.batch import Batch
from pomona.cells import Classifier, TreeLSTM
from pomona.charts import Charted
from pomona.errors import RunError
from pomona.modelling import MODELS, Model, Output, Shape, halved

NUMBERS = 24  # kept for each span and unit of width: h, c, ten projections, and their derivatives
ROOM = 1 << 32  # bytes of spans that are held at once


@MODELS.add("chart")
@dataclass(frozen=True)
class ChartModel(Model):
    """A TreeLSTM over all trees at once, weighted by a soft chart."""

    width: int = 128
    hidden: int = 16
    leaf_deviation: float = 0.5
    temperature: float = 0.2

    def build(self, shape: Shape) -> nn.Module:
        return ChartModule(self, shape)


class ChartModule(nn.Module):
    def __init__(self, settings: ChartModel, shape: Shape) -> None:
        super().__init__()
        width = halved(settings.width, shape)
        self.temperature = settings.temperature
        self.leaf = nn.Parameter(torch.randn(shape.vocabulary, 2 * width) * settings.leaf_deviation)
        self.cell = TreeLSTM(width)
        self.query = nn.Parameter(torch.randn(width) / math.sqrt(width))
        self.classifier = Classifier(
            width, settings.hidden, shape.classes, batch_layernorm="batch_layernorm" in shape.fidelity
        )

    def forward(self, batch: Batch, random: torch.Generator | None = None) -> Output:
        lengths = np.diff(batch.start)
        need = NUMBERS * self.cell.width * self.leaf.element_size() * lengths * (lengths + 1) // 2
        if need.sum() > ROOM:
            return self._in_parts(batch, need)
        cell = self.cell
        root, nodes, steps = Charted.apply(  # type: ignore[no-untyped-call]
            *self.leaf[torch.from_numpy(batch.flat)].chunk(2, 1), cell.left, cell.right, cell.bias,
            self.query / self.query.norm(), self.temperature, batch.start,
        )  # fmt: skip
        logits = self.classifier(root)
        return Output(logits) if self.training else Output(logits, batch.trees(steps), nodes)

    def _in_parts(self, batch: Batch, need: npt.NDArray[np.int64]) -> Output:
        """Half the batch after the other; one sentence alone that is too long is an error."""
        if len(batch) == 1:
            raise RunError(
                f"a chart over {int(batch.lengths[0])} tokens needs {need[0] / 1e9:.1f} GB; its limit is "
                f"{ROOM / 1e9:.1f} GB. Leave out sentences as long as this (longest=...)."
            )
        half = len(batch) // 2
        one, two = (self(Batch.of(batch.sentences, rows)) for rows in (batch.rows[:half], batch.rows[half:]))
        logits = torch.cat([one.logits, two.logits])
        if self.training:
            return Output(logits)
        return Output(logits, type(one.trees).concatenate([one.trees, two.trees]), torch.cat([one.nodes, two.nodes]))
