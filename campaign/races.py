"""Races: many processes on one run, one output folder and one cache; with locks, and on file systems without them.

Promises: no update is lost, every file is whole and of one writer, and a second trainer is refused or waits.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from unittest import mock

from campaign.jobs import JOBS, UNFINISHED, ended, left_over, run, start, whole, written
from campaign.kills import Bench, Toll
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
        shared = Path(shutil.copytree(home / "run", Path(folder) / "run"))

        def add(number: int) -> None:
            if not locks:
                without_locks()
            for name in range(names):
                Run.read(shared).add_scores(f"{number}-{name}", {"value": name})

        statuses = together([lambda number=number: add(number) for number in range(processes)])
        kept = Run.read(shared).scores
        wanted = {f"{number}-{name}" for number in range(processes) for name in range(names)}
        lost = [
            f"scores {'with' if locks else 'without'} locks: {name} is lost" for name in sorted(wanted - kept.keys())
        ]
        lost += [f"a process that adds scores ended with {status}" for status in statuses if status]
        return Toll(commands=len(wanted), lost=lost + [f"{name} was left behind" for name in left_over(shared)])


def trainers(*, processes: int = 4, locks: bool = True) -> Toll:
    """Several trainers of one recipe in one folder: one trains, the others are refused; the bits are the usual ones.

    Without locks all of them train, and each file is whole and of one of them, which all have the same bits.
    """
    bench = Bench(JOBS["train a tree model"])
    with bench.place() as folder:
        statuses = _at_once(bench, folder, [0] * processes, locks=locks)
        lost = [f"a trainer ended with {status}" for status in statuses if status not in (0, 3)]
        if 0 not in statuses:
            lost.append("no trainer came to the end")
        if written(folder) != bench.files:
            lost.append(f"several trainers: the files are not those of one trainer ({'' if locks else 'no '}locks)")
        lost += [f"{name} was left behind" for name in left_over(folder)]
    bench.close()
    return Toll(commands=processes, lost=lost)


def writers(name: str, *, processes: int = 4, locks: bool = True) -> Toll:
    """Several processes run one job with different seeds in one folder: each file is whole and of one of them.

    Files that belong together are never of two of them without a word: the folder can be read, or it says that it is
    unfinished or that its files are not those of its manifest.
    """
    bench, results = Bench(JOBS[name]), []
    for seed in range(processes):
        with bench.place() as folder:
            run(bench.job, folder, seed)
            results.append(written(folder))
    with bench.place() as folder:
        statuses = _at_once(bench, folder, range(processes), locks=locks)
        lost = [f"{name}: a writer ended with {status}" for status in statuses if status not in (0, 3)]
        for file, digest in written(folder).items():
            known = [result.get(file) for result in results]
            if digest not in (*known, UNFINISHED) and not file.endswith("manifest.json"):
                lost.append(f"{name}: {file} is of none of the writers")
        lost += whole(folder) + [f"{file} was left behind" for file in left_over(folder)]
    bench.close()
    return Toll(commands=processes, lost=lost)


def evaluators(*, processes: int = 4, locks: bool = True) -> Toll:
    """Several processes evaluate one run on the same data at the same time: scores and predictions are the usual."""
    bench = Bench(JOBS["evaluate"])
    with bench.place() as folder:
        statuses = _at_once(bench, folder, [0] * processes, locks=locks)
        lost = [f"an evaluation ended with {status}" for status in statuses if status]
        if written(folder) != bench.files:
            lost.append("several evaluations: the files are not those of one")
        lost += [f"{name} was left behind" for name in left_over(folder)]
    bench.close()
    return Toll(commands=processes, lost=lost)


def _at_once(bench: Bench, folder: Path, seeds: Iterable[int], *, locks: bool) -> list[int]:
    hook = None if locks else without_locks
    return [ended(child) for child in [start(bench.job, folder, seed, hook) for seed in seeds]]


def caches(*, processes: int = 3, locks: bool = True) -> Toll:
    """Several processes fill one empty cache of machine code at the same time, and use it."""
    code = (
        "import sys, errno, fcntl\n"
        "def refuse(*_): raise OSError(errno.ENOLCK, 'no locks')\n"
        f"if {not locks}: fcntl.flock = refuse\n"
        "import numpy as np; from pomona.trees.binary import random_trees\n"
        "print(len(random_trees(np.array([5, 9]), 1)))"
    )
    with tempfile.TemporaryDirectory(prefix="pomona-campaign-") as folder:
        place = {**os.environ, "NUMBA_CACHE_DIR": folder, "PYTHONPATH": os.pathsep.join(sys.path)}
        started = [subprocess.Popen([sys.executable, "-c", code], env=place, stdout=subprocess.PIPE, text=True)
                   for _ in range(processes)]  # fmt: skip
        said = [one.communicate(timeout=600)[0].strip() for one in started]
        lost = [f"a process with a cold cache said {words!r}" for words in said if words != "2"]
        return Toll(commands=processes, lost=lost + [f"{name} was left behind" for name in left_over(Path(folder))])


def all_races(home: Path) -> Iterator[Toll]:
    """Every race, with locks and without."""
    for locks in (True, False):
        yield scores(home, locks=locks)
        yield trainers(locks=locks)
        yield evaluators(locks=locks)
        for name in ("generate parquet", "generate orchard", "report", "export"):
            yield writers(name, locks=locks)
        yield caches(locks=locks)
