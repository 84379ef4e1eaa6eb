"""Balanced distributions, what cheap information is worth under them, and drawn pairs."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pomona.base.errors import SpecError, SplitError
from pomona.base.randomness import stream_key
from pomona.tasks.fair_nli.logic import fragment
from pomona.tasks.fair_nli.logic.balance import BalancedPairs, best_accuracy, ladder
from pomona.tasks.fair_nli.logic.fragment import ENCODINGS, NODE
from pomona.tasks.fair_nli.logic.pairs import different, draw, of_words, uniform
from pomona.tasks.fair_nli.logic.redundancy import held_out, redundancy_split
from pomona.tasks.fair_nli.logic.relations import Label, Relation

ALL = np.arange(ENCODINGS, dtype=np.int32)
GOLDEN = Path(__file__).parents[1] / "golden" / "fair_nli_fingerprints.json"
KEY = stream_key("test", 1)


@pytest.fixture(scope="module")
def train() -> np.ndarray:
    return redundancy_split(0, 0)


# The distribution


def test_probabilities_are_the_spec_s_fractions(train: np.ndarray):
    codes = ALL[train]
    cells = [tuple(row) for row in fragment.node_values(codes)[:, [NODE[n] for n in ("NP_O", "VP", "NP_S")]]]
    size: dict[tuple[int, ...], int] = defaultdict(int)
    for cell in cells:
        size[cell] += 1
    total: dict[int, Fraction] = defaultdict(Fraction)
    labels = fragment.labels(codes).tolist()
    for cell, label in zip(cells, labels, strict=True):
        total[label] += Fraction(1, size[cell])
    exact = [Fraction(1, size[c]) / total[label] / 3 for c, label in zip(cells, labels, strict=True)]
    chances = BalancedPairs(train).probabilities()
    assert np.allclose(chances[codes], [float(f) for f in exact], rtol=1e-12)
    assert not chances[~train].any()
    assert sum(exact) == 1


def test_shares_of_neutral_pairs_before_labels_are_balanced():
    distribution = BalancedPairs(np.ones(ENCODINGS, bool))
    assert round(100 * distribution.sizes[:, Label.NEUTRAL].sum() / ENCODINGS, 2) == 98.80
    assert (
        round(100 * (distribution.sizes / distribution.sizes.sum(axis=1, keepdims=True))[:, Label.NEUTRAL].mean(), 2)
        == 90.43
    )


def test_phrase_relations_after_balancing_labels(train: np.ndarray):
    chances = BalancedPairs(held_out(train)).probabilities()
    values = fragment.node_values(ALL)
    for phrase in ("NP_S", "VP", "NP_O"):
        shares = np.bincount(values[:, NODE[phrase]], weights=chances, minlength=7)
        assert shares[Relation.IND] == pytest.approx(0.0921, abs=5e-4)
        assert 0.35 < shares[Relation.EQ] < 0.42
        assert shares[Relation.FWD] == pytest.approx(shares[Relation.REV], abs=0.01)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_shortcut_ladder(seed: int):
    got = ladder(BalancedPairs(held_out(redundancy_split(0, seed))))
    assert [round(100 * value, 1) for value in got.values()] == [33.3, 66.7, 54.8, 82.8, 88.0, 97.2, 100.0]


def test_best_accuracy_of_a_feature_is_that_of_the_best_table(train: np.ndarray):
    distribution = BalancedPairs(train)
    feature = ALL % 7
    guess = {v: max(Label, key=lambda k: chance(distribution, feature == v, k)) for v in range(7)}
    expected = sum(chance(distribution, feature == v, guess[v]) for v in range(7))
    assert best_accuracy(distribution, [feature]) == pytest.approx(expected)
    assert best_accuracy(distribution, [feature, ALL % 3]) == pytest.approx(best_accuracy(distribution, [ALL % 21]))


def chance(distribution: BalancedPairs, where: np.ndarray, label: Label) -> float:
    return float(distribution.probabilities()[where & (fragment.labels(ALL) == label)].sum())


def test_a_space_without_a_label_cannot_be_balanced():
    with pytest.raises(SplitError, match="no encoding labelled entailment or contradiction"):
        BalancedPairs(fragment.labels(ALL) == Label.NEUTRAL)
    with pytest.raises(SplitError, match=r"shape \(5,\)"):
        BalancedPairs(np.ones(5, bool))


# Drawing

LAWS = {rho: BalancedPairs(redundancy_split(rho, 1)) for rho in (0, 0.25, 0.75)}


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2000), st.integers(0, 200), st.integers(2, 40), st.sampled_from([0, 7]))
def test_chunks_change_nothing(start: int, count: int, vocabulary: int, seed: int):
    distribution = LAWS[0]
    before = np.array([1, 1, 1, 0, 1] * seed)
    whole = draw(distribution, start + count, key=KEY, vocabulary=vocabulary, before=before)
    part = draw(distribution, count, key=KEY, vocabulary=vocabulary, start=start, before=before)
    assert (part.words == whole.words[start:]).all()
    assert (part.codes == whole.codes[start:]).all()


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 300), st.integers(0, 2**63), st.sampled_from(list(LAWS)))
def test_words_have_the_encoding_and_the_labels_balance(vocabulary: int, seed: int, rho: float):
    distribution = LAWS[rho]
    space = distribution.space
    pairs = draw(distribution, 301, key=stream_key("words", seed), vocabulary=vocabulary)
    assert (fragment.encode(pairs.words) == pairs.codes).all()
    assert space[pairs.codes].all()
    counts = np.bincount(pairs.labels[:300], minlength=3)
    assert counts.tolist() == [100, 100, 100]
    assert (np.sort(pairs.labels[:300].reshape(100, 3), axis=1) == [0, 1, 2]).all()
    open_class = [column for column in range(18) if column % 9 not in (0, 3, 6)]
    assert pairs.words[:, open_class].max() <= vocabulary
    assert (pairs.targets[:, -1] == pairs.labels).all()


def test_encodings_follow_the_law(train: np.ndarray):
    count = 300_000
    pairs = draw(BalancedPairs(train), count, key=KEY)
    expected = BalancedPairs(train).probabilities()[train] * count
    seen = np.bincount(pairs.codes, minlength=ENCODINGS)[train]
    freedom = len(expected) - 3
    chi_square = ((seen - expected) ** 2 / expected).sum()
    assert abs(chi_square - freedom) < 6 * np.sqrt(2 * freedom)


def test_words_are_uniform(train: np.ndarray):
    pairs = draw(BalancedPairs(train), 200_000, key=KEY, vocabulary=4)
    for modifier in (1, 4, 7):
        p, h = pairs.words[:, modifier], pairs.words[:, modifier + 9]
        only_h, only_p = (p == 0) & (h > 0), (h == 0) & (p > 0)
        for rows, kinds in ((p == h, 5), (only_h, 4), (only_p, 4), ((p != h) & ~only_h & ~only_p, 12)):
            seen = np.unique(p[rows].astype(int) * 5 + h[rows], return_counts=True)[1]
            assert len(seen) == kinds
            expected = rows.sum() / kinds
            assert ((seen - expected) ** 2 / expected).sum() < kinds + 6 * np.sqrt(2 * kinds)


def test_different_words_are_every_ordered_pair_once():
    for vocabulary in (2, 3, 7):
        made = {tuple(map(int, different(n, vocabulary))) for n in range(vocabulary * (vocabulary - 1))}
        words = range(1, vocabulary + 1)
        assert made == {(a, b) for a in words for b in words if a != b}


def finalised(word: int) -> int:
    """Stafford's variant 13 of the 64-bit finaliser, in unbounded integers."""
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    word = (word ^ word >> 27) * 0x94D049BB133111EB % 2**64
    return word ^ word >> 31


