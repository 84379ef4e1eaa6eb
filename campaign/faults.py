"""Faults: the disk is full, broken, read-only or over its quota at the k-th step of every command that writes.

    faults(JOBS.values(), step=1)          # every line of the door fails in turn
    limits(JOBS["generate parquet"])       # files may not grow beyond some size: a real EFBIG at any byte
    full_disks(JOBS["train a tree model"]) # a real, small tmpfs; needs the right to mount
    injected(JOBS["certify"])              # the k-th write, fsync or rename fails in the kernel (strace)

Promises: exit status 3 and one line that says why, or 0 and the right output; every file is old or new; no litter.
"""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from campaign.jobs import Job, ended, left_over, run, said, start, written
from campaign.kills import OLDER, Expected, Toll, at_line, expected, lines, workplace

ERRORS = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT, errno.EACCES)
CLEANING = ("__exit__", "_remove_left_overs", "_is_abandoned", "_put_aside")  # what cannot be cleaned up stays
SIZES = (0, 1, 100, 1_000, 4_000, 16_000, 64_000)  # bytes that a file may have


def faults(jobs: Iterable[Job], *, step: int = 1, until: float | None = None) -> Toll:
    """Every `step`-th line of the door fails, with one error after the other; an older output is there before."""
    toll = Toll()
    for job in jobs:
        older = job.seeded
        wanted = expected(job, older=older)
        with workplace(job) as folder:
            total = lines(job, folder)
        for number in range(1, total + 1, step):
            if until is not None and time.monotonic() > until:
                return toll
            code = ERRORS[number // step % len(ERRORS)]
            _one(job, wanted, toll, f"line {number} fails with {errno.errorcode[code]}",
                 lambda number=number, code=code: at_line(number, lambda: _fail(code), CLEANING)())  # fmt: skip
    return toll


def _fail(code: int) -> None:
    raise OSError(code, os.strerror(code))


def limits(job: Job, sizes: Iterable[int] = SIZES) -> Toll:
    """No file may grow beyond a size: the kernel refuses the write that would."""
    toll, wanted = Toll(), expected(job, older=job.seeded)
    for size in sizes:
        _one(job, wanted, toll, f"files of at most {size} bytes", lambda size=size: _limit(size))
    return toll


def _limit(size: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def _one(job: Job, wanted: Expected, toll: Toll, what: str, hook: Callable[[], None]) -> None:
    """One command with a fault, over an older output if there can be one."""
    with workplace(job) as folder:
        if job.seeded:
            run(job, folder, OLDER)
        before = written(folder)
        status = run(job, folder, hook=hook)
        toll.commands += 1
        toll.kills += status == 3
        toll.lost += [f"{job.name}, {what}: {wrong}" for wrong in judged(folder, status, before, wanted)]


def judged(folder: Path, status: int, before: dict[str, str], wanted: Expected) -> list[str]:
    """What is wrong after a command whose writing failed."""
    now = written(folder)
    wrong = []
    if status not in (0, 1, 3):
        wrong.append(f"ended with {status}: {said(folder)}")
    if status in (0, 1) and now != wanted.files:
        wrong.append("ended well, and its output is not whole")
    for name in before.keys() - now.keys():
        if not name.endswith(".label"):  # of a pair that could not be replaced: its sources can be read without
            wrong.append(f"{name} is gone")
    for name, digest in now.items():
        if digest not in (before.get(name), wanted.files.get(name)) and not name.startswith(("run/", "runs/")):
            wrong.append(f"{name} is neither old nor new")
    return wrong + [f"{name} was left behind" for name in left_over(folder)]


# -- disks -------------------------------------------------------------------------------------------------------------


@contextmanager
def small_disk(kilobytes: int, *, writable: bool = True) -> Iterator[Path]:
    """A file system in memory of this size, or one that can only be read."""
    with tempfile.TemporaryDirectory(prefix="pomona-campaign-") as name:
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", name], check=True, capture_output=True
        )
        try:
            yield Path(name)
        finally:
            subprocess.run(["umount", "-l", name], check=False)


def can_mount() -> bool:
    try:
        with small_disk(64):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


def full_disks(job: Job, sizes: Iterable[int]) -> Toll:
    """The command on disks of these sizes, in kilobytes, with an older output where there is room for it."""
    toll, wanted = Toll(), expected(job)
    for size in sizes:
        with small_disk(size) as disk:
            folder = disk / "work"
            folder.mkdir()
            try:
                job.prepare(folder)
            except OSError:
                continue
            before = written(folder)
            status = run(job, folder)
            toll.commands += 1
            toll.kills += status == 3
            toll.lost += [
                f"{job.name}, a disk of {size} KB: {wrong}" for wrong in judged(folder, status, before, wanted)
            ]
            shutil.rmtree(folder, ignore_errors=True)
    return toll


# -- in the kernel -----------------------------------------------------------------------------------------------------

CALLS = ("write", "fsync", "rename", "openat", "chmod")
KERNEL = {"ENOSPC": 3, "EIO": 3, "EROFS": 3, "EDQUOT": 3, "EINTR": 0}


def can_inject() -> bool:
    return shutil.which("strace") is not None


def injected(job: Job, calls: Iterable[tuple[str, str, int]]) -> Toll:
    """The k-th of a system call fails with an error: (call, error, k). EINTR must be without an effect for `write`."""
    toll, wanted = Toll(), expected(job, older=job.seeded)
    for call, error, number in calls:
        with workplace(job) as folder:
            if job.seeded:
                run(job, folder, OLDER)
            before = written(folder)
            ready, go = os.pipe()
            child = start(job, folder, hook=lambda ready=ready: os.read(ready, 1) and None)
            rule = f"inject={call}:error={error}:when={number}"
            command = ["strace", "-qq", "-f", "-p", str(child), "-e", f"trace={call}", "-e", rule, "-o", os.devnull]
            tracer = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            _wait_until_traced(child)
            os.write(go, b"x")
            status = ended(child)
            tracer.wait(10)
            os.close(ready)
            os.close(go)
            toll.commands += 1
            toll.kills += status == 3
            what = f"{call} number {number} fails with {error}"
            toll.lost += [f"{job.name}, {what}: {wrong}" for wrong in judged(folder, status, before, wanted)]
    return toll


def _wait_until_traced(child: int) -> None:
    stop = time.monotonic() + 10
    while time.monotonic() < stop and "TracerPid:\t0" in Path(f"/proc/{child}/status").read_text():
        time.sleep(0.01)
