"""Sequences: what is laid out is what the corpus holds, unknown words are one word, and too long is an error."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import oracles_orchard as oracle
import pomona as pm
import pomona.models.inputs.sequences
from pomona.base.errors import RunError, SpecError
from pomona.data.task import generate
from pomona.evaluation.measure import measure
from pomona.evaluation.subjects import evaluate
from pomona.models.inputs.sequences import EOS, MALFORMED, SPECIAL, UNKNOWN, Sequences, words_of
from pomona.models.model import MODELS, Shape, seeded
from pomona.training.predictions import Predictions

FEW = {"train": 80, "dev": 5, "test": 30, "iid": 0}


@pytest.fixture(scope="module")
def corpus():
    return generate("orchard/hard/min-max", "train", 5, **FEW)


@pytest.fixture(scope="module")
def deep():
    return generate("orchard/hard/min-max", "test-12", 5, **FEW)


def test_tokens_answers_heads_and_nesting_are_those_of_the_corpus(corpus):
    vocabulary, outcomes = words_of(corpus)
    assert vocabulary[:4] == SPECIAL
    assert outcomes == (*range(10), MALFORMED)
    feed = Sequences.of(corpus, vocabulary, outcomes)
    rows = np.array([7, 3, 40])
    batch = feed.batch(rows)
    for place, row in enumerate(rows.tolist()):
        example = corpus[row]
        words = [vocabulary[token] for token in batch.tokens[place, : batch.lengths[place]].tolist()]
        assert words == [*example.tokens, "<eos>"]
        assert batch.tokens[place, batch.lengths[place] :].sum() == 0
        assert tuple(batch.targets[place].tolist()) == example.target
        assert batch.heads[place].tolist() == [0, example.tokens.index("X") + 1]
        assert int(batch.nesting[place]) >= example.nesting  # a COPY's own bracket counts as well
        flat = batch.flat[batch.start[place] : batch.start[place + 1]]
        assert flat.tolist() == batch.tokens[place, : batch.lengths[place]].tolist()
    states = torch.arange(len(batch.flat), dtype=torch.float64)[:, None]
    beside = batch.beside(states)
    assert beside[batch.inside].tolist() == states.tolist()
    assert beside[~batch.inside].abs().sum() == 0


@pytest.mark.parametrize(
    ("task", "settings"),
    [("orchard/hard/min-max", {}), ("orchard/medium/first-last", {"copies": "digits"}), ("orchard/easy/min-max", {})],
)
def test_every_list_is_where_it_opens_and_has_its_value(task, settings):
    corpus = generate(task, "train", 3, **FEW, **settings)
    feed = Sequences.of(corpus, *words_of(corpus))
    rows = np.array([11, 2, 2, 60])
    batch = feed.batch(rows)
    found = {
        (row, place): value for (row, place), value in zip(batch.lists.tolist(), batch.values.tolist(), strict=True)
    }
    wanted = {}
    for number, row in enumerate(rows.tolist()):
        words = corpus[row].tokens
        earlier = oracle.parse(" ".join(words))
        for place, word in enumerate(words):
            if word.startswith("["):
                level, end = 1, place
                while level:
                    end += 1
                    level += words[end].startswith("[") - (words[end] == "]")
                (alone,) = oracle.parse(" ".join(words[place : end + 1]))
                wanted[number, place] = oracle.value(alone, earlier)
    assert found == wanted
    assert len(batch.values) == len(wanted)


@pytest.mark.parametrize("name", ["seq2seq_transformer", "looped_transformer", "data_router"])
def test_the_lists_count_as_much_as_they_are_weighed(corpus, name):
    """The penalty, list by list and by hand; answers and parameters are those of a model that is asked nothing more."""
    small = {"width": 8, "inner": 8, "heads": 2}
    with seeded(1):
        plain = MODELS.build(name, small).build(Shape(99, 11))
    with seeded(1):
        asked = MODELS.build(name, {**small, "node_weight": 0.5}).build(Shape(99, 11))
    batch = Sequences.of(corpus, *words_of(corpus)).batch(np.array([4, 9, 31]))
    kept = []
    asked.heads.register_forward_pre_hook(lambda module, given: kept.append(given[0]))
    output = asked.train()(batch)
    # Without lists to ask for, the Transformer computes its last layer at the answers only: other sums, other rounding.
    rounding = 1e-6 if name == "seq2seq_transformer" else 0.0
    torch.testing.assert_close(output.logits, plain.train()(batch).logits, rtol=rounding, atol=rounding)
    assert plain(batch).penalty is None
    losses = []
    for (row, place), answer in zip(batch.lists.tolist(), batch.values.tolist(), strict=True):
        head = asked.heads[int(place >= int(batch.heads[row, 1]))]
        losses.append(-head(kept[0][row, place]).log_softmax(0)[answer])
    torch.testing.assert_close(output.penalty, 0.5 * torch.stack(losses).mean())
    assert asked.eval()(batch).penalty is None


def test_texts_whose_brackets_are_no_nodes_have_no_lists(tmp_path):
    path = tmp_path / "own.jsonl"
    path.write_text('{"tree": {"type": "a", "value": 1}, "tokens": ["]", "[x", "]", "]", "a"]}\n' * 3)
    corpus = pm.read(path)
    batch = Sequences.of(corpus, *words_of(corpus)).batch(np.arange(2))
    assert batch.lists.shape == (0, 2)
    small = {"width": 8, "inner": 8, "heads": 2, "answers": 1, "node_weight": 1.0}
    module = MODELS.build("looped_transformer", small).build(Shape(99, 2))
    with pytest.raises(RunError, match="brackets are the nodes of their trees, and these are not"):
        module.train()(batch)


def test_lists_are_asked_of_heads_only():
    with pytest.raises(SpecError, match="node_weight"):
        MODELS.build("seq2seq_transformer", {"target": "pair", "node_weight": 1.0})
    with pytest.raises(SpecError, match="node_weight = -1"):
        MODELS.build("looped_transformer", {"node_weight": -1.0})


def test_words_that_were_not_in_training_are_one_word(corpus, deep):
    vocabulary, outcomes = words_of(corpus)
    feed = Sequences.of(deep, vocabulary, outcomes)
    strange = [word not in vocabulary for word in deep.vocabulary]
    unknown = np.array(strange)[deep.tokens]
    assert unknown.any()
    without_end = feed.tokens[feed.tokens != EOS]
    assert ((without_end == UNKNOWN) == unknown).all()


def test_scores_report_depth_malformed_answers_and_unknown_copies(corpus, deep):
    vocabulary, outcomes = words_of(corpus)
    wanted = deep.targets.astype(np.int64)
    answers = wanted.copy()
    answers[:10, 1] = 10  # malformed
    answers[10:15, 0] = (answers[10:15, 0] + 1) % 10
    logits = np.eye(11, dtype=np.float32)[answers]
    predictions = Predictions(deep.fingerprint, outcomes, logits, vocabulary=vocabulary)
    found = evaluate(predictions, deep, ladders=False)
    (group,) = found.by("nesting")
    assert (group.name, group.rows, group.questions, group.right, group.unparsed) == ("12", 30, (25, 20), 15, 10)
    assert group.interval[0] < 0.5 < group.interval[1]
    assert found.unparsed == 10
    arguments = [
        example.tokens[place + 1] for example in deep for place, word in enumerate(example.tokens) if word == "[COPY"
    ]
    unknown = measure("unknown-copies", found)["value"]
    assert unknown == pytest.approx(np.mean([one not in vocabulary for one in arguments]))
    assert unknown > 0


def test_too_long_is_an_error(corpus, monkeypatch):
    monkeypatch.setattr(pomona.models.inputs.sequences, "LONGEST", 30)
    with pytest.raises(RunError, match="models of sequences read at most 29"):
        Sequences.of(corpus, *words_of(corpus))


def test_answers_as_pairs_are_one_answer():
    paired = generate("orchard/easy/first-last", "train", 1, target="pair", **FEW)
    vocabulary, outcomes = words_of(paired)
    feed = Sequences.of(paired, vocabulary, outcomes)
    assert [(outcomes[answer],) for answer in feed.targets[:, 0]] == [example.target for example in paired]
    assert feed.heads.shape == (len(paired), 1)
    assert not feed.heads.any()


# -- the paper's sizes -------------------------------------------------------------------------------------------------

PAPER_LSTM = {"width": 512, "bidirectional": False, "target": "pair"}
PAPER_TRANSFORMER = {"width": 512, "layers": 6, "inner": 2048, "heads": 8, "norm": "post", "target": "pair"}


@pytest.mark.parametrize(
    ("name", "settings", "words", "count"),
    [
        ("seq2seq_lstm", PAPER_LSTM, 86, 6_189_160),
        ("seq2seq_lstm", PAPER_LSTM, 18, 6_156_392),
        ("seq2seq_lstm", {**PAPER_LSTM, "bidirectional": True}, 86, 9_864_296),
        ("seq2seq_transformer", PAPER_TRANSFORMER, 86, 44_290_048),
        ("seq2seq_transformer", PAPER_TRANSFORMER, 18, 44_257_280),
    ],
)
def test_parameters_are_as_many_as_in_the_paper(name, settings, words, count):
    with torch.device("meta"), seeded(0):
        module = MODELS.build(name, settings).build(Shape(words, 11))
    assert sum(weight.numel() for weight in module.parameters()) == count


STRANGE = ["<pad>", "<eos>", "<unk>", "]", "[", "]x", "[[", "ü", "日本", "malformed", "a b", "1", "", "\t", '"', "("]


@pytest.mark.parametrize("name", ["seq2seq_lstm", "seq2seq_transformer", "looped_transformer", "data_router"])
@pytest.mark.parametrize("target", ["heads", "pair", "tokens"])
def test_any_tokens_are_read_and_any_number_of_answers_is_given(name, target, tmp_path):
    """A user's own file: tokens that look like brackets or like words of ours, answers that are no values of nodes."""
    if target != "heads" and not name.startswith("seq2seq"):
        target = "heads"
    random = np.random.default_rng(3)
    lines = []
    for row in range(40):
        words = random.choice(STRANGE, random.integers(1, 7)).tolist()
        leaves = [{"type": "word", "value": word} for word in words]
        tree = {"type": "S", "children": leaves}
        lines.append(
            {"id": str(row), "tokens": words, "tree": tree, "target": [words[0], len(words) % 2 == 0, "malformed"]}
        )
    path = tmp_path / "own.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    corpus = pm.read(path)
    vocabulary, outcomes = words_of(corpus)
    assert len(set(vocabulary)) == len(vocabulary)
    assert outcomes.count("malformed") == 1
    assert outcomes[-1] not in corpus.outcomes
    feed = Sequences.of(corpus, vocabulary, outcomes)
    assert [outcomes[answer] for answer in feed.targets[:, 1]] == [line["target"][1] for line in lines]
    assert (feed.tokens != UNKNOWN).sum() == sum(
        len(line["tokens"]) + 1 - line["tokens"].count("<unk>") for line in lines
    )
    settings = {"width": 8, "answers": 0} | ({"target": target} if name.startswith("seq2seq") else {})
    recipe = pm.Recipe(name, settings, data=str(path), dev_rows=8, epochs=1)
    run = pm.train(recipe, tmp_path / "run")
    logits = pm.predict(run, corpus).logits
    assert logits.shape == (40, 3, len(outcomes))
    assert np.isfinite(logits).all()
