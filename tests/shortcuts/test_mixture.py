"""Mixtures: the maximum of the likelihood, intervals at their nominal rate, one name for what cannot be told apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import optimize

from pomona.shortcuts.mixture import POINT, best_shares, interval, mixture

LEVELS = 2  # evaluators of 0, 1, 2 levels and the full one, then the shortcut
NAMES = ["top 0 levels", "top 1 level", "top 2 levels", "full evaluator", "look-up table", "noise"]


def family(rows: int, seed: int, alike: float = 0.5) -> np.ndarray[Any, Any]:
    """What five components answer: each like the next one on a share of the examples."""
    random = np.random.default_rng(seed)
    columns = [random.integers(0, 10, rows)]
    for _ in range(LEVELS + 2):
        columns.append(np.where(random.random(rows) < alike, columns[-1], random.integers(0, 10, rows)))
    return np.column_stack(columns)


def drawn(answers: np.ndarray[Any, Any], shares: list[float], seed: int) -> np.ndarray[Any, Any]:
    """Answers of a model that for each example draws a component; the last is noise."""
    random = np.random.default_rng(seed)
    chosen = random.choice(len(shares), len(answers), p=shares)
    noise = random.integers(0, 10, len(answers))
    return np.where(chosen == answers.shape[1], noise, answers[np.arange(len(answers)), chosen % answers.shape[1]])


def problem(seed: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Chances and weights of a small problem; every other has components with chances between 0 and 1."""
    random = np.random.default_rng(seed)
    rows, components = int(random.integers(5, 25)), int(random.integers(2, 7))
    chances = random.random((rows, components)) if seed % 2 else random.integers(0, 2, (rows, components)) * 1.0
    return np.column_stack([chances, np.full(rows, 0.1)]), random.integers(1, 30, rows) * 1.0


def slow(chances: Any, weights: Any, group: list[int] | None = None, total: float = 0.0) -> float:
    """The greatest log-likelihood by a general optimiser, where the shares of a group have a given sum."""
    if group is not None and total in (0.0, 1.0):  # where a general optimiser finds no way inside
        chances = chances[:, group] if total else np.delete(chances, group, axis=1)
        if chances.shape[1] == 0 or chances.max(axis=1).min() == 0:
            return -np.inf
        group = None
    limits = [{"type": "eq", "fun": lambda shares: shares.sum() - 1}]
    if group is not None:
        limits.append({"type": "eq", "fun": lambda shares: shares[group].sum() - total})
    found = optimize.minimize(
        lambda shares: -weights @ np.log(np.maximum(1e-12, chances @ shares)),
        np.full(chances.shape[1], 1 / chances.shape[1]),
        jac=lambda shares: -chances.T @ (weights / np.maximum(1e-12, chances @ shares)),
        bounds=[(0, 1)] * chances.shape[1], constraints=limits, method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-12},
    )  # fmt: skip
    return -float(found.fun)


@pytest.mark.parametrize("seed", range(24))
def test_the_maximum_is_that_of_a_slow_optimiser_and_of_plain_em(seed: int) -> None:
    chances, weights = problem(seed)
    shares, value = best_shares(chances, weights)
    assert shares.min() >= 0
    assert shares.sum() == pytest.approx(1, abs=1e-12)
    assert value == pytest.approx(float(weights @ np.log(chances @ shares)))
    assert value == pytest.approx(slow(chances, weights), abs=1e-4)
    plain = np.full(len(shares), 1 / len(shares))
    for _ in range(3000):
        plain = plain * (chances.T @ (weights / (chances @ plain))) / weights.sum()
    assert value >= float(weights @ np.log(chances @ plain)) - 1e-6
    assert value == pytest.approx(float(weights @ np.log(chances @ plain)), abs=0.05)


@pytest.mark.parametrize("seed", range(12))
def test_at_the_ends_of_an_interval_the_profile_has_fallen_by_its_point(seed: int) -> None:
    chances, weights = problem(seed)
    shares, value = best_shares(chances, weights)
    for group in ([0], [chances.shape[1] - 1], [0, 1]):
        low, high = interval(chances, weights, shares, group)
        assert 0 <= low <= shares[group].sum() + 1e-9
        assert shares[group].sum() - 1e-9 <= high <= 1
        for end, limit in ((low, 0.0), (high, 1.0)):
            fallen = 2 * (value - slow(chances, weights, group, end))
            assert fallen == pytest.approx(POINT, abs=0.1) or (end == limit and fallen < POINT + 0.1)


