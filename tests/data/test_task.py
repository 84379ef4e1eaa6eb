"""Determinism: the same spec gives the same bits for any workers, chunks, hash seed; other seeds give others."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from pomona.base.arrays import Ints
from pomona.data.corpus import Corpus
from pomona.data.pool import Scan
from pomona.data.task import TASKS, Task, chunks, generate

GOLDEN = Path(__file__).parents[1] / "golden" / "listops_fingerprints.json"
SMALL = {"train": 2_000, "dev": 200, "test": 300}


@pytest.mark.parametrize("workers", [1, 2, 8])
@pytest.mark.parametrize("chunk", [1, 77, 4096])
def test_workers_and_chunks_change_nothing(workers: int, chunk: int) -> None:
    size = 150 if chunk == 1 else None
    given = generate("listops/d20s", seed=7, size=size, workers=workers, chunk=chunk, **SMALL)
    assert given.fingerprint == generate("listops/d20s", seed=7, size=size, **SMALL).fingerprint


def test_block_size_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also across distributions: what train leaves out must not depend on how many surplus draws of test were seen."""
    settings = {**SMALL, "iid": 100, "shift": [["test", "branching", 0.26]]}
    expected = generate("listops/d20s", seed=7, **settings).fingerprint
    for block in (1 << 10, 1 << 13, 1 << 20):
        monkeypatch.setattr("pomona.data.pool.BLOCK", block)
        assert generate("listops/d20s", seed=7, workers=3, **settings).fingerprint == expected


def test_a_longer_train_begins_with_the_shorter() -> None:
    long, short = (generate("listops/d20s", seed=7, size=size, **SMALL) for size in (3_000, 500))
    assert long[:500].fingerprint == short.fingerprint
    shards = list(chunks(TASKS.build("listops/d20s", SMALL), "train", 7, 3_000, chunk=999))
    assert np.array_equal(np.concatenate([shard.keys for shard in shards]), long.keys)


@pytest.mark.parametrize("hash_seed", ["0", "1", "4242"])
def test_the_hash_seed_of_python_changes_nothing(hash_seed: str) -> None:
    code = (
        "import pomona as pm; "
        f"print(pm.generate('listops/d20s', seed=7, **{SMALL}).fingerprint, "
        "pm.generate('listops/depth-generalisation', 'test', 7, train=50, dev=10, test=20, iid=10).fingerprint)"
    )
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    first = generate("listops/d20s", seed=7, **SMALL)
    second = generate("listops/depth-generalisation", split="test", seed=7, train=50, dev=10, test=20, iid=10)
    assert shown.stdout.split() == [first.fingerprint, second.fingerprint]


def test_neighbouring_seeds_share_no_more_than_distant_ones() -> None:
    """Short expressions are few and shared by every draw; the long ones must be all different, near or far."""
    sets = {seed: generate("listops/d20s", seed=seed, train=20_000, dev=0, test=0) for seed in (1, 2, 3, 10**9)}
    shared = {
        pair: len(np.intersect1d(sets[pair[0]].keys, sets[pair[1]].keys)) for pair in ((1, 2), (2, 3), (1, 10**9))
    }
    expected = shared[1, 10**9]
    assert all(abs(count - expected) < 5 * np.sqrt(2 * expected) for count in shared.values()), shared
    long = {seed: corpus.keys[corpus.lengths > 12] for seed, corpus in sets.items()}
    assert len(np.intersect1d(long[1], long[2])) == 0


def test_golden_fingerprints() -> None:
    """Pinned on purpose: a change here means that published seeds give other data than before; raise `version`."""
    pinned = json.loads(GOLDEN.read_text())
    assert len(pinned) >= 6
    for line, fingerprint in pinned.items():
        name, split, seed, settings = json.loads(line)
        assert generate(name, split=split, seed=seed, **settings).fingerprint == fingerprint, line


def test_a_setting_at_its_default_leaves_the_data_alone() -> None:
    """So a task may gain a setting without changing what its seeds have given so far."""
    plain = generate("listops/d20s", split="test", seed=7, **SMALL)
    told = generate("listops/d20s", split="test", seed=7, branching=0.25, nesting=(0, None), **SMALL)
    assert plain.fingerprint == told.fingerprint
    assert plain.fingerprint != generate("listops/d20s", split="test", seed=7, branching=0.2501, **SMALL).fingerprint


