"""Additive TRE equals brute force and linear programming, has valid bounds, and ignores what must not matter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles_tre import brute_force_additive, linear_programme, noisy_sums, plain_distance, recursive_prediction
from pomona.base.errors import MeasureError, SpecError
from pomona.representations.tre import Derivations, ReconstructionWarning, tre
from pomona.representations.tre.additive import fit_linear
from pomona.representations.tre.design import CHUNK, Design
from pomona.representations.tre.distances import DISTANCES, CrossEntropy, distance_of
from pomona.representations.tre.least_deviations import dual_bound, least_deviations

CONVEX = ("sql2", "l2", "l1")
ALL = (*CONVEX, "cosine")
TINY = [("a", "b"), "a", "b", ("a", ("b", "b")), (("a", "a"), "b"), ("b", "a")]


def pairs(items: int, seed: int, width: int = 4, noise: float = 0.5) -> tuple[list, np.ndarray]:
    """Items of two primitives, for which addition can express a constant prediction."""
    rng = np.random.default_rng(seed)
    lexicon = rng.normal(size=(8, width))
    chosen = np.stack([rng.integers(0, 4, items), rng.integers(4, 8, items)], axis=1)
    rows = lexicon[chosen].sum(axis=1) + noise * rng.normal(size=(items, width))
    return [tuple(pair) for pair in chosen.tolist()], rows


@pytest.mark.parametrize("distance", ALL)
def test_equal_to_brute_force_on_a_tiny_problem(distance: str) -> None:
    rng = np.random.default_rng(5)
    matrix = Derivations.of(TINY).counts.dense()
    rows = matrix @ np.array([[1.0, 0.2], [-0.3, 1.0]]) + 0.5 * rng.normal(size=(6, 2))
    fit = tre(rows, TINY, distance=distance)
    assert fit.score == pytest.approx(brute_force_additive(rows, TINY, distance), abs=1e-7)


@pytest.mark.parametrize("distance", ALL)
def test_per_item_is_the_distance_of_the_prediction(distance: str) -> None:
    trees, rows = noisy_sums(60, 8, 5, seed=1)
    fit = tre(rows, trees, distance=distance)
    lexicon = fit.lexicon
    for row in (0, 7, 31):
        guess = recursive_prediction(trees[row], lexicon, lambda *parts: sum(parts))
        np.testing.assert_allclose(fit.predict([trees[row]])[0], guess, atol=1e-12)
        assert fit.per_item[row] == pytest.approx(plain_distance(distance, guess, rows[row]), abs=1e-9)
    assert fit.score == pytest.approx(fit.per_item.mean())


@given(st.integers(0, 10_000), st.integers(1, 3))
@settings(max_examples=25, deadline=None)
def test_l1_equals_linear_programming(seed: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.integers(0, 3, size=(12, 4)).astype(float)
    targets = rng.integers(-2, 3, size=(12, width)).astype(float)  # whole numbers: ties and degenerate corners
    lexicon, bound = least_deviations(Design.from_dense(matrix), targets)
    exact = sum(linear_programme(matrix, column) for column in targets.T)
    assert np.abs(matrix @ lexicon - targets).sum() == pytest.approx(exact, abs=1e-6)
    assert bound == pytest.approx(exact, abs=1e-6)
    assert bound <= exact + 1e-9


@given(st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_any_signs_give_a_true_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix, target = rng.integers(0, 2, size=(9, 3)).astype(float), rng.normal(size=(9, 1))
    bound = dual_bound(Design.from_dense(matrix), target, rng.uniform(-3, 3, size=(9, 1)))
    assert bound <= linear_programme(matrix, target[:, 0]) + 1e-9


@given(st.integers(0, 1000), st.integers(1, 3))
@settings(max_examples=8, deadline=None)
def test_chunks_in_single_precision_are_as_exact_as_the_rows(seed: int, chunks: int) -> None:
    """C'Y of many rows in single precision differs from the exact one by less than the rounding of the rows."""
    rng = np.random.default_rng(seed)
    items = chunks * CHUNK + int(rng.integers(1, 40))
    row = np.repeat(np.arange(items), 3)
    design = Design.from_entries(row, rng.integers(0, 7, size=len(row)), items, 7)
    values, weight = rng.normal(size=(items, 5)).astype(np.float32), rng.uniform(0.5, 2.0, size=items)
    for factor in (None, weight):
        exact = design.transposed_times(values.astype(np.float64), factor)
        size = design.transposed_times(np.abs(values).astype(np.float64), factor)
        assert (np.abs(design.transposed_times(values, factor) - exact) <= 2e-6 * size).all()


