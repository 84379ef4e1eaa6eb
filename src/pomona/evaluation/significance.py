"""Is the difference between two models more than chance? Intervals and tests for answers to the same examples.

    paired_difference(a, b)            difference of two accuracies on the same examples, Tango's score interval
    mcnemar(a, b)                      exact test that neither is better, from the examples where just one is right
    holm([0.01, 0.04, 0.03])           p-values of many tests, adjusted by Holm's method
    clustered_difference(a, b, groups) the interval when examples of a group are not independent
    detectable(rows, discordant)       how large a difference would have been found with 80 % power
    seeds([0.91, 0.93, 0.92])          mean of several runs with the t-interval; `seeds_difference` of two such groups

`a` and `b` are arrays of booleans, right or wrong, one for each example, in the same order. Tango's interval (1998)
contains every difference that a score test would not reject; at a difference of 0 that test is McNemar's. It keeps its
coverage where few examples differ and the usual interval has no width. Seeds and examples are two sources of chance:
the first interval says what other examples would give with the same weights, the last what other seeds would give.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Bools, Floats, Ints
from pomona.base.errors import MeasureError
from pomona.base.randomness import stream_key

CONFIDENCE, POWER = 0.95, 0.8
FEW = 20  # clusters; with fewer, a bootstrap is not to be trusted


@dataclass(frozen=True)
class Difference:
    """A mean or a difference of two means, its interval (NaN where there is none), and the method of the interval."""

    value: float
    interval: tuple[float, float]
    method: str

    def as_dict(self) -> dict[str, Any]:
        interval = None if math.isnan(self.interval[0]) else list(self.interval)
        return {"value": self.value, "interval": interval, "method": self.method}


def _pairs(a: Any, b: Any) -> tuple[int, int, int]:
    """The number of examples, of those that only the first has right, and of those that only the second has right."""
    first, second = np.asarray(a, bool), np.asarray(b, bool)
    if first.shape != second.shape or first.ndim != 1 or not len(first):
        raise MeasureError(
            f"two arrays of answers to the same examples are compared; got {first.shape}, {second.shape}"
        )
    return len(first), int((first & ~second).sum()), int((second & ~first).sum())


# -- two models on the same examples -----------------------------------------------------------------------------------


def paired_difference(a: Bools, b: Bools, confidence: float = CONFIDENCE) -> Difference:
    """The difference of two shares on the same examples, with Tango's score interval."""
    rows, first, second = _pairs(a, b)
    return Difference((first - second) / rows, tango(first, second, rows, confidence), "Tango's score interval")


