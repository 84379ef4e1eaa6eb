"""Where the machine code of compiled loops is kept, and how it is loaded without loading the compiler.

Numba alone checks only the file that holds a loop, but a loop also contains what it calls and the constants it reads
from other modules. So the cache folder of a loop is named after the text of its own module and of every Pomona module
that this one imports, directly or not. A changed file recompiles the loops that depend on it, and no others.

    <home>/loops-pomona.trees.forest-6d040784ff64ce61/

The home is NUMBA_CACHE_DIR if that is set, else the package's `__pycache__`, else `pomona` in the user's cache folder:
the first that only this user can write to. Loading machine code runs it, so a folder or a file that belongs to somebody
else, or that others can write to, is not used. Every file ends with a digest of its content; one that is damaged or
cut off is compiled and written again. Where nothing can be kept, for example on a full disk, loops are compiled in
every process.
"""

from __future__ import annotations

import hashlib
import inspect
import io
import os
import re
import shutil
import stat
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, UserProvidedCacheLocator
from numba.core.runtime import rtsys

from pomona.base.errors import FormatError
from pomona.base.files import replacing

_PACKAGE = Path(__file__).parents[1]
_STATES_KEPT = 4  # of each module, so that switching between two versions does not compile each time
_LAYOUT = b"2"  # of the files; another number leaves the files of earlier versions alone
_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_IMPORT = re.compile(rb"^(?:from (pomona[\w.]*) import (\([^)]*\)|[^\n]*)|import (pomona[\w.]*))", re.M)


def dispatcher(function: FunctionType, settings: dict[str, Any]) -> Any:
    """Numba's dispatcher of a function: compiles at the first call with new types, or loads what was compiled."""
    dispatcher = numba.njit(nogil=True, **settings)(function)
    folder = _folder(numba.config.CACHE_DIR, function.__module__)
    if folder is not None and Path(inspect.getfile(function)).is_file():  # not a function typed at a prompt
        dispatcher._cache = _QuickCache(function, folder)
    return dispatcher


# -- loading and keeping -----------------------------------------------------------------------------------------------


class _QuickCache(FunctionCache):  # type: ignore[misc]
    """A cache that loads machine code without Numba's tables of everything that can be compiled (0.4 s, and SciPy).

    Only the compiler needs the tables, and it loads them itself. Stored machine code needs the runtime, and the modules
    of Numba that its parts come from, which are imported with it.
    """

    def __init__(self, function: FunctionType, folder: Path) -> None:
        self._name, self._py_func = repr(function), function
        self._impl = _Storage(function, folder)
        self._cache_path = str(folder)
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file = _SealedFiles(self._cache_path, self._impl.filename_base, stamp)
        self.enable()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        rtsys.initialize(target_context)
        with suppress(OSError):
            return self._load_overload(sig, target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(OSError, FormatError):  # a full disk or a quota: the next process compiles again
            self._save_overload(sig, data)


class _Storage(CompileResultCacheImpl):  # type: ignore[misc]
    """How Numba turns machine code into bytes; which folder they are kept in is our choice, not its own."""

    def __init__(self, function: FunctionType, folder: Path) -> None:
        path = inspect.getfile(function)
        self._lineno = function.__code__.co_firstlineno
        self._locator = UserProvidedCacheLocator(function, path)
        self._locator._cache_path = str(folder)
        name = f"{Path(path).stem}.{function.__qualname__}"
        self._filename_base = self.get_filename_base(name, getattr(sys, "abiflags", ""))


class _SealedFiles(IndexDataCacheFile):  # type: ignore[misc]
    """Numba's two kinds of file, each with a digest at its end, which is checked before Numba reads the file."""

    def save(self, key: Any, data: Any) -> None:
        super().save(key, (key, data))

    def load(self, key: Any) -> Any:
        kept = super().load(key)  # two processes may have chosen one name for two sets of types
        return kept[1] if kept is not None and kept[0] == key else None

    def _load_index(self) -> Any:
        return super()._load_index() if _is_whole(Path(self._index_path)) else {}

    def _load_data(self, name: str) -> Any:
        return super()._load_data(name) if _is_whole(Path(self._data_path(name))) else None

    @contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[io.BytesIO]:
        content = io.BytesIO()
        yield content
        with suppress(FileNotFoundError):
            if not _is_only_ours(Path(filepath).stat()):  # or the new file would get its owner and permissions
                Path(filepath).unlink()
        with replacing(filepath, mode=0o600) as beside:
            beside.write_bytes(content.getvalue() + hashlib.sha256(content.getvalue()).digest())


def _is_whole(path: Path) -> bool:
    """Whether a file ends in the digest of what is before it, and nobody but this user could have written it."""
    try:
        with path.open("rb") as file:
            content = file.read()
            ours = _is_only_ours(os.fstat(file.fileno()))
    except OSError:
        return False
    return ours and len(content) > 32 and hashlib.sha256(content[:-32]).digest() == content[-32:]


# -- folders -----------------------------------------------------------------------------------------------------------


@cache
def _folder(users_folder: str, module: str) -> Path | None:
    """The folder for the machine code of one module, in its present state and that of all it imports."""
    digest = hashlib.sha256(_LAYOUT)
    for name in sorted(_dependencies(module)):
        digest.update(name.encode() + b"\0" + _text(name) + b"\0")
    for home in _homes(users_folder):
        folder = home / f"loops-{module}-{digest.hexdigest()[:16]}"
        if _can_be_used(folder):
            with suppress(OSError):  # of an installation that cannot be written
                os.utime(folder)  # the states used last are kept
                _prune(home, module)
            return folder
        if users_folder and home == Path(users_folder):
            _warn_of(users_folder)
    return None


def _homes(users_folder: str) -> Iterator[Path]:
    """Where machine code may be kept, the best place first."""
    if users_folder:
        yield Path(users_folder)
    yield _PACKAGE / "__pycache__"
    with suppress(RuntimeError):  # a user without a home
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pomona"


def _can_be_used(folder: Path) -> bool:
    """Whether a folder is there, or can be made, that only this user can write to."""
    home = folder.parent
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = home.stat()
        if about.st_uid not in (0, os.getuid()):
            return False
        if about.st_mode & _OTHERS and not about.st_mode & stat.S_ISVTX:  # /tmp is safe: nobody moves others' folders
            return False
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.is_symlink() or not _is_only_ours(folder.stat()):
            return False
        return os.access(folder, os.W_OK | os.X_OK) or any(folder.iterdir())
    except OSError:
        return False


def _is_only_ours(about: os.stat_result) -> bool:
    """Whether this user owns a file or folder and nobody else can write to it."""
    return about.st_uid == os.getuid() and not about.st_mode & _OTHERS


@cache
def _warn_of(users_folder: str) -> None:
    warnings.warn(
        f"machine code is not kept in NUMBA_CACHE_DIR = {users_folder}: it is no folder that this user, and nobody "
        "else, can write to. Another folder is used",
        stacklevel=5,
    )


def _prune(home: Path, module: str) -> None:
    """Remove the states of a module that were not used for longest. Nothing else in the folder is ours."""
    name = re.compile(rf"loops-{re.escape(module)}-[0-9a-f]{{16}}")
    used: list[tuple[float, Path]] = []
    with suppress(OSError):  # another process prunes at the same time
        for state in home.iterdir():
            if name.fullmatch(state.name) and not state.is_symlink() and state.is_dir() and _is_only_ours(state.stat()):
                used.append((state.stat().st_mtime, state))
    for _, state in sorted(used, reverse=True)[_STATES_KEPT:]:
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
