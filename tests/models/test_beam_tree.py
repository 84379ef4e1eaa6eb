"""Beam search on shared nodes and pairs is beam search on Python lists: the same answers, gradients and trees."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from oracles_latent import beam_tree, logits, mixed_root
from pomona.base.errors import SpecError
from pomona.data.task import generate
from pomona.models.inputs.sentences import Batch, Sentences
from pomona.models.layers.beam_merge import Beams
from pomona.models.model import MODELS, seeded
from pomona.training.checkpoints import build
from pomona.training.recipe import Recipe


@pytest.fixture(scope="module")
def batch():
    corpus = generate("listops/d20s", split="train", seed=2, train=300, dev=10, test=10)
    corpus = corpus[corpus.lengths <= 16]
    return Batch.of(Sentences.of(corpus, corpus.vocabulary, corpus.outcomes), np.arange(16))


def made(**settings):
    corpus = generate("listops/d20s", split="train", seed=2, train=20, dev=10, test=10)
    module = build(Recipe("beam_tree", {"width": 6, "slice": 4, **settings}), corpus.vocabulary, corpus.outcomes)
    with seeded(3), torch.no_grad():
        for weight in module.parameters():  # so that norms and biases are not 1 and 0
            weight.add_(0.3 * torch.randn_like(weight))
    return module.double()


def sentences_of(batch):
    return [batch.tokens[row, : batch.lengths[row]].tolist() for row in range(len(batch))]


def noise_of(batch, size, seed):
    """The noise of every sentence: as much as its merges need at most, one sentence after the other."""
    needed = [sum(size * pairs + size * size for pairs in range(2, n)) for n in batch.lengths.tolist()]
    drawn = torch.empty(sum(needed), dtype=torch.double).exponential_(generator=torch.Generator().manual_seed(seed))
    return [part.tolist() for part in (-drawn.log()).split(needed)]


def assert_same(module, fast, slow):
    assert torch.allclose(fast, slow, rtol=0, atol=1e-11)
    with seeded(4):
        weight = torch.randn_like(fast)
    known = list(module.named_parameters())
    tensors = [tensor for _, tensor in known]
    ours = torch.autograd.grad((fast * weight).sum(), tensors, allow_unused=True)
    theirs = torch.autograd.grad((slow * weight).sum(), tensors, allow_unused=True)
    for (name, tensor), one, two in zip(known, ours, theirs, strict=True):
        one, two = (torch.zeros_like(tensor) if gradient is None else gradient for gradient in (one, two))
        assert (one - two).abs().max() <= 1e-10 * max(1, two.abs().max()), name


@pytest.mark.parametrize(
    ("beam", "noisy", "tied"),
    [(1, True, False), (2, False, False), (3, True, False), (5, True, False), (5, False, False), (3, True, True)],
)
def test_answers_and_gradients_are_those_of_the_list_twin(batch, beam, noisy, tied):
    module = made(beam=beam, noise=noisy, tied=tied).train()
    fast = module(batch, torch.Generator().manual_seed(9)).logits
    noise = noise_of(batch, beam, 9) if noisy else [None] * len(batch)
    found = [beam_tree(module, words, some) for words, some in zip(sentences_of(batch), noise, strict=True)]
    slow = torch.stack([logits(module, mixed_root(beams)) for beams in found])
    assert_same(module, fast, slow)
    if noisy:
        quiet = [beam_tree(module, words, None) for words in sentences_of(batch)]
        assert [tree for _, _, tree in found[0]] != [tree for _, _, tree in quiet[0]]


def test_in_evaluation_there_is_no_noise_and_the_tree_is_the_best_beam(batch):
    module = made(beam=4).eval()
    with torch.no_grad():
        output = module(batch, torch.Generator().manual_seed(9))
        found = [beam_tree(module, words, None) for words in sentences_of(batch)]
    for row, beams in enumerate(found):
        _, root, tree = max(beams, key=lambda beam: float(beam[0]))
        assert pairs_of(output.trees[row]) == tree
        assert torch.allclose(output.nodes[output.trees.start[row + 1] - 1], root, rtol=0, atol=1e-12)
        assert torch.allclose(output.sentences[row], mixed_root(beams), rtol=0, atol=1e-12)
    assert len({str(beams[0][2]) for beams in found}) > 5
    leaves = module.norm(module.project(module.leaf))[torch.from_numpy(batch.flat)]
    assert torch.allclose(output.nodes[torch.from_numpy(output.trees.leaf)], leaves, rtol=0, atol=1e-12)


def pairs_of(forest):
    """A binary tree as nested pairs of positions of its leaves."""
    stack, leaves = [], 0
    for arity in forest.arity.tolist():
        if arity:
            right, left = stack.pop(), stack.pop()
            stack.append((left, right))
        else:
            stack.append(leaves)
            leaves += 1
    return stack[0]


def test_equal_pairs_are_scored_and_equal_nodes_computed_once(batch):
    """Every sentence twice, and five beams of each."""
    tokens = np.concatenate([batch.flat, batch.flat])
    start = np.concatenate([batch.start, batch.start[1:] + batch.start[-1]])
    random = np.random.default_rng(0)
    beams = Beams(tokens, start, 5, 15, keep=True)
    asked, nodes = [tuple(pair) for pair in beams.pairs.tolist()], []
    scores = random.normal(size=len(asked))
    while not beams.finished:
        new, pairs = beams.merge(scores, np.empty(0))
        nodes += map(tuple, new.tolist())
        asked += map(tuple, pairs.tolist())
        scores = random.normal(size=len(pairs))
    assert len(set(asked)) == len(asked)
    assert len(set(nodes)) == len(nodes) < beams.most / 4
    for number, (left, right) in enumerate(nodes):
        assert max(left, right) < 15 + number
    half = len(batch)
    assert np.array_equal(beams.total[:half], beams.total[half:])
    assert np.array_equal(beams.root[:half], beams.root[half:])


def test_only_nodes_and_pairs_of_the_last_beams_get_a_gradient(batch):
    module = made(beam=3).train()
    beams, tape = module.search(batch, module.norm(module.project(module.leaf)), torch.Generator().manual_seed(1))
    pairs, nodes = beams.used()
    gradient = beams.derivative(np.random.default_rng(0).normal(size=beams.total.shape))
    assert set(np.flatnonzero(gradient)) == set(pairs.tolist())
    assert len(pairs) < len(beams.pairs)
    assert len(nodes) < tape.count


@pytest.mark.parametrize("setting", ["beam", "slice"])
def test_settings_below_one_are_refused(setting):
    with pytest.raises(SpecError, match=f"{setting} = 0.*must be at least 1"):
        MODELS.build("beam_tree", {setting: 0})
