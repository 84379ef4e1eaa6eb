"""One door to Numba: every compiled loop of Pomona is made here, cached on disk and free of the interpreter lock.

    @compiled
    def total(values: Ints) -> int: ...

The first call after an installation compiles (seconds); later processes load the machine code from the cache. Numba
alone would take a loop from the cache as long as its own file is unchanged, even if it calls a rule in another file
that is not. So the cache is kept apart for each state of the files that hold compiled loops.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
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

_STATES_KEPT = 4  # so that going back and forth between two versions does not compile each time


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function of numbers and arrays to machine code."""
    return _made(function)


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """The same for a small function that is called from compiled loops: it is inlined there."""
    return _made(function, inline="always")


def fused(function: Callable[P, R]) -> Callable[P, R]:
    """The same for arithmetic over long rows of floats, eight at a time: x / 0 is infinite, a * b + c rounds once."""
    return _made(function, error_model="numpy", fastmath={"contract"})


def summed(function: Callable[P, R]) -> Callable[P, R]:
    """The same for sums along rows, which may be taken in another order (always the same one)."""
    return _made(function, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})


def _made(function: Callable[P, R], **settings: Any) -> Callable[P, R]:
    given = numba.config.CACHE_DIR  # read by Numba when it makes a function; other packages keep theirs
    numba.config.CACHE_DIR = str(_folder(given))
    try:
        return cast(Callable[P, R], numba.njit(cache=True, nogil=True, **settings)(function))
    finally:
        numba.config.CACHE_DIR = given


@cache
def _folder(given: str) -> Path:
    """Where the machine code of this state of the package lies; if that cannot be written, Numba has its own place."""
    package = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        text = path.read_bytes()
        if b"pomona.base.compiled" in text:
            digest.update(str(path.relative_to(package)).encode() + b"\0" + text + b"\0")
    home = Path(given) if given else package / "__pycache__"
    folder = home / f"loops-{digest.hexdigest()[:16]}"
    if not folder.exists():
        states = sorted(home.glob("loops-*"), key=lambda state: state.stat().st_mtime, reverse=True)
        for state in states[_STATES_KEPT - 1 :]:
            shutil.rmtree(state, ignore_errors=True)
    return folder
