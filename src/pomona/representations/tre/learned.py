"""Fits of learned composition functions: the lexicon and the function's parameters are fitted together.

This problem (section 3, "Learnable composition operators") is not convex. Three ideas make it tractable:

* Absorbed maps. Suppose the composition is A x + B y and every primitive always stands on the same side. Then x = A eta
  is as free as eta is. Fitting x directly takes one factor out of every product, and the poor local minima that catch
  the direct problem disappear: on the paper's reference game all starts agree. The lexicon eta is recovered at the end
  by inverting A.
* The first start is the additive optimum, so a composition that contains addition never scores worse than addition.
* At l1 the distance is smoothed less and less, and then linear programmes alternate: exact in the lexicon, linearised
  in the parameters. This removes the noise floor that the published values show.

How good the result is, is not judged here: `bounds` compares it with a bound that uses none of these steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from pomona.representations.tre.additive import fit_linear
from pomona.representations.tre.cells import Paths
from pomona.representations.tre.compositions import Diagonal, Linear, PartMaps, Position, Weighted
from pomona.representations.tre.derivations import Derivations, IntArray
from pomona.representations.tre.design import Design, FloatArray
from pomona.representations.tre.distances import Distance, SqL2
from pomona.representations.tre.least_deviations import least_deviations
from pomona.representations.tre.many_maps import best_of_maps
from pomona.representations.tre.problem import Layer, Problem
from pomona.representations.tre.projection import project
from pomona.representations.tre.recursion import Composition, Parameters, compose_subtrees, gradients

PROGRAMME_ENTRIES = 4_000_000  # the largest dense matrix that the alternating linear programmes may build
Point = tuple[FloatArray, Parameters]  # a lexicon and the parameters of the composition function


@dataclass(frozen=True, eq=False)
class LearnedFit:
    """A fitted lexicon with the parameters of its composition function."""

    lexicon: FloatArray
    parameters: Parameters
    per_item: FloatArray
    gradient_norm: float | None
    starts: tuple[float, ...]  # the mean distance that each start reached, before refinement
    lower: float | None = None  # a proved bound on the summed distance


@dataclass(frozen=True, eq=False)
class JointProblem:
    """The minimisation over lexicon and parameters together; flattens them for the optimiser."""

    composition: Composition
    derivations: Derivations
    targets: FloatArray
    distance: Distance

    def predict(self, point: Point) -> FloatArray:
        return compose_subtrees(self.composition, self.derivations, point[1], point[0])[self.derivations.root]

    def per_item(self, point: Point) -> FloatArray:
        return self.distance.per_item(self.predict(point), self.targets)

    def score(self, point: Point) -> float:
        """The mean distance; infinite where the user's own function has no value."""
        mean = float(self.per_item(point).mean())
        return mean if np.isfinite(mean) else np.inf

    def slope(self, point: Point, distance: Distance, width: float) -> tuple[float, FloatArray, Parameters]:
        """The summed distance and its gradients; corners of the distance are rounded off at `width`."""
        values = compose_subtrees(self.composition, self.derivations, point[1], point[0])
        total, grad = distance.smoothed(values[self.derivations.root], self.targets, width)
        lexicon, parameters = gradients(self.composition, self.derivations, point[1], values, grad)
        return total, lexicon, parameters

    def descend(self, point: Point, width: float, limit: int, distance: Distance | None = None) -> tuple[Point, float]:
        """L-BFGS over lexicon and parameters; returns the end and the norm of its gradient."""
        from scipy.optimize import minimize

        measured = distance or self.distance
        items = len(self.derivations)
        keys = sorted(point[1])
        sizes = [point[0].size] + [point[1][key].size for key in keys]
        cuts = np.cumsum(sizes)[:-1]

        def unpack(flat: FloatArray) -> Point:
            pieces = np.split(flat, cuts)
            shaped = {key: piece.reshape(point[1][key].shape) for key, piece in zip(keys, pieces[1:], strict=True)}
            return pieces[0].reshape(point[0].shape), shaped

        def objective(flat: FloatArray) -> tuple[float, FloatArray]:
            total, lexicon, parameters = self.slope(unpack(flat), measured, width)
            return total / items, np.concatenate([lexicon.ravel(), *(parameters[key].ravel() for key in keys)]) / items

        flat = np.concatenate([point[0].ravel(), *(point[1][key].ravel() for key in keys)])
        settings = {"maxiter": limit, "maxfun": 2 * limit, "maxcor": 20, "gtol": 1e-9, "ftol": 1e-14}
        result = minimize(objective, flat, jac=True, method="L-BFGS-B", options=settings)
        return unpack(result.x), float(np.abs(result.jac).max())


@dataclass(frozen=True, eq=False)
class _End:
    """Where one start arrived."""

    score: float
    point: Point
    slope: float


