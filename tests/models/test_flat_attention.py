"""Reads over flat sequences are those over padded ones, with the same gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pomona.data.task import generate
from pomona.models.inputs.sequences import words_of
from pomona.models.layers.flat_attention import read_flat
from pomona.models.model import MODELS, Shape, seeded
from pomona.models.sequence.seq2seq_lstm import attend


def reads(lengths, count, memory, seed, kind, size=1.0):
    random = torch.Generator().manual_seed(seed)
    start = np.concatenate([[0], np.cumsum(lengths)])
    shapes = (len(lengths), count, memory), (int(start[-1]), memory), (len(lengths), count, memory)
    query, states, weigh = (size * torch.randn(shape, generator=random, dtype=kind) for shape in shapes)
    return query.requires_grad_(), states.requires_grad_(), weigh, start


def with_gradients(out, query, states, weigh):
    return [out.detach(), *torch.autograd.grad((out * weigh).sum(), (query, states))]


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(1, 3), st.integers(1, 20), st.integers(0, 1 << 30)
)
@settings(max_examples=40)
def test_flat_reads_and_their_gradients_are_those_of_plain_torch(lengths, count, memory, seed):
    query, states, weigh, start = reads(lengths, count, memory, seed, torch.float64)
    fast = with_gradients(read_flat(query, states, start), query, states, weigh)
    slow = with_gradients(read_flat(query, states, start, plain=True), query, states, weigh)
    for one, two in zip(fast, slow, strict=True):
        assert torch.allclose(one, two, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("size", [1.0, 40.0])  # the second: one state has all of the weight
def test_in_32_bits_they_are_near_those_in_64(size):
    lengths = [1, 70, 33, 200]
    query, states, weigh, start = reads(lengths, 2, 96, 3, torch.float32, size)
    fast = with_gradients(read_flat(query, states, start), query, states, weigh)
    query, states, weigh = (x.detach().double().requires_grad_() for x in (query, states, weigh))
    slow = with_gradients(read_flat(query, states, start, plain=True), query, states, weigh)
    for one, two in zip(fast, slow, strict=True):
        assert torch.isfinite(one).all()
        assert (one - two).abs().max() <= 1e-4 * max(1.0, float(two.abs().max()))


@pytest.mark.parametrize("bidirectional", [False, True])
def test_the_lstm_answers_as_with_padded_attention(bidirectional):
    """The former way: states side by side with zeros behind the end, a masked softmax for each answer."""
    corpus = generate("orchard/hard/min-max", "train", 5, train=80, dev=5, test=5, iid=0)
    model = MODELS.build("seq2seq_lstm", {"width": 12, "bidirectional": bidirectional})
    vocabulary, outcomes = words_of(corpus)
    with seeded(0):
        module = model.build(Shape(len(vocabulary), len(outcomes))).double()
    batch = model.read(corpus, vocabulary, outcomes).batch(np.arange(16))

    def padded():
        states, last, _ = module.encode(batch)
        beside = batch.beside(states)
        read = [attend(query(last), beside, batch.inside) for query in module.heads.query]
        pairs = zip(module.heads.head, read, strict=True)
        return torch.stack([head(torch.cat([part, last], 1)) for head, part in pairs], 1)

    weigh = torch.randn(16, 2, 10, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    results = []
    for logits in (module(batch).logits[:, :, :10], padded()):
        results.append([logits.detach(), *torch.autograd.grad((logits * weigh).sum(), list(module.parameters()))])
    for one, two in zip(*results, strict=True):
        assert torch.allclose(one, two, rtol=1e-9, atol=1e-12)
