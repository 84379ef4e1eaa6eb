"""The soft chart with one projection a span is the full cell for every cut: outputs and gradients, in 64 bits."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from oracles_models import chart_naive
from pomona.base.errors import RunError
from pomona.data.task import generate
from pomona.models.inputs.sentences import Batch, Sentences
from pomona.models.model import MODELS, Shape, seeded
from pomona.models.sentence import chart


@pytest.fixture(scope="module")
def batch():
    corpus = generate("listops/d20s", split="train", seed=2, train=100, dev=10, test=10)
    corpus = corpus[corpus.lengths <= 14]
    return Batch.of(Sentences.of(corpus, corpus.vocabulary, corpus.outcomes), np.arange(9))


@pytest.fixture
def module():
    with seeded(4):
        return MODELS.build("chart", {"width": 5, "temperature": 0.3}).build(Shape(15, 10)).double()


@pytest.mark.parametrize("bias", [0.3, 200.0], ids=["gates from factors", "too large for factors"])
def test_outputs_and_gradients_are_those_of_the_naive_twin(batch, module, bias):
    with torch.no_grad():
        module.cell.bias[0] = bias
    fast = torch.nn.functional.cross_entropy(module.train()(batch).logits, batch.targets)
    roots = []
    for row, length in enumerate(batch.lengths.tolist()):
        h, c = module.leaf[batch.tokens[row : row + 1, :length]].chunk(2, 2)
        roots.append(chart_naive(module.cell, h, c, module.query, 0.3))
    slow = torch.nn.functional.cross_entropy(module.classifier(torch.cat(roots)), batch.targets)
    assert abs(fast - slow) < 1e-12
    weights = list(module.parameters())
    for one, two in zip(torch.autograd.grad(fast, weights), torch.autograd.grad(slow, weights), strict=True):
        assert (one - two).abs().max() <= 1e-12 * max(1, two.abs().max())


def test_a_batch_is_done_in_parts_and_a_sentence_beyond_memory_is_an_error(batch, module, monkeypatch):
    with torch.no_grad():
        whole = module.eval()(batch)
        monkeypatch.setattr(chart, "CACHE", 24 * 5 * 8 * 14 * 15)
        parts = module(batch)
    assert torch.allclose(parts.logits, whole.logits, rtol=0, atol=1e-12)
    assert parts.trees == whole.trees
    monkeypatch.setattr(chart, "ROOM", 10)
    with pytest.raises(RunError, match=r"a chart over \d+ tokens needs"):
        module(batch)


@pytest.mark.parametrize("bias", [0.3, 30.0])
def test_in_32_bits_it_is_the_same_but_for_rounding(batch, module, bias):
    with torch.no_grad():
        module.cell.bias[0] = bias
        exact = module.eval()(batch).logits
        assert torch.allclose(module.float()(batch).logits.double(), exact, rtol=1e-4, atol=1e-5)
