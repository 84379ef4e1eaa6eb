"""The least squared error of `weighted` and `diagonal`, certified: a search over cells of the few free numbers.

Composing with a x + b y gives a leaf the weight a^i b^j, where i and j count how often its path from the root goes left
and right. Once (a, b) is fixed, the prediction is linear in the lexicon, so what is left is a function f(a, b) of two
numbers. `diagonal` has one such function for each coordinate, and all of them share the same matrices.

All real (a, b) are covered by a few *charts*: the square |a|, |b| <= 1, and for each number the outside where it is
the largest, in the variables (b / a, 1 / a). A column may be divided by what its entries have in common, since its
vector is free; then all entries are monomials with bounded values, and infinity is a point like any other.

A chart is cut into boxes. With D the matrix at a box's centre and Delta its change inside the box, the space of
predictions turns by an angle T with tan T <= |(I - P) Delta D^+| / (1 - |P Delta D^+|), where P projects on that space.
A vector at the angle phi from the space is then at least at phi - T, which bounds f in the whole box. Boxes whose bound
is too low are cut in two; the least bound of all boxes is a bound for all (a, b). Near points where D loses rank,
directions that the box cannot control are relaxed: they get a free vector for each monomial.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count, product
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Ints
from pomona.base.compiled import compiled
from pomona.representations.tre.derivations import Derivations
from pomona.representations.tre.design import FloatArray

DEGREE = 12  # the longest path whose weight is searched
SMALLEST = 1e-7  # of 1 / a, where the numbers of a point at infinity are computed
CONTROLLED = 0.25  # a direction whose relative change inside a box is larger is relaxed
CUT = 64  # boxes that are cut at once


@dataclass(frozen=True, eq=False)
class Chart:
    """Entries of the design as monomials of bounded variables; a point of the chart gives the free numbers."""

    row: npt.NDArray[np.int64]
    column: npt.NDArray[np.int64]
    exponent: npt.NDArray[np.int64]  # [entries, variables]
    sign: FloatArray  # [entries]
    low: FloatArray  # [variables]
    face: tuple[int, float] | None  # the largest number and its sign, or None inside the square
    shape: tuple[int, int]  # rows, columns

    @cached_property
    def varying(self) -> npt.NDArray[np.bool_]:
        """The variables that matter."""
        return np.asarray((self.exponent > 0).any(axis=0))

    def numbers(self, points: FloatArray) -> FloatArray:
        """The free numbers at points of the chart, [points, numbers]."""
        if self.face is None:
            return points
        which, sign = self.face
        others = np.insert(points[:, :-1], which, 1.0, axis=1)
        return np.asarray(sign * others / np.maximum(points[:, -1:], SMALLEST))

    def matrices(self, points: FloatArray) -> FloatArray:
        """The design at points of the chart, [points, rows, columns]."""
        return self._filled(self.sign * _monomials(points, self.exponent))

    def slopes(self, points: FloatArray) -> list[FloatArray]:
        """The derivative of the design by each variable that matters."""
        found = []
        for t in np.flatnonzero(self.varying):
            less = self.exponent.copy()
            less[:, t] = np.maximum(less[:, t] - 1, 0)
            found.append(self._filled(self.sign * self.exponent[:, t] * _monomials(points, less)))
        return found

    def remainder(self, points: FloatArray, half: FloatArray) -> FloatArray:
        """What the first derivatives leave of each entry's change inside a box, at most."""
        size = np.abs(points)
        rest = _monomials(size + half, self.exponent) - _monomials(size, self.exponent)
        for t in np.flatnonzero(self.varying):
            less = self.exponent.copy()
            less[:, t] = np.maximum(less[:, t] - 1, 0)
            rest -= half[:, t, None] * self.exponent[:, t] * _monomials(size, less)
        return self._filled(np.maximum(rest, 0.0))

    @cached_property
    def patterns(self) -> FloatArray:
        """The fixed matrices of which the design is a combination, one for each monomial."""
        _, which = np.unique(self.exponent, axis=0, return_inverse=True)
        found = np.zeros((int(which.max()) + 1, *self.shape))
        np.add.at(found, (which.ravel(), self.row, self.column), self.sign)
        return found

    def _filled(self, values: FloatArray) -> FloatArray:
        out = np.zeros((len(values), self.shape[0] * self.shape[1]))
        place = self.row * self.shape[1] + self.column
        if len(np.unique(place)) == len(place):
            out[:, place] = values
        else:
            np.add.at(out.T, place, values.T)
        return out.reshape(len(values), *self.shape)


