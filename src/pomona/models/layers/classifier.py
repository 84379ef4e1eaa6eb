"""From a vector to an answer: the classifier of the ListOps paper's models."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class BatchLayerNorm(nn.Module):
    """The LayerNorm of the ListOps paper's code: one mean and deviation over the whole batch, gain and bias by feature.

    An answer then depends on what else is in its batch. It is only there to repeat what that code does.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        deviation = x.std() if x.numel() > 1 else x.new_ones(())
        return self.weight * (x - x.mean()) / (deviation + 1e-5) + self.bias


class Classifier(nn.Sequential):
    """The paper's two-layer perceptron: LayerNorm, twice (linear, ReLU, LayerNorm), linear to the classes."""

    def __init__(self, width: int, hidden: int, classes: int, *, batch_layernorm: bool = False) -> None:
        norm = BatchLayerNorm if batch_layernorm else nn.LayerNorm
        super().__init__(
            norm(width),
            nn.Linear(width, hidden), nn.ReLU(), norm(hidden),
            nn.Linear(hidden, hidden), nn.ReLU(), norm(hidden),
            nn.Linear(hidden, classes),
        )  # fmt: skip
        for layer in self:
            if isinstance(layer, nn.Linear):  # Kaiming, and biases of 0, as in the paper's code
                nn.init.kaiming_normal_(layer.weight)
                nn.init.zeros_(layer.bias)