def fit_learned(layer: Layer, problem: Problem, *, seed: int, limit: int = 400) -> LearnedFit:
    """Fit the lexicon and the parameters of a composition function together."""
    composition, derivations = problem.composition, problem.derivations
    wanted: FloatArray = np.asarray(layer.targets, np.float64)
    absorbing = isinstance(composition, PartMaps) and bool((derivations.side != -1).all())
    inner: Composition = replace(composition, absorbed=True) if absorbing else composition  # type: ignore[type-var]
    joint = JointProblem(inner, derivations, wanted, layer.distance)
    searched = isinstance(composition, Weighted | Diagonal)  # its numbers are searched below, so few starts will do
    many = 12 if composition.linear and wanted.size <= 10_000 else 4
    count = problem.restarts or (2 if searched else 8 if absorbing else many)
    cornered = layer.distance.name in ("l1", "l2")
    ends = [_descend_from(joint, point, cornered, limit) for point in _starts(joint, layer.shape, count, seed)]
    if isinstance(composition, Linear | Position) and not absorbing and problem.restarts is None:
        rows = composition.rows(layer.shape)
        more = best_of_maps(derivations, wanted, rows, layer.distance.name)
        ends += [_descend_from(joint, point, cornered, limit) for point in more]
    reached = tuple(end.score for end in ends)
    ends.sort(key=lambda end: end.score)
    best, lower = ends[0], None
    if searched:
        best, lower = _projected(joint, best, cornered, limit)
        ends = [best]
    best = _refine_corners(joint, ends) if cornered else _refine_smooth(joint, best, 5 * limit)
    lexicon, parameters = best.point
    if absorbing:
        joint = replace(joint, composition=composition)
        lexicon, parameters = _release(joint, best.point)
    per_item = joint.per_item((lexicon, parameters))
    return LearnedFit(lexicon, parameters, per_item, None if cornered else best.slope, reached, lower)


def _projected(joint: JointProblem, best: _End, cornered: bool, limit: int) -> tuple[_End, float | None]:
    """For `weighted` and `diagonal`, the better of this end and what a search of the free numbers finds."""
    diagonal = isinstance(joint.composition, Diagonal)
    paths = Paths.of(joint.derivations) if diagonal or isinstance(joint.composition, Weighted) else None
    found = None
    if paths is not None and joint.distance.name in ("sql2", "l1", "l2", "cosine"):
        found = project(paths, joint.targets, joint.distance, diagonal=diagonal)
    if found is None:
        return best, None
    for point in found.points:
        end = _End(joint.score(point), point, best.slope)
        if not found.settled:
            end = _descend_from(joint, point, cornered, limit)
        if end.score < best.score:
            best = end
    return best, found.lower


def _starts(joint: JointProblem, shape: tuple[int, ...], count: int, seed: int) -> Iterator[Point]:
    """The additive optimum first, where the composition contains addition; then random parameters, or lexicons."""
    counts = joint.derivations.counts
    additive = fit_linear(counts, joint.targets, joint.distance).lexicon
    squares = fit_linear(counts, joint.targets, SqL2()).lexicon
    for start in range(count):
        rng = np.random.default_rng([seed, start])
        parameters = joint.composition.initial(shape, joint.derivations.arity, rng)
        is_addition = start == 0 and _make_addition(parameters)
        lexicon = (additive if is_addition else squares).copy()
        if start and not parameters:  # a function, of which nothing else could be drawn
            lexicon = np.sqrt((squares**2).mean()) * rng.normal(size=squares.shape)
        yield lexicon, parameters


def _make_addition(parameters: Parameters) -> bool:
    """Set the parameters so that the composition adds its parts; whether it can."""
    if "maps" in parameters:
        rows = parameters["maps"].shape[1]
        parameters["maps"] = np.broadcast_to(np.eye(rows), parameters["maps"].shape).copy()
        if "tensor" in parameters:
            parameters["tensor"] = np.zeros_like(parameters["tensor"])
        return True
    if "scale" in parameters:
        parameters["scale"] = np.ones_like(parameters["scale"])
        return True
    return False


