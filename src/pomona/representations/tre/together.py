"""Descent from many points at once: BFGS, and Nelder and Mead's simplexes, on an array of points.

A start of a small problem costs little if many descend together: each step is a few array operations for all of them.
The steps of BFGS follow the weak Wolfe conditions, found by bisection, with which it also gets along corners (Lewis
and Overton). A simplex needs no slope: it is for functions of two or three numbers that lose rank in places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pomona.representations.tre.design import FloatArray

DECREASE, FLATTER = 1e-4, 0.9  # weak Wolfe: the value falls by a share of the promise, and the slope flattens
TRIES = 25  # of a step
ROUNDS = 4  # of a descent in units of each unknown's own size

Values = Callable[[FloatArray], FloatArray]  # points [many, n] to values [many]
Slope = Callable[[FloatArray], tuple[FloatArray, FloatArray]]  # points [many, n] to values [many] and slopes [many, n]


def descend_together(slope: Slope, points: FloatArray, limit: int, tolerance: float) -> tuple[FloatArray, FloatArray]:
    """The values and the points where each start ends: after `limit` steps, or when a step gains less than a share."""
    at = points.copy()
    with np.errstate(all="ignore"):
        value, grad = slope(at)
        value = np.where(np.isfinite(value), value, np.inf)
        inverse = np.broadcast_to(np.eye(at.shape[1]), (*at.shape, at.shape[1])).copy()  # of each curvature
        fresh = np.ones(len(at), np.bool_)
        live = np.flatnonzero(np.isfinite(value))
        for _ in range(limit):
            if not len(live):
                break
            here, now, down = at[live], value[live], grad[live]
            along = -np.einsum("bij,bj->bi", inverse[live], down)
            lost = ~((along * down).sum(axis=1) < 0.0)
            along[lost], inverse[live[lost]] = -down[lost], np.eye(at.shape[1])
            first = np.where(fresh[live], np.minimum(1.0, 1.0 / np.maximum(np.abs(down).sum(axis=1), 1e-300)), 1.0)
            length, after, turned = _steps(slope, here, now, down, along, first)
            moved = length[:, None] * along
            _learn(inverse, fresh, live, moved, turned - down)
            at[live], value[live], grad[live] = here + moved, after, turned
            live = live[(length > 0.0) & (now - after > tolerance * np.maximum(np.abs(now), 1e-12))]
    return value, at


def descend_better(
    slopes: Sequence[Slope], points: FloatArray, *, short: int, limit: int, share: int, fewest: int, tolerance: float
) -> tuple[FloatArray, FloatArray]:
    """Where the better points end: one of `share`, and at least `fewest`, as they stand after a `short` descent.

    They descend by one slope after another, as of a distance that is rounded off less and less.
    """
    value, at = descend_together(slopes[0], points, short, tolerance)
    better = np.argsort(value, kind="stable")[: max(len(at) // share, fewest)]
    value, at = value[better], at[better]
    for slope in slopes:
        value, at = descend_together(slope, at, limit, tolerance)
    return value, at


def distinct(value: FloatArray, most: int) -> list[int]:
    """The points with the least values, one for each value."""
    found: list[int] = []
    for one in np.argsort(value, kind="stable").tolist():
        if len(found) == most or not np.isfinite(value[one]):
            break
        if not found or value[one] > value[found[-1]] + 1e-4 * max(abs(value[found[-1]]), 1e-3):
            found.append(one)
    return found


def descend_rescaled(slope: Slope, value: FloatArray, at: FloatArray, limit: int, tolerance: float) -> None:
    """Go on from each point in units of its own size, in place: unknowns may shrink, each at its own rate."""
    for one in range(len(at)):
        for _ in range(ROUNDS):
            size = np.maximum(np.abs(at[one]), 1e-12 * np.abs(at[one]).max())

            def scaled(points: FloatArray, size: FloatArray = size) -> tuple[FloatArray, FloatArray]:
                own, grad = slope(points * size)
                return own, grad * size

            further, ends = descend_together(scaled, (at[one] / size)[None], limit, tolerance)
            if not further[0] < value[one]:
                break
            value[one], at[one] = further[0], ends[0] * size


def _steps(
    slope: Slope, here: FloatArray, now: FloatArray, down: FloatArray, along: FloatArray, first: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """How far each point goes, with the value and the slope there; 0 where no step lowers the value."""
    promised = (along * down).sum(axis=1)
    low, high, trial = np.zeros(len(here)), np.full(len(here), np.inf), first.copy()
    length, after, turned = np.zeros(len(here)), now.copy(), down.copy()
    open_ = np.arange(len(here))
    for _ in range(TRIES):
        if not len(open_):
            break
        value, grad = slope(here[open_] + trial[open_, None] * along[open_])
        value = np.where(np.isfinite(value), value, np.inf)
        falls = value <= now[open_] + DECREASE * trial[open_] * promised[open_]
        flat = (grad * along[open_]).sum(axis=1) >= FLATTER * promised[open_]
        best = falls & (flat | (value < after[open_]))
        chosen = open_[best]
        length[chosen], after[chosen], turned[chosen] = trial[chosen], value[best], grad[best]
        high[open_[~falls]] = trial[open_[~falls]]
        low[open_[falls]] = trial[open_[falls]]
        open_ = open_[~(falls & flat)]
        trial[open_] = np.where(np.isfinite(high[open_]), (low[open_] + high[open_]) / 2, 2.0 * low[open_])
    return length, after, turned


def _learn(inverse: FloatArray, fresh: Any, live: Any, moved: FloatArray, turn: FloatArray) -> None:
    """BFGS's update of the inverse curvature, where the slope turned the right way."""
    product = (moved * turn).sum(axis=1)
    kept = product > 1e-12 * np.linalg.norm(moved, axis=1) * np.linalg.norm(turn, axis=1)
    which, moved, turn, product = live[kept], moved[kept], turn[kept], product[kept]
    new = fresh[which]
    inverse[which[new]] *= (product[new] / (turn[new] ** 2).sum(axis=1))[:, None, None]
    fresh[which] = False
    image = np.einsum("bij,bj->bi", inverse[which], turn)
    outer = moved[:, :, None] * image[:, None, :]
    factor = (1.0 + (turn * image).sum(axis=1) / product) / product
    inverse[which] += factor[:, None, None] * moved[:, :, None] * moved[:, None, :]
    inverse[which] -= (outer + outer.transpose(0, 2, 1)) / product[:, None, None]


