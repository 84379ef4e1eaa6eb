"""One door to Numba: every compiled loop of Pomona is made here, cached on disk and free of the interpreter lock.

    @compiled
    def total(values: Ints) -> int: ...

The first call after an installation compiles (seconds); later processes load the machine code from the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt

P = ParamSpec("P")
R = TypeVar("R")

Ints = npt.NDArray[np.integer[Any]]
Floats = npt.NDArray[np.floating[Any]]
Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function of numbers and arrays to machine code."""
    return cast(Callable[P, R], numba.njit(cache=True, nogil=True)(function))


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """The same for a small function that is called from compiled loops: it is inlined there."""
    return cast(Callable[P, R], numba.njit(cache=True, nogil=True, inline="always")(function))