def _descend_from(joint: JointProblem, start: Point, cornered: bool, limit: int) -> _End:
    """Descend, with corners rounded off less and less; the start itself if that is better."""
    scale = _scale(joint)
    widths = [scale * width for width in (0.3, 0.1, 0.03, 0.01)] if cornered else [0.0]
    before, point, slope = joint.score(start), start, 0.0
    for width in widths:
        point, slope = joint.descend(point, width, limit // 4 if cornered else limit)
    after = joint.score(point)
    return _End(after, point, slope) if after < before else _End(before, start, slope)


def _scale(joint: JointProblem) -> float:
    return float(np.abs(joint.targets).max())


def _refine_smooth(joint: JointProblem, end: _End, limit: int) -> _End:
    further, slope = joint.descend(end.point, 0.0, limit)
    score = joint.score(further)
    return _End(score, further, slope) if score <= end.score else end


def _refine_corners(joint: JointProblem, ends: list[_End]) -> _End:
    """Refine the three best starts and return the best of all."""
    best = ends[0]
    for end in ends[:3]:
        point = _refine(joint, end.point)
        score = joint.score(point)
        if score < best.score:
            best = _End(score, point, end.slope)
    return best


def _refine(problem: JointProblem, point: Point, rounds: int = 6) -> Point:
    """Alternate exact linear programmes (at l1) with short smooth descents, and keep the best point."""
    scale = _scale(problem)
    best, value = point, problem.score(point)
    ahead, _ = problem.descend(point, 0.0, 200, SqL2())  # where an exact fit exists, least squares finds it
    if problem.score(ahead) < value:
        best, value = ahead, problem.score(ahead)
    point = best
    for _ in range(rounds):
        before = value
        if problem.distance.name == "l1":
            for programme in (_lexicon_programme, _parameter_programme):
                moved = programme(problem, point)
                if moved is None:
                    continue
                point = moved
                if (score := problem.score(point)) < value:
                    best, value = point, score
        if value <= 1e-9 * scale:
            break
        for width in (1e-2, 1e-3) if problem.distance.name == "l1" else (1e-3, 1e-4, 1e-5):
            point, _ = problem.descend(point, width * scale, 100)
        if (score := problem.score(point)) < value:
            best, value = point, score
        if before - value < 1e-7 * (1.0 + before):
            break
    return best


def lexicon_design(composition: Composition, derivations: Derivations, parameters: Parameters) -> Design | None:
    """The matrix from lexicon to predictions at fixed maps, found by composing unit vectors; None if too large."""
    if not isinstance(composition, PartMaps):
        return None
    rows, names = parameters["maps"].shape[1], len(derivations.names)
    if len(derivations) * rows * names * rows > PROGRAMME_ENTRIES:
        return None
    unit = np.eye(names * rows).reshape(names, rows * names * rows)
    homogeneous = {"maps": parameters["maps"]}
    images = compose_subtrees(composition, derivations, homogeneous, unit)[derivations.root]
    return Design.from_dense(images.reshape(len(derivations) * rows, names * rows))


def _lexicon_programme(problem: JointProblem, point: Point) -> Point | None:
    """The exact best lexicon at l1 for these parameters: one linear programme for each symbol."""
    design = lexicon_design(problem.composition, problem.derivations, point[1])
    if design is None:
        return None
    shift = problem.predict((np.zeros_like(point[0]), point[1]))
    rows = point[1]["maps"].shape[1]
    grid = (problem.targets - shift).reshape(len(shift) * rows, -1)
    return least_deviations(design, grid)[0].reshape(point[0].shape), point[1]


def _parameter_programme(problem: JointProblem, point: Point) -> Point | None:
    """The best parameters at l1 for this lexicon, by linear programmes on a linearisation (exact at height two)."""
    lexicon, parameters = point
    keys = sorted(parameters)
    size = sum(parameters[key].size for key in keys)
    if size * problem.targets.size > PROGRAMME_ENTRIES:
        return None
    here = problem.predict(point)
    columns = []
    for key in keys:
        for entry in range(parameters[key].size):
            moved = parameters[key].copy()
            moved.flat[entry] += 1e-4
            columns.append(((problem.predict((lexicon, parameters | {key: moved})) - here) / 1e-4).ravel())
    design = Design.from_dense(np.stack(columns, axis=1))
    if design.rank == 0:
        return None
    move = least_deviations(design, (problem.targets - here).reshape(-1, 1))[0].ravel()
    value, length = problem.score(point), 1.0
    for _ in range(8):
        moved_parameters, used = {}, 0
        for key in keys:
            piece = move[used : used + parameters[key].size].reshape(parameters[key].shape)
            moved_parameters[key] = parameters[key] + length * piece
            used += piece.size
        if problem.score((lexicon, moved_parameters)) <= value:
            return lexicon, moved_parameters
        length *= 0.5
    return None


def _release(problem: JointProblem, point: Point) -> Point:
    """From absorbed vectors x to the lexicon eta = A^{-1} x.

    A singular A must be changed before it can be inverted; of several small changes the best-scoring one is taken.
    """
    largest = max(float(np.linalg.norm(point[1]["maps"], 2, axis=(1, 2)).max()), 1e-100)
    best: tuple[float, Point] | None = None
    for floor in (0.0, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6):
        candidate = _inverted(point, problem.derivations.side, floor * largest)
        with np.errstate(all="ignore"):
            value = problem.score(candidate)
        if np.isfinite(value) and (best is None or value < best[0]):
            best = (value, candidate)
    assert best is not None
    if problem.distance.name == "l1":
        again = _lexicon_programme(problem, best[1])
        if again is not None and problem.score(again) < best[0]:
            return again
    return best[1]


def _inverted(point: Point, side: IntArray, floor: float) -> Point:
    """Undo the maps on every primitive; singular values below `floor` are raised to it first."""
    lexicon, parameters = point
    rows = parameters["maps"].shape[1]
    maps, released = np.empty_like(parameters["maps"]), np.zeros_like(lexicon)
    for slot, matrix in enumerate(parameters["maps"]):
        left, stretch, right = np.linalg.svd(matrix)
        stretch = np.maximum(stretch, floor)
        maps[slot] = (left * stretch) @ right
        grid = lexicon[side == slot].reshape(-1, rows, lexicon.shape[1] // rows)
        inverse = (right.T / np.maximum(stretch, 1e-300)) @ left.T
        released[side == slot] = np.matmul(inverse, grid).reshape(-1, lexicon.shape[1])
    return released, parameters | {"maps": maps}
