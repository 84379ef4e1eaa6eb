"""Agreement of trees: fast counts equal Python sets, expectations equal exact sums, the paper's numbers come out."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from scipy import stats

import oracles
from pomona.base.errors import MeasureError, SpecError
from pomona.evaluation.parse_f1 import average_depth, list_recall, parse_f1, self_f1
from pomona.evaluation.random_trees import expected_branching_f1, expected_depth, expected_f1, expected_self_f1
from pomona.trees import brackets
from pomona.trees.binary import binarise, branching, random_trees
from pomona.trees.forest import Forest
from strategies import listops_trees


def trees_over(length: int, *, binary: bool) -> SearchStrategy[Any]:
    """Trees over so many tokens: cut into parts, and the parts again; n-ary ones may have nodes with one child."""

    def over(width: int) -> SearchStrategy[Any]:
        if width == 1:
            return st.just("x") if binary else st.sampled_from(["x", ("", "x")])
        most = 1 if binary else width - 1
        cuts = st.sets(st.integers(1, width - 1), min_size=1, max_size=most).map(sorted)

        def parts(places: list[int]) -> SearchStrategy[Any]:
            widths = [high - low for low, high in zip([0, *places], [*places, width], strict=True)]
            return st.tuples(st.just(""), *map(over, widths))

        tree = cuts.flatmap(parts)
        return tree if binary else st.one_of(tree, tree.map(lambda made: ("", made)))

    return over(length)


@st.composite
def pairs(draw: Callable[..., Any], runs: int = 2, binary: bool | None = None) -> list[list[Any]]:
    """`runs` lists of trees over the same sentences."""
    lengths = draw(st.lists(st.integers(1, 7), min_size=1, max_size=4))
    kind = draw(st.booleans()) if binary is None else binary
    return [[draw(trees_over(length, binary=kind)) for length in lengths] for _ in range(runs)]


def averaged(scores: list[Fraction | None]) -> float:
    kept = [score for score in scores if score is not None]
    return float(sum(kept) / len(kept))


@settings(max_examples=70)
@given(pairs(), st.booleans(), st.booleans())
def test_counts_equal_python_sets(both: list[list[Any]], root: bool, leaves: bool) -> None:
    predicted, gold = map(Forest.from_nested, both)
    scores = [oracles.sentence_f1(*trees, root, leaves) for trees in zip(*both, strict=True)]
    if all(score is None for score in scores):
        with pytest.raises(MeasureError, match=r"^none of the \d sentences has a constituent to compare"):
            parse_f1(predicted, gold, root=root, leaves=leaves)
        return
    result = parse_f1(predicted, gold, root=root, leaves=leaves, resamples=5)
    sets = [[oracles.constituents(tree, root, leaves) for tree in trees] for trees in both]
    assert result.predicted.tolist() == [len(one) for one in sets[0]]
    assert result.gold.tolist() == [len(one) for one in sets[1]]
    assert result.shared.tolist() == [len(one & other) for one, other in zip(*sets, strict=True)]
    assert result.skipped.tolist() == [row for row, score in enumerate(scores) if score is None]
    expected = [np.nan if score is None else float(score) for score in scores]
    np.testing.assert_allclose(result.per_sentence, expected, rtol=1e-12)
    assert result.value == pytest.approx(averaged(scores))

    micro = parse_f1(predicted, gold, root=root, leaves=leaves, average="micro", resamples=5)
    kept = [row for row, score in enumerate(scores) if score is not None]
    both_sizes = sum(len(sets[0][row]) + len(sets[1][row]) for row in kept)
    assert micro.value == pytest.approx(2 * sum(len(sets[0][row] & sets[1][row]) for row in kept) / both_sizes)


@settings(max_examples=40)
@given(pairs(runs=3))
def test_self_f1_is_the_mean_over_pairs(runs: list[list[Any]]) -> None:
    forests = [Forest.from_nested(trees) for trees in runs]
    scores = [
        [oracles.sentence_f1(*trees) for trees in zip(one, other, strict=True)] for one, other in combinations(runs, 2)
    ]
    if all(score is None for score in scores[0]):
        return
    result = self_f1(forests, resamples=5)
    assert result.value == pytest.approx(sum(map(averaged, scores)) / 3)
    micro = self_f1(forests, average="micro", resamples=5)
    every = [parse_f1(one, other, average="micro", resamples=5).value for one, other in combinations(forests, 2)]
    assert micro.value == pytest.approx(sum(every) / 3)


@settings(max_examples=40)
@given(pairs(runs=1))
def test_average_depth_counts_what_encloses_a_token(runs: list[list[Any]]) -> None:
    result = average_depth(Forest.from_nested(runs[0]), resamples=5)
    expected = []
    for tree in runs[0]:
        found = [d for d, node in zip(oracles.depths(tree), oracles.subtrees(tree), strict=True) if node == "x"]
        expected.append(sum(found) / len(found))
    np.testing.assert_allclose(result.per_sentence, expected)
    assert result.value == pytest.approx(sum(expected) / len(expected))
    assert len(result.skipped) == 0


@given(st.lists(listops_trees, min_size=1, max_size=4), st.integers(0, 99), st.booleans(), st.booleans())
def test_list_recall_equals_python_sets(nested: list[Any], seed: int, root: bool, tokens: bool) -> None:
    gold = Forest.from_nested(nested)
    lengths = [len(oracles.to_text(tree).split()) if tokens else len(oracles.leaves(tree)) for tree in nested]
    predicted = random_trees(np.array(lengths), seed)
    shares = []
    for tree, guess, length in zip(nested, predicted.nested(), lengths, strict=True):
        lists = (
            oracles.list_token_spans(tree)
            if tokens
            else {
                span
                for span, node in zip(oracles.spans(tree), oracles.subtrees(tree), strict=True)
                if not isinstance(node, str) and span[1] - span[0] > 1
            }
        )
        lists = {span for span in lists if root or span != (0, length)}
        shares.append(Fraction(len(lists & set(oracles.spans(guess))), len(lists)) if lists else None)
    if all(share is None for share in shares):
        with pytest.raises(MeasureError):
            list_recall(predicted, gold, root=root, tokens=tokens)
    else:
        result = list_recall(predicted, gold, root=root, tokens=tokens, resamples=5)
        assert result.value == pytest.approx(averaged(shares))
        assert result.skipped.tolist() == [row for row, share in enumerate(shares) if share is None]


@given(st.lists(listops_trees.filter(lambda tree: not isinstance(tree, str)), min_size=1, max_size=4))
def test_a_tree_agrees_with_itself_and_closes_its_own_lists(nested: list[Any]) -> None:
    gold = Forest.from_nested(nested)
    made = binarise(gold)
    for result in (parse_f1(made, made, resamples=5), list_recall(made, gold, resamples=5)):
        assert result.value == 1
        assert result.interval == (1, 1)


def test_n_ary_trees_have_their_own_precision_and_recall() -> None:
    predicted = brackets.read(["( ( ( a b ) c ) d )", "( a ( b c ) )"])
    gold = brackets.read(["( ( a b c ) d )", "( a b c )"])
    result = parse_f1(predicted, gold)
    assert result.shared.tolist() == [2, 1]
    assert result.precision == pytest.approx((2 / 3 + 1 / 2) / 2)
    assert result.recall == 1
    assert result.value == pytest.approx((4 / 5 + 2 / 3) / 2)
    micro = parse_f1(predicted, gold, average="micro")
    assert (micro.precision, micro.recall) == (3 / 5, 1)
    assert micro.value == pytest.approx(6 / 8)
    flat = parse_f1(predicted, gold, root=False)  # the flat sentence has no gold constituent: found none, so 0
    assert flat.per_sentence.tolist() == pytest.approx([2 / 3, 0])
    assert (flat.precision, flat.recall) == (1 / 4, 1)
    assert np.isnan(parse_f1(predicted[1], gold[1], root=False).recall)
    assert repr(result) == "ParseF1(0.7333, 0.6667 to 0.8000, 2 sentences)"


# -- expectations ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("root", "leaves"), [(True, False), (False, False), (True, True), (False, True)])
@pytest.mark.parametrize("length", range(1, 7))
def test_expectations_equal_sums_over_all_random_trees(length: int, root: bool, leaves: bool) -> None:
    law = oracles.split_law(length)

    def mean(score: Callable[[Any], Fraction | None]) -> float:
        scores = {tree: score(tree) for tree in law}
        if None in scores.values():
            return float("nan")
        return float(sum(law[tree] * score for tree, score in scores.items()))  # type: ignore[misc]

    sizes = np.array([length])
    left, right = (oracles.branch(["x"] * length, style) for style in ("left", "right"))
    expected = mean(lambda tree: oracles.sentence_f1(tree, left, root, leaves))
    np.testing.assert_allclose(expected, mean(lambda tree: oracles.sentence_f1(tree, right, root, leaves)))
    np.testing.assert_allclose(expected_branching_f1(sizes, root=root, leaves=leaves), [expected])
    pairwise = mean(lambda gold: _fraction(mean(lambda tree: oracles.sentence_f1(tree, gold, root, leaves))))
    np.testing.assert_allclose(expected_self_f1(sizes, root=root, leaves=leaves), [pairwise])
    depth = mean(lambda tree: _mean_leaf_depth(tree))
    np.testing.assert_allclose(expected_depth(sizes), [depth], atol=1e-12)


def _fraction(value: float) -> Fraction | None:
    return None if np.isnan(value) else Fraction(value)


def _mean_leaf_depth(tree: Any) -> Fraction:
    found = [d for d, node in zip(oracles.depths(tree), oracles.subtrees(tree), strict=True) if isinstance(node, str)]
    return Fraction(sum(found), len(found))


@given(trees_over(5, binary=False), st.booleans(), st.booleans())
def test_expected_f1_against_any_tree(gold: Any, root: bool, leaves: bool) -> None:
    law = oracles.split_law(5)
    expected = sum(share * oracles.sentence_f1(tree, gold, root, leaves) for tree, share in law.items())  # type: ignore
    result = expected_f1(Forest.from_nested([gold]), root=root, leaves=leaves, resamples=5)
    assert result.value == pytest.approx(float(expected))


@given(st.lists(st.integers(1, 60), min_size=2, max_size=5))
def test_the_two_ways_to_expect_agree(sizes: list[int]) -> None:
    lengths = np.array([*sizes, 9])
    for style in ("left", "right"):
        result = expected_f1(branching(lengths, style), resamples=5)  # type: ignore[arg-type]
        np.testing.assert_allclose(result.per_sentence, expected_branching_f1(lengths))


# -- the bootstrap -----------------------------------------------------------------------------------------------------


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    # Random against left-branching trees over 12 tokens: the truth is known exactly.
    truth, gold = float(expected_branching_f1(np.array([12]))[0]), branching(np.full(150, 12), "left")
    held = [0, 0]
    for seed in range(400):
        drawn = random_trees(np.full(150, 12), seed)
        for place, confidence in enumerate((0.95, 0.6)):
            low, high = parse_f1(drawn, gold, confidence=confidence, resamples=300, seed=seed).interval
            held[place] += low <= truth <= high
    assert stats.binomtest(held[0], 400, 0.94).pvalue > 1e-3, held  # percentile intervals run about 1 % short
    assert stats.binomtest(held[1], 400, 0.59).pvalue > 1e-3, held


@pytest.mark.parametrize("average", ["macro", "micro"])
def test_an_interval_is_a_function_of_its_seed(average: Any) -> None:
    gold, drawn = branching(np.arange(3, 60), "left"), random_trees(np.arange(3, 60), 1)
    first = parse_f1(drawn, gold, average=average, seed=1)
    assert first.interval == parse_f1(drawn, gold, average=average, seed=1).interval
    assert first.interval != parse_f1(drawn, gold, average=average, seed=2).interval
    assert first.interval[0] < first.value < first.interval[1]
    wide = parse_f1(drawn, gold, average=average, seed=1, confidence=0.99).interval
    assert wide[0] < first.interval[0] < first.interval[1] < wide[1]


# -- errors ------------------------------------------------------------------------------------------------------------


def test_errors() -> None:
    three, four = branching([3, 3], "left"), branching([3, 4], "left")
    with pytest.raises(MeasureError) as caught:
        parse_f1(three, four)
    assert str(caught.value) == (
        "sentence 1: the predicted tree has 3 tokens, the gold tree 4; both must stand over the same sentence"
    )
    with pytest.raises(MeasureError, match=r"^1 predicted trees for 2 gold trees$"):
        parse_f1(three[:1], four)
    with pytest.raises(MeasureError, match=r"^there are no sentences to compare$"):
        parse_f1(three[:0], four[:0])
    with pytest.raises(MeasureError, match=r"^there are no sentences to measure the depth of$"):
        average_depth(three[:0])
    with pytest.raises(MeasureError, match=r"^none of the 2 sentences has a constituent to compare: all have one"):
        parse_f1(branching([1, 1], "left"), branching([1, 1], "left"))
    with pytest.raises(MeasureError, match=r"^self-F1 compares runs with one another and needs at least two; got 1$"):
        self_f1([three])
    with pytest.raises(MeasureError, match=r"^sentence 0: the predicted tree has 3 tokens, the gold tree 4; both"):
        list_recall(three[:1], brackets.read("[MAX 1 2 ]"))
    with pytest.raises(MeasureError, match=r"^a sentence has at least one token; got a length of 0$"):
        expected_depth(np.array([2, 0]))
    with pytest.raises(SpecError, match=r"^no average is called 'marco'. Did you mean 'macro'\?$"):
        parse_f1(three, three, average="marco")  # type: ignore[arg-type]
    with pytest.raises(SpecError, match=r"^confidence is a share between 0 and 1, such as 0.95; got 95$"):
        parse_f1(three, three, confidence=95)
    with pytest.raises(SpecError, match=r"^a bootstrap needs at least one resample; got 0$"):
        parse_f1(three, three, resamples=0)


# -- the paper ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def d20s(data_folder: Path) -> Forest:
    """The gold trees of the paper's test set."""
    lines = (data_folder / "listops" / "test_d20s.tsv").read_text().splitlines()
    return brackets.read(line.split("\t")[1] for line in lines).checked()


