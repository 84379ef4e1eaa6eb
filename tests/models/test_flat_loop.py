"""Computing only what the answers need gives the same answers: flat loops, and layers asked at a few places."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pomona.data.task import generate
from pomona.models.inputs.sequences import words_of
from pomona.models.layers.attention import geometric
from pomona.models.layers.flat_geometric import TOGETHER, attend_geometric
from pomona.models.layers.flat_loop import Flat, normed_sum
from pomona.models.layers.flat_softmax import attend_softmax
from pomona.models.model import MODELS, Shape, seeded

SHARES = st.sampled_from([0.0, 0.5, 1.0])  # of the tokens that ask
FEW = {"train": 40, "dev": 5, "test": 6, "iid": 0}
LOOPED = [
    ("looped_transformer", {}),
    ("looped_transformer", {"positions": "none", "per_level": 0.4, "extra": 1}),
    ("data_router", {}),
]


@pytest.fixture(scope="module")
def corpus():
    return generate("orchard/hard/min-max", "train", 5, **FEW)


def built(name, corpus, **settings):
    model = MODELS.build(name, {"width": 16, "heads": 2, "inner": 24, **settings})
    vocabulary, outcomes = words_of(corpus)
    with seeded(0):
        module = model.build(Shape(len(vocabulary), len(outcomes)))
    with torch.no_grad(), seeded(1):
        for weight in module.parameters():
            weight += 0.3 * torch.randn_like(weight)  # biases and sides are zero at first
    return module, model.read(corpus, vocabulary, outcomes)


@pytest.mark.parametrize("kind", [torch.float64, torch.float32])
@pytest.mark.parametrize(("name", "chosen"), LOOPED)
def test_a_flat_loop_answers_as_the_padded_one(corpus, name, chosen, kind):
    module, feed = built(name, corpus, **chosen)
    module = module.to(kind).eval()
    batch = feed.batch(np.arange(24))
    assert len(np.unique(module.settings.steps(batch.nesting))) > 1  # rows leave at different steps
    whole = module(batch).logits.detach()  # with gradients the padded way is taken
    with torch.no_grad():
        flat = module(batch).logits
    assert (flat - whole).abs().max() < (1e-7 if kind == torch.float64 else 1e-4)


@pytest.mark.parametrize("distances", [1, 33])
def test_softmax_over_flat_rows_bears_any_score_and_any_bias(distances):
    torch.manual_seed(0)
    start = np.array([0, 1, 60, 73])
    query, key, value = (torch.randn(73, 8) for _ in range(3))
    query, bias = query * 200, torch.randn(2, distances) * 150
    out = attend_softmax(query, key, value, Flat(np.arange(73), start, None, start), bias)
    far = distances // 2
    for first, last in pairwise(start):
        steps = torch.arange(last - first)
        distance = (steps[None] - steps[:, None]).clamp(-far, far) + far
        parts = [x[first:last].double().view(-1, 2, 4).transpose(0, 1) for x in (query, key, value)]
        mixed = torch.nn.functional.scaled_dot_product_attention(*parts, bias.double()[:, distance])
        assert (out[first:last] - mixed.transpose(0, 1).flatten(1)).abs().max() < 1e-3


def rows_that_ask(lengths, share, random):
    """Rows of these lengths end to end, of which some tokens ask, the last of each row in any case."""
    start = np.concatenate([[0], np.cumsum(lengths)])
    asks = random.random(start[-1]) < share
    asks[start[1:] - 1] = True
    asking = np.flatnonzero(asks)
    return Flat(np.arange(start[-1]), start, torch.from_numpy(asking), np.searchsorted(asking, start))


def in_heads(x, heads):
    return x.double().view(len(x), heads, -1).transpose(0, 1)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=4), st.sampled_from([3, 4, 7, 16]), st.integers(0, 9), SHARES)
@settings(deadline=None, max_examples=40)
def test_attention_over_flat_rows_is_that_of_each_row_for_any_size_of_a_head(lengths, size, seed, share):
    random = np.random.default_rng(seed)
    flat, heads = rows_that_ask(lengths, share, random), 2
    query, key, value = (torch.from_numpy(random.normal(size=(sum(lengths), heads * size))) for _ in range(3))
    bias, side = (torch.from_numpy(random.normal(size=(heads, many))) for many in (5, 2))
    query_ = query[flat.asking]
    for kind, near in ((torch.float64, 1e-8), (torch.float32, 1e-5)):
        parts = [x.to(kind) for x in (query_, key, value)]
        soft, walked = attend_softmax(*parts, flat, bias.to(kind)), attend_geometric(*parts, flat, side.to(kind))
        for first, last in pairwise(flat.start):
            q, k, v = (in_heads(x[first:last], heads) for x in (query, key, value))
            steps = torch.arange(last - first)
            apart = steps[None] - steps[:, None]
            score = q @ k.transpose(1, 2) / math.sqrt(size)
            row = slice(*np.searchsorted(flat.asking.numpy(), [first, last]))
            asking = flat.asking[row] - first
            expected = [
                (score + bias[:, apart.clamp(-2, 2) + 2]).softmax(2) @ v,
                geometric(score + side[:, (apart > 0).long()], plain=True) @ v,
            ]
            for out, wanted in zip((soft, walked), expected, strict=True):
                assert (out[row] - wanted.transpose(0, 1).flatten(1)[asking]).abs().max() < near


def test_more_queries_than_walk_together_walk_as_far():
    torch.manual_seed(0)
    length = TOGETHER + 70
    start = np.array([0, length])
    query, key, value = (torch.randn(length, 4) for _ in range(3))
    side = torch.full((1, 2), -6.0)  # so that walks reach both ends
    out = attend_geometric(query, key, value, Flat(np.arange(length), start, None, start), side)
    score = (query @ key.t() / 2 - 6).double()
    assert (out - geometric(score, plain=True) @ value.double()).abs().max() < 1e-5


@pytest.mark.parametrize("kind", [torch.float64, torch.float32])
@pytest.mark.parametrize("chosen", [True, False])
def test_a_sum_and_its_norm_in_one_walk(kind, chosen):
    torch.manual_seed(0)
    x, y, norm = torch.randn(9, 20).to(kind), torch.randn(9, 20).to(kind), torch.nn.LayerNorm(20).to(kind)
    with torch.no_grad():
        norm.weight += torch.randn(20)
        norm.bias += torch.randn(20)
        rows = np.array([3, 3, 0, 8, 1, 2, 2, 7, 5])
        total, out = normed_sum(x, y, norm, rows if chosen else None)
        expected = x + (y[torch.from_numpy(rows)] if chosen else y)
        assert torch.equal(total, expected)
        assert torch.allclose(out, norm(expected), atol=1e-12 if kind == torch.float64 else 1e-5)


def test_a_walk_that_finds_no_match_goes_to_both_ends():
    start, value = np.array([0, 50]), torch.zeros(50, 4)
    value[0], value[49] = 1.0, 2.0
    side = torch.full((1, 2), -4.0)  # each position matches with 1.8 %
    zero = torch.zeros(50, 4)
    out = attend_geometric(
        zero[:1], zero, value, Flat(np.arange(50), start, torch.tensor([20]), np.array([0, 1])), side
    )
    chance = 1 / (1 + np.exp(4.0))
    expected = chance * (1 - chance) ** 38 + 2 * chance * (1 - chance) ** 48
    assert out[0].tolist() == pytest.approx([expected] * 4, rel=1e-4)


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("layers", [1, 3])
def test_a_transformer_asked_at_the_roots_answers_as_one_that_computes_all(corpus, norm, layers):
    module, feed = built("seq2seq_transformer", corpus, norm=norm, layers=layers)
    module = module.double()
    batch = feed.batch(np.arange(20))
    results = []
    for logits in (module(batch).logits, module.heads(module.encode(batch), batch).logits):
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch.targets.flatten())
        gradients = torch.autograd.grad(loss, list(module.parameters()), allow_unused=True)
        results.append([logits.detach(), *(gradient for gradient in gradients if gradient is not None)])
    assert len(results[0]) == len(results[1])
    for one, two in zip(*results, strict=True):
        assert torch.allclose(one, two, rtol=1e-9, atol=1e-12)
