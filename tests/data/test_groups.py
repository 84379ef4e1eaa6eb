"""Groups of examples: each field sorts examples by what it says, and by nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from pomona.base.errors import MeasureError
from pomona.data.corpus import Corpus
from pomona.data.groups import groups_of
from pomona.trees.forest import Forest
from strategies import listops_corpora


def named(corpus: Corpus, field: str) -> list[str]:
    labels, numbers = groups_of(corpus, field)
    assert sorted(set(numbers.tolist())) == list(range(len(labels)))  # no group is empty
    return [labels[number] for number in numbers.tolist()]


def nesting(tree: Any) -> int:
    return 0 if isinstance(tree, str) else 1 + max(map(nesting, tree[1:]))


@given(listops_corpora)
@settings(max_examples=60)
def test_groups_by_depth_operator_arity_and_answer(corpus: Corpus) -> None:
    trees = corpus.forest.nested()
    assert named(corpus, "nesting") == [str(nesting(tree)) for tree in trees]
    assert named(corpus, "dependency") == [str(example.dependency) for example in corpus]
    assert named(corpus, "operator") == ["one token" if isinstance(tree, str) else tree[0] for tree in trees]
    assert named(corpus, "arity") == [str(0 if isinstance(tree, str) else len(tree) - 1) for tree in trees]
    assert named(corpus, "answer") == [str(example.target[0]) for example in corpus]


def test_length_and_nesting_are_not_mistaken_for_each_other() -> None:
    """A long flat list and a short deep one: every way of grouping puts them apart, each for its own reason."""
    flat, deep = ("SM", *"1" * 60), ("MAX", ("MAX", ("MAX", ("MIN", "1"), "2")))
    corpus = Corpus.of_trees(Forest.from_nested([flat, deep, flat[:40], ("MIN", deep)]))
    assert corpus.lengths.tolist() == [62, 10, 41, 12]
    assert named(corpus, "length") == ["50-99", "10-19", "20-49", "10-19"]
    assert named(corpus, "nesting") == ["1", "4", "1", "5"]
    assert named(corpus, "dependency") == ["1", "3", "1", "4"]
    assert named(corpus, "derivation")[0] != named(corpus, "derivation")[2]


def test_answers_that_look_alike_are_groups_of_their_own() -> None:
    corpus = Corpus.of_trees(Forest.from_nested(["a", "b", "c", "a"]), {"a": 1, "b": "1", "c": True})
    assert named(corpus, "answer") == ["1", "'1'", "True", "1"]
    plain = Corpus.of_trees(Forest.from_nested(["a", "b"]), {"a": ("x", "y"), "b": "1"})
    assert named(plain, "answer") == ["('x', 'y')", "1"]


def test_many_depths_are_put_into_buckets() -> None:
    trees: list[Any] = ["1"]
    for _ in range(30):
        trees.append(("MAX", trees[-1], "2"))
    corpus = Corpus.of_trees(Forest.from_nested(trees))
    assert named(corpus, "nesting")[:15] == [*"01234567", "8-9", "8-9", *["10-14"] * 5]
    assert named(corpus, "nesting")[-1] == "20-49"
    assert len(np.unique(groups_of(corpus, "nesting")[1])) == 12


def test_columns_and_unknown_fields() -> None:
    corpus = Corpus.of_trees(Forest.from_nested(["1", "2"]))
    with pytest.raises(MeasureError, match=r"examples cannot be grouped by 'lenght'. Did you mean 'length'"):
        groups_of(corpus, "lenght")
