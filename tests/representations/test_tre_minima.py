"""Minima of `weighted` and `diagonal`: never worse than random restarts of a general optimiser, and proved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pomona as pm
from pomona.representations.tre import Derivations, tre
from pomona.representations.tre.cells import Paths, Squares, bases, box_bounds, certify
from pomona.representations.tre.compositions import COMPOSITIONS
from pomona.representations.tre.distances import distance_of
from pomona.representations.tre.learned import JointProblem
from pomona.representations.tre.many_maps import ManyMaps
from pomona.representations.tre.multistart import Many, best_of_many
from pomona.representations.tre.projection import Search
from pomona.representations.tre.recursion import compose_subtrees
from pomona.representations.tre.together import Slope, descend_together, shrink_together

pytestmark = pytest.mark.filterwarnings("ignore::pomona.representations.tre.ReconstructionWarning")
KINDS = [(compose, distance) for distance in ("sql2", "l1", "cosine", "l2") for compose in ("weighted", "diagonal")]
QUICK = 8  # of the 200 problems, so many are in the ordinary tests; `make conformance` has them all
WIDTHS = (0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4)  # corners are rounded off less and less


def small(seed: int) -> tuple[list[Any], np.ndarray]:
    """A random problem: two to four primitives, trees of height one to three, noise of one to three coordinates."""
    rng = np.random.default_rng(seed)
    names, items = list("abcd")[: rng.integers(2, 5)], int(rng.integers(6, 16))

    def tree(height: int) -> Any:
        if height == 0 or rng.random() < 0.3:
            return str(rng.choice(names))
        return (tree(height - 1), tree(height - 1))

    height, width = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    trees = []
    while len(trees) < items:
        made = tree(height)
        trees.append((made, str(rng.choice(names))) if isinstance(made, str) else made)
    return trees, rng.normal(size=(items, width))


@dataclass(frozen=True, eq=False)
class Every(Many):
    """The many points of the search under the other two distances as well."""

    name: str

    def distance_of(self, predictions: np.ndarray, corner: float) -> tuple[np.ndarray, np.ndarray]:
        if self.name in ("cosine", "l2"):
            return super().distance_of(predictions, corner)
        residual = predictions[:, self.paths.group] - self.targets
        if self.name == "sql2":
            return (residual**2).sum(axis=(1, 2)), self.item_of @ (2.0 * residual)
        size = np.sqrt(residual**2 + corner**2)
        return size.sum(axis=(1, 2)), self.item_of @ (residual / size)


def drawn(trees: list[Any], rows: np.ndarray, compose: str, starts: int) -> list[tuple[np.ndarray, dict[str, Any]]]:
    made, composition, rng = Derivations.of(trees), COMPOSITIONS[compose](), np.random.default_rng(1)
    points = []
    for _ in range(starts):
        own = composition.initial((rows.shape[1],), made.arity, rng)
        lexicon = rng.normal(size=(len(made.names), rows.shape[1]))
        points.append((lexicon, {k: rng.normal(size=v.shape) * rng.choice([0.5, 1.0, 2.0]) for k, v in own.items()}))
    return points


def restarted(trees: list[Any], rows: np.ndarray, compose: str, distance: str, starts: int) -> float:
    """The best of some random starts of scipy's L-BFGS over lexicon and numbers together."""
    joint = JointProblem(
        COMPOSITIONS[compose](), Derivations.of(trees), rows, distance_of(distance, (rows.shape[1],))
    )  # fmt: skip
    best = np.inf
    for point in drawn(trees, rows, compose, starts):
        for width in WIDTHS if distance in ("l1", "l2") else (0.0,):
            point, _ = joint.descend(point, width * float(np.abs(rows).max()), 300)
        best = min(best, joint.score(point))
    return best


