"""Soft chart (Maillard, Clark and Yogatama 2017): all binary trees at once, weighted. The ListOps paper left it out.

Each span is a mixture of the TreeLSTM cells of all ways to cut it in two, up to the whole sentence, which is
classified. The tree is read from the largest weights, starting at the top. Memory grows with the square of the length,
time with the cube. A batch is computed in parts that stay in the cache; a sentence that does not fit into memory is an
error. `layers.soft_chart` has the mathematics.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pomona.base.errors import RunError
from pomona.models.inputs.sentences import Batch
from pomona.models.layers.soft_chart import Charted
from pomona.models.layers.tree_lstm import TreeLSTM
from pomona.models.model import MODELS, Output, Shape
from pomona.models.sentence_model import SentenceTreeModel

NUMBERS = 24  # numbers for each span and unit of width: h, c, ten projections, and their derivatives
ROOM = 1 << 32  # the most bytes that the spans of one sentence may take
CACHE = 1 << 23  # bytes of spans that are computed together


@MODELS.add("chart")
@dataclass(frozen=True)
class ChartModel(SentenceTreeModel):
    """A TreeLSTM over all trees at once, weighted by a soft chart."""

    gpu = False

    leaf_deviation: float = 0.5  # of the first leaf vectors
    temperature: float = 0.2  # of the softmax over cuts

    def build(self, shape: Shape) -> nn.Module:
        return ChartModule(self, shape)


class ChartModule(nn.Module):
    def __init__(self, settings: ChartModel, shape: Shape) -> None:
        super().__init__()
        width = settings.size
        self.temperature = settings.temperature
        self.leaf = nn.Parameter(torch.randn(shape.vocabulary, 2 * width) * settings.leaf_deviation)
        self.cell = TreeLSTM(width)
        self.query = nn.Parameter(torch.randn(width) / math.sqrt(width))
        self.classifier = settings.classifier(width, shape)

    def forward(self, batch: Batch, random: torch.Generator | None = None) -> Output:
        parts = [self._part(batch, part) for part in self._parts(batch)]
        logits = self.classifier(torch.cat([root for root, _, _ in parts]))
        if self.training:
            return Output(logits)
        steps = np.concatenate([steps for _, _, steps in parts])
        return Output(logits, batch.trees(steps), torch.cat([nodes for _, nodes, _ in parts]))

    def _parts(self, batch: Batch) -> Iterator[slice]:
        """Neighbouring sentences whose charts fit into the cache together, or a single one whose chart does not."""
        lengths = np.diff(batch.start)
        need = NUMBERS * self.cell.width * self.leaf.element_size() * lengths * (lengths + 1) // 2
        if need.max() > ROOM:
            raise RunError(
                f"a chart over {int(lengths.max())} tokens needs {need.max() / 1e9:.1f} GB; its limit is "
                f"{ROOM / 1e9:.1f} GB. Leave out sentences as long as this (longest=...)."
            )
        first = 0
        while first < len(need):
            count = max(1, int(np.searchsorted(np.cumsum(need[first:]), CACHE, side="right")))
            yield slice(first, first + count)
            first += count

    def _part(self, batch: Batch, part: slice) -> tuple[Tensor, Tensor, npt.NDArray[np.uint8]]:
        """h of each sentence, h of the nodes of its best tree, and the steps of that tree."""
        start = batch.start[part.start : part.stop + 1]
        tokens = torch.from_numpy(batch.flat[start[0] : start[-1]])
        weight = torch.cat([self.cell.left, self.cell.right])  # [10H, H]
        query = self.query / self.query.norm()
        charted: tuple[Tensor, Tensor, npt.NDArray[np.uint8]] = Charted.apply(  # type: ignore[no-untyped-call]
            self.leaf[tokens], weight, self.cell.bias, query, self.temperature, start - start[0]
        )
        return charted
