"""Comparisons: the numbers of the measures put together, for pairs, for many and for groups of seeds."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import pomona as pm
from pomona.base.errors import MeasureError
from pomona.data.answers import Answers
from pomona.data.groups import groups_of
from pomona.evaluation import significance as sig
from pomona.evaluation.evaluation import Evaluation


@pytest.fixture(scope="module")
def corpus() -> pm.Corpus:
    return pm.generate("listops/d20s", split="test", seed=3, train=60, dev=10, test=150)


def model(corpus: pm.Corpus, name: str, noise: float, seed: int) -> pm.Evaluation:
    random = np.random.default_rng(seed)
    right = corpus.targets.astype(np.int64)
    given = np.where(random.random(right.shape) < noise, (right + 1) % 10, right)
    return Evaluation.of(corpus, Answers(name, given))


def test_a_pair(corpus: pm.Corpus) -> None:
    a, b = model(corpus, "a", 0.1, 1), model(corpus, "b", 0.4, 2)
    found = pm.compare(a, b, cluster="derivation")
    (pair,) = found.pairs
    assert pair.difference == sig.paired_difference(a.right, b.right)
    assert pair.p_value == pair.adjusted == sig.mcnemar(a.right, b.right) < 0.001
    right = [(one.given[:, 0] == corpus.targets[:, 0]).tolist() for one in (a, b)]
    only_first = sum(mine and not theirs for mine, theirs in zip(*right, strict=True))
    only_second = sum(theirs and not mine for mine, theirs in zip(*right, strict=True))
    assert 0 < only_second < only_first
    assert (pair.only_first, pair.only_second) == (only_first, only_second)
    assert pair.difference.value == (only_first - only_second) / 150
    assert pair.detectable == sig.detectable(150, (pair.only_first + pair.only_second) / 150)
    groups = groups_of(corpus, "derivation")[1]
    assert pair.clustered == sig.clustered_difference(a.right, b.right, groups)
    for side, one in zip(found.sides, (a, b), strict=True):
        assert side.name == one.name
        assert side.accuracy.interval == pytest.approx(one.accuracy.interval)
    wide, narrow = (pm.compare(a, b, confidence=one) for one in (0.99, 0.8))
    for better, worse in zip((*narrow.sides, *narrow.pairs), (*wide.sides, *wide.pairs), strict=True):
        inner, outer = (one.accuracy if hasattr(one, "accuracy") else one.difference for one in (better, worse))
        assert outer.interval[0] < inner.interval[0] < inner.interval[1] < outer.interval[1]
    turned = pm.compare(b, a).pairs[0]
    assert turned.difference.value == -pair.difference.value
    assert turned.difference.interval == pytest.approx(tuple(-one for one in reversed(pair.difference.interval)))
    told = str(found)
    for words in ("a - b: +", "McNemar p = ", "clustered", "would be found with 80% power"):
        assert words in told


def test_many_are_all_compared_and_adjusted(corpus: pm.Corpus) -> None:
    models = [model(corpus, "m", noise, seed) for seed, noise in enumerate((0.1, 0.15, 0.4))]
    found = pm.compare(*models)
    assert [(pair.first, pair.second) for pair in found.pairs] == [
        ("m", "m (2)"),
        ("m", "m (3)"),
        ("m (2)", "m (3)"),
    ]
    assert [pair.adjusted for pair in found.pairs] == sig.holm([pair.p_value for pair in found.pairs])
    assert json.loads(json.dumps(found.as_dict(), allow_nan=False))["rows"] == 150


def test_seeds(corpus: pm.Corpus) -> None:
    ones = [model(corpus, "ones", 0.1, seed) for seed in range(3)]
    twos = [model(corpus, "twos", 0.3, seed) for seed in range(10, 14)]
    found = pm.compare(ones, twos, model(corpus, "alone", 0.3, 20))
    values = [[one.accuracy.value for one in side] for side in (ones, twos)]
    assert found.sides[0].accuracy == sig.seeds(values[0])
    assert found.sides[1].accuracies == tuple(values[1])
    pair = found.pairs[0]
    assert (pair.difference, pair.p_value) == sig.seeds_difference(*values)
    assert pair.only_first is None
    assert pair.adjusted == pair.p_value  # of all pairs, the only one that can be tested
    assert math.isnan(found.pairs[1].p_value)
    assert found.as_dict()["pairs"][1]["difference"]["interval"] is None
    assert "alone" in str(found)


def test_what_cannot_be_compared(corpus: pm.Corpus) -> None:
    a = model(corpus, "a", 0.1, 1)
    with pytest.raises(MeasureError, match="at least two sides"):
        pm.compare(a)
    with pytest.raises(MeasureError, match="none of them empty"):
        pm.compare(a, [])
    with pytest.raises(MeasureError, match="b answers another corpus"):
        pm.compare(a, model(corpus[:149], "b", 0.1, 1))
    with pytest.raises(MeasureError, match="cannot be grouped by 'template'"):
        pm.compare(a, a, cluster="template")
    assert pm.compare(a, a, cluster="operator").notes == (
        "Only 5 groups by operator: too few to trust the clustered interval.",
    )
