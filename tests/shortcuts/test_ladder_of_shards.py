"""The ladder from shards is that of the whole: learnt from shards, and of shards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pomona as pm
from pomona.base.errors import MeasureError
from pomona.base.workers import HERE, workers
from pomona.data.shards import generation
from pomona.data.shards.folder import Shards
from pomona.data.shards.generation import generate_shards
from pomona.shortcuts import ladder, lookups
from pomona.shortcuts.lessons import Counted, FromCorpus, Lessons, coded
from pomona.shortcuts.lookups import Rung, all_informations


class Several:
    """One process that says it is several workers, and answers in another order."""

    size = 3

    def run(self, task: Any, orders: Any) -> Iterator[tuple[int, Any]]:
        answers = [(number, task(**order)) for number, order in enumerate(orders)]
        return iter(answers[1::2] + answers[::2])


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generation, "CHUNK", 60)  # rows of a part
    monkeypatch.setattr(lookups, "FEATURES_FROM", 100)  # over several parts and shards


def rungs(made: ladder.Ladder) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = made.as_dict()["rungs"]
    return found


@pytest.mark.parametrize(
    "task", ["listops/d20s", "orchard/hard/first-last", "orchard/easy/min-max", "fair_nli", "propositional/deep"]
)
def test_the_ladder_of_shards_is_that_of_the_whole(task: str, tmp_path: Path) -> None:
    kind = pm.TASKS.build(task, {})
    rows = 1_300 if task == "fair_nli" else 240
    sizes = {split: rows for split, rows in (("train", rows), ("dev", 20), ("test", 130)) if getattr(kind, split)}
    generate_shards(task, tmp_path, shards=3, split="train,test", **sizes)
    train, test = Shards.read(tmp_path), Shards.read(tmp_path, "test")
    assert len(train.files) == 3
    assert len(test.files) == (1 if task == "fair_nli" else 2)
    whole = pm.ladder(test.corpus(), train.corpus(), levels=2)
    assert len(whole.rungs) >= 4
    for crew in (HERE, Several()):
        learnt = pm.ladder(test.corpus(), train, levels=2, crew=crew)
        assert rungs(learnt) == rungs(whole)
        assert learnt.learnt_from == repr(train)
        for rung in whole.rungs:
            if rung.answers is not None:
                assert np.array_equal(learnt[rung.name].answers, rung.answers)
    for learnt_from in (train, train.corpus()):
        both = pm.ladder(test, learnt_from, levels=2, crew=Several())
        assert rungs(both) == rungs(whole)
        assert both.notes == whole.notes


def test_real_processes_and_informations_of_your_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "FEATURES_FROM", 10_000)  # as in other processes
    generate_shards("listops/d20s", tmp_path, shards=2, split="train,test", train=200, dev=10, test=120)
    train, test = Shards.read(tmp_path), Shards.read(tmp_path, "test")
    with workers("local", 2) as crew:
        assert rungs(pm.ladder(test, train, crew=crew)) == rungs(pm.ladder(test.corpus(), train.corpus()))
        own = {"first words": lambda corpus: [text[:6] for text in corpus.texts]}  # stays in this process
        made = pm.ladder(test, train, more=own, crew=crew)
    assert rungs(made) == rungs(pm.ladder(test.corpus(), train.corpus(), more=own))
    assert made["first words"].accuracy > 0
    with pytest.raises(MeasureError, match="shards are answered from a training set; give one"):
        pm.ladder(test)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=40), st.integers(0, 40))
@settings(max_examples=60)
def test_counts_add_up_and_the_last_of_the_most_frequent_answers_counts(pairs: list[tuple[int, int]], cut: int) -> None:
    keys, answers = (np.array([pair[at] for pair in pairs], np.int64) for at in (0, 1))
    ones = np.ones(len(pairs), np.int64)
    halves = [Counted.of(coded(keys[some]), answers[some], ones[some]) for some in (slice(cut), slice(cut, None))]
    counted = Counted.joined(*halves)
    assert all(np.array_equal(*both) for both in zip(counted, Counted.of(coded(keys), answers, ones), strict=True))
    best, seen = counted.best(coded(np.arange(7)))
    for key in range(7):
        given_answers = [answer for one, answer in pairs if one == key]
        assert seen[key] == bool(given_answers)
        if given_answers:
            assert best[key] == max(range(4), key=lambda answer: (given_answers.count(answer), answer))


def test_lessons_are_plain_values() -> None:
    corpus = pm.generate("orchard/hard/min-max", size=60, progress=False)
    lessons = FromCorpus(corpus, all_informations({})).lessons()
    again = Lessons.from_plain(lessons.plain())
    assert again.plain() == lessons.plain()
    assert again.copied


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 1.0, 0.25, np.nan]), st.sampled_from([0.0, 1.0])), min_size=1, max_size=9)
)
@settings(max_examples=60)
def test_a_rung_of_counted_rows_has_the_same_accuracies(rows: list[tuple[float, float]]) -> None:
    plain = Rung("x", "y", np.array(rows))
    half = len(rows) // 2
    parts = [Rung("x", "y", np.array(rows[low:high])) for low, high in ((0, half), (half, len(rows))) if high > low]
    joined = parts[0] if len(parts) == 1 else parts[0].join(parts[1])
    for found in (plain.counted(), joined.counted()):
        assert found.accuracy == pytest.approx(plain.accuracy, nan_ok=True)
        assert found.error == pytest.approx(plain.error, nan_ok=True)
        assert found.per_question == pytest.approx(plain.per_question, nan_ok=True)
        assert len(found.right) <= 8