def shrink_together(values: Values, points: FloatArray, evaluations: int) -> tuple[FloatArray, FloatArray]:
    """The values and the points where the simplexes of Nelder and Mead end that begin at some points."""
    many, n = points.shape
    size = np.maximum(np.abs(points).max(axis=1), 1e-6)[:, None]
    corners = np.repeat(points[:, None], n + 1, axis=1)
    corners[:, 1:] += 0.05 * size[:, :, None] * np.eye(n)
    value = values(corners.reshape(-1, n)).reshape(many, n + 1)
    live, used = np.arange(many), n + 1
    while len(live) and used < evaluations:
        order = np.argsort(value[live], axis=1, kind="stable")
        at = np.take_along_axis(corners[live], order[:, :, None], axis=1)
        its = np.take_along_axis(value[live], order, axis=1)
        middle, worst = at[:, :-1].mean(axis=1), at[:, -1]
        mirrored = middle + (middle - worst)
        found = values(mirrored)
        # farther where the mirror image is the best; half-way, on the better side, where it would be the worst
        reach = np.where(found < its[:, 0], 2.0, np.where(found < its[:, -1], 0.5, -0.5))[:, None]
        asked = (found < its[:, 0]) | (found >= its[:, -2])
        other = np.full(len(live), np.inf)
        other[asked] = values((middle + reach * (middle - worst))[asked])
        taken = other < np.minimum(found, its[:, -1])
        kept = ~taken & (found < its[:, -2])
        lost = ~taken & ~kept
        at[kept, -1], its[kept, -1] = mirrored[kept], found[kept]
        at[taken, -1], its[taken, -1] = (middle + reach * (middle - worst))[taken], other[taken]
        if lost.any():
            at[lost, 1:] = (at[lost, 1:] + at[lost, :1]) / 2
            its[lost, 1:] = values(at[lost, 1:].reshape(-1, n)).reshape(-1, n)
        corners[live], value[live] = at, its
        used += 2
        wide = np.abs(at - at[:, :1]).max(axis=(1, 2)) > 1e-9 * size[live, 0]
        live = live[wide | (its.max(axis=1) - its.min(axis=1) > 1e-12)]
    best = value.argmin(axis=1)
    return value[np.arange(many), best], corners[np.arange(many), best]
