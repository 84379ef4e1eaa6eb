"""Ordered Memory on a window of slots is Ordered Memory on all of them: the same answers, gradients, trees, vectors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from oracles_latent import logits, ordered_memory, tree_of_slots
from pomona.base.errors import SpecError
from pomona.data.task import generate
from pomona.models.inputs.sentences import Batch, Sentences
from pomona.models.layers.slot_chain import SlotChain
from pomona.models.model import MODELS, seeded
from pomona.training.checkpoints import build
from pomona.training.recipe import Recipe


@pytest.fixture(scope="module")
def batch():
    corpus = generate("listops/d20s", split="train", seed=2, train=300, dev=10, test=10)
    corpus = corpus[corpus.lengths <= 22]
    return Batch.of(Sentences.of(corpus, corpus.vocabulary, corpus.outcomes), np.arange(20))


def made(sharp=1.0, **settings):
    """A module whose norms and biases are not 1 and 0; a sharp one attends to few slots."""
    corpus = generate("listops/d20s", split="train", seed=2, train=20, dev=10, test=10)
    module = build(Recipe("ordered_memory", {"width": 6, "slots": 5, **settings}), corpus.vocabulary, corpus.outcomes)
    with seeded(3), torch.no_grad():
        for weight in module.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
        module.attention.weight.mul_(sharp)
    return module.double()


def sentences_of(batch):
    return [batch.tokens[row, : batch.lengths[row]].tolist() for row in range(len(batch))]


@pytest.mark.parametrize(
    ("sharp", "slots", "tied"), [(1.0, 5, False), (1.0, 1, False), (8.0, 30, False), (200.0, 5, False), (2.0, 5, True)]
)
def test_answers_and_gradients_are_those_of_all_slots(batch, sharp, slots, tied):
    module = made(sharp, slots=slots, tied=tied).train()
    fast = module(batch).logits
    slow = torch.stack([logits(module, ordered_memory(module, words)[0]) for words in sentences_of(batch)])
    assert torch.allclose(fast, slow, rtol=0, atol=1e-11)
    with seeded(4):
        weight = torch.randn_like(fast)
    known = list(module.named_parameters())
    ours = torch.autograd.grad((fast * weight).sum(), [tensor for _, tensor in known])
    theirs = torch.autograd.grad((slow * weight).sum(), [tensor for _, tensor in known])
    for (name, _), one, two in zip(known, ours, theirs, strict=True):
        assert (one - two).abs().max() <= 1e-9 * max(1, two.abs().max()), name


def test_sharp_attention_needs_few_cells(batch, monkeypatch):
    """The cells of a batch: those with C above 0 and no others."""
    counted = {}
    honest = SlotChain.forward

    def counting(self, x, memory, share, active):
        assert torch.equal(active, (share > 0).sum(1))
        counted[sharp] = counted.get(sharp, 0) + int(active.sum())
        return honest(self, x, memory, share, active)

    monkeypatch.setattr(SlotChain, "forward", counting)
    for sharp in (1.0, 400.0):
        made(sharp, slots=21).train()(batch)
    most = sum(min(t, 21) for n in batch.lengths.tolist() for t in range(n))  # a token may go one slot deeper
    assert 0.9 * most < counted[1.0] <= most
    assert counted[400.0] < 0.6 * most


@pytest.mark.parametrize("slots", [3, 21])
def test_trees_follow_the_slots_of_the_largest_p(batch, slots):
    module = made(20.0, slots=slots).eval()
    with torch.no_grad():
        output = module(batch)
        slow = [ordered_memory(module, words) for words in sentences_of(batch)]
    shapes = set()
    for row, (words, (root, attended, candidates)) in enumerate(zip(sentences_of(batch), slow, strict=True)):
        tree, merges = tree_of_slots([slots, *(int(p.argmax()) for p in attended[1:])], slots)
        shapes.add(str(tree))
        assert pairs_of(output.trees[row]) == tree
        vectors = output.nodes[output.trees.start[row] : output.trees.start[row + 1]]
        leaf = torch.from_numpy(output.trees[row].leaf)
        alone = [ordered_memory(module, [word])[0] for word in words]
        assert torch.allclose(vectors[leaf], torch.stack(alone), rtol=0, atol=1e-11)
        merged = [*(candidates[token][slot] for token, slot in merges[:-1]), root]
        assert torch.allclose(vectors[~leaf], torch.stack(merged), rtol=0, atol=1e-11)
    assert len(shapes) > 5


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


def test_the_slots_of_a_left_to_right_evaluator_give_the_gold_tree():
    """[MAX 2 [MIN 4 7 ] ]: an open list stays in its slot, and its arguments are merged into it."""
    tree, merges = tree_of_slots([5, 4, 4, 3, 3, 3, 4], 5)
    assert tree == (((0, 1), (((2, 3), 4), 5)), 6)
    assert merges == [(1, 4), (3, 3), (4, 3), (5, 3), (5, 4), (6, 4)]


def test_a_memory_without_slots_is_refused():
    with pytest.raises(SpecError, match="slots = 0: a memory needs at least 1"):
        MODELS.build("ordered_memory", {"slots": 0})