@dataclass(frozen=True, eq=False)
class Paths:
    """Every leaf of the distinct derivations: its primitive, and how often its path takes each side."""

    row: npt.NDArray[np.int64]
    column: npt.NDArray[np.int64]
    exponent: npt.NDArray[np.int64]  # [leaves, arity]
    group: npt.NDArray[np.int64]  # the distinct derivation of each item
    shape: tuple[int, int]

    @staticmethod
    def of(derivations: Derivations) -> Paths | None:
        """None where a path is too long to search its weights."""
        _, first, group = np.unique(derivations.root, return_index=True, return_inverse=True)
        trees = derivations.take(first)
        above = np.where(trees.parent >= 0, trees.parent + np.repeat(trees.start[:-1], np.diff(trees.start)), -1)
        exponent = np.asarray(_exponents(above, derivations.arity), np.int64)
        leaf = trees.primitive >= 0
        if exponent[leaf].sum(axis=1).max() > DEGREE:
            return None
        shape = (len(first), len(derivations.names))
        return Paths(trees.row[leaf], trees.primitive[leaf], exponent[leaf], group.ravel().astype(np.int64), shape)

    def charts(self) -> list[Chart]:
        """Charts that cover all numbers; outside charts alone where only ratios matter."""
        arity, ones = self.exponent.shape[1], np.ones(len(self.row))
        total = self.exponent.sum(axis=1)
        most = np.zeros(self.shape[1], np.int64)
        np.maximum.at(most, self.column, total)
        found = []
        for which in range(arity):
            powers = np.concatenate(
                [np.delete(self.exponent, which, axis=1), (most[self.column] - total)[:, None]], axis=1
            )
            low = np.array([-1.0] * (arity - 1) + [0.0])
            for sign in (1.0, -1.0):
                face = Chart(self.row, self.column, powers, sign**total, low, (which, sign), self.shape)
                found.append(_divided(face))
        if not any(chart.varying[-1] for chart in found):
            return [chart for chart in found if chart.face and chart.face[1] > 0.0]
        inside = Chart(self.row, self.column, self.exponent, ones, np.full(arity, -1.0), None, self.shape)
        return [_divided(inside), *found]


def _divided(chart: Chart) -> Chart:
    """Divide every column by the monomial that its entries have in common."""
    least = np.full((chart.shape[1], chart.exponent.shape[1]), DEGREE + 1)
    np.minimum.at(least, chart.column, chart.exponent)
    return replace(chart, exponent=chart.exponent - least[chart.column])


@dataclass(frozen=True, eq=False)
class Squares:
    """Squared errors to be explained: the mean of each group of equal derivations, weighted by its size."""

    rows: FloatArray  # [groups, coordinates]
    weight: FloatArray  # [groups]: square roots of the sizes
    within: FloatArray  # [coordinates]: what is left inside the groups, whatever is predicted
    together: bool  # one function of all coordinates (weighted), or one for each (diagonal)

    @staticmethod
    def of(paths: Paths, targets: FloatArray, together: bool) -> Squares:
        size = np.bincount(paths.group).astype(np.float64)
        means = np.zeros((len(size), targets.shape[1]))
        np.add.at(means, paths.group, targets)
        means /= size[:, None]
        within = ((targets - means[paths.group]) ** 2).sum(axis=0)
        weight = np.sqrt(size)
        return Squares(means * weight[:, None], weight, within, together)

    @cached_property
    def power(self) -> FloatArray:
        return np.asarray((self.rows**2).sum(axis=0))

    def joined(self, values: FloatArray) -> FloatArray:
        """[..., coordinates] as one number for each function."""
        return values.sum(axis=-1, keepdims=True) if self.together else values

    def errors(self, left: FloatArray) -> FloatArray:
        """What an orthonormal basis [points, rows, rank] leaves, [points, coordinates]."""
        explained = ((left.transpose(0, 2, 1) @ self.rows) ** 2).sum(axis=1)
        return np.asarray(np.maximum(self.power - explained, 0.0))


def grid(charts: list[Chart], points: int) -> Iterator[tuple[Chart, FloatArray, FloatArray]]:
    """Each chart with the centres of its boxes and their half widths: about `points` in all."""
    for chart in charts:
        varying = int(chart.varying.sum())
        each = max(round((points / len(charts)) ** (1.0 / max(varying, 1))), 2)
        axes = []
        for low, moves in zip(chart.low, chart.varying, strict=True):
            edges = np.linspace(low, 1.0, each + 1) if moves else np.array([low, 1.0])
            axes.append(np.stack([(edges[1:] + edges[:-1]) / 2, (edges[1:] - edges[:-1]) / 2], axis=1))
        cells = np.array(list(product(*axes)))  # [boxes, variables, 2]
        yield chart, np.ascontiguousarray(cells[:, :, 0]), np.ascontiguousarray(cells[:, :, 1])


