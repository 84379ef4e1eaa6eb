"""Shift-reduce on shared pairs is shift-reduce on Python lists: the same trees, losses and gradients, in 64 bits."""

from __future__ import annotations

import dataclasses
from itertools import chain

import numpy as np
import pytest
import torch
from torch import nn

from oracles_latent import cell_loss, grc, logits, shift_reduce, shift_reduce_by_steps, shift_reduce_loss
from pomona.base.errors import SpecError
from pomona.data.task import generate
from pomona.models.inputs.sentences import Batch, Sentences
from pomona.models.layers.grc import GRC, Tape
from pomona.models.layers.stack_parser import Stacks
from pomona.models.model import MODELS, Shape, seeded
from pomona.models.sentence.shift_reduce import Learning
from pomona.training import loop
from pomona.training.checkpoints import build
from pomona.training.loop import train
from pomona.training.recipe import Recipe
from pomona.trees.binary import random_trees
from training_material import Killed, assert_same_bits, kill_at, weights


@pytest.fixture(scope="module")
def batch():
    corpus = generate("listops/d20s", split="train", seed=2, train=200, dev=10, test=10)
    corpus = corpus[corpus.lengths <= 22]
    return Batch.of(Sentences.of(corpus, corpus.vocabulary, corpus.outcomes), np.arange(24))


def made(**settings):
    corpus = generate("listops/d20s", split="train", seed=2, train=20, dev=10, test=10)
    module = build(Recipe("shift_reduce", {"width": 6, **settings}), corpus.vocabulary, corpus.outcomes)
    with seeded(3), torch.no_grad():
        for weight in module.parameters():  # so that norms and biases are not 1 and 0
            weight.add_(0.3 * torch.randn_like(weight))
    return module.double()


def sentences_of(batch):
    return [batch.tokens[row, : batch.lengths[row]].tolist() for row in range(len(batch))]


def assert_same_gradients(module, fast, slow):
    known = [weight for weight in module.parameters() if weight.requires_grad]
    pairs = zip(
        torch.autograd.grad(fast, known, allow_unused=True), torch.autograd.grad(slow, known, allow_unused=True),
        strict=True,
    )  # fmt: skip
    for one, two in pairs:
        assert (one is None) == (two is None)
        assert one is None or (one - two).abs().max() <= 1e-11 * max(1, two.abs().max())


@pytest.mark.parametrize(
    ("learning", "settings"),
    [
        (Learning(), {}),
        (Learning(sampled=3, greedy=False, policy=1.0, prior=0.5, prior_weight=0.02), {}),
        (Learning(sampled=0, policy=0.0, prior_weight=0.0, own=0.1), {}),
        (Learning(sampled=2, own=0.3), {"tied": False}),
        (Learning(sampled=1, noise=0.7), {}),
        (Learning(sampled=0, policy=0.0, prior_weight=0.0, own=0.1, noise=0.3), {"counters": 3}),
        (Learning(), {"counters": 4}),
        (Learning(sampled=1, own=0.2, blur=0.8), {}),
        (Learning(sampled=1, own=0.2, noise=0.4, blur=0.6), {"counters": 2}),
    ],
)
def test_trees_losses_and_gradients_are_those_of_the_list_twin(batch, learning, settings):
    module = made(**settings).train()
    module.begin_stage(learning)
    output = module(batch, torch.Generator().manual_seed(9))
    count = len(batch.flat) * 2 - len(batch)
    random = torch.Generator().manual_seed(9)
    uniform = torch.rand(learning.sampled, count, generator=random, dtype=torch.double)
    draws = [[row.tolist() for row in some.split((2 * batch.lengths - 1).tolist())] for some in uniform]
    if learning.greedy:
        draws.insert(0, [None] * len(batch))
    added = drawn(module, batch, uniform, random)
    cell, policy, _ = shift_reduce_loss(module, sentences_of(batch), batch.targets.tolist(), draws, *added)
    assert abs(output.loss - cell) < 1e-12
    assert abs(output.penalty - policy) < 1e-12
    assert policy.abs() > 1e-4
    assert_same_gradients(module, output.loss + output.penalty, cell + policy)