def test_squared_is_least_squares() -> None:
    trees, rows = noisy_sums(80, 9, 6, seed=2)
    matrix = Derivations.of(trees).counts.dense()
    slow = rows - matrix @ np.linalg.lstsq(matrix, rows, rcond=None)[0]
    fit = tre(rows, trees, distance="sql2")
    assert fit.score == pytest.approx((slow**2).sum(axis=1).mean(), rel=1e-12)
    assert fit.bound.status == "optimal"
    assert fit.bound.rank == np.linalg.matrix_rank(matrix)
    assert fit.bound.degrees_of_freedom == rows.size - 9 * 6


@pytest.mark.parametrize("distance", CONVEX)
def test_convex_fits_are_certified(distance: str) -> None:
    trees, rows = noisy_sums(120, 10, 6, seed=3)
    certificate = tre(rows, trees, distance=distance).bound
    assert certificate.status == "optimal"
    assert 0 <= certificate.gap <= 1e-6 * certificate.zero


@pytest.mark.filterwarnings("ignore::pomona.representations.tre.ReconstructionWarning")
def test_corners_and_zeros_are_certified_under_l2() -> None:
    """The geometric median of four points is often one of them: a corner, where the distance has no gradient."""
    for seed in range(6):
        points = np.random.default_rng(seed).normal(size=(4, 2))
        fit = tre(points, [("a", "a")] * 4, distance="l2")
        assert fit.bound.gap < 1e-5
        assert fit.bound.lower_bound <= fit.score
    assert tre(np.zeros((3, 2)), [("a", "b"), ("b", "c"), ("a", "c")], distance="l2").score == 0.0


def test_cosine_is_stationary_and_says_best_found() -> None:
    trees, rows = noisy_sums(200, 12, 8, seed=4)
    fit = tre(rows, trees, restarts=6)
    assert fit.bound.status == "best found"
    assert fit.bound.gradient_norm is not None
    assert fit.bound.gradient_norm < 1e-8
    assert fit.bound.restarts == 6
    assert fit.bound.spread is not None
    assert fit.bound.spread < 1e-6


@pytest.mark.parametrize("distance", ["cosine", "l2", "l1", "sql2", "crossentropy"])
def test_gradients_equal_finite_differences(distance: str) -> None:
    rng = np.random.default_rng(0)
    made = CrossEntropy(2) if distance == "crossentropy" else DISTANCES[distance]()
    targets = (
        np.eye(3)[rng.integers(0, 3, (5, 2))].reshape(5, 6) if distance == "crossentropy" else rng.normal(size=(5, 6))
    )
    at = rng.normal(size=(5, 6))
    _, slope = made.smoothed(at, targets, 1e-3)
    for entry in np.ndindex(5, 6):
        step = np.zeros_like(at)
        step[entry] = 1e-6
        change = made.smoothed(at + step, targets, 1e-3)[0] - made.smoothed(at - step, targets, 1e-3)[0]
        assert slope[entry] == pytest.approx(change / 2e-6, abs=1e-5)


@pytest.mark.parametrize("distance", ["cosine", "l2", "l1", "sql2"])
def test_smoothed_and_plain_distances_agree(distance: str) -> None:
    rng = np.random.default_rng(1)
    made, at, targets = DISTANCES[distance](), rng.normal(size=(7, 4)), rng.normal(size=(7, 4))
    assert made.smoothed(at, targets, 0.0)[0] == pytest.approx(made.per_item(at, targets).sum())
    slow = [plain_distance(distance, p, y) for p, y in zip(at, targets, strict=True)]
    np.testing.assert_allclose(made.per_item(at, targets), slow, atol=1e-12)


