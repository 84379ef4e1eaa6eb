"""What a sweep gains from two workers, and what Ray costs beside local processes.

    python -m benchmarks sweeps               about eight minutes of processor time
    python -m benchmarks.sweeps workers       one of the two: workers or ray

Two workers: eight runs of seven seconds, one after the other in one worker, then in two. Ray: two runs of about a
minute, each with a worker of its own. Processor seconds are those of the command and of all that it starts, Ray's own
processes included, read from /proc until they end. On a machine that others use as well, the clock depends on them;
then the busiest process says how long the sweep takes on an idle machine, since all else happens beside it.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pomona.sweeps.sweep import On, sweep

SIZES = {"train": 8_000, "dev": 500, "test": 500}
SHORT: dict[str, Any] = {
    "model": "treelstm", "data": "listops/d20s", "set": SIZES, "seeds": 8,
    "model_set": {"width": 32}, "recipe": {"epochs": 10, "dev_rows": 500},
}  # fmt: skip
LONG: dict[str, Any] = {
    **SHORT, "seeds": 2, "set": {**SIZES, "train": 20_000}, "recipe": {"epochs": 33, "dev_rows": 500},
}  # fmt: skip
TICKS = os.sysconf("SC_CLK_TCK")


class Account:
    """Inside `with`, the processor seconds of this process and of all that it starts, by process."""

    def __init__(self) -> None:
        self.seconds: dict[tuple[int, str], float] = {}
        self._over = threading.Event()
        self._watch = threading.Thread(target=self._look_often, daemon=True)

    def __enter__(self) -> Account:
        self._clock, self._own = time.monotonic(), time.process_time()
        self._watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._watch.join()
        self.wall = time.monotonic() - self._clock
        self.seconds[os.getpid(), "own"] = time.process_time() - self._own

    def _look_often(self) -> None:
        while not self._over.wait(0.25):
            parents: dict[int, tuple[int, str, float]] = {}
            for folder in Path("/proc").glob("[0-9]*"):
                try:
                    parts = (folder / "stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                parents[int(folder.name)] = int(parts[1]), parts[19], (int(parts[11]) + int(parts[12])) / TICKS
            mine = {os.getpid()}
            while more := {pid for pid, (parent, _, _) in parents.items() if parent in mine} - mine:
                mine |= more
            for pid in mine - {os.getpid()}:
                self.seconds[pid, parents[pid][1]] = parents[pid][2]  # a number may be given again: the start tells

    @property
    def total(self) -> float:
        return sum(self.seconds.values())

    @property
    def busiest(self) -> float:
        return max(self.seconds.values())


def account(plan: dict[str, Any], on: On, workers: int) -> Account:
    """What a sweep in a new folder costs."""
    with tempfile.TemporaryDirectory() as folder, Account() as found:
        table = sweep(plan, Path(folder) / "runs", on=on, workers=workers)
    assert not table.failed, table.failed
    return found


def shown(name: str, found: Account) -> None:
    print(
        f"{name:<44} clock {found.wall:6.1f} s, processor {found.total:6.1f} s, busiest process {found.busiest:6.1f} s "
        f"(load {os.getloadavg()[0]:.1f})",
        flush=True,
    )


def main(asked: Sequence[str] = ()) -> None:
    if not asked or "workers" in asked:
        one, two = account(SHORT, "local", 1), account(SHORT, "local", 2)
        shown("8 short runs, one worker", one)
        shown("8 short runs, two workers", two)
        idle = one.busiest / two.busiest
        print(f"two workers: {one.wall / two.wall:.2f} x by the clock, {idle:.2f} x on an idle machine (at least 1.8)")
    if not asked or "ray" in asked:
        local, on_ray = account(LONG, "local", 2), account(LONG, "ray", 2)
        shown("2 runs of a minute, --on local", local)
        shown("2 runs of a minute, --on ray", on_ray)
        more, longer = on_ray.total / local.total - 1, on_ray.wall / local.wall - 1
        print(f"--on ray: {more:+.1%} of processor time, {longer:+.1%} by the clock (at most +15 %)")


if __name__ == "__main__":
    main(sys.argv[1:])
