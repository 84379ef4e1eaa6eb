"""Correlations with intervals that know what was repeated: runs, not the epochs inside them.

found = correlate(tre, error, clusters=run)       # whole runs are resampled
found.value, found.low, found.high, found.p_value
gap(first, second, other)                          # how much two correlations with the same thing differ
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.errors import MeasureError, SpecError
from pomona.reconstruction import partial_correlation

SAMPLES = 2_000


@dataclass(frozen=True)
class Correlation:
    """A correlation with a 95 % interval from resampling, and what it is of."""

    value: float | None  # None where one side does not vary
    low: float | None
    high: float | None
    p_value: float | None  # Student's t, which takes items for independent; None where they come in clusters
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
    """Correlate two columns, perhaps given a third; rows with a missing value are left out."""
    if method not in ("pearson", "spearman"):
        raise SpecError(f"method is 'pearson' or 'spearman', got {method!r}")
    columns = [np.asarray(column, np.float64) for column in (x, y, *(() if given is None else (given,)))]
    if len({len(column) for column in columns}) > 1:
        raise MeasureError(f"a correlation needs pairs; got columns of {', '.join(str(len(c)) for c in columns)} rows")
    group = np.arange(len(columns[0])) if clusters is None else np.asarray(clusters)
    table = np.column_stack(columns)
    known = np.isfinite(table).all(axis=1)
    table, group = table[known], group[known]
    names, label = np.unique(group, return_inverse=True)
    value = _value(table, method)
    if value is None:
        return Correlation(None, None, None, None, len(table), len(names))
    drawn = _resampled(table, label, lambda rows: _value(rows, method), samples, seed)
    low, high = np.quantile(drawn, [0.025, 0.975]).tolist() if len(drawn) else (None, None)
    p_value = partial_correlation(table[:, 0], table[:, 1], table[:, 2:] if given is not None else None, method).p_value
    return Correlation(value, low, high, p_value if clusters is None else None, len(table), len(names))


def gap(
    first: npt.ArrayLike, second: npt.ArrayLike, other: npt.ArrayLike, *, samples: int = SAMPLES, seed: int = 0
) -> Correlation:
    """r(first, other) - r(second, other) over the same items, with an interval from resampling the items."""
    table = np.column_stack([np.asarray(column, np.float64) for column in (first, second, other)])
    table = table[np.isfinite(table).all(axis=1)]

    def difference(rows: npt.NDArray[np.float64]) -> float | None:
        one, two = _value(rows[:, [0, 2]], "pearson"), _value(rows[:, [1, 2]], "pearson")
        return None if one is None or two is None else one - two

    drawn = _resampled(table, np.arange(len(table)), difference, samples, seed)
    low, high = np.quantile(drawn, [0.025, 0.975]).tolist() if len(drawn) else (None, None)
    return Correlation(difference(table), low, high, None, len(table), len(table))


def _value(table: npt.NDArray[np.float64], method: str) -> float | None:
    """The correlation of the first two columns, given the third if there is one; None where it has no meaning."""
    from scipy.stats import rankdata

    extra = table.shape[1] - 2
    if len(table) < 3 + extra or (np.ptp(table, axis=0) == 0).any():
        return None
    r = np.corrcoef(table if method == "pearson" else np.apply_along_axis(rankdata, 0, table), rowvar=False)
    if not extra:
        return float(r[0, 1])
    rest = (1 - r[0, 2] ** 2) * (1 - r[1, 2] ** 2)
    return float((r[0, 1] - r[0, 2] * r[1, 2]) / np.sqrt(rest)) if rest > 1e-12 else None


def _resampled(
    table: npt.NDArray[np.float64],
    label: npt.NDArray[np.int64],
    statistic: Callable[[npt.NDArray[np.float64]], float | None],
    samples: int,
    seed: int,
) -> list[float]:
    """The statistic over whole clusters drawn with replacement; draws in which nothing varies are left out."""
    rng = np.random.default_rng(seed)
    members = [np.flatnonzero(label == one) for one in range(int(label.max(initial=-1)) + 1)]
    if len(members) < 2:
        return []
    alone = all(len(rows) == 1 for rows in members)
    drawn = []
    for _ in range(samples):
        chosen = rng.integers(len(members), size=len(members))
        rows = chosen if alone else np.concatenate([members[one] for one in chosen])
        found = statistic(table[rows])
        if found is not None:
            drawn.append(found)
    return drawn
