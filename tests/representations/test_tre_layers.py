"""Layers fitted together equal layers fitted alone, and share one factorisation."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles_tre import noisy_sums
from pomona.base.errors import MeasureError
from pomona.representations.tre import Derivations, ReconstructionWarning, cosine, descent, design, tre, tre_layers
from pomona.representations.tre.cosine import CosineObjective, fit_cosine
from pomona.representations.tre.design import Design
from pomona.representations.tre.distances import Cosine


def unlike(rows: np.ndarray, count: int, seed: int = 1) -> dict[str, np.ndarray]:
    """Layers from easy to noisy, in two precisions."""
    rng = np.random.default_rng(seed)
    made = {}
    for k in range(count):
        layer = np.tanh(np.roll(rows, k, axis=1)) + 0.2 * k * rng.normal(size=rows.shape)
        made[f"layer {k}"] = layer.astype(np.float32) if k % 2 else layer
    return made


@pytest.mark.parametrize("distance", ["sql2", "cosine", "l2"])
def test_each_layer_is_fitted_as_if_alone(distance: str) -> None:
    trees, rows = noisy_sums(150, 9, 24, seed=4, noise=0.3)
    layers = unlike(rows, 5) | {"narrow": rows[:, :20], "again": rows}
    fits = tre_layers(layers, trees, distance=distance)
    assert list(fits) == list(layers)
    for name, layer in layers.items():
        alone = tre(layer, trees, distance=distance)
        assert fits[name].score == pytest.approx(alone.score, abs=1e-9)
        np.testing.assert_allclose(fits[name].per_item, alone.per_item, atol=1e-6)
        assert fits[name].bound.lower_bound == pytest.approx(alone.bound.lower_bound, abs=1e-6)
        assert distance == "l2" or fits[name].bound.gradient_norm < 1e-8
        assert fits[name].representations.dtype == layer.dtype


@pytest.mark.parametrize("distance", ["sql2", "cosine"])
def test_one_factorisation_serves_all_layers(distance: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trees, rows = noisy_sums(300, 9, 16, seed=4, noise=0.3)
    layers = {f"layer {k}": np.roll(rows, k, axis=1) for k in range(6)}
    calls = []
    original = Design.weighted_gram
    monkeypatch.setattr(Design, "weighted_gram", lambda self, weight: calls.append(1) or original(self, weight))
    tre(rows, trees, distance=distance)
    once = len(calls)
    tre_layers(layers, trees, distance=distance)
    assert len(calls) == 2 * once


def test_a_layer_that_needs_its_own_metric_does_not_hold_up_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    trees, rows = noisy_sums(200, 9, 20, seed=2)
    counts = Derivations.of(trees).counts
    layers = [layer.astype(np.float64) for layer in unlike(rows, 6).values()]
    usual = fit_cosine(counts, layers)
    assert len({fit.iterations for fit in usual}) > 1  # otherwise no layer converged before the others
    monkeypatch.setattr(descent, "PATIENCE", 2)
    for fit, other in zip(fit_cosine(counts, layers), usual, strict=True):
        assert fit.per_item.sum() == pytest.approx(other.per_item.sum(), abs=1e-6)


def test_data_too_large_to_copy_are_fitted_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [(f"a{i}", f"b{j}") for i in range(8) for j in range(8)]
    trees = [*pairs, *pairs[:3]]  # hardly any row occurs twice
    rng = np.random.default_rng(8)
    parts = {name: rng.normal(size=20) for pair in pairs for name in pair}
    rows = np.array([parts[a] + parts[b] for a, b in trees]) + 0.5 * rng.normal(size=(len(trees), 20))
    counts = Derivations.of(trees).counts
    layers = list(unlike(rows, 3).values())
    copied = fit_cosine(counts, layers)
    monkeypatch.setattr(cosine, "TOGETHER", 0)
    for fit, other in zip(fit_cosine(counts, layers), copied, strict=True):  # stops at a small decrease
        assert fit.per_item.sum() == pytest.approx(other.per_item.sum(), rel=1e-7)
    monkeypatch.setattr(cosine, "LARGE_DECREASE", 0.0)
    for fit, other in zip(fit_cosine(counts, layers), copied, strict=True):
        np.testing.assert_allclose(fit.per_item, other.per_item, atol=1e-6)
        assert fit.lower_bound == pytest.approx(other.lower_bound, abs=1e-9)


@given(st.integers(0, 10_000), st.integers(1, 4))
@settings(max_examples=20, deadline=None)
def test_values_and_gradients_are_those_of_the_distance(seed: int, layers: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.integers(0, 3, size=(20, 4)).astype(float)
    matrix[:, 0] += 1.0
    whole = Design.from_dense(matrix)
    distinct, group, times = whole.distinct
    rows = rng.normal(size=(20, layers, 3))
    unit = rows / np.linalg.norm(rows, axis=2, keepdims=True)
    sums = np.zeros((len(distinct), layers, 3))
    np.add.at(sums, group, unit)
    lexicon = rng.normal(size=(4, layers, 3))
    value, grad, curvature, _ = CosineObjective(distinct, sums, np.ones(sums.shape[:2]), times).evaluate(lexicon)
    scale = 1.0 / np.linalg.norm(rows, axis=2)
    plain = CosineObjective(whole, rows, scale, np.ones(20)).evaluate(lexicon)
    assert curvature.shape == (len(distinct), layers)
    for layer in range(layers):
        total, slope = Cosine().smoothed(matrix @ lexicon[:, layer], rows[:, layer], 0.0)
        for found, found_grad in ((value, grad), plain[:2]):
            assert found[layer] == pytest.approx(total, abs=1e-9)
            np.testing.assert_allclose(found_grad[:, layer], matrix.T @ slope, atol=1e-9)


def test_single_precision_gives_the_same_values_and_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(9)
    matrix = rng.integers(0, 2, size=(400, 6)).astype(float) + 0.25
    rows = rng.normal(size=(400, 1, 8)).astype(np.float32)
    objective = CosineObjective(
        Design.from_dense(matrix), rows, 1.0 / np.linalg.norm(rows, axis=2).astype(np.float64), np.ones(400)
    )
    lexicon = rng.normal(size=(6, 1, 8))
    double = objective.evaluate(lexicon)
    monkeypatch.setattr(cosine, "SINGLE", 0)
    assert objective.precision is np.float32
    for one, other in zip(objective.evaluate(lexicon), double, strict=True):
        assert one.dtype == np.float64
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-4)


@given(st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_distinct_rows_and_their_places_give_back_the_design(seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.integers(0, 2, size=(30, 4)).astype(float)
    distinct, group, times = Design.from_dense(matrix).distinct
    np.testing.assert_array_equal(distinct.dense()[group], matrix)
    assert len(distinct) == len(np.unique(matrix, axis=0))
    np.testing.assert_array_equal(times, np.bincount(group))


def test_rows_that_collide_are_not_taken_for_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(design, "_hashes", lambda first, *rest: np.zeros(len(first) - 1, np.uint64))
    matrix = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    distinct, group, times = Design.from_dense(matrix).distinct
    np.testing.assert_array_equal(distinct.dense()[group], matrix)
    assert times.tolist() == [1.0, 1.0, 1.0]


def test_equal_parts_prove_a_bound_whatever_their_brackets() -> None:
    trees = [("a", ("b", "c")), (("c", "a"), "b"), ("a", "b"), ("b", "c")]
    rows = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, -1.0]])
    fit = tre(rows, trees, uncomposed="allow")
    assert fit.bound.lower_bound == pytest.approx((2 - np.sqrt(2)) / 4)  # two unit vectors at a right angle
    assert fit.score >= fit.bound.lower_bound


def test_errors_and_notes_name_the_layer() -> None:
    trees, rows = noisy_sums(80, 9, 5, seed=4)
    bad = rows.copy()
    bad[3, 1] = np.nan
    with pytest.raises(MeasureError, match="layer 'bad': row 3: the representation holds nan"):
        tre_layers({"good": rows, "bad": bad}, trees)
    with pytest.raises(MeasureError, match="layer 'short': 79 representations but 80 derivations"):
        tre_layers({"short": rows[1:]}, trees)
    with pytest.raises(MeasureError, match=r"layers are a mapping .* got ndarray. For one layer: pm.tre"):
        tre_layers(rows, trees)
    with pytest.raises(MeasureError, match="some entries are layers and some are seeds"):
        tre_layers({"layer": rows, "seed": {"layer": rows}}, trees)
    with pytest.raises(MeasureError, match=r"seed 'b' has the layers \['y'\], but seed 'a' has \['x'\]"):
        tre_layers({"a": {"x": rows}, "b": {"y": rows}}, trees)
    with pytest.raises(MeasureError, match="seed 'b', layer 'x': row 3: the representation holds nan"):
        tre_layers({"a": {"x": rows}, "b": {"x": bad}}, trees)
    with pytest.raises(MeasureError, match="no layers"):
        tre_layers({}, trees)
    with pytest.warns(ReconstructionWarning) as seen:
        tre_layers({"usual": rows, "flat": np.ones_like(rows)}, trees, distance="sql2")
    assert all(str(note.message).startswith("layer 'flat': ") for note in seen)
    assert any("all representations are equal" in str(note.message) for note in seen)


def test_a_tuple_of_layers_has_a_table_a_plot_and_a_paired_comparison(tmp_path: Path) -> None:
    trees, rows = noisy_sums(150, 9, 24, seed=4, noise=0.3)
    rng = np.random.default_rng(0)
    noisy = tuple(rows + noise * rng.normal(size=rows.shape) for noise in (2.0, 0.5, 0.0))
    fits = tre_layers(noisy, trees)
    assert list(fits) == ["layer 0", "layer 1", "layer 2"]
    assert fits.best == "layer 2"
    assert list(tre_layers({0: rows, 1: rows}, trees)) == [0, 1]  # names are kept as they are
    first, _, last = fits.rows
    assert last.behind == last.behind_low == last.behind_high == 0.0
    assert 0.0 < first.behind_low < first.behind < first.behind_high
    assert first.behind == pytest.approx(last.explained - first.explained)
    lines = str(fits).splitlines()
    assert lines[0].split()[:3] == ["layer", "TRE", "at"]
    assert lines[3].endswith("best")
    assert fits.compare("layer 0", "layer 2").low > 0
    fits.plot(tmp_path / "layers.svg")
    assert (tmp_path / "layers.svg").read_text().count("layer 1") >= 1
    assert json.loads(fits.save(tmp_path / "layers.json").read_text())["best"] == "layer 2"
    with pytest.raises(MeasureError, match="no layer is called 'top'; there are layer 0"):
        fits.compare("top", "layer 0")
    with pytest.raises(MeasureError, match="no layer is called 'layer 9'; there are layer 0"):
        fits["layer 9"]


def test_a_layer_that_is_a_sum_has_the_score_0_in_the_table() -> None:
    words = np.random.default_rng(0).normal(size=(7, 5))
    trees = [(i, j) for i in range(3) for j in range(3, 7)]
    table = str(tre_layers([np.array([words[i] + words[j] for i, j in trees])], trees))
    assert table.splitlines()[1].split()[:4] == ["layer", "0", "0", "0"]  # its name, TRE, at least


def test_the_interval_covers_no_difference_for_equal_layers() -> None:
    """Two layers that are rotations of each other explain the same, item by item, so the interval is a point."""
    trees, rows = noisy_sums(150, 9, 24, seed=4, noise=0.3)
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(24, 24)))[0]
    fits = tre_layers([rows, 3.0 * rows @ turn], trees, distance="sql2")
    assert all(abs(row.behind) < 1e-9 and abs(row.behind_high - row.behind_low) < 1e-9 for row in fits.rows)


def test_seeds_and_layers_in_one_call() -> None:
    trees, rows = noisy_sums(120, 9, 24, seed=4, noise=0.3)
    layers = unlike(rows, 3)
    seeds = {"seed 0": layers, "seed 1": {name: layer[:, ::-1] for name, layer in unlike(rows, 3, seed=2).items()}}
    fits = tre_layers(seeds, trees)
    assert list(fits.seeds) == ["seed 0", "seed 1"]
    for seed, own in seeds.items():
        for name, layer in own.items():
            assert fits.seeds[seed][name].score == pytest.approx(tre(layer, trees).score, abs=1e-9)
    assert "over seeds" in str(fits)
    both = [fits.seeds[seed]["layer 1"] for seed in seeds]
    mean = np.mean([1 - fit.score / fit.bound.centroid for fit in both])
    assert fits.rows[1].explained == pytest.approx(mean)
    assert {row["seed"] for row in fits.plot().spec["data"]["values"]} == {"seed 0", "seed 1"}
