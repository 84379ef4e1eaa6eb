"""The sentence on a model: for every kind of model there is, one that a newcomer understands."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import pomona as pm
from pomona.data.answers import asked
from pomona.data.task import TASKS
from pomona.shortcuts import ladder as shortcuts
from pomona.shortcuts.effective_depth import effective_depth
from pomona.shortcuts.verdicts import percent, sentence

ROWS = 3000


@cache
def data() -> tuple[pm.Corpus, pm.Corpus, np.ndarray[Any, Any]]:
    task = TASKS.build("listops", {"train": 10_000, "dev": 10, "test": ROWS})
    test, train = pm.generate(task, split="test", seed=5), pm.generate(task, seed=5)
    return test, train, shortcuts.evaluations(test, train, 12)[:, 0]


def said(predictions: Any, rows: Any = slice(None)) -> str:
    test, train, _ = data()
    return effective_depth(test[rows], np.asarray(predictions)[rows].tolist(), train=train).sentence


def test_exact_evaluators() -> None:
    test, _, answers = data()
    assert said(answers[:, 3]) == f"acts exactly like an evaluator that opens 3 levels: all {ROWS:,} answers"
    assert (
        said(answers[:, 0]) == f"acts exactly like an evaluator that sees only the root operator: all {ROWS:,} answers"
    )
    assert said(test.targets).startswith(f"acts exactly like a full evaluator: all {ROWS:,} answers")


def test_noise_that_looks_random_and_noise_that_does_not() -> None:
    test, _, answers = data()
    random = np.random.default_rng(0)
    chance = random.integers(0, 10, ROWS)
    two = np.where(random.random(ROWS) < 0.2, chance, answers[:, 2])
    share = percent(float((two == answers[:, 2]).mean()))
    assert said(two) == f"acts like an evaluator that opens 2 levels: {share} of its answers; the others look random"
    deep = test.nesting > np.quantile(test.nesting, 0.8)
    full = np.where(deep & (random.random(ROWS) < 0.5), chance, test.targets[:, 0])  # fails only on deep examples
    share = percent(float((full == test.targets[:, 0]).mean()))
    assert said(full).startswith(f"acts like a full evaluator: {share} of its answers; not an exact match")
    some = test.targets[:, 0].copy()
    some[:3] = (some[:3] + 1) % 10
    assert said(some).startswith("acts like a full evaluator: 99.9 % of its answers; 3 answers differ")


def test_guessers_constants_and_silence() -> None:
    test, _, _ = data()
    random = np.random.default_rng(1)
    assert said(random.integers(0, 10, ROWS)).startswith("acts like a guesser: nothing gives more of its answers than")
    skewed = random.choice(10, ROWS, p=[0.55, *[0.05] * 9])  # frequent answers agree more often, and are no knowledge
    assert said(skewed).startswith("acts like a guesser")
    assert said(np.full(ROWS, 7)) == "gives the same answer, 7, to every example"
    mostly = effective_depth(test, np.where(np.arange(ROWS) % 10 == 0, test.targets[:, 0], 7), train=data()[1])
    assert str(mostly.mixture).startswith("90 % always 7 (")
    assert said(np.full(ROWS, "I cannot say")) == "gives no answer that can be read"
    little = np.where(random.random(ROWS) < 0.3, test.targets[:, 0], random.integers(0, 10, ROWS))
    assert said(little).startswith("acts like no evaluator: the nearest, a full evaluator, gives 3")


def test_a_shortcut_beats_all_depths() -> None:
    test, train, answers = data()
    table = shortcuts.lookups(test, train)[2].answers
    assert table is not None
    nearest = percent(max(float((table[:, 0] == column).mean()) for column in [*answers.T, test.targets[:, 0]]))
    assert said(table[:, 0]) == (
        "acts like a shortcut, a look-up table of what stands directly in the root's list: 100 % of its answers; the "
        f"nearest evaluator, one that opens 1 level, gives {nearest}"
    )


def test_few_examples_say_little() -> None:
    test, _, answers = data()
    few = np.flatnonzero(test.nesting >= 3)[:12]
    assert said(answers[:, 2], few[:2]).startswith("cannot be told from a guesser on 2 examples")
    assert "on these examples one that opens" in said(test.targets[:, 0], few)
    shallow = np.flatnonzero(test.nesting <= 2)[:400]
    assert said(test.targets[:, 0], shallow) == (
        "acts exactly like a full evaluator: all 400 answers; on these examples one that opens 2 levels does as well"
    )
    differ = np.flatnonzero((answers[:, 4] != answers[:, 3]) & (test.targets[:, 0] == answers[:, 4]))[:3]
    same = np.flatnonzero((answers[:, 2:] == test.targets).all(axis=1) & (answers[:, 1] != test.targets[:, 0]))[:60]
    rows = np.concatenate([same, differ])  # three examples are not enough to tell 3 levels from 4
    assert said(answers[:, 3], rows).startswith("acts exactly like an evaluator that opens 2 levels or more: all 63")


def test_two_questions_have_a_sentence_each() -> None:
    task = TASKS.build("orchard", {"train": 1000, "dev": 50, "test": 1000, "iid": 50})
    test, train = pm.generate(task, split="test-12", seed=3), pm.generate(task, seed=3)
    answers = asked(test).copy()
    answers[:, 1] = shortcuts.evaluations(test, train, 12)[:, 1, 4]
    found = pm.evaluate(answers.tolist(), test, train=train)
    assert [depth.sentence for depth in found.depths] == [
        "acts exactly like a full evaluator: all 1,000 answers",
        "acts exactly like an evaluator that opens 4 levels: all 1,000 answers",
    ]


def test_numbers_of_earlier_versions_give_a_sentence() -> None:
    """Without rows, chance and the mixture, which scores.json did not keep then."""
    old = {
        "depth": "everything", "interval": ["everything", "everything"], "fits": False, "agreement": [0.2, 0.6, 0.937],
        "unlike": ["whether the answers follow it depends on the root operator (p = 3e-77)"], "contested": 100,
        "explained": 0.9, "rival": "look-up table", "margin": 0.35,
    }  # fmt: skip
    assert sentence(old) == "acts like a full evaluator: 94 % of its answers; not an exact match"
    assert sentence({**old, "agreement": [0.2, 1.0]}) == "acts exactly like a full evaluator: all answers"
    assert sentence({**old, "depth": 1, "interval": [1, 2], "agreement": [0.2, 0.6], "fits": True}) == (
        "is nearest to an evaluator that opens 1 to 2 levels: 60 % of its answers; the others look random"
    )
    unsure = {**old, "depth": 3, "interval": [2, "everything"], "agreement": [0.2, 0.9]}
    assert sentence(unsure).startswith("acts like an evaluator that opens 2 levels or more: 90 %")


@pytest.mark.parametrize(
    ("share", "words"),
    [(0, "0 %"), (1, "100 %"), (0.9999, "99.9 %"), (0.00001, "0.1 %"), (0.994, "99.4 %"), (0.5, "50 %")],
)
def test_per_cent_never_says_all_or_none_where_it_is_not(share: float, words: str) -> None:
    assert percent(share) == words
