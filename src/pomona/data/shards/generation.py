"""Write the splits of a task as shards: many Parquet files, each whole or not there, by many workers.

    with workers("local", 2) as crew:
        generate_shards("listops/d20s", "data", rows=10_000_000, shards=16, split="train", crew=crew)

    data/train-00000-of-00016.parquet ...       each file with the rows of its place, and its own fingerprint
    data/manifest.json                          the settings; rows and fingerprint of each shard and of the whole

The rows are those of `pomona generate` without shards, to the last bit, for any number of shards and workers. Rows from
the pool are dealt in this process; of those that follow it, `draws` finds the numbers, in files of the hidden folder
`.shards`, which is removed at the end. A worker builds the rows of a shard by their numbers, a chunk at a time.

A command that was killed resumes: a finished shard has a record in `.shards`, and is not written again; nor is one that
the manifest of the same data lists. Until all is done, the manifest says that it is unfinished.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pomona.base.errors import FormatError, RunError, SpecError, did_you_mean
from pomona.base.files import kind_of, read_json, write_array, write_json
from pomona.base.locks import InUse, locked
from pomona.base.progress import shown
from pomona.base.registry import settings_of
from pomona.base.shapes import COUNT, TEXT, Each, check
from pomona.base.workers import HERE, Crew
from pomona.base.workers import workers as workers
from pomona.data import pool
from pomona.data.datasets import Dataset, is_same, rewriting
from pomona.data.formats import parquet, writing
from pomona.data.shards.digests import whole_fingerprint
from pomona.data.shards.draws import Draws, Source, Target, block_numbers, find_draws
from pomona.data.task import CHUNK, TASKS, Dealt, Task, rows_wanted

WORK = ".shards"
_HEAD, _RECORD = "head.npy", "record.json"
_OF_A_SHARD = ("file", "rows", "fingerprint", "labels")  # what the manifest says of each
_SHARD = {"file": TEXT, "rows": COUNT, "fingerprint": TEXT, "labels": Each(COUNT)}
_SPLIT = {"rows": COUNT, "labels": Each(COUNT), "fingerprint": TEXT, "shards": [_SHARD]}
Step = Callable[[int], None]


@dataclass(frozen=True)
class Plan:
    """What is to be written: the rows of some splits, in files of `shard_rows` rows."""

    name: str
    task: Task
    seed: int
    rows: Mapping[str, int]
    shard_rows: int

    @classmethod
    def of(
        cls, name: str, task: Task, seed: int = 0, *, splits: Sequence[str] = (), rows: int | None = None, shards: int
    ) -> Plan:
        """The largest of the splits is cut into `shards` files; the others into files of as many rows.

        `rows` is for train; other splits have at most as many, and at most as the task says.
        """
        if shards < 1 or (rows is not None and rows < 1):
            raise SpecError(f"rows = {rows}, shards = {shards}: both are at least 1")
        wanted = {}
        for split in splits or tuple(reversed(task.sizes)):
            if split not in task.sizes:
                raise SpecError(f"{name} has no split {split!r}. {did_you_mean(split, task.sizes)}")
            most = None if rows is None or split == "train" else min(rows, task.sizes[split])
            wanted[split] = rows_wanted(task, split, rows if split == "train" else most)
        largest = max(wanted.values())
        if shards > largest:
            raise SpecError(f"shards = {shards:,}: the largest split has {largest:,} rows, and a file has at least one")
        return cls(name, task, int(seed), wanted, -(-largest // shards))

    @property
    def about(self) -> dict[str, Any]:
        """The entries of the manifest that say which data these are."""
        return {
            "name": self.name, "seed": self.seed, "settings": settings_of(self.task), "version": self.task.version
        }  # fmt: skip

    @property
    def work(self) -> int:
        """Steps of progress: a row drawn, and a row written."""
        return 2 * sum(self.rows.values())

    def files(self, split: str) -> list[tuple[str, int, int]]:
        """The files of a split: name, first row, and the row after the last."""
        rows = self.rows[split]
        firsts = range(0, rows, self.shard_rows)
        return [
            (f"{split}-{number:05}-of-{len(firsts):05}{parquet.SUFFIX}", first, min(first + self.shard_rows, rows))
            for number, first in enumerate(firsts)
        ]


def generate_shards(
    name: str | Task,
    out: str | Path,
    *,
    shards: int,
    rows: int | None = None,
    split: str = "",
    seed: int = 0,
    crew: Crew = HERE,
    **settings: Any,
) -> Path:
    """Write the splits of a task (by default all) as shards; the folder, which is a dataset. Run again, it resumes.

    `rows` is the size of train, which may be larger than the task says; `crew` are the workers, by default this
    process alone (`pomona.base.workers`).
    """
    task = name if isinstance(name, Task) else TASKS.build(name, settings)
    plan = Plan.of(name if isinstance(name, str) else task.name, task, seed,
                   splits=split.split(",") if split else (), rows=rows, shards=shards)  # fmt: skip
    with shown(f"{task.name} in {shards:,} shards", plan.work) as step:
        write_dataset(plan, Path(out), crew, step)
    return Path(out)


def write_dataset(plan: Plan, out: Path, crew: Crew, step: Step) -> dict[str, Any]:
    """Write what is missing of the shards, and the manifest; what the manifest says."""
    out = out.absolute()
    with _working_in(out) as work:
        _remember(plan, out, work)
        with rewriting(out, plan.about) as manifest:
            for split in plan.rows:
                folder = work / split
                write_json(folder / "plan.json", _identity(plan, split))
                manifest["splits"][split] = _write_split(plan, split, out, folder, crew, step)
        shutil.rmtree(work)
    return manifest


@contextmanager
def _working_in(out: Path) -> Iterator[Path]:
    """The folder for what is in the making, which one command has at a time."""
    work = out / WORK
    if kind_of(work) != "folder":
        if kind_of(out) not in ("folder", ""):
            raise FormatError("this is a file; name a folder", path=out)
        write_json(work / "about.json", {"what": "shards in the making; `pomona generate` removes this folder"})
    lock = out / f"{WORK}.lock"
    try:
        with locked(lock):
            yield work
            lock.unlink(missing_ok=True)
    except InUse:
        raise RunError(f"{out}: another process is writing shards here; wait for it, or choose another --out") from None


def _identity(plan: Plan, split: str) -> dict[str, Any]:
    return {**plan.about, "split": split, "rows": plan.rows[split], "shard_rows": plan.shard_rows}


def _remember(plan: Plan, out: Path, work: Path) -> None:
    """Drop what another command left half done, and keep a record of what a finished one wrote of the same data."""
    for split in plan.rows:
        folder = work / split
        if kind_of(folder) == "folder":
            with suppress(FormatError):
                if read_json(folder / "plan.json") == _identity(plan, split):
                    continue
            shutil.rmtree(folder)
        with suppress(FormatError):
            dataset = Dataset.read(out)
            about = dataset.about(split)
            if is_same(dataset.manifest, plan.about) and "shards" in about:
                for path, shard in zip(dataset.files[split], about["shards"], strict=True):
                    write_json(_record(folder, path.name), shard)  # the name alone: a manifest may say anything
                write_json(folder / _RECORD, about)


def _record(folder: Path, file: str) -> Path:
    return folder / f"{file}.json"


def _write_split(plan: Plan, split: str, out: Path, folder: Path, crew: Crew, step: Step) -> dict[str, Any]:
    files = plan.files(split)
    records = {name: record for name, low, high in files if (record := _finished(out / name, folder, high - low))}
    missing = [file for file in files if file[0] not in records]
    step(2 * (plan.rows[split] - sum(high - low for _, low, high in missing)))
    if missing:
        orders = list(_orders(plan, split, out, folder, missing, crew, step))  # which itself needs the crew
        for number, record in crew.run(write_shard, orders):
            records[missing[number][0]] = record
            step(record["rows"])
    shards = [records[name] for name, _, _ in files]
    labels = Counter[str]()
    for shard in shards:
        labels.update(shard["labels"])
    listed = [{key: shard[key] for key in _OF_A_SHARD} for shard in shards]
    with suppress(FormatError):
        before: dict[str, Any] = check(read_json(folder / _RECORD), _SPLIT)
        if before["shards"] == listed and (before["rows"], before["labels"]) == (plan.rows[split], dict(labels)):
            return {key: before[key] for key in _SPLIT}
    about = {
        "rows": plan.rows[split],
        "labels": dict(labels),
        "fingerprint": whole_fingerprint([out / name for name, _, _ in files], crew),
        "shards": listed,
    }
    write_json(folder / _RECORD, about)
    return about


def _finished(path: Path, folder: Path, rows: int) -> dict[str, Any] | None:
    """The record of a shard that is there and is what its record says; None if it must be written."""
    try:
        record: dict[str, Any] = check(read_json(_record(folder, path.name)), _SHARD)
        said = parquet.said(path)
    except FormatError:
        return None
    right = record["rows"] == sum(record["labels"].values()) == said["rows"] == rows
    return record if right and record["fingerprint"] == said["fingerprint"] else None


def _orders(
    plan: Plan, split: str, out: Path, folder: Path, files: Sequence[tuple[str, int, int]], crew: Crew, step: Step
) -> Iterator[dict[str, Any]]:
    """What a worker needs for each file: which rows are from the pool, and where the numbers of the others are."""
    rows = sum(high - low for _, low, high in files)
    with ThreadPoolExecutor(1) as executor:
        dealt = Dealt(plan.task, split, plan.seed, pool.Crew(executor, 1))
    head = len(dealt.numbers)
    write_array(folder / _HEAD, dealt.numbers)
    source = Source(plan.task.name, settings_of(plan.task), split, plan.seed)
    draws = Draws(1, 0, ())
    if plan.rows[split] > head:
        excluded = np.concatenate([np.zeros(0, np.uint64), *dealt.excluded])
        target = Target(dealt.pooled + plan.rows[split] - head, dealt.draws_a_row, excluded, plan.shard_rows)
        counted = _Scaled(step, target.draws, rows)
        draws = find_draws(source, folder, target, crew, counted)
        counted.complete()
    else:
        step(rows)
    for name, low, high in files:
        yield {
            "path": str(out / name), "folder": str(folder), "source": source.plain(), "origin": dealt.origin,
            "head": (min(low, head), min(high, head)),
            "block": draws.block, "partitions": draws.partitions, "blocks": len(draws.ends),
            "slices": draws.slices(dealt.pooled + max(low - head, 0), dealt.pooled + max(high - head, 0)),
        }  # fmt: skip


class _Scaled:
    """Progress of `total` things, told as progress of so many rows."""

    def __init__(self, step: Step, total: int, rows: int) -> None:
        self._step, self._total, self._rows, self._done, self._told = step, total, rows, 0, 0

    def __call__(self, done: int) -> None:
        self._done = min(self._total, self._done + done)
        self._tell(self._rows * self._done // self._total)

    def complete(self) -> None:
        self._tell(self._rows)

    def _tell(self, rows: int) -> None:
        self._step(rows - self._told)
        self._told = rows


def write_shard(
    path: str, folder: str, source: Mapping[str, Any], origin: Mapping[str, Any], head: Sequence[int], **where: Any
) -> dict[str, Any]:
    """Build the rows of one shard by their numbers, write them, and keep a record of it, which is the answer."""
    place, draws = Path(folder), Draws(where["block"], where["partitions"], (0,) * where["blocks"])
    pieces = [np.load(place / _HEAD, allow_pickle=False)[head[0] : head[1]]]
    pieces += [block_numbers(place, draws, block)[low:high] for block, low, high in where["slices"]]
    numbers = np.concatenate(pieces)
    distribution, key = Source(**source).open()
    labels, file = Counter[str](), Path(path)
    with writing(file) as writer:
        for first in range(0, len(numbers), CHUNK):
            part = dataclasses.replace(distribution.build(key, numbers[first : first + CHUNK]), origin=dict(origin))
            writer.write(part)
            labels.update(part.labels())
        assert writer.fingerprint is not None
        fingerprint = writer.fingerprint.hexdigest()
    record = {"file": file.name, "rows": len(numbers), "fingerprint": fingerprint, "labels": dict(labels)}
    write_json(_record(place, file.name), record)
    return record