def tango(first: int, second: int, rows: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The interval of (first - second) / rows, from the number of examples that only one of the two has right."""
    from scipy import optimize, stats

    limit = float(stats.norm.ppf((1 + confidence) / 2))
    value = (first - second) / rows

    def edge(side: int) -> float:
        end = float(side)
        if value == end:
            return end
        return float(optimize.brentq(lambda at: side * _score(first, second, rows, at) + limit, value, end, xtol=1e-12))

    return edge(-1), edge(1)


def _score(first: int, second: int, rows: int, difference: float) -> float:
    """Tango's statistic: how many standard deviations the observed difference lies above this one."""
    middle = (2 * rows - first + second) * difference - first - second
    last = -second * difference * (1 - difference)
    # The maximum-likelihood share of examples that only the second has right, given the difference.
    share = (math.sqrt(max(0.0, middle * middle - 8 * rows * last)) - middle) / (4 * rows)
    variance = rows * (2 * share + difference * (1 - difference))
    distance = first - second - rows * difference
    if variance <= 0:
        return 0.0 if distance == 0 else math.copysign(1e12, distance)
    return distance / math.sqrt(variance)


def mcnemar(a: Bools, b: Bools) -> float:
    """The exact two-sided p-value of: where just one of the two is right, it is either with equal probability."""
    from scipy import stats

    _, first, second = _pairs(a, b)
    return 1.0 if first + second == 0 else float(stats.binomtest(first, first + second).pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values: if all below 0.05 are called significant, the probability of any error is at most 5 %.

    >>> [round(one, 2) for one in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    values = np.asarray(p_values, np.float64)
    order = np.argsort(values, kind="stable")
    raised = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    found = np.empty(len(values))
    found[order] = np.minimum(1.0, raised)
    return [float(one) for one in found]


def detectable(rows: int, discordant: float, *, power: float = POWER, confidence: float = CONFIDENCE) -> float | None:
    """The smallest difference that McNemar's test finds with this power (Connor 1987), when just one of the two is
    right on a share `discordant` of the examples; None if no difference within that share would be found."""
    from scipy import optimize, stats

    if not 0 < discordant <= 1:
        return None
    limit, spare = float(stats.norm.ppf((1 + confidence) / 2)), float(stats.norm.ppf(power))

    def lacking(difference: float) -> float:
        spread = math.sqrt(max(0.0, discordant - difference * difference))
        return difference * math.sqrt(rows) - limit * math.sqrt(discordant) - spare * spread

    if lacking(discordant) < 0:
        return None
    return float(optimize.brentq(lacking, 0.0, discordant, xtol=1e-12))


def clustered_difference(
    a: Bools,
    b: Bools,
    groups: Ints,
    *,
    confidence: float = CONFIDENCE,
    resamples: int = 4999,
    seed: int = 0,
) -> Difference:
    """The difference when examples of a group are not independent: a percentile bootstrap over whole groups.

    The percentiles lie a little further out than the confidence says, as far as a t-interval from this many groups lies
    outside a normal one (Hesterberg 2015). Without this the interval is too short for few groups.
    """
    from scipy import stats

    rows, _, _ = _pairs(a, b)
    numbers = np.unique(np.asarray(groups), return_inverse=True)[1]
    if len(numbers) != rows:
        raise MeasureError(f"{len(numbers)} groups for {rows} examples; there is one for each")
    sizes = np.bincount(numbers).astype(np.float64)
    if len(sizes) < 2:
        raise MeasureError("all examples are in one group; a clustered interval needs several")
    totals = np.bincount(numbers, np.asarray(a, np.float64) - np.asarray(b, np.float64))
    count = len(sizes)
    tail = float(stats.t.ppf((1 - confidence) / 2, count - 1)) * math.sqrt(count / (count - 1))
    wide = 1 - 2 * float(stats.norm.cdf(tail))
    found = stats.bootstrap(
        (totals, sizes),
        _ratio,
        paired=True,
        vectorized=True,
        n_resamples=resamples,
        batch=max(1, (1 << 22) // count),
        confidence_level=wide,
        method="percentile",
        rng=np.random.Generator(np.random.Philox(key=int(stream_key("clusters", seed)))),
    ).confidence_interval
    method = f"bootstrap over {count:,} groups"
    return Difference(float(totals.sum() / rows), (float(found.low), float(found.high)), method)


def _ratio(totals: Floats, sizes: Floats, axis: int = -1) -> npt.NDArray[np.float64]:
    return np.asarray(totals.sum(axis=axis) / sizes.sum(axis=axis))


# -- seeds -------------------------------------------------------------------------------------------------------------


def seeds(values: Sequence[float], confidence: float = CONFIDENCE) -> Difference:
    """The mean over several runs with its t-interval; one run has no interval."""
    from scipy import stats

    if not len(values):
        raise MeasureError("there are no runs to average")
    mean = float(np.mean(values))
    if len(values) == 1:
        return Difference(mean, (math.nan, math.nan), "one run, so no interval over seeds")
    error = float(np.std(values, ddof=1) / math.sqrt(len(values)))
    half = float(stats.t.ppf((1 + confidence) / 2, len(values) - 1)) * error
    return Difference(mean, (mean - half, mean + half), f"t-interval over {len(values)} runs")


def seeds_difference(
    a: Sequence[float], b: Sequence[float], confidence: float = CONFIDENCE
) -> tuple[Difference, float]:
    """The difference of the means of two groups of runs with Welch's t-interval, and its p-value."""
    from scipy import stats

    if min(len(a), len(b)) < 2:
        value = float(np.mean(a) - np.mean(b))
        return Difference(value, (math.nan, math.nan), "one run on a side, so no interval over seeds"), math.nan
    method = f"Welch's t-interval over {len(a)} and {len(b)} runs"
    value = float(np.mean(a) - np.mean(b))
    parts = [float(np.var(side, ddof=1)) / len(side) for side in (a, b)]
    error = math.sqrt(sum(parts))
    if error <= 1e-15 * max(map(abs, [*a, *b])):  # nothing varies, so the interval has no width
        return Difference(value, (value, value), method), 1.0 if value == 0 else 0.0
    freedom = error**4 / sum(part * part / (len(side) - 1) for part, side in zip(parts, (a, b), strict=True))
    half = float(stats.t.ppf((1 + confidence) / 2, freedom)) * error
    return Difference(value, (value - half, value + half), method), float(2 * stats.t.sf(abs(value) / error, freedom))
