"""TRE when the trees are not known, and the published solver."""

from __future__ import annotations

import numpy as np
import pytest

from oracles_tre import andreas_item_by_item, noisy_sums, perfect_language
from pomona.base.errors import MeasureError, SpecError
from pomona.representations.tre import Derivations, ReconstructionWarning, tre
from pomona.representations.tre.bracketings import all_bracketings, branching, fill, random_bracketing, rotations
from pomona.representations.tre.compositions import Linear
from pomona.representations.tre.latent import latent_tre
from pomona.representations.tre.legacy import andreas2019
from pomona.representations.tre.recursion import compose_subtrees


def planted_sequences(seed: int, items: int = 90, longest: int = 3) -> tuple[list, list, np.ndarray]:
    rng = np.random.default_rng(seed)
    words = [tuple(str(w) for w in rng.choice(list("abcd"), size=rng.integers(2, longest + 1))) for _ in range(items)]
    gold = [fill(random_bracketing(len(word), rng), word) for word in words]
    made = Derivations.of(gold)
    parameters = Linear().initial((4,), 2, rng)
    rows = compose_subtrees(Linear(), made, parameters, rng.normal(size=(4, 4)))[made.root]
    return words, gold, rows + 0.01 * rng.normal(size=rows.shape)


def test_planted_brackets_are_found() -> None:
    words, gold, rows = planted_sequences(3)
    found = latent_tre(rows, words, compose="linear", distance="sql2", random_trees=1, restarts=2)
    long = [k for k, word in enumerate(words) if len(word) > 2]
    right = np.mean([found.trees[k] == gold[k] for k in long])
    assert right > 0.8
    assert found.identifiable
    assert found.score < 0.2 * min(found.left, found.right, *found.random)
    assert found.score < 0.2 * min(found.chance)
    assert found.score == pytest.approx(found.fit.per_item.mean())
    np.testing.assert_allclose(
        ((found.fit.predict(list(found.trees)) - rows) ** 2).sum(axis=1), found.fit.per_item, atol=1e-9
    )
    assert "Judge it against chance" in found.statement


def test_addition_says_that_trees_cannot_be_identified() -> None:
    words, _, rows = planted_sequences(4, items=30, longest=4)
    found = latent_tre(rows, words, compose="add")
    assert not found.identifiable
    assert "not identifiable" in found.statement
    assert found.score == found.left == found.right == found.random[0]
    assert found.score == pytest.approx(tre(rows, list(words), distance="sql2").score)
    assert {len(word): int(tie) for word, tie in zip(words, found.ties, strict=True)} == {2: 1, 3: 2, 4: 5}


def test_brackets_are_all_there_and_rotations_stay_among_them() -> None:
    assert [len(all_bracketings(length)) for length in range(1, 8)] == [1, 1, 2, 5, 14, 42, 132]
    everything = set(all_bracketings(5))
    assert set(rotations(branching(5, left=True))) <= everything
    reached, edge = {branching(5, left=True)}, [branching(5, left=True)]
    while edge:
        edge = [new for old in edge for new in rotations(old) if new not in reached]
        reached |= set(edge)
    assert reached == everything
    assert fill(((0, 1), 2), ("x", "y", "z")) == (("x", "y"), "z")


def test_long_sequences_climb_by_rotations() -> None:
    rng = np.random.default_rng(5)
    words = [tuple("abcdefghi")] * 3 + [tuple("ihgfedcba")] * 3
    found = latent_tre(rng.normal(size=(6, 3)), words, random_trees=1, shuffles=0, rounds=2, restarts=1)
    assert found.score <= min(found.left, found.right, *found.random) + 1e-9
    with pytest.raises(MeasureError, match="row 1: an empty sequence"):
        latent_tre(np.ones((2, 2)), [("a", "b"), ()])


@pytest.mark.parametrize(("distance", "zero"), [("cosine", True), ("cosine", False), ("l1", True), ("sql2", False)])
def test_legacy_equals_the_item_by_item_loop(distance: str, zero: bool) -> None:
    trees, rows = noisy_sums(25, 5, 4, seed=6)
    names = list(Derivations.of(trees).names)
    lexicon = np.zeros((5, 4)) if zero else np.random.default_rng(0).normal(size=(5, 4))
    errors, vectors = andreas_item_by_item(rows, trees, lexicon, names, distance, steps=30)
    with pytest.warns(ReconstructionWarning, match="repeats the published solver"):
        fast = andreas2019(rows, trees, distance, steps=30, zero_init=zero, seed=0)
    np.testing.assert_allclose(fast.per_item, errors, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(fast.vectors, vectors, rtol=1e-6, atol=1e-9)


def test_legacy_position_equals_the_item_by_item_loop() -> None:
    trees, messages = perfect_language()
    trees, messages = trees[::8], messages[::8]
    made = Derivations.of(trees)
    with pytest.warns(ReconstructionWarning):
        fast = andreas2019(messages, trees, "l1", "position", steps=15, seed=2)
    rng = np.random.default_rng(2)
    maps, bias = rng.uniform(-0.5, 0.5, (2, 4, 4)), rng.uniform(-0.5, 0.5, (2, 4))
    start = np.zeros((len(made.names), 72))
    errors, vectors = andreas_item_by_item(messages, trees, start, list(made.names), "l1", 15, maps, bias)
    np.testing.assert_allclose(fast.per_item, errors, rtol=1e-7)
    np.testing.assert_allclose(fast.vectors, vectors, atol=1e-9)


def test_the_freeze_is_in_legacy_and_nowhere_else() -> None:
    trees, rows = noisy_sums(200, 12, 16, seed=7, noise=0.2)
    with pytest.warns(ReconstructionWarning, match="freezes after one step"):
        frozen = andreas2019(rows, trees, steps=200)
    assert frozen.losses[1] == pytest.approx(frozen.losses[-1], rel=1e-6)
    with pytest.warns(ReconstructionWarning):
        moving = andreas2019(rows, trees, steps=200, zero_init=False)
    assert moving.score < 0.6 * frozen.score
    assert tre(rows, trees).score <= moving.score


def test_legacy_overstates_the_perfect_language() -> None:
    trees, messages = perfect_language()
    with pytest.warns(ReconstructionWarning):
        assert andreas2019(messages, trees, "l1", "position", steps=300).score > 0.5


def test_legacy_refuses_what_the_release_did_not_have() -> None:
    with pytest.raises(SpecError, match="the released code has 'cosine' and 'l1'"):
        andreas2019(np.eye(2), [("a", "b")] * 2, "l2")
    with pytest.raises(SpecError, match="the released code has 'add' and 'position'"):
        andreas2019(np.eye(2), [("a", "b")] * 2, "l1", "mlp")
