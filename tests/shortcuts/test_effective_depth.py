"""Effective depth: recovered from evaluators under noise, refused for everything else."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import pomona as pm
from pomona.base.errors import MeasureError
from pomona.data.answers import answers_given, asked
from pomona.data.task import TASKS
from pomona.shortcuts import ladder as shortcuts
from pomona.shortcuts.effective_depth import EVERYTHING, contested, effective_depth
from pomona.shortcuts.verdicts import percent


@cache
def data(kind: str) -> tuple[pm.Corpus, pm.Corpus, np.ndarray[Any, Any]]:
    """A test corpus, its training corpus, and what evaluators of 0 to 12 levels answer."""
    if kind == "listops":
        task = TASKS.build("listops", {"train": 20_000, "dev": 10, "test": 6000})
        test, train = pm.generate(task, split="test", seed=3), pm.generate(task, seed=3)
    else:
        operators = ("MIN", "MAX") if kind == "min-max" else ("FIRST", "LAST")
        task = TASKS.build("orchard", {"train": 3000, "dev": 50, "test": 3000, "iid": 50, "operators": operators})
        test, train = pm.generate(task, split="test-12", seed=3), pm.generate(task, seed=3)
    return test, train, shortcuts.evaluations(test, train, 12)


def noisy(answers: np.ndarray[Any, Any], noise: float, seed: int) -> np.ndarray[Any, Any]:
    random = np.random.default_rng(seed)
    changed = random.random(answers.shape) < noise
    return np.where(changed, random.integers(0, 10, answers.shape), answers)


@pytest.mark.parametrize("kind", ["listops", "min-max", "first-last"])
@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_k_is_recovered(kind: str, noise: float) -> None:
    test, train, answers = data(kind)
    for k in range(1, 9):
        for question in range(test.width if noise else 1):
            found = effective_depth(test, noisy(answers[:, :, k], noise, k), train=train, question=question)
            assert found.interval[0] <= k <= found.interval[1]
            assert found.fits, (k, found.unlike)
            assert found.depth == k or (kind == "listops" and k > 6)  # few trees of ListOps tell 7 from 8 and 9
            assert found.noise == pytest.approx(0.9 * noise, abs=0.03)
            assert found.margin > 0
            assert str(found).startswith(f"acts {'like' if noise else 'exactly like'} an evaluator that opens ")
            assert found.details.startswith(f"effective depth {found.depth:.0f} (95 % interval")


@pytest.mark.parametrize("kind", ["listops", "min-max", "first-last"])
def test_none_of_these(kind: str) -> None:
    """Predictors outside the family: chance, constants, look-ups, mixtures, a fault of one operator, heuristics."""
    test, train, answers = data(kind)
    random = np.random.default_rng(1)
    truth = asked(test)
    half = random.random((len(test), 1)) < 0.5
    symbol = test.forest.symbol[test.forest.root].reshape(truth.shape)
    long = (test.lengths > np.median(test.lengths))[:, None]
    blind = set(answers[:, :, 0].ravel().tolist())  # a constant that depth 0 gives would be depth 0, rightly
    outside = {
        "chance": random.integers(0, 10, truth.shape),
        "constant": np.full_like(truth, min(set(range(10)) - blind)),
        "look-up": shortcuts.lookups(test, train)[2].answers,
        "mixture": np.where(half, answers[:, :, 1], answers[:, :, 5]),
        "one operator": np.where(symbol == symbol[0, 0], random.integers(0, 10, truth.shape), truth),
        "by hand": shortcuts.evaluations(test, train, 12, by_hand=True)[:, :, 2],
        "off by one": (truth + 1) % 10,
    }
    if kind == "listops":
        outside["short ones only"] = np.where(long, 0, truth)
    for name, predictions in outside.items():
        assert predictions is not None
        found = effective_depth(test, predictions, train=train)
        assert not found.fits, name
        assert found.details.endswith("; ".join(found.unlike))
        assert "look random" not in found.sentence
        assert found.as_dict()["fits"] is False


def test_by_hand_is_a_family_too() -> None:
    test, train, _ = data("first-last")
    answers = shortcuts.evaluations(test, train, 12, by_hand=True)
    for k in (1, 4, 7):
        found = effective_depth(test, noisy(answers[:, :, k], 0.2, k), train=train, by_hand=True)
        assert found.depth == k
        assert found.fits


def test_the_right_answers_open_everything() -> None:
    test, train, _ = data("min-max")
    found = effective_depth(test, asked(test), train=train, train_depth=6)
    assert found.depth == EVERYTHING
    assert found.interval[1] == EVERYTHING
    assert found.as_dict()["depth"] == "everything"
    assert found.beyond is not None
    assert found.beyond.exceeds
    assert found.beyond.accuracy == 1


def test_beyond_the_training_depth() -> None:
    """Opening as many levels as training showed is no generalisation; opening more is."""
    test, train, answers = data("first-last")
    for k, exceeds in ((4, False), (6, False), (8, True)):
        found = effective_depth(test, answers[:, :, k], train=train, train_depth=6).beyond
        assert found is not None
        assert found.exceeds is exceeds
        assert found.examples == len(test)
        assert f"right on {percent(found.accuracy)}, an evaluator that stops at that depth on" in str(found)
        assert str(found).endswith(": it generalises over depth") is exceeds
    with pytest.raises(MeasureError, match="no example is deeper than the training depth 12"):
        effective_depth(test, answers[:, :, 4], train=train, train_depth=12)
    with pytest.raises(MeasureError, match="train_depth = 40"):
        effective_depth(test, answers[:, :, 4], train=train, train_depth=40)


def test_shallow_examples_cannot_tell() -> None:
    """Where no tree is deeper than 2, all evaluators from 2 on are one: the interval says so."""
    test, train, _ = data("listops")
    shallow = test[test.nesting <= 2]
    found = effective_depth(shallow, shallow.targets, train=train)
    assert found.interval == (2, EVERYTHING)


def test_contested_examples_tell_more() -> None:
    test, train, answers = data("min-max")
    mask = contested(test, train=train)
    differ = (answers[:, 0, 1:] != answers[:, 0, 1:2]).any(axis=1)
    np.testing.assert_array_equal(mask, differ | (answers[:, 0, 1] != test.targets[:, 0]))
    few = test[mask][:300]
    found = effective_depth(few, noisy(answers[mask][:300, :, 3], 0.2, 1), train=train)
    assert found.depth == 3


def test_forms_of_predictions() -> None:
    test, _, _ = data("min-max")
    some = test[:3]
    pairs = [f"{one},{two}" for one, two in some.targets.tolist()]
    np.testing.assert_array_equal(answers_given(some, pairs), some.targets)
    np.testing.assert_array_equal(answers_given(some, some.targets.tolist()), some.targets)
    assert answers_given(some, ["7", "x,1", ""])[:, 1].tolist() == [-1, 1, -1]  # malformed answers are wrong ones
    with pytest.raises(MeasureError, match="2 predictions for the 3 examples"):
        answers_given(some, ["1,2", "3,4"])
