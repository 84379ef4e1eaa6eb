"""What a score means: shuffle tests, normalisation, held-out combinations, intervals, and the paper's remarks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from oracles_tre import read_language
from pomona.base.errors import MeasureError, SpecError
from pomona.representations.edit_distance import check_proposition_1
from pomona.representations.tre import (
    Derivations,
    ReconstructionWarning,
    bootstrap,
    compare_fits,
    partial_correlation,
    tre,
)
from pomona.representations.tre.significance import coverage_folds


def grid(noise: float, seed: int = 0, width: int = 6) -> tuple[list, np.ndarray]:
    rng = np.random.default_rng(seed)
    first, second = rng.normal(size=(5, width)), rng.normal(size=(6, width))
    trees = [(f"a{i}", f"b{j}") for i in range(5) for j in range(6)]
    rows = np.array([first[i] + second[j] for i in range(5) for j in range(6)])
    return trees, rows + noise * rng.normal(size=rows.shape)


@pytest.mark.parametrize("distance", ["sql2", "cosine", "l2", "l1"])
@pytest.mark.filterwarnings("ignore::pomona.representations.tre.ReconstructionWarning")
def test_structure_beats_its_shuffles_and_noise_does_not(distance: str) -> None:
    trees, rows = grid(noise=0.2)
    test = tre(rows, trees, distance=distance).shuffle_test(99)
    assert test.p_value == pytest.approx(0.01)
    noise = np.random.default_rng(1).normal(size=rows.shape)
    assert tre(noise, trees, distance=distance).shuffle_test(99).p_value > 0.05


def test_the_fast_null_equals_refitting() -> None:
    trees, rows = grid(noise=0.5)
    fit = tre(rows, trees, distance="sql2")
    null = fit.shuffle_test(5, seed=3).null
    rng = np.random.default_rng(3)
    slow = [tre(rows[rng.permutation(30)], trees, distance="sql2").score for _ in range(5)]
    np.testing.assert_allclose(null, slow, rtol=1e-9)


@pytest.mark.filterwarnings("ignore::pomona.representations.tre.ReconstructionWarning")
def test_p_values_are_uniform_under_the_null() -> None:
    trees, _ = grid(noise=1.0)
    values = [
        tre(np.random.default_rng(seed).normal(size=(30, 3)), trees, distance="cosine")
        .shuffle_test(19, seed=seed)
        .p_value
        for seed in range(40)
    ]
    assert stats.kstest(np.array(values) - 0.025, "uniform").pvalue > 0.001


@pytest.mark.parametrize(("number", "score", "null", "share"), [(63, 1.851, 2.823, 0.344), (17, 1.428, 2.391, 0.403)])
def test_normalised_scores_of_the_papers_languages(number: int, score: float, null: float, share: float) -> None:
    trees, messages = read_language(number)
    columns = {slot: [tree[slot // 2][slot % 2] for tree in trees] for slot in range(4)}
    fit = tre(messages, columns, distance="sql2")
    test = fit.shuffle_test(1000)
    assert fit.score == pytest.approx(score, abs=1e-3)
    assert fit.bound.rank == 9
    assert test.mean == pytest.approx(null, abs=0.01)
    assert test.p_value == pytest.approx(1 / 1001)
    assert fit.normalized().value == pytest.approx(share, abs=0.005)
    held = fit.heldout(6)
    assert held.score > fit.score
    assert 0.1 < held.r_squared < 0.35


@pytest.mark.parametrize("baseline", ["shuffle", "centroid", "zero"])
def test_a_constant_language_is_nan_with_a_reason(baseline: str) -> None:
    trees, _ = grid(noise=0.0)
    with pytest.warns(ReconstructionWarning, match="all representations are equal"):
        fit = tre(np.ones((30, 4)), trees, distance="l2")
    result = fit.normalized(baseline, shuffles=10)
    assert np.isnan(result.value)
    assert result.reason is not None
    assert "all representations are equal" in result.reason
    assert np.isnan(fit.shuffle_test(10).p_value)


def test_normalised_by_the_centroid_is_r_squared() -> None:
    trees, rows = grid(noise=0.3)
    fit = tre(rows, trees, distance="sql2")
    total = ((rows - rows.mean(axis=0)) ** 2).sum(axis=1).mean()
    assert fit.normalized("centroid").value == pytest.approx(1 - fit.score / total)
    with pytest.raises(SpecError, match="baseline is 'shuffle', 'centroid' or 'zero'"):
        fit.normalized("mean")


def test_held_out_combinations_of_a_planted_language_are_predicted() -> None:
    trees, rows = grid(noise=0.0)
    held = tre(rows, trees, distance="sql2").heldout(5)
    assert held.score < 1e-12
    assert held.undetermined == 0
    assert held.tested + held.anchored == 30


def test_folds_cover_every_primitive_and_split_by_derivation() -> None:
    trees = [(f"a{i % 4}", f"b{i % 3}") for i in range(40)] + [("a0", "rare")]
    made = Derivations.of(trees)
    fold = coverage_folds(made, 5, np.random.default_rng(0))
    assert fold[-1] == -1  # the only one with 'rare'
    for which in range(5):
        seen = {leaf for row, tree in enumerate(trees) if fold[row] != which for leaf in tree}
        assert all(leaf in seen for row, tree in enumerate(trees) if fold[row] == which for leaf in tree)
    for a in range(40):
        assert all(fold[a] == fold[b] for b in range(40) if trees[a] == trees[b])
    with pytest.raises(SpecError, match="folds must be between 2 and"):
        coverage_folds(made, 1, np.random.default_rng(0))


def test_nothing_to_hold_out_is_an_error() -> None:
    with pytest.warns(ReconstructionWarning):
        fit = tre(np.eye(3), [("a", "b"), ("c", "d"), ("e", "f")])
    with pytest.raises(MeasureError, match="no derivation can be held out"):
        fit.heldout(3)


def test_remark_1_zero_exactly_for_homomorphisms() -> None:
    """TRE is 0 if f(x) = f(xa) * f(xb) for every item, and above 0 if this fails for one."""
    rng = np.random.default_rng(2)
    words = {name: rng.normal(size=4) for name in "abcd"}
    trees: list = list("abcd") + [(x, y) for x in "abcd" for y in "abcd"]
    rows = np.array([words[t] if isinstance(t, str) else words[t[0]] + words[t[1]] for t in trees])
    fit = tre(rows, trees, distance="l2")
    assert fit.per_item.max() < 1e-9
    for row, tree in enumerate(trees):
        if not isinstance(tree, str):
            predicted = fit.predict([tree[0]])[0] + fit.predict([tree[1]])[0]
            np.testing.assert_allclose(predicted, rows[row], atol=1e-9)
    rows[7] += 0.5
    assert tre(rows, trees, distance="l2").per_item.max() > 1e-3


@pytest.mark.filterwarnings("ignore::pomona.representations.tre.ReconstructionWarning")
def test_remark_2_a_free_composition_memorises_and_fails_out_of_sample() -> None:
    """If all derivations differ, some composition fits noise exactly; held-out TRE shows it."""
    rng = np.random.default_rng(3)
    trees = [(f"a{i}", f"b{j}") for i in range(4) for j in range(4)]
    noise = rng.normal(size=(16, 2))
    from pomona.representations.tre.compositions import Mlp

    fit = tre(noise, trees, compose=Mlp(hidden=40), distance="sql2", restarts=3)
    centroid = fit.bound.centroid
    assert fit.score < 0.02 * centroid
    assert fit.heldout(4).score > 0.5 * centroid


def test_proposition_1_holds_where_its_conditions_do() -> None:
    trees, rows = grid(noise=0.05)
    trees += [((f"a{i}", f"b{j}"), "a0") for i in range(3) for j in range(3)]
    rows = np.concatenate([rows, rows[:9]])
    fit = tre(rows, trees, distance="l2")
    report = check_proposition_1(fit, rescale=True)
    assert report.applies
    assert report.holds
    assert report.worst <= 0
    plain = check_proposition_1(fit)
    assert not plain.primitives_near_identity  # the vectors are longer than 1
    cosine = check_proposition_1(tre(rows, trees, distance="cosine"))
    assert not cosine.applies  # not a metric: the proposition does not cover sections 4 and 5


def test_intervals_cover_the_score_and_resample_by_derivation() -> None:
    trees, rows = grid(noise=0.5)
    fit = tre(rows, trees, distance="sql2")
    for refit in (True, False):
        interval = bootstrap(fit, samples=200, refit=refit)
        assert interval.low < fit.score < interval.high
        assert interval.refitted is refit
    wide = bootstrap(
        tre(np.repeat(rows, 20, axis=0), [t for t in trees for _ in range(20)], distance="sql2"), 100, refit=False
    )
    plain = bootstrap(fit, samples=100, refit=False)
    assert wide.high - wide.low > 0.7 * (plain.high - plain.low)  # repeated derivations are not new evidence
    with pytest.raises(SpecError, match="level is a probability"):
        fit.bootstrap(level=95)


def test_comparison_is_paired() -> None:
    trees, rows = grid(noise=0.3)
    worse = rows + 0.5 * np.random.default_rng(5).normal(size=rows.shape)
    first, second = tre(rows, trees, distance="l2"), tre(worse, trees, distance="l2")
    found = compare_fits(first, second)
    assert found.difference == pytest.approx(first.score - second.score)
    assert found.high < 0
    assert found.p_value < 0.01
    assert found.better > 0.7
    same = compare_fits(first, first)
    assert same.difference == 0
    assert same.p_value == 1.0
    with pytest.raises(MeasureError, match="different distances"):
        compare_fits(first, tre(rows, trees))
    with pytest.raises(MeasureError, match="same items"):
        compare_fits(first, tre(rows[:20], trees[:20], distance="l2"))
    with pytest.raises(MeasureError, match="row 0: the two fits have different derivations"):
        compare_fits(first, tre(rows[::-1], trees[::-1], distance="l2"))


def test_partial_correlation_removes_a_confound() -> None:
    rng = np.random.default_rng(6)
    frequency = rng.normal(size=300)
    x, y = frequency + 0.5 * rng.normal(size=300), frequency + 0.5 * rng.normal(size=300)
    found = partial_correlation(x, y, frequency)
    assert found.plain > 0.7
    assert abs(found.value) < 0.15
    assert found.p_value > 0.01
    plain = partial_correlation(x, y)
    expected = stats.spearmanr(x, y)
    assert plain.value == pytest.approx(expected.statistic)
    assert plain.p_value == pytest.approx(expected.pvalue, rel=1e-6, abs=1e-12)
    r = np.corrcoef([x, y, frequency])
    textbook = (r[0, 1] - r[0, 2] * r[1, 2]) / np.sqrt((1 - r[0, 2] ** 2) * (1 - r[1, 2] ** 2))
    assert partial_correlation(x, y, frequency, method="pearson").value == pytest.approx(textbook)
    constant = partial_correlation(np.ones(10), np.arange(10.0))
    assert np.isnan(constant.value)
    assert constant.reason is not None
    with pytest.raises(MeasureError, match="row 1: the values to correlate hold NaN"):
        partial_correlation([1.0, np.nan, 2.0, 3.0], [1.0, 2.0, 3.0, 4.0])


def test_the_example_in_the_docs_runs(capsys: pytest.CaptureFixture[str]) -> None:
    from pathlib import Path

    page = (Path(__file__).parents[2] / "docs" / "tre.md").read_text()
    code = page.split("```python\n")[1].split("```")[0]
    exec(code.replace("import pomona as pm", "import pomona.representations.tre as pm"), {})
    shown = capsys.readouterr().out
    first, score, rest = shown.split(maxsplit=2)
    assert first == "TRE"
    assert 0.02 < float(score) < 0.04
    assert rest.startswith("(add, cosine)")
    assert "yes, it beats chance" in shown
    assert "yes, it holds for combinations never seen" in shown
