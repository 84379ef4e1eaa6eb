"""Many starts at once for small problems whose composition has a full matrix for each part (`linear`, `position`).

Where primitives stand on both sides of their brackets, the maps cannot be absorbed (`learned`), and a descent from one
start often ends in a poor local minimum. In a small problem a start costs little if many descend together (`together`):
subtrees are composed for all points in one matrix product for each height and side. All starts descend for a while, and
the better ones to the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from pomona.representations.tre.derivations import Derivations, IntArray
from pomona.representations.tre.design import FloatArray
from pomona.representations.tre.recursion import Parameters
from pomona.representations.tre.together import descend_better, descend_rescaled, distinct

NUMBERS = 300  # of the representations, at most
CURVATURE = 1_200_000  # starts x unknowns x unknowns
MOST, MOST_WITH_CORNERS, FEWEST = 384, 192, 8  # starts; no search where fewer can be paid for
SHORT, SHORT_WITH_CORNERS, STEPS = 80, 40, 300  # of a first descent, and of one to the end
CORNERS = (0.3, 0.1, 0.03, 0.01, 1e-3)  # l1 and l2 are rounded off at these shares of the size of the representations
TOLERANCE = 1e-9
SPREAD = 3  # powers of ten: under cosine the draws have parts and maps of so different sizes (`multistart`)
RESCALED, RETURNED = 12, 3  # ends that go on in units of their own size under cosine; ends
DISTANCES, CORNERED = ("cosine", "l1", "l2", "sql2"), ("l1", "l2")

Point = tuple[FloatArray, Parameters]


def starts_of(derivations: Derivations, numbers: int, rows: int, distance: str) -> int:
    """How many starts can be paid for; 0 where a search is too dear or the distance is the user's own."""
    width = numbers // max(len(derivations), 1)
    unknowns = len(derivations.names) * width + derivations.arity * rows * (rows + 1)
    starts = min(MOST_WITH_CORNERS if distance in CORNERED else MOST, int(CURVATURE / unknowns**2))
    return starts if numbers <= NUMBERS and distance in DISTANCES and starts >= FEWEST else 0


def seconds_of_maps(derivations: Derivations, numbers: int, rows: int, distance: str) -> float:
    """Roughly what the search takes, on one usual core; from sizes alone."""
    return starts_of(derivations, numbers, rows, distance) * (0.02 if distance in CORNERED else 0.005)


def best_of_maps(derivations: Derivations, targets: FloatArray, rows: int, distance: str) -> list[Point]:
    """The best distinct ends of random starts, the best first; none where the problem is too large."""
    starts = starts_of(derivations, targets.size, rows, distance)
    if not starts:
        return []
    size_of = 1.0 if distance == "cosine" else max(float(np.sqrt((targets**2).mean())), 1e-100)
    many, rng = ManyMaps(derivations, targets / size_of, rows, distance), np.random.default_rng(0)
    value, at = many.descended(many.drawn(starts, rng))
    if distance == "cosine":
        best = distinct(value, RESCALED)
        value, at = value[best], at[best]
        descend_rescaled(partial(many.slope, corner=0.0), value, at, STEPS, TOLERANCE / 10)
    found: list[Point] = []
    for one in distinct(value, RETURNED):
        lexicon, maps, bias = (part[0] for part in many.parts(at[one : one + 1]))
        found.append((size_of * lexicon, {"maps": maps, "bias": size_of * bias}))
    return found


