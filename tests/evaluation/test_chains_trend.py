"""Accuracy by the operators that decide: truncation is told from other faults, and from what cannot be told."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import optimize, stats

import pomona as pm
from pomona.base.errors import MeasureError
from pomona.data.answers import Answers, asked
from pomona.data.corpus import Corpus
from pomona.data.task import TASKS
from pomona.evaluation.chains import SPREAD, WIDE, Chains, trend
from pomona.evaluation.evaluation import Evaluation
from pomona.evaluation.records import as_evaluation
from pomona.shortcuts import ladder as shortcuts
from pomona.trees.forest import Forest

PAPER = {"BiLSTM": (0.98, 0.83, 0.65, 0.54, 0.46, 0.36), "one direction": (0.91, 0.67, 0.64, 0.62, 0.61, 0.63)}


@cache
def data(kind: str) -> tuple[pm.Corpus, np.ndarray[Any, Any]]:
    """A test corpus, and what evaluators of 0 to 8 levels answer."""
    if kind == "listops":
        task = TASKS.build("listops", {"train": 5000, "dev": 10, "test": 4000})
        test, train = pm.generate(task, split="test", seed=4), pm.generate(task, seed=4)
    else:
        sizes = {"train": 1000, "dev": 50, "test": 500, "iid": 50}
        task = TASKS.build("orchard", {**sizes, "operators": ("FIRST", "LAST")})
        test, train = pm.generate(task, split="test-12", seed=4), pm.generate(task, seed=4)
    return test, shortcuts.evaluations(test, train, 8)


def chains(test: pm.Corpus, given: np.ndarray[Any, Any], question: int = 0) -> Chains:
    return Evaluation.of(test, Answers("mine", np.asarray(given, np.int64).reshape(len(test), -1))).chains[question]


def right_with(test: pm.Corpus, chance: np.ndarray[Any, Any], seed: int = 0) -> np.ndarray[Any, Any]:
    """Answers that are right with this chance, and else another digit."""
    truth, random = asked(test), np.random.default_rng(seed)
    wrong = (truth + random.integers(1, 10, truth.shape)) % 10
    return np.where(random.random(truth.shape) < chance, truth, wrong)


# -- the regression ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_the_slope_is_that_of_a_slow_regression_and_its_interval_that_of_the_profile(seed: int) -> None:
    """One row an example, all columns written out, a general optimiser."""
    random = np.random.default_rng(seed)
    rows = 120
    amounts, groups = random.integers(2, 7, rows), random.integers(0, 3, rows)
    right = random.random(rows) < 1 / (1 + np.exp(0.4 * amounts - 1.5 - groups))
    columns = np.column_stack([np.ones(rows), groups == 1, groups == 2, amounts - amounts.mean()]).astype(float)
    prior = np.array([WIDE, WIDE, WIDE, SPREAD]) ** -2.0

    def loss(weights: np.ndarray[Any, Any]) -> float:
        odds = columns @ weights
        return float(np.logaddexp(0, odds).sum() - odds[right].sum() + 0.5 * (prior * weights**2).sum())

    best = optimize.minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-8})
    slope, low, high = trend(amounts, right, [groups])
    assert slope == pytest.approx(best.x[3], abs=1e-3)
    for end in (low, high):
        held = optimize.minimize(lambda rest, end=end: loss(np.append(rest, end)), best.x[:3], method="BFGS")
        assert 2 * (held.fun - best.fun) == pytest.approx(stats.chi2.ppf(0.95, 1), abs=0.2)


def test_flat_accuracy_is_rarely_called_falling_and_a_fall_is_found() -> None:
    test, _ = data("orchard")
    lengths = np.clip(test.tree_dependency, 1, 6)
    for name, expected, least in (("one direction", "flat", 12), ("BiLSTM", "falls", 20)):
        chance = np.array(PAPER[name])[lengths - 1]
        words = [chains(test, right_with(test, chance, seed)).trend for seed in range(20)]
        assert words.count(expected) >= least, (name, words)
    flat = [chains(test, right_with(test, np.array(0.7), seed)).trend for seed in range(100)]
    assert flat.count("falls") + flat.count("rises") <= 12  # 5 of 100 are expected
    assert flat.count("flat") >= 75


# -- the sentence -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["listops", "orchard"])
def test_truncated_evaluators_truncate(kind: str) -> None:
    test, answers = data(kind)
    for level in range(1, 6):
        for question in range(test.width):
            found = chains(test, answers[:, :, level], question)
            assert found.sentence.endswith("as in a model that truncates (opens too few levels)"), level


@pytest.mark.parametrize("kind", ["listops", "orchard"])
def test_others_do_not(kind: str) -> None:
    test, answers = data(kind)
    truth = asked(test)
    guesses = np.random.default_rng(0).integers(0, 10, truth.shape)
    for given in (guesses, answers[:, :, 0]):
        assert chains(test, given).sentence.endswith("seldom right, however many operators decide")
    assert chains(test, truth).sentence.endswith(": right however many operators decide")
    assert chains(test, truth).sentence.startswith("100 % right where 2 operators decide the answer, 100 % where")
    some = chains(test, right_with(test, np.array(0.75)))
    assert some.sentence.endswith(
        "so it does not truncate; its errors have another cause, for example losing count of brackets"
    )


def test_a_model_that_fails_in_deep_trees_does_not_truncate() -> None:
    """Its accuracy falls with the chain, because deep trees have long chains; at equal depth it does not."""
    test, _ = data("listops")
    found = chains(test, right_with(test, np.maximum(0.1, 1 - 0.1 * test.tree_nesting)))
    groups = {int(group.name): group.accuracy for group in found.groups}
    assert groups[2] > groups[5] + 0.15
    assert found.trend == "flat"
    assert ", but among trees of equal depth, length and root operator their number makes" in found.sentence


def test_where_depth_and_chain_are_one_it_cannot_be_told() -> None:
    """Everything decides a sum, so no tree has a chain shorter than its depth."""
    test, _ = data("listops")
    sums = [tree for tree in test.forest.nested() if not isinstance(tree, str)]

    def summed(tree: Any) -> Any:
        return tree if isinstance(tree, str) else ("SM", *map(summed, tree[1:]))

    only = Corpus.of_trees(Forest.from_nested([summed(tree) for tree in sums[:1500]]))
    np.testing.assert_array_equal(only.dependency, only.nesting)
    found = chains(only, right_with(only, np.maximum(0.1, 1 - 0.15 * only.tree_nesting)))
    assert found.trend == "untold"
    assert found.sentence.endswith("whether it truncates cannot be told from these examples")


def test_few_examples() -> None:
    test, answers = data("listops")
    few = test[:25]
    assert chains(few, answers[:25, :, 2]).sentence.startswith("too few examples have chains of different length")
    flat = test[test.nesting <= 1][:30]
    found = chains(flat, asked(flat))
    assert (found.slope, found.interval, found.trend) == (None, None, "untold")
    assert found.details.startswith("no chains of two operators or more")


# -- in an evaluation -------------------------------------------------------------------------------------------------


def test_each_question_is_grouped_by_its_own_tree() -> None:
    test, answers = data("orchard")
    truth = asked(test)
    given = np.column_stack([truth[:, 0], answers[:, 1, 2]])
    found = Evaluation.of(test, Answers("mine", given))
    for question in (0, 1):
        own = test.tree_dependency[:, question]
        expected = {
            str(length): (int((own == length).sum()), int(((given == truth)[:, question] & (own == length)).sum()))
            for length in np.unique(own)
        }
        assert {group.name: (group.rows, group.right) for group in found.by("chain", question)} == expected
        assert found.chains[question].groups == found.by("chain", question)
    assert sum(group.rows for group in found.by("chain")) == len(test)
    assert found.by("chain") == found.by("dependency")
    with pytest.raises(MeasureError, match="question = 2: an example here asks questions 0 to 1"):
        found.by("chain", 2)
    kept = json.loads(json.dumps(found.as_dict()))
    assert as_evaluation(kept) == kept
    assert [chain["sentence"] for chain in kept["chains"]] == [one.sentence for one in found.chains]
    assert kept["chains"][1]["groups"]["1"]["right"] == found.by("chain", 1)[0].right
