"""Fits of `weighted` and `diagonal` by variable projection: search the few free numbers, solve for the lexicon inside.

A general optimiser over lexicon and numbers together often ends in a poor local minimum. At fixed numbers the best
lexicon is an additive fit, so what is left is a function of two or three numbers (`cells`), which is searched on a
grid that covers them all, infinity included; the best points are polished, each with its own best lexicon.

Squared l2 has a certificate in addition where only one or two numbers matter. Under l1 and squared l2, the coordinates
of `diagonal` are separate problems of one coordinate each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pomona.representations.tre.additive import fit_linear
from pomona.representations.tre.cells import Chart, Paths, Squares, bases, certify, grid
from pomona.representations.tre.design import Design, FloatArray
from pomona.representations.tre.distances import L1, Distance, SqL2
from pomona.representations.tre.least_deviations import least_values
from pomona.representations.tre.multistart import Point, best_of_many, seconds_of_many
from pomona.representations.tre.together import shrink_together

POINTS = 384  # of the grid
ENTRIES = 60_000_000  # the largest number of matrix entries that a grid may compute
TRIED, POLISHED = 16, 4  # of the grid's best points, how many are fitted under the distance itself, and then polished
CONVERGING = ("sql2", "l1")  # distances whose additive fits are quick and exact
QUICK = 15  # iterations of the others, while points are compared
RAYS = 72  # directions of the free numbers from zero to infinity
SIZES = (1e-5, 1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0, 1e3)  # and their sizes
FEW, TRIED_OF_FEW, POLISHED_OF_FEW = 300, 48, 24  # the same of representations with so few numbers
EVALUATIONS = 160  # of the function of the free numbers, for each polished point
LARGEST = 1e7  # of the numbers of a point
CONTROLLED = 1e-7  # a direction of the predictions with a smaller share than this is not used while points move
SHARE = 0.009  # how closely the minimum is to be proved, a little less than `optimal` asks
BOXES = {0: 100, 1: 4000, 2: 500}  # the largest number of boxes, by the number of variables that matter
SMALL, DRAWN, DRAWN_FROM = 1000, 8, 32  # up to so many numbers, more starts of `diagonal`, drawn from the best points
ABSOLUTE_WIDTH = 12  # up to this many coordinates, l1 polishes each coordinate of `diagonal` alone


@dataclass(frozen=True, eq=False)
class Projected:
    """Candidates for the best fit, and a bound on the summed distance if one was proved."""

    points: list[Point]
    lower: float | None
    settled: bool  # whether the points have descended already


@dataclass(frozen=True, eq=False)
class Search:
    """One function of the free numbers: the least distance of all lexicons to some coordinates."""

    paths: Paths
    targets: FloatArray  # [items, coordinates]
    distance: Distance

    def design(self, numbers: FloatArray) -> Design:
        with np.errstate(over="ignore"):
            weight = np.prod(numbers[None, :] ** self.paths.exponent, axis=1)
        matrix = np.zeros(self.paths.shape)
        np.add.at(matrix, (self.paths.row, self.paths.column), weight)
        return Design.from_dense(np.clip(matrix, -1e30, 1e30)[self.paths.group])

    def lexicon(self, numbers: FloatArray) -> tuple[float, FloatArray]:
        """The least summed distance at these numbers, and the lexicon that reaches it."""
        design = self.design(numbers)
        size = np.sqrt(np.bincount(design.column, design.weight**2, minlength=design.columns))
        scale = np.where(size > 0.0, 1.0 / np.where(size > 0.0, size, 1.0), 0.0)
        even = Design(design.first, design.column, design.weight * scale[design.column], design.columns)
        limit = 500 if self.distance.name in CONVERGING else QUICK
        fit = fit_linear(even, self.targets, self.distance, tolerance=1e-7, limit=limit, bounded=False)
        return float(fit.per_item.sum()), fit.lexicon * scale[:, None]

    def value(self, numbers: FloatArray) -> float:
        if not np.isfinite(numbers).all() or np.abs(numbers).max() > LARGEST:
            return np.inf
        try:
            return self.lexicon(numbers)[0]
        except np.linalg.LinAlgError:
            return np.inf

    def values(self, points: FloatArray) -> FloatArray:
        """The same at many points; where the problem is small all at once, and a little too high near lost rank."""
        if self.targets.size > FEW or self.distance.name not in CONVERGING:
            return np.array([self.value(point) for point in points])
        found = np.full(len(points), np.inf)
        near = np.flatnonzero((np.abs(points) <= LARGEST).all(axis=1))
        matrices = _even_matrices(self.paths, points[near])
        if self.distance.name == "l1":
            found[near] = self._absolute(matrices[:, self.paths.group], points[near])
            return found
        squares = Squares.of(self.paths, self.targets, together=True)
        left, stretch, _ = np.linalg.svd(matrices * squares.weight[:, None], full_matrices=False)
        kept = stretch > CONTROLLED * np.maximum(stretch[:, :1], 1e-300)
        found[near] = squares.errors(left * kept[:, None]).sum(axis=1) + squares.within.sum()
        return found

    def _absolute(self, matrices: FloatArray, points: FloatArray) -> FloatArray:
        """Under l1; where a matrix cannot be solved it is halved out of the batch, and its point fitted alone."""
        try:
            return least_values(matrices, self.targets, 1e-9)
        except np.linalg.LinAlgError:
            if len(points) == 1:
                return np.array([self.value(points[0])])
            half = len(points) // 2
            return np.concatenate(
                [self._absolute(matrices[:half], points[:half]), self._absolute(matrices[half:], points[half:])]
            )


def _even_matrices(paths: Paths, points: FloatArray) -> FloatArray:
    """The matrix from lexicon to predictions at each point, [points, derivations, parts], with columns of size 1."""
    matrices = np.zeros((paths.shape[0] * paths.shape[1], len(points)))
    weights = np.prod(points[:, None, :] ** paths.exponent, axis=2)
    np.add.at(matrices, paths.row * paths.shape[1] + paths.column, weights.T)
    filled = matrices.T.reshape(len(points), *paths.shape)
    return np.asarray(filled / np.maximum(np.sqrt((filled**2).sum(axis=1, keepdims=True)), 1e-300))


def project(paths: Paths, targets: FloatArray, distance: Distance, *, diagonal: bool) -> Projected | None:
    """Good points for `weighted`, or for `diagonal`; None where the grid would be too dear."""
    charts = paths.charts()
    points = min(POINTS, ENTRIES // (paths.shape[0] * paths.shape[1]))
    if points < 32 or paths.exponent.shape[1] > 4:
        return None
    rows = targets
    if distance.name == "cosine":
        rows = targets / np.linalg.norm(targets, axis=1, keepdims=True)
    squares = Squares.of(paths, rows, together=not diagonal)
    numbers, values = _grid_values(charts, squares, points)
    far, there = _ray_values(paths, squares)
    numbers, values = np.concatenate([numbers, far]), np.concatenate([values, there])
    if distance.name == "l2" and targets.shape[1] == 1:
        distance = L1()  # the same, and exact at fixed numbers
    exact = distance.name == "sql2"
    if diagonal and (exact or (distance.name == "l1" and targets.shape[1] <= ABSOLUTE_WIDTH)):
        return _each_coordinate(paths, targets, distance, (charts, squares, numbers, values))
    if distance.name not in CONVERGING:
        known = _starts(paths, rows, numbers, values, diagonal)
        if diagonal and distance.name == "l2" and targets.size <= FEW:  # where almost all items can be met exactly
            known += _each_coordinate(paths, targets, L1(), (charts, squares, numbers, values)).points
        cosine = distance.name == "cosine"
        found = best_of_many(paths, targets, cosine=cosine, diagonal=diagonal, known=known, grid=numbers)
        if found or diagonal:
            return Projected(found + known[-1:] if found else known, None, settled=bool(found))
    elif diagonal:
        return Projected(_starts(paths, rows, numbers, values, diagonal), None, settled=False)
    search = Search(paths, targets, distance)
    best, lower = _candidates(search, numbers, values[:, 0]), None
    if exact:
        best, lower = _proved(charts, squares, search, best)
    return Projected([_weighted_point(search, at) for _, at in best], lower, settled=distance.name in CONVERGING)


def seconds_of_project(paths: Paths, width: int, distance: str, *, diagonal: bool) -> float:
    """Roughly what `project` takes, on one usual core; from sizes alone."""
    if distance == "sql2":
        return (width if diagonal else 1) * (0.08 + 3e-4 * min(paths.shape[0] * paths.shape[1], ENTRIES // POINTS))
    if distance == "cosine" or (distance == "l2" and diagonal):
        known = 2 * POLISHED + DRAWN if diagonal else TRIED_OF_FEW
        return seconds_of_many(paths, width, cosine=distance == "cosine", diagonal=diagonal, known=known)
    return 0.0


def _grid_values(charts: list[Chart], squares: Squares, points: int) -> tuple[FloatArray, FloatArray]:
    """The free numbers of the grid, and the squared error there for each function."""
    numbers, values = [], []
    for chart, centre, _ in grid(charts, points):
        numbers.append(chart.numbers(centre))
        values.append(squares.joined(squares.errors(bases(chart.matrices(centre) * squares.weight[:, None]))))
    return np.concatenate(numbers), np.concatenate(values)


def _ray_values(paths: Paths, squares: Squares) -> tuple[FloatArray, FloatArray]:
    """The same along rays to zero and to infinity, where the best numbers may lie: there only directions differ."""
    arity = paths.exponent.shape[1]
    angle = 2.0 * np.pi * (np.arange(RAYS) + 0.5) / RAYS
    rays = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    if arity != 2:
        rays = np.random.default_rng(0).normal(size=(RAYS, arity))
        rays /= np.linalg.norm(rays, axis=1, keepdims=True)
    numbers = np.concatenate([size * rays for size in SIZES])
    weights = np.prod(numbers[:, None, :] ** paths.exponent, axis=2)
    matrices = np.zeros((paths.shape[0] * paths.shape[1], len(numbers)))
    np.add.at(matrices, paths.row * paths.shape[1] + paths.column, weights.T)
    filled = matrices.T.reshape(len(numbers), *paths.shape) * squares.weight[:, None]
    filled /= np.maximum(np.linalg.norm(filled, axis=1, keepdims=True), 1e-300)
    return numbers, squares.joined(squares.errors(bases(filled)))


def _candidates(search: Search, numbers: FloatArray, values: FloatArray) -> list[tuple[float, FloatArray]]:
    """The best points of the grid, not too near each other, polished; the best first."""
    # Squared error is a guide to other distances; on few numbers, l1 tries every point of the grid itself.
    few = search.targets.size <= FEW
    most, ends = (TRIED_OF_FEW, POLISHED_OF_FEW) if few else (TRIED, POLISHED)
    everywhere = search.distance.name == "l1" and few
    ordered = _in_order(numbers, values)
    chosen = [at for _, at in (ordered if everywhere else _spaced(ordered, most - 1))]
    chosen.append(np.ones(numbers.shape[1]))  # addition
    tried = _in_order(np.array(chosen), search.values(np.array(chosen)))
    if everywhere:
        tried = _spaced(tried, ends)
    if search.distance.name not in CONVERGING:
        return tried[:ends]  # a descent over lexicon and numbers together polishes these
    # Nelder and Mead's search: the function has corners under l1, and where rank is lost
    begun = np.array([at for _, at in tried[:ends]])
    _, ended = shrink_together(search.values, begun, EVALUATIONS)
    found = [(search.value(at), at) for at in [*ended, *begun]]
    return sorted(found, key=lambda pair: pair[0])[:ends]


def _in_order(numbers: FloatArray, values: FloatArray) -> list[tuple[float, FloatArray]]:
    return [(float(values[row]), numbers[row]) for row in np.argsort(values, kind="stable")]


def _spaced(points: list[tuple[float, FloatArray]], most: int) -> list[tuple[float, FloatArray]]:
    """The best points that are not too near each other."""
    kept: list[tuple[float, FloatArray]] = []
    for value, at in points:
        if len(kept) == most:
            break
        if all(_apart(at, other) > 0.1 for _, other in kept):
            kept.append((value, at))
    return kept


def _apart(first: FloatArray, second: FloatArray) -> float:
    """A distance in which infinity is near."""
    one, other = np.append(first, 1.0), np.append(second, 1.0)
    return float(np.abs(one / np.linalg.norm(one) - other / np.linalg.norm(other)).max())


def _proved(
    charts: list[Chart], squares: Squares, search: Search, best: list[tuple[float, FloatArray]]
) -> tuple[list[tuple[float, FloatArray]], float | None]:
    """Certify the best point; if a box holds a better one, polish that."""
    variables = max(int(chart.varying.sum()) for chart in charts)
    if variables not in BOXES:
        return best, None
    inside = float(squares.within.sum())
    known = np.array([max(best[0][0] - inside, 0.0)])
    proof = certify(charts, squares, known, SHARE, BOXES[variables])
    if np.isfinite(proof.numbers).all() and proof.best[0] < best[0][0] * (1.0 - 1e-9):
        better = shrink_together(search.values, proof.numbers[:1], EVALUATIONS)[1][0]
        found = [(search.value(at), at) for at in (better, proof.numbers[0])]
        best = sorted([*found, *best], key=lambda pair: pair[0])
    return best, float(proof.lower.sum())


def _weighted_point(search: Search, numbers: FloatArray) -> Point:
    return search.lexicon(numbers)[1], {"maps": numbers.reshape(-1, 1, 1).copy()}


def _each_coordinate(
    paths: Paths, targets: FloatArray, distance: Distance, found: tuple[list[Chart], Squares, FloatArray, FloatArray]
) -> Projected:
    """Every coordinate is a weighted problem of its own."""
    charts, squares, numbers, values = found
    width = targets.shape[1]
    lexicon, scale = np.zeros((paths.shape[1], width)), np.ones((paths.exponent.shape[1], width))
    lower: float | None = 0.0
    for j in range(width):
        search = Search(paths, np.ascontiguousarray(targets[:, j : j + 1]), distance)
        best = _candidates(search, numbers, values[:, j])
        if distance.name == "sql2":
            own = Squares(squares.rows[:, j : j + 1], squares.weight, squares.within[j : j + 1], True)
            best, proved = _proved(charts, own, search, best)
            lower = None if lower is None or proved is None else lower + proved
        scale[:, j] = best[0][1]
        lexicon[:, j] = search.lexicon(best[0][1])[1][:, 0]
    return Projected([(lexicon, {"scale": scale})], lower if distance.name == "sql2" else None, settled=True)


def _starts(paths: Paths, rows: FloatArray, numbers: FloatArray, values: FloatArray, diagonal: bool) -> list[Point]:
    """Points of the grid with the best squared error, and the lexicon that reaches it."""
    if not diagonal:
        search = Search(paths, rows, SqL2())
        return [_weighted_point(search, at) for _, at in _spaced(_in_order(numbers, values[:, 0]), TRIED_OF_FEW)]
    order = np.argsort(values, axis=0, kind="stable")
    together = np.argsort(values.sum(axis=1), kind="stable")
    width, rng = rows.shape[1], np.random.default_rng(0)
    chosen = [order[rank] for rank in range(POLISHED)] + [np.full(width, together[rank]) for rank in range(POLISHED)]
    if rows.size <= SMALL:  # which good numbers of the coordinates go together is not known, so try some
        chosen += [order[rng.integers(DRAWN_FROM, size=width), np.arange(width)] for _ in range(DRAWN)]
    starts = []
    for which in chosen:
        scale = np.ascontiguousarray(numbers[which].T)
        lexicon = np.zeros((paths.shape[1], width))
        for j in range(width):
            search = Search(paths, np.ascontiguousarray(rows[:, j : j + 1]), SqL2())
            lexicon[:, j] = search.lexicon(scale[:, j])[1][:, 0]
        starts.append((lexicon, {"scale": scale}))
    return starts