@dataclass(frozen=True, eq=False)
class ManyMaps:
    """The distance at many points, flat: lexicon [parts, width], maps [arity, rows, rows], bias [arity, rows]."""

    derivations: Derivations
    targets: FloatArray  # [items, width]
    rows: int
    distance: str

    @cached_property
    def _shapes(self) -> list[tuple[int, ...]]:
        arity = self.derivations.arity
        return [
            (len(self.derivations.names), self.targets.shape[1]), (arity, self.rows, self.rows), (arity, self.rows),
        ]  # fmt: skip

    def parts(self, points: FloatArray) -> list[FloatArray]:
        cuts = np.cumsum([int(np.prod(shape)) for shape in self._shapes])[:-1]
        pieces = np.split(points, cuts, axis=1)
        return [piece.reshape(len(points), *shape) for piece, shape in zip(pieces, self._shapes, strict=True)]

    def drawn(self, starts: int, rng: np.random.Generator) -> FloatArray:
        lexicon, maps, bias = (rng.normal(size=(starts, *shape)) for shape in self._shapes)
        maps *= rng.choice([0.5, 1.0, 2.0], size=(starts, 1, 1, 1))
        bias *= rng.choice([0.5, 1.0, 2.0], size=(starts, 1, 1))
        if self.distance == "cosine":  # a third as they are, a third with small maps, the rest with small vectors, too
            kind = rng.integers(3, size=(starts, 1, 1))
            least = 10.0 ** (-SPREAD * rng.random((starts, maps.shape[1], 1)))
            lexicon *= np.where(kind == 2, 10.0 ** (-SPREAD * rng.random((starts, lexicon.shape[1], 1))), 1.0)
            maps *= np.where(kind >= 1, least, 1.0)[..., None]
            bias *= np.where(kind >= 1, least, 1.0)
        return np.concatenate([part.reshape(starts, -1) for part in (lexicon, maps, bias)], axis=1)

    def descended(self, at: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Where the better half of some points end, or the better third where there are corners, which take longer."""
        corners: tuple[float, ...] = (0.0,)
        short, share = SHORT, 2
        if self.distance in CORNERED:
            corners, short, share = CORNERS, SHORT_WITH_CORNERS, 3
        slopes = [partial(self.slope, corner=corner) for corner in corners]
        return descend_better(
            slopes, at, short=short, limit=STEPS, share=share, fewest=FEWEST, tolerance=TOLERANCE
        )

    @cached_property
    def _into(self) -> list[list[FloatArray]]:
        """For each step and side, the matrix that adds the wholes' numbers up at their parts."""
        below = np.arange(self.derivations.subtrees)[:, None]
        return [
            [np.asarray(below == step.parts[:, side], np.float64) for side in range(step.parts.shape[1])]
            for step in self.derivations.steps
        ]

    def slope(self, points: FloatArray, corner: float) -> tuple[FloatArray, FloatArray]:
        """The summed distance of every point, rounded off at the corner, and its slope."""
        lexicon, maps, bias = self.parts(points)
        many, names, width = lexicon.shape
        grid = (self.rows, width // self.rows)
        values = np.empty((many, self.derivations.subtrees, *grid))
        values[:, :names] = lexicon.reshape(many, names, *grid)
        for step in self.derivations.steps:
            whole = sum(
                maps[:, side, None] @ values[:, step.parts[:, side]] + bias[:, side, None, :, None]
                for side in range(step.parts.shape[1])
            )
            values[:, step.first : step.first + len(step.parts)] = whole
        total, above = self._distance(values[:, self.derivations.root].reshape(many, -1, width), corner)
        down = (self._root @ above).reshape(values.shape)
        by_map, by_bias = np.zeros_like(maps), np.zeros_like(bias)
        for step, into in zip(reversed(self.derivations.steps), reversed(self._into), strict=True):
            own = down[:, step.first : step.first + len(step.parts)]
            for side, matrix in enumerate(into):
                by_map[:, side] += np.einsum("bnic,bnjc->bij", own, values[:, step.parts[:, side]])
                by_bias[:, side] += own.sum(axis=(1, 3))
                part = maps[:, side, None].swapaxes(2, 3) @ own
                down += (matrix @ part.reshape(many, len(step.parts), width)).reshape(down.shape)
        slopes = (down[:, :names], by_map, by_bias)
        return total, np.concatenate([slope.reshape(many, -1) for slope in slopes], axis=1)

    @cached_property
    def _root(self) -> FloatArray:
        root: IntArray = self.derivations.root
        return np.asarray(np.arange(self.derivations.subtrees)[:, None] == root, np.float64)

    @cached_property
    def _unit(self) -> FloatArray:
        return np.asarray(self.targets / np.linalg.norm(self.targets, axis=1, keepdims=True))

    def _distance(self, predictions: FloatArray, corner: float) -> tuple[FloatArray, FloatArray]:
        if self.distance == "cosine":
            size = np.maximum(np.sqrt((predictions**2).sum(axis=2, keepdims=True)), 1e-100)
            direction = predictions / size
            along = (direction * self._unit).sum(axis=2, keepdims=True)
            return len(self.targets) - along.sum(axis=(1, 2)), (along * direction - self._unit) / size
        residual = predictions - self.targets
        if self.distance == "sql2":
            return (residual**2).sum(axis=(1, 2)), 2.0 * residual
        square = residual**2 if self.distance == "l1" else (residual**2).sum(axis=2, keepdims=True)
        size = np.sqrt(square + corner**2)
        return size.sum(axis=(1, 2)), residual / size
