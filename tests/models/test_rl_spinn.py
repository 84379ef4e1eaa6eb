"""RL-SPINN on a stack of numbers is RL-SPINN on Python lists: the same trees, losses and gradients, in 64 bits."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
import torch

from oracles_models import rl_spinn_by_lists
from pomona.data.task import generate
from pomona.models.inputs.sentences import Batch, Sentences
from pomona.models.model import MODELS, Shape, seeded


@pytest.fixture(scope="module")
def batch():
    corpus = generate("listops/d20s", split="train", seed=2, train=200, dev=10, test=10)
    corpus = corpus[corpus.lengths <= 30]
    return Batch.of(Sentences.of(corpus, corpus.vocabulary, corpus.outcomes), np.arange(120))


def made(**settings):
    with seeded(4):
        module = MODELS.build("rl_spinn", {"width": 6, "leaf_deviation": 1.0, **settings}).build(Shape(15, 10))
    return module.double()


def sentences_of(batch):
    return [batch.tokens[row, : batch.lengths[row]].tolist() for row in range(len(batch))]


@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_trees_losses_and_gradients_are_those_of_the_list_twin(batch, temperature):
    module = made(baseline="moving_average", temperature=temperature, weight=2.0).train()
    module.average += 0.3
    count = len(batch.flat) * 2 - len(batch)
    uniform = torch.rand(count, generator=torch.Generator().manual_seed(9), dtype=torch.double)
    output = module(batch, torch.Generator().manual_seed(9))
    fast = torch.nn.functional.cross_entropy(output.logits, batch.targets) + output.penalty
    root, actions, chosen = rl_spinn_by_lists(
        module, sentences_of(batch), list(uniform.split((2 * batch.lengths - 1).tolist()))
    )
    logits = module.classifier(root)
    reward = (logits.argmax(1) == batch.targets).double()
    slow = torch.nn.functional.cross_entropy(logits, batch.targets)
    slow = slow - 2 * torch.stack([(reward[row] - 0.3) * log_pi for row, log_pi in chosen]).mean()
    assert module.parse(batch, uniform)[1].tolist() == list(chain(*actions))
    assert abs(fast - slow) < 1e-12
    assert torch.allclose(output.logits, logits, rtol=0, atol=1e-12)
    weights = list(module.parameters())
    for one, two in zip(torch.autograd.grad(fast, weights), torch.autograd.grad(slow, weights), strict=True):
        assert (one - two).abs().max() <= 1e-12 * max(1, two.abs().max())


def test_in_evaluation_the_policy_is_greedy(batch):
    module = made().eval()
    with torch.no_grad():
        output = module(batch)
        root, actions, _ = rl_spinn_by_lists(module, sentences_of(batch), None)
        assert torch.allclose(output.logits, module.classifier(root), rtol=0, atol=1e-12)
    assert (output.trees.arity == 2).astype(int).tolist() == list(chain(*actions))


@pytest.mark.parametrize("baseline", ["learned", "moving_average", "self_critical"])
def test_each_baseline_gives_its_loss_and_no_gradient_through_the_reward(batch, baseline):
    """The learned one is what a reader of the words guesses, the self-critical one what greedy trees would have got."""
    module = made(baseline=baseline).train()  # among 120 answers some are right by chance, so there is reward
    output = module(batch, torch.Generator().manual_seed(1))
    count = len(batch.flat) * 2 - len(batch)
    uniform = torch.rand(count, generator=torch.Generator().manual_seed(1), dtype=torch.double)
    sentences = sentences_of(batch)
    root, _, chosen = rl_spinn_by_lists(module, sentences, list(uniform.split((2 * batch.lengths - 1).tolist())))
    reward = (module.classifier(root).argmax(1) == batch.targets).double()
    expected, slow = torch.zeros(len(batch), dtype=torch.double), 0.0
    if baseline == "learned":
        guess = torch.stack([
            module.value_head(module.value(np.array(words), np.array([0, len(words)]))[-1])[0] for words in sentences
        ])  # fmt: skip
        expected = guess.sigmoid().detach()
        slow = -(reward * guess.sigmoid().log() + (1 - reward) * (1 - guess.sigmoid()).log()).mean()
    elif baseline == "self_critical":
        greedy = module.classifier(rl_spinn_by_lists(module, sentences, None)[0]).argmax(1)
        expected = (greedy == batch.targets).double()
    slow = slow - torch.stack([(reward[row] - expected[row]) * log_pi for row, log_pi in chosen]).mean()
    assert abs(output.penalty - slow) < 1e-12
    output.penalty.backward()
    assert module.policy.grad.abs().max() > 0
    assert all(weight.grad is None for weight in module.classifier.parameters())


def test_the_moving_average_follows_the_reward_and_is_saved(batch):
    module = made(baseline="moving_average", momentum=0.5).train()
    output = module(batch, torch.Generator().manual_seed(1))
    reward = (output.logits.argmax(1) == batch.targets).double().mean()
    assert float(module.average) == pytest.approx(float(reward) / 2)
    assert "average" in module.state_dict()