def drawn(module, batch, uniform, random):
    """The noise of every tree, and the blur of every pair that is a choice: rows that are drawn after the steps, in the
    order of computing."""
    greedy = np.full((int(module.learning.greedy), uniform.shape[1]), -1.0)
    trees = len(greedy) + len(uniform)
    before = random.get_state()
    draws = np.concatenate([greedy, uniform.numpy()]).ravel()
    sentences = np.tile(np.arange(len(batch)), trees)
    stacks, tape = module.parse(batch, sentences, draws, module.words(), keep=False, random=random)
    random.set_state(before)
    known = dict(enumerate(range(tape.leaves)))  # trees by number
    for number, (left, right) in enumerate(stacks.nodes.tolist()):
        known[tape.leaves + number] = (known[left], known[right])
    noise = blur = None
    if module.learning.noise:
        rows = torch.randn(trees * int(batch.lengths.sum() - len(batch)), 6, generator=random).double()
        noise = {known[tape.leaves + number]: module.learning.noise * rows[number] for number in range(tape.count)}
    if module.learning.blur:
        pairs = stacks.pairs[np.unique(stacks.choices[:, 0])].tolist()
        rows = module.learning.blur * torch.randn(len(pairs), 12, generator=random).double()
        blur = {(known[left], known[right]): row for (left, right), row in zip(pairs, rows, strict=True)}
    return noise, blur


def test_noise_is_drawn_in_training_only(batch):
    module = made().eval()
    module.begin_stage(Learning(noise=0.5))
    quiet = module(batch).logits
    module.begin_stage(Learning())
    assert torch.equal(module(batch).logits, quiet)
    one, two = (module.train()(batch, torch.Generator().manual_seed(seed)).loss for seed in (1, 1))
    assert one == two
    module.begin_stage(Learning(noise=0.5, trees="left"))
    one, two, other = (module(batch, torch.Generator().manual_seed(seed)).loss for seed in (1, 1, 2))
    assert one == two != other


def test_the_twin_of_the_benchmark_computes_the_same(batch):
    module = made().train()
    module.begin_stage(Learning(sampled=0, policy=0.0, prior_weight=0.0, own=0.1))
    output = module(batch, torch.Generator().manual_seed(9))
    cell, policy = shift_reduce_by_steps(module, sentences_of(batch), batch.targets)
    assert abs(output.loss - cell) + abs(output.penalty - policy) < 1e-12
    assert_same_gradients(module, output.loss + output.penalty, cell + policy)


@pytest.mark.parametrize("counters", [0, 3])
def test_in_evaluation_the_policy_is_greedy(batch, counters):
    module = made(counters=counters).eval()
    output = module(batch)
    built = [shift_reduce(module, words, None) for words in sentences_of(batch)]
    assert (output.trees.arity == 2).astype(int).tolist() == list(chain(*(steps for _, steps, _ in built)))
    said = torch.stack([logits(module, root) for root, _, _ in built])
    assert torch.allclose(output.logits, said, rtol=0, atol=1e-12)
    assert torch.allclose(output.nodes[output.trees.start[1:] - 1], torch.stack([root for root, *_ in built]))


@pytest.mark.parametrize(("trees", "counters"), [("left", 0), ("random", 0), ("left", 3)])
def test_given_trees_are_composed_and_teach_the_policy_nothing(batch, trees, counters):
    module = made(counters=counters).train()
    module.begin_stage(Learning(trees=trees))
    output = module(batch, torch.Generator().manual_seed(1))
    count = len(batch.flat) * 2 - len(batch)
    uniform = torch.rand(count, generator=torch.Generator().manual_seed(1), dtype=torch.double)
    slow = 0.0
    for number, words in enumerate(sentences_of(batch)):
        at = batch.step_start[number]
        built = by_coins(module, words, [0.0] * 99 if trees == "left" else uniform[at:].tolist())
        slow = slow + cell_loss(module, built, int(batch.targets[number]))[0] / len(batch)
    assert output.penalty is None
    assert abs(output.loss - slow) < 1e-12
    assert_same_gradients(module, output.loss, slow)


