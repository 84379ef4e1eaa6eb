"""Locks between processes, held by the system and released when a process ends, however it ends.

    with locked(folder / ".lock", wait=True): ...        # nobody else is in a block of this file

Some network file systems have no such locks. There, work goes on without: a lock is then no protection, and files are
still replaced as a whole.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)
_OFTEN = 0.02  # seconds between two tries to take over a marker
MARKER_AGE = 20.0  # seconds after which a marker is taken for one of a killed process


class InUse(Exception):  # noqa: N818 - a state that callers put into words
    """Another process holds the lock."""


@contextmanager
def locked(path: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold the lock of this file; if another process has it, wait for it, or raise InUse."""
    number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        state = try_lock(number, wait=wait)
        if state is False:
            raise InUse(str(path))
        if state is None and wait:
            with _marker(path.with_name(path.name + ".held")):
                yield
        else:
            yield
    finally:
        os.close(number)


def try_lock(number: int, *, wait: bool = False) -> bool | None:
    """Lock an open file: True if that worked, False if another process has it, None if there are no locks here."""
    try:
        fcntl.flock(number, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return None
        raise
    return True


@contextmanager
def _marker(path: Path) -> Iterator[None]:
    """For short work where there are no locks: a file that only one process can create. Old ones are taken over."""
    while True:
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC))
            break
        except FileExistsError:
            _remove_old(path)
            time.sleep(_OFTEN)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _remove_old(path: Path) -> None:
    try:
        if time.time() - path.stat().st_mtime > MARKER_AGE:
            path.unlink(missing_ok=True)
    except FileNotFoundError:
        pass
