"""Dropout: a share of the numbers becomes 0, and the others grow so that the expectation stays."""

from __future__ import annotations

import pytest
import torch

from pomona.models.layers.dropout import bernoulli_dropped, dropped


def random(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("drop", [dropped, bernoulli_dropped])
@pytest.mark.parametrize("share", [0.1, 0.5])
def test_what_is_kept_is_scaled_so_that_the_mean_stays(drop, share):
    x = torch.full((400, 500), 3.0, dtype=torch.double)
    out = drop(x, share, random())
    assert sorted(set(out.flatten().tolist())) == pytest.approx([0.0, 3.0 / (1 - share)])
    assert float((out == 0).double().mean()) == pytest.approx(share, abs=0.005)
    assert float(out.mean()) == pytest.approx(3.0, abs=0.02)


@pytest.mark.parametrize("drop", [dropped, bernoulli_dropped])
def test_nothing_is_dropped_without_a_generator_or_a_share(drop):
    x = torch.randn(5, 7, generator=random())
    assert drop(x, 0.5, None) is x
    assert drop(x, 0.0, random()) is x
    assert torch.equal(drop(x, 0.5, random(1)), drop(x, 0.5, random(1)))
    assert not torch.equal(drop(x, 0.5, random(1)), drop(x, 0.5, random(2)))
