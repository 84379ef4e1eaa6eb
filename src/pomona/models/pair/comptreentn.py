"""CompTreeNTN: the aligned tree with a neural tensor network for a cell (Socher et al. 2013; Geiger et al. 2019).

    h_k = f(c^T V_k c + W_k c + b_k),     c = [children]

c^T V_k c depends only on the symmetric part of V_k. So V holds one number for each pair i <= j of entries of c, and the
products c_i c_j of many rows times V are one matrix product with half the work. The products are computed in a compiled
loop, some rows at a time so that they stay in the cache, and computed again in the backward pass.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pomona.base.arrays import Floats
from pomona.base.compiled import summed
from pomona.base.errors import SpecError
from pomona.models.inputs.pairs import SentencePairs
from pomona.models.layers.aligned_tree import AlignedTree, AlignedTreeModel, ClassifiedTree
from pomona.models.layers.pair_heads import activated, first_weights
from pomona.models.model import MODELS, Shape

ROWS = 128  # rows whose products are held at once


@MODELS.add("comptreentn")
@dataclass(frozen=True)
class CompTreeNTN(AlignedTreeModel):
    """A neural tensor network composes premise and hypothesis together, along the aligned tree."""

    tensor: float = 1.0  # by which the first V is multiplied

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.tensor < math.inf:
            raise SpecError(f"tensor = {self.tensor}: a factor of 0 or more")

    def build(self, shape: Shape) -> nn.Module:
        return ClassifiedTree(self, shape, lambda arity: TensorCell(self, arity))


class TensorCell(nn.Module):
    def __init__(self, settings: CompTreeNTN, arity: int) -> None:
        super().__init__()
        inputs, width = arity * settings.width, settings.width
        self.activation = settings.activation
        self.weight = nn.Parameter(first_weights(width, inputs, settings.activation))
        self.bias = nn.Parameter(torch.zeros(width))
        first = torch.randn(inputs * (inputs + 1) // 2, width) / inputs / math.sqrt(2)
        self.tensor = nn.Parameter(first * settings.tensor)

    def forward(self, children: Sequence[Tensor]) -> Tensor:
        plain, products = self.parts(children)
        return activated(plain + products, self.activation).view(*children[0].shape[:-1], -1)

    def parts(self, children: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """What W and b give, and what V gives, [rows, width]."""
        flat = torch.cat(list(children), -1).flatten(0, -2)
        if flat.device.type == "cpu":
            products: Tensor = _Products.apply(flat, self.tensor)  # type: ignore[no-untyped-call]
        else:
            products = plain_products(flat, self.tensor)
        return nn.functional.linear(flat, self.weight, self.bias), products


def share_of_products(module: AlignedTree, feed: SentencePairs) -> dict[str, float]:
    """How much of the variance of the input of f comes from V, by kind of node (the first of its kind, if several)."""
    module.eval()
    with torch.no_grad():
        batch = feed.batch(np.arange(len(feed)))
        up = module.walk(batch, None)[1]
        subject, verb, thing = (up["phrase"][slot : slot + 1] for slot in range(3))
        children = {
            "modifier": [module.word(batch.tokens[:, side, 1]) for side in (0, 1)],
            "phrase": [up["modifier"][:1], up["head"][:1]],
            "object": [up["quantifier"][1:], verb, thing],
            "negated": [up["negation"], up["object"]],
            "label": [up["quantifier"][:1], subject, up["negated"]],
        }
        shares = {}
        for kind, inputs in children.items():
            cell = module.cells[module.key(kind, 0)]
            assert isinstance(cell, TensorCell)
            plain, products = (part.var(0).sum().item() for part in cell.parts(inputs))
            shares[kind] = products / (plain + products)
    return shares


def plain_products(c: Tensor, tensor: Tensor) -> Tensor:
    """The sum over i <= j of c_i c_j V_ij, [rows, width]."""
    i, j = torch.triu_indices(c.shape[1], c.shape[1])
    return (c[:, i] * c[:, j]) @ tensor


class _Products(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, c: Tensor, tensor: Tensor) -> Tensor:
        c = c.contiguous()
        ctx.save_for_backward(c, tensor)
        out, products = c.new_empty(len(c), tensor.shape[1]), c.new_empty(ROWS, len(tensor))
        for first in range(0, len(c), ROWS):
            some = c[first : first + ROWS]
            _forward(some.numpy(), products.numpy())
            torch.mm(products[: len(some)], tensor, out=out[first : first + ROWS])
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> Any:
        c, tensor = ctx.saved_tensors
        d_out = d_out.contiguous()
        d_c, d_tensor = torch.zeros_like(c), torch.zeros_like(tensor)
        products, turned = c.new_empty(ROWS, len(tensor)), tensor.t()
        for first in range(0, len(c), ROWS):
            some, back = c[first : first + ROWS], d_out[first : first + ROWS]
            used = products[: len(some)]
            _forward(some.numpy(), products.numpy())
            d_tensor.addmm_(used.t(), back)
            torch.mm(back, turned, out=used)
            _backward(some.numpy(), products.numpy(), d_c[first : first + ROWS].numpy())
        return d_c, d_tensor


@summed
def _forward(c: Floats, products: Floats) -> None:
    """c_i c_j for i <= j, row by row."""
    width = c.shape[1]
    for row in range(len(c)):
        at = 0
        for i in range(width):
            c_i = c[row, i]
            for j in range(i, width):
                products[row, at + j - i] = c_i * c[row, j]
            at += width - i


@summed
def _backward(c: Floats, d_products: Floats, d_c: Floats) -> None:
    """The derivative of `_forward`."""
    width = c.shape[1]
    for row in range(len(c)):
        at = 0
        for i in range(width):
            c_i, total = c[row, i], c[row, i] * 0
            for j in range(i, width):
                d = d_products[row, at + j - i]
                total += d * c[row, j]
                d_c[row, j] += d * c_i
            d_c[row, i] += total
            at += width - i
