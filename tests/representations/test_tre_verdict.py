"""What a fit says in words: shares with a bracket, an exact sequential p-value, unseen combinations, files, plots."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

import pomona as pm
from pomona.base.errors import SpecError
from pomona.representations.tre import ReconstructionWarning, nulls, significance, tre
from pomona.representations.tre.least_deviations import least_deviations
from pomona.representations.tre.verdict import percent

TREES = [(f"a{i}", f"b{j}") for i in range(5) for j in range(6)]


def grid(noise: float, seed: int = 0, width: int = 8) -> np.ndarray:
    rng = np.random.default_rng(seed)
    first, second = rng.normal(size=(5, width)), rng.normal(size=(6, width))
    rows = np.array([first[i] + second[j] for i in range(5) for j in range(6)])
    return rows + noise * rng.normal(size=rows.shape)


def test_one_call_one_verdict() -> None:
    fit = pm.tre(grid(0.2), TREES, distance="sql2")
    told = fit.summary
    lines = str(fit).splitlines()
    assert [line.split()[0] for line in lines] == ["TRE", "explained", "chance", "unseen", "worst"]
    assert "by the parts, and this is the minimum" in lines[1]
    assert "yes, it beats chance: none of 999 shuffles score as low (p = 0.001)" in lines[2]
    assert "yes, it holds for combinations never seen" in lines[3]
    assert told.explained.value == pytest.approx(fit.normalized("centroid").value)
    assert told.unseen is not None
    assert told.unseen.low < told.unseen.share < told.unseen.high
    row, name, value = told.worst[0]
    assert value == fit.per_item.max()
    assert name == repr(TREES[row])
    assert repr(fit).count("\n") == 0
    assert len(repr(fit)) < 120


@pytest.mark.filterwarnings("ignore::pomona.representations.tre.ReconstructionWarning")
def test_noise_gets_a_no_and_stops_early() -> None:
    rows = np.random.default_rng(1).normal(size=(30, 8))
    told = tre(rows, TREES).summary
    assert told.chance is not None
    assert told.chance.stopped
    assert len(told.chance.null) < 999
    assert "no, it does not beat chance: 20 of the first" in told.sentences["chance"]
    assert "yes" not in told.sentences["unseen"]


def test_a_constant_language_is_no_success() -> None:
    with pytest.warns(ReconstructionWarning):
        fit = tre(np.ones((30, 4)), TREES, distance="sql2")
    answers = fit.summary.sentences
    assert all(answers[name].startswith("cannot be said") for name in ("explained", "chance", "unseen"))
    assert fit.to_dict()["verdict"]["explained"] == {"value": None, "high": None}


@pytest.mark.filterwarnings("ignore::pomona.representations.tre.ReconstructionWarning")
def test_the_bracket_is_said_where_the_minimum_is_not_proved() -> None:
    fit = tre(grid(1.0, width=16), TREES)
    assert fit.bound.status == "best found"
    assert 0.5 < fit.summary.explained.high < 0.99
    assert f"and no lexicon explains more than {percent(fit.summary.explained.high)}" in str(fit)
    unknown = tre(grid(1.0, width=4), TREES)
    assert unknown.bound.lower_bound == 0.0  # as many dimensions as the rank: nothing is proved
    assert "and whether another lexicon explains more is not known" in str(unknown)
    assert "more than 100 %" not in str(unknown)


@pytest.mark.parametrize("distance", ["cosine", "sql2", "l1"])
def test_rounding_is_not_shown_as_an_error(distance: str) -> None:
    told = str(tre(grid(0.0), TREES, distance=distance))
    assert f"TRE 0 (add, {distance})" in told
    assert "is explained by the parts: they compose the vectors exactly" in told
    assert "none: every item is composed exactly" in told
    assert "e-1" not in told


def test_what_is_dear_runs_when_asked() -> None:
    rows = np.random.default_rng(0).normal(size=(30, 40))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReconstructionWarning)
        fit = tre(rows, TREES, compose="mlp", distance="sql2", restarts=1)
        assert "not run, since it would take about" in fit.summary.sentences["chance"]
        told = fit.verdict(shuffles=2, folds=0)
    assert told.chance is not None
    assert len(told.chance.null) == 2
    assert told.sentences["unseen"] == "not asked."


def test_a_search_from_many_starts_is_not_repeated_unasked() -> None:
    """Folds of `weighted` and `diagonal` under cosine took a quarter of a minute where a second was promised."""
    fit = tre(grid(0.2, width=2)[:12], TREES[:12], compose="weighted", restarts=1)
    assert "not run, since it would take about" in fit.summary.sentences["unseen"]
    exact = tre(fit.rows, TREES[:12], compose="weighted", distance="sql2", restarts=1)
    assert exact.summary.unseen is not None


def test_the_sequential_p_value_is_honest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under the null, P(p <= a) <= a for every a, although most tests stop early (Besag and Clifford 1991)."""
    fit = tre(grid(0.2), TREES, distance="sql2")
    rng = np.random.default_rng(0)
    monkeypatch.setattr(significance, "null_scores", lambda *_: (float(rng.random()), iter(rng.random, 2.0)))
    tests = [fit.shuffle_test(99, stop=5) for _ in range(4000)]
    values = np.array([test.p_value for test in tests])
    assert np.mean([len(test.null) for test in tests]) < 30
    for level in (0.01, 0.05, 0.1, 0.25, 0.5):
        share = (values <= level + 1e-12).mean()
        assert share <= level + 4 * np.sqrt(level * (1 - level) / 4000)
    assert (values <= 0.05 + 1e-12).mean() > 0.03  # and it is no test that never rejects
    with pytest.raises(SpecError, match="stop must be 1 or more"):
        fit.shuffle_test(9, stop=0)