def percent(value: float) -> float:
    return round(100 * value, 1)


@pytest.mark.parametrize(
    ("options", "left", "right"),
    [
        ({}, 41.6, 8.8),  # Table 3
        ({"average": "micro"}, 11.5, 2.4),
        ({"root": False}, 38.6, 0.0),
        ({"leaves": True}, 71.5, 56.1),
    ],
)
def test_gold_trees_against_branching_ones(d20s: Forest, options: Any, left: float, right: float) -> None:
    lengths = d20s.span[1][d20s.root]
    results = [parse_f1(branching(lengths, style), d20s, **options) for style in ("left", "right")]
    assert [percent(result.value) for result in results] == [left, right]
    for result in results:
        assert len(result.skipped) == 1
        assert result.precision == pytest.approx(result.recall) == pytest.approx(result.value)


def test_random_trees_by_closed_form_and_by_drawing(d20s: Forest) -> None:
    lengths = d20s.span[1][d20s.root]
    branched = np.nanmean(expected_branching_f1(lengths))
    assert [percent(branched), percent(expected_f1(d20s).value)] == [24.0, 24.2]  # Table 3
    assert percent(np.nanmean(expected_self_f1(lengths))) == 30.1  # Table 2
    assert round(float(expected_depth(lengths).mean()), 1) == 5.2
    companions = (expected_branching_f1, expected_self_f1)
    assert [percent(np.nanmean(one(lengths, root=False))) for one in companions] == [17.5, 23.9]
    assert [percent(np.nanmean(one(lengths, leaves=True))) for one in companions] == [63.3, 66.3]
    variants: list[dict[str, Any]] = [{"average": "micro"}, {"root": False}, {"leaves": True}]
    assert [percent(expected_f1(d20s, **one).value) for one in variants] == [13.0, 17.5, 63.4]
    assert percent(expected_f1(branching(lengths, "left"), average="micro").value) == 8.5
    runs = [random_trees(lengths, seed) for seed in range(5)]
    left = branching(lengths, "left")
    near = [
        (parse_f1(runs[0], left), expected_branching_f1(lengths)),
        (parse_f1(runs[0], d20s), expected_f1(d20s).per_sentence),
        (parse_f1(runs[0], runs[1]), expected_self_f1(lengths)),
        (average_depth(runs[0]), expected_depth(lengths)),
    ]
    for drawn, expected in near:
        # Sentence by sentence the difference has mean 0, so a paired test applies.
        assert stats.ttest_1samp(drawn.per_sentence - expected, 0, nan_policy="omit").pvalue > 1e-3
    assert self_f1(runs).value == pytest.approx(np.nanmean(expected_self_f1(lengths)), abs=0.002)