@pytest.mark.parametrize("distance", ALL)
def test_planted_sums_score_zero(distance: str) -> None:
    trees, rows = pairs(40, seed=6, noise=0.0)
    assert tre(rows, trees, distance=distance).score < 1e-6


@given(st.integers(0, 10_000), st.sampled_from(ALL))
@settings(max_examples=40, deadline=None)
@pytest.mark.filterwarnings("ignore::pomona.representations.tre.ReconstructionWarning")
def test_never_above_the_trivial_predictors(seed: int, distance: str) -> None:
    trees, rows = pairs(12, seed=seed, noise=3.0)
    fit = tre(rows, trees, distance=distance)
    assert fit.score <= fit.bound.zero + 1e-9
    assert fit.score <= fit.bound.centroid + 1e-7
    assert fit.bound.lower_bound <= fit.score + 1e-12
    assert not [note for note in fit.notes if "worse" in note]


@given(st.integers(0, 10_000), st.sampled_from(ALL))
@settings(max_examples=30, deadline=None)
@pytest.mark.filterwarnings("ignore::pomona.representations.tre.ReconstructionWarning")
def test_order_and_labels_change_nothing(seed: int, distance: str) -> None:
    trees, rows = pairs(20, seed=seed)
    order = np.random.default_rng(seed).permutation(20)
    names = dict(zip(range(8), np.random.default_rng(seed).permutation(8).tolist(), strict=True))
    fit = tre(rows, trees, distance=distance)
    moved = tre(rows[order], [trees[k] for k in order], distance=distance)
    renamed = tre(rows, [tuple(f"word{names[k]}" for k in tree) for tree in trees], distance=distance)
    assert moved.score == pytest.approx(fit.score, abs=1e-8)
    if distance in ("sql2", "cosine"):
        np.testing.assert_allclose(moved.per_item, fit.per_item[order], atol=1e-8)
    if distance != "cosine" or (fit.bound.gradient_norm or 0.0) < 1e-6:  # where the minimum exists
        assert renamed.score == pytest.approx(fit.score, abs=1e-7)


def test_cosine_ignores_scale() -> None:
    trees, rows = noisy_sums(80, 9, 6, seed=7)
    scale = np.random.default_rng(0).uniform(0.01, 100.0, size=(80, 1))
    expected = pytest.approx(tre(rows, trees).score, abs=1e-8)
    assert tre(rows * scale, trees).score == expected
    assert tre(rows * 1e200, trees).score == expected
    assert tre(rows * 1e-200, trees).score == expected


def test_earlier_fits_leave_no_trace() -> None:
    trees, rows = noisy_sums(60, 8, 5, seed=8)
    first = tre(rows, trees).per_item
    tre(rows[::-1], trees, distance="l2")
    assert np.array_equal(tre(rows, trees).per_item, first)


def test_crossentropy_equals_logistic_regression() -> None:
    """Two attributes, one position: the score equals that of a long gradient descent, and the bound is below it."""
    rng = np.random.default_rng(9)
    trees = [(f"a{i}", f"b{j}") for i in range(3) for j in range(2) for _ in range(8)]
    messages = np.eye(3)[rng.integers(0, 3, len(trees))][:, None, :]
    fit = tre(messages, trees, distance="crossentropy")
    matrix = Derivations.of(trees).counts.dense()
    lexicon = np.zeros((5, 3))
    for _ in range(20_000):
        logits = matrix @ lexicon
        share = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        lexicon -= 0.05 / len(trees) * 10 * matrix.T @ (share - messages[:, 0])
    slow = -np.log((share * messages[:, 0]).sum(axis=1)).mean()
    assert fit.score == pytest.approx(slow, abs=1e-6)
    assert fit.bound.lower_bound <= fit.score
    assert fit.bound.gap < 1e-6


