"""What every task must do, whatever it is: a new file in `pomona.tasks` is tested here without a line more."""

from __future__ import annotations

import dataclasses
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pomona as pm
from pomona.base.errors import FormatError, SpecError
from pomona.base.registry import settings_of
from pomona.data.corpus import Corpus
from pomona.data.formats import FORMATS
from pomona.data.label_report import LabelReport
from pomona.data.task import TASKS, Task, declared_first, generate, task_class, task_of
from pomona.fairness import certify, check
from pomona.shortcuts.ladder import ladder

ENTRIES = [entry for entry in TASKS.entries() if entry.kind.__module__.startswith("pomona.")]
NAMES = [name for entry in ENTRIES for name in entry.names]


@cache
def small(name: str) -> Task:
    """A preset with few rows: as few as it can be made with."""
    preset = TASKS.build(name)
    for rows in (24, 240, 2_400, 24_000):
        sizes = {split: min(rows, getattr(preset, split)) for split in preset.splits}
        words = {"vocabulary": 8} if isinstance(getattr(preset, "vocabulary", None), int) else {}
        pool = sum(sizes.values()) - sizes["train"] // 2 if preset.pool else 0
        try:
            return dataclasses.replace(preset, **sizes, **words, pool=pool)
        except SpecError:
            continue
    raise AssertionError(f"{name} cannot be made small")


@cache
def corpora(name: str) -> dict[str, Corpus]:
    return {split: generate(small(name), split, seed=3) for split in small(name).sizes}


def held_out(name: str) -> str:
    """The first split that is tested on."""
    return next(split for split in corpora(name) if split != "train")


def used(names: Any, numbers: Any) -> set[Any]:
    return {names[number] for number in np.unique(numbers).tolist() if number >= 0}


@pytest.mark.parametrize("name", NAMES)
def test_workers_and_chunks_change_nothing(name: str) -> None:
    for split in ("train", held_out(name)):
        again = generate(small(name), split, seed=3, workers=3, chunk=7)
        assert again.fingerprint == corpora(name)[split].fingerprint


@pytest.mark.parametrize("name", NAMES)
def test_splits_have_their_sizes_and_share_nothing(name: str) -> None:
    assert {split: len(corpus) for split, corpus in corpora(name).items()} == small(name).sizes
    keys = np.concatenate([corpus.keys for corpus in corpora(name).values()])
    assert len(np.unique(keys)) == len(keys)


@pytest.mark.parametrize("name", NAMES)
def test_another_seed_gives_other_rows(name: str) -> None:
    """Or the same ones in another order, where there are no others."""
    assert generate(small(name), "train", seed=4).fingerprint != corpora(name)["train"].fingerprint


@pytest.mark.parametrize("name", NAMES)
def test_declared_words_are_those_of_training(name: str) -> None:
    """Other splits may have more only where trees are larger: positions beyond the largest one that is declared."""
    words = small(name).words()
    if words is None:
        return
    assert len(set(words)) == len(words)
    largest = max((int(word) for word in words if word.isdecimal()), default=-1)
    for split, corpus in corpora(name).items():
        undeclared = used(corpus.vocabulary, corpus.tokens) - set(words)
        if split in ("train", "dev", "test") or split.startswith("iid"):
            assert not undeclared, split
        assert all(word.isdecimal() and int(word) > largest for word in undeclared), split


@pytest.mark.parametrize("name", NAMES)
def test_declared_outcomes_are_all_there_are(name: str) -> None:
    outcomes = small(name).outcomes()
    if outcomes is None:
        return
    assert len(set(outcomes)) == len(outcomes)
    for corpus in corpora(name).values():
        assert used(corpus.outcomes, corpus.targets) <= set(outcomes)
        assert used(corpus.outcomes, corpus.values) <= set(outcomes)


@pytest.mark.parametrize("name", NAMES)
def test_what_a_model_knows_does_not_depend_on_the_draw(name: str) -> None:
    """The words and answers of a few rows, in the order in which they occur, add nothing to what is declared."""
    corpus = corpora(name)["train"][:5]
    words = [corpus.vocabulary[token] for token in corpus.tokens.tolist()]
    answers = [corpus.outcomes[value] for value in corpus.values.tolist() if value >= 0]
    known, outcomes = declared_first(corpus, words, answers)
    assert known == (small(name).words() or tuple(dict.fromkeys(words)))
    assert outcomes == (small(name).outcomes() or tuple(dict.fromkeys(answers)))


