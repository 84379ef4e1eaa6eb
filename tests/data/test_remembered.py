"""A pool's memory saves drawing twice and changes nothing; it is bounded, and what it holds is what was drawn."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from pomona.base.arrays import Ints
from pomona.data import pool, remembered
from pomona.data.corpus import Corpus
from pomona.data.remembered import Memory, Rows
from pomona.data.task import TASKS, chunks, generate
from pomona.tasks.listops import task as listops
from pomona.tasks.listops.task import ListOps

SMALL = {"train": 1_500, "dev": 60, "test": 80}
ASKED: dict[str, tuple[str, dict[str, Any], int | None]] = {
    "d20s": ("listops/d20s", SMALL, None),
    "on and on": ("listops/d20s", SMALL, 4_000),
    "long rows": ("listops/lra", {"train": 60, "dev": 10, "test": 10}, 150),
    "by values": ("listops/dependency-balanced", {"train": 120, "dev": 12, "test": 12, "iid": 12}, None),
}


@pytest.fixture
def drawn_again(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows are drawn a second time, call by call."""
    counts: list[int] = []
    build = ListOps.build

    def counted(self: ListOps, key: np.uint64, numbers: Ints) -> Corpus:
        counts.append(len(numbers))
        return build(self, key, numbers)

    monkeypatch.setattr(ListOps, "build", counted)
    return counts


@pytest.mark.parametrize("room", [0, 30_000, 1 << 27])
@pytest.mark.parametrize("asked", ASKED)
def test_rows_do_not_depend_on_what_is_remembered(
    asked: str, room: int, monkeypatch: pytest.MonkeyPatch, drawn_again: list[int]
) -> None:
    name, settings, size = ASKED[asked]
    expected = generate(name, seed=3, size=size, **settings).fingerprint
    assert not drawn_again, "what fits is drawn once"
    monkeypatch.setattr("pomona.data.remembered.BYTES", room)
    monkeypatch.setattr("pomona.data.pool.BLOCK", 1 << 11)
    task = TASKS.build(name, settings)
    for workers, chunk in [(1, 333), (3, 50_000)]:
        parts = chunks(task, "train", 3, size, workers=workers, chunk=chunk)
        assert Corpus.concatenate(list(parts)).fingerprint == expected
    assert bool(drawn_again) == (room < 1 << 27)


def test_a_scan_keeps_no_more_tokens_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    task, key = ListOps(), np.uint64(5)
    whole = task.scan(key, 0, 5_000)
    assert whole.rows is not None
    assert task.assemble(whole.rows).fingerprint == task.build(key, whole.numbers).fingerprint
    monkeypatch.setattr(listops, "MOST_KEPT", 20_000)
    few = task.scan(key, 0, 5_000)
    assert few.rows is None
    assert np.array_equal(few.numbers, whole.numbers)
    assert np.array_equal(few.keys, whole.keys)


def test_memory_stays_within_its_limit_while_rows_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was built is forgotten, so that what comes next fits."""
    memories: list[Memory] = []
    sizes: list[int] = []
    create, build = pool.Pool.__init__, pool.Pool._build

    def creates(self: pool.Pool, *about: Any) -> None:
        create(self, *about)
        memories.append(self._memory)

    def builds(self: pool.Pool, numbers: Ints) -> Corpus:
        sizes.append(sum(piece.size for piece in self._memory._pieces))
        return build(self, numbers)

    monkeypatch.setattr(pool.Pool, "__init__", creates)
    monkeypatch.setattr(pool.Pool, "_build", builds)
    monkeypatch.setattr("pomona.data.pool.BLOCK", 1 << 12)
    monkeypatch.setattr("pomona.data.remembered.BYTES", 200_000)
    built = sum(map(len, chunks(TASKS.build("listops/d20s", SMALL), "train", 3, 30_000, chunk=500)))
    assert built == 30_000
    assert 0 < max(sizes) <= 200_000
    assert min(sizes) > 0, "it never gave up"
    assert len(memories[-1]._pieces) <= 2


def test_a_task_that_builds_its_own_corpora_is_asked_to() -> None:
    """Remembered rows must not stand in for a `build` of the task's own."""

    @dataclasses.dataclass(frozen=True)
    class Numbered(ListOps):
        def build(self, key: np.uint64, numbers: Ints) -> Corpus:
            return dataclasses.replace(super().build(key, numbers), columns={"number": np.asarray(numbers)})

    TASKS.add("numbered")(Numbered)
    corpus = generate("numbered", seed=3, train=9, dev=0, test=0)
    assert len(set(corpus.columns["number"].tolist())) == 9


def rows_of(*texts: bytes) -> Rows:
    lengths = list(map(len, texts))
    return Rows(np.frombuffer(b"".join(texts), np.uint8), np.cumsum([0, *lengths]), np.array(lengths, np.int32))


def words(rows: Any) -> list[bytes]:
    return [bytes(rows.tokens[low:high]) for low, high in zip(rows.start, rows.start[1:], strict=False)]


def test_rows_are_recalled_in_any_order_and_all_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory()
    memory.add_rows(np.array([3, 7]), rows_of(b"three", b"7"))
    memory.add_rows(np.array([8, 100]), rows_of(b"eight", b"a hundred"))
    memory.join()
    assert words(memory.recall(np.array([100, 3, 3, 8]))) == [b"a hundred", b"three", b"three", b"eight"]
    for missing in (2, 4, 99, 101, 10**12):
        assert memory.recall(np.array([3, missing])) is None
    memory.forget(7)
    memory.add_rows(np.array([101]), rows_of(b"more"))
    memory.join()
    assert memory.recall(np.array([7])) is None
    assert words(memory.recall(np.array([101, 8]))) == [b"more", b"eight"]
    memory.add_rows(np.array([102]), None)
    memory.add_rows(np.array([103]), rows_of(b"later"))
    memory.join()
    assert memory.recall(np.array([103])) is None, "102 is lacking, and a split is dealt from all of them"
    memory.forget(102)
    memory.add_rows(np.array([104]), rows_of(b"again"))
    memory.join()
    assert words(memory.recall(np.array([104]))) == [b"again"]
    monkeypatch.setattr(remembered, "BYTES", 100)
    memory.add_rows(np.array([105]), rows_of(b"x" * 101))
    memory.join()
    assert memory.recall(np.array([104])) is None
