"""The compiled LSTM against torch's own and against its plain twin, gradients included."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from pomona.models.layers import precision
from pomona.models.layers.lstm import LSTM, Reading, states_of

LENGTHS = np.array([4, 9, 1, 9, 6, 2])
START = np.concatenate([[0], np.cumsum(LENGTHS)])
TOKENS = np.random.Generator(np.random.Philox(1)).integers(0, 7, START[-1])


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("kind", "limit"), [(torch.float64, 1e-12), (torch.float32, 3e-5)])
def test_the_compiled_lstm_is_the_plain_one(kind, limit, reverse):
    torch.manual_seed(0)
    lstm = LSTM(7, 5, 10, reverse=reverse).to(kind)
    outward = torch.randn(START[-1], 10, dtype=kind)
    results = []
    for plain in (False, True):
        states = lstm(TOKENS, START, plain=plain)
        results.append([states.detach(), *torch.autograd.grad((states * outward).sum(), list(lstm.parameters()))])
    for fast, slow in zip(*results, strict=True):
        assert (fast - slow).abs().max() <= limit * slow.abs().max()


@pytest.mark.parametrize("units", [False, True])
def test_rounded_products_are_the_plain_ones_and_near_the_exact_ones(units, monkeypatch):
    """Of 8 bits, in the derivative too, with and without the processor's units for them."""
    torch.manual_seed(0)
    exact = LSTM(7, 5, 10).double()
    rounded = LSTM(7, 5, 10, precision="bfloat16").double()
    rounded.load_state_dict(exact.state_dict())
    outward = torch.randn(START[-1], 10, dtype=torch.float64)

    def states_and_gradients(lstm, plain=False):
        states = lstm(TOKENS, START, plain=plain)
        return [states.detach(), *torch.autograd.grad((states * outward).sum(), list(lstm.parameters()))]

    here = states_and_gradients(rounded)
    monkeypatch.setattr(precision, "has_units", lambda: units)
    results = (states_and_gradients(rounded), states_and_gradients(rounded, plain=True), here)
    for fast, slow, either, other in zip(*results, states_and_gradients(exact), strict=True):
        size = other.abs().max()
        assert (fast - slow).abs().max() <= 1e-2 * size
        assert (fast - either).abs().max() <= 1e-2 * size
        assert 1e-5 * size < (fast - other).abs().max() < 3e-2 * size


@pytest.mark.parametrize("reverse", [False, True])
def test_the_last_cells_and_their_gradients_are_the_plain_ones(reverse):
    torch.manual_seed(0)
    table, weight = (torch.randn(7, 40, dtype=torch.float64), torch.randn(40, 10, dtype=torch.float64) / 4)
    outward, onward = torch.randn(START[-1], 10, dtype=torch.float64), torch.randn(6, 10, dtype=torch.float64)
    for parts in ((1.0, 1.0), (0.0, 1.0)):
        results = []
        for plain in (False, True):
            given = table.clone().requires_grad_(), weight.clone().requires_grad_()
            h, c = states_of(*given, Reading(TOKENS, START, reverse), plain=plain)
            loss = parts[0] * (h * outward).sum() + parts[1] * (c * onward).sum()
            results.append([h.detach(), c.detach(), *torch.autograd.grad(loss, given)])
        for fast, slow in zip(*results, strict=True):
            assert (fast - slow).abs().max() <= 1e-12 * slow.abs().max()


@pytest.mark.parametrize("plain", [False, True])
def test_wanted_states_are_those_of_all_with_the_same_gradients(plain):
    torch.manual_seed(0)
    lstm = LSTM(7, 5, 10).double()
    wanted = np.array([30, 0, 17, 4, 12])
    outward = torch.randn(len(wanted), 10, dtype=torch.float64)
    some, every = lstm(TOKENS, START, wanted=wanted, plain=plain), lstm(TOKENS, START)[wanted]
    torch.testing.assert_close(some, every, rtol=1e-12, atol=1e-14)
    results = [torch.autograd.grad((states * outward).sum(), list(lstm.parameters())) for states in (some, every)]
    for one, other in zip(*results, strict=True):
        assert (one - other).abs().max() <= 1e-12 * other.abs().max()


def test_dropout_takes_numbers_from_the_state_that_the_next_step_is_given():
    """Of one sentence, step by step; without a generator nothing is dropped."""
    torch.manual_seed(0)
    lstm = LSTM(7, 5, 10).double()
    words, start = TOKENS[:6], np.array([0, 6])
    assert torch.equal(lstm(words, start, dropout=0.5), lstm(words, start))
    states = lstm(words, start, dropout=0.5, random=torch.Generator().manual_seed(3))
    random, h, c = torch.Generator().manual_seed(3), torch.zeros(1, 10).double(), torch.zeros(1, 10).double()
    for place, word in enumerate(words):
        kept = torch.rand(h.shape, generator=random, device=h.device) >= 0.5
        gates = lstm.word[word] @ lstm.input.t() + lstm.bias + (2 * h * kept) @ lstm.state.t()
        i, f, o, u = gates.chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * u.tanh()
        h = o.sigmoid() * c.tanh()
        assert torch.allclose(states[place], h[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("reverse", [False, True])
def test_it_is_torchs_lstm_sentence_by_sentence(reverse):
    torch.manual_seed(0)
    lstm = LSTM(7, 5, 10, reverse=reverse).double()
    other = nn.LSTM(5, 10).double()
    turn = torch.cat([torch.arange(20), torch.arange(30, 40), torch.arange(20, 30)])  # torch: i, f, u, o
    with torch.no_grad():
        other.weight_ih_l0.copy_(lstm.input[turn])
        other.weight_hh_l0.copy_(lstm.state[turn])
        other.bias_ih_l0.copy_(lstm.bias[turn])
        other.bias_hh_l0.zero_()
        states = lstm(TOKENS, START)
        for row in range(len(LENGTHS)):
            words = lstm.word[TOKENS[START[row] : START[row + 1]]]
            expected = other(words.flip(0) if reverse else words)[0]
            mine = states[START[row] : START[row + 1]]
            assert torch.allclose(mine.flip(0) if reverse else mine, expected, rtol=0, atol=1e-12)
