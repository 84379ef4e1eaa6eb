"""Random trees for Hypothesis, as nested tuples, and corpora of them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from pomona.data.corpus import Corpus
from pomona.data.task import corpus_of_trees
from pomona.trees.forest import Forest
from pomona.trees.values import exact_key

OPERATORS = ["MIN", "MAX", "MED", "SM", "FIRST", "LAST", "PM"]

words = st.text(st.characters(exclude_categories=["Z", "C"], exclude_characters="()[]"), min_size=1, max_size=4)
digits = st.sampled_from("0123456789")


def trees(
    leaf: SearchStrategy[str], inner: SearchStrategy[str], *, arity: tuple[int, int] = (1, 5), most: int = 25
) -> SearchStrategy[Any]:
    """Ordered trees with these leaves and inner symbols."""

    def grow(child: SearchStrategy[Any]) -> SearchStrategy[Any]:
        kids = st.lists(child, min_size=arity[0], max_size=arity[1])
        return st.tuples(inner, kids).map(lambda node: (node[0], *node[1]))

    return st.recursive(leaf, grow, max_leaves=most)


def binary_trees(leaf: SearchStrategy[str] = words) -> SearchStrategy[Any]:
    """Binary trees without names inside."""
    return trees(leaf, st.just(""), arity=(2, 2))


word_trees = trees(words, words)
listops_trees = trees(digits, st.sampled_from(OPERATORS))
groves = st.lists(word_trees, max_size=5)
listops_groves = st.lists(listops_trees, max_size=5)


# -- corpora ---------------------------------------------------------------------------------------------------------

_plain_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=3)
_finite = st.floats(allow_nan=False, allow_infinity=False)
_simple_values = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(0, 12), _plain_texts, st.booleans(), _finite)
values_of_any_kind = st.recursive(_simple_values, lambda part: st.lists(part, max_size=3).map(tuple), max_leaves=5)
any_word = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
any_name = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4)


_small_trees = trees(any_name, any_name, arity=(1, 3), most=5)


@st.composite
def corpora(draw: st.DrawFn, *, max_rows: int = 3, extras: bool = True) -> Corpus:
    """Any corpus that a task or a user's file could hold: one or two trees a row, values known or not, links, ids."""
    rows, width = draw(st.integers(1, max_rows)), draw(st.integers(1, 2))
    forest = Forest.from_nested(draw(st.lists(_small_trees, min_size=rows * width, max_size=rows * width)))
    outcomes = tuple(draw(st.lists(values_of_any_kind, unique_by=exact_key, max_size=4)))
    nodes = len(forest.symbol)
    value = st.integers(-1, len(outcomes) - 1)
    targets = draw(st.integers(0, 2))
    if draw(st.booleans()):
        first = forest.start[::width][forest.tree // width]  # node of the example
        wanted = draw(st.lists(st.sampled_from([0, 0, 1, 3]), min_size=nodes, max_size=nodes))
        links = np.minimum(wanted, np.arange(nodes) - first).astype(np.int32)
        forest = Forest(forest.symbol, forest.parent, forest.start, forest.names, links)
    vocabulary = tuple(draw(st.lists(any_word, unique=True, min_size=1, max_size=5)))
    lengths = draw(st.lists(st.integers(0, 5), min_size=rows, max_size=rows))
    token = st.integers(0, len(vocabulary) - 1)
    corpus = Corpus(
        np.array(draw(st.lists(token, min_size=sum(lengths), max_size=sum(lengths))), np.uint8),
        np.concatenate([[0], np.cumsum(lengths)]),
        vocabulary,
        forest,
        np.array(draw(st.lists(value, min_size=nodes, max_size=nodes)), np.int16),
        outcomes,
        np.array(draw(st.lists(value, min_size=rows * targets, max_size=rows * targets)), np.int16).reshape(rows, -1),
        width=width,
    )
    if extras and draw(st.booleans()):
        ids = tuple(draw(st.lists(any_word, unique=True, min_size=rows, max_size=rows)))
        corpus = dataclasses.replace(corpus, ids=ids)
    if extras and draw(st.booleans()):
        whole = st.lists(st.integers(-5, 2**40), min_size=rows, max_size=rows)
        pairs = st.lists(st.tuples(*[st.floats(-1e9, 1e9)] * 2), min_size=rows, max_size=rows)
        texts = st.lists(st.text("aé ", max_size=3), min_size=rows, max_size=rows)
        columns = {"score": draw(whole), "pair": draw(pairs), "é name": draw(texts)}
        corpus = dataclasses.replace(corpus, columns={name: np.array(column) for name, column in columns.items()})
    return corpus


listops_corpora = st.lists(trees(digits, st.sampled_from(OPERATORS), most=8), min_size=1, max_size=4).map(
    lambda grove: corpus_of_trees(Forest.from_nested(grove))
)
