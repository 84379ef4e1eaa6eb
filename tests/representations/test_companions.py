"""Topographic similarity, disentanglement, information and edit distance, compared with SciPy, EGG and appendix B."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.spatial.distance import pdist

from oracles_tre import data_folder, definition_2, information_gap, leaves
from pomona.base.errors import MeasureError, SpecError
from pomona.representations.disentanglement import bosdis, posdis
from pomona.representations.edit_distance import tree_edit_distance, tree_edit_distances
from pomona.representations.information import (
    binned_entropy,
    conditional_entropies,
    context_independence,
    mutual_information,
)
from pomona.representations.topographic import pairwise, rsa, topographic_similarity

binary = st.recursive(st.sampled_from("abc"), lambda part: st.tuples(part, part), max_leaves=7)
wide = st.recursive(
    st.sampled_from("abc"), lambda part: st.lists(part, min_size=2, max_size=3).map(tuple), max_leaves=7
)


@given(binary, binary)
@settings(max_examples=300, deadline=None)
def test_tree_edit_distance_is_definition_2(first: object, second: object) -> None:
    assert tree_edit_distance(first, second) == definition_2(first, second)


@given(wide, wide, wide)
@settings(max_examples=200, deadline=None)
def test_tree_edit_distance_is_symmetric_zero_only_for_equals_and_bounded(a: object, b: object, c: object) -> None:
    assert tree_edit_distance(a, b) == tree_edit_distance(b, a)
    assert (tree_edit_distance(a, b) == 0) == (a == b)
    assert tree_edit_distance(a, b) <= len(leaves(a)) + len(leaves(b))
    both = tree_edit_distances([a, b, c])
    assert both.tolist() == [tree_edit_distance(a, b), tree_edit_distance(a, c), tree_edit_distance(b, c)]


def test_equal_primitives_are_at_distance_zero_despite_the_misprint() -> None:
    assert tree_edit_distance("a", "a") == 0
    assert tree_edit_distance("a", "b") == 1
    assert tree_edit_distance(("a", "b"), ("b", "a")) == 2  # parts are ordered and cannot be swapped


def test_deep_trees_have_an_edit_distance() -> None:
    deep: object = "a"
    for _ in range(300):
        deep = (deep, "b")
    assert tree_edit_distance(deep, (deep, "b")) == 1


@pytest.mark.parametrize("method", ["spearman", "pearson", "kendall"])
def test_topographic_similarity_equals_scipy(method: str) -> None:
    rng = np.random.default_rng(0)
    meanings, vectors = rng.integers(0, 3, (25, 4)), rng.normal(size=(25, 5))
    a, b = pdist(meanings, "hamming"), pdist(vectors, "cosine")
    expected = {"spearman": stats.spearmanr, "pearson": stats.pearsonr, "kendall": stats.kendalltau}[method](a, b)
    found = topographic_similarity(meanings, vectors, "hamming", "cosine", method=method)
    assert found.value == pytest.approx(expected.statistic)
    assert found.exact
    assert found.pairs == 300


@pytest.mark.parametrize(
    ("name", "scipy_name"), [("euclidean", "euclidean"), ("l1", "cityblock"), ("cosine", "cosine")]
)
def test_vector_distances_equal_scipy(name: str, scipy_name: str) -> None:
    rows = np.random.default_rng(1).normal(size=(12, 4))
    np.testing.assert_allclose(pairwise(rows, name), pdist(rows, scipy_name), atol=1e-12)


@given(st.lists(st.text("abc", max_size=4), min_size=2, max_size=6))
@settings(max_examples=100, deadline=None)
def test_edit_distance_equals_recursion(words: list[str]) -> None:
    def slow(a: str, b: str) -> int:
        if not a or not b:
            return len(a) + len(b)
        return min(slow(a[1:], b[1:]) + (a[0] != b[0]), slow(a[1:], b) + 1, slow(a, b[1:]) + 1)

    found = iter(pairwise(words, "edit"))
    for i, a in enumerate(words):
        for b in words[i + 1 :]:
            mean = (len(a) + len(b)) / 2
            assert next(found) == pytest.approx(slow(a, b) / mean if mean else 0.0)


def test_the_papers_languages_have_the_published_companions() -> None:
    import csv

    with (data_folder("reference_game") / "languages.csv").open() as file:
        rows = list(csv.DictReader(file))
    for number, topsim, gap in (("63", 0.338, 0.193), ("17", 0.254, 0.240)):
        chosen = [row for row in rows if row["language"] == number]
        meanings = [(row["part1"], row["colour1"], row["part2"], row["colour2"]) for row in chosen]
        messages = [row["message"] for row in chosen]
        found = topographic_similarity(meanings, messages, "hamming", "hamming", permutations=99)
        assert found.value == pytest.approx(topsim, abs=1e-3)
        assert found.p_value == pytest.approx(0.01)
        assert posdis(meanings, messages).value == pytest.approx(gap, abs=1e-3)


def test_drawn_pairs_cover_the_exact_value() -> None:
    rng = np.random.default_rng(2)
    meanings = rng.integers(0, 4, (400, 3))
    vectors = meanings + rng.normal(size=(400, 3))
    exact = topographic_similarity(meanings, vectors, "hamming", "euclidean").value
    inside = 0
    for seed in range(20):
        drawn = topographic_similarity(meanings, vectors, "hamming", "euclidean", limit=100, draws=20_000, seed=seed)
        assert not drawn.exact
        assert drawn.low is not None
        assert drawn.high is not None
        inside += drawn.low <= exact <= drawn.high
    assert inside >= 16  # of 20 at 95 %


def test_trees_and_callables_serve_as_distances() -> None:
    trees = [("a", "b"), ("a", "c"), ("c", "d"), ("a", ("b", "c"))]
    messages = ["xy", "xz", "uv", "xyz"]
    by_call = topographic_similarity(trees, messages, tree_edit_distance, "edit")
    given_distances = topographic_similarity(tree_edit_distances(trees), messages, "condensed", "edit")
    assert by_call.value == given_distances.value


def test_rsa_of_a_rotation_is_one() -> None:
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(30, 4))
    turn = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    assert rsa(rows, rows @ turn).value == pytest.approx(1.0)


def test_constant_languages_are_nan_with_a_reason() -> None:
    meanings = [[0, 0], [0, 1], [1, 0], [1, 1]]
    same = topographic_similarity(meanings, ["aa"] * 4)
    assert np.isnan(same.value)
    assert same.reason is not None
    assert "all messages are equally far apart" in same.reason
    flat = posdis(meanings, ["aa"] * 4)
    assert np.isnan(flat.value)
    assert flat.reason is not None
    assert "no position ever varies" in flat.reason
    assert np.isnan(context_independence(meanings, ["aa"] * 4).value)


@given(st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_disentanglement_equals_eggs_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    meanings, messages = rng.integers(0, 3, (20, 3)), rng.integers(0, 4, (20, 5))
    assert posdis(meanings, messages).value == pytest.approx(information_gap(meanings, messages))
    counts = np.stack([(messages == symbol).sum(axis=1) for symbol in range(1, 4)], axis=1)
    assert bosdis(meanings, messages).value == pytest.approx(information_gap(meanings, counts))


def test_a_language_of_one_symbol_for_each_value_is_disentangled() -> None:
    meanings = [[i, j] for i in range(3) for j in range(3)]
    assert posdis(meanings, [f"{i}{j}" for i, j in meanings]).value == pytest.approx(1.0)
    ordered = [f"{'abc'[i]}{'xyz'[j]}" for i, j in meanings]
    turned = [word[::-1] if k % 2 else word for k, word in enumerate(ordered)]
    assert bosdis(meanings, turned).value == pytest.approx(1.0)
    assert posdis(meanings, turned).value < 0.9
    assert context_independence(meanings, turned).value == pytest.approx(1.0)


def test_conditional_entropies() -> None:
    meanings = [[i, j] for i in range(2) for j in range(4)]
    found = conditional_entropies(meanings, [f"{i}" for i, _ in meanings])
    np.testing.assert_allclose(found.attribute_given_message, [0.0, np.log(4)], atol=1e-12)
    np.testing.assert_allclose(found.message_given_attribute, [0.0, np.log(2)], atol=1e-12)
    assert found.message_given_meaning == pytest.approx(0.0, abs=1e-12)
    assert found.meaning_given_message == pytest.approx(np.log(4))


def test_the_papers_binning_reads_saturation_as_compression() -> None:
    """Values beyond 0.5 all fall into the end bins of the released code; bins over the range distinguish them."""
    saturated = np.random.default_rng(4).uniform(0.5, 1.0, size=(5000, 1)) * np.random.default_rng(5).choice(
        [-1, 1], (5000, 1)
    )
    assert binned_entropy(saturated) == pytest.approx(np.log(2), abs=0.01)
    assert binned_entropy(saturated, binning="range") > 2.5
    flat = np.random.default_rng(6).uniform(-0.5, 0.5, size=(200_000, 1))
    share = np.array([2.0] + [1.0] * 28 + [0.0]) / 30  # truncation: the centre is double, one end bin is never reached
    expected = -(share[share > 0] * np.log(share[share > 0])).sum()
    assert binned_entropy(flat) == pytest.approx(expected, abs=0.01)
    with pytest.raises(SpecError, match="binning is 'andreas2019' or 'range'"):
        binned_entropy(flat, binning="bins")


def test_mutual_information_of_known_distributions() -> None:
    rng = np.random.default_rng(7)
    x = rng.normal(size=(3000, 1))
    y = 0.8 * x + 0.6 * rng.normal(size=(3000, 1))
    assert mutual_information(x, y) == pytest.approx(-0.5 * np.log(1 - 0.64), abs=0.05)
    labels = rng.integers(0, 4, 2000)
    assert mutual_information(rng.normal(size=(2000, 2)) + 50 * labels[:, None], labels) == pytest.approx(
        np.log(4), abs=0.01
    )
    assert mutual_information(rng.normal(size=(2000, 2)), labels) == pytest.approx(0.0, abs=0.05)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: topographic_similarity([[1], [2]], ["a", "b"]), "2 items have too few pairs"),
        (lambda: topographic_similarity([[1], [2], [3]], ["a", "b"]), "3 meanings but 2 messages"),
        (
            lambda: topographic_similarity([[1, 2], [1], [2, 3]], ["a", "b", "c"]),
            "row 1: Hamming distance needs equal lengths",
        ),
        (lambda: rsa(np.array([[1.0], [np.nan], [2.0]]), np.eye(3)), "row 1: the vector holds NaN"),
        (lambda: rsa(np.array([[1.0], [0.0], [2.0]]), np.eye(3)), "row 1: a vector of all zeros"),
        (lambda: topographic_similarity(np.ones(4), ["a"] * 3, "condensed"), "4 fits no number of items"),
        (lambda: posdis([[1], [2]], ["a", "b"]), "at least 2 are needed"),
        (lambda: posdis([[1, 2], [2]], ["a", "b"]), "row 1: 1 attributes where others have 2"),
        (lambda: posdis([[1, 2]], ["a", "b"]), "1 rows of attributes but 2 messages"),
        (lambda: conditional_entropies([[1, 2]], ["a", "b"]), "1 rows of attributes but 2 messages"),
        (lambda: mutual_information(np.ones((4, 1)), ["a", "a", "b", "b"]), "row 0: its label occurs 2 times"),
        (lambda: binned_entropy(np.ones(3)), r"shape \[items, numbers\]"),
    ],
)
def test_errors_say_what_and_where(call, words: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(MeasureError, match=words):
        call()


def test_unknown_distances_are_named() -> None:
    with pytest.raises(SpecError, match=r"no distance is called 'haming'\. Did you mean 'hamming'"):
        topographic_similarity([[1], [2], [3]], ["a", "b", "c"], "haming")
