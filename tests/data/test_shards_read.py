"""A folder of shards is described and verified as the whole is, for any cut and any number of workers."""

from __future__ import annotations

import dataclasses
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pomona as pm
from pomona.base.files import read_json, write_json
from pomona.base.workers import HERE, Crew, workers
from pomona.data.corpus import Corpus
from pomona.data.shards.digests import whole_fingerprint
from pomona.data.shards.folder import Shards
from pomona.data.shards.generation import generate_shards
from pomona.data.shards.keys import partitions_for, write_keys
from pomona.data.shards.repeats import Row, find_repeats
from pomona.data.statistics import Counts, Spread

TASK = "listops/d20s"
SMALL = {"train": 400, "dev": 60, "test": 80}


def replaced(folder: Path, number: int, corpus: Corpus) -> Path:
    """Another corpus as one of the shards of train, in the manifest too."""
    manifest = read_json(folder / "manifest.json")
    shard = manifest["splits"]["train"]["shards"][number]
    path: Path = folder / shard["file"]
    pm.write([corpus[:40], corpus[40:]], path)
    shard |= {"rows": len(corpus), "fingerprint": corpus.fingerprint}
    about = manifest["splits"]["train"]
    about["rows"] = sum(one["rows"] for one in about["shards"])
    about["fingerprint"] = whole_fingerprint([folder / one["file"] for one in about["shards"]], HERE)
    write_json(folder / "manifest.json", manifest)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return generate_shards(TASK, tmp_path / "data", shards=5, rows=700, seed=7, **SMALL)


# -- statistics ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", [TASK, "orchard/easy/min-max", "fair_nli", "listops/depth-generalisation"])
def test_shards_are_described_as_the_whole(task: str, tmp_path: Path) -> None:
    kind = pm.TASKS.build(task, {})
    least = 1_300 if task == "fair_nli" else 90
    sizes = {split: least for split in ("train", "dev", "test") if getattr(kind, split)}
    generate_shards(task, tmp_path, shards=4, split="train,test", **sizes)
    for split in ("train", "test"):
        whole = pm.describe(pm.read(tmp_path, split))
        assert pm.describe(Shards.read(tmp_path, split)) == whole
        assert whole.fingerprint == pm.generate(task, split, progress=False, **sizes).fingerprint


def test_real_processes_describe_the_same(folder: Path) -> None:
    with workers("local", 2) as crew:
        assert pm.describe(Shards.read(folder), crew) == pm.describe(pm.read(folder, "train"))


def test_repeated_rows_are_not_distinct(folder: Path) -> None:
    other = pm.read(folder / "train-00004-of-00005.parquet")
    replaced(folder, 1, Corpus.concatenate([other[:30], other[100:110], other[:5]]))
    found = pm.describe(Shards.read(folder))
    assert found.rows - found.distinct == 45


@given(st.lists(st.integers(-5, 40) | st.floats(-3, 30), min_size=1, max_size=60), st.integers(0, 60))
@settings(max_examples=80)
def test_a_spread_follows_from_counts_and_counts_add_up(values: list[float], cut: int) -> None:
    numbers = np.array(values)
    found = Spread.of(numbers)
    assert found.mean == pytest.approx(np.mean(numbers))
    assert found.deviation == pytest.approx(np.std(numbers), abs=1e-9)
    marks = np.percentile(numbers, [float(mark) for mark in found.percentiles])
    assert list(found.percentiles.values()) == pytest.approx(marks.tolist(), abs=0.0011)
    joined = Counts.of(numbers[:cut]).join(Counts.of(numbers[cut:]))
    assert Spread.from_counts(joined) == found
    assert Spread.from_counts(Counts.from_plain(joined.plain(), float)) == found


# -- verification ----------------------------------------------------------------------------------------------------


def kinds(result: pm.data.verification.Verification) -> Counter[str]:  # type: ignore[name-defined]
    return Counter(fault.kind for fault in result.problems)


def test_a_folder_of_shards_is_verified_as_the_whole(folder: Path) -> None:
    result = pm.verify(folder)
    assert result.holds
    assert sum(rows for _, _, rows, _ in result.files) == 840
    assert len(result.files) == 7
    with workers("local", 2) as crew:
        assert pm.verify(folder, crew=crew) == result


