"""Fits of learned compositions: restarts, alternating refinement, and a change of variables that makes them easy.

The lexicon and the composition are fitted together (section 3, "Learnable composition operators"), which is not
convex. Three things make it tractable and honest:

* Absorbed maps. Under A x + B y with every primitive always on the same side, x = A eta is as free as eta is. Fitting x
  takes one factor out of every product, and the bad basins that catch the direct problem disappear: on the paper's
  reference game all starts agree. The true lexicon is recovered at the end by inverting A.
* The first start is the additive optimum, so a composition that contains addition never scores worse than addition.
* At l1, smoothing ever more finely and then alternating exact linear programmes in the lexicon and (linearised) in
  the parameters removes the noise floor that the published values sit on.

How good the result is, is not judged here: `certificate` compares it with a bound that knows nothing of these steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pomona.base.arrays import Floats
from pomona.representations.tre.additive import fit_linear
from pomona.representations.tre.compositions import Composition, Parameters, _PartMaps, compose, gradients
from pomona.representations.tre.derivations import Derivations
from pomona.representations.tre.design import Design, FloatArray
from pomona.representations.tre.distances import Distance, SqL2
from pomona.representations.tre.least_deviations import least_deviations

PROGRAMME_ENTRIES = 4_000_000  # the largest dense design that the alternating programmes take on
Point = tuple[FloatArray, Parameters]


@dataclass(frozen=True, eq=False)
class LearnedFit:
    lexicon: FloatArray
    parameters: Parameters
    per_item: FloatArray
    gradient_norm: float | None
    iterations: int
    starts: tuple[float, ...]  # the mean distance each start ended at, before refinement


@dataclass(eq=False)
class _Problem:
    """One joint minimisation: packs and unpacks the numbers that an optimiser sees."""

    composition: Composition
    derivations: Derivations
    targets: FloatArray
    distance: Distance
    evaluations: int = 0

    def predict(self, point: Point) -> FloatArray:
        return compose(self.composition, self.derivations, point[1], point[0])[self.derivations.root]

    def per_item(self, point: Point) -> FloatArray:
        return self.distance.per_item(self.predict(point), self.targets)

    def score(self, point: Point) -> float:
        return float(self.per_item(point).mean())

    def slope(self, point: Point, distance: Distance, width: float) -> tuple[float, FloatArray, Parameters]:
        self.evaluations += 1
        values = compose(self.composition, self.derivations, point[1], point[0])
        total, grad = distance.smoothed(values[self.derivations.root], self.targets, width)
        lexicon, parameters = gradients(self.composition, self.derivations, point[1], values, grad)
        return total, lexicon, parameters

    def descend(self, point: Point, width: float, limit: int, distance: Distance | None = None) -> tuple[Point, float]:
        """L-BFGS over lexicon and parameters together; returns the end and its gradient norm."""
        from scipy.optimize import minimize

        measured = distance or self.distance
        items = len(self.derivations)
        keys = sorted(point[1])
        sizes = [point[0].size] + [point[1][key].size for key in keys]
        cuts = np.cumsum(sizes)[:-1]

        def unpack(flat: FloatArray) -> Point:
            pieces = np.split(flat, cuts)
            made = {key: piece.reshape(point[1][key].shape) for key, piece in zip(keys, pieces[1:], strict=True)}
            return pieces[0].reshape(point[0].shape), made

        def objective(flat: FloatArray) -> tuple[float, FloatArray]:
            total, lexicon, parameters = self.slope(unpack(flat), measured, width)
            return total / items, np.concatenate([lexicon.ravel(), *(parameters[key].ravel() for key in keys)]) / items

        flat = np.concatenate([point[0].ravel(), *(point[1][key].ravel() for key in keys)])
        settings = {"maxiter": limit, "maxfun": 2 * limit, "maxcor": 20, "gtol": 1e-9, "ftol": 1e-14}
        found = minimize(objective, flat, jac=True, method="L-BFGS-B", options=settings)
        return unpack(found.x), float(np.abs(found.jac).max())


def fit_learned(
    composition: Composition,
    derivations: Derivations,
    targets: Floats,
    distance: Distance,
    shape: tuple[int, ...],
    *,
    seed: int,
    restarts: int | None = None,
    limit: int = 400,
) -> LearnedFit:
    """Fit the lexicon and the parameters of a composition together."""
    wanted: FloatArray = np.asarray(targets, np.float64)
    absorbing = isinstance(composition, _PartMaps) and bool((derivations.side != -1).all())
    inner: Composition = replace(composition, absorbed=True) if absorbing else composition  # type: ignore[type-var]
    problem = _Problem(inner, derivations, wanted, distance)
    additive = fit_linear(derivations.counts, wanted, distance).lexicon
    squares = fit_linear(derivations.counts, wanted, SqL2()).lexicon
    arity = derivations.arity
    count = restarts or (8 if absorbing else 12 if composition.linear and wanted.size <= 10_000 else 4)
    cornered = distance.name in ("l1", "l2")
    scale = float(np.abs(wanted).max())
    widths = [scale * width for width in (0.3, 0.1, 0.03, 0.01)] if cornered else [0.0]
    ends: list[tuple[float, int, Point]] = []
    slope: float | None = None
    slopes = {}
    for start in range(count):
        rng = np.random.default_rng([seed, start])
        parameters = inner.initial(shape, arity, rng)
        lexicon = squares
        if start == 0 and "maps" in parameters:
            rows = parameters["maps"].shape[1]
            parameters["maps"] = np.broadcast_to(np.eye(rows), parameters["maps"].shape).copy()
            lexicon = additive
            if "tensor" in parameters:
                parameters["tensor"] = np.zeros_like(parameters["tensor"])
        elif start == 0 and "scale" in parameters:
            parameters["scale"] = np.ones_like(parameters["scale"])
            lexicon = additive
        point: Point = (lexicon.copy(), parameters)
        begun = (problem.score(point), start, point)
        for width in widths:
            point, slope = problem.descend(point, width, limit if not cornered else limit // 4)
        end = (problem.score(point), start, point)
        slopes[start] = slope
        ends.append(min(begun, end, key=lambda found: found[0]))
    starts = tuple(found[0] for found in ends)
    ends.sort(key=lambda found: found[0])
    best, which, point = ends[0]
    if cornered:
        for value, start, begun_at in ends[:3]:
            refined = _refine(problem, begun_at, scale)
            value = problem.score(refined)
            if value < best:
                best, which, point = value, start, refined
    else:
        further, slope = problem.descend(point, 0.0, 5 * limit)
        if problem.score(further) <= best:
            point, slopes[which] = further, slope
    lexicon, parameters = point
    if absorbing:
        lexicon, parameters = _release(problem, point, composition)
        problem = _Problem(composition, derivations, wanted, distance)
    return LearnedFit(
        lexicon,
        parameters,
        problem.per_item((lexicon, parameters)),
        None if cornered else slopes[which],
        problem.evaluations,
        starts,
    )


def _refine(problem: _Problem, point: Point, scale: float, rounds: int = 6) -> Point:
    """Alternate exact programmes with short smooth descents, keeping the best; at l2 only the descents."""
    best, value = point, problem.score(point)
    for polished in (SqL2(),):  # where an exact fit exists, least squares walks straight into it
        ahead, _ = problem.descend(point, 0.0, 200, polished)
        if problem.score(ahead) < value:
            best, value = ahead, problem.score(ahead)
    at = best
    for _ in range(rounds):
        before = value
        if problem.distance.name == "l1":
            for move in (_lexicon_programme, _parameter_programme):
                ahead_or_none = move(problem, at)
                if ahead_or_none is None:
                    continue
                at = ahead_or_none
                if (now := problem.score(at)) < value:
                    best, value = at, now
        if value <= 1e-9 * scale:
            break
        for width in (1e-2, 1e-3) if problem.distance.name == "l1" else (1e-3, 1e-4, 1e-5):
            at, _ = problem.descend(at, width * scale, 100)
        if (now := problem.score(at)) < value:
            best, value = at, now
        if before - value < 1e-7 * (1.0 + before):
            break
    return best


def lexicon_design(composition: Composition, derivations: Derivations, parameters: Parameters) -> Design | None:
    """At fixed maps the prediction is linear in the lexicon; its matrix, found by composing unit vectors."""
    if not isinstance(composition, _PartMaps):
        return None
    rows, names = parameters["maps"].shape[1], len(derivations.names)
    if len(derivations) * rows * names * rows > PROGRAMME_ENTRIES:
        return None
    unit = np.eye(names * rows).reshape(names, rows * names * rows)
    homogeneous = {"maps": parameters["maps"]}
    images = compose(composition, derivations, homogeneous, unit)[derivations.root]
    return Design.from_dense(images.reshape(len(derivations) * rows, names * rows))


def _lexicon_programme(problem: _Problem, point: Point) -> Point | None:
    """The exact best lexicon at l1 for these parameters: one linear programme for each symbol."""
    design = lexicon_design(problem.composition, problem.derivations, point[1])
    if design is None:
        return None
    shift = problem.predict((np.zeros_like(point[0]), point[1]))
    rows = point[1]["maps"].shape[1]
    grid = (problem.targets - shift).reshape(len(shift) * rows, -1)
    return least_deviations(design, grid)[0].reshape(point[0].shape), point[1]


def _parameter_programme(problem: _Problem, point: Point) -> Point | None:
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
        made, used = {}, 0
        for key in keys:
            piece = move[used : used + parameters[key].size].reshape(parameters[key].shape)
            made[key] = parameters[key] + length * piece
            used += piece.size
        if problem.score((lexicon, made)) <= value:
            return lexicon, made
        length *= 0.5
    return None


def _release(problem: _Problem, point: Point, composition: Composition) -> Point:
    """From absorbed to true: eta = A^{-1} x. A singular A is moved by as little as serves the whole fit best."""
    lexicon, parameters = point
    side = problem.derivations.side
    rows = parameters["maps"].shape[1]
    truth = _Problem(composition, problem.derivations, problem.targets, problem.distance)
    largest = max(float(np.linalg.norm(parameters["maps"], 2, axis=(1, 2)).max()), 1e-100)
    best: tuple[float, Point] | None = None
    for floor in (0.0, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6):
        maps = np.empty_like(parameters["maps"])
        made = np.zeros_like(lexicon)
        for slot, matrix in enumerate(parameters["maps"]):
            left, stretch, right = np.linalg.svd(matrix)
            stretch = np.maximum(stretch, floor * largest)
            maps[slot] = (left * stretch) @ right
            grid = lexicon[side == slot].reshape(-1, rows, lexicon.shape[1] // rows)
            inverse = (right.T / np.maximum(stretch, 1e-300)) @ left.T
            made[side == slot] = np.matmul(inverse, grid).reshape(-1, lexicon.shape[1])
        candidate: Point = (made, parameters | {"maps": maps})
        with np.errstate(all="ignore"):
            value = truth.score(candidate)
        if np.isfinite(value) and (best is None or value < best[0]):
            best = (value, candidate)
    assert best is not None
    if problem.distance.name == "l1":
        again = _lexicon_programme(truth, best[1])
        if again is not None and truth.score(again) < best[0]:
            return again
    return best[1]
