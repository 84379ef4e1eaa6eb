"""The compiled stack machine is the one on Python lists; with the right tables it computes ORCHARD; the soft one with
certain actions is the hard one; no gold tree or value reaches the model."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pomona.base.errors import RunError, SpecError
from pomona.data.task import generate
from pomona.models.inputs.parts import Parts, with_unknown
from pomona.models.inputs.schedule import TreeSchedule
from pomona.models.layers.grc import GRC, Tape
from pomona.models.layers.stack_machine import ORDERS, POP, PUSH, STAY, nodes_of, soft_tops
from pomona.models.model import seeded
from pomona.models.sequence.stack_machine import SHARP, Learning
from pomona.training import loop
from pomona.training.checkpoints import build
from pomona.training.loop import train
from pomona.training.recipe import Recipe
from pomona.trees.binary import random_trees
from training_material import Killed, assert_same_bits, kill_at, weights

# -- the machine -----------------------------------------------------------------------------------------------------


def machine(parts, numbers, action, quotes, order, first):
    """The obvious machine: nodes are nested pairs. The topmost frame at the end of each part."""
    listed, tops = [], []
    for words, spelt in zip(parts, numbers, strict=True):
        stack, found = [], []  # frames; constituents, as they begin
        ended = 0

        def end(constituent):
            nonlocal ended
            constituent["end"] = ended
            ended += 1

        for word, number in zip(words, spelt, strict=True):
            act = action[word] if stack else PUSH
            if act == PUSH:
                constituent = {"level": len(stack)}
                found.append(constituent)
                stack.append({"node": word, "word": word, "constituent": constituent})
                continue
            top, other = stack[-1], word
            if act == STAY:
                if number >= 0 and quotes[top["word"]] and 0 <= number - first < len(listed):
                    other = listed[number - first]
                found.append({"level": len(stack), "node": other})
                end(found[-1])
            top["node"] = (top["node"], other)
            if act == POP and len(stack) > 1:
                stack.pop()
                top["constituent"]["node"] = top["node"]
                end(top["constituent"])
                stack[-1]["node"] = (stack[-1]["node"], top["node"])
        tops.append(stack[-1]["node"])
        for frame in reversed(stack):
            frame["constituent"]["node"] = frame["node"]
            end(frame["constituent"])
        key = {"level": lambda item: item["level"], "begin": lambda item: 0, "end": lambda item: item["end"]}[order]
        listed += [item["node"] for item in sorted(found, key=key)]
    return tops


def expanded(node, left, right, leaves):
    if node < leaves:
        return int(node)
    return expanded(left[node - leaves], left, right, leaves), expanded(right[node - leaves], left, right, leaves)


@given(st.integers(0, 2**32 - 1), st.integers(0, len(ORDERS) - 1), st.integers(1, 3))
@settings(max_examples=300, deadline=None)
def test_the_compiled_machine_is_the_obvious_one(seed, order, parts):
    random = np.random.default_rng(seed)
    words, texts = int(random.integers(1, 7)), 3
    start = np.concatenate([[0], np.cumsum(random.integers(1, 12, texts * parts))])
    flat = random.integers(0, words, start[-1])
    number = np.where(random.random(len(flat)) < 0.6, random.integers(0, 9, len(flat)), -1)
    example = random.integers(0, texts, 5)
    action = random.integers(0, 3, (5, words)).astype(np.uint8)
    quotes = random.integers(0, 2, (5, words)).astype(np.uint8)
    left, right, height, tops = nodes_of(
        flat, number, start, parts, example, action, quotes, np.full(5, order), words
    )  # fmt: skip
    assert len({(int(a), int(b)) for a, b in zip(left, right, strict=True)}) == len(left)  # what is equal is one node
    for node in range(len(left)):
        below = [height[child - words] + 1 for child in (left[node], right[node]) if child >= words]
        assert height[node] == max(below, default=0)
    for one, text in enumerate(example):
        cuts = [slice(start[text * parts + part], start[text * parts + part + 1]) for part in range(parts)]
        wanted = machine(
            [flat[cut].tolist() for cut in cuts], [number[cut].tolist() for cut in cuts], action[one], quotes[one],
            *ORDERS[order],
        )  # fmt: skip
        found = [expanded(top, left, right, words) for top in tops[one * parts : (one + 1) * parts]]
        assert found == wanted


def right_tables(vocabulary):
    """What a reader of ORCHARD does: open, argument, close; COPY quotes, level by level from 0."""
    action = np.array([PUSH if word[0] == "[" else POP if word == "]" else STAY for word in vocabulary], np.uint8)
    return action, np.array([word == "[COPY" for word in vocabulary], np.uint8), ORDERS.index(("level", 0))


def value(node, vocabulary):
    """The value of a node of the machine: ((([MAX 2) 6) ])."""
    arguments = []
    while isinstance(node, tuple):
        node, last = node
        arguments.append(last)
    if not arguments:
        return int(vocabulary[node])
    assert vocabulary[arguments[0]] == "]"
    values = [value(argument, vocabulary) for argument in reversed(arguments[1:])]
    operator = {"[MIN": min, "[MAX": max, "[FIRST": lambda v: v[0], "[LAST": lambda v: v[-1], "[COPY": lambda v: v[0]}
    return operator[vocabulary[node]](values)


@pytest.mark.parametrize("family", ["min-max", "first-last"])
@pytest.mark.parametrize("level", ["easy", "medium", "hard"])
def test_the_right_tables_compute_orchard(level, family):
    corpus = generate(f"orchard/{level}/{family}", split="test-7", train=10, dev=10, test=60, iid=0)
    vocabulary = with_unknown(corpus.vocabulary)
    feed = Parts.of(corpus, vocabulary, corpus.outcomes)
    action, quotes, order = right_tables(vocabulary)
    example = np.arange(len(corpus))
    left, right, _, tops = nodes_of(
        feed.words, feed.number, feed.start, 2, example, np.tile(action, (60, 1)), np.tile(quotes, (60, 1)),
        np.full(60, order), len(vocabulary),
    )  # fmt: skip
    found = [value(expanded(top, left, right, len(vocabulary)), vocabulary) for top in tops]
    assert found == [corpus.outcomes[target] for target in corpus.targets.ravel()]


@pytest.mark.parametrize("seed", range(4))
def test_certain_actions_make_the_soft_stack_hard(seed):
    """The same vectors and the same derivatives, of texts of different lengths side by side."""
    random = np.random.default_rng(seed)
    lengths, words, width = np.array([9, 1, 5, 14]), 6, 5
    start = np.concatenate([[0], np.cumsum(lengths)])
    flat, action = random.integers(0, words, start[-1]), random.integers(0, 3, words).astype(np.uint8)
    with seeded(seed):
        cell, leaves = GRC(width).double(), torch.randn(words, width, dtype=torch.double, requires_grad=True)
    left, right, height, tops = nodes_of(
        flat, np.full(len(flat), -1), start, 1, np.arange(4), np.tile(action, (4, 1)), np.zeros((4, words), np.uint8),
        np.zeros(4, np.int64), words,
    )  # fmt: skip
    schedule = TreeSchedule.of_nodes(words, left, right, height, tops, np.empty(0, np.int64))
    tape = Tape.of_schedule(cell, leaves, schedule, keep=True)
    nodes = tape.nodes(leaves, np.repeat(np.arange(len(schedule.at) - 1), np.diff(schedule.at)))
    hard = nodes[torch.from_numpy(schedule.root)]
    inside = np.arange(14) < lengths[:, None]
    padded = torch.from_numpy(flat[np.where(inside, start[:-1, None] + np.arange(14), 0)])
    sure = torch.nn.functional.one_hot(torch.from_numpy(action).long(), 3).double()
    soft = soft_tops(cell, leaves[padded], sure[padded], torch.from_numpy(inside).double(), 16)
    assert torch.allclose(soft, hard, rtol=0, atol=1e-12)
    weight = torch.randn(hard.shape, dtype=torch.double, generator=torch.Generator().manual_seed(seed))
    known = [leaves, *cell.parameters()]
    gradients = [torch.autograd.grad((tops * weight).sum(), known, allow_unused=True) for tops in (hard, soft)]
    for one, two in zip(*gradients, strict=True):
        absent = torch.zeros(1, dtype=torch.double)
        assert torch.allclose(absent if one is None else one, absent if two is None else two, rtol=0, atol=1e-11)


# -- reading ---------------------------------------------------------------------------------------------------------


def test_parts_are_what_stands_between_the_x():
    corpus = generate("orchard/hard/min-max", split="train", train=30, dev=10, test=10, iid=0)
    vocabulary = with_unknown([word for word in corpus.vocabulary if word not in ("3", "12", "]")])
    feed = Parts.of(corpus, vocabulary, corpus.outcomes)
    batch = feed.batch(np.array([4, 0]))
    for place, row in enumerate((4, 0)):
        for part, text in enumerate(corpus.texts[row].split(" X ")):
            cut = slice(batch.start[2 * place + part], batch.start[2 * place + part + 1])
            known = [w if w in vocabulary else "<number>" if w.isdigit() else "<unk>" for w in text.split()]
            assert [vocabulary[word] for word in batch.flat[cut]] == known
            assert batch.number[cut].tolist() == [int(word) if word.isdigit() else -1 for word in text.split()]
    assert batch.targets.tolist() == corpus.targets[[4, 0]].tolist()


def test_texts_without_a_part_for_each_answer_are_refused():
    corpus = generate("orchard/easy/min-max", split="train", train=5, dev=10, test=10, iid=0)
    words = with_unknown(corpus.vocabulary)
    renamed = dataclasses.replace(corpus, vocabulary=tuple("Y" if word == "X" else word for word in corpus.vocabulary))
    with pytest.raises(RunError, match=r"row 0 of .* has 1 part between 'X' and 2 answers"):
        Parts.of(renamed, words, corpus.outcomes)


# -- the model -------------------------------------------------------------------------------------------------------

FEW = {"train": 2_000, "dev": 40, "test": 10, "iid": 0}
SHORT = (
    {"name": "soft", "steps": 10, "window": 2, "move_on": 0.01},
    {"name": "first", "steps": 3, "look": 2},
    {"name": "quoting", "steps": 4},
    {"name": "all", "steps": 5, "look": 3},
)
QUICK = Recipe(
    "stack_machine", {"width": 8}, data="orchard/hard/first-last", data_settings=FEW, dev_rows=40, stages=SHORT
)  # fmt: skip


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


def test_no_gold_tree_quotation_or_value_reaches_the_model(tmp_path, whole, monkeypatch):
    """Random trees without quotations, and other values at every node, in train: the same bits."""
    honest = loop.corpora

    def spoilt(recipe):
        train_on, dev = honest(recipe)
        lengths = np.stack([train_on.lengths // 2, train_on.lengths - train_on.lengths // 2], 1).ravel()
        trees = random_trees(lengths, 3)
        values = np.random.default_rng(0).integers(0, 10, len(trees.symbol)).astype(train_on.values.dtype)
        return dataclasses.replace(train_on, forest=trees, values=values), dev

    monkeypatch.setattr(loop, "corpora", spoilt)
    run = train(QUICK, tmp_path / "spoilt")
    assert run.data["train"] != whole.data["train"]
    assert_same_bits(run, whole)


def test_names_of_brackets_and_operators_mean_nothing():
    """With other names for all words but numbers and X, the model is given the same, and begins as before."""
    corpus = generate("orchard/hard/first-last", split="train", seed=2, train=12, dev=10, test=10, iid=0)
    names = {w: f"x{n}" for n, w in enumerate(corpus.vocabulary) if not w.isdigit() and w != "X"}
    other = dataclasses.replace(corpus, vocabulary=tuple(names.get(word, word) for word in corpus.vocabulary))
    given, models = [], []
    for some in (corpus, other):
        vocabulary = with_unknown(some.vocabulary)
        given.append(Parts.of(some, vocabulary, some.outcomes))
        models.append(build(Recipe("stack_machine", {"width": 6}), vocabulary, some.outcomes))
    for item in dataclasses.fields(Parts):
        assert np.array_equal(*(getattr(parts, item.name) for parts in given))
    assert torch.equal(models[0].kind, models[1].kind)
    assert torch.equal(models[0].words.answer_rows, models[1].words.answer_rows)
    assert all(torch.equal(a, b) for a, b in zip(models[0].parameters(), models[1].parameters(), strict=True))


def test_stages_freeze_what_they_say(tmp_path):
    ends = [
        weights(train(dataclasses.replace(QUICK, stages=SHORT[:count]), tmp_path / str(count)), "last")
        for count in (1, 2, 3, 4)
    ]
    tables = {"action", "quoting", "order"}
    moved = [
        {name for name in before if not torch.equal(before[name], after[name])}
        for before, after in pairwise(ends)
    ]
    assert not tables & moved[0]
    assert tables <= moved[1]
    assert not tables & moved[2]
    assert "cell.first.weight" in moved[0] & moved[1] & moved[2]


def test_the_reward_moves_what_was_drawn():
    """The derivative of the policy's loss, table by table: advantage times log p of every choice that counted."""
    corpus = generate("orchard/hard/min-max", split="train", seed=2, train=12, dev=10, test=10, iid=0)
    recipe = Recipe("stack_machine", {"width": 6}, data="orchard/hard/min-max")
    model = build(recipe, with_unknown(corpus.vocabulary), corpus.outcomes).double()
    with seeded(1), torch.no_grad():
        for name in ("action", "quoting", "order"):
            getattr(model, name).add_(0.05 * torch.randn_like(getattr(model, name)))
    batch = Parts.of(corpus, with_unknown(corpus.vocabulary), corpus.outcomes).batch(np.arange(12))
    tables = model._likeliest(3 * 12)
    model._draw(tables, 12, torch.Generator().manual_seed(0))
    reward = torch.randn(3, 12, dtype=torch.double, generator=torch.Generator().manual_seed(1))
    fast = model._policy_loss(batch, tables, reward)
    advantage = (reward - reward.mean(0)) * 3 / 2
    advantage = advantage / max(1.0, float(advantage.std()))
    slow = 0.0
    for one in range(3 * 12):
        text = one % 12
        words = set(batch.flat[batch.start[2 * text] : batch.start[2 * text + 2]].tolist())
        log_p = (SHARP * model.order).log_softmax(0)[tables.order[one]]
        for kind in {int(model.kind[word]) for word in words}:
            taken = {int(tables.action[one, word]) for word in words if model.kind[word] == kind}
            assert len(taken) == 1  # words of one kind do the same
            log_p = log_p + (SHARP * model.action[kind]).log_softmax(0)[taken.pop()]
        for word in words:
            p = (SHARP * model.quoting[word]).sigmoid()
            log_p = log_p + (p if tables.quotes[one, word] else 1 - p).log()
        slow = slow - model.learning.policy * advantage[one // 12, text] * log_p / 36
    known = [model.action, model.quoting, model.order]
    for one, two in zip(torch.autograd.grad(fast, known), torch.autograd.grad(slow, known), strict=True):
        assert torch.allclose(one, two, rtol=0, atol=1e-12)


def test_numbers_share_an_action_and_other_words_have_their_own():
    corpus = generate("orchard/hard/min-max", split="train", train=12, dev=10, test=10, iid=0)
    model = build(Recipe("stack_machine", {"width": 6}), with_unknown(corpus.vocabulary), corpus.outcomes)
    kinds = dict(zip(with_unknown(corpus.vocabulary), model.kind.tolist(), strict=True))
    assert len({kinds[word] for word in kinds if word.isdigit() or word == "<number>"}) == 1
    others = [kinds[word] for word in kinds if not word.isdigit() and word != "<number>"]
    assert len(set(others)) == len(others)
    assert model.action.shape == (len(others) + 1, 3)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"stack": "liquid"}, "stage 'first': .*stack"),
        ({"sampled": 0, "greedy": False}, "stage 'first': .*at least one table"),
        ({"noise": -1.0}, "stage 'first': .*noise = -1.0"),
        ({"samples": 3}, "stage 'first': .*samples"),
    ],
)
def test_wrong_settings_of_a_stage_are_named(tmp_path, told, words):
    with pytest.raises(SpecError, match=words):
        train(dataclasses.replace(QUICK, stages=({"name": "first", "settings": told},)), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_questions_that_are_not_asked_do_not_count():
    corpus = generate("orchard/hard/min-max", split="train", seed=2, train=12, dev=10, test=10, iid=0)
    vocabulary = with_unknown(corpus.vocabulary)
    model = build(Recipe("stack_machine", {"width": 6}), vocabulary, corpus.outcomes).double().train()
    feed = Parts.of(corpus, vocabulary, corpus.outcomes)
    other = dataclasses.replace(feed, targets=np.stack([feed.targets[:, 0], 9 - feed.targets[:, 1]], 1))
    for stack in ("soft", "hard"):
        model.begin_stage(Learning(stack=stack, questions=1, sampled=0))
        one, two = (model(some.batch(np.arange(12)), torch.Generator()) for some in (feed, other))
        assert one.loss == two.loss
        assert one.asked.tolist() == [[target, -1] for target in feed.targets[:, 0]]
        model.begin_stage(Learning(stack=stack, sampled=0))
        assert model(feed.batch(np.arange(12)), torch.Generator()).loss != one.loss
