"""Answers that are written: what a hypothesis says, greedy and beam search, and two ways to the same logits."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pomona.base.errors import SpecError
from pomona.data.task import generate
from pomona.models.inputs.sequences import BOS, EOS, PAD, UNKNOWN
from pomona.models.layers.decoder import Targets, beam_search, greedy, rounded, step_by_step
from pomona.models.model import MODELS, Shape, seeded

KINDS = ("pair", "tokens")
FEW = {"train": 60, "dev": 5, "test": 5, "iid": 0}


class Table:
    """A decoder that looks up the logits of the next token by all that it has written."""

    def __init__(self, rows, dictionary, length, seed):
        self.random = np.random.default_rng(seed)
        self.rows, self.dictionary, self.logits = rows, dictionary, {}

    def begin(self):
        return (torch.arange(self.rows)[:, None],)

    def step(self, token, state):
        state = torch.cat([state[0], token[:, None]], 1)
        for key in map(tuple, state.tolist()):
            if key not in self.logits:
                self.logits[key] = torch.from_numpy(self.random.normal(size=self.dictionary) * 2)
        return torch.stack([self.logits[tuple(key)] for key in state.tolist()]), (state,)

    def taught(self, gold):
        return step_by_step(self, gold)


class Chances(Table):
    """The same with a state of numbers, as beam search wants its scores in."""

    def begin(self):
        return (torch.arange(self.rows, dtype=torch.float64)[:, None],)

    def step(self, token, state):
        logits, (state,) = super().step(token.double(), state)
        return logits, (state,)


@pytest.mark.parametrize("kind", KINDS)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=5))
def test_gold_is_read_as_it_was_meant(kind, answers):
    targets = Targets(kind, 2, 11)
    wanted = torch.tensor(answers)
    gold = targets.gold(wanted)
    assert gold.shape == (len(answers), targets.length)
    assert targets.read(gold).tolist() == wanted.tolist()
    scores = torch.nn.functional.one_hot(gold, targets.dictionary).double()
    assert targets.scores(gold, scores).argmax(2).tolist() == wanted.tolist()
    assert targets.scores(gold).argmax(2).tolist() == wanted.tolist()


def test_dictionaries_are_those_of_the_specification():
    assert Targets("pair", 2, 11).dictionary == 104
    assert Targets("tokens", 2, 11).dictionary == 16
    assert (rounded(86), rounded(88), rounded(18)) == (88, 88, 24)


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        ("pair", [EOS, PAD]),
        ("pair", [UNKNOWN, EOS]),
        ("pair", [7, 8]),  # never ends
        ("tokens", [4, EOS, PAD]),
        ("tokens", [EOS, PAD, PAD]),
        ("tokens", [4, 5, 6]),
        ("tokens", [4, 15, EOS]),  # a row of the table that no word stands for
        ("tokens", [BOS, 5, EOS]),
    ],
)
def test_what_is_no_answer_is_malformed_in_all_its_answers(kind, written):
    targets = Targets(kind, 2, 11)
    hypothesis = torch.tensor([written])
    assert targets.read(hypothesis).tolist() == [[10, 10]]
    steps = torch.randn(1, targets.length, targets.dictionary)
    assert targets.scores(hypothesis, steps).argmax(2).tolist() == [[10, 10]]
    assert targets.scores(hypothesis).argmax(2).tolist() == [[10, 10]]


def test_unknown_answers_do_not_count():
    targets = Targets("pair", 2, 11)
    assert targets.gold(torch.tensor([[3, -1]])).tolist() == [[-1, EOS]]
    logits = torch.zeros(1, 2, 104)
    assert math.isclose(float(targets.loss(logits, torch.tensor([[3, -1]]))), math.log(104), rel_tol=1e-6)


def test_too_many_words_are_an_error():
    with pytest.raises(SpecError, match="needs 100,000 words; choose 'tokens' or 'heads'"):
        Targets("pair", 5, 11)


@given(st.integers(0, 10_000))
def test_a_beam_of_one_is_greedy(seed):
    table = Chances(3, 9, 3, seed)
    written, _ = greedy(table, 3, 3)
    assert beam_search(table, 3, 3, 1).tolist() == written.tolist()


def best_of_all(table, row, words, length):
    """The finished hypothesis with the highest mean log probability, by trying all."""
    best, best_score = None, -math.inf
    for size in range(length):
        for middle in itertools.product([word for word in range(1, words) if word != EOS], repeat=size):
            state, token, score = (torch.tensor([[float(row)]], dtype=torch.float64),), BOS, 0.0
            for word in (*middle, EOS):
                logits, state = table.step(torch.tensor([token]), state)
                logits[:, PAD] = -math.inf
                score, token = score + float(logits.log_softmax(1)[0, word]), word
            if score / (size + 1) > best_score:
                best, best_score = [*middle, EOS, *[PAD] * (length - size - 1)], score / (size + 1)
    return best


@given(st.integers(0, 10_000))
def test_a_wide_beam_finds_the_best_hypothesis(seed):
    table = Chances(2, 5, 3, seed)
    found = beam_search(table, 2, 3, 40)
    assert found.tolist() == [best_of_all(table, row, 5, 3) for row in range(2)]


@pytest.fixture(scope="module")
def corpus():
    return generate("orchard/hard/first-last", "train", 5, **FEW)


def built(name, corpus, **settings):
    model = MODELS.build(name, {"width": 16, **settings})
    vocabulary, outcomes = model.words(corpus)
    with seeded(3):
        module = model.build(Shape(len(vocabulary), len(outcomes)))
    return module, model.read(corpus, vocabulary, outcomes)


WRITERS = [
    ("seq2seq_lstm", {"bidirectional": False}),
    ("seq2seq_lstm", {"bidirectional": True}),
    ("seq2seq_transformer", {"layers": 2, "norm": "post"}),
    ("seq2seq_transformer", {"layers": 2, "norm": "pre"}),
]


def decoder_about(module, batch):
    if hasattr(module, "decoder"):
        from pomona.models.sequence.seq2seq_transformer import BatchDecoder

        return BatchDecoder(module, module.encode(batch), batch.inside, None)
    from pomona.models.sequence.seq2seq_lstm import BatchDecoder

    states, h, c = module.encode(batch)
    return BatchDecoder(module.heads, batch.beside(states), h, c, batch.inside, 0.0, None)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("name", "settings"), WRITERS)
def test_taught_and_stepwise_logits_agree(corpus, name, settings, kind):
    module, feed = built(name, corpus, target=kind, **settings)
    module = module.double().eval()
    batch = feed.batch(np.arange(6))
    decoder = decoder_about(module, batch)
    gold = module.targets.gold(batch.targets)
    with torch.no_grad():
        assert torch.allclose(decoder.taught(gold), step_by_step(decoder, gold), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("name", "settings"), WRITERS)
def test_a_model_with_a_beam_of_one_says_what_it_says_greedily(corpus, name, settings, kind):
    module, feed = built(name, corpus, target=kind, **settings)
    batch = feed.batch(np.arange(20))
    decoder = decoder_about(module.eval(), batch)
    with torch.no_grad():
        written, _ = greedy(decoder, 20, module.targets.length)
        assert beam_search(decoder, 20, module.targets.length, 1).tolist() == written.tolist()
        said = module(batch).logits.argmax(2)
    assert said.tolist() == module.targets.read(written).tolist()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["seq2seq_lstm", "seq2seq_transformer"])
def test_what_is_written_can_be_learned(corpus, name, kind):
    settings = {"width": 32, **({"layers": 1} if name == "seq2seq_transformer" else {})}
    module, feed = built(name, corpus, target=kind, **settings)
    batch = feed.batch(np.argsort(feed.lengths)[:4])
    adam = torch.optim.Adam(module.parameters(), 3e-3)
    for _ in range(400):
        loss = module.train()(batch).loss
        adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        adam.step()
        if loss < 0.1:
            break
    beams, _ = built(name, corpus, target=kind, beam=3, **settings)
    beams.load_state_dict(module.state_dict())
    with torch.no_grad():
        assert (module.eval()(batch).logits.argmax(2) == batch.targets).all()
        assert (beams.eval()(batch).logits.argmax(2) == batch.targets).all()
