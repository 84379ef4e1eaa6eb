"""What every model is: settings that build a module, and a module that reads a Batch and gives an Output.

    @MODELS.add("mean")
    @dataclass(frozen=True)
    class Mean(Model):
        \"\"\"The mean of the embeddings.\"\"\"
        width: int = 64
        def build(self, shape): return MeanModule(self, shape)

A new model is one new file in `pomona.models`; its fields are its settings, and the contract tests pick it up. A module
draws its first weights from torch's generator, which training seeds for it, and everything else from the generator it
is handed: `module(batch, random)`. Without one, or in evaluation, it must not draw at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from pomona.registry import Registry
from pomona.trees import Forest


@dataclass(frozen=True)
class Shape:
    """What a module must know of its task: how many words and answers there are, and which quirks are asked for."""

    vocabulary: int
    classes: int
    fidelity: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Output:
    """What a model says of a batch.

    `trees` are the binary trees it built, if any; `nodes` has a row for each of their nodes in post-order, or, without
    trees, for each token. Both are given in evaluation only. `penalty` is added to the loss.
    """

    logits: Tensor  # [batch, classes]
    trees: Forest | None = None
    nodes: Tensor | None = None
    penalty: Tensor | None = None


@dataclass(frozen=True)
class Model:
    """Settings of a model."""

    name: ClassVar[str]

    def build(self, shape: Shape) -> nn.Module:
        raise NotImplementedError(f"{type(self).__name__} must define build(shape)")


MODELS: Registry[Model] = Registry("model", "pomona.models")


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Torch's own generator begins at `seed` inside and is as it was afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def halved(width: int, shape: Shape) -> int:
    """The size of h (and of c) in a tree model of this width: half of it in the paper's code."""
    return width // 2 if "half_width" in shape.fidelity else width
