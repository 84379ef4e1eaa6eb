"""Measurements of speed and memory: `python -m benchmarks [name ...]`.

Where possible a figure is a ratio between two programs measured in the same run. No test depends on these figures.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))  # the slow reference programs are in the tests


def seconds(work: Callable[[], object], repeats: int) -> float:
    """The least CPU time of several calls; a first call, which may compile, does not count."""
    work()
    best = float("inf")
    for _ in range(repeats):
        begin = time.process_time()
        work()
        best = min(best, time.process_time() - begin)
    return best


def cpu(work: Callable[[], T]) -> tuple[float, T]:
    """The CPU seconds of one call, in this process and its children, and the result of the call."""

    def now() -> float:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.process_time() + children.ru_utime + children.ru_stime

    start = now()
    result = work()
    return now() - start, result


def memory(work: Callable[[], object]) -> float:
    """The peak memory of a call in megabytes, beyond what the process held before (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak
    before = _resident("VmRSS")
    work()
    return (_resident("VmHWM") - before) / 1024


def _resident(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))