def restarted_together(trees: list[Any], rows: np.ndarray, compose: str, distance: str, starts: int) -> float:
    """The same by BFGS on all starts at once, ten times as fast; the scores are those of the recursion."""
    made = Derivations.of(trees)
    paths = Paths.of(made)
    assert paths is not None
    many = Every(paths, rows, distance == "cosine", distance)
    points = drawn(trees, rows, compose, starts)
    (key,) = points[0][1]
    cut, shape, its = points[0][0].size, points[0][0].shape, points[0][1][key].shape
    flat = np.array([np.concatenate([lexicon.ravel(), own[key].ravel()]) for lexicon, own in points])

    def at(corner: float) -> Slope:
        def slope(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            numbers = points[:, cut:].reshape(len(points), its[0], -1)
            value, first, second = many.slope(points[:, :cut].reshape(-1, *shape), numbers, corner)
            return value, np.concatenate([first.reshape(len(points), -1), second.reshape(len(points), -1)], axis=1)

        return slope

    for width in WIDTHS if distance in ("l1", "l2") else (0.0,):
        _, flat = descend_together(at(width * float(np.abs(rows).max())), flat, 300, 1e-9)
    joint = JointProblem(COMPOSITIONS[compose](), made, rows, distance_of(distance, (rows.shape[1],)))
    return min(joint.score((one[:cut].reshape(shape), {key: one[cut:].reshape(its)})) for one in flat)


def law(seed: int, compose: str, distance: str, other: float) -> None:
    """The fit is no worse than another search, and its bound is below what that found."""
    trees, rows = small(seed)
    fit = tre(rows, trees, compose, distance, uncomposed="allow")
    assert fit.score <= other * (1 + 1e-3) + 1e-6, (seed, compose, distance)
    assert fit.bound.lower_bound <= other + 1e-9
    assert fit.bound.status == "best found" or fit.bound.gap <= max(0.01 * fit.score, 1e-6 * fit.bound.zero)


def test_signs_alone_are_searched_under_cosine() -> None:
    """One coordinate: cosine is a matter of signs and has no slope, and 48 random points used to find better ones."""
    law(0, "weighted", "cosine", restarted(*small(0), "weighted", "cosine", starts=48))


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=pytest.mark.conformance if seed >= QUICK else ()) for seed in range(200)]
)
def test_never_worse_than_48_random_restarts_on_200_problems(seed: int) -> None:
    """Every distance in turn, with either composition."""
    kind = KINDS[seed % len(KINDS)]
    law(seed, *kind, restarted_together(*small(seed), *kind, starts=48))


@pytest.mark.conformance
@pytest.mark.parametrize("seed", range(24))
def test_linear_is_never_worse_than_48_random_restarts(seed: int) -> None:
    """Full maps: starts one by one, absorbed where that is possible; elsewhere up to 384 random ones together."""
    distance = ("sql2", "l1", "cosine", "l2")[seed % 4]
    law(seed, "linear", distance, restarted(*small(seed), "linear", distance, starts=48))


@pytest.mark.parametrize(("compose", "distance"), KINDS)
def test_restarts_together_are_as_good_as_one_by_one(compose: str, distance: str) -> None:
    """The rival of the law is no straw man: from equal starts it ends where scipy's L-BFGS ends, or lower."""
    problem = small(2)
    together = restarted_together(*problem, compose, distance, starts=6)
    assert together <= restarted(*problem, compose, distance, starts=6) * (1 + 1e-3) + 1e-6


def test_simplexes_shrink_together_to_where_one_does() -> None:
    """A valley with a corner along |x| = y and its least value at (1, 1), where Nelder and Mead's search must turn."""

    def valley(points: np.ndarray) -> np.ndarray:
        x, y = points.T
        return np.abs(np.abs(x) - y) + 0.1 * (x - 1.0) ** 2

    starts = np.random.default_rng(0).uniform(0.2, 3, size=(30, 2))
    value, points = shrink_together(valley, starts, 400)
    np.testing.assert_array_equal(value, valley(points))
    assert (value <= valley(starts)).all()
    assert np.median(value) < 1e-9
    alone = [shrink_together(valley, start[None], 400)[1][0] for start in starts[:5]]
    np.testing.assert_allclose(points[:5], alone, atol=1e-12)  # company changes nothing


@pytest.mark.parametrize("distance", ["sql2", "l1"])
def test_many_points_have_the_values_of_one(distance: str) -> None:
    """The least distance of all lexicons at given numbers, all at once, is what one fit at a time finds."""
    trees, rows = small(11)
    paths = Paths.of(Derivations.of(trees))
    assert paths is not None
    search = Search(paths, rows, distance_of(distance, (rows.shape[1],)))
    points = np.random.default_rng(0).normal(size=(40, 2))
    np.testing.assert_allclose(search.values(points), [search.value(point) for point in points], rtol=1e-6)
    assert np.isinf(search.values(np.array([[np.inf, 1.0], [np.nan, 1.0]]))).all()


