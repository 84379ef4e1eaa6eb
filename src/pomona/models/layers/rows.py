"""Functions of rows of numbers, for the compiled loops of the layers: logistic function, tanh, dot product.

In 32 bits they use a polynomial that runs on eight numbers at a time; in 64 bits they are exact to the last digits.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pomona.base.arrays import Floats
from pomona.base.compiled import fused, inlined, summed

_LOW, _HIGH = np.float32(-87), np.float32(88)  # beyond them exp of a 32-bit number under- or overflows
_LOG2_E, _LN2_HIGH, _LN2_LOW = np.float32(1.44269504), np.float32(0.693359375), np.float32(-2.12194440e-4)
_HALF, ONE, TWO = np.float32(0.5), np.float32(1), np.float32(2)
_P0, _P1, _P2 = np.float32(1.9875691500e-4), np.float32(1.3981999507e-3), np.float32(8.3334519073e-3)
_P3, _P4, _P5 = np.float32(4.1665795894e-2), np.float32(1.6666665459e-1), np.float32(5.0000001201e-1)
_BIAS, _SHIFT = np.int32(127), np.int32(23)


@inlined
def exp32(x: Any) -> Any:
    """exp in 32 bits as 2^n p(f), with n whole and |f| <= ln 2 / 2 (the polynomial of Cephes)."""
    x = x if x > _LOW else _LOW
    x = x if x < _HIGH else _HIGH
    n = np.floor(x * _LOG2_E + _HALF)
    f = x - n * _LN2_HIGH - n * _LN2_LOW
    p = ((((_P0 * f + _P1) * f + _P2) * f + _P3) * f + _P4) * f + _P5
    return (p * f * f + f + ONE) * np.int32((np.int32(n) + _BIAS) << _SHIFT).view(np.float32)


@fused
def sigmoid_row(row: Floats) -> None:
    """The logistic function of a row, in place."""
    if row.itemsize == 8:
        for k in range(len(row)):
            row[k] = 1 / (1 + math.exp(-row[k]))
    else:
        for k in range(len(row)):
            row[k] = ONE / (ONE + exp32(-row[k]))


@fused
def tanh_row(row: Floats, out: Floats) -> None:
    """The hyperbolic tangent of a row."""
    if row.itemsize == 8:
        for k in range(len(row)):
            out[k] = math.tanh(row[k])
    else:
        for k in range(len(row)):
            out[k] = ONE - TWO / (ONE + exp32(TWO * row[k]))


@summed
def dot(first: Floats, second: Floats) -> Any:
    """The dot product of two rows."""
    total = first[0] * second[0]
    for k in range(1, len(first)):
        total += first[k] * second[k]
    return total
