"""ORCHARD: the paper's examples, its distribution against the generator by rejection, its splits and its words."""

from __future__ import annotations

import collections
import random
from typing import Any

import numpy as np
import pytest
from scipy import stats

import oracles_orchard as oracle
import pomona as pm
from pomona.base.errors import SpecError, SplitError
from pomona.data.task import TASKS
from pomona.measures.unknown_copies import unknown_copies
from pomona.models.model import MODELS
from pomona.tasks.orchard.text import read
from pomona.training.data import corpora, fresh_corpus
from pomona.trees import growing
from pomona.trees import operators as algebra
from pomona.trees.links import copy_arguments

FL, MM = ("FIRST", "LAST"), ("MIN", "MAX")


def small(**settings: Any) -> Any:
    """ORCHARD with few rows; settings as given."""
    chosen: dict[str, Any] = {"train": 800, "dev": 100, "test": 400, "iid": 100, **settings}
    return TASKS.build("orchard", chosen)


def same_distribution(ours: collections.Counter[Any], theirs: collections.Counter[Any]) -> float:
    """The p-value of a chi-square test that two samples have one distribution; rare kinds are put together."""
    kinds = sorted(set(ours) | set(theirs), key=repr)
    table = np.array([[ours[kind], theirs[kind]] for kind in kinds])
    rare = table.sum(axis=1) < 20
    table = np.vstack([table[~rare], table[rare].sum(axis=0, keepdims=True)])
    return float(stats.chi2_contingency(table[table.sum(axis=1) > 0]).pvalue)


# -- the paper -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        ("[FIRST [LAST 7 3] 2 0 9]", [3]),
        ("[FIRST 2 6 0 1]", [2]),
        ("[LAST 2 6 0 1]", [1]),
        ("[MIN 2 6 0 1]", [0]),
        ("[MAX 2 6 0 1]", [6]),
        ("[MAX 2 6 0 1] X [COPY 1]", [6, 2]),
        ("[MAX 2 6 0 1] X [COPY 0]", [6, 6]),
        ("[MED 1 2 3 9] X [SM [COPY 0] 9 9]", [2, 0]),
    ],
)
def test_examples_of_the_paper(text: str, answers: list[int]) -> None:
    forest = read(text)
    assert pm.trees.denote(forest)[forest.root].tolist() == answers
    assert oracle.stack_answers(text) == answers


def test_presets_are_the_papers() -> None:
    for difficulty, copying in {"easy": 0, "medium": 0.5, "hard": 1}.items():
        for variant, operators in {"first-last": FL, "min-max": MM}.items():
            task = TASKS.build(f"orchard/{difficulty}/{variant}")
            assert (task.copying, task.operators) == (copying, operators)
            bins = {f"test-{depth}": 50_000 for depth in range(3, 13)}
            iid = {f"iid-{depth}": 50_000 for depth in range(3, 7)}
            assert task.sizes == {"test": 50_000, **bins, **iid, "dev": 50_000, "train": 500_000}
            assert TASKS.build(f"orchard/{difficulty}/{variant}/readme").sizes["train"] == 50_000


# -- answers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {"operators": MM},
        {"operators": FL, "copying": 0.5},
        {"operators": MM, "copying": 0.0},
        {"operators": ("FIRST", "LAST", "MIN", "MAX", "MED", "SM"), "trees": 3, "copies": "digits"},
        {"operators": FL, "trees": 4, "references": "previous", "integers": 3, "shape": "binary"},
        {"operators": MM, "trees": 3, "references": "first", "pairing": "uniform"},
    ],
)
def test_answers_by_three_evaluators(settings: dict[str, Any]) -> None:
    """Compiled growth, recursion and a stack over the tokens agree, and node values are those of the algebra."""
    task = small(**settings)
    for split in ("train", "test-7"):
        corpus = pm.generate(task, split=split, seed=3, size=150)
        for example in corpus:
            trees = oracle.parse(example.text)
            assert list(example.target) == oracle.answers(trees) == oracle.stack_answers(example.text)
        np.testing.assert_array_equal(pm.trees.denote(corpus.forest), corpus.values)
        corpus.forest.checked()
        again = read(corpus[0].text)
        assert again == corpus[0].trees


