"""Matrix products of 32-bit numbers by the faster of the two libraries that torch brings.

    multiplied(x, weight)          x @ weight.t(), with a bias and ReLU if they are wanted
    over_rows(x, y)                x.t() @ y: the gradient of a weight, a sum over many rows

Torch computes `mm` with MKL, which keeps its widest instructions for Intel's processors; on AMD's with 512-bit
registers oneDNN needs half the time. Both are exact to the last digits of 32 bits and differ there, so which is used
follows from the processor and the shapes alone: the same run gives the same bits. oneDNN makes machine code for every
new shape (half a millisecond) and keeps 1024 of them, so whoever calls rounds up what varies from batch to batch.

These functions have no gradient: they are for layers whose derivative is written by hand.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

FEW = 16  # rows up to which a call of oneDNN costs more than it saves
SMALL = 1 << 18  # numbers multiplied, likewise


@cache
def wide_amd() -> bool:
    """Whether this is a processor of AMD with 512-bit registers, and torch has oneDNN."""
    about = torch.cpu.get_capabilities()
    amd = str(about.get("cpu_name", "")).startswith("AMD") and bool(about.get("avx512_f"))
    return amd and torch.backends.mkldnn.is_available() and one_dnn() is not None  # type: ignore[no-untyped-call]


@cache
def one_dnn() -> Any:
    """Torch's x @ weight.t() by oneDNN, which its own compiler uses; None if there is none."""
    return getattr(torch.ops.mkldnn, "_linear_pointwise", None)


def multiplied(x: Tensor, weight: Tensor, bias: Tensor | None = None, *, relu: bool = False) -> Tensor:
    """x @ weight.t() + bias of [rows, inputs] and [outputs, inputs]."""
    if _faster(x, weight.shape[0] * weight.shape[1]):
        return _by_one_dnn(x, weight, bias, "relu" if relu else "none")
    out = nn.functional.linear(x, weight, bias)
    return out.relu_() if relu else out


def over_rows(x: Tensor, y: Tensor) -> Tensor:
    """x.t() @ y of [rows, outputs] and [rows, inputs], without a copy of either."""
    if not _faster(x, x.shape[1] * y.shape[1]):
        return x.t() @ y
    if x.shape[1] > y.shape[1]:  # the narrower one stands in front: its copy is the smaller
        return _by_one_dnn(y.t(), x.t()).t()
    return _by_one_dnn(x.t(), y.t())


def room_for(rows: int) -> int:
    """Somewhat more rows, at most a sixteenth: of 16 sizes from each power of two to the next."""
    return rounded_up(rows, max(16, 1 << max(0, rows.bit_length() - 5)))


def rounded_up(rows: int, multiple: int) -> int:
    """The next multiple: rows of zeros cost little, and a new shape costs half a millisecond."""
    return -(-rows // multiple) * multiple


def _faster(x: Tensor, weights: int) -> bool:
    here = x.dtype == torch.float32 and x.is_cpu and wide_amd()
    return here and x.shape[0] > FEW and x.shape[0] * weights > SMALL


def _by_one_dnn(x: Tensor, weight: Tensor, bias: Tensor | None = None, then: str = "none") -> Tensor:
    result: Tensor = one_dnn()(x, weight, bias, then, [], "")
    return result