def test_many_descend_to_where_one_does() -> None:
    """Rosenbrock's valley from many points at once; the minimum is at (1, 1)."""

    def valley(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x, y = points.T
        bend = y - x**2
        return (1 - x) ** 2 + 100 * bend**2, np.stack([2 * (x - 1) - 400 * x * bend, 200 * bend], axis=1)

    starts = np.random.default_rng(0).uniform(-2, 2, size=(40, 2))
    value, points = descend_together(valley, starts, 200, 1e-12)
    assert value.max() < 1e-9
    np.testing.assert_allclose(points, 1.0, atol=1e-3)
    alone = [descend_together(valley, start[None], 200, 1e-12)[1][0] for start in starts[:5]]
    np.testing.assert_allclose(points[:5], alone, atol=1e-6)  # company changes nothing


@pytest.mark.parametrize("distance", ["cosine", "l2"])
def test_children_never_raise_the_best(distance: str) -> None:
    """Generations only add points: the search finds what few restarts find, and the same each time."""
    trees, rows = small(15)
    paths = Paths.of(Derivations.of(trees))
    assert paths is not None
    grid = np.random.default_rng(2).normal(size=(60, 2))
    found = [
        best_of_many(paths, rows, cosine=distance == "cosine", diagonal=True, known=[], grid=grid) for _ in range(2)
    ]
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one[0], other[0])
    joint = JointProblem(COMPOSITIONS["diagonal"](), Derivations.of(trees), rows, distance_of(distance, (3,)))
    scores = [joint.score(point) for point in found[0]]
    assert scores[0] <= restarted_together(trees, rows, "diagonal", distance, starts=16) * (1 + 1e-3)


@given(st.integers(0, 10_000), st.booleans(), st.booleans())
@settings(max_examples=20, deadline=None)
def test_many_starts_have_the_slopes_of_one(seed: int, cosine: bool, diagonal: bool) -> None:
    """The batch of starts computes the distance and the gradients that the recursion computes, point by point."""
    trees, rows = small(seed)
    made = Derivations.of(trees)
    paths = Paths.of(made)
    assert paths is not None
    many = Many(paths, rows, cosine)
    lexicon, numbers = many.drawn(3, diagonal, np.random.default_rng(seed))
    corner = 0.02
    value, by_lexicon, by_number = many.slope(lexicon, numbers, corner)
    key = "scale" if diagonal else "maps"
    name, distance = ("diagonal" if diagonal else "weighted"), ("cosine" if cosine else "l2")
    joint = JointProblem(COMPOSITIONS[name](), made, rows, distance_of(distance, (rows.shape[1],)))
    for one in range(3):
        own = numbers[one] if diagonal else numbers[one][:, :, None]
        total, first, second = joint.slope((lexicon[one], {key: own}), joint.distance, corner)
        assert value[one] == pytest.approx(total + (0.0 if cosine else corner * len(rows)), rel=1e-9)
        np.testing.assert_allclose(by_lexicon[one], first, rtol=1e-7, atol=1e-7 * (1.0 + np.abs(first).max()))
        wanted = second[key].reshape(by_number[one].shape)
        np.testing.assert_allclose(by_number[one], wanted, rtol=1e-7, atol=1e-7 * (1.0 + np.abs(wanted).max()))


@given(st.integers(0, 10_000), st.sampled_from(["sql2", "l1", "l2", "cosine"]))
@settings(max_examples=20, deadline=None)
def test_many_starts_of_maps_have_the_slopes_of_one(seed: int, distance: str) -> None:
    """The batch composes with full matrices as the recursion does, point by point."""
    trees, rows = small(seed)
    made, width, corner = Derivations.of(trees), rows.shape[1], 0.02 if distance in ("l1", "l2") else 0.0
    many = ManyMaps(made, rows, width, distance)
    points = many.drawn(3, np.random.default_rng(seed))
    value, slope = many.slope(points, corner)
    joint = JointProblem(COMPOSITIONS["linear"](), made, rows, distance_of(distance, (width,)))
    for one, flat in enumerate(points):
        lexicon, maps, bias = (part[0] for part in many.parts(flat[None]))
        total, first, own = joint.slope((lexicon, {"maps": maps, "bias": bias}), joint.distance, corner)
        rounded = {"l1": rows.size, "l2": len(rows)}.get(distance, 0) * corner  # which the recursion leaves out
        assert value[one] == pytest.approx(total + rounded, rel=1e-9)
        wanted = np.concatenate([first.ravel(), own["maps"].ravel(), own["bias"].ravel()])
        np.testing.assert_allclose(slope[one], wanted, rtol=1e-7, atol=1e-7 * (1.0 + np.abs(wanted).max()))


def test_maps_of_parts_on_both_sides_are_searched_from_many_starts() -> None:
    """Twelve starts one by one end at 0.0498, and 48 restarts at 0.0222; the bound by rank is 0.0018."""
    trees, rows = small(6)
    fit = tre(rows, trees, "linear", "cosine", uncomposed="allow")
    assert fit.bound.lower_bound <= fit.score < 0.004


def test_the_smallest_case_reaches_zero() -> None:
    trees = [("p", "p"), ("p", "p"), (("p", "p"), ("p", "p"))]
    for compose in ("weighted", "diagonal"):
        for distance in ("l1", "sql2"):
            fit = pm.tre([[1.0], [1.0], [-1.0]], trees, compose=compose, distance=distance)
            assert fit.score < 1e-9  # a + b = -1 and p = -1
            assert fit.bound.status == "optimal"


