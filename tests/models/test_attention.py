"""Geometric attention is what its definition says, and positions do what they are named for."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from pomona.models.layers.attention import FAR, RelativeBias, geometric, sinusoids


def naive(score):
    """The definition, a product for each pair; of two equally close positions the left one is the closer."""
    length = len(score)
    chance = torch.sigmoid(score)
    rows = []
    for i in range(length):
        row = []
        for j in range(length):
            weight = chance[i, j] * (i != j)
            for k in range(length):
                closer = abs(k - i) < abs(j - i) or (abs(k - i) == abs(j - i) and k < j)
                if k not in (i, j) and closer:
                    weight = weight * (1 - chance[i, k])
            row.append(weight)
        rows.append(torch.stack(row))
    return torch.stack(rows)


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("length", [1, 2, 5, 9])
def test_geometric_attention_is_its_definition(length, plain):
    score = torch.randn(length, length, dtype=torch.float64, requires_grad=True)
    weigh = torch.randn(length, length, dtype=torch.float64)
    fast, slow = geometric(score, plain=plain), naive(score)
    assert torch.allclose(fast, slow, rtol=0, atol=1e-12)
    one = torch.autograd.grad((fast * weigh).sum(), score)[0]
    two = torch.autograd.grad((slow * weigh).sum(), score)[0]
    assert torch.allclose(one, two, rtol=0, atol=1e-12)


def test_geometric_attention_in_32_bits_is_near_its_twin_in_64_and_bears_any_score():
    torch.manual_seed(2)
    score = 30 * torch.randn(2, 2, 70, 70)
    score[0, 0, :, 40:] = -math.inf
    score[1, 1, 3] = 200.0
    weigh = torch.randn(score.shape)
    results = []
    for plain, kind in ((False, torch.float32), (True, torch.float64)):
        given = score.to(kind).requires_grad_()
        weights = geometric(given, plain=plain)
        results.append([weights.detach(), torch.autograd.grad((weights * weigh.to(kind)).sum(), given)[0]])
    for fast, slow in zip(*results, strict=True):
        assert torch.isfinite(fast).all()
        assert torch.isfinite(slow).all()
        assert (fast - slow).abs().max() < 1e-6
    turned = score.transpose(2, 3)
    assert torch.equal(geometric(turned), geometric(turned.contiguous()))


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize("plain", [False, True])
def test_padding_does_not_count_in_geometric_attention(kind, plain):
    score = torch.randn(2, 3, 6, 6, dtype=kind)
    padded = torch.nn.functional.pad(score, (0, 2, 0, 2), value=-math.inf)
    whole, part = geometric(padded, plain=plain), geometric(score, plain=plain)
    assert torch.allclose(whole[..., :6, :6], part, rtol=0, atol=1e-6 if kind == torch.float32 else 1e-14)
    assert whole[..., 6:].abs().max() == 0


def test_weights_of_a_row_sum_to_at_most_one():
    score = torch.randn(40, 40, dtype=torch.float64) * 3
    sums = geometric(score).sum(-1)
    assert (sums <= 1 + 1e-12).all()
    everything = geometric(torch.full((8, 8), 40.0, dtype=torch.float64))
    nearest = everything.argmax(1).tolist()
    assert nearest == [1, 0, 1, 2, 3, 4, 5, 6]  # the left neighbour, where there is one


def test_a_relative_bias_knows_the_distance_alone():
    bias = RelativeBias(2)
    with torch.no_grad():
        bias.table.copy_(torch.randn_like(bias.table))
    table = bias(2 * FAR)[0]
    for i, j in [(0, 3), (10, 13), (20, 23)]:
        assert torch.equal(table[:, i, j], bias.table[:, FAR + 3])
        assert torch.equal(table[:, j, i], bias.table[:, FAR - 3])
    assert torch.equal(table[:, 0, FAR], table[:, 0, 2 * FAR - 1])


def test_sinusoids_are_those_of_fairseq():
    table = sinusoids(5, 8, torch.zeros((), dtype=torch.float64)).numpy()
    rates = np.exp(-np.arange(4) * np.log(10_000) / 3)
    assert np.allclose(table[2], [*np.sin(3 * rates), *np.cos(3 * rates)])
