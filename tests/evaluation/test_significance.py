"""Intervals and tests: against slow twins, textbook numbers, and how often they hold in simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from pomona.base.errors import MeasureError
from pomona.evaluation import significance as sig
from pomona.evaluation.accuracy import wilson


def answers(both: int, first: int, second: int, neither: int) -> tuple[np.ndarray, np.ndarray]:
    a = np.repeat([True, True, False, False], [both, first, second, neither])
    b = np.repeat([True, False, True, False], [both, first, second, neither])
    return a, b


# -- Tango's interval ------------------------------------------------------------------------------------------------


def slow_score(first: int, second: int, rows: int, difference: float) -> float:
    """Tango's statistic with the nuisance share found by maximising the likelihood itself."""
    neither = rows - first - second

    def minus_log(share: float) -> float:
        cells = (share + difference, share, 1 - 2 * share - difference)
        total = 0.0
        for count, chance in zip((first, second, neither), cells, strict=True):
            if count:
                total -= count * math.log(max(chance, 1e-300))
        return total

    low, high = max(0.0, -difference), (1 - difference) / 2
    share = optimize.minimize_scalar(minus_log, bounds=(low, high), method="bounded", options={"xatol": 1e-12}).x
    return (first - second - rows * difference) / math.sqrt(rows * (2 * share + difference * (1 - difference)))


@given(st.integers(0, 30), st.integers(0, 30), st.integers(5, 200), st.sampled_from([0.9, 0.95, 0.99]))
def test_tango_bounds_are_where_the_score_test_turns(first: int, second: int, rest: int, confidence: float) -> None:
    rows = first + second + rest
    low, high = sig.tango(first, second, rows, confidence)
    limit = stats.norm.ppf((1 + confidence) / 2)
    assert -1 <= low <= (first - second) / rows <= high <= 1
    assert slow_score(first, second, rows, low) == pytest.approx(limit, abs=2e-3)
    assert slow_score(first, second, rows, high) == pytest.approx(-limit, abs=2e-3)


def test_tango_where_nothing_differs_and_where_everything_does() -> None:
    z2 = stats.norm.ppf(0.975) ** 2
    assert sig.tango(0, 0, 100) == pytest.approx((-z2 / (100 + z2), z2 / (100 + z2)))
    low, high = sig.tango(50, 0, 50)
    assert high == 1.0
    assert 0.8 < low < 1
    assert sig.tango(3, 11, 80) == pytest.approx(tuple(-one for one in reversed(sig.tango(11, 3, 80))))


def test_tango_excludes_zero_exactly_when_mcnemars_chi_square_rejects() -> None:
    for first in range(12):
        for second in range(12):
            if first + second:
                low, high = sig.tango(first, second, 60)
                rejected = (first - second) ** 2 / (first + second) > stats.norm.ppf(0.975) ** 2
                assert (low > 0 or high < 0) == rejected


def covers(random: np.random.Generator, cells: tuple[float, float, float], rows: int, times: int) -> float:
    counts = random.multinomial(rows, [*cells, 1 - sum(cells)], times)
    truth = cells[1] - cells[2]
    inside = 0
    for _, first, second, _ in counts.tolist():
        low, high = sig.tango(first, second, rows)
        inside += low <= truth <= high
    return inside / times


@pytest.mark.parametrize(
    ("cells", "rows"),
    [((0.8, 0.08, 0.05), 50), ((0.8, 0.08, 0.05), 300), ((0.9, 0.03, 0.01), 300), ((0.3, 0.3, 0.2), 50)],
)
def test_the_paired_interval_covers(cells: tuple[float, float, float], rows: int) -> None:
    """Nominal 95 %; 1,000 simulations leave a standard error of 0.7 points."""
    found = covers(np.random.default_rng(1), cells, rows, 1000)
    assert 0.93 <= found <= 0.98


def test_wilson_covers() -> None:
    random = np.random.default_rng(2)
    for share, rows in ((0.5, 40), (0.9, 100), (0.98, 300)):
        bounds = [wilson(int(right), rows) for right in random.binomial(rows, share, 2000)]
        assert 0.93 <= np.mean([low <= share <= high for low, high in bounds]) <= 0.98


# -- tests -----------------------------------------------------------------------------------------------------------


def test_mcnemar_is_the_sum_of_the_binomial_tails() -> None:
    a, b = answers(40, 9, 2, 10)
    tail = sum(math.comb(11, k) for k in range(3)) / 2**11
    assert sig.mcnemar(a, b) == pytest.approx(2 * tail)
    assert sig.mcnemar(b, a) == sig.mcnemar(a, b)
    assert sig.mcnemar(a, a) == 1.0


def test_mcnemar_cries_wolf_at_most_as_often_as_it_says() -> None:
    random = np.random.default_rng(3)
    ability = random.random(200)  # some examples are easier than others; both models are equally good
    found = [sig.mcnemar(random.random(200) < ability, random.random(200) < ability) for _ in range(400)]
    assert np.mean(np.array(found) < 0.05) <= 0.06


