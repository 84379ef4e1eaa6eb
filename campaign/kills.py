"""Kills: at random moments, and exhaustively at every line of the one door through which files are written.

    kills(JOBS.values(), home, count=1000, seed=0)
    points(JOBS["generate orchard"])          # killed before every line of pomona.base.files, one after the other

Promises: at every moment each visible file is whole, old or new; the same command resumes or begins again; in the end
every file has the bits of a command that was never killed, and nothing else is left.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from campaign.jobs import Job, ended, left_over, run, said, start, whole, written
from pomona.base import files

DOOR = files.__file__
OLDER = 7  # the seed of the output that was there before
MOST_KILLS = 4  # of one command before it may end
AGAIN = 0.25  # share of commands that are killed while an older output is there


@dataclass
class Toll:
    """How many commands were killed, and what was lost."""

    kills: int = 0
    commands: int = 0
    lost: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.kills:,} kills of {self.commands:,} commands, {len(self.lost):,} losses"


@contextmanager
def workplace(job: Job) -> Iterator[Path]:
    """A new folder with the inputs of a job, which is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="pomona-campaign-") as name:
        folder = Path(name) / "work"
        folder.mkdir()
        job.prepare(folder)
        yield folder


@dataclass(frozen=True)
class Expected:
    """What a job leaves behind if nobody kills it, and how long it takes."""

    files: dict[str, str]
    seconds: float


def expected(job: Job, *, older: bool = False) -> Expected:
    with workplace(job) as folder:
        if older:
            run(job, folder, OLDER)
        begin = time.monotonic()
        status = run(job, folder)
        if status not in (0, 1):
            raise AssertionError(f"{job.name} ends with {status} by itself: {said(folder)}")
        return Expected(written(folder), time.monotonic() - begin)


def kills(jobs: Iterable[Job], *, count: int, seed: int = 0, until: float | None = None,
          say: Callable[[str], None] = lambda text: None) -> Toll:  # fmt: skip
    """Kill commands at random moments until this many kills, or until a time."""
    toll, draw, known = Toll(), random.Random(seed), {}
    chosen = list(jobs)
    while toll.kills < count and (until is None or time.monotonic() < until):
        for job in chosen:
            older = job.seeded and draw.random() < AGAIN
            if (job.name, older) not in known:
                known[job.name, older] = expected(job, older=older)
            _one(job, older, known[job.name, older], draw, toll)
            if toll.kills >= count or (until is not None and time.monotonic() > until):
                break
        say(str(toll))
    return toll


def _one(job: Job, older: bool, wanted: Expected, draw: random.Random, toll: Toll) -> None:
    """One command, killed a few times and then left to end."""
    with workplace(job) as folder:
        if older:
            run(job, folder, OLDER)
        for _ in range(draw.randint(1, MOST_KILLS)):
            child = start(job, folder)
            time.sleep(draw.random() * wanted.seconds)
            os.kill(child, signal.SIGKILL)
            killed = ended(child) == -signal.SIGKILL
            toll.kills += killed
            if not killed:  # it had ended already
                break
            toll.lost += [f"{job.name}: after a kill, {wrong}" for wrong in whole(folder)]
        status = run(job, folder)
        toll.commands += 1
        toll.lost += judged(job, folder, status, wanted)


def judged(job: Job, folder: Path, status: int, wanted: Expected) -> list[str]:
    """What is wrong at the end of a command that was killed before."""
    now = written(folder)
    wrong = [f"{name} is {'missing' if name not in now else 'another' if name in wanted.files else 'too many'}"
             for name in sorted({*now, *wanted.files}) if now.get(name) != wanted.files.get(name)]  # fmt: skip
    wrong += [f"{name} was left behind" for name in left_over(folder)]
    if status not in (0, 1):
        wrong.append(f"ended with {status}: {said(folder)}")
    return [f"{job.name}: {one}" for one in wrong]


# -- at every line of the door -----------------------------------------------------------------------------------------


def at_line(number: int, act: Callable[[], None], skipped: tuple[str, ...] = ()) -> Callable[[], None]:
    """A hook for `start`: `act` is called before the given line that runs in the module of the door."""

    def hook() -> None:
        left = number

        def trace(frame: Any, event: str, argument: Any) -> Any:
            nonlocal left
            if frame.f_code.co_filename != DOOR or frame.f_code.co_name in skipped:
                return None
            if event == "line":
                left -= 1
                if left == 0:
                    sys.settrace(None)
                    act()
            return trace

        sys.settrace(trace)

    return hook


def lines(job: Job, folder: Path) -> int:
    """How many lines of the door a job runs."""
    count = folder.parent / "count"

    def hook() -> None:
        total = 0

        def trace(frame: Any, event: str, argument: Any) -> Any:
            nonlocal total
            if frame.f_code.co_filename != DOOR:
                return None
            total += event == "line"
            count.write_text(str(total)) if event == "line" else None
            return trace

        sys.settrace(trace)

    run(job, folder, hook=hook)
    return int(count.read_text()) if count.exists() else 0


def points(job: Job, *, older: bool = False, step: int = 1, until: float | None = None) -> Toll:
    """Kill a command before every `step`-th line of the door, each time from the beginning, and run it again."""
    wanted, toll = expected(job, older=older), Toll()
    with workplace(job) as folder:
        total = lines(job, folder)
    for number in range(1, total + 1, step):
        if until is not None and time.monotonic() > until:
            break
        with workplace(job) as folder:
            if older:
                run(job, folder, OLDER)
            before = written(folder)
            status = run(job, folder, hook=at_line(number, lambda: os.kill(os.getpid(), signal.SIGKILL)))
            toll.kills += status == -signal.SIGKILL
            toll.lost += [f"{job.name}, line {number}: {wrong}" for wrong in whole(folder)]
            toll.lost += [
                f"{job.name}, line {number}: {name} is neither old nor new"
                for name, digest in written(folder).items()
                if digest not in (before.get(name), wanted.files.get(name)) and not name.startswith(("run/", "runs/"))
            ]
            toll.commands += 1
            toll.lost += judged(job, folder, run(job, folder), wanted)
            shutil.rmtree(folder)
            folder.mkdir()
    return toll