@dataclasses.dataclass(frozen=True)
class Coins(Task):
    """A user's task in five lines: heads or tails, in a list."""

    sides: int = 2

    def example(self, random: np.random.Generator) -> str | None:
        digits = random.integers(0, self.sides, size=6)
        return None if digits.sum() == 0 else f"[SM {' '.join(map(str, digits))} ]"


def test_a_task_is_one_method() -> None:
    TASKS.add("tossed_coins")(Coins)
    corpus = generate("tossed_coins", seed=1, train=40, dev=10, test=13)
    again = generate("tossed_coins", seed=1, train=40, dev=10, test=13, workers=4, chunk=7)
    assert corpus.fingerprint == again.fingerprint
    rest = [generate("tossed_coins", split=split, seed=1, train=40, dev=10, test=13).keys for split in ("dev", "test")]
    assert len(np.unique(np.concatenate([corpus.keys, *rest]))) == 63, "all 2^6 - 1 accepted ones, each in one split"
    assert all(sum(map(int, one.tokens[1:-1])) % 10 == one.target[0] for one in corpus)


# -- drawing asks for no more than it needs ----------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Slow(Task):
    """A task whose examples are dear: every call of `example` is counted."""

    accepted: float = 1.0
    CALLS: ClassVar[list[int]] = []
    SCANS: ClassVar[list[int]] = []

    def scan(self, key: np.uint64, first: int, count: int) -> Scan:
        self.SCANS.append(count)
        return super().scan(key, first, count)

    def example(self, random: np.random.Generator) -> str | None:
        self.CALLS.append(1)
        digits = " ".join(map(str, random.integers(0, 10, size=12)))
        return f"[SM {digits} ]" if random.random() < self.accepted else None


def calls(**settings: Any) -> int:
    TASKS.add("slow")(Slow)
    Slow.CALLS.clear()
    generate("slow", seed=3, **settings)
    return len(Slow.CALLS)


@pytest.mark.parametrize("workers", [1, 2])
def test_every_example_is_drawn_once(workers: int) -> None:
    assert calls(train=10, dev=0, test=0, workers=workers) == 10
    assert calls(train=40, dev=6, test=4, workers=workers) == 50
    assert calls(train=40, dev=6, test=4, split="test", workers=workers) == 50, "the pool is drawn to be dealt out"
    assert calls(train=20, dev=0, test=0, size=30, chunk=7, workers=workers) == 30, "train continues row by row"


def test_rejected_draws_cost_about_their_share() -> None:
    assert 160 <= calls(train=50, dev=0, test=0, accepted=0.25) <= 320
    assert 2_000 <= calls(train=20, dev=0, test=0, accepted=0.005) <= 9_000


def test_looks_grow_until_something_is_found() -> None:
    Slow.SCANS.clear()
    assert calls(train=1, dev=0, test=0, accepted=0.001) > 1_000
    assert len(Slow.SCANS) < 16, "one draw at a time would take hundreds of looks"


def test_trees_beyond_those_remembered_are_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = generate("slow", seed=3, train=40, dev=0, test=0).fingerprint
    monkeypatch.setattr("pomona.data.remembered.TREES", 1)
    monkeypatch.setattr("pomona.data.pool.BLOCK", 8)
    assert calls(train=40, dev=0, test=0) == 40 + 40
    assert generate("slow", seed=3, train=40, dev=0, test=0).fingerprint == expected


def test_a_task_that_builds_its_own_corpora_is_asked_to() -> None:
    """Remembered trees must not stand in for a `build` of the task's own."""

    @dataclasses.dataclass(frozen=True)
    class Named(Slow):
        def build(self, key: np.uint64, numbers: Ints) -> Corpus:
            return dataclasses.replace(super().build(key, numbers), columns={"number": np.asarray(numbers)})

    TASKS.add("named")(Named)
    assert sorted(generate("named", seed=3, train=9, dev=0, test=0).columns["number"].tolist()) == list(range(9))
