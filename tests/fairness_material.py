"""Random labelled trees, consistent or contradicted, for the tests of fairness."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

import oracles_fairness as oracle
from pomona.data.corpus import Corpus
from pomona.trees.forest import Forest

FUNCTIONS, VALUES = ["f", "g", "h"], ["a", "b", 1, 2]


def corpus_of(trees: list[oracle.Node]) -> Corpus:
    """A corpus of node-labelled trees."""
    outcomes: dict[Any, int] = {}
    values: list[int] = []

    def nested(node: oracle.Node) -> Any:
        made = (node[0], *(nested(child) for child in node[2:])) if len(node) > 2 else node[0]
        values.append(-1 if node[1] is None else outcomes.setdefault(node[1], len(outcomes)))
        return made

    forest = Forest.from_nested([nested(tree) for tree in trees])
    known = np.array(values, np.int16)
    start = np.arange(len(trees) + 1, dtype=np.int64)
    tokens = np.arange(len(trees), dtype=np.uint32)
    vocabulary = tuple(f"t{row}" for row in range(len(trees)))
    return Corpus(tokens, start, vocabulary, forest, known, tuple(outcomes), known[forest.root][:, None])


def random_function(function: str, inputs: tuple[Any, ...], salt: int) -> Any:
    """A function of its inputs and nothing else: the same in train and test."""
    return VALUES[hash_of((function, *map(str, inputs), salt)) % 3]


def hash_of(parts: tuple[Any, ...]) -> int:
    total = 7
    for character in "|".join(map(str, parts)):
        total = (total * 131 + ord(character)) % 1_000_003
    return total


leaves = st.tuples(st.sampled_from(["x", "y"]), st.sampled_from([None, "a", 1]))
shapes = st.recursive(
    leaves,
    lambda child: st.tuples(st.sampled_from(FUNCTIONS), st.lists(child, min_size=1, max_size=3)).map(
        lambda node: (node[0], *node[1])
    ),
    max_leaves=7,
)


def is_leaf(shape: Any) -> bool:
    return shape[0] in ("x", "y")


def labelled(shape: Any, salt: int) -> oracle.Node:
    """A shape with the values of a random function at every inner node."""
    if is_leaf(shape):
        return shape
    children = [labelled(child, salt) for child in shape[1:]]
    output = random_function(shape[0], tuple(oracle.value(child) for child in children), salt)
    return (shape[0], output, *children)


consistent = st.tuples(
    st.lists(shapes, min_size=1, max_size=8), st.lists(shapes, min_size=1, max_size=5), st.integers(0, 9)
).map(lambda drawn: ([labelled(s, drawn[2]) for s in drawn[0]], [labelled(s, drawn[2]) for s in drawn[1]]))


def contradicted(trees: list[oracle.Node], which: int) -> list[oracle.Node]:
    """The same trees, and one of them again with another value at its root."""
    tree = trees[which % len(trees)]
    return [*trees, (tree[0], "a" if tree[1] != "a" else "b", *tree[2:])] if len(tree) > 2 else trees


def spoilt(data: Any, which: int, where: str) -> tuple[list[oracle.Node], list[oracle.Node]]:
    """Train and test that share some trees, one of the two perhaps contradicting itself."""
    train, test = data
    test = [*test, *train[:2]]
    return contradicted(train, which) if where == "train" else train, contradicted(
        test, which
    ) if where == "test" else test


any_data = st.tuples(consistent, st.integers(0, 7), st.sampled_from(["none", "train", "test"])).map(
    lambda drawn: spoilt(*drawn)
)