def test_copy_0_is_the_first_answer() -> None:
    corpus = pm.generate(small(operators=MM), split="test-5", seed=1)
    nodes = np.flatnonzero(corpus.forest.links)
    rows, arguments = copy_arguments(corpus.forest, corpus.width)
    first = corpus.targets[rows[arguments == 0], 0]
    assert len(first) > 50
    np.testing.assert_array_equal(corpus.values[nodes[arguments == 0]], first)


def test_copies_quote_what_the_references_allow() -> None:
    for references in ("earlier", "previous", "first"):
        corpus = pm.generate(small(trees=4, references=references), split="test-4", seed=5)
        nodes = np.flatnonzero(corpus.forest.links)
        here = corpus.forest.tree[nodes] % 4
        quoted = corpus.forest.tree[nodes - corpus.forest.links[nodes]] % 4
        pairs = set(zip(here.tolist(), quoted.tolist(), strict=True))
        assert (
            pairs
            == {
                "earlier": {(tree, other) for tree in range(4) for other in range(tree)},
                "previous": {(tree, tree - 1) for tree in range(1, 4)},
                "first": {(tree, 0) for tree in range(1, 4)},
            }[references]
        )


# -- the distribution ------------------------------------------------------------------------------------------------


def test_height_law_is_the_recursion() -> None:
    for cap in (1, 3, 6, 12):
        exact = [
            float(oracle.chance_at_most(cap, height) - oracle.chance_at_most(cap, height - 1))
            for height in range(cap + 1)
        ]
        np.testing.assert_allclose(growing.height_distribution(cap, 0.5), exact, atol=1e-12)
    np.testing.assert_allclose(
        growing.height_distribution(6, 0.5)[1:], [0.25, 0.1406, 0.0928, 0.0667, 0.0506, 0.3992], atol=5e-5
    )
    accepted = [growing.height_distribution(cap, 0.5)[cap] for cap in range(3, 13)]
    np.testing.assert_allclose(accepted, [0.609, 0.517, 0.45, 0.399, 0.359, 0.327, 0.3, 0.278, 0.259, 0.242], atol=6e-4)