def test_average_depths(d20s: Forest) -> None:
    assert round(average_depth(d20s).value, 1) == 9.6  # Table 2
    assert round(average_depth(branching(d20s.span[1][d20s.root], "right")).value, 2) == 21.85


def test_gold_trees_close_every_list(d20s: Forest) -> None:
    texts = [text.replace("( ", "").replace(" )", "") for text in brackets.write(d20s)]
    lists = brackets.read(texts)
    assert binarise(lists) == d20s
    assert list_recall(d20s, lists).value == 1
    lengths = d20s.span[1][d20s.root]
    for style, score, companion in (("right", 22.2, 14.2), ("balanced", 61.4, 57.5)):  # as in docs/parse_f1.md
        inside = binarise(lists, style)  # type: ignore[arg-type]
        assert list_recall(inside, lists).value == 1
        assert percent(parse_f1(inside, d20s).value) == score
        assert percent(parse_f1(inside, d20s, root=False).value) == companion
    # Only lists that end where the sentence ends are suffixes, and `]` closes one list alone: none but the outermost.
    for style in ("left", "right"):
        assert list_recall(branching(lengths, style), lists, root=False).value == 0  # type: ignore[arg-type]


def test_the_concept_page_runs() -> None:
    page = Path(__file__).parents[2] / "docs" / "parse_f1.md"
    failed, tried = doctest.testfile(str(page), module_relative=False)
    assert failed == 0
    assert tried > 3
