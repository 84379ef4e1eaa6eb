"""ListOps data: the speed of generating, writing, reading and streaming, compared with plain Python, on one core.

Generation is compared with `oracles_listops.original_steps`: draw, collect in a set, evaluate, format, write.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import oracles_listops as slow
from benchmarks import seconds
from pomona.data import formats
from pomona.data.task import generate

COUNT = 100_000


def line(what: str, ours: float, theirs: float, goal: float) -> None:
    ratio = theirs / ours
    verdict = "met" if ratio >= goal else "NOT met"
    print(f"{what:58s} {ours:8.3f} s  plain {theirs:7.2f} s  {ratio:6.0f} x  (goal {goal:g} x: {verdict})")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        begin = time.process_time()
        slow.original_steps(COUNT, 0, folder / "twin.tsv")
        twin = time.process_time() - begin
        sizes = {"train": COUNT, "dev": 0, "test": 0}
        line(
            f"generate {COUNT:,} distinct, labels, node values, trees",
            seconds(lambda: generate("listops/d20s", seed=1, **sizes), 5), twin, 150,
        )  # fmt: skip
        line(
            "the same with the TSV written",
            seconds(lambda: formats.write(generate("listops/d20s", seed=1, **sizes), folder / "ours.tsv"), 5),
            twin, 100,
        )  # fmt: skip
        real = Path(__file__).parents[2] / "shared" / "data" / "listops" / "test_d20s.tsv"
        if not real.exists():
            print(f"{real} is missing: reading is measured on 10,000 generated lines instead")
            real = folder / "test.tsv"
            formats.write(generate("listops/d20s", split="test", seed=1), real)
        theirs = seconds(lambda: [slow.parse_line(text) for text in real.open()], 3)
        line("read and evaluate test_d20s.tsv with trees", seconds(lambda: formats.read(real), 20), theirs, 25)
        command = [sys.executable, "-m", "benchmarks.listops", "stream", str(folder / "large.parquet")]
        begin = time.perf_counter()
        shown = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1])
        took = time.perf_counter() - begin
        print(f"{'stream 10,000,000 examples to Parquet':58s} {shown.stdout.strip()}, {took:.0f} s in total")


def stream(path: str) -> None:
    """Run in a separate process: write 10 million distinct examples to Parquet and print the peak memory."""
    from pomona.data.task import TASKS, chunks

    task = TASKS.build("listops/d20s")
    formats.write(chunks(task, "train", 1, 10_000_000), path)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    verdict = "met" if peak < 1024 else "NOT met"
    print(f"peak memory {peak:,.0f} MB (goal 1,024 MB: {verdict}), file {Path(path).stat().st_size / 1e6:,.0f} MB")


if __name__ == "__main__":
    stream(sys.argv[2])
