"""Vectors through a noisy channel: nodes pass noisy vectors to their parents, so only what the labels need survives.

    h = normed(W_2 f(W_1 [children] + b_1) + b_2)       passed on and classified: h + noise * N(0, 1), in training only

LayerNorm gives every vector the same length, so a node cannot drown the noise: the channel from a node to its parent
carries few bits. The node's own question is worth these bits; what only distinguishes one training example from another
is not. So nodes of the same class learn to pass on nearly the same vector, and a parent that was trained on some of
them can use the others. docs/fair_nli_2019.md has tests of this explanation. Without noise the tree memorises its
training set; without LayerNorm it learns long vectors instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pomona.base.errors import SpecError
from pomona.models.inputs.pairs import PairBatch
from pomona.models.layers.aligned_tree import AlignedTreeModel, ClassifiedTree, Tying
from pomona.models.layers.pair_heads import DenseLayer
from pomona.models.model import MODELS, Shape


@MODELS.add("noisy_channel")
@dataclass(frozen=True)
class NoisyChannel(AlignedTreeModel):
    """The aligned tree with LayerNorm and noise on the vector of every node; no label is passed to the parent."""

    tying: Tying = "type"
    noise: float = 1.0  # deviation of the noise
    norm: bool = True  # LayerNorm before the noise

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.noise < 0:
            raise SpecError(f"noise = {self.noise}: must be 0 or more")

    def build(self, shape: Shape) -> nn.Module:
        return NoisyModule(self, shape)


class Cell(nn.Module):
    def __init__(self, settings: NoisyChannel, arity: int) -> None:
        super().__init__()
        self.first = DenseLayer(arity * settings.width, settings.hidden, settings.activation)
        self.second = nn.Linear(settings.hidden, settings.width)
        self.norm = settings.norm

    def forward(self, children: Sequence[Tensor]) -> Tensor:
        h: Tensor = self.second(self.first(torch.cat(list(children), -1)))
        return nn.functional.layer_norm(h, h.shape[-1:]) if self.norm else h


class NoisyModule(ClassifiedTree):
    settings: NoisyChannel

    def __init__(self, settings: NoisyChannel, shape: Shape) -> None:
        super().__init__(settings, shape, lambda arity: Cell(settings, arity))

    def node_output(
        self, kind: str, h: Tensor, batch: PairBatch, random: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        if random is not None and self.settings.noise:
            h = h + self.settings.noise * torch.randn(h.shape, generator=random, dtype=h.dtype, device=h.device)
        return h, h
