"""Matrix products whose factors and results are rounded to bfloat16: 8 bits of each number instead of 24.

Many processors have units for such products, which are three to four times as fast. Without them the same is computed
from the rounded factors at the speed of float32. The sums of a product are added up in float32 either way.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor

from pomona.models.layers.products import multiplied, over_rows

Precision = Literal["float32", "bfloat16"]  # of the factors of a product


@cache
def has_units() -> bool:
    """Whether this processor has units for products of bfloat16. Without them torch needs some 40 times as long."""
    able = torch.cpu.get_capabilities()
    return bool(able.get("amx_bf16") or able.get("avx512_bf16"))


def factor(x: Tensor, precision: Precision) -> Tensor:
    """x as a factor of a product."""
    if precision == "float32":
        return x
    return x.bfloat16() if x.device.type != "cpu" or has_units() else x.bfloat16().to(x.dtype)


def multiply(x: Tensor, weight: Tensor, precision: Precision) -> Tensor:
    """x times the transposed weight, which is a factor already, without a gradient."""
    if precision == "float32":
        return multiplied(x, weight)
    return (factor(x, precision) @ weight.t()).bfloat16().to(x.dtype)


def multiply_rows(x: Tensor, y: Tensor, precision: Precision) -> Tensor:
    """x.t() @ y, the gradient of a weight, without a gradient of its own."""
    if precision == "float32":
        return over_rows(x, y)
    return (factor(x.t(), precision) @ factor(y, precision)).bfloat16().to(x.dtype)


def product(x: Tensor, weight: Tensor, precision: Precision) -> Tensor:
    """x times the transposed weight, in plain torch; the products of its derivative are rounded too."""
    if precision == "float32":
        return x @ weight.t()
    result: Tensor = _Product.apply(x, weight)  # type: ignore[no-untyped-call]
    return result


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.kind = x.dtype
        x, weight = factor(x, "bfloat16"), factor(weight, "bfloat16")
        ctx.save_for_backward(x, weight)
        return (x @ weight.t()).bfloat16().to(ctx.kind)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, d: Tensor) -> tuple[Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        d = factor(d, "bfloat16")
        return (d @ weight).bfloat16().to(ctx.kind), (d.t() @ x).bfloat16().to(ctx.kind)