@pytest.mark.parametrize("name", NAMES)
def test_files_of_all_splits_verify(name: str, tmp_path: Path) -> None:
    paths = [pm.write(corpus, tmp_path / f"{split}.parquet") for split, corpus in corpora(name).items()]
    result = pm.verify(*paths)
    assert result.holds, result.problems[:3]
    assert not result.unchecked


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_answer_is_found(name: str, tmp_path: Path) -> None:
    corpus = corpora(name)["train"]
    labels = np.unique(corpus.targets[:, 0])
    if len(labels) < 2:
        return
    targets = corpus.targets.copy()
    targets[2, 0] = labels[labels != targets[2, 0]][0]
    path = pm.write(dataclasses.replace(corpus, targets=targets), tmp_path / "train.parquet")
    assert [(problem.line, problem.kind) for problem in pm.verify(path).problems] == [(3, "wrong answer")]


@pytest.mark.parametrize("name", NAMES)
def test_formats_hold_it_whole_or_refuse_it(name: str, tmp_path: Path) -> None:
    corpus = corpora(name)[held_out(name)]
    for format_ in FORMATS.entries().values():
        path = tmp_path / f"rows{format_.suffix}"
        if not fits(corpus, path, format_.name):
            assert not format_.holds_everything
            assert list(tmp_path.iterdir()) == []
        else:
            assert pm.read(path).fingerprint == corpus.fingerprint, format_.name
            for written in tmp_path.iterdir():
                written.unlink()


def fits(corpus: Corpus, path: Path, name: str) -> bool:
    """Whether a format takes a corpus."""
    try:
        pm.write(corpus, path, name)
    except FormatError:
        return False
    return True


@pytest.mark.parametrize("name", NAMES)
def test_baselines_and_certificates_apply(name: str) -> None:
    train, test = corpora(name)["train"], corpora(name)[held_out(name)]
    rungs = ladder(test, train, levels=1).rungs
    assert {"nothing", "most frequent answer", *small(name).shortcuts} <= {rung.name for rung in rungs}
    assert all(np.isnan(rung.accuracy) or 0 <= rung.accuracy <= 1 for rung in rungs)
    certificate = certify(train, test)
    assert certificate.test == len(test)
    assert check(certificate, train, test)


@pytest.mark.parametrize("name", NAMES)
def test_settings_print_and_rebuild(name: str) -> None:
    task = small(name)
    settings = json.loads(json.dumps(settings_of(task)))
    assert TASKS.build(task.name, settings) == task
    assert settings_of(TASKS.build(task.name, settings)) == settings
    assert all(f"{item.name}=" in repr(task) for item in dataclasses.fields(task))
    for corpus in corpora(name).values():
        assert task_of(corpus) == task
        assert task_class(corpus) is type(task)


@pytest.mark.parametrize("name", NAMES)
def test_hooks_keep_their_types(name: str) -> None:
    corpus, kind = corpora(name)["train"], type(small(name))
    values, targets = kind.node_values(corpus), kind.targets(corpus)
    if values is not None:
        assert np.array_equal(values, corpus.values)
    if targets is not None:
        assert np.array_equal(targets, corpus.targets)
    assert all(0 <= best <= 1 for best in kind.ceilings(corpus).values())
    for information in kind.shortcuts.values():
        assert len(information(corpus)) == len(corpus)
    report = kind.prove(corpus, "table", 5, 0)
    assert report is None or (isinstance(report, LabelReport) and report.holds and report.asked == min(5, len(corpus)))


def test_a_task_without_hooks_has_nothing_of_its_own() -> None:
    corpus = dataclasses.replace(corpora("listops/d20s")["train"], origin={"task": "nobody's"})
    assert task_class(corpus) is Task
    assert task_of(corpus) is None
    assert (Task.node_values(corpus), Task.targets(corpus), Task.prove(corpus, "z3", 5, 0)) == (None, None, None)
    assert (dict(Task.ceilings(corpus)), dict(Task.shortcuts)) == ({}, {})
    assert declared_first(corpus, ["a"], [1]) == (("a",), (1,))
