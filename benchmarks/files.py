"""Files of a million ListOps rows on one core: CPU seconds of writing and reading them, ratios, and peak memory.

Parquet is compared with pyarrow alone, which writes and reads the same Arrow tables with the same encodings; what we
add are depths, keys and the fingerprint, and trees that are checked. JSONL is compared with plain Python: `json.dumps`
of nested dictionaries, and `json.loads` of every line, which checks nothing and makes no arrays (on 20,000 rows).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import oracles_json as slow
from benchmarks import cpu, memory
from pomona.data import formats
from pomona.data.corpus import Corpus
from pomona.data.formats import parquet
from pomona.data.task import TASKS, chunks, generate

ROWS, FEW = 1_000_000, 20_000
SIZES = {"train": ROWS, "dev": 0, "test": 0}
GOALS = {"parquet": (4.0, 2.5), "jsonl": (8.0, 12.0)}  # CPU seconds of writing and of reading


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _print_times(generate("listops/d20s", seed=1, **SIZES), folder)
        for kind in GOALS:  # a process that has freed memory would use it again
            command = [sys.executable, "-m", "benchmarks.files", str(folder / f"memory.{kind}")]
            subprocess.run(command, check=True, cwd=Path(__file__).parents[1])


def _print_times(corpus: Corpus, folder: Path) -> None:
    for kind in GOALS:  # compile
        formats.read(formats.write(corpus[:100], folder / f"small.{kind}"))
    twins = {"parquet": _pyarrow_alone(corpus, folder), "jsonl": _plain_json(corpus[:FEW], folder)}
    for kind, goals in GOALS.items():
        path = folder / f"large.{kind}"
        # A slice has none of the depths and keys that a corpus keeps once they are computed.
        written = _least(lambda path=path: formats.write(corpus[: len(corpus)], path))
        read = _least(lambda path=path: formats.read(path))
        for what, spent, twin, goal in zip(("write", "read"), (written, read), twins[kind], goals, strict=True):
            verdict = "met" if spent <= goal else "NOT met"
            other = "pyarrow alone" if kind == "parquet" else "plain json"
            print(
                f"{f'{what} {ROWS:,} rows as {kind}':40s} {spent:6.2f} CPU s (goal {goal:g}: {verdict}), "
                f"{spent / twin:.2f} of {other}, {path.stat().st_size / 1e6:,.0f} MB"
            )
        path.unlink()


def _least(work: Callable[[], object]) -> float:
    return min(cpu(work)[0] for _ in range(2))


def _pyarrow_alone(corpus: Corpus, folder: Path) -> tuple[float, float]:
    """CPU seconds in which pyarrow writes and reads our tables, made before."""
    path = formats.write(corpus, folder / "alone.parquet")
    file = pq.ParquetFile(path)
    groups = [file.read_row_group(group, use_threads=False) for group in range(file.num_row_groups)]

    def write() -> None:
        with (folder / "copy.parquet").open("wb") as sink:
            writer = parquet.new_writer(sink, groups[0].schema)
            for group in groups:
                writer.write_table(group)
            writer.close()

    def read() -> None:
        again = pq.ParquetFile(path, page_checksum_verification=True)
        for group in range(again.num_row_groups):
            again.read_row_group(group, use_threads=False)

    return _least(write), _least(read)


def _plain_json(corpus: Corpus, folder: Path) -> tuple[float, float]:
    """CPU seconds in which the standard library would write and read a million rows."""
    path = folder / "plain.jsonl"
    rows: list[Any] = [json.loads(line) for line in slow.lines(corpus).splitlines()]

    def write() -> None:
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))

    def read() -> None:
        for line in path.open():
            json.loads(line)

    return _least(write) * ROWS / FEW, _least(read) * ROWS / FEW


def _print_memory(path: Path) -> None:
    """Peak memory beyond what is held before: writing chunks as they are drawn, and reading, with the corpus."""
    task = TASKS.build("listops/d20s", SIZES)
    formats.read(formats.write(generate(task, seed=1, size=100), path))  # compile
    written = memory(lambda: formats.write(chunks(task, "train", 1), path))
    read: list[Corpus] = []
    peak = memory(lambda: read.append(formats.read(path)))
    forest = read[0].forest
    arrays = (read[0].tokens, read[0].token_start, read[0].values, read[0].targets)
    held = sum(array.nbytes for array in (*arrays, forest.symbol, forest.parent, forest.start))
    print(
        f"{f'peak memory, {ROWS:,} rows as {path.suffix[1:]}':40s} drawing and writing {written:,.0f} MB; "
        f"reading {peak:,.0f} MB, of which the corpus {held / 1e6:,.0f} MB"
    )


if __name__ == "__main__":
    _print_memory(Path(sys.argv[1]))
