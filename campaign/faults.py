"""Faults: the disk is full, broken, read-only or over its quota at the k-th step of every command that writes.

    faults(JOBS["certify"])                # every call that changes the disk fails in turn
    limits(JOBS["generate parquet"])       # files may not grow beyond some size: a real EFBIG at any byte
    full_disks(JOBS["train a tree model"]) # a real, small tmpfs; needs the right to mount
    read_only(JOBS["tre"])                 # a real file system that cannot be written
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

from campaign.jobs import UNFINISHED, Job, ended, left_over, run, said, start, written
from campaign.kills import Bench, Toll, at_call, calls, spread

ERRORS = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT, errno.EACCES)
CLEANING = ("__exit__", "_remove_left_overs", "_is_abandoned", "_put_aside")  # what cannot be cleaned up stays
SIZES = (0, 1, 100, 1_000, 4_000, 16_000, 64_000)  # bytes that a file may have


def faults(job: Job, *, until: float | None = None) -> Toll:
    """Every call that changes the disk fails, with one error after the other; an older output is there."""
    bench, toll = Bench(job, older=job.seeded), Toll()
    toll.calls = calls(bench, CLEANING)
    for number in spread(toll.calls):
        if until is not None and time.monotonic() > until:
            break
        code = ERRORS[number % len(ERRORS)]

        def fail(code: int = code) -> None:
            raise OSError(code, os.strerror(code))

        _one(bench, toll, f"call {number} fails with {errno.errorcode[code]}", at_call(number, fail, CLEANING))
    bench.close()
    return toll


def limits(job: Job, sizes: Iterable[int] = SIZES) -> Toll:
    """No file may grow beyond a size: the kernel refuses the write that would."""
    bench, toll = Bench(job, older=job.seeded), Toll()
    for size in sizes:
        _one(bench, toll, f"files of at most {size} bytes", lambda size=size: _limit(size))
    bench.close()
    return toll


def _limit(size: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def _one(bench: Bench, toll: Toll, what: str, hook: Callable[[], None]) -> None:
    """One command with a fault, over an older output if there can be one."""
    with bench.place() as folder:
        status = run(bench.job, folder, hook=hook)
        toll.commands += 1
        toll.kills[bench.job.name] += status == 3
        toll.lost += [f"{bench.job.name}, {what}: {wrong}" for wrong in judged(bench, folder, status, bench.before)]


def judged(bench: Bench, folder: Path, status: int, before: dict[str, str]) -> list[str]:
    """What is wrong after a command whose writing failed."""
    now = written(folder)
    wrong = []
    if status not in (0, 1, 3):
        wrong.append(f"ended with {status}: {said()}")
    told = status == 1 and any(name.startswith("runs/failed/") for name in now)  # a sweep says which runs failed
    if status in (0, 1) and now != bench.files and not told:
        wrong.append("ended well, and its output is not whole")
    for name in before.keys() - now.keys():
        if not name.endswith(".label"):  # of a pair that could not be replaced: its sources can be read without
            wrong.append(f"{name} is gone")
    for name, digest in now.items():
        if digest not in (before.get(name), bench.files.get(name), UNFINISHED) and not name.startswith(
            ("run/", "runs/")
        ):
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


def full_disks(job: Job, sizes: Iterable[int], until: float | None = None) -> Toll:
    """The command on disks of these sizes, in kilobytes, with an older output where there is room for it."""
    bench, toll = Bench(job, older=job.seeded), Toll()
    for size in sizes:
        if until is not None and time.monotonic() > until:
            break
        with small_disk(size) as disk:
            _on_disk(bench, toll, disk, f"a disk of {size} KB")
    bench.close()
    return toll


def read_only(job: Job) -> Toll:
    """The command on a disk that holds its inputs and an older output, and cannot be written."""
    bench, toll = Bench(job, older=job.seeded), Toll()
    with small_disk(16_384) as disk:
        _on_disk(bench, toll, disk, "a disk that can only be read", writable=False)
    bench.close()
    return toll


def _on_disk(bench: Bench, toll: Toll, disk: Path, what: str, *, writable: bool = True) -> None:
    try:
        with bench.place() as source:
            folder = Path(shutil.copytree(source, disk / "work", symlinks=True))
    except (OSError, shutil.Error):  # no room for what must be there before
        return
    if not writable:
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True, capture_output=True)
    status = run(bench.job, folder)
    toll.commands += 1
    toll.kills[bench.job.name] += status == 3
    toll.lost += [f"{bench.job.name}, {what}: {wrong}" for wrong in judged(bench, folder, status, bench.before)]


# -- in the kernel -----------------------------------------------------------------------------------------------------


def can_inject() -> bool:
    return shutil.which("strace") is not None


def injected(job: Job, faults: Iterable[tuple[str, str, int]], until: float | None = None) -> Toll:
    """The k-th of a system call fails with an error: (call, error, k). EINTR must be without an effect for `write`."""
    bench, toll, over = Bench(job, older=job.seeded), Toll(), dict[str, int]()
    for call, error, number in faults:
        if number > over.get(call, number) or (until is not None and time.monotonic() > until):
            continue
        if job.draws and call in ("write", "openat"):  # threads of the engine wake each other, and it opens fonts
            continue
        with bench.place() as folder:
            (ready, go), (reached, here) = os.pipe(), os.pipe()

            def wait(ready: int = ready, here: int = here) -> None:
                os.write(here, b"x")
                os.read(ready, 1)

            child = start(job, folder, hook=wait)
            os.read(reached, 1)  # what it opened to begin with is not counted
            log = folder.parent / "strace.txt"
            names = f"{call},{call}at,{call}at2" if call == "rename" else call
            rules = ["-e", f"trace={names}", "-e", f"inject={names}:error={error}:when={number}"]
            # standard error and the pipe are written as well: only files in the folder count
            rules += ["-P", str(folder)] if call == "fsync" else []
            command = ["strace", "-qq", "-f", "-p", str(child), *rules, "-o", str(log)]
            tracer = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            _wait_until_traced(child)
            os.write(go, b"x")
            status = ended(child)
            tracer.wait(10)
            for number_of_pipe in (ready, go, reached, here):
                os.close(number_of_pipe)
            if call == "openat" and status == 0 and "left out" in said():  # something that is read, and a note says so
                continue
            if "(INJECTED)" not in log.read_text(errors="replace"):
                over[call] = number  # there are not so many calls
                continue
            toll.commands += 1
            toll.kills[job.name] += status == 3
            what = f"{call} number {number} fails with {error}"
            toll.lost += [f"{job.name}, {what}: {wrong}" for wrong in judged(bench, folder, status, bench.before)]
            if error == "EINTR" and call == "write" and status == 3:
                toll.lost.append(f"{job.name}, {what}: ended with 3, and EINTR is no error: {said()}")
    bench.close()
    return toll


def _wait_until_traced(child: int) -> None:
    stop = time.monotonic() + 10
    while time.monotonic() < stop and "TracerPid:\t0" in Path(f"/proc/{child}/status").read_text():
        time.sleep(0.01)
