"""Fits compared: two models of the same items, TRE against a covariate. (`layers` compares those of a network.)"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base.errors import MeasureError, SpecError
from pomona.representations.tre.checks import generator
from pomona.representations.tre.fit import TreFit


@dataclass(frozen=True)
class Comparison:
    """The difference in TRE between two fits of the same items, first minus second."""

    difference: float
    low: float
    high: float
    level: float
    p_value: float  # two-sided, by flipping the sign of whole derivations
    better: float  # the share of items that the first fit reconstructs more closely


def compare_fits(first: TreFit, second: TreFit, samples: int = 2000, seed: int = 0, level: float = 0.95) -> Comparison:
    """A paired comparison. Items are matched by row and resampled by derivation, since equal ones vary together."""
    if len(first.per_item) != len(second.per_item):
        raise MeasureError(
            f"a paired comparison needs the same items; got {len(first.per_item)} and {len(second.per_item)} rows."
        )
    if first.distance.name != second.distance.name:
        raise MeasureError(
            f"the fits use different distances ({first.distance.name} and {second.distance.name}), "
            f"so their difference has no scale."
        )
    for row in range(len(first.per_item)):
        if row < 1000 and first.derivations.tree(row) != second.derivations.tree(row):
            raise MeasureError(f"row {row}: the two fits have different derivations; sort both the same way first.")
    change = first.per_item - second.per_item
    group = np.unique(first.derivations.root, return_inverse=True)[1].ravel()
    sums, sizes = np.bincount(group, change), np.bincount(group).astype(np.float64)
    rng = generator(seed)
    observed = float(change.mean())
    means = np.empty(samples)
    flipped = np.empty(samples)
    for sample in range(samples):
        chosen = rng.integers(len(sums), size=len(sums))
        means[sample] = sums[chosen].sum() / sizes[chosen].sum()
        flipped[sample] = (sums * rng.choice([-1.0, 1.0], size=len(sums))).sum() / sizes.sum()
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    extreme = int((np.abs(flipped) >= abs(observed) - 1e-12).sum())
    return Comparison(
        observed, float(low), float(high), level, (1 + extreme) / (1 + samples), float((change < 0).mean())
    )


@dataclass(frozen=True)
class PartialCorrelation:
    """A correlation after the covariates have been regressed out of both sides."""

    value: float
    p_value: float
    plain: float  # the same correlation without covariates
    items: int
    method: str
    reason: str | None = None


def partial_correlation(
    x: npt.ArrayLike, y: npt.ArrayLike, covariates: npt.ArrayLike | None = None, method: str = "spearman"
) -> PartialCorrelation:
    """Correlate two columns given covariates, for example per-item TRE with human judgements given word frequency.

    Spearman correlates ranks; covariates are ranked too and regressed out of both sides. The p-value is Student's t
    with items - 2 - covariates degrees of freedom.
    """
    from scipy.stats import rankdata, t

    if method not in ("spearman", "pearson"):
        raise SpecError(f"method is 'spearman' or 'pearson', got {method!r}.")
    left, right = np.asarray(x, np.float64).ravel(), np.asarray(y, np.float64).ravel()
    extra = (
        np.empty((len(left), 0)) if covariates is None else np.asarray(covariates, np.float64).reshape(len(left), -1)
    )
    table = np.column_stack([left, right, extra]) if len(left) == len(right) else None
    if table is None:
        raise MeasureError(f"a correlation needs pairs; got {len(left)} and {len(right)} values.")
    if not np.isfinite(table).all():
        raise MeasureError(
            f"row {int(np.argmax(~np.isfinite(table).all(axis=1)))}: the values to correlate hold NaN or infinity."
        )
    freedom = len(left) - 2 - extra.shape[1]
    if freedom < 1:
        raise MeasureError(f"{len(left)} items are too few for a correlation with {extra.shape[1]} covariates.")
    if method == "spearman":
        table = np.apply_along_axis(rankdata, 0, table)
    table = table - table.mean(axis=0)
    plain = _cosine(table[:, 0], table[:, 1])
    known = table[:, 2:]
    rest = table[:, :2] - known @ np.linalg.lstsq(known, table[:, :2], rcond=None)[0] if known.size else table[:, :2]
    if (np.linalg.norm(rest, axis=0) <= 1e-9 * np.maximum(np.linalg.norm(table[:, :2], axis=0), 1e-300)).any():
        reason = "one side is constant, or the covariates determine it"
        return PartialCorrelation(float("nan"), float("nan"), plain, len(left), method, reason)
    value = float(np.clip(_cosine(rest[:, 0], rest[:, 1]), -1.0, 1.0))
    statistic = abs(value) * np.sqrt(freedom / max(1.0 - value**2, 1e-300))
    return PartialCorrelation(value, float(2.0 * t.sf(statistic, freedom)), plain, len(left), method)


def _cosine(left: Any, right: Any) -> float:
    size = float(np.linalg.norm(left) * np.linalg.norm(right))
    return float(left @ right) / size if size > 0 else float("nan")
