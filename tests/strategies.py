"""Random trees for Hypothesis, as nested tuples."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

OPERATORS = ["MIN", "MAX", "MED", "SM", "FIRST", "LAST"]

words = st.text(st.characters(exclude_categories=["Z", "C"], exclude_characters="()[]"), min_size=1, max_size=4)
digits = st.sampled_from("0123456789")


def trees(
    leaf: SearchStrategy[str], inner: SearchStrategy[str], *, arity: tuple[int, int] = (1, 5)
) -> SearchStrategy[Any]:
    """Ordered trees with these leaves and inner symbols."""

    def grow(child: SearchStrategy[Any]) -> SearchStrategy[Any]:
        kids = st.lists(child, min_size=arity[0], max_size=arity[1])
        return st.tuples(inner, kids).map(lambda node: (node[0], *node[1]))

    return st.recursive(leaf, grow, max_leaves=25)


def binary_trees(leaf: SearchStrategy[str] = words) -> SearchStrategy[Any]:
    """Binary trees without names inside."""
    return trees(leaf, st.just(""), arity=(2, 2))


word_trees = trees(words, words)
listops_trees = trees(digits, st.sampled_from(OPERATORS))
groves = st.lists(word_trees, max_size=5)
listops_groves = st.lists(listops_trees, max_size=5)
