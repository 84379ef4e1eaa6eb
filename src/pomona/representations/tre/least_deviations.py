"""Least absolute deviations (l1 regression) by an interior-point method, with a proved lower bound.

For one coordinate y of the representations, TRE under l1 is min_b sum |y - X b|. This is a linear programme with dual

    max y'w   subject to   X'w = 0,  -1 <= w <= 1,

so any feasible w bounds the minimum from below. The method follows the central path of both programmes with Mehrotra's
predictor and corrector (the Frisch-Newton method of Portnoy and Koenker 1997, for the median). Each iteration solves a
weighted normal equation X' diag(q) X; about fifteen iterations give nine digits. The bound does not trust the path:
`dual_bound` makes any w feasible by projection and scaling, and then only multiplies.
"""

from __future__ import annotations

import numpy as np

from pomona.base.arrays import Floats, Ints
from pomona.base.compiled import compiled
from pomona.representations.tre.design import Design, FloatArray


def least_deviations(design: Design, targets: Floats, tolerance: float = 1e-10) -> tuple[FloatArray, float]:
    """The lexicon that minimises sum |Y - C E|, and a proved lower bound on the minimum."""
    targets = np.ascontiguousarray(targets, np.float64)
    basis = _independent_columns(design)
    matrix = np.ascontiguousarray(design.dense()[:, basis])
    start = np.asarray(np.linalg.solve(matrix.T @ matrix, matrix.T @ targets), np.float64)
    small, sign = _interior_point(matrix, targets, np.ascontiguousarray(start), tolerance)
    lexicon = np.zeros((design.columns, targets.shape[1]))
    lexicon[basis] = small
    return design.least_norm(lexicon), dual_bound(design, targets, sign)


def dual_bound(design: Design, targets: Floats, sign: FloatArray) -> float:
    """A lower bound on min_E sum |Y - C E| from any guess at the signs of the residuals, by weak duality."""
    feasible = sign - design.times(design.solve(design.transposed_times(sign)))
    feasible /= np.maximum(1.0, np.abs(feasible).max(axis=0, initial=0.0))
    # After projection C'w is zero up to rounding, which costs at most |C'w| |E|, far below the digits reported.
    return float(np.maximum(np.einsum("nd,nd->d", feasible, targets), 0.0).sum())


def _independent_columns(design: Design) -> Ints:
    """A largest set of linearly independent columns."""
    if design.rank == design.columns:
        return np.arange(design.columns, dtype=np.int64)
    from scipy.linalg import qr

    _, order = qr(design.gram, mode="r", pivoting=True)
    return np.sort(order[: design.rank]).astype(np.int64)


@compiled
def least_values(matrices: Floats, Y: Floats, tolerance: float) -> FloatArray:
    """What some lexicon reaches at each of many matrices [points, items, columns]; columns may depend on each other."""
    values = np.empty(len(matrices))
    for point in range(len(matrices)):
        X = np.ascontiguousarray(matrices[point])
        normal = X.T @ X
        top = np.trace(normal)
        lexicon = np.zeros((X.shape[1], Y.shape[1]))
        if top > 0.0:
            for k in range(len(normal)):
                normal[k, k] += 1e-12 * top
            lexicon, _ = _interior_point(X, Y, np.linalg.solve(normal, X.T @ Y), tolerance)
        values[point] = np.abs(Y - X @ lexicon).sum()
    return values


@compiled
def _interior_point(X: Floats, Y: Floats, start: Floats, tolerance: float) -> tuple[FloatArray, FloatArray]:
    """Follow one path for each column of Y. In the dual, a = (1 + w) / 2 lies in (0, 1) and s = 1 - a is its slack."""
    n, p = X.shape
    lexicon = np.zeros((p, Y.shape[1]))
    signs = np.zeros((n, Y.shape[1]))
    for column in range(Y.shape[1]):
        y = np.ascontiguousarray(Y[:, column])
        scale = np.abs(y).max()
        if scale == 0.0:
            continue
        y = y / scale
        b = np.ascontiguousarray(start[:, column]) / scale
        a = np.full(n, 0.5)
        s = np.full(n, 0.5)
        # up - down = residual: its positive and negative part, the multipliers of s >= 0 and a >= 0, kept positive
        residual = y - X @ b
        up = np.maximum(residual, 0.0) + 1e-3
        down = np.maximum(-residual, 0.0) + 1e-3
        best, best_b = np.abs(residual).sum(), b.copy()
        for _ in range(60):
            gap = (down * a).sum() + (up * s).sum()
            if gap <= tolerance * (1.0 + best):
                break
            q = 1.0 / (down / a + up / s)
            residual = up - down
            normal = _normal(X, q)
            # predictor: aim at the boundary
            db = np.linalg.solve(normal, X.T @ (q * residual))
            da = q * (residual - X @ db)
            ddown = -down - down / a * da
            dup = -up + up / s * da
            fp = min(1.0, 0.9995 * min(_room(a, da), _room(s, -da)))
            fd = min(1.0, 0.9995 * min(_room(down, ddown), _room(up, dup)))
            if min(fp, fd) < 1.0:
                # corrector: stay near the central path, with second-order terms
                ahead = ((down + fd * ddown) * (a + fp * da)).sum() + ((up + fd * dup) * (s - fp * da)).sum()
                mu = gap * (ahead / gap) ** 3 / (2.0 * n)
                pull = mu / a - mu / s - da * ddown / a - da * dup / s
                db = np.linalg.solve(normal, X.T @ (q * (residual + pull)))
                first = da.copy()
                da = q * (residual + pull - X @ db)
                ddown_new = mu / a - down - down / a * da - first * ddown / a
                dup_new = mu / s - up + up / s * da + first * dup / s
                ddown, dup = ddown_new, dup_new
                fp = min(1.0, 0.9995 * min(_room(a, da), _room(s, -da)))
                fd = min(1.0, 0.9995 * min(_room(down, ddown), _room(up, dup)))
            a = a + fp * da
            s = s - fp * da
            b = b + fd * db
            down = down + fd * ddown
            up = up + fd * dup
            value = np.abs(y - X @ b).sum()
            if value < best:
                best, best_b = value, b.copy()
        lexicon[:, column] = best_b * scale
        signs[:, column] = 2.0 * a - 1.0
    return lexicon, signs


@compiled
def _normal(X: Floats, q: Floats) -> FloatArray:
    """X' diag(q) X, with a ridge at rounding level so that a nearly converged system can still be solved."""
    weighted = X * np.sqrt(q).reshape(-1, 1)
    out = weighted.T @ weighted
    top = 0.0
    for k in range(len(out)):
        top = max(top, out[k, k])
    for k in range(len(out)):
        out[k, k] += 1e-14 * top
    return out


@compiled
def _room(value: Floats, change: Floats) -> float:
    """The longest step that keeps every value positive."""
    longest = 1e20
    for k in range(len(value)):
        if change[k] < 0.0:
            longest = min(longest, -value[k] / change[k])
    return longest
