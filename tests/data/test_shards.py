"""Shards: the rows of one file, for any number of shards and workers, also after a kill; and what is refused."""

from __future__ import annotations

import dataclasses
import json
import resource
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pomona as pm
from pomona.base.errors import FormatError, RunError, SpecError, SplitError
from pomona.base.files import write_array
from pomona.base.workers import HERE, workers
from pomona.data.shards import draws, generation
from pomona.data.shards.digests import whole_fingerprint
from pomona.data.shards.folder import Shards
from pomona.data.shards.generation import Plan, generate_shards, write_dataset
from pomona.data.shards.keys import (
    is_whole,
    partitions_for,
    read_keys,
    read_numbers,
    read_starts,
    write_keys,
    write_numbers,
)

SMALL = {"train": 900, "dev": 100, "test": 120}
TASK = "listops/d20s"


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several blocks and partitions also for a few thousand rows."""
    monkeypatch.setattr(draws, "SMALLEST", 1 << 10)
    monkeypatch.setattr(draws, "LARGEST", 1 << 11)
    monkeypatch.setattr(draws, "SAMPLE", 1 << 8)
    monkeypatch.setattr(draws, "partitions_for", lambda keys: partitions_for(keys, 1 << 10))
    monkeypatch.setattr(generation, "CHUNK", 200)


def manifest_of(folder: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return manifest


def files_of(folder: Path, split: str) -> list[Path]:
    return [folder / shard["file"] for shard in manifest_of(folder)["splits"][split]["shards"]]


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.parquet"))}


# -- the rows --------------------------------------------------------------------------------------------------------


@settings(max_examples=8, deadline=None)
@given(shards=st.integers(1, 9), rows=st.integers(9, 6_000), seed=st.integers(0, 2))
def test_any_number_of_shards_has_the_rows_of_one_piece(
    tmp_path_factory: pytest.TempPathFactory, shards: int, rows: int, seed: int
) -> None:
    folder = tmp_path_factory.mktemp("shards")
    generate_shards(TASK, folder, shards=shards, rows=rows, seed=seed, split="train", **SMALL)
    whole = pm.generate(TASK, size=rows, seed=seed, progress=False, **SMALL)
    about = manifest_of(folder)["splits"]["train"]
    read = pm.read(folder, split="train")
    assert read.fingerprint == whole.fingerprint == about["fingerprint"]
    assert read.texts == whole.texts
    assert about["labels"] == whole.labels()
    assert [shard["fingerprint"] for shard in about["shards"]] == [
        pm.read(path).fingerprint for path in files_of(folder, "train")
    ]
    per_file = -(-rows // shards)
    assert [shard["rows"] for shard in about["shards"]][:-1] == [per_file] * (len(about["shards"]) - 1)
    assert not (folder / ".shards").exists()


@pytest.mark.parametrize(
    "task", ["orchard/hard/min-max", "listops/depth-generalisation", "listops/dependency-balanced"]
)
def test_splits_of_other_distributions_too(task: str, tmp_path: Path) -> None:
    """Links between trees, splits that leave out the keys of others, and bins that are filled equally."""
    kind = pm.TASKS.build(task, {})
    few = {split: 60 for split in kind.splits if getattr(kind, split)}
    if task.startswith("orchard"):
        few = {"train": 300, "dev": 40, "test": 50}
    rows = None if kind.distribution("train").bins() else 1_500
    generate_shards(task, tmp_path, shards=3, rows=rows, **few)
    manifest = manifest_of(tmp_path)
    assert len(manifest["splits"]) >= 3
    for split, about in manifest["splits"].items():
        whole = pm.generate(task, split, size=rows if split == "train" else None, progress=False, **few)
        assert about["fingerprint"] == whole.fingerprint == pm.read(tmp_path, split).fingerprint, split


def test_workers_change_no_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generation, "CHUNK", 1 << 15)  # as in other processes
    generate_shards(TASK, tmp_path / "one", shards=5, rows=4_000, **SMALL)
    with workers("local", 2) as crew:
        generate_shards(TASK, tmp_path / "two", shards=5, rows=4_000, crew=crew, **SMALL)
    assert bytes_of(tmp_path / "one") == bytes_of(tmp_path / "two")
    assert manifest_of(tmp_path / "one") == manifest_of(tmp_path / "two")


def test_equal_draws_far_apart_count_once(tmp_path: Path) -> None:
    """The twin: go through the draws one by one with a set of keys."""
    task = pm.TASKS.build(TASK, SMALL)
    source = draws.Source(task.name, {**SMALL}, "train", 0)
    distribution, key = source.open()
    excluded = distribution.scan(key, 0, 50).keys
    found = draws.find_draws(source, tmp_path, draws.Target(3_000, 2.0, excluded, 700), HERE, lambda done: None)
    assert len(found.ends) > 3
    assert found.partitions > 2
    seen, kept = set(excluded.tolist()), []
    scan = distribution.scan(key, 0, found.block * len(found.ends))
    for number, content in zip(scan.numbers.tolist(), scan.keys.tolist(), strict=True):
        if content not in seen:
            seen.add(content)
            kept.append(number)
    numbers = [draws.block_numbers(tmp_path, found, block) for block in range(len(found.ends))]
    assert np.concatenate(numbers).tolist() == kept
    for low, high in ((0, 10), (500, 2_999), (700, 700)):
        pieces = [numbers[block][first:last] for block, first, last in found.slices(low, high)]
        assert np.concatenate([[], *pieces]).tolist() == kept[low:high]


def test_a_sample_that_is_too_hopeful_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws.math, "isqrt", lambda number: -number // 8)  # stop early
    generate_shards(TASK, tmp_path, shards=2, rows=5_000, split="train", **SMALL)
    whole = pm.generate(TASK, size=5_000, progress=False, **SMALL)
    assert manifest_of(tmp_path)["splits"]["train"]["fingerprint"] == whole.fingerprint


def test_settings_that_hold_too_few_examples_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "PATIENCE", 20_000)
    with pytest.raises(SplitError, match=r"draws gave about 10 different examples, the last .* none"):
        generate_shards(TASK, tmp_path, shards=2, rows=50, split="train", train=5, dev=1, test=1, depth=1)


@given(st.lists(st.integers(0, 2**64 - 1), max_size=60), st.sampled_from([2, 4, 16]))
@settings(max_examples=30, deadline=None)
def test_files_of_keys_give_back_every_key_once(
    tmp_path_factory: pytest.TempPathFactory, content: list[int], partitions: int
) -> None:
    path = tmp_path_factory.mktemp("keys") / "x.keys"
    keys = np.array(content, np.uint64)
    write_keys(path, np.arange(len(keys)), keys, partitions)
    back = [read_keys(path, partition) for partition in range(partitions)]
    for partition, entries in enumerate(back):
        assert (np.diff(entries.numbers.astype(np.int64)) > 0).all()
        assert all(key * partitions >> 64 == partition for key in entries.keys.tolist())
    numbers = np.concatenate([entries.numbers for entries in back])
    assert sorted(numbers.tolist()) == list(range(len(keys)))
    assert np.concatenate([entries.keys for entries in back]).tolist() == keys[numbers].tolist()
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(FormatError, match="not whole"):
        read_starts(path)


@pytest.mark.parametrize("task", ["fair_nli", TASK, "orchard/easy/min-max"])
def test_the_fingerprint_of_the_whole_follows_from_its_columns(task: str, tmp_path: Path) -> None:
    corpus = pm.generate(task, "test", size=60, progress=False)
    outcomes = [corpus, dataclasses.replace(corpus, outcomes=tuple((out, 1.5) for out in corpus.outcomes))]
    values = np.where(np.arange(len(corpus.values)) % 7 == 3, -1, corpus.values).astype(corpus.values.dtype)
    outcomes.append(dataclasses.replace(corpus, values=values))
    for number, one in enumerate(outcomes):
        parts = [one[:25], one[25:26], one[26:]]
        paths = [pm.write(part, tmp_path / f"{number}-{at}.parquet") for at, part in enumerate(parts)]
        assert whole_fingerprint(paths, HERE) == one.fingerprint


# -- killed, and run again -------------------------------------------------------------------------------------------


class StopsAfter:
    """A crew that is interrupted after some tasks."""

    size = 1

    def __init__(self, tasks: int) -> None:
        self.left = tasks

    def run(self, task: Any, orders: Any) -> Iterator[tuple[int, Any]]:
        for number, order in enumerate(orders):
            if not self.left:
                raise KeyboardInterrupt
            self.left -= 1
            yield number, task(**order)


@pytest.mark.parametrize("tasks", [0, 3, 9, 14, 17, 20, 26])
def test_what_was_done_is_not_done_again(tasks: int, tmp_path: Path) -> None:
    plan = Plan.of(TASK, pm.TASKS.build(TASK, SMALL), rows=3_000, shards=6)
    write_dataset(plan, tmp_path / "whole", HERE, lambda done: None)
    with pytest.raises(KeyboardInterrupt):
        write_dataset(plan, tmp_path / "cut", StopsAfter(tasks), lambda done: None)
    there = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "cut").glob("*.parquet")}
    with pytest.raises(FormatError, match=r"did not finish|is no dataset"):
        pm.read(tmp_path / "cut", "train")
    told = []
    write_dataset(plan, tmp_path / "cut", HERE, told.append)
    assert {name: (tmp_path / "cut" / name).stat().st_mtime_ns for name in there} == there
    assert bytes_of(tmp_path / "cut") == bytes_of(tmp_path / "whole")
    assert manifest_of(tmp_path / "cut") == manifest_of(tmp_path / "whole")
    assert sum(told) == plan.work
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "cut").glob("*.parquet")}
    write_dataset(plan, tmp_path / "cut", StopsAfter(0), lambda done: None)  # nothing at all is left to do
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "cut").glob("*.parquet")} == before


def test_a_shard_that_is_lost_is_written_again_and_an_old_cut_goes(tmp_path: Path) -> None:
    generate_shards(TASK, tmp_path, shards=4, rows=3_000, split="train", **SMALL)
    before = bytes_of(tmp_path)
    (tmp_path / "train-00002-of-00004.parquet").unlink()
    kept = (tmp_path / "train-00001-of-00004.parquet").stat().st_mtime_ns
    generate_shards(TASK, tmp_path, shards=4, rows=3_000, split="train", **SMALL)
    assert bytes_of(tmp_path) == before
    assert (tmp_path / "train-00001-of-00004.parquet").stat().st_mtime_ns == kept
    generate_shards(TASK, tmp_path, shards=2, rows=3_000, split="train", **SMALL)
    assert list(bytes_of(tmp_path)) == ["train-00000-of-00002.parquet", "train-00001-of-00002.parquet"]
    generate_shards(TASK, tmp_path, shards=1, split="test", **SMALL)  # the other splits stay
    assert set(manifest_of(tmp_path)["splits"]) == {"train", "test"}
    generate_shards(TASK, tmp_path, shards=1, split="test", seed=3, **SMALL)  # another draw does not
    assert set(manifest_of(tmp_path)["splits"]) == {"test"}


def test_a_manifest_cannot_name_files_elsewhere(tmp_path: Path) -> None:
    """Whatever a manifest lists, nothing outside the folder is written, and nothing but old shards is removed."""
    folder = generate_shards(TASK, tmp_path / "data", shards=2, rows=300, split="train", **SMALL)
    (folder / "notes.parquet").write_text("mine")
    (folder / "train.parquet").write_text("mine, too")
    manifest = manifest_of(folder)
    shard = manifest["splits"]["train"]["shards"][0]
    more = [{**shard, "file": name} for name in ("../../outside", "notes.parquet", "train.parquet")]
    manifest["splits"]["train"]["shards"] += more
    (folder / "manifest.json").write_text(json.dumps(manifest))
    generate_shards(TASK, folder, shards=3, rows=300, split="train", **SMALL)
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == {
        "manifest.json", "notes.parquet", "train.parquet",
        *(f"train-{number:05}-of-00003.parquet" for number in range(3)),
    }  # fmt: skip


def test_settings_of_every_task_survive_the_plan(tmp_path: Path) -> None:
    """A plan that is read back is the same plan; else nothing would ever resume."""
    for name in ("listops/depth-generalisation", "orchard/hard/min-max", "fair_nli", TASK):
        plan = Plan.of(name, pm.TASKS.build(name, {}), shards=1)
        assert json.loads(json.dumps(plan.about)) == plan.about, name


def test_a_folder_is_written_by_one_command_at_a_time(tmp_path: Path) -> None:
    class Second(StopsAfter):
        def run(self, task: Any, orders: Any) -> Iterator[tuple[int, Any]]:
            with pytest.raises(RunError, match="another process is writing shards here"):
                generate_shards(TASK, tmp_path, shards=2, rows=300, split="train", **SMALL)
            return super().run(task, orders)

    generate_shards(TASK, tmp_path, shards=2, rows=300, split="train", crew=Second(99), **SMALL)


# -- what is refused -------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return generate_shards(TASK, tmp_path / "data", shards=3, rows=900, split="train,test", **SMALL)


def test_damaged_missing_and_foreign_shards_are_errors(folder: Path, tmp_path: Path) -> None:
    first, second, third = files_of(folder, "train")
    whole = second.read_bytes()
    second.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FormatError, match=rf"{second.name}: not a whole Parquet file"):
        pm.read(folder, "train")
    at = len(whole) // 3
    second.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    with pytest.raises(FormatError, match=second.name):
        pm.read(folder, "train")
    shutil.copy(third, second)
    with pytest.raises(FormatError, match=r"this is not the shard that manifest.json lists: 300 rows with the"):
        pm.read(folder, "train")
    generate_shards(TASK, tmp_path / "other", shards=3, rows=900, split="train", seed=8, **SMALL)
    shutil.copy(tmp_path / "other" / second.name, second)
    with pytest.raises(FormatError, match=r"is of data seed 8, and manifest\.json is of data seed 0"):
        pm.read(folder, "train")
    second.unlink()
    with pytest.raises(FormatError, match=r"and it is not there; run the same `pomona generate` again"):
        pm.read(folder, "train")
    second.write_bytes(whole)
    assert len(pm.read(folder, "train")) == 900
    assert first.exists()


def test_what_cannot_be_is_said(folder: Path, tmp_path: Path) -> None:
    for wanted, words in (
        ({"shards": 0}, "rows = None, shards = 0: both are at least 1"),
        ({"shards": 2_000}, "the largest split has 900 rows, and a file has at least one"),
        ({"shards": 2, "split": "tset"}, "has no split 'tset'. Did you mean 'test'"),
        ({"shards": 2, "depth": 0}, "at least 1 and 2 are needed"),
    ):
        with pytest.raises(SpecError, match=words):
            generate_shards(TASK, tmp_path / "no", **{**SMALL, **wanted})  # type: ignore[arg-type]
    assert not (tmp_path / "no").exists()
    with pytest.raises(SpecError, match=r"has train, test; name one, for example split='train'"):
        pm.read(folder)
    with pytest.raises(FormatError, match=r"the split 'dev' is not here"):
        Shards.read(folder, "dev")
    assert repr(Shards.read(folder)) == "Shards(listops, train: 900 examples in 3 files)"
    file = files_of(folder, "train")[0]
    with pytest.raises(FormatError, match="this is a file; name a folder"):
        generate_shards(TASK, file, shards=1, **SMALL)


@pytest.mark.parametrize("numbers", [False, True])
def test_a_damaged_file_that_was_left_is_not_whole(tmp_path: Path, numbers: bool) -> None:
    """Each bit of a file of keys, or of numbers, is covered: what is not whole is made again."""
    path = tmp_path / "left"
    if numbers:
        write_numbers(path, [np.arange(3), np.arange(2)])
    else:
        write_keys(path, np.arange(3), np.array([1, 2**63, 5], np.uint64), 2)
    content = path.read_bytes()
    assert is_whole(path, 2, numbers=numbers)
    assert not is_whole(path, 3, numbers=numbers)
    for at in range(len(content)):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :])
        assert not is_whole(path, 2, numbers=numbers)


@pytest.mark.parametrize(
    "write",
    [
        lambda path: write_numbers(path, [np.arange(100, dtype=np.uint32)]),
        lambda path: write_array(path, np.arange(100)),
    ],
)
def test_numbers_that_do_not_fit_on_the_disk_are_an_error(tmp_path: Path, write: Callable[[Path], None]) -> None:
    """NumPy writes an array to an open file through a buffer of its own, and does not say that the end was lost."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (256, limits[1]))
    try:
        with pytest.raises(FormatError, match="cannot be written"):
            write(tmp_path / "numbers")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert not list(tmp_path.iterdir())


def test_numbers_that_cannot_all_be_read_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "numbers"
    write_numbers(path, [np.arange(100, dtype=np.uint32)])
    whole = np.fromfile
    monkeypatch.setattr(np, "fromfile", lambda *given, **more: whole(*given, **more)[:40])  # a disk fails
    with pytest.raises(FormatError, match="cannot be read to its end"):
        read_numbers(path, 0)
