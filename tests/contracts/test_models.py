"""What every model must do, whatever it is: a new file in `pomona.models` is tested here without a line more."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from safetensors.torch import load, save

from pomona.batch import Batch, Sentences
from pomona.modelling import MODELS, Shape, seeded
from pomona.sampling import generate

NAMES = [entry.name for entry in MODELS.entries()]
FIDELITIES = [(), ("half_width",)]


@pytest.fixture(scope="module")
def sentences():
    corpus = generate("listops/d20s", split="train", seed=11, train=400, dev=10, test=10)
    corpus = corpus[corpus.lengths <= 24]
    return Sentences.of(corpus, corpus.vocabulary, corpus.outcomes)


def made(name, sentences, fidelity=(), **settings):
    model = MODELS.build(name, settings)
    small = {"width": 16} if any(item.name == "width" for item in dataclasses.fields(model)) else {}
    with seeded(5):
        return MODELS.build(name, {**small, **settings}).build(Shape(len(sentences.vocabulary), 10, fidelity))


def random(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("name", NAMES)
def test_padding_and_order_change_nothing(name, sentences):
    module = made(name, sentences).double().eval()
    rows = np.array([0, 17, 4, 30, 2, 55])
    with torch.no_grad():
        together = module(Batch.of(sentences, rows))
        turned = module(Batch.of(sentences, rows[::-1].copy()))
        alone = [module(Batch.of(sentences, rows[place : place + 1])) for place in range(len(rows))]
    assert torch.allclose(together.logits, turned.logits.flip(0), rtol=0, atol=1e-12)
    assert torch.allclose(together.logits, torch.cat([one.logits for one in alone]), rtol=0, atol=1e-12)
    assert torch.allclose(together.nodes, torch.cat([one.nodes for one in alone]), rtol=0, atol=1e-12)
    if together.trees is not None:
        for place, one in enumerate(alone):
            assert together.trees[place] == one.trees


@pytest.mark.parametrize("fidelity", FIDELITIES)
@pytest.mark.parametrize("name", NAMES)
def test_gradients_reach_every_parameter(name, sentences, fidelity):
    module = made(name, sentences, fidelity).train()
    batch = Batch.of(sentences, np.arange(48))
    output = module(batch, random())
    loss = torch.nn.functional.cross_entropy(output.logits, batch.targets)
    (loss if output.penalty is None else loss + output.penalty).backward()
    for label, weight in module.named_parameters():
        assert weight.grad is not None, label
        assert torch.isfinite(weight.grad).all(), label
        assert weight.grad.abs().max() > 0, label


@pytest.mark.parametrize("name", NAMES)
def test_eight_examples_can_be_memorised(name, sentences):
    module = made(name, sentences).train()
    rows = np.flatnonzero((sentences.lengths > 3) & (sentences.lengths < 12))[:8]
    batch = Batch.of(sentences, rows)
    adam = torch.optim.Adam(module.parameters(), 2e-2)
    generator = random()
    for _ in range(150):
        output = module(batch, generator)
        loss = torch.nn.functional.cross_entropy(output.logits, batch.targets)
        adam.zero_grad()
        (loss if output.penalty is None else loss + output.penalty).backward()
        adam.step()
    module.eval()
    with torch.no_grad():
        assert (module(batch).logits.argmax(1) == batch.targets).all()


@pytest.mark.parametrize("name", NAMES)
def test_trees_are_binary_trees_over_the_tokens(name, sentences):
    module = made(name, sentences).eval()
    batch = Batch.of(sentences, np.arange(60))
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


@pytest.mark.parametrize("name", NAMES)
def test_a_sentence_of_one_token_has_an_answer(name, sentences):
    one = sentences.take(np.array([0]))
    single = dataclasses.replace(
        one, tokens=np.array([3]), start=np.array([0, 1]), steps=np.zeros(1, np.uint8), targets=np.array([3])
    )
    module = made(name, sentences)
    assert torch.isfinite(module.eval()(Batch.of(single, np.array([0]))).logits).all()
    assert torch.isfinite(module.train()(Batch.of(single, np.array([0, 0])), random()).logits).all()


@pytest.mark.parametrize("name", NAMES)
def test_weights_survive_a_file_to_the_bit(name, sentences):
    module, batch = made(name, sentences).eval(), Batch.of(sentences, np.arange(20))
    other = made(name, sentences)
    with torch.no_grad():
        for weight in other.parameters():
            weight.add_(1)
        other.load_state_dict(load(save(module.state_dict())))
        assert torch.equal(other.eval()(batch).logits, module(batch).logits)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_random_comes_from_the_generator(name, sentences):
    module, batch = made(name, sentences).train(), Batch.of(sentences, np.arange(20))
    before = torch.random.get_rng_state()
    one, two = module(batch, random(1)).logits, module(batch, random(1)).logits
    assert torch.equal(one, two)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(made(name, sentences).parameters(), module.parameters(), strict=True))