def test_many_primitives_use_conjugate_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    trees, rows = noisy_sums(150, 12, 5, seed=10, noise=0.3)
    dense = {name: tre(rows, trees, distance=name).score for name in ("sql2", "cosine", "l2")}
    for module in ("design", "additive"):
        monkeypatch.setattr(f"pomona.representations.tre.{module}.DENSE_COLUMNS", 4)
    for name, score in dense.items():
        fit = tre(rows, trees, distance=name)
        assert fit.score == pytest.approx(score, rel=1e-6)
        assert fit.bound.rank is None


def test_large_l1_problems_are_smoothed_and_still_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    trees, rows = noisy_sums(100, 8, 4, seed=11)
    exact = tre(rows, trees, distance="l1")
    monkeypatch.setattr("pomona.representations.tre.additive.DENSE_ENTRIES", 10)
    smooth = tre(rows, trees, distance="l1")
    assert exact.score <= smooth.score <= exact.score * (1 + 1e-4)
    assert smooth.bound.lower_bound <= exact.score + 1e-9
    assert smooth.bound.gap < 0.01 * exact.score


def test_single_precision_is_read_as_it_is() -> None:
    trees, rows = noisy_sums(90, 8, 6, seed=12)
    for distance in ALL:
        single = tre(rows.astype(np.float32), trees, distance=distance)
        assert single.representations.dtype == np.float32
        assert single.score == pytest.approx(tre(rows, trees, distance=distance).score, rel=1e-5)


def test_centring_removes_a_shared_direction() -> None:
    trees, rows = pairs(40, seed=13)
    shifted = tre(rows + 100.0, trees, distance="sql2", center=True)
    assert shifted.score == pytest.approx(tre(rows, trees, distance="sql2", center=True).score, abs=1e-8)


def test_a_users_distance_goes_through_torch() -> None:
    torch = pytest.importorskip("torch")
    trees, rows = noisy_sums(50, 7, 4, seed=14)

    def huber(predictions, targets):  # type: ignore[no-untyped-def]
        return torch.nn.functional.smooth_l1_loss(predictions, targets, reduction="none").sum(dim=1)

    fit = tre(rows, trees, distance=huber)
    assert fit.bound.gradient_norm is not None
    assert fit.bound.gradient_norm < 1e-5
    assert fit.score < tre(rows, trees, distance="l1").score
    with pytest.raises(MeasureError, match=r"one number for each item, a tensor of shape \(50,\)"):
        tre(rows, trees, distance=lambda p, y: p - y)


def test_worse_than_nothing_warns() -> None:
    """A word and its pair have the same vector: addition cannot express this, the mean can."""
    rows = np.ones((4, 3)) + 0.01 * np.random.default_rng(0).normal(size=(4, 3))
    with pytest.warns(ReconstructionWarning, match="worse than always predicting the centroid"):
        fit = tre(rows, ["a", "b", ("a", "b"), ("b", "a")], distance="l2")
    assert fit.score > fit.bound.centroid


def test_cosine_that_does_not_settle_is_noted() -> None:
    """On noise in few dimensions the infimum is where predictions vanish and have no direction; it is never reached."""
    trees, rows = noisy_sums(150, 12, 5, seed=10)
    with pytest.warns(ReconstructionWarning, match="shrinking towards zero"):
        tre(rows, trees)


def test_a_saturated_design_is_noted() -> None:
    with pytest.warns(ReconstructionWarning, match="as many numbers as the representations"):
        fit = tre(np.eye(3), [("a", "b"), ("c", "d"), ("e", "f")], distance="sql2")
    assert fit.score == pytest.approx(0.0, abs=1e-20)


ROWS = np.arange(6.0).reshape(3, 2) + 1


