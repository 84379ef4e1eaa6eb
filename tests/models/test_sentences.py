"""Sentences: batches hold what the corpus holds, and schedules have the trees, each distinct subtree once."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pomona.base.compiled import fused
from pomona.base.errors import RunError
from pomona.base.randomness import stream_key
from pomona.data.task import generate
from pomona.models.inputs.batches import bucketed, by_length, shuffled
from pomona.models.inputs.schedule import ParsedSentences, TreeSchedule
from pomona.models.inputs.sentences import Batch, Sentences
from pomona.models.layers.rows import exp32
from pomona.models.layers.tree_lstm import TreeLSTM


@pytest.fixture(scope="module")
def corpus():
    return generate("listops/d20s", split="train", seed=3, size=300, train=300, dev=20, test=20)


@pytest.fixture(scope="module")
def sentences(corpus):
    return Sentences.of(corpus, corpus.vocabulary, corpus.outcomes)


def subtrees(steps, tokens):
    """Every node of a tree as nested tuples, in post-order."""
    stack, nodes, tokens = [], [], iter(tokens)
    for step in steps:
        node = next(tokens) if step == 0 else (stack.pop(-2), stack.pop())
        stack.append(node)
        nodes.append(node)
    return nodes


def unfolded(schedule, node):
    if node < schedule.leaves:
        return int(node)
    k = node - schedule.leaves
    return (unfolded(schedule, schedule.left[k]), unfolded(schedule, schedule.right[k]))


@pytest.mark.parametrize("share", [True, False])
def test_a_schedule_has_the_trees(sentences, share):
    rows = np.array([5, 3, 77, 5, 120])
    some = sentences
    parsed = ParsedSentences(some.steps, some.step_start, some.tokens, some.start)
    schedule = TreeSchedule.of(parsed, rows, len(some.vocabulary), share=share)
    expected = []
    for row in rows:
        steps = some.steps[some.step_start[row] : some.step_start[row + 1]].tolist()
        expected.append(subtrees(steps, some.tokens[some.start[row] : some.start[row + 1]].tolist()))
    flat = [node for nodes in expected for node in nodes]
    assert [unfolded(schedule, node) for node in schedule.node_at] == flat
    assert [unfolded(schedule, node) for node in schedule.root] == [nodes[-1] for nodes in expected]
    inner = [node for node in flat if isinstance(node, tuple)]
    assert len(schedule) == (len(set(inner)) if share else len(inner))


def test_a_schedule_goes_from_the_leaves_up(sentences):
    schedule = Batch.of(sentences, np.arange(200)).schedule
    for low, high, left_low, left_high in zip(
        schedule.at, schedule.at[1:], schedule.left_at, schedule.left_at[1:], strict=False
    ):
        assert schedule.left[low:high].max() < schedule.leaves + low
        assert schedule.right[low:high].max() < schedule.leaves + low
        own = schedule.own_left[low:high]
        assert own[own >= 0].tolist() == list(range(left_low, left_high))
    inner = schedule.left >= schedule.leaves
    assert np.array_equal(schedule.left_row[inner], schedule.own_left[schedule.left[inner] - schedule.leaves])
    inner = schedule.right >= schedule.leaves
    assert np.array_equal(schedule.right_row[inner], schedule.own_right[schedule.right[inner] - schedule.leaves])


@pytest.mark.parametrize("make", [bucketed, shuffled])
def test_an_epoch_has_every_row_once_and_depends_on_its_key(sentences, make):
    batches = make(sentences.lengths, 32, stream_key("a"))
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(sentences)))
    assert max(map(len, batches)) <= 32
    again, other = make(sentences.lengths, 32, stream_key("a")), make(sentences.lengths, 32, stream_key("b"))
    assert all(np.array_equal(one, two) for one, two in zip(batches, again, strict=True))
    assert not all(np.array_equal(one, two) for one, two in zip(batches, other, strict=True))


def test_answering_takes_rows_from_short_to_long_within_the_area(sentences):
    batches = by_length(sentences.lengths, 50, 400)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(sentences)))
    for rows in batches:
        assert len(rows) <= 50
        assert len(rows) == 1 or len(rows) * sentences.lengths[rows].max() <= 400


def test_a_batch_is_padded_behind(corpus, sentences):
    batch = Batch.of(sentences, np.array([7, 2]))
    for place, row in enumerate((7, 2)):
        words = [corpus.vocabulary[token] for token in batch.tokens[place, : batch.lengths[place]]]
        assert words == list(corpus[row].tokens)
        assert corpus.outcomes[batch.targets[place]] == corpus[row].target[0]
        assert not batch.tokens[place, batch.lengths[place] :].any()


def test_words_never_seen_are_named(corpus):
    with pytest.raises(RunError, match=r"token '\]', which the model has never seen; it knows 0 1 2"):
        Sentences.of(corpus, tuple(word for word in corpus.vocabulary if word != "]"), corpus.outcomes)


def test_an_empty_corpus_is_an_error(corpus):
    with pytest.raises(RunError, match="is empty"):
        Sentences.of(corpus[:0], corpus.vocabulary, corpus.outcomes)


@fused
def _exp_of(x, out):
    for k in range(len(x)):
        out[k] = exp32(x[k])


def test_the_exponential_is_right_to_the_last_bits():
    x = np.linspace(-86, 87, 20_001).astype(np.float32)
    out = np.empty_like(x)
    _exp_of(x, out)
    exact = np.exp(x.astype(np.float64))
    assert np.abs(out / exact - 1).max() < 3e-7
    assert out.dtype == np.float32


@pytest.mark.parametrize(("kind", "limit"), [(torch.float64, 1e-12), (torch.float32, 3e-5)])
def test_the_compiled_treelstm_is_the_plain_one(sentences, kind, limit):
    torch.manual_seed(0)
    batch = Batch.of(sentences, np.arange(40))
    cell = TreeLSTM(12).to(kind)
    leaf = torch.randn(len(sentences.vocabulary), 24, dtype=kind, requires_grad=True)
    weights = [leaf, *cell.parameters()]
    outward = torch.randn(len(sentences.vocabulary) + len(batch.schedule), 12, dtype=kind)
    results = []
    for plain in (False, True):
        nodes = cell(batch.schedule, *leaf.chunk(2, 1), plain=plain)
        results.append([nodes.detach(), *torch.autograd.grad((nodes * outward).sum(), weights)])
    for fast, slow in zip(*results, strict=True):
        assert (fast - slow).abs().max() <= limit * slow.abs().max()


def test_nodes_cannot_be_differentiated_twice_by_mistake(sentences):
    batch, cell = Batch.of(sentences, np.arange(4)), TreeLSTM(4)
    leaf = torch.randn(len(sentences.vocabulary), 8, requires_grad=True)
    total = cell(batch.schedule, *leaf.chunk(2, 1)).sum()
    total.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="backward was called twice"):
        total.backward()
