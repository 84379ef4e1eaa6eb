"""Shards: rows a second with one and two workers, memory, the cost of a certificate, and what 10^9 rows would take.

`python -m benchmarks shards` takes ten million rows of listops/d20s (about ten minutes of two free cores and 2 GB of
disk); POMONA_SHARD_ROWS=1000000 takes fewer. Wall times depend on what else the machine does: the processor seconds of
each process say what two free cores would take.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pomona as pm
from benchmarks import cpu
from pomona.base.workers import HERE
from pomona.data.shards.folder import Shards

TASK = "listops/d20s"
SHARDS = 16
TICKS = os.sysconf("SC_CLK_TCK")
# A command of its own, which says what each of its processes cost: this one first, then its workers.
GENERATE = """
import json, resource, sys, time
from pathlib import Path
from pomona.base import workers
from pomona.data.shards.generation import generate_shards
rows, shards, count, out = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
begin = time.time()
with workers.workers("local", count) as crew:
    generate_shards("listops/d20s", out, shards=shards, rows=rows, split="train", crew=crew)
    costs = []
    for worker in getattr(crew, "_workers", []):
        folder = Path(f"/proc/{worker.process.pid}")
        ticks = (folder / "stat").read_text().rpartition(")")[2].split()
        peak = next(line for line in (folder / "status").read_text().splitlines() if line.startswith("VmHWM"))
        costs.append([int(ticks[11]) + int(ticks[12]), int(peak.split()[1]) / 1024])
own = resource.getrusage(resource.RUSAGE_SELF)
wall, peak = time.time() - begin, own.ru_maxrss / 1024
print(json.dumps({"wall": wall, "cpu": time.process_time(), "peak": peak, "workers": costs}))
"""


def generate(rows: int, count: int, out: Path) -> dict[str, Any]:
    """Generate shards in a command of its own; wall time, and processor seconds and peak memory of each process."""
    words = [sys.executable, "-c", GENERATE, str(rows), str(SHARDS), str(count), str(out)]
    found: dict[str, Any] = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    found["each"] = [found["cpu"], *(ticks / TICKS for ticks, _ in found["workers"])]
    found["peak"] = max([found["peak"], *(peak for _, peak in found["workers"])])
    return found


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main() -> None:
    rows = int(os.environ.get("POMONA_SHARD_ROWS", 10_000_000))
    with tempfile.TemporaryDirectory(prefix="pomona-shards-") as folder:
        out = Path(folder)
        generate(200_000, 2, out / "warm")  # compiled loops are on disk after that
        print(f"{rows:,} rows of {TASK} in {SHARDS} shards; load {os.getloadavg()[0]:.1f}", flush=True)
        one = generate(rows, 1, out / "one")
        tell("1 worker", one)
        shutil.rmtree(out / "one")
        two = generate(rows, 2, out / "two")
        tell("2 workers", two)
        print(f"wall time {one['wall'] / two['wall']:.2f} x; by processor seconds on free cores "
              f"{one['cpu'] / (two['each'][0] + max(two['each'][1:])):.2f} x")  # fmt: skip
        size = size_of(out / "two")
        hours = sum(two["each"]) / rows * 1e9 / 3600
        print(f"{size / 1e9:.2f} GB; 10^9 rows: {hours:.1f} core-hours, {size / rows:.0f} GB of files", flush=True)
        certificates(out / "two")


def tell(name: str, cost: dict[str, Any]) -> None:
    each = " + ".join(f"{seconds:.1f}" for seconds in cost["each"])
    total = sum(cost["each"])
    print(f"{name}: {cost['wall']:.1f} s, {total:.1f} CPU s ({each}), peak {cost['peak']:.0f} MB", flush=True)


def certificates(folder: Path) -> None:
    """From shards in one process, and of the same rows in memory."""
    test = pm.generate(TASK, "test", progress=False)
    pm.certify(test, test)  # compiled
    shards = Shards.read(folder)
    from_shards, first = cpu(lambda: pm.certify(shards, test, crew=HERE))
    train = shards.corpus()
    begin = time.process_time()
    second = pm.certify(train, test)
    in_memory = time.process_time() - begin
    assert first == second
    print(f"certificate of {len(shards):,} rows: {from_shards:.1f} CPU s from shards, {in_memory:.1f} in memory, "
          f"{from_shards / in_memory:.2f} x; {first.train / from_shards:,.0f} rows a second")  # fmt: skip


if __name__ == "__main__":
    main()