def bases(matrices: FloatArray) -> FloatArray:
    """An orthonormal basis of the columns of each matrix; directions that are missing are zero."""
    left, stretch, _ = np.linalg.svd(matrices, full_matrices=False)
    kept = stretch > 1e-10 * np.maximum(stretch[:, :1], 1e-300)
    return np.asarray(left * kept[:, None, :])


@dataclass(frozen=True, eq=False)
class Certified:
    """The outcome of the search: the least bound of all boxes, and the best point seen for each function."""

    lower: FloatArray  # [functions]: sums of squares, with what is left inside groups
    best: FloatArray  # [functions]
    numbers: FloatArray  # [functions, numbers]: where the best is reached
    boxes: int


def certify(charts: list[Chart], squares: Squares, known: FloatArray, share: float, budget: int) -> Certified:
    """Cut boxes until every function is proved to within `share` of the best known, or the budget is used up.

    `known` are the best errors found elsewhere, [functions], without what is left inside groups.
    """
    best, where = known.copy(), np.full((len(known), 1), np.nan)
    closed = np.full(len(known), np.inf)
    heap: list[tuple[float, int, int, Any, Any, FloatArray]] = []
    inside = squares.joined(squares.within)
    used, ticket = 0, count()

    def bounded(chart: int, centre: FloatArray, half: FloatArray) -> None:
        nonlocal best, where, used
        values, lower = box_bounds(charts[chart], squares, centre, half)
        used += len(centre)
        numbers = charts[chart].numbers(centre)
        if where.shape[1] != numbers.shape[1]:
            where = np.full((len(known), numbers.shape[1]), np.nan)
        top = values.argmin(axis=0)
        for k, point in enumerate(top):
            if values[point, k] < best[k]:
                best[k], where[k] = values[point, k], numbers[point]
        goal = (best + inside) * (1.0 - share) - inside
        for one in range(len(centre)):
            slack = float(((lower[one] - goal) / np.maximum(best + inside, 1e-300)).min())
            if slack >= 0.0:
                np.minimum(closed, lower[one], out=closed)
            else:
                heapq.heappush(heap, (slack, next(ticket), chart, centre[one], half[one], lower[one]))

    for number, (_, centre, half) in enumerate(grid(charts, CUT * len(charts))):
        bounded(number, centre, half)
    while heap and used < budget:
        batch = [heapq.heappop(heap) for _ in range(min(CUT, len(heap)))]
        for number in sorted({one[2] for one in batch}):
            centre = np.array([one[3] for one in batch if one[2] == number])
            half = np.array([one[4] for one in batch if one[2] == number])
            bounded(number, *_halved(centre, half, charts[number].varying))
    for one in heap:
        np.minimum(closed, one[5], out=closed)
    return Certified(np.minimum(closed, best) + inside, best + inside, where, used)


def _halved(centre: FloatArray, half: FloatArray, varying: Any) -> tuple[FloatArray, FloatArray]:
    """Cut every box in two along its longest side that matters."""
    rows = np.arange(len(centre))
    along = np.where(varying, half, -1.0).argmax(axis=1)
    smaller = half.copy()
    smaller[rows, along] /= 2
    moved = np.zeros_like(centre)
    moved[rows, along] = smaller[rows, along]
    return np.concatenate([centre - moved, centre + moved]), np.concatenate([smaller, smaller])