@pytest.mark.parametrize("trees", ["left", "policy"])
def test_beginnings_of_sentences_are_kept_apart_from_answers(batch, trees):
    """Each distinct node on the left side of a tree, but for the root, is to have the squared distance 1 or more to the
    nearest answer."""
    losses = []
    module = made().train()
    for apart in (0.0, 0.7):
        module.begin_stage(Learning(trees=trees, sampled=0, apart=apart))
        losses.append(module(batch, torch.Generator().manual_seed(1)).loss)
    made_of = {}
    for words in sentences_of(batch):
        steps = shift_reduce(module, words, [0.0] * 99 if trees == "left" else None)[1]
        stack, waiting = [], [(word, module.words()[word]) for word in words]
        for action in steps:
            if action:
                (left, below), (right, top) = stack.pop(-2), stack.pop()
                stack.append(((left, right), grc(module.cell, below, top)))
                made_of[left, right] = stack[-1][1]
            else:
                stack.append(waiting.pop(0))
        below = stack[0][0]
        while isinstance(below, tuple) and isinstance(below := below[0], tuple):
            made_of["on the left", below] = made_of[below]
    beginnings = torch.stack([vector for key, vector in made_of.items() if key[0] == "on the left"])
    answers = module.words.answers(module.words()).detach()
    away = torch.stack([(row - answers).square().mean(1).min() for row in beginnings])
    assert 0.2 < (away < 1).double().mean() < 1  # so that the bound is tested from both sides
    slow = losses[0] + 0.7 * (1 - away).clamp(min=0).mean()
    assert abs(losses[1] - slow) < 1e-12
    assert_same_gradients(module, losses[1], slow)


def by_coins(module, words, draws):
    """The root of the tree in which a choice reduces if its draw is below one half."""
    fair = made(counters=module.settings.counters)
    fair.load_state_dict(module.state_dict())
    with torch.no_grad():
        fair.policy_out.weight.zero_()
        fair.policy_out.bias.zero_()
    _, steps, _ = shift_reduce(fair, words, draws)
    stack, waiting = [], list(nn.functional.pad(module.words()[words], (0, module.settings.counters)))
    for action in steps:
        stack[-2:] = [grc(module.cell, *stack[-2:])] if action else [*stack[-2:], waiting.pop(0)]
    return stack[0][: module.settings.width]


def test_equal_pairs_are_scored_and_equal_nodes_computed_once(batch):
    """Ten trees a sentence and every sentence twice: no pair is asked for twice, and no node is computed twice."""
    sentences = np.tile(np.arange(len(batch)), 10)
    stacks = Stacks(batch.flat, batch.start, sentences, 15)
    asked, nodes, random = [], [], np.random.default_rng(0)
    draws = random.random(len(stacks.steps))
    while (now := stacks.advance(draws)) is not None:
        nodes += map(tuple, now[0].tolist())
        asked += map(tuple, now[1].tolist())
        stacks.answer(np.zeros(len(now[1])))
    assert len(set(asked)) == len(asked)
    assert len(set(nodes)) == len(nodes) < 0.9 * stacks.most
    for number, (left, right) in enumerate(nodes):
        assert max(left, right) < 15 + number


def test_memory_for_the_derivative_is_not_kept_where_none_is_needed(batch):
    with seeded(0):
        cell = GRC(4)
    tape = Tape.of_schedule(cell, torch.randn(15, 4), batch.schedule, keep=False)
    assert not tape._kept
    frozen = cell.requires_grad_(False)
    assert not Tape.of_schedule(frozen, torch.randn(15, 4), batch.schedule, keep=True).nodes(
        torch.randn(15, 4), np.zeros(len(batch.schedule), np.int64)
    ).requires_grad  # fmt: skip


