"""Binary trees: the three ways to branch, the parser's steps both ways, and random trees by their exact law."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import oracles
from pomona.base.errors import TreeError
from pomona.trees import brackets
from pomona.trees.binary import binarise, branching, from_transitions, random_trees, transitions
from pomona.trees.forest import Forest
from strategies import binary_trees, groves, listops_groves, trees, words

styles = st.sampled_from(["left", "right", "balanced"])
lengths = st.lists(st.integers(1, 12), max_size=6)


@given(st.one_of(groves, listops_groves), styles, st.booleans())
def test_binarising_equals_the_slow_twin(nested: list[Any], style: Any, tokens: bool) -> None:
    made = binarise(Forest.from_nested(nested), style, tokens=tokens).checked()
    assert made.nested() == [oracles.binarise(tree, style, tokens) for tree in nested]


@given(st.lists(trees(st.sampled_from(["]", "[A", "x"]), st.sampled_from(["", "A", "]"])), max_size=4), styles)
def test_names_that_binarising_needs_may_be_there_already(nested: list[Any], style: Any) -> None:
    made = binarise(Forest.from_nested(nested), style).checked()
    assert made.nested() == [oracles.binarise(tree, style, True) for tree in nested]


def test_the_papers_example() -> None:
    forest = brackets.read("[MAX 2 9 [MIN 4 7 ] 0 ]")
    assert brackets.write(binarise(forest)) == ["( ( ( ( ( [MAX 2 ) 9 ) ( ( ( [MIN 4 ) 7 ) ] ) ) 0 ) ] )"]


@given(st.lists(binary_trees(), max_size=4))
def test_transitions_round_trip(nested: list[Any]) -> None:
    forest = Forest.from_nested(nested)
    steps, start = transitions(forest)
    assert steps.tolist() == [step for tree in nested for step in oracles.transitions(tree)]
    assert from_transitions(steps, start, forest.symbol[forest.leaf], forest.names).checked() == forest


@given(lengths, styles)
def test_branching_equals_the_slow_twin(sizes: list[int], style: Any) -> None:
    made = branching(np.array(sizes, np.int64), style).checked()
    assert made.nested() == [oracles.branch(["token"] * size, style) for size in sizes]


@given(lengths, st.integers(0, 2**63))
def test_random_trees_are_binary_trees_over_their_sentences(sizes: list[int], seed: int) -> None:
    forest = random_trees(np.array(sizes, np.int64), seed).checked()
    assert np.diff(forest.start).tolist() == [2 * size - 1 for size in sizes]
    assert set(forest.arity.tolist()) <= {0, 2}


@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.data())
def test_a_random_tree_knows_only_seed_number_and_length(sizes: list[int], data: st.DataObject) -> None:
    others = data.draw(st.lists(st.integers(1, 40), min_size=len(sizes), max_size=len(sizes) + 3))
    kept = data.draw(st.integers(0, len(sizes) - 1))
    others[kept] = sizes[kept]
    assert random_trees(np.array(others), 3)[kept] == random_trees(np.array(sizes), 3)[kept]


def test_seeds_give_other_trees() -> None:
    sizes = np.full(50, 30)
    drawn = [text for seed in range(6) for text in brackets.write(random_trees(sizes, seed))]
    assert len(set(drawn)) == len(drawn)


@pytest.mark.parametrize("size", range(1, 8))
def test_splitting_and_merging_are_one_law_with_the_closed_form(size: int) -> None:
    law = oracles.split_law(size)
    assert law == oracles.merge_law(size)
    assert sum(law.values()) == 1
    chance: Counter[tuple[int, int]] = Counter()
    for tree, share in law.items():
        for span in oracles.spans(tree):
            chance[span] += share  # type: ignore[assignment]
    for low in range(size):
        for high in range(low + 1, size + 1):
            assert chance[low, high] == oracles.span_chance(size, low, high)


@pytest.mark.parametrize("size", [3, 4, 6])
def test_random_trees_follow_the_law(size: int) -> None:
    law, draws = oracles.split_law(size), 40_000
    seen = Counter(random_trees(np.full(draws, size), seed=11).nested())
    assert set(seen) <= set(law)
    shapes = list(law)
    result = stats.chisquare([seen[shape] for shape in shapes], [float(law[shape] * draws) for shape in shapes])
    assert result.pvalue > 1e-3, result


def test_spans_of_longer_random_trees_follow_the_closed_form() -> None:
    size, draws = 20, 20_000
    low, high = random_trees(np.full(draws, size), seed=5).span
    seen = Counter(zip(low.tolist(), high.tolist(), strict=True))
    chances = []
    for one in range(size):
        for end in range(one + 2, size + 1):
            expected = oracles.span_chance(size, one, end)
            if expected == Fraction(1):
                assert seen[one, end] == draws
            else:
                chances.append(stats.binomtest(seen[one, end], draws, float(expected)).pvalue)
    assert len(chances) == 189
    assert min(chances) > 0.001 / len(chances)


@pytest.mark.parametrize(
    ("steps", "start", "leaves", "message"),
    [
        ([0, 1], [0, 2], 1, "tree 0, step 1: these transitions do not build one binary tree"),
        ([0, 0], [0, 2], 2, "tree 0, step 2: these transitions do not build one binary tree"),
        ([0, 0, 0, 1, 1], [0, 1, 5], 3, "tree 1, step 3: these transitions do not build one binary tree"),
        ([0, 2], [0, 2], 1, "tree 0, step 1: these transitions do not build one binary tree"),
        ([0, 0, 257], [0, 3], 2, "tree 0, step 2: these transitions do not build one binary tree"),
        ([0], [0, 0, 1], 1, "tree 0, step 0: these transitions do not build one binary tree"),
        ([0, 0, 1], [0, 3], 3, "2 SHIFTs for 3 tokens"),
        ([0, 0, 1], [0, 1], 2, "start must rise from 0 to 3, the number of steps"),
        ([0, 0, 1], [], 2, "start must rise from 0 to 3, the number of steps"),
    ],
)
def test_steps_that_build_no_tree(steps: list[int], start: list[int], leaves: int, message: str) -> None:
    with pytest.raises(TreeError) as caught:
        from_transitions(np.array(steps), np.array(start), np.zeros(leaves, np.int16), ("x",))
    assert str(caught.value).startswith(message)


def test_other_errors() -> None:
    with pytest.raises(TreeError, match=r"^tree 1 has a node with 3 children; transitions need binary trees \(bin"):
        transitions(Forest.from_nested(["x", ("A", "x", "x", "x")]))
    with pytest.raises(TreeError, match=r"^there is no branching style 'middle'; choose left, right or balanced$"):
        binarise(Forest.from_nested(["x"]), "middle")  # type: ignore[arg-type]
    with pytest.raises(TreeError, match=r"^sentence 1 has 0 tokens; a tree needs at least one$"):
        random_trees(np.array([3, 0]), 1)


@given(words)
def test_deep_lists_binarise(word: str) -> None:
    forest = brackets.read(" ".join(["[A"] * 300 + [word] + ["]"] * 300))
    made = binarise(forest, "left").checked()
    assert int(made.height.max()) == 600
    assert brackets.read(brackets.write(made)) == made