@pytest.mark.parametrize(
    ("rows", "trees", "options", "words"),
    [
        (np.array([[1.0, 2.0], [np.nan, 1.0]]), [("a", "b"), ("b", "a")], {}, "row 1: the representation holds nan"),
        (np.array([[np.inf, 2.0], [1.0, 1.0]]), [("a", "b"), ("b", "a")], {}, "row 0: the representation holds inf"),
        (ROWS, [("a", "b")], {}, "3 representations but 1 derivations: row 1 has a representation but no derivation"),
        (ROWS[:1], [("a", "b"), ("a", "c")], {}, "row 1 has a derivation but no representation"),
        (np.ones(3), [("a", "b")] * 3, {}, r"must have shape \[items, numbers\].*got \[3\]"),
        (np.ones((0, 3)), [("a", "b")], {}, "at least one item"),
        (np.array([["x", "y"]]), [("a", "b")], {}, "must be numbers"),
        ([[1.0, 2.0], [1.0]], [("a", "b")] * 2, {}, "ragged"),
        (ROWS, [("a", "b"), ("a", "b"), "c"], {}, "row 2: primitive 'c' is never composed"),
        (ROWS, ["a", "b", "c"], {}, "row 0: primitive 'a' is never composed"),
        (
            np.array([[1.0, 1.0], [0.0, 0.0]]),
            [("a", "b")] * 2,
            {},
            "row 1: a representation of all zeros has no direction",
        ),
        (
            ROWS,
            [("a", "b")] * 3,
            {"distance": "crossentropy"},
            r"needs messages of shape \[items, positions, symbols\]",
        ),
        (np.full((2, 1, 2), 0.4), [("a", "b")] * 2, {"distance": "crossentropy"}, "row 0: every position must hold"),
        (ROWS, [("a", "b")] * 3, {"compose": "position"}, r"needs messages of shape \[items, positions, symbols\]"),
    ],
)
def test_errors_say_what_and_where(rows: object, trees: list, options: dict, words: str) -> None:
    with pytest.raises(MeasureError, match=words):
        tre(rows, trees, **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"compose": "ad"}, "no composition is called 'ad'. Did you mean 'add'?"),
        ({"distance": "cosin"}, "no distance is called 'cosin'. Did you mean 'cosine'?"),
        ({"restarts": 0}, "restarts must be 1 or more"),
        ({"uncomposed": "maybe"}, "uncomposed is 'error' or 'allow'"),
        ({"compose": 3}, "compose is a name"),
    ],
)
def test_wrong_settings_are_named(options: dict, words: str) -> None:
    with pytest.raises(SpecError) as error:
        tre(ROWS, [("a", "b")] * 3, **options)
    assert words in str(error.value)


def test_uncomposed_primitives_can_be_allowed() -> None:
    assert tre(ROWS, [("a", "b"), ("a", "b"), "c"], uncomposed="allow", distance="l2").per_item[2] < 1e-9


def test_unseen_primitives_have_no_vector() -> None:
    with pytest.warns(ReconstructionWarning, match="says nothing"):
        fit = tre(ROWS, [("a", "b"), ("b", "c"), ("a", "c")])
    with pytest.raises(MeasureError, match="row 1: primitive 'z' was not in the data of the fit"):
        fit.predict([("a", "b"), ("a", "z")])
    with pytest.raises(MeasureError, match="items with shape"):
        fit.distances(np.ones((1, 5)), [("a", "b")])
    assert fit.distances(ROWS[:1], [("a", "b")])[0] == pytest.approx(fit.per_item[0])


def test_restarts_from_elsewhere_find_the_same_cosine() -> None:
    trees, rows = noisy_sums(80, 8, 5, seed=15)
    design = Derivations.of(trees).counts
    start = np.random.default_rng(3).normal(size=(8, 5))
    other = fit_linear(design, rows, distance_of("cosine", (5,)), start=start)
    assert other.per_item.mean() == pytest.approx(tre(rows, trees).score, abs=1e-7)


def test_an_unknown_option_is_an_error_that_names_it() -> None:
    with pytest.raises(SpecError, match=r"no option 'restart'\. Did you mean 'restarts'"):
        tre(np.eye(2), [("a", "b"), ("b", "a")], restart=3)  # type: ignore[call-arg]