def test_answers_that_are_words_have_their_vectors_and_others_their_own():
    with seeded(0):
        module = MODELS.build("shift_reduce", {"width": 4}).build(Shape(3, 3, ("a", "7", "b"), (7, "yes", "b")))
    words = module.words
    vectors = words.answers(words())
    assert torch.equal(vectors[0], words()[1])
    assert torch.equal(vectors[2], words()[2])
    assert words.answer.shape == (1, 4)
    assert torch.equal(vectors[1], words.norm(words.answer)[0])


# -- in training -----------------------------------------------------------------------------------------------------

FEW = {"train": 3_000, "dev": 40, "test": 10}
SHORT = [
    {"name": "flat", "steps": 12, "window": 2, "move_on": 0.01},
    {"name": "parser", "steps": 5, "look": 2},
    {"name": "both to 12", "steps": 5, "settings": {"noise": 0.2}},
    {"name": "both to 20", "steps": 3},
    {"name": "own trees", "steps": 7, "look": 3, "settings": {"noise": 0.2, "blur": 0.5}},
]
QUICK = Recipe("shift_reduce", {"width": 8, "counters": 2}, data_settings=FEW, dev_rows=40, stages=tuple(SHORT))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return train(QUICK, tmp_path_factory.mktemp("runs") / "whole")


def test_every_stage_resumes_to_the_same_bits(tmp_path, whole):
    ends = {entry["stage"]: entry["step"] for entry in whole.curve}
    assert list(ends) == [stage["name"] for stage in SHORT]
    for stage, end in ends.items():
        with pytest.raises(Killed):
            train(QUICK, tmp_path / stage, save_every=0.0, progress=kill_at(end - 1))
        assert_same_bits(train(QUICK, tmp_path / stage), whole)


def test_no_gold_tree_bracket_or_value_reaches_the_model(tmp_path, whole, monkeypatch):
    """The training sentences get random trees, other values at every node, and other names of operators and
    brackets: the weights are the same to the bit."""
    honest = loop.corpora

    def spoilt(recipe):
        train_on, dev = honest(recipe)
        names = {word: f"x{number}" for number, word in enumerate(train_on.vocabulary) if not word.isdigit()}
        trees = random_trees(train_on.lengths, 3)
        values = np.random.default_rng(0).integers(0, 10, len(trees.symbol)).astype(train_on.values.dtype)
        train_on = dataclasses.replace(train_on, forest=trees, values=values)
        return renamed(train_on, names), renamed(dev, names)

    monkeypatch.setattr(loop, "corpora", spoilt)
    run = train(QUICK, tmp_path / "spoilt")
    assert run.data["train"] != whole.data["train"]
    assert_same_bits(run, whole)


def renamed(corpus, names):
    words = tuple(names.get(word, word) for word in corpus.vocabulary)
    return dataclasses.replace(corpus, vocabulary=words, origin={})


def test_stages_freeze_what_they_say(tmp_path, whole):
    first, second = (
        weights(train(dataclasses.replace(QUICK, stages=tuple(SHORT[:n])), tmp_path / str(n)), "last") for n in (1, 2)
    )
    moved = {name for name in first if not torch.equal(first[name], second[name])}
    assert moved == {name for name in first if name.startswith("policy")}


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"trees": "gold"}, "stage 'parser': .*trees"),
        ({"sampled": 0, "greedy": False}, "stage 'parser': .*at least one tree"),
        ({"prior": 1.0}, "stage 'parser': .*prior = 1.0"),
        ({"own": -1.0}, "stage 'parser': .*own = -1.0"),
        ({"noise": -0.1}, "stage 'parser': .*noise = -0.1"),
        ({"blur": -1}, "stage 'parser': .*blur = -1"),
        ({"apart": -1}, "stage 'parser': .*apart = -1"),
        ({"samples": 3}, "stage 'parser': .*samples"),
    ],
)
def test_wrong_settings_of_a_stage_are_named(tmp_path, told, words):
    with pytest.raises(SpecError, match=words):
        train(dataclasses.replace(QUICK, stages=("flat", {"name": "parser", "settings": told})), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_there_are_no_fewer_counters_than_none():
    with pytest.raises(SpecError, match=r"counters = -1: must be 0 or more"):
        MODELS.build("shift_reduce", {"counters": -1})
