"""Speed and memory, as ratios in one run: `python -m benchmarks [name ...]`. Nothing here is asserted in a test."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))  # the slow twins live beside the tests


def seconds(work: Callable[[], object], repeats: int) -> float:
    """The least CPU time of several goes; the first, which may compile, does not count."""
    work()
    best = float("inf")
    for _ in range(repeats):
        begin = time.process_time()
        work()
        best = min(best, time.process_time() - begin)
    return best


def memory(work: Callable[[], object]) -> float:
    """Megabytes that the process holds at most while it works, beyond what it held before (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark begins anew
    before = _resident("VmRSS")
    work()
    return (_resident("VmHWM") - before) / 1024


def _resident(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))