@pytest.mark.parametrize(("depth", "cap", "shape"), [(3, 3, "code"), (3, 5, "code"), (4, 4, "binary")])
def test_trees_of_a_depth_have_the_distribution_of_rejection(depth: int, cap: int, shape: str) -> None:
    """Shapes, operators at the root, sizes, arguments and answers: as if drawn until the depth is right."""
    rows = 3000
    task = small(
        operators=FL, copying=0.5, shape=shape, cap=cap, depths=(depth, depth), tested=(depth, depth), test=rows
    )
    split = f"test-{depth}"
    rng = random.Random(f"{depth} {cap} {shape}")
    theirs = [oracle.draw_bin(rng, list(FL), cap, depth, 0.5, unary=shape == "code") for _ in range(rows)]
    corpus = pm.generate(task, split=split, seed=11)
    ours = [tuple(oracle.parse(text)) for text in corpus.texts]
    views = {
        "first shapes": lambda pair: oracle.shape(pair[0]),
        "second shapes": lambda pair: oracle.shape(pair[1]),
        "operators": lambda pair: (pair[0][0], pair[1][0]),
        "sizes": lambda pair: (len(oracle.level_order(pair[0])) // 4, len(oracle.level_order(pair[1])) // 4),
        "arguments": lambda pair: next((n[1] for n in oracle.level_order(pair[1]) if n[0] == "COPY"), -1),
        "answers": lambda pair: tuple(oracle.answers(list(pair))),
    }
    for name, view in views.items():
        p = same_distribution(collections.Counter(map(view, ours)), collections.Counter(map(view, theirs)))
        assert p > 1e-3, name


def test_train_has_the_joint_depths_of_the_counters() -> None:
    """Bins of both positions are full to within their capacity; depths go together as in the generator by rejection."""
    rows = 2000
    corpus = pm.generate(small(train=rows, operators=MM), split="train", seed=2)
    depths = corpus.tree_nesting
    for position in range(2):
        counts = np.bincount(depths[:, position], minlength=7)[3:]
        assert counts.sum() == rows
        assert counts.max() <= rows // 4 + 1
        assert counts.min() >= rows - 3 * (rows // 4 + 1)
    theirs = oracle.draw_mixed(random.Random(5), list(MM), rows, 3, 6, 1.0)
    joint = collections.Counter((oracle.depth(one), oracle.depth(two)) for one, two in theirs)
    # Marginals are fixed in both samples, which makes the test conservative, never too strict.
    assert same_distribution(collections.Counter(map(tuple, depths.tolist())), joint) > 1e-3
    known = {(3, 3): 0.093, (3, 6): 0.038, (5, 5): 0.111, (6, 6): 0.163, (6, 5): 0.021}
    large = growing.fill_bins(
        np.uint64(1),
        250_000,
        2,
        np.cumsum(growing.height_distribution(6, 0.5)[3:]) / growing.height_distribution(6, 0.5)[3:].sum(),
        62_501,
    )
    for (one, two), share in known.items():
        assert ((large[:, 0] == one - 3) & (large[:, 1] == two - 3)).mean() == pytest.approx(share, abs=0.003)


def test_pairings() -> None:
    uniform = pm.generate(small(pairing="uniform", train=1600), seed=1).tree_nesting
    assert set(collections.Counter(map(tuple, uniform.tolist())).values()) == {100}
    equal = pm.generate(small(pairing="equal", train=1600), seed=1).tree_nesting
    assert (equal[:, 0] == equal[:, 1]).all()
    assert np.bincount(equal[:, 0]).tolist() == [0, 0, 0, 400, 400, 400, 400]


def test_arguments_are_uniform() -> None:
    """COPY's argument given the size of the first tree is uniform over its positions."""
    corpus = pm.generate(small(test=4000), split="test-3", seed=9)
    sizes = np.diff(corpus.forest.start)[::2]
    rows, arguments = copy_arguments(corpus.forest, corpus.width)
    for size in (8, 9, 10):
        counts = np.bincount(arguments[sizes[rows] == size], minlength=size)
        assert len(counts) == size
        assert stats.chisquare(counts).pvalue > 1e-3


def test_bins_and_how_they_are_grown() -> None:
    task = small()
    for depth in (3, 6, 12):
        assert (pm.generate(task, split=f"test-{depth}").tree_nesting == depth).all()

    def lonely(split: str, **settings: Any) -> float:
        corpus = pm.generate(small(test=2000, iid=2000, **settings), split=split)
        inner = ~corpus.forest.leaf
        return float((corpus.forest.arity[inner & (corpus.forest.height == 1)] == 1).mean())

    def mean_size(split: str, **settings: Any) -> float:
        return float(pm.generate(small(test=2000, iid=2000, **settings), split=split).lengths.mean())

    # Operators on the last level have one child; in train of depth 3 that level is never reached.
    assert lonely("test-3", copying=0.0) > 0.25
    assert lonely("iid-3", copying=0.0) == 0
    assert lonely("test-3", copying=0.0, shape="binary") == 0
    # Grown in as many levels as train, bins are like train's own of that depth.
    assert abs(mean_size("test-3", cap=13) - mean_size("iid-3", cap=13)) < 0.5
    assert abs(mean_size("test-3") - mean_size("iid-3")) > 1


# -- adversarial distributions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("operators", [FL, MM, ("MED", "SM"), ("MIN", "LAST")])
def test_full_dependency(operators: tuple[str, ...]) -> None:
    corpus = pm.generate(small(operators=operators, dependency="full", copying=0.5), split="test-8", seed=3)
    assert (corpus.tree_nesting == 8).all()
    assert (corpus.tree_dependency[:, 0] == 8).all()
    assert (corpus.tree_dependency[:, 1] >= 8).all()  # what a COPY quotes comes on top
    np.testing.assert_array_equal(pm.trees.denote(corpus.forest), corpus.values)


def test_full_dependency_of_positions_has_the_distribution_of_rejection() -> None:
    rows, depth = 1500, 3
    rng = random.Random(8)
    theirs: collections.Counter[Any] = collections.Counter()
    while theirs.total() < rows:
        tree = oracle.draw(rng, list(FL), 0, 4, 0.0, 0)
        if oracle.depth(tree) == depth and oracle.rest(tree) == depth:
            theirs[tree[0], oracle.shape(tree)] += 1
    corpus = pm.generate(
        small(dependency="full", copying=0.0, test=rows, cap=4, tested=(3, 3), depths=(3, 3)), split="test-3"
    )
    ours = collections.Counter(
        (tree[0], oracle.shape(tree)) for tree in (oracle.parse(text)[0] for text in corpus.texts)
    )
    assert same_distribution(ours, theirs) > 1e-3


@pytest.mark.parametrize("operators", [FL, MM])
def test_balanced_dependency(operators: tuple[str, ...]) -> None:
    corpus = pm.generate(small(operators=operators, dependency="balanced", copying=0.0, test=432), split="test-6")
    assert (corpus.tree_nesting == 6).all()
    counts = collections.Counter(map(tuple, corpus.tree_dependency.tolist()))
    assert set(counts.values()) == {12}
    assert len(counts) == 36


# -- what holds for every task ---------------------------------------------------------------------------------------


def test_determinism() -> None:
    """Workers, chunks and how many are asked for change nothing; seeds and settings change everything."""
    task = small()
    for split in ("train", "test-9", "iid-4"):
        whole = pm.generate(task, split=split, seed=4)
        assert pm.generate(task, split=split, seed=4, workers=2).fingerprint == whole.fingerprint
        assert pm.generate(task, split=split, seed=4, chunk=37).fingerprint == whole.fingerprint
        assert pm.generate(task, split=split, seed=4, size=30).fingerprint == whole[:30].fingerprint
        assert not set(pm.generate(task, split=split, seed=5).keys.tolist()) & set(whole.keys.tolist())


def test_splits_are_disjoint() -> None:
    """Tiny trees, so that splits drawn apart would share examples."""
    task = small(
        depths=(2, 3), tested=(2, 3), cap=3, trees=1, integers=1, operators=("MIN",), train=2000, dev=500, test=1000,
        iid=1000,
    )  # fmt: skip
    keys: dict[str, set[int]] = {split: set(pm.generate(task, split=split).keys.tolist()) for split in task.sizes}
    for split, mine in keys.items():
        assert len(mine) == task.sizes[split]
        for other, theirs in keys.items():
            assert split == other or not mine & theirs, (split, other)


def test_targets_as_pairs() -> None:
    two = pm.generate(small(), split="dev", seed=6)
    pair = pm.generate(small(target="pair"), split="dev", seed=6)
    assert pair[0].target[0].count(",") == 1
    assert all(isinstance(part, int) for part in two[0].target)
    for example in pair[:50]:
        assert example.target == (",".join(map(str, oracle.answers(oracle.parse(example.text)))),)


def test_long_arguments_have_tokens() -> None:
    """Positions beyond the first guess of the vocabulary get tokens too; with digits none are needed."""
    words = pm.generate(small(test=60, depths=(3, 4), tested=(24, 24)), split="test-24", seed=1)
    assert max(int(word) for word in words.vocabulary if word.isdigit()) > 256
    digits = pm.generate(small(test=60, depths=(3, 4), tested=(24, 24), copies="digits"), split="test-24", seed=1)
    assert len(digits.vocabulary) == 15
    example = min(digits, key=lambda one: one.length)
    assert list(example.target) == oracle.answers(oracle.parse(example.text))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"operators": ("FIRSTT",)}, "no operator is called 'FIRSTT'. Did you mean 'FIRST'?"),
        ({"copying": 1.5}, "copying = 1.5"),
        ({"cap": 8}, "cap = 8: trees of depth 12 need as many levels"),
        ({"depths": (6, 3)}, "depths = (6, 3): depths run from a lower to a higher one"),
        ({"pairing": "code2"}, "pairing"),
        ({"trees": 9}, "trees = 9"),
        ({"dependency": "balanced", "operators": ("SM",)}, "SM depends on all its arguments"),
        ({"shift": (("test-13", "cap", 4),)}, "no split is called 'test-13'"),
    ],
)
def test_errors(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError) as caught:
        small(**settings)
    assert words in str(caught.value)


