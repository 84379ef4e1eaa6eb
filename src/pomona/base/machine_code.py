"""Where the machine code of compiled loops is kept, and how it is loaded without loading the compiler.

Numba alone checks only the file that holds a loop, but a loop also contains what it calls and the constants it reads
from other modules. So the cache folder of a loop is named after the text of its own module and of every Pomona module
that this one imports, directly or not. A changed file recompiles the loops that depend on it, and no others.

    <package>/__pycache__/loops-pomona.trees.forest-6d040784ff64ce61/      or in NUMBA_CACHE_DIR, if that is set
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

import numba
from numba.core.caching import FunctionCache
from numba.core.runtime import rtsys

_PACKAGE = Path(__file__).parents[1]
_STATES_KEPT = 4  # of each module, so that switching between two versions does not compile each time
_IMPORT = re.compile(rb"^(?:from (pomona[\w.]*) import (\([^)]*\)|[^\n]*)|import (pomona[\w.]*))", re.M)


def dispatcher(function: FunctionType, settings: dict[str, Any]) -> Any:
    """Numba's dispatcher of a function: compiles at the first call with new types, or loads what was compiled."""
    dispatcher = numba.njit(nogil=True, **settings)(function)
    users_folder = numba.config.CACHE_DIR  # Numba reads it when a cache is made; other packages keep theirs
    numba.config.CACHE_DIR = str(_folder(users_folder, function.__module__))
    try:
        dispatcher._cache = _QuickCache(function)
    finally:
        numba.config.CACHE_DIR = users_folder
    return dispatcher


# -- loading -----------------------------------------------------------------------------------------------------------


class _QuickCache(FunctionCache):  # type: ignore[misc]
    """A cache that loads machine code without Numba's tables of everything that can be compiled (0.4 s, and SciPy).

    Only the compiler needs the tables, and it loads them itself. Stored machine code needs the runtime, and the modules
    of Numba that its parts come from, which are imported with it.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)


# -- folders -----------------------------------------------------------------------------------------------------------


@cache
def _folder(users_folder: str, module: str) -> Path:
    """The folder for the machine code of one module, in its present state and that of all it imports."""
    digest = hashlib.sha256()
    for name in sorted(_dependencies(module)):
        digest.update(name.encode() + b"\0" + _text(name) + b"\0")
    home = Path(users_folder) if users_folder else _PACKAGE / "__pycache__"
    folder = home / f"loops-{module}-{digest.hexdigest()[:16]}"
    if folder.is_dir():
        with suppress(OSError):  # of an installation that cannot be written
            os.utime(folder)  # the states used last are kept
    else:
        _prune(home, module)
    return folder


def _prune(home: Path, module: str) -> None:
    """Remove old states of a module, so that there is room for one more. Nothing else in the folder is ours."""
    ours = re.compile(rf"loops-{re.escape(module)}-[0-9a-f]{{16}}")
    used: list[tuple[float, Path]] = []
    with suppress(OSError):  # no folder yet, or another process prunes at the same time
        for state in home.iterdir():
            if ours.fullmatch(state.name) and state.is_dir() and not state.is_symlink():
                used.append((state.stat().st_mtime, state))
    for _, state in sorted(used, reverse=True)[_STATES_KEPT - 1 :]:
        shutil.rmtree(state, ignore_errors=True)


def _dependencies(module: str) -> set[str]:
    """A module and all modules of Pomona that its loops could take something from."""
    dependencies: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in dependencies:
            dependencies.add(name)
            waiting += imports_of(name)
    return dependencies


@cache
def imports_of(module: str) -> list[str]:
    """The modules of Pomona that a module imports at its top level."""
    path = _file(module) or _users_file(module)
    names: list[str] = []
    for source, things, whole in _IMPORT.findall(path.read_bytes() if path else b""):
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
    """The file of a module of Pomona; a folder is its `__init__`. None for anything else."""
    top, *parts = module.split(".")
    if top != "pomona":
        return None
    path = _PACKAGE.joinpath(*parts)
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


def _users_file(module: str) -> Path | None:
    """The file of a user's own module. Numba looks at its text itself; we look for what it imports from Pomona."""
    path = getattr(sys.modules.get(module), "__file__", None)
    return Path(path) if path and path.endswith(".py") and Path(path).is_file() else None
