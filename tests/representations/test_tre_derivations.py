"""Derivations: all constructors give the same arrays, and the three views agree with recursion over the tree."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles_tre import leaves, recursive_prediction
from pomona.base.errors import MeasureError
from pomona.representations.tre import Derivations
from pomona.representations.tre.compositions import Add
from pomona.representations.tre.recursion import compose_subtrees

trees = st.recursive(
    st.sampled_from("abcd"), lambda part: st.lists(part, min_size=2, max_size=3).map(tuple), max_leaves=9
)


@given(st.lists(trees, min_size=1, max_size=8))
@settings(max_examples=150, deadline=None)
def test_reading_and_drawing_are_inverse(given_trees: list) -> None:
    made = Derivations.of(given_trees)
    assert [made.tree(row) for row in range(len(made))] == given_trees


@given(st.lists(trees, min_size=1, max_size=8))
@settings(max_examples=150, deadline=None)
def test_counts_sizes_and_roots_match_a_walk(given_trees: list) -> None:
    made = Derivations.of(given_trees)
    dense = made.counts.dense()
    for row, tree in enumerate(given_trees):
        expected = Counter(leaves(tree))
        assert {made.names[k]: int(v) for k, v in enumerate(dense[row]) if v} == dict(expected)
        assert made.sizes[row] == len(leaves(tree))
    equal = made.root[:, None] == made.root[None, :]
    assert equal.tolist() == [[a == b for b in given_trees] for a in given_trees]


@given(st.lists(trees, min_size=1, max_size=8), st.integers(0, 99))
@settings(max_examples=100, deadline=None)
def test_composing_by_steps_equals_recursion(given_trees: list, seed: int) -> None:
    made = Derivations.of(given_trees)
    lexicon = np.random.default_rng(seed).normal(size=(len(made.names), 3))

    class Nested(Add):  # neither associative nor commutative: every bracket matters
        def forward(self, parameters, parts):  # type: ignore[no-untyped-def]
            return np.tanh(sum((k + 1.5) * part for k, part in enumerate(parts.vectors)))

    fast = compose_subtrees(Nested(), made, {}, lexicon)[made.root]
    words = dict(zip(made.names, lexicon, strict=True))
    for row, tree in enumerate(given_trees):
        slow = recursive_prediction(
            tree, words, lambda *parts: np.tanh(sum((k + 1.5) * part for k, part in enumerate(parts)))
        )
        np.testing.assert_allclose(fast[row], slow, atol=1e-12)


@given(st.lists(trees, min_size=2, max_size=8), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_numbering_ignores_the_order_of_the_data(given_trees: list, random) -> None:  # type: ignore[no-untyped-def]
    order = list(range(len(given_trees)))
    random.shuffle(order)
    one, other = Derivations.of(given_trees), Derivations.of([given_trees[k] for k in order])
    assert one.names == other.names
    assert one.root[order].tolist() == other.root.tolist()
    assert one.take(order).root.tolist() == other.root.tolist()


def test_lists_tuples_and_single_parts_are_read_alike() -> None:
    assert Derivations.of([["a", ["b", "c"]]]).tree(0) == ("a", ("b", "c"))
    assert Derivations.of([(("a",), ("b",))]).tree(0) == ("a", "b")


def test_attribute_columns_keep_columns_apart() -> None:
    made = Derivations.of({"stroke": ["red", "blue"], "fill": ["red", "red"]})
    assert made.tree(0) == (("stroke", "red"), ("fill", "red"))
    assert len(made.names) == 3
    table = Derivations.of(np.array([[1, 2], [1, 3]]))
    assert table.tree(1) == ((0, 1), (1, 3))


def test_a_forest_is_read_by_its_leaves() -> None:
    # (S (A a) ... ) as arrays: leaf x, leaf y, inner node, with inner symbols that are labels only
    forest = SimpleNamespace(
        symbol=np.array([0, 1, 2, 1]), parent=np.array([2, 2, -1, -1]), start=np.array([0, 3, 4]), names=["x", "y", "S"]
    )
    made = Derivations.of(forest)
    assert [made.tree(0), made.tree(1)] == [("x", "y"), "y"]
    assert made.names == ("x", "y")


def test_deep_trees_do_not_recurse() -> None:
    deep: object = "a"
    for _ in range(100_000):
        deep = (deep, "b")
    made = Derivations.of([deep])
    assert made.sizes.tolist() == [100_001]
    assert made.counts.dense().tolist() == [[1.0, 100_000.0]]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ([("a", "b"), ()], r"row 1: an empty composition \(\)"),
        ([("a", None)], "row 0: None is not a primitive"),
        ([("a", "b"), ("a", float("nan"))], "row 1: nan is not a primitive"),
        ([("a", {"b": 1})], "row 0: a primitive must be a name or a number, got dict"),
        ([], "no derivations"),
        ("ab", "derivations are nested tuples, texts, attribute columns or a Forest"),
        ({}, "no attribute columns"),
        ({"x": [1, 2], "y": [1]}, "attribute columns must have one value for each row"),
    ],
)
def test_errors_name_the_row(wrong: object, words: str) -> None:
    with pytest.raises(MeasureError, match=words):
        Derivations.of(wrong)