@pytest.mark.parametrize("compose", ["weighted", "diagonal"])
def test_pairs_are_certified_under_squared_l2(compose: str) -> None:
    """Where all leaves are equally deep only the ratio of the numbers matters, and the minimum is proved."""
    rng = np.random.default_rng(5)
    trees = [tuple(pair) for pair in rng.choice(list("abcde"), size=(30, 2)).tolist()]
    fit = tre(rng.normal(size=(30, 3)), trees, compose, "sql2")
    assert fit.bound.status == "optimal"
    assert fit.bound.source == "cells"
    assert fit.score < tre(fit.rows, trees, distance="sql2").score


@pytest.mark.parametrize("distance", ["sql2", "l1"])
def test_tables_by_weight_bound_more_than_tables_by_position(distance: str) -> None:
    """In (a b) c and c (a b) the leaf a has the weights a a and b a: equal paths share a vector in every shape."""
    rng = np.random.default_rng(3)
    trees = [(x, (y, z)) for x in "ab" for y in "ab" for z in "ab"]
    trees += [((x, y), z) for x in "ab" for y in "ab" for z in "ab"]
    rows = rng.normal(size=(len(trees), 4))
    weights = tre(rows, trees, "weighted", distance, restarts=1).bound
    positions = tre(rows, trees, "linear", distance, restarts=1).bound
    assert weights.lower_bound > positions.lower_bound + 1e-6


@given(st.integers(0, 10_000), st.booleans())
@settings(max_examples=12, deadline=None)
def test_no_numbers_are_below_the_certificate(seed: int, together: bool) -> None:
    """A bound over all numbers, at any budget, is below the error at every choice of them."""
    trees, rows = small(seed)
    paths = Paths.of(Derivations.of(trees))
    assert paths is not None
    squares = Squares.of(paths, rows, together)
    functions = 1 if together else rows.shape[1]
    proof = certify(paths.charts(), squares, np.full(functions, np.inf), 0.01, budget=400)
    numbers = np.random.default_rng(seed).standard_cauchy(size=(400, 2))
    matrices = np.zeros((len(numbers), *paths.shape))
    weights = np.prod(numbers[:, None, :] ** paths.exponent, axis=2)
    np.add.at(matrices, (slice(None), paths.row, paths.column), weights)
    error = squares.joined(squares.errors(bases(matrices * squares.weight[:, None]))) + squares.joined(squares.within)
    assert (proof.lower <= error.min(axis=0) * (1 + 1e-9) + 1e-9).all()
    assert (proof.lower <= proof.best + 1e-9).all()


@given(st.integers(0, 10_000), st.sampled_from([0.003, 0.03, 0.1, 0.3]))
@settings(max_examples=40, deadline=None)
def test_no_point_of_a_box_is_below_its_bound(seed: int, size: float) -> None:
    trees, rows = small(seed)
    paths = Paths.of(Derivations.of(trees))
    assert paths is not None
    rng = np.random.default_rng(seed)
    squares = Squares.of(paths, rows, together=False)
    for chart in paths.charts():
        centre = rng.uniform(chart.low + size, 1.0 - size, size=(6, len(chart.low)))
        half = np.full(centre.shape, size)
        _, lower = box_bounds(chart, squares, centre, half)
        for one in range(len(centre)):
            points = centre[one] + rng.uniform(-size, size, size=(60, len(chart.low)))
            error = squares.errors(bases(chart.matrices(points) * squares.weight[:, None]))
            assert (lower[one] <= error.min(axis=0) * (1 + 1e-9) + 1e-9).all()


@given(st.integers(0, 10_000))
@settings(max_examples=15, deadline=None)
def test_every_chart_is_the_composition(seed: int) -> None:
    """At the numbers of a chart's point, composing spans the same predictions as the chart's matrix."""
    trees, _ = small(seed)
    made = Derivations.of(trees)
    paths = Paths.of(made)
    assert paths is not None
    rng = np.random.default_rng(seed)
    for chart in paths.charts():
        point = rng.uniform(np.maximum(chart.low, -1.0), 1.0)[None]
        numbers = chart.numbers(point)[0]
        lexicon = np.eye(len(made.names))
        composed = compose_subtrees(
            COMPOSITIONS["weighted"](), made, {"maps": numbers.reshape(-1, 1, 1)}, lexicon
        )[made.root]  # fmt: skip
        matrix = chart.matrices(point)[0][paths.group]
        scale = (composed * matrix).sum(axis=0) / np.maximum((matrix**2).sum(axis=0), 1e-300)
        np.testing.assert_allclose(matrix * scale, composed, rtol=1e-6, atol=1e-9 * np.abs(composed).max())