def slow_holm(values: list[float]) -> list[float]:
    """By definition: the smallest level at which the step-down procedure rejects each one."""
    order = sorted(range(len(values)), key=lambda place: values[place])
    found = [0.0] * len(values)
    for rank, place in enumerate(order):
        found[place] = min(1.0, max((len(values) - k) * values[order[k]] for k in range(rank + 1)))
    return found


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm(values: list[float]) -> None:
    assert sig.holm(values) == pytest.approx(slow_holm(values))


def test_what_is_detectable_is_detected_four_times_in_five() -> None:
    random, rows, discordant = np.random.default_rng(4), 1000, 0.12
    size = sig.detectable(rows, discordant)
    assert size is not None
    cells = [(discordant + size) / 2, (discordant - size) / 2, 1 - discordant]
    counts = random.multinomial(rows, cells, 1000)
    found = [stats.binomtest(int(a), int(a + b)).pvalue < 0.05 for a, b, _ in counts]
    assert 0.75 <= np.mean(found) <= 0.85
    assert sig.detectable(1000, 0.0) is None
    assert sig.detectable(10, 0.2) is None  # two examples cannot show anything
    assert sig.detectable(4000, discordant) == pytest.approx(size / 2, rel=0.05)


# -- clusters --------------------------------------------------------------------------------------------------------


def test_the_clustered_interval_covers_where_the_plain_one_does_not() -> None:
    """Twenty examples a template, which both models have right or wrong together."""
    random = np.random.default_rng(5)
    plain, clustered = [], []
    for _ in range(150):
        templates = np.repeat(np.arange(40), 20)
        a = (random.random(40) < 0.75)[templates] ^ (random.random(800) < 0.03)
        b = (random.random(40) < 0.75)[templates] ^ (random.random(800) < 0.03)
        low, high = sig.clustered_difference(a, b, templates, resamples=499).interval
        clustered.append(low <= 0 <= high)
        low, high = sig.paired_difference(a, b).interval
        plain.append(low <= 0 <= high)
    assert 0.90 <= np.mean(clustered) <= 0.99
    assert np.mean(plain) < 0.6


def test_clusters_of_one_are_examples_and_seeds_decide() -> None:
    random = np.random.default_rng(6)
    a, b = random.random(500) < 0.8, random.random(500) < 0.7
    one = sig.clustered_difference(a, b, np.arange(500))
    tango = sig.paired_difference(a, b)
    assert one.value == pytest.approx(tango.value) == pytest.approx(a.mean() - b.mean())
    assert one.interval == pytest.approx(tango.interval, abs=0.01)
    assert sig.clustered_difference(a, b, np.arange(500)).interval == one.interval
    assert sig.clustered_difference(a, b, np.arange(500), seed=1).interval != one.interval
    names = np.array([f"t{number}" for number in range(500)])
    assert sig.clustered_difference(a, b, np.sort(names)).value == one.value
    with pytest.raises(MeasureError, match="all examples are in one group"):
        sig.clustered_difference(a, b, np.zeros(500, int))
    with pytest.raises(MeasureError, match="3 groups for 500 examples"):
        sig.clustered_difference(a, b, np.arange(3))


# -- seeds -----------------------------------------------------------------------------------------------------------


def test_the_mean_of_seeds() -> None:
    values = [0.91, 0.93, 0.92, 0.95]
    found = sig.seeds(values)
    assert found.value == pytest.approx(np.mean(values))
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert found.interval == pytest.approx((expected.low, expected.high))
    assert all(math.isnan(one) for one in sig.seeds([0.9]).interval)
    with pytest.raises(MeasureError, match="no runs"):
        sig.seeds([])


def test_intervals_over_seeds_cover() -> None:
    random = np.random.default_rng(7)
    single, double = [], []
    for _ in range(700):
        a, b = random.normal(0.9, 0.02, 4), random.normal(0.85, 0.05, 5)
        low, high = sig.seeds(a.tolist()).interval
        single.append(low <= 0.9 <= high)
        low, high = sig.seeds_difference(a.tolist(), b.tolist())[0].interval
        double.append(low <= 0.05 <= high)
    assert 0.93 <= np.mean(single) <= 0.97
    assert 0.93 <= np.mean(double) <= 0.975


def test_welch_is_scipys() -> None:
    a, b = [0.91, 0.93, 0.92, 0.95], [0.8, 0.9, 0.7]
    found, p_value = sig.seeds_difference(a, b, 0.9)
    expected = stats.ttest_ind(a, b, equal_var=False)
    assert found.interval == pytest.approx(tuple(expected.confidence_interval(0.9)))
    assert p_value == pytest.approx(expected.pvalue)
    assert sig.seeds_difference(a, [0.9, 0.9])[0].interval[0] < np.mean(a) - 0.9


def test_seeds_that_do_not_vary_or_are_alone() -> None:
    same, p_value = sig.seeds_difference([0.9, 0.9], [0.8, 0.8])
    assert same.interval == pytest.approx((0.1, 0.1))
    assert p_value == 0.0
    alone, p_value = sig.seeds_difference([0.9], [0.8, 0.7])
    assert alone.value == pytest.approx(0.15)
    assert math.isnan(p_value)
    assert alone.as_dict()["interval"] is None


def test_what_cannot_be_paired_is_refused() -> None:
    with pytest.raises(MeasureError, match="answers to the same examples"):
        sig.paired_difference(np.ones(3, bool), np.ones(4, bool))
