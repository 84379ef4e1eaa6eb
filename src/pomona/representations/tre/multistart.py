"""Hundreds of starts at once, for small problems of `weighted` and `diagonal` whose lexicon has minima of its own.

Under cosine, and under l2 with `diagonal`, the lexicon is no convex problem even at fixed numbers, so a search of
the numbers with one lexicon each can miss the best. Where a problem is small, a start costs little if many descend
together (`together`). Points are drawn at random and descend for a while, the better ones to the end. Then the best
distinct ends have children, for a few generations: under `diagonal`, whose coordinates meet in the distance alone,
a child takes each coordinate from one of the ends; most are shaken a little; and the better of them descend in turn.
Under `diagonal` one coordinate at given others is a small problem at fixed numbers, solved by reweighting, so the best
ends also have children with one coordinate from the best places of the whole grid of numbers.

Under cosine the best may lie where some vectors and numbers shrink towards zero, each at its own rate. So draws differ
in size, too, and the best ends descend once more in units of their own size.

With one coordinate, cosine only asks for signs and has no slope: there the draws themselves are the search.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pomona.representations.tre.cells import Paths
from pomona.representations.tre.design import FloatArray
from pomona.representations.tre.recursion import Parameters
from pomona.representations.tre.together import Slope, descend_better, descend_rescaled, distinct

WORK = 80_000  # leaves x coordinates x starts that descend together
CURVATURE = 600_000  # starts x unknowns x unknowns
MOST, FEWEST = 144, 8  # starts; no search where fewer can be paid for
DRAWS = 4  # points drawn for each start that descends
STEPS, SHORT = 300, 40  # of a descent to the end, and of one after which the better third goes on
CORNERS = (0.1, 0.01, 1e-3)  # l2 is rounded off at these shares of the size of the representations, one after another
TOLERANCE, FINE = 1e-7, 1e-9  # a descent ends when a step gains less than this share; under cosine it goes on longer
SPREAD = 3  # powers of ten: under cosine the draws have parts and numbers of so different sizes
RESCALED = 6  # ends under cosine that descend again, each unknown in units of its size
GENERATIONS, PARENTS = 6, 16
SHAKEN, SHAKE = 0.75, 0.5  # the share of children that are shaken, and by how much of each number at most
RETURNED = 3  # ends
SEARCHED, PLACES, REWEIGHTED = 3, 3, 5  # ends with a coordinate from the grid; places of each; steps of reweighting
LARGEST = 1e3  # of the numbers of the grid that are used

Point = tuple[FloatArray, Parameters]
Reweighting = Callable[[FloatArray], tuple[FloatArray, FloatArray, FloatArray]]
Parts = Callable[[FloatArray], tuple[FloatArray, FloatArray]]  # flat points to lexicons and numbers


def best_of_many(
    paths: Paths, targets: FloatArray, *, cosine: bool, diagonal: bool, known: list[Point], grid: FloatArray
) -> list[Point]:
    """The best distinct ends of the known points and of many random ones, the best first; none where the problem is
    too large. `grid` are numbers to try for one coordinate of `diagonal`, [points, arity]."""
    width, arity = targets.shape[1], paths.exponent.shape[1]
    starts, _ = _affordable(paths, width, diagonal)
    if starts < FEWEST:
        return []
    scale = 1.0 if cosine else max(float(np.sqrt((targets**2).mean())), 1e-100)
    problem, rng = Many(paths, targets / scale, cosine), np.random.default_rng(0)
    key = "scale" if diagonal else "maps"
    drawn = problem.drawn(starts * DRAWS, diagonal, rng)
    chosen = np.argsort(problem.slope(*drawn, CORNERS[0])[0], kind="stable")[:starts]
    lexicons = [drawn[0][chosen], *(lexicon[None] / scale for lexicon, _ in known)]
    numbers = [drawn[1][chosen], *(own[key].reshape(1, arity, -1) for _, own in known)]
    if not diagonal or width == 1:
        grid = grid[:0]
    value, lexicon, number = problem.searched(np.concatenate(lexicons), np.concatenate(numbers), grid, rng)
    ends: list[Point] = []
    for one in distinct(value, RETURNED):
        own = number[one].copy() if diagonal else number[one][:, :, None].copy()
        ends.append((scale * lexicon[one], {key: own}))
    return ends


def _affordable(paths: Paths, width: int, diagonal: bool) -> tuple[int, int]:
    """How many starts can be paid for, and the unknowns of each."""
    unknowns = paths.shape[1] * width + paths.exponent.shape[1] * (width if diagonal else 1)
    return min(int(WORK / (len(paths.row) * width)), int(CURVATURE / unknowns**2), MOST), unknowns


def seconds_of_many(paths: Paths, width: int, *, cosine: bool, diagonal: bool, known: int) -> float:
    """Roughly what `best_of_many` takes, on one usual core; from sizes alone."""
    starts, unknowns = _affordable(paths, width, diagonal)
    if starts < FEWEST:
        return 0.0
    leaves = len(paths.row) * width
    each = 2e-10 * paths.shape[0] * leaves + 2e-8 * leaves + 2e-9 * unknowns**2
    steps = 400 * (2 if diagonal else 1) * (1 if cosine else 2)
    return (1.5 if diagonal else 1.0) + (starts + known) * steps * each


@dataclass(frozen=True, eq=False)
class Many:
    """The distance at many points: lexicons [points, parts, width], numbers [points, arity, 1 or width]."""

    paths: Paths
    targets: FloatArray  # [items, width]
    cosine: bool

    @cached_property
    def _leaf_of(self) -> FloatArray:
        """Which leaves make up which distinct derivation, [derivations, leaves]."""
        return np.asarray(np.arange(self.paths.shape[0])[:, None] == self.paths.row, np.float64)

    @cached_property
    def _part_of(self) -> FloatArray:
        return np.asarray(np.arange(self.paths.shape[1])[:, None] == self.paths.column, np.float64)

    @cached_property
    def item_of(self) -> FloatArray:
        return np.asarray(np.arange(self.paths.shape[0])[:, None] == self.paths.group, np.float64)

    @cached_property
    def _sums(self) -> FloatArray:
        """Under cosine: the sum of the unit vectors of each derivation."""
        return np.asarray(self.item_of @ (self.targets / np.linalg.norm(self.targets, axis=1, keepdims=True)))

    def drawn(self, points: int, diagonal: bool, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        width, arity = self.targets.shape[1], self.paths.exponent.shape[1]
        lexicon = rng.normal(size=(points, self.paths.shape[1], width))
        sizes = rng.choice([0.5, 1.0, 2.0], size=(points, 1, 1))
        numbers = sizes * rng.normal(size=(points, arity, width if diagonal else 1))
        if self.cosine:  # a third as they are, a third with small numbers, a third with small vectors as well
            kind = rng.integers(3, size=(points, 1, 1))
            lexicon *= np.where(kind == 2, 10.0 ** (-SPREAD * rng.random((points, lexicon.shape[1], 1))), 1.0)
            numbers *= np.where(kind >= 1, 10.0 ** (-SPREAD * rng.random(numbers.shape)), 1.0)
        return lexicon, numbers

    def slope(
        self, lexicon: FloatArray, numbers: FloatArray, corner: float
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The summed distance of every point, rounded off at the corner, and its slope by lexicon and numbers."""
        exponent = self.paths.exponent
        powers = [np.ones_like(numbers)]
        for _ in range(int(exponent.max())):
            powers.append(powers[-1] * numbers)
        table = np.stack(powers, axis=2)  # [points, arity, exponents, 1 or width]
        sides = [table[:, t, exponent[:, t]] for t in range(exponent.shape[1])]  # [points, leaves, 1 or width] each
        weight = np.prod(sides, axis=0)
        leaves = lexicon[:, self.paths.column]
        value, at = self.distance_of(self._leaf_of @ (weight * leaves), corner)
        at = self._leaf_of.T @ at
        by_weight = at * leaves
        if numbers.shape[2] == 1:
            by_weight = by_weight.sum(axis=2, keepdims=True)
        by_number = np.empty_like(numbers)
        for t in range(exponent.shape[1]):
            less = exponent[:, t, None] * table[:, t, np.maximum(exponent[:, t] - 1, 0)]
            for other in range(exponent.shape[1]):
                less = less * sides[other] if other != t else less
            by_number[:, t] = (by_weight * less).sum(axis=1)
        return value, self._part_of @ (at * weight), by_number

    def distance_of(self, predictions: FloatArray, corner: float) -> tuple[FloatArray, FloatArray]:
        """The summed distance of every point, and its slope at the predictions [points, derivations, width]."""
        if self.cosine:
            size = np.maximum(np.sqrt((predictions**2).sum(axis=2, keepdims=True)), 1e-100)
            direction = predictions / size
            along = (direction * self._sums).sum(axis=2, keepdims=True)
            return len(self.targets) - along.sum(axis=(1, 2)), (along * direction - self._sums) / size
        residual = predictions[:, self.paths.group] - self.targets
        size = np.sqrt((residual**2).sum(axis=2, keepdims=True) + corner**2)
        return size.sum(axis=(1, 2)), self.item_of @ (residual / size)

    def searched(
        self, lexicon: FloatArray, numbers: FloatArray, grid: FloatArray, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Where these points and their children end: values, lexicons, numbers."""
        cut, shape, its = lexicon[0].size, lexicon.shape[1:], numbers.shape[1:]

        def parts(points: FloatArray) -> tuple[FloatArray, FloatArray]:
            return points[:, :cut].reshape(-1, *shape), points[:, cut:].reshape(-1, *its)

        at = np.concatenate([lexicon.reshape(len(lexicon), -1), numbers.reshape(len(numbers), -1)], axis=1)
        many = len(at) // 2
        value, at = self._descended(at, parts)
        places = Places.of(self.paths, grid)
        for _ in range(GENERATIONS):
            best = at[distinct(value, PARENTS)]
            if not len(best):
                break
            children = _mixed(*parts(best), many, rng) if its[1] > 1 else best[_better(len(best), many, rng)]
            size = np.abs(children)
            size[:, :cut] += 0.5 * size[:, :cut].mean(axis=1, keepdims=True)
            size[:, cut:] += 0.5 * size[:, cut:].mean(axis=1, keepdims=True)
            shake = SHAKE * rng.random((many, 1)) * (rng.random((many, 1)) < SHAKEN)
            children = children + shake * size * rng.normal(size=size.shape)
            if len(places.numbers):
                moved = [self._from_grid(*parts(one[None]), places) for one in best[:SEARCHED]]
                children = np.concatenate([children, *moved])
            further, ends = self._descended(children, parts)
            value, at = np.concatenate([value, further]), np.concatenate([at, ends])
        if self.cosine:
            chosen = distinct(value, RESCALED)
            value, at = value[chosen], at[chosen]
            descend_rescaled(self._flat(parts, 0.0), value, at, STEPS, FINE / 10)
        return value, *parts(at)

    def _from_grid(self, lexicon: FloatArray, numbers: FloatArray, places: Places) -> FloatArray:
        """The point with one coordinate from the best places of the grid, each coordinate in turn."""
        predictions = self._predicted(lexicon, numbers)[0]
        found = []
        for j in range(predictions.shape[1]):
            for vector, at in places.best(self._coordinate(predictions, j), predictions[:, j]):
                moved, own = lexicon[0].copy(), numbers[0].copy()
                moved[:, j], own[:, j] = vector, at
                found.append(np.concatenate([moved.ravel(), own.ravel()]))
        return np.array(found)

    def _coordinate(self, predictions: FloatArray, j: int) -> Reweighting:
        """The distance as a function of one coordinate [places, derivations]: its value, and the weights and the right
        side of the least squares that have its slope."""
        rest = np.delete(predictions, j, axis=1)
        if self.cosine:
            sums, square = self._sums[:, j], (rest**2).sum(axis=1)
            dot = (rest * np.delete(self._sums, j, axis=1)).sum(axis=1)

            def by_angle(own: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
                size = np.sqrt(np.maximum(square + own**2, 1e-12))
                along = (dot + sums * own) / size
                return -along.sum(axis=1), np.maximum(along, 1e-3) / size**2, sums / size

            return by_angle
        group, wanted = self.paths.group, self.targets[:, j]
        others = ((rest[group] - np.delete(self.targets, j, axis=1)) ** 2).sum(axis=1) + CORNERS[-1] ** 2

        def by_length(own: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
            size = np.sqrt(others + (own[:, group] - wanted) ** 2)
            return size.sum(axis=1), (1.0 / size) @ self.item_of.T, (wanted / size) @ self.item_of.T

        return by_length

    def _predicted(self, lexicon: FloatArray, numbers: FloatArray) -> FloatArray:
        weight = np.prod(numbers[:, None] ** self.paths.exponent[:, :, None], axis=2)
        return np.asarray(self._leaf_of @ (weight * lexicon[:, self.paths.column]))

    def _flat(self, parts: Parts, corner: float) -> Slope:
        """The distance and its slope as functions of flat points."""

        def slope(points: FloatArray) -> tuple[FloatArray, FloatArray]:
            lexicon, numbers = parts(points)
            value, first, second = self.slope(lexicon, numbers, corner)
            return value, np.concatenate([first.reshape(len(points), -1), second.reshape(len(points), -1)], axis=1)

        return slope

    def _descended(self, at: FloatArray, parts: Parts) -> tuple[FloatArray, FloatArray]:
        """Where the better third of some points end."""
        corners, tolerance = ((0.0,), FINE) if self.cosine else (CORNERS, TOLERANCE)
        slopes = [self._flat(parts, corner) for corner in corners]
        return descend_better(slopes, at, short=SHORT, limit=STEPS, share=3, fewest=FEWEST, tolerance=tolerance)


@dataclass(frozen=True, eq=False)
class Places:
    """A grid of numbers; at each the matrix from a coordinate of the lexicon to the predictions, columns of size 1."""

    numbers: FloatArray  # [places, arity]
    matrices: FloatArray  # [places, derivations, parts]
    size: FloatArray  # [places, parts]: what the columns were divided by

    @staticmethod
    def of(paths: Paths, grid: FloatArray) -> Places:
        grid = grid[np.abs(grid).max(axis=1) <= LARGEST] if len(grid) else grid
        flat = np.zeros((len(grid), paths.shape[0] * paths.shape[1]))
        weight = np.prod(grid[:, None] ** paths.exponent, axis=2)
        np.add.at(flat.T, paths.row * paths.shape[1] + paths.column, weight.T)
        matrices = flat.reshape(len(grid), *paths.shape)
        size = np.maximum(np.sqrt((matrices**2).sum(axis=1)), 1e-100)
        return Places(grid, matrices / size[:, None], size)

    def best(self, reweighting: Reweighting, own: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
        """The places with the least value: the coordinate of the lexicon there, and the numbers."""
        at = np.broadcast_to(own, self.matrices.shape[:2])
        vectors = np.empty(0)
        for _ in range(REWEIGHTED):  # least squares at all places at once
            _, weight, right = reweighting(at)
            gram = self.matrices.transpose(0, 2, 1) @ (self.matrices * weight[:, :, None])
            gram += 1e-9 * (1.0 + np.trace(gram, axis1=1, axis2=2)[:, None, None]) * np.eye(gram.shape[1])
            vectors = np.linalg.solve(gram, (self.matrices * right[:, :, None]).sum(axis=1)[:, :, None])[:, :, 0]
            at = (self.matrices @ vectors[:, :, None])[:, :, 0]
        chosen = distinct(reweighting(at)[0], PLACES)
        return [(vectors[one] / self.size[one], self.numbers[one]) for one in chosen]


def _better(count: int, many: int, rng: np.random.Generator, width: int = 1) -> Any:
    """Draws from the first `count`, the first ones more often."""
    drawn = np.minimum(rng.integers(count, size=(many, width)), rng.integers(count, size=(many, width)))
    return drawn if width > 1 else drawn[:, 0]


def _mixed(lexicon: FloatArray, numbers: FloatArray, many: int, rng: np.random.Generator) -> FloatArray:
    """Points that take each coordinate from one of these."""
    width = lexicon.shape[2]
    whose = _better(len(lexicon), many, rng, width)
    own = np.stack([lexicon[whose[:, j], :, j] for j in range(width)], axis=2)
    its = np.stack([numbers[whose[:, j], :, j] for j in range(width)], axis=2)
    return np.concatenate([own.reshape(many, -1), its.reshape(many, -1)], axis=1)
