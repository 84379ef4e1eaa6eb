"""Dropout with a mask from the generator that a module is called with; without a generator nothing is dropped.

What is kept is divided by the share that is kept, so the expectation stays the same. The two functions draw their masks
differently, so the same seed gives other masks. Runs can be resumed to the bit only if each model keeps to its own.
"""

from __future__ import annotations

import torch
from torch import Tensor


def dropped(x: Tensor, share: float, random: torch.Generator | None) -> Tensor:
    """Numbers become 0 with probability `share`."""
    if not share or random is None:
        return x
    kept = torch.rand(x.shape, generator=random, device=x.device) >= share
    return x * kept / (1 - share)


def bernoulli_dropped(x: Tensor, share: float, random: torch.Generator | None) -> Tensor:
    """The same as `dropped` with another mask; the models of pairs use it."""
    if not share or random is None:
        return x
    kept = torch.empty_like(x, requires_grad=False).bernoulli_(1 - share, generator=random)
    return x * kept / (1 - share)