@pytest.mark.filterwarnings("ignore::pomona.representations.tre.ReconstructionWarning")
def test_stopping_changes_no_shuffle() -> None:
    fit = tre(np.random.default_rng(1).normal(size=(30, 8)), TREES, distance="cosine")
    early, full = fit.shuffle_test(60, stop=4), fit.shuffle_test(60)
    assert early.stopped
    np.testing.assert_array_equal(early.null, full.null[: len(early.null)])
    assert early.p_value == 4 / len(early.null)


def test_reweighted_least_squares_is_near_the_linear_programme(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = grid(0.5)
    fit = tre(rows, TREES, distance="l1")
    exact = fit.shuffle_test(20)
    monkeypatch.setattr(nulls, "LINEAR_PROGRAMMES", 0)
    quick = fit.shuffle_test(20)
    np.testing.assert_allclose(quick.null, exact.null, rtol=0.01)
    assert (quick.null >= exact.null - 1e-9).all()  # never below the minimum
    assert quick.observed >= exact.observed - 1e-9
    design = fit.derivations.counts
    assert exact.null[0] == pytest.approx(
        np.abs(design.times(least_deviations(design, rows[np.random.default_rng(0).permutation(30)])[0])
               - rows[np.random.default_rng(0).permutation(30)]).sum() / 30
    )  # fmt: skip


def test_a_fit_is_saved_drawn_and_shown(tmp_path: Path) -> None:
    odd = [("<b>", "\x1b[31m"), ("<b>", "y"), ("x", "\x1b[31m"), ("x", "y")] * 6
    rows = np.random.default_rng(0).normal(size=(24, 3))
    fit = tre(rows, odd, distance="sql2")
    path = fit.save(tmp_path / "fit.json")
    read = json.loads(path.read_text())
    assert read["score"] == fit.score
    assert read["verdict"]["sentences"]["explained"] == fit.summary.sentences["explained"]
    assert len(read["per_item"]) == 24
    assert {one["primitive"] for one in read["lexicon"]} == {"<b>", "\x1b[31m", "x", "y"}
    np.testing.assert_allclose(read["lexicon"][0]["vector"], fit.vectors[0])
    assert fit.to_dict() == {key: read[key] for key in fit.to_dict()}
    assert "<b>" not in fit._repr_html_()
    assert "&lt;b&gt;" in fit._repr_html_()
    assert "\x1b" not in str(fit) + fit._repr_html_()
    drawing = fit.plot(tmp_path / "fit.svg")
    assert (tmp_path / "fit.svg").read_text().startswith("<svg")
    assert len(drawing.spec["concat"]) == 2
    assert len(repr(drawing)) < 120


def test_items_are_named_as_they_were_given() -> None:
    attributes = {"shape": [a for a, _ in TREES], "colour\n": [b for _, b in TREES]}
    fit = tre(grid(0.2), attributes, distance="sql2")
    row, name, _ = fit.summary.worst[0]
    assert name == repr(f"shape={TREES[row][0]}, colour\n={TREES[row][1]}")


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.5, "50 %"), (1.0, "100 %"), (0.999, "99.9 %"), (0.99999999, "99.999 %"), (0.002, "0.2 %"), (0.0, "0 %"),
     (-0.001, "-0.1 %"), (1 - 1e-12, "100 %"), (-1e-12, "0 %")],
)  # fmt: skip
def test_shares_are_not_rounded_to_what_they_are_not(share: float, text: str) -> None:
    assert percent(share) == text
