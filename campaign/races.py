"""Races: many processes on one run, one output folder and one cache; with locks, and on file systems without them.

Promises: no update is lost, every file is whole and of one writer, and a second trainer is refused or waits.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from campaign.jobs import JOBS, ended, left_over, start, whole, written
from campaign.kills import Toll, expected, workplace
from pomona.training.run import Run


def together(tasks: list[Callable[[], None]]) -> list[int]:
    """Run functions in processes at the same time; their exit statuses."""
    children = []
    for task in tasks:
        child = os.fork()
        if not child:
            try:
                task()
            except BaseException:
                os._exit(70)
            os._exit(0)
        children.append(child)
    return [ended(child) for child in children]


def without_locks() -> None:
    """From now on this process is on a file system without locks."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    mock.patch("fcntl.flock", refuse).start()


def scores(home: Path, *, processes: int = 4, names: int = 25, locks: bool = True) -> Toll:
    """Many processes add scores to one run: every name is there in the end."""
    with tempfile.TemporaryDirectory(prefix="pomona-campaign-") as folder:
        run = Path(shutil.copytree(home / "run", Path(folder) / "run"))

        def add(number: int) -> None:
            if not locks:
                without_locks()
            for name in range(names):
                Run.read(run).add_scores(f"{number}-{name}", {"value": name})

        statuses = together([lambda number=number: add(number) for number in range(processes)])
        kept = Run.read(run).scores
        wanted = {f"{number}-{name}" for number in range(processes) for name in range(names)}
        lost = [
            f"scores {'with' if locks else 'without'} locks: {name} is lost" for name in sorted(wanted - kept.keys())
        ]
        lost += [f"a process that adds scores ended with {status}" for status in statuses if status]
        return Toll(commands=len(wanted), lost=lost + [f"{name} was left behind" for name in left_over(run)])


def trainers(*, processes: int = 3) -> Toll:
    """Several trainers of one recipe in one folder: one trains, the others are refused; the bits are the usual ones."""
    job = JOBS["train a tree model"]
    wanted = expected(job)
    with workplace(job) as folder:
        children = [start(job, folder) for _ in range(processes)]
        statuses = [ended(child) for child in children]
        lost = [f"a trainer ended with {status}" for status in statuses if status not in (0, 3)]
        if 0 not in statuses:
            lost.append("no trainer came to the end")
        if written(folder) != wanted.files:
            lost.append("several trainers: the files are not those of one trainer")
        return Toll(commands=processes, lost=lost + [f"{name} was left behind" for name in left_over(folder)])


def generators(*, processes: int = 3, locks: bool = True) -> Toll:
    """Several processes generate different seeds into one folder: each file is whole and of one of them."""
    job = JOBS["generate parquet"]
    results = []
    for seed in range(processes):
        with workplace(job) as folder:
            ended(start(job, folder, seed))
            results.append(written(folder))
    with workplace(job) as folder:
        children = [start(job, folder, seed, None if locks else without_locks) for seed in range(processes)]
        statuses = [ended(child) for child in children]
        lost = [f"a generator ended with {status}" for status in statuses if status not in (0, 3)]
        for name, digest in written(folder).items():
            if name.endswith(".parquet") and digest not in [result[name] for result in results]:
                lost.append(f"{name} is of none of the generators")
        return Toll(commands=processes, lost=lost + whole(folder))


def caches(*, processes: int = 3) -> Toll:
    """Several processes fill one empty cache of machine code at the same time, and use it."""
    import subprocess
    import sys

    code = (
        "import numpy as np; from pomona.trees.binary import random_trees\n"
        "print(len(random_trees(np.array([5, 9]), 1)))"
    )
    with tempfile.TemporaryDirectory(prefix="pomona-campaign-") as folder:
        place = {**os.environ, "NUMBA_CACHE_DIR": folder, "PYTHONPATH": os.pathsep.join(sys.path)}
        started = [subprocess.Popen([sys.executable, "-c", code], env=place, stdout=subprocess.PIPE, text=True)
                   for _ in range(processes)]  # fmt: skip
        said = [one.communicate(timeout=300)[0].strip() for one in started]
        return Toll(
            commands=processes, lost=[f"a process with a cold cache said {words!r}" for words in said if words != "2"]
        )