@pytest.mark.parametrize("true", [[0.1, 0.0, 0.3, 0.4, 0.1, 0.1], [0.0, 0.0, 0.25, 0.0, 0.05, 0.7]])
def test_true_shares_are_inside_at_the_nominal_rate(true: list[float]) -> None:
    """At least 95 % of the time for shares of 0, where the interval is one-sided; else about 95 %."""
    runs, inside, sums = 100, np.zeros(len(true)), []
    for seed in range(runs):
        answers = family(300, seed)
        found = mixture(answers, drawn(answers, true, 1000 + seed), "look-up table", 0.1)
        assert [share.name for share in found.shares] == NAMES
        inside += [share.low <= part <= share.high for share, part in zip(found.shares, true, strict=True)]
        sums.append(sum(share.share for share in found.shares))
    np.testing.assert_allclose(sums, 1)
    rate = inside / runs
    assert (rate > 0.88).all()  # 0.95 less three standard errors of 100 runs
    assert rate.mean() > 0.93
    assert rate[np.array(true) > 0].mean() < 0.98


def test_large_samples_find_the_shares() -> None:
    true = [0.0, 0.2, 0.0, 0.5, 0.1, 0.2]
    answers = family(20_000, 7)
    found = mixture(answers, drawn(answers, true, 8), "look-up table", 0.1)
    for share, part in zip(found.shares, true, strict=True):
        assert share.share == pytest.approx(part, abs=0.015)
        assert share.high - share.low < 0.04
    assert str(found).startswith("5")
    assert "20 % noise (" in str(found)
    assert "top 0 levels" not in str(found)


def test_what_cannot_be_told_apart_is_one() -> None:
    answers = family(500, 1)
    same = answers[:, [0, 1, 3, 3, 4]]  # two levels are all levels of these examples
    found = mixture(same, same[:, 3], "look-up table", 0.1)
    assert [share.name for share in found.shares] == [
        "top 0 levels", "top 1 level", "full evaluator, or at least 2 levels", "look-up table", "noise",
    ]  # fmt: skip
    assert found.shares[2].levels == (2, "everything")
    assert found.shares[2].share == pytest.approx(1)
    blind = answers[:, [0, 0, 1, 3, 0]]  # the shortcut is the evaluator that sees the root's name only
    found = mixture(blind, blind[:, 0], "root operator", 0.1)
    assert found.shares[0].name == "top 0 to 1 levels, which here is root operator"
    assert [share.kind for share in found.shares] == ["levels", "levels", "levels", "noise"]
    assert found.shares[0].share == pytest.approx(1)


def test_few_differences_are_fitted_but_given_as_one() -> None:
    """A model that follows the fourth component is not called noise where the full evaluator differs from it."""
    answers = family(1000, 2)
    answers[:, 2] = answers[:, 3]
    answers[:15, 2] = (answers[:15, 2] + 1) % 10
    found = mixture(answers, answers[:, 2], "look-up table", 0.1)
    assert found.shares[2].name == "full evaluator, or at least 2 levels"
    assert found.shares[2].share == pytest.approx(1, abs=1e-6)
    assert found.shares[2].low > 0.98


def test_answers_that_cannot_be_read_are_noise() -> None:
    answers = family(400, 3)
    given = np.where(np.arange(400) % 4 == 0, -1, answers[:, 3])
    found = mixture(answers, given, "look-up table", 0.1)
    assert found.shares[-1].share == pytest.approx(0.25, abs=0.05)
    assert found.shares[3].share == pytest.approx(0.75, abs=0.05)
    nothing = mixture(answers, np.full(400, -1), "look-up table", 0.1)
    assert nothing.shares[-1].share == pytest.approx(1)


def test_nothing_is_random() -> None:
    answers = family(200, 4)
    given = drawn(answers, [0.1, 0.1, 0.2, 0.3, 0.1, 0.2], 5)
    order = np.random.default_rng(6).permutation(200)
    assert mixture(answers, given, "x", 0.1) == mixture(answers[order], given[order], "x", 0.1)