@pytest.mark.parametrize("crew", [HERE, None], ids=["one", "two"])
def test_the_faults_of_shards_are_those_of_the_whole(folder: Path, tmp_path: Path, crew: Crew | None) -> None:
    """Wrong answers, duplicates over shards, rows of test in train: as many as in one file, at their lines."""
    train, test = pm.read(folder, "train"), pm.read(folder, "test")
    middle = train[140:280]
    targets = middle.targets.copy()
    targets[[3, 50], 0] = (targets[[3, 50], 0] + 1) % 10
    bad = Corpus.concatenate([dataclasses.replace(middle, targets=targets), train[5:8], test[60:62]])
    path = replaced(folder, 1, bad)
    if crew is None:
        with workers("local", 2) as two:
            found = pm.verify(folder, crew=two)
    else:
        found = pm.verify(folder, crew=crew)
    pm.write(pm.read(folder, "train"), tmp_path / "one" / "train.parquet")
    pm.write(test, tmp_path / "one" / "test.parquet")
    whole = pm.verify(tmp_path / "one")
    assert kinds(found) == kinds(whole) == {"wrong answer": 2, "duplicate": 3, "leak": 1}
    wrong = [(fault.path, fault.line) for fault in found.problems if fault.kind == "wrong answer"]
    assert wrong == [(str(path.absolute()), 4), (str(path.absolute()), 51)]
    twice = [fault for fault in found.problems if fault.kind == "duplicate"]
    assert [fault.line for fault in twice] == [141, 142, 143]
    assert twice[0].message == "the same example is in train-00000-of-00005.parquet, line 6"
    leak = next(fault for fault in found.problems if fault.kind == "leak")
    assert "2 of 80 examples are also in" in leak.message or "2 of" in leak.message


def test_damaged_missing_and_foreign_shards_are_faults(folder: Path, tmp_path: Path) -> None:
    files = sorted(folder.glob("train-*.parquet"))
    whole = files[0].read_bytes()
    files[0].write_bytes(whole[:300] + b"x" + whole[301:])
    files[1].unlink()
    other = generate_shards(TASK, tmp_path / "other", shards=5, rows=700, seed=8, split="train", **SMALL)
    shutil.copy(other / files[2].name, files[2])
    shutil.copy(files[4], folder / "train-00007-of-00009.parquet")
    found = {(Path(fault.path).name, fault.kind): fault.message for fault in pm.verify(folder).problems}
    assert (files[0].name, "unreadable") in found
    assert "is of data seed 8, and manifest.json is of data seed 7" in found[files[2].name, "not the dataset"]
    assert f"{files[1].name} is listed for train, and is not there" in found["manifest.json", "not the dataset"]
    assert "does not list this file" in found["train-00007-of-00009.parquet", "not the dataset"]
    assert "140 of 140 examples are also in" in found["train-00007-of-00009.parquet", "leak"]


def test_a_manifest_that_is_wrong_about_the_whole_is_noticed(folder: Path) -> None:
    for change in ({"fingerprint": "0" * 64}, {"rows": 701}):
        before = read_json(folder / "manifest.json")
        write_json(folder / "manifest.json", {**before, "splits": {"train": before["splits"]["train"] | change}})
        (fault,) = (fault for fault in pm.verify(folder).problems if "train" in fault.message)
        assert "the shards of train are not together the 70" in fault.message
        assert fault.kind == "not the dataset"
        write_json(folder / "manifest.json", before)


def test_the_same_split_in_another_format_is_no_leak(folder: Path) -> None:
    pm.write(pm.read(folder, "test"), folder / "test.tsv")
    found = pm.verify(folder)
    assert [(Path(fault.path).name, fault.kind) for fault in found.problems] == [("test.tsv", "not the dataset")]


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_repeats_are_those_that_sets_find(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("repeats")
    keys = data.draw(st.lists(st.lists(st.integers(0, 12), max_size=8), min_size=1, max_size=5))
    groups = sorted(data.draw(st.integers(0, 2)) for _ in keys)
    inside = data.draw(st.integers(0, 3))
    spread = [[(key * 0x9E3779B97F4A7C15) % 2**64 for key in some] for some in keys]
    files = [folder / f"{number}.keys" for number in range(len(keys))]
    for file, some in zip(files, spread, strict=True):
        write_keys(file, np.arange(len(some)), np.array(some, np.uint64), 4)
    found = find_repeats(files, groups, inside, 4, HERE)
    first: dict[tuple[int, int], Row] = {}
    twice, shared = [], Counter[tuple[int, int]]()
    for file, (some, group) in enumerate(zip(keys, groups, strict=True)):
        for row, key in enumerate(some):
            if (group, key) not in first:
                shared.update((other, group) for other in range(group) if (other, key) in first)
                first[group, key] = Row(file, row)
            elif group < inside:
                twice.append((Row(file, row), first[group, key]))
    assert found.rows == sorted(twice)
    assert found.count == len(twice)
    assert {pair: count for pair, (count, _, _) in found.shared.items()} == shared
    assert partitions_for(10) == 2
