"""A Transformer without padding answers as the padded one, with the same gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pomona.data.task import generate
from pomona.models.inputs.sequences import words_of
from pomona.models.layers import products
from pomona.models.layers.products import room_for
from pomona.models.model import MODELS, Shape, seeded

FEW = {"train": 40, "dev": 5, "test": 6, "iid": 0}


@pytest.fixture(scope="module")
def corpus():
    return generate("orchard/hard/min-max", "train", 5, **FEW)


def built(corpus, **settings):
    model = MODELS.build("seq2seq_transformer", {"width": 32, "layers": 2, "inner": 40, **settings})
    vocabulary, outcomes = words_of(corpus)
    with seeded(0):
        module = model.build(Shape(len(vocabulary), len(outcomes)))
    with torch.no_grad(), seeded(1):
        for weight in module.parameters():
            weight += 0.3 * torch.randn_like(weight)  # biases are zero at first
    return module, model.read(corpus, vocabulary, outcomes)


def with_gradients(module, batch, kind, *, flat):
    module = module.to(kind).train()
    roots = module.roots(batch) if flat else module.encode(batch, None, batch.heads)
    weigh = torch.randn(roots.shape, generator=torch.Generator().manual_seed(2), dtype=kind)
    named = [(name, weight) for name, weight in module.named_parameters() if not name.startswith("heads")]
    found = torch.autograd.grad((roots * weigh).sum(), [weight for _, weight in named])
    return {"roots": roots.detach()} | {name: part for (name, _), part in zip(named, found, strict=True)}


@pytest.mark.parametrize(
    "wide",
    [False, pytest.param(True, marks=pytest.mark.skipif(not products.one_dnn(), reason="torch has no oneDNN here"))],
)
@pytest.mark.parametrize(("kind", "limit"), [(torch.float64, 1e-11), (torch.float32, 2e-4)])
@pytest.mark.parametrize("rows", [np.arange(40), np.array([3]), np.array([7, 7, 2, 2, 2, 30])])
def test_without_padding_roots_and_gradients_are_those_of_the_padded_layers(
    corpus, rows, kind, limit, wide, monkeypatch
):
    monkeypatch.setattr(products, "wide_amd", lambda: wide)
    monkeypatch.setattr(products, "SMALL", 1 << 10)  # so that small products are oneDNN's, too
    module, feed = built(corpus)
    results = [with_gradients(module, feed.batch(rows), kind, flat=flat) for flat in (True, False)]
    for name, slow in results[1].items():
        size = 1.0 if ".key.bias" in name else slow.abs().max()  # it has no gradient: the choice does not depend on it
        assert (results[0][name] - slow).abs().max() <= limit * size, name


def test_trees_that_are_read_from_one_token_share_its_gradient(corpus):
    module, feed = built(corpus)
    batch = feed.batch(np.arange(9))
    batch.heads[:] = 0  # as for targets that are not one for each tree
    results = [with_gradients(module, batch, torch.float64, flat=flat) for flat in (True, False)]
    for name, slow in results[1].items():
        assert torch.allclose(results[0][name], slow, rtol=1e-9, atol=1e-9), name


def test_which_way_is_taken(corpus, monkeypatch):
    """Without padding, unless something is left out at random, all lists are asked, or norms come last."""
    taken = []
    for settings in ({}, {"dropout": 0.5}, {"norm": "post"}, {"node_weight": 1.0}):
        module, feed = built(corpus, **settings)
        monkeypatch.setattr(module, "roots", lambda batch: taken.append("flat") or torch.zeros(4, 2, 32))
        module.train()(feed.batch(np.arange(4)), torch.Generator().manual_seed(0))
        module.eval()(feed.batch(np.arange(4)))
        taken.append(settings)
    expected = ["flat", "flat", {}, "flat", {"dropout": 0.5}, {"norm": "post"}, "flat", {"node_weight": 1.0}]
    assert taken == expected


def test_a_second_backward_is_an_error(corpus):
    module, feed = built(corpus)
    loss = module.train()(feed.batch(np.arange(4))).logits.sum()
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="backward was called twice for a layer"):
        loss.backward()


def test_room_has_few_sizes():
    rows = np.arange(1, 20_000)
    room = np.array([room_for(int(count)) for count in rows])
    assert (room >= rows).all()
    assert (room <= np.maximum(rows + 15, rows * 17 // 16)).all()
    assert len(np.unique(room)) < 150