def test_errors_about_splits() -> None:
    with pytest.raises(SpecError, match="has no split 'test-13' here"):
        pm.generate(small(), split="test-13")
    with pytest.raises(SplitError, match="orchard has 800 rows of train; 900 were asked for"):
        pm.generate(small(), size=900)


def test_an_operator_of_the_users_own() -> None:
    algebra.define_operator(algebra.Operator("SPREAD", lambda xs: max(xs) - min(xs)))
    corpus = pm.generate(small(operators=("SPREAD", "MIN")), split="test-3", size=20)
    np.testing.assert_array_equal(pm.trees.denote(corpus.forest), corpus.values)
    assert corpus.targets.shape == (20, 2)
    with pytest.raises(SpecError, match="built-in operators only"):
        small(operators=("SPREAD",), dependency="full")


# -- the declared vocabulary -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["code", "binary"])
@pytest.mark.parametrize(
    ("trees", "copying", "references"),
    [(2, 1.0, "earlier"), (3, 0.5, "previous"), (4, 1.0, "earlier"), (3, 1.0, "first")],
)
def test_declared_positions_are_those_of_the_largest_trees(
    shape: str, trees: int, copying: float, references: str
) -> None:
    """Shallow trees that nearly always branch: the largest one is drawn, and quoted to its last node."""
    chosen = {"trees": trees, "copying": copying, "references": references}
    task = small(depths=(3, 3), tested=(3, 3), branching=0.95, shape=shape, **chosen)
    declared = max(int(word) for word in task.words() if word.isdigit())
    corpus = pm.generate(task, "train", 1)
    arguments = copy_arguments(corpus.forest, corpus.width)[1]
    assert declared - 3 * (trees - 1) <= arguments.max() <= declared


def test_fresh_examples_do_not_decide_which_words_a_model_knows() -> None:
    """At depth 12, 2,000 rows of a first epoch lack words for a quarter of COPY's arguments; training can have them."""
    settings = {"train": 2_000, "dev": 50, "test": 400, "iid": 50}
    recipe = pm.Recipe("seq2seq_lstm", data="orchard/hard/min-max/readme", data_settings=settings, fresh=True)
    train, _ = corpora(recipe)
    later = fresh_corpus(recipe, 1, np.zeros(0, np.uint64))
    deep = pm.generate(recipe.data, "test-12", **settings)
    model = MODELS.build(recipe.model)
    words, outcomes = model.words(train)
    assert (words, outcomes) == model.words(later)
    occurring = {train.vocabulary[token] for token in np.unique(train.tokens).tolist()}
    assert unknown_copies(deep, occurring) > 0.2
    assert unknown_copies(deep, words) < 0.05
    arguments = copy_arguments(deep.forest, deep.width)[1]
    assert unknown_copies(deep, words) == pytest.approx((arguments >= 127).mean()), "63 operators, 64 integers"
    assert (arguments >= 127).any(), "what training can never contain stays unknown"
