"""Locks: nobody loses what another process wrote, also where the file system has no locks."""

from __future__ import annotations

import errno
import fcntl
import json
import multiprocessing
import os
import time
from pathlib import Path

import pytest

from pomona.base import locks
from pomona.base.files import read_json, write_json
from pomona.base.locks import InUse, locked

FORK = multiprocessing.get_context("fork")


def _unlocked(*_: object) -> None:
    raise OSError(errno.ENOLCK, "No locks available")


def _count(folder: Path, times: int, with_locks: bool) -> None:
    if not with_locks:
        fcntl.flock = _unlocked  # type: ignore[assignment]
    for _ in range(times):
        with locked(folder / ".lock", wait=True):
            write_json(folder / "count", read_json(folder / "count") + 1)


@pytest.mark.parametrize("with_locks", [True, False])
def test_nothing_is_lost_when_processes_change_one_file(tmp_path: Path, with_locks: bool) -> None:
    write_json(tmp_path / "count", 0)
    workers = [FORK.Process(target=_count, args=(tmp_path, 15, with_locks)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert json.loads((tmp_path / "count").read_text()) == 60
    assert not list(tmp_path.glob("*.held"))


def test_who_does_not_wait_is_told(tmp_path: Path) -> None:
    with locked(tmp_path / ".lock"), pytest.raises(InUse), locked(tmp_path / ".lock"):
        pass
    with locked(tmp_path / ".lock"):
        pass


def test_a_marker_of_a_killed_process_is_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fcntl, "flock", _unlocked)
    marker = tmp_path / ".lock.held"
    marker.touch()
    old = time.time() - locks.MARKER_AGE - 1
    os.utime(marker, (old, old))
    with locked(tmp_path / ".lock", wait=True):
        assert marker.stat().st_mtime > old
    assert not marker.exists()
