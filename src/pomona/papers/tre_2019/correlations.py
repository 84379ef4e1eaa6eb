"""Correlations with confidence intervals that resample whole runs, since the epochs of a run are not independent.

    result = correlate(tre, error, clusters=run)       # whole runs are resampled
    result.value, result.low, result.high, result.p_value
    gap(first, second, other)                          # how much two correlations with the same column differ

`plain` of a result is the dictionary that goes into JSON.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base.errors import MeasureError, SpecError
from pomona.representations.tre import partial_correlation

SAMPLES = 4_000
Table = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Correlation:
    """A correlation with a 95 % interval from resampling, and the number of items and clusters."""

    value: float | None  # None where one side does not vary
    low: float | None
    high: float | None
    p_value: float | None  # Student's t, which assumes independent items; None where they come in clusters
    items: int
    clusters: int

    @property
    def plain(self) -> dict[str, Any]:
        return asdict(self)


def correlate(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    given: npt.ArrayLike | None = None,
    method: str = "pearson",
    clusters: npt.ArrayLike | None = None,
    samples: int = SAMPLES,
    seed: int = 0,
) -> Correlation:
    """Correlate two columns, optionally given a third; rows with a missing value are ignored."""
    if method not in ("pearson", "spearman"):
        raise SpecError(f"method is 'pearson' or 'spearman', got {method!r}")
    columns = [np.asarray(column, np.float64) for column in (x, y, *(() if given is None else (given,)))]
    if len({len(column) for column in columns}) > 1:
        raise MeasureError(f"a correlation needs pairs; got columns of {', '.join(str(len(c)) for c in columns)} rows")
    group = np.arange(len(columns[0])) if clusters is None else np.asarray(clusters)
    table = np.column_stack(columns)
    known = np.isfinite(table).all(axis=1)
    table, group = table[known], group[known]
    count = len(np.unique(group))
    statistic = _partial if given is not None else _plain
    value, low, high = _resampled(_ranked(table) if method == "spearman" else table, group, statistic, samples, seed)
    p_value = None
    if value is not None and clusters is None:
        extra = table[:, 2:] if given is not None else None
        p_value = partial_correlation(table[:, 0], table[:, 1], extra, method).p_value
    return Correlation(value, low, high, p_value, len(table), count)


def gap(
    first: npt.ArrayLike, second: npt.ArrayLike, other: npt.ArrayLike, *, samples: int = SAMPLES, seed: int = 0
) -> Correlation:
    """r(first, other) - r(second, other) over the same items, with an interval from resampling the items."""
    table = np.column_stack([np.asarray(column, np.float64) for column in (first, second, other)])
    table = table[np.isfinite(table).all(axis=1)]
    value, low, high = _resampled(table, np.arange(len(table)), lambda r: r[:, 0, 2] - r[:, 1, 2], samples, seed)
    return Correlation(value, low, high, None, len(table), len(table))


def _plain(r: Table) -> Table:
    return r[:, 0, 1]


def _partial(r: Table) -> Table:
    """The correlation of the first two columns after the third has been regressed out of both."""
    left, right = r[:, 0, 2], r[:, 1, 2]
    rest = (1 - left**2) * (1 - right**2)
    return (r[:, 0, 1] - left * right) / np.sqrt(np.where(rest > 1e-12, rest, np.nan))


def _ranked(table: Table) -> Table:
    """Mid-ranks of each column. Resamples keep the ranks of the full data, so that a draw is a weighted sum."""
    from scipy.stats import rankdata

    return np.asarray(np.apply_along_axis(rankdata, 0, table)) if len(table) else table


def _resampled(
    table: Table, group: npt.NDArray[Any], statistic: Callable[[Table], Table], samples: int, seed: int
) -> tuple[float | None, float | None, float | None]:
    """A statistic of the correlations between columns, and its interval over whole groups drawn with replacement.

    Draws in which a column does not vary are ignored.
    """
    if len(table) < 1 + table.shape[1] or (np.ptp(table, axis=0) == 0).any():
        return None, None, None
    label = np.unique(group, return_inverse=True)[1].ravel()
    groups = int(label.max()) + 1
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(groups, np.full(groups, 1 / groups), size=samples) if groups > 1 else np.empty((0, groups))
    weights = np.concatenate([np.ones((1, groups)), drawn])[:, label]
    values = statistic(_correlations(table, weights))
    if not np.isfinite(values[0]):
        return None, None, None
    rest = values[1:][np.isfinite(values[1:])]
    low, high = np.quantile(rest, [0.025, 0.975]).tolist() if len(rest) else (None, None)
    return float(values[0]), low, high


def _correlations(table: Table, weights: Table) -> Table:
    """Correlations between columns for each row of weights, [draws, columns, columns]; NaN where one is constant."""
    table = (table - table.mean(axis=0)) / table.std(axis=0)
    share = weights / weights.sum(axis=1, keepdims=True)
    mean = share @ table
    columns = table.shape[1]
    products = (table[:, :, None] * table[:, None, :]).reshape(len(table), -1)
    spread = (share @ products).reshape(-1, columns, columns) - mean[:, :, None] * mean[:, None, :]
    variance = np.einsum("dii->di", spread)
    size = np.sqrt(np.where(variance > 1e-9, variance, np.nan))
    return np.asarray(np.clip(spread / (size[:, :, None] * size[:, None, :]), -1.0, 1.0))
