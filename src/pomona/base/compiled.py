"""The only door to Numba: every compiled loop is made here, cached on disk, and runs without the interpreter lock.

    @compiled
    def total(values: Ints) -> int: ...

The first call after an installation compiles (seconds); later processes load the machine code from the cache. Numba
alone checks only the file that holds a loop, but a loop also contains what it calls and the constants it reads from
other modules. So the cache folder of a loop is named after the text of its own module and of every Pomona module that
this one imports, directly or not. A changed file recompiles the loops that depend on it, and no others.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")

_PACKAGE = Path(__file__).parents[1]
_STATES_KEPT = 4  # of each module, so that going back and forth between two versions does not compile each time
_IMPORT = re.compile(rb"^(?:from (pomona[\w.]*) import (\([^)]*\)|[^\n]*)|import (pomona[\w.]*))", re.M)


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function of numbers and arrays to machine code."""
    return _made(function)


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a small function that is called from compiled loops: it is inlined there."""
    return _made(function, inline="always")


def fused(function: Callable[P, R]) -> Callable[P, R]:
    """Compile arithmetic over long rows of floats, eight at a time: x / 0 is infinite, a * b + c rounds once."""
    return _made(function, error_model="numpy", fastmath={"contract"})


def summed(function: Callable[P, R]) -> Callable[P, R]:
    """Compile sums along rows, which may be taken in another order (always the same one)."""
    return _made(function, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})


def _made(function: Callable[P, R], **settings: Any) -> Callable[P, R]:
    given = numba.config.CACHE_DIR  # read by Numba when it makes a function; other packages keep theirs
    numba.config.CACHE_DIR = str(_folder(given, function.__module__))
    try:
        return cast(Callable[P, R], numba.njit(cache=True, nogil=True, **settings)(function))
    finally:
        numba.config.CACHE_DIR = given


@cache
def _folder(given: str, module: str) -> Path:
    """Where the machine code of one module lies, in its present state and that of all it imports."""
    digest = hashlib.sha256()
    for name in sorted(_imported(module)):
        digest.update(name.encode() + b"\0" + _text(name) + b"\0")
    home = Path(given) if given else _PACKAGE / "__pycache__"
    folder = home / f"loops-{module}-{digest.hexdigest()[:16]}"
    if not folder.exists():
        states = sorted(home.glob(f"loops-{module}-*"), key=lambda state: state.stat().st_mtime, reverse=True)
        for state in states[_STATES_KEPT - 1 :]:
            shutil.rmtree(state, ignore_errors=True)
    return folder


def _imported(module: str) -> set[str]:
    """A module and all modules of the package that its loops could take something from."""
    found: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _imports(name)
    return found


@cache
def _imports(module: str) -> list[str]:
    """The modules of the package that a module imports at its top level."""
    names: list[str] = []
    for source, things, whole in _IMPORT.findall(_text(module)):
        if whole:
            names.append(whole.decode())
            continue
        names.append(source.decode())  # a name of that module, or a module of that folder
        names += [f"{source.decode()}.{thing.decode()}" for thing in re.findall(rb"\w+", things)]
    return [name for name in names if _file(name) is not None]


@cache
def _text(module: str) -> bytes:
    path = _file(module)
    return b"" if path is None else path.read_bytes()


def _file(module: str) -> Path | None:
    """The file of a module of the package; a folder is its `__init__`. None for anything else."""
    top, *parts = module.split(".")
    if top != "pomona":
        return None  # a user's own loops: Numba looks at their file itself
    place = _PACKAGE.joinpath(*parts)
    return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)
