"""Kills: at random moments, and exhaustively before every system call that changes the disk.

    kills(JOBS.values(), count=1000, seed=0)
    points(JOBS["generate orchard"])          # killed before the first call that changes the disk, the second, ...

Promises: at every moment each visible file is whole, old or new; the same command resumes or begins again; in the end
every file has the bits of a command that was never killed, and nothing else is left.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from campaign.jobs import (
    UNFINISHED,
    Job,
    ended,
    left_over,
    run,
    said,
    start,
    status_within,
    unfinished,
    warm,
    whole,
    written,
)
from pomona.base import files

OLDER = 7  # the seed of the output that was there before
MOST_KILLS = 6  # of one command before it may end
AGAIN = 0.25  # share of commands that are killed while an older output is there
CHANGES = {  # functions of the system, called from Python, that change the disk or may
    "open", "write", "writelines", "flush", "fsync", "replace", "rename", "unlink", "remove", "mkdir", "rmdir", "chmod",
    "fchmod", "chown", "truncate", "ftruncate", "utime", "link", "symlink", "sendfile", "copy_file_range", "mkstemp",
}  # fmt: skip
_STANDARD = ("StringIO", "BytesIO", "list")  # what has a method of such a name and is not on a disk


@dataclass
class Toll:
    """How many commands were killed, or failed as they should, and what was lost."""

    kills: Counter[str] = field(default_factory=Counter)  # by job
    commands: int = 0
    lost: list[str] = field(default_factory=list)
    calls: int = 0  # that there are to be killed at, or to fail

    def __str__(self) -> str:
        by_job = ", ".join(f"{count:,} {name}" for name, count in self.kills.items())
        return f"{self.kills.total():,} kills of {self.commands:,} commands, {len(self.lost):,} losses ({by_job})"

    def add(self, other: Toll) -> None:
        self.kills.update(other.kills)
        self.commands += other.commands
        self.calls += other.calls
        self.lost += other.lost

    @classmethod
    def read(cls, path: Path | None) -> Toll:
        """What was counted before, of a campaign that was stopped."""
        if path is None or not path.exists():
            return cls()
        plain = json.loads(path.read_text())
        return cls(Counter(plain["kills"]), plain["commands"], plain["lost"])

    def keep(self, path: Path | None) -> None:
        if path is not None:
            files.write_json(path, {"kills": self.kills, "commands": self.commands, "lost": self.lost})


class Bench:
    """A job, what it leaves behind if nobody kills it, and folders in which it can be run again and again."""

    def __init__(self, job: Job, *, older: bool = False) -> None:
        warm([job])
        self.job = job
        self._home = tempfile.TemporaryDirectory(prefix="pomona-campaign-")
        self._template = Path(self._home.name) / "template"
        self._template.mkdir()
        job.prepare(self._template)
        if older:
            self._run(self._template, OLDER)
        self.before = written(self._template)
        with self.place() as folder:
            begin = time.monotonic()
            self._run(folder, 0)
            self.files, self.seconds = written(folder), time.monotonic() - begin

    def _run(self, folder: Path, seed: int) -> None:
        status = run(self.job, folder, seed)
        if status not in (0, 1):
            raise AssertionError(f"{self.job.name} ends with {status} by itself: {said()}")

    @contextmanager
    def place(self) -> Iterator[Path]:
        """A new folder with the inputs of the job, and perhaps an older output; it is removed afterwards."""
        with tempfile.TemporaryDirectory(prefix="pomona-campaign-") as name:
            yield Path(shutil.copytree(self._template, Path(name) / "work", symlinks=True))

    def close(self) -> None:
        self._home.cleanup()


def kills(jobs: Iterable[Job], *, count: int, seed: int = 0, until: float | None = None, kept: Path | None = None,
          say: Callable[[str], None] = lambda text: None) -> Toll:  # fmt: skip
    """Kill commands at random moments until this many kills, or until a time.

    The job with the least time so far comes next, so that slow ones are killed less often. `kept` is a file with the
    count of a campaign that was stopped, which goes on.
    """
    toll, benches, spent = Toll.read(kept), dict[tuple[str, bool], Bench](), Counter[str]()
    draw = random.Random(f"{seed} {toll.commands}")
    chosen = list(jobs)
    warm(chosen)
    while toll.kills.total() < count and (until is None or time.monotonic() < until):
        job = min(chosen, key=lambda job: (bool(toll.kills[job.name]), spent[job.name]))
        older = job.seeded and draw.random() < AGAIN
        if (job.name, older) not in benches:
            benches[job.name, older] = Bench(job, older=older)
        begin = time.monotonic()
        toll.add(_killed(benches[job.name, older], draw))
        spent[job.name] += time.monotonic() - begin
        toll.keep(kept)
        if toll.commands % 20 == 0:
            say(str(toll))
    for bench in benches.values():
        bench.close()
    return toll


def _killed(bench: Bench, draw: random.Random) -> Toll:
    """One command, killed a few times and then left to end."""
    toll, job = Toll(commands=1), bench.job
    with bench.place() as folder:
        for _ in range(draw.randint(1, MOST_KILLS)):
            child, begin = start(job, folder), time.monotonic()
            kill = os.killpg if draw.random() < 0.5 else os.kill  # with its workers, or they are left alone
            if status_within(child, draw.random() * bench.seconds) is not None:  # it is faster than it was
                bench.seconds = max(0.01, 0.9 * (time.monotonic() - begin))
                break
            with suppress(ProcessLookupError):  # it has no group of its own yet
                kill(child, signal.SIGKILL)
            if ended(child) != -signal.SIGKILL:  # it had ended already
                break
            toll.kills[job.name] += 1
            toll.lost += [f"{job.name}: after a kill, {wrong}" for wrong in whole(folder)]
        begin = time.monotonic()
        status = run(job, folder)
        bench.seconds = (bench.seconds + time.monotonic() - begin) / 2  # as busy as the machine is now
        toll.lost += judged(bench, folder, status)
    return toll


def judged(bench: Bench, folder: Path, status: int) -> list[str]:
    """What is wrong at the end of a command that was killed before."""
    now = written(folder)
    wrong = [f"{name} is {'missing' if name not in now else 'another' if name in bench.files else 'too many'}"
             for name in sorted({*now, *bench.files}) if now.get(name) != bench.files.get(name)]  # fmt: skip
    wrong += [f"{name} was left behind" for name in (*left_over(folder), *unfinished(folder))]
    if status not in (0, 1):
        wrong.append(f"ended with {status}: {said()}")
    return [f"{bench.job.name}: {one}" for one in wrong]


# -- at every call that changes the disk -------------------------------------------------------------------------------


def at_call(number: int, act: Callable[[], None], skipped: tuple[str, ...] = ()) -> Callable[[], None]:
    """A hook for `start`: `act` is called before the given call of CHANGES, not counting those inside `skipped`.

    What it raises is what the call raises.
    """

    def hook() -> None:
        left = number

        def watch(frame: Any, event: str, function: Any) -> None:
            nonlocal left
            if event == "c_call" and function.__name__ in CHANGES and _is_on_disk(function, frame, skipped):
                left -= 1
                if left == 0:
                    sys.setprofile(None)
                    act()

        sys.setprofile(watch)

    return hook


def _is_on_disk(function: Any, frame: Any, skipped: tuple[str, ...]) -> bool:
    owner = getattr(function, "__self__", None)
    if type(owner).__name__ in _STANDARD or "importlib" in frame.f_code.co_filename:
        return False
    if function.__name__ in ("write", "flush", "writelines") and _number(owner) in (0, 1, 2, None):
        return False
    while frame is not None and skipped:
        if frame.f_code.co_name in skipped and frame.f_code.co_filename == files.__file__:
            return False
        frame = frame.f_back
    return True


def _number(stream: Any) -> int | None:
    """The number of an open file; a module such as `os` has none, and is never a standard stream."""
    if not hasattr(stream, "fileno"):
        return 3
    try:
        return int(stream.fileno())
    except (OSError, ValueError):
        return None


def calls(bench: Bench, skipped: tuple[str, ...] = ()) -> int:
    """How many calls that change the disk a job makes; the forked process counts in memory that it shares."""
    shared = mmap.mmap(-1, 8)

    def hook() -> None:
        def watch(frame: Any, event: str, function: Any) -> None:
            if event == "c_call" and function.__name__ in CHANGES and _is_on_disk(function, frame, skipped):
                shared[:8] = (int.from_bytes(shared[:8], "little") + 1).to_bytes(8, "little")

        sys.setprofile(watch)

    with bench.place() as folder:
        run(bench.job, folder, hook=hook)
    return int.from_bytes(shared[:8], "little")


def spread(total: int) -> Iterator[int]:
    """The numbers 1 .. total, in an order whose every beginning goes over all of them."""
    step = max(1, round(total * 0.618))
    while math.gcd(step, total) > 1:
        step += 1
    return (1 + number * step % total for number in range(total))


def points(job: Job, *, until: float | None = None) -> Toll:
    """Kill a command before each call that changes the disk, each time from the beginning; then run it."""
    bench, toll = Bench(job, older=job.seeded), Toll()
    toll.calls = calls(bench)
    for number in spread(toll.calls):
        if until is not None and time.monotonic() > until:
            break
        with bench.place() as folder:
            status = run(job, folder, hook=at_call(number, lambda: os.kill(os.getpid(), signal.SIGKILL)))
            if status != -signal.SIGKILL:  # this time it made fewer calls
                continue
            toll.kills[job.name] += 1
            toll.commands += 1
            toll.lost += [f"{job.name}, call {number}: {wrong}" for wrong in whole(folder)]
            toll.lost += [
                f"{job.name}, call {number}: {name} is neither old nor new"
                for name, digest in written(folder).items()
                if digest not in (bench.before.get(name), bench.files.get(name), UNFINISHED)
                and not name.startswith(("run/", "runs/"))
            ]
            toll.lost += [f"call {number}: {wrong}" for wrong in judged(bench, folder, run(job, folder))]
    bench.close()
    return toll
