"""Lower bounds are never above what any search finds, and are as tight as claimed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles_tre import noisy_sums
from pomona.representations.tre import Derivations, tre
from pomona.representations.tre.additive import fit_linear
from pomona.representations.tre.cosine import unit_sums
from pomona.representations.tre.distances import Cosine
from pomona.representations.tre.spectral import spectral_bound


@given(st.integers(0, 10_000), st.integers(1, 4))
@settings(max_examples=30, deadline=None)
def test_the_spectral_bound_is_below_every_projection(seed: int, rank: int) -> None:
    """It bounds sum |P_L s_g| for every subspace, here random ones and the best for equal weights."""
    rng = np.random.default_rng(seed)
    sums = rng.normal(size=(12, 6)) * rng.uniform(0.1, 3.0, size=(12, 1))
    items = int(np.ceil(np.linalg.norm(sums, axis=1).sum()))
    bound = spectral_bound(sums, items, rank)
    best = np.linalg.eigh(sums.T @ sums)[1][:, -rank:]
    for basis in [best, *(np.linalg.qr(rng.normal(size=(6, rank)))[0] for _ in range(30))]:
        assert bound <= items - np.linalg.norm(sums @ basis, axis=1).sum() + 1e-9


@given(st.integers(0, 10_000))
@settings(max_examples=15, deadline=None)
@pytest.mark.filterwarnings("ignore::pomona.representations.tre.ReconstructionWarning")
def test_no_random_start_goes_below_the_spectral_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    trees = [tuple(rng.choice(list("abc"), size=rng.integers(2, 5)).tolist()) for _ in range(14)]
    rows = rng.normal(size=(14, 6))
    bound = tre(rows, trees).bound
    assert bound.source == "spectral"
    counts = Derivations.of(trees).counts
    for _ in range(10):
        start = rng.normal(size=(counts.columns, 6))
        assert fit_linear(counts, rows, Cosine(), start=start).per_item.mean() >= bound.lower_bound - 1e-12


def test_the_spectral_bound_halves_the_gap_of_equal_derivations() -> None:
    """The study's example: 550 x 64, 26 primitives."""
    trees, rows = noisy_sums(550, 26, 64, seed=0)
    fit = tre(rows, trees)
    proved = fit_linear(fit.derivations.counts, rows, Cosine()).lower_bound
    assert proved is not None
    assert fit.bound.gap < 0.5 * (fit.score - proved / 550)


def test_a_perfect_sum_is_optimal_under_cosine() -> None:
    rng = np.random.default_rng(1)
    words = {name: rng.normal(size=8) for name in "abcd"}
    trees = [(x, y) for x in "abcd" for y in "abcd"]
    fit = tre(np.array([words[x] + words[y] for x, y in trees]), trees)
    assert fit.bound.status == "optimal"
    assert fit.bound.lower_bound <= fit.score


def test_no_bound_by_rank_alone_is_better() -> None:
    """A subspace of this rank attains the spectral bound, so whatever closes more of the gap must use the counts."""
    trees, rows = noisy_sums(550, 26, 64, seed=0)
    counts = Derivations.of(trees).counts
    sums, rank = unit_sums(rows, counts.distinct[1]), counts.rank
    assert rank is not None
    weight = np.linalg.norm(sums, axis=1)
    for _ in range(60):
        basis = np.linalg.eigh((sums / weight[:, None]).T @ sums)[1][:, -rank:]
        weight = np.linalg.norm(sums @ basis, axis=1)
    attained = 550 - weight.sum()
    bound = spectral_bound(sums, 550, rank)
    assert bound <= attained + 1e-9
    assert attained - bound < 1e-3 * attained