def box_bounds(chart: Chart, squares: Squares, centre: FloatArray, half: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The errors at the centres of boxes and lower bounds inside them, [boxes, functions] each."""
    weight = squares.weight[:, None]
    middle = chart.matrices(centre) * weight
    left, stretch, right = np.linalg.svd(middle, full_matrices=False)
    kept = stretch > 1e-10 * np.maximum(stretch[:, :1], 1e-300)
    values = squares.errors(left * kept[:, None, :])
    inverse = np.where(kept, 1.0 / np.where(kept, stretch, 1.0), 0.0)
    back = right.transpose(0, 2, 1) * inverse[:, None, :]  # V / s
    rest = np.linalg.norm((chart.remainder(centre, half) * weight) @ np.abs(back), axis=1)  # of each direction
    along, across, each = rest_norm(rest), rest_norm(rest), rest.copy()
    moves = []
    for t, slope in zip(np.flatnonzero(chart.varying), chart.slopes(centre), strict=True):
        change = (slope * weight) @ back
        flat = left @ (left.transpose(0, 2, 1) @ change)
        size = half[:, t]
        along = along + size * np.linalg.norm(flat, 2, axis=(1, 2))
        across = across + size * np.linalg.norm(change - flat, 2, axis=(1, 2))
        each += size[:, None] * np.linalg.norm(change, axis=1)
        moves.append((size, slope))
    turned = np.where(along < 1.0, np.arctan2(across, np.maximum(1.0 - along, 1e-300)), np.pi / 2)
    turned = np.where(kept.all(axis=1), turned, np.pi / 2)
    lower = _turned(values, squares.power, turned)
    for one in np.flatnonzero(turned > 0.3):
        control = kept[one] & (each[one] < CONTROLLED)
        if control.all() or not len(chart.patterns) < 40:
            continue
        relaxed = _relaxed(chart, squares, right[one], control, [(size[one], slope[one]) for size, slope in moves],
                           middle[one], chart.remainder(centre[one : one + 1], half[one : one + 1])[0])  # fmt: skip
        lower[one] = np.maximum(lower[one], relaxed)
    return squares.joined(values), squares.joined(lower)


def rest_norm(rest: FloatArray) -> FloatArray:
    """The Frobenius norm from the norms of the columns."""
    return np.asarray(np.sqrt((rest**2).sum(axis=1)))


def _turned(values: FloatArray, power: FloatArray, turned: Any) -> FloatArray:
    """Errors at least as large as these remain when the space of predictions turns by an angle."""
    sine = np.sqrt(np.clip(values / np.maximum(power, 1e-300), 0.0, 1.0))
    angle = np.maximum(np.arcsin(sine) - np.asarray(turned)[..., None], 0.0)
    return np.asarray(power * np.sin(angle) ** 2)


def _relaxed(
    chart: Chart, squares: Squares, right: FloatArray, control: Any, moves: list[Any], middle: FloatArray, rest: Any
) -> FloatArray:
    """A bound for one box in which the directions that are not under control are free for every monomial."""
    weight = squares.weight[:, None]
    free = (chart.patterns * weight) @ right[~control].T  # [patterns, rows, free directions]
    basis = bases(free.transpose(1, 0, 2).reshape(1, len(weight), -1))[0]
    rows = squares.rows - basis @ (basis.T @ squares.rows)
    power = (rows**2).sum(axis=0)
    if not control.any():
        return np.asarray(power)
    kept = right[control].T

    def outside(matrix: FloatArray) -> FloatArray:
        image = matrix @ kept
        return np.asarray(image - basis @ (basis.T @ image))

    left, stretch, turn = np.linalg.svd(outside(middle), full_matrices=False)
    if stretch[-1] <= 1e-10 * stretch[0]:
        return np.zeros(len(power))
    back = turn.T / stretch
    along = across = float(np.linalg.norm((rest * weight) @ np.abs(kept) @ np.abs(back)))
    for size, slope in moves:
        change = outside(slope * weight) @ back
        flat = left @ (left.T @ change)
        along += float(size * np.linalg.norm(flat, 2))
        across += float(size * np.linalg.norm(change - flat, 2))
    if along >= 1.0:
        return np.zeros(len(power))
    values = np.maximum(power - ((left.T @ rows) ** 2).sum(axis=0), 0.0)
    return _turned(values, power, np.arctan2(across, 1.0 - along))


def _monomials(points: FloatArray, exponent: npt.NDArray[np.int64]) -> FloatArray:
    """The product of powers, [points, entries]."""
    out = np.ones((len(points), len(exponent)))
    for t in range(exponent.shape[1]):
        if exponent[:, t].any():
            out *= points[:, t, None] ** exponent[:, t]
    return out


@compiled
def _exponents(above: Ints, arity: int) -> Ints:
    """How often the path from the root to each node takes each side; parents come after their parts."""
    side = np.zeros(len(above), np.int64)
    parts = np.zeros(len(above), np.int64)
    for node in range(len(above)):
        if above[node] >= 0:
            side[node] = parts[above[node]]
            parts[above[node]] += 1
    out = np.zeros((len(above), arity), np.int64)
    for node in range(len(above) - 1, -1, -1):
        if above[node] >= 0:
            out[node] = out[above[node]]
            out[node, side[node]] += 1
    return out
