"""Products by either library are exact up to the rounding of 32 bits; which one it is follows from the shapes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pomona.models.layers import products
from pomona.models.layers.lstm import Reading, states_of
from pomona.models.layers.products import FEW, SMALL, multiplied, over_rows, rounded_up

SHAPES = [(1, 3, 5), (FEW, 128, 512), (FEW + 1, 128, 512), (40, 512, 128), (300, 64, 192), (1000, 256, 64)]
has_both = pytest.mark.skipif(not products.one_dnn(), reason="torch has no oneDNN here")


@pytest.fixture(params=[False, pytest.param(True, marks=has_both)])
def processor(request, monkeypatch):
    """Either kind of processor, whatever this one is."""
    monkeypatch.setattr(products, "wide_amd", lambda: request.param)
    return request.param


@pytest.mark.parametrize(("rows", "inputs", "outputs"), SHAPES)
def test_products_are_exact_up_to_rounding(processor, rows, inputs, outputs):
    torch.manual_seed(0)
    x, weight, y = torch.randn(rows, inputs), torch.randn(outputs, inputs), torch.randn(rows, outputs)
    for found, exact, terms in (
        (multiplied(x, weight), x.double() @ weight.double().t(), inputs),
        (over_rows(y, x), y.double().t() @ x.double(), rows),
        (over_rows(x, y), x.double().t() @ y.double(), rows),
    ):
        assert found.shape == exact.shape
        assert (found - exact).abs().max() <= 1e-5 * np.sqrt(terms)  # with 8 bits of each factor, 300 times that


def test_small_products_and_those_of_64_bits_are_those_of_torch(processor):
    torch.manual_seed(0)
    for kind, rows in ((torch.float64, 500), (torch.float32, FEW)):
        x, weight = torch.randn(rows, 100, dtype=kind), torch.randn(30, 100, dtype=kind)
        assert torch.equal(multiplied(x, weight), x @ weight.t())
        assert torch.equal(over_rows(x[:, :30], x[:, 30:]), x[:, :30].t() @ x[:, 30:])
    assert SMALL > 500 * 100


def test_the_lstm_by_either_library_is_the_plain_one(processor):
    """Wide enough for oneDNN in both directions, and more rows than steps have shapes of their own."""
    torch.manual_seed(0)
    random = np.random.Generator(np.random.Philox(2))
    start = np.concatenate([[0], np.cumsum(random.integers(1, 30, 150))])
    tokens = random.integers(0, 9, start[-1])
    table, weight = torch.randn(9, 4 * 96), torch.randn(4 * 96, 96) / 10
    outward = torch.randn(len(tokens), 96)
    results = []
    for plain in (False, True):
        given = table.clone().requires_grad_(), weight.clone().requires_grad_()
        h, c = states_of(*given, Reading(tokens, start), plain=plain)
        results.append([h.detach(), c.detach(), *torch.autograd.grad((h * outward).sum() + c.sum(), given)])
    for fast, slow in zip(*results, strict=True):
        assert (fast - slow).abs().max() <= 3e-5 * slow.abs().max()


def test_multiples():
    assert [rounded_up(rows, 8) for rows in (0, 1, 8, 9)] == [0, 8, 8, 16]
