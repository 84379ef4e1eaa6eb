"""What every model must do, whatever it is: a new file in `pomona.models` is tested here without a change."""

from __future__ import annotations

import dataclasses
from functools import cache

import numpy as np
import pytest
import torch
from safetensors.torch import load, save

from pomona.data.task import generate
from pomona.models.model import MODELS, Shape, seeded

NAMES = [entry.name for entry in MODELS.entries()]
FEW = {"train": 1_500, "dev": 10, "test": 10}
READERS = [name for name in NAMES if MODELS.build(name).example == "listops/d20s"]  # of one sentence each


class Example:
    """A small corpus of the task that a model names, as the model reads it."""

    def __init__(self, name):
        model = MODELS.build(name)
        corpus = generate(model.example, split="train", seed=11, **FEW)
        if model.example == "listops/d20s":
            corpus = corpus[corpus.lengths <= 24]
        self.vocabulary, self.outcomes = model.words(corpus)
        self.feed = model.read(corpus, self.vocabulary, self.outcomes)

    def batch(self, rows):
        return self.feed.batch(np.asarray(rows))


@cache
def example(name):
    return Example(name)


def has(name, setting):
    return setting in [item.name for item in dataclasses.fields(MODELS.build(name))]


def made(name, **settings):
    known, small = example(name), {"width": 16} if has(name, "width") else {}
    with seeded(5):
        shape = Shape(len(known.vocabulary), len(known.outcomes))
        return MODELS.build(name, {**small, **settings}).build(shape)


def loss_of(output, batch):
    loss = output.loss
    if loss is None:
        loss = torch.nn.functional.cross_entropy(output.logits.flatten(0, -2), batch.targets.flatten())
    return loss if output.penalty is None else loss + output.penalty


def random(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("name", NAMES)
def test_padding_and_order_change_nothing(name):
    module = made(name).double().eval()
    rows = np.array([0, 17, 4, 30, 2, 55])
    with torch.no_grad():
        together = module(example(name).batch(rows))
        turned = module(example(name).batch(rows[::-1].copy()))
        alone = [module(example(name).batch(rows[place : place + 1])) for place in range(len(rows))]
    assert torch.allclose(together.logits, turned.logits.flip(0), rtol=0, atol=1e-12)
    assert torch.allclose(together.logits, torch.cat([one.logits for one in alone]), rtol=0, atol=1e-12)
    if together.nodes is not None:
        assert torch.allclose(together.nodes, torch.cat([one.nodes for one in alone]), rtol=0, atol=1e-12)
    if together.trees is not None:
        for place, one in enumerate(alone):
            assert together.trees[place] == one.trees


FLAGS = ("half_width", "left_padding", "batch_layernorm")  # of the ListOps paper's code


@pytest.mark.parametrize(
    ("name", "settings"),
    [*((name, {}) for name in NAMES), *((name, {flag: True}) for name in NAMES for flag in FLAGS if has(name, flag))],
)
def test_gradients_reach_every_parameter(name, settings):
    module = made(name, **settings).train()
    batch = example(name).batch(np.arange(48))
    output = module(batch, random())
    loss_of(output, batch).backward()
    for label, weight in module.named_parameters():
        assert weight.grad is not None, label
        assert torch.isfinite(weight.grad).all(), label
        assert weight.grad.abs().max() > 0, label


@pytest.mark.parametrize("name", NAMES)
def test_eight_examples_can_be_memorised(name):
    """At an ordinary rate: what suits a recurrent network can be too much for one with many layers of attention."""
    lengths = example(name).feed.lengths
    rows = np.flatnonzero((lengths > 3) & (lengths <= np.quantile(lengths, 0.6)))[:8]
    batch = example(name).batch(rows)
    assert any(memorised(name, batch, rate) for rate in (2e-2, 3e-3))


def memorised(name, batch, rate):
    module = made(name)
    adam = torch.optim.Adam(module.parameters(), rate)
    generator = random()
    for _ in range(10):
        for _ in range(15):
            output = module.train()(batch, generator)
            adam.zero_grad()
            loss_of(output, batch).backward()
            adam.step()
        with torch.no_grad():
            if (module.eval()(batch).logits.argmax(-1) == batch.targets).all():
                return True
    return False


@pytest.mark.parametrize("name", READERS)
def test_trees_are_binary_trees_over_the_tokens(name):
    module = made(name).eval()
    batch = example(name).batch(np.arange(60))
    with torch.no_grad():
        output = module(batch)
    if output.trees is None:
        assert len(output.nodes) == len(batch.flat)
        return
    forest = output.trees.checked()
    assert set(forest.arity.tolist()) <= {0, 2}
    assert forest.symbol[forest.leaf].tolist() == batch.flat.tolist()
    assert forest.span[1][forest.root].tolist() == batch.lengths.tolist()
    assert len(output.nodes) == len(forest.symbol)


@pytest.mark.parametrize("name", READERS)
def test_a_sentence_of_one_token_has_an_answer(name):
    single = dataclasses.replace(
        example(name).feed,
        tokens=np.array([3]),
        start=np.array([0, 1]),
        steps=np.zeros(1, np.uint8),
        targets=np.array([3]),
    )
    module = made(name)
    assert torch.isfinite(module.eval()(single.batch(np.array([0]))).logits).all()
    assert torch.isfinite(module.train()(single.batch(np.array([0, 0])), random()).logits).all()


@pytest.mark.parametrize("name", NAMES)
def test_weights_survive_a_file_to_the_bit(name):
    module, batch = made(name).eval(), example(name).batch(np.arange(20))
    other = made(name)
    with torch.no_grad():
        for weight in other.parameters():
            weight.add_(1)
        other.load_state_dict(load(save(module.state_dict())))
        assert torch.equal(other.eval()(batch).logits, module(batch).logits)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_random_comes_from_the_generator(name):
    module, batch = made(name).train(), example(name).batch(np.arange(20))
    before = torch.random.get_rng_state()
    one, two = module(batch, random(1)).logits, module(batch, random(1)).logits
    assert torch.equal(one, two)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(made(name).parameters(), module.parameters(), strict=True))
