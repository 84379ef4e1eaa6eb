"""The numbers of the published file (spec listops.md, 1.4), and of small corpora counted by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

import oracles
import pomona as pm
from pomona.data.corpus import Corpus
from pomona.data.statistics import Description, Spread, token_depths
from strategies import listops_corpora


@pytest.fixture(scope="module")
def published(data_folder: Path) -> Description:
    return pm.describe(pm.read(data_folder / "listops" / "test_d20s.tsv"))


def test_counts_of_the_published_file(published: Description) -> None:
    assert (published.rows, published.distinct, published.single_tokens, published.tokens) == (
        10_000,
        10_000,
        1,
        428_451,
    )
    labels = dict(zip("0123456789", [1127, 1038, 967, 978, 991, 969, 895, 930, 964, 1141], strict=True))
    assert published.targets == [labels]
    assert published.majority == 0.1141
    assert published.operators == {"MIN": 23_258, "MAX": 22_972, "MED": 22_957, "SM": 22_956}
    assert published.arities == {"2": 21_731, "3": 22_815, "4": 23_584, "5": 24_013}
    assert sum(published.operators.values()) == sum(published.arities.values()) == 92_143


def test_lengths_of_the_published_file(published: Description) -> None:
    assert round(published.length.mean, 2) == 42.85
    assert round(published.length.deviation, 1) == 75.6
    marks = {mark: round(value) for mark, value in published.length.percentiles.items()}
    assert marks == {"5": 6, "25": 8, "50": 16, "75": 40, "90": 106, "95": 185, "99": 386, "99.9": 695, "100": 939}
    assert {bound: round(share, 3) for bound, share in published.share_up_to.items()} == {
        "50": 0.797, "100": 0.893, "130": 0.921, "200": 0.956, "500": 0.995,
    }  # fmt: skip
    buckets = [3030, 2688, 2210, 997, 626, 400, 49, 0]
    assert list(published.length_buckets.values()) == buckets
    assert list(published.length_buckets) == ["<10", "<20", "<50", "<100", "<200", "<500", "<1000", ">=1000"]


def test_depths_of_the_published_file(published: Description) -> None:
    assert round(published.token_depth.mean, 3) == 9.611
    percentiles = published.token_depth.percentiles
    assert [float(f"{percentiles[mark]:.3g}") for mark in ("50", "95", "99", "100")] == [6.47, 28.4, 40.2, 53.9]
    assert round(published.binary_depth.mean, 1) == 16.6
    assert [published.binary_depth.percentiles[mark] for mark in ("50", "90", "95", "99", "100")] == [
        11,
        37,
        54,
        71,
        84,
    ]
    assert round(published.nesting.mean, 2) == 4.53
    assert [published.nesting.percentiles[mark] for mark in ("50", "95", "99", "100")] == [3, 15, 19, 19]
    counts = [published.nesting_counts[str(depth)] for depth in (1, 2, 3, 4, 5, 6, 19)]
    assert counts == [2093, 2339, 1429, 893, 611, 519, 324]
    assert round(published.lists.mean, 1) == 9.2
    assert [published.lists.percentiles[mark] for mark in ("50", "99", "100")] == [3, 85, 200]


@given(listops_corpora)
@settings(max_examples=50)
def test_depths_are_those_of_the_left_branching_tree(corpus: Corpus) -> None:
    mean, deepest = token_depths(corpus)
    for row, tree in enumerate(corpus.forest.nested()):
        binary = oracles.binarise(tree, "left", True)
        nodes = zip(oracles.subtrees(binary), oracles.depths(binary), strict=True)
        depths = [depth for node, depth in nodes if isinstance(node, str)]
        assert mean[row] == pytest.approx(sum(depths) / len(depths))
        assert deepest[row] == max(depths)


@given(listops_corpora)
@settings(max_examples=50)
def test_every_number_is_the_one_counted_slowly(corpus: Corpus) -> None:
    found, trees = pm.describe(corpus), corpus.forest.nested()
    inner = [node for tree in trees for node in oracles.subtrees(tree) if not isinstance(node, str)]
    texts = [oracles.to_text(tree) for tree in trees]
    lengths = [len(text.split()) for text in texts]
    assert (found.rows, found.distinct, found.tokens) == (len(trees), len(set(texts)), sum(lengths))
    assert found.single_tokens == lengths.count(1)
    assert found.operators == {name: n for name in oracles.RULES if (n := sum(node[0] == name for node in inner))}
    assert found.arities == {str(k): n for k in range(1, 6) if (n := sum(len(node) - 1 == k for node in inner))}
    answers = [str(oracles.evaluate(tree)) for tree in trees]
    assert found.targets == [{digit: answers.count(digit) for digit in sorted(set(answers))}]
    assert found.majority == max(map(answers.count, answers)) / len(answers)
    assert found.length.mean == pytest.approx(sum(lengths) / len(lengths))
    assert found.nesting.mean == pytest.approx(np.mean([oracles.height(tree) for tree in trees]))
    assert found.dependency.mean == pytest.approx(np.mean([oracles.dependency(tree) for tree in trees]))
    assert sum(found.length_buckets.values()) == sum(found.nesting_counts.values()) == len(trees)
    assert found.fingerprint == corpus.fingerprint


def test_nothing_has_no_spread() -> None:
    assert Spread.of(np.zeros(0)) == Spread(0.0, 0.0, {})
    corpus = pm.generate("listops/d20s", split="test", seed=0, train=5, dev=5, test=5)[:0]
    found = pm.describe(corpus)
    assert (found.rows, found.tokens, found.majority, found.length.mean) == (0, 0, 0, 0)


def test_the_dictionary_is_plain_json(published: Description) -> None:
    import json

    assert json.loads(json.dumps(published.as_dict(), allow_nan=False)) == published.as_dict()