def test_choices_skip_the_words_that_would_favour_some():
    bound = 6 * 10**18  # a fortieth of all words must be skipped
    skipped = 0
    for n in range(600):
        state, gamma = n * 0x123456789ABCDEF % 2**64, 2 * n + 1
        after, choice = uniform(np.uint64(state), np.uint64(gamma), bound)
        state = (state + gamma) % 2**64
        while finalised(state) < 2**64 % bound:
            state = (state + gamma) % 2**64
            skipped += 1
        assert (int(after), int(choice)) == (state, finalised(state) % bound)
    assert skipped > 5


def test_after_other_examples_labels_draw_level_and_then_come_in_threes(train: np.ndarray):
    before = np.array([1] * 8 + [0] * 3 + [2] * 6)  # two contradictions and five entailments behind
    labels = draw(BalancedPairs(train), 7 + 30, key=KEY, before=before).labels
    assert np.bincount(labels[:7], minlength=3).tolist() == [5, 0, 2]
    assert (np.sort(labels[7:].reshape(10, 3), axis=1) == [0, 1, 2]).all()


def test_neighbouring_seeds_share_nothing(train: np.ndarray):
    one, two = (draw(BalancedPairs(train), 2000, key=stream_key("data", seed)) for seed in (1, 2))
    assert not one.followed_by(two).first_of_equal().sum() < 3990
    assert (one.codes == two.codes).mean() < 0.05
    assert not (one.words[1:] == two.words[:-1]).all(axis=1).any()


def test_first_of_equal(train: np.ndarray):
    pairs = draw(BalancedPairs(train), 50, key=KEY)
    twice = pairs.followed_by(pairs.take(slice(3, 9)))
    assert twice.first_of_equal().tolist() == [True] * 50 + [False] * 6


@pytest.mark.parametrize("vocabulary", [1, 40_000])
def test_impossible_vocabularies(train: np.ndarray, vocabulary: int):
    with pytest.raises(SpecError, match=f"vocabulary={vocabulary} is not possible"):
        draw(BalancedPairs(train), 1, key=KEY, vocabulary=vocabulary)


def test_pairs_of_words():
    pairs = of_words(np.array([[0, 0, 1, 0, 0, 1, 2, 0, 1] * 2]))
    assert Relation(pairs.values[0, NODE["ROOT"]]) is Relation.EQ
    assert pairs.words.dtype == np.int16


def test_data_stay_what_they_were(train: np.ndarray):
    expected = json.loads(GOLDEN.read_text())
    for name, vocabulary in (("sample", 100), ("small", 7)):
        pairs = draw(BalancedPairs(train), 3000, key=stream_key("golden"), vocabulary=vocabulary)
        assert hashlib.sha256(pairs.words.astype("<i2").tobytes()).hexdigest() == expected["words"][name], name
