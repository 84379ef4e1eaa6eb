"""Merging with cached candidates is the naive computation: the same outputs, and the same gradients, in 64 bits."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

from oracles_models import st_gumbel_naive
from pomona.models.layers.gumbel_merge import LeafTokens, Merged, choices
from pomona.models.layers.tree_lstm import TreeLSTM
from pomona.trees.binary import from_transitions

LENGTHS = np.array([3, 1, 12, 2, 7, 25, 12])
START = np.concatenate([[0], np.cumsum(LENGTHS)])


def setting(words, width=6, seed=0):
    torch.manual_seed(seed)
    cell = TreeLSTM(width).double()
    rows = (
        np.arange(START[-1])
        if words is None
        else np.random.Generator(np.random.Philox(seed)).integers(0, words, START[-1])
    )
    leaf = torch.randn(rows.max() + 1, 2 * width, dtype=torch.double, requires_grad=True)
    q = torch.randn(width, dtype=torch.double, requires_grad=True)
    tau = torch.tensor(0.7, dtype=torch.double, requires_grad=True)
    noise = -torch.empty(choices(LENGTHS), dtype=torch.double).exponential_().log()
    return cell, rows, leaf, q, tau, noise


def both(cell):
    return torch.cat([cell.left, cell.right])


def naive(cell, rows, leaf, q, tau, noise):
    roots, merged, at = [], [], 0
    for first, last in pairwise(START):
        count = choices(np.array([last - first]))
        states = leaf[rows[first:last]]
        mine = None if noise is None else noise[at : at + count]
        root, order = st_gumbel_naive(cell, *states.chunk(2, 1), q, tau, mine)
        roots.append(root)
        merged.append(order)
        at += count
    return torch.stack(roots), merged


@pytest.mark.parametrize("words", [5, 15, None])
def test_outputs_and_gradients_are_those_of_the_naive_twin(words):
    cell, rows, leaf, q, tau, noise = setting(words)
    weights = [leaf, *cell.parameters(), q, tau]
    outward = torch.randn(len(LENGTHS), 6, dtype=torch.double)
    fast, _, _ = Merged.apply(leaf, both(cell), cell.bias, q, tau, LeafTokens(rows, START, noise))
    slow, _ = naive(cell, rows, leaf, q, tau, noise)
    assert (fast - slow).abs().max() < 1e-12
    mine = torch.autograd.grad((fast * outward).sum(), weights)
    theirs = torch.autograd.grad((slow * outward).sum(), weights)
    for one, two in zip(mine, theirs, strict=True):
        assert two.abs().max() > 0
        assert (one - two).abs().max() <= 1e-12 * max(1, two.abs().max())


def test_without_noise_the_best_pair_is_merged_and_the_trees_say_so():
    cell, rows, leaf, q, tau, _ = setting(15, seed=3)
    with torch.no_grad():
        fast, nodes, steps = Merged.apply(leaf, both(cell), cell.bias, q, tau, LeafTokens(rows, START, None))
        slow, merged = naive(cell, rows, leaf, q, tau, None)
    assert (fast - slow).abs().max() < 1e-12
    forest = from_transitions(steps, 2 * START - np.arange(len(START)), rows, tuple("abcdefghijklmno"))
    low, high = forest.span
    for row, order in enumerate(merged):
        spans = [(j, j + 1) for j in range(LENGTHS[row])]
        expected = set()
        for k in order:
            spans[k : k + 2] = [(spans[k][0], spans[k + 1][1])]
            expected.add(spans[k])
        inside = (forest.tree == row) & ~forest.leaf
        assert set(zip(low[inside].tolist(), high[inside].tolist(), strict=True)) == expected
    assert torch.equal(nodes[forest.root], fast)
    assert torch.equal(nodes[forest.leaf], leaf[rows][:, :6])


def test_the_temperature_falls_and_swings_with_the_steps_of_training():
    import math

    from pomona.base.errors import SpecError
    from pomona.models.model import MODELS, Shape

    settings = {"width": 8, "temperature": 2.0, "temperature_decay": 0.5, "temperature_cycle": 300}
    module = MODELS.build("st_gumbel", settings).build(Shape(15, 10)).train()
    module.step.fill_(4_000)
    expected = 2.0 * 0.5**0.4 * (math.cos(4_000 / 300) + 1) / 2
    assert float(module.next_temperature()) == pytest.approx(expected, rel=1e-4)
    assert int(module.step) == 4_001
    assert float(module.eval().next_temperature()) == pytest.approx(2.0)
    assert int(module.step) == 4_001
    assert "step" in module.state_dict()  # so that a killed run resumes at the same temperature
    assert "step" not in MODELS.build("st_gumbel", {"width": 8}).build(Shape(15, 10)).state_dict()
    with pytest.raises(SpecError, match="temperature_decay"):
        MODELS.build("st_gumbel", {"temperature_decay": 0.0})
