"""Models of sentence pairs: the fast way is the slow way, questions are asked of the right parts, errors say so."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles_pairs as twins
from pomona.base.errors import RunError, SpecError
from pomona.data.task import generate
from pomona.models.inputs.pairs import ASKED, CLASSES, SentencePairs
from pomona.models.layers.aligned_tree import passed_to_parents
from pomona.models.layers.pair_heads import use_of_width
from pomona.models.model import MODELS, Shape, seeded
from pomona.models.pair.comptreentn import share_of_products
from pomona.models.pair.learned_tree import phrases_in, tree_of
from pomona.models.pair_model import PairModel, node_accuracy
from pomona.tasks.fair_nli.logic.aligned import OUTCOMES, aligned, generated_vocabulary
from pomona.tasks.fair_nli.logic.fragment import TARGETS
from pomona.tasks.fair_nli.logic.relations import Relation

NAMES = [entry.name for entry in MODELS.entries() if isinstance(MODELS.build(entry.name), PairModel)]
SMALL = {"width": 7, "hidden": 6}


@pytest.fixture(scope="module")
def corpus():
    return generate("fair_nli/hardest", "train", 3, train=1_500, dev=10, test=10, vocabulary=4)[600:]


@pytest.fixture(scope="module")
def feed(corpus):
    return SentencePairs.of(corpus, corpus.vocabulary, MODELS.build("cbow").words(corpus)[1])


def made(name, feed, **more):
    with seeded(2):
        return MODELS.build(name, {**SMALL, **more}).build(Shape(len(feed.vocabulary), 3)).double()


def by_question(answers, batch):
    """[12, batch] logits, in the order of TARGETS."""
    found = {}
    for kind, logits in answers.items():
        logits = logits[batch.words[kind].where] if logits.ndim == 2 else logits
        found |= dict(zip(ASKED[kind], logits, strict=True))
    return [found[node] for node in TARGETS]


VARIANTS = [(name, {"activation": activation}) for name in twins.TWINS for activation in ("relu", "tanh")]
VARIANTS += [(name, {"tying": tying}) for name in ("comptreenn", "comptreentn") for tying in ("type", "node")]
VARIANTS += [(name, {"inner": "softmax"}) for name in twins.TWINS if name != "relation_bottleneck"]
VARIANTS += [("noisy_channel", {"norm": False, "tying": "arity"}), ("relation_bottleneck", {"tying": "node"})]


@pytest.mark.parametrize(("name", "more"), VARIANTS)
def test_twelve_answers_and_gradients_are_those_of_the_twin(name, more, feed):
    if name == "relation_bottleneck":
        more = {**more, "channel": "soft"}  # the only channel whose gradient is the derivative of what it computes
    if name in ("noisy_channel", "learned_tree"):
        more = {**more, "noise": 0.0}
    if name == "learned_tree":
        more = {**more, "price": 0.0}  # see below
    module = made(name, feed, **more).train()
    rows = np.array([5, 17, 17, 200, 640, 3])  # a pair twice: its words are shared
    batch = feed.batch(rows)
    output = module(batch, torch.Generator().manual_seed(0))
    output.loss.backward()
    fast = {label: weight.grad.clone() for label, weight in module.named_parameters()}
    module.zero_grad()
    slow = [twins.TWINS[name](module, feed.tokens[row].tolist()) for row in rows]
    total = twins.loss(slow, feed.classes[rows].tolist())
    total.backward()
    assert torch.allclose(output.loss, total, rtol=0, atol=1e-12)
    for label, weight in module.named_parameters():
        assert torch.allclose(fast[label], weight.grad, rtol=0, atol=1e-11), label
    answers = by_question(module.eval().answers(batch, None), batch)
    for question, logits in enumerate(answers):
        assert torch.allclose(logits, torch.stack([one[question] for one in slow]), rtol=0, atol=1e-11)


SPANS_OF_NINE = [(first, last) for first in range(9) for last in range(first + 1, 10)]


def subtrees(tree):
    return [tree, *(part for half in tree for part in subtrees(half))] if isinstance(tree, tuple) else [tree]


def leaves(tree):
    return [leaf for half in tree for leaf in leaves(half)] if isinstance(tree, tuple) else [tree]


@pytest.mark.parametrize("name", NAMES)
def test_without_intermediate_questions_only_the_label_is_learned(name, feed):
    free = {"price": 0.0} if name == "learned_tree" else {}
    module = made(name, feed, intermediate=False, **free).train()
    batch = feed.batch(np.arange(20))
    output = module(batch, torch.Generator().manual_seed(0))
    expected = torch.nn.functional.cross_entropy(output.logits, batch.targets) / 12
    assert torch.allclose(output.loss, expected)
    assert set(module.kinds()) == {"label"}
    assert set(module.eval().kinds()) == set(ASKED)


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.sampled_from(SPANS_OF_NINE), st.floats(0, 10), min_size=45, max_size=45))
def test_the_tree_is_that_whose_nodes_carry_the_most(carried):
    def trees(first, last):
        if last - first == 1:
            return [(carried[first, last], first)]
        return [
            (carried[first, last] + left + right, (one, other))
            for cut in range(first + 1, last)
            for left, one in trees(first, cut)
            for right, other in trees(cut, last)
        ]

    small = {span: much if span[1] <= 6 else 0.0 for span, much in carried.items()}  # the rest hangs on as it likes
    inside = trees(0, 6)
    found = [part for part in subtrees(tree_of({**small, (0, 6): 1e6})) if leaves(part) == list(range(6))]
    best = max(total for total, _ in inside)
    assert any(tree == found[0] and total >= best - 1e-9 for total, tree in inside)


def test_phrases_are_found_if_they_are_nodes():
    assert phrases_in((0, ((1, 2), (3, (((4, 5), 6), (7, 8)))))) == 1
    assert phrases_in((0, ((1, 2), (3, (4, ((5, 6), (7, 8))))))) == 4 / 5  # the verb phrase is no node
    assert phrases_in((((((((0, 1), 2), 3), 4), 5), 6), (7, 8))) == 1 / 5


def test_a_span_that_always_says_the_same_carries_nothing(feed):
    module = made("learned_tree", feed).eval()
    tokens = feed.batch(np.arange(40)).tokens
    carried = module.carried(tokens)
    assert sorted(carried) == sorted(SPANS_OF_NINE)
    charts = [twins.learned_chart(module, tokens[row].tolist()) for row in range(40)]
    for span in ((2, 3), (3, 9), (0, 9)):
        vectors = torch.stack([chart[span] for chart in charts])
        wanted = 0.5 * ((vectors - vectors.mean(0)) ** 2).sum() / 39
        assert carried[span] == pytest.approx(wanted.item())
    with torch.no_grad():
        module.out["6"][3] = 0.0
    assert module.carried(tokens)[3, 9] == 0


def test_every_span_pays_for_its_length(feed):
    rows = np.array([5, 17, 200])
    batch, random = feed.batch(rows), torch.Generator()
    free, dear = (made("learned_tree", feed, noise=0.0, price=price).train() for price in (0.0, 0.5))
    charts = [twins.learned_chart(dear, feed.tokens[row].tolist()) for row in rows]
    assert len(charts[0]) == 45
    energy = sum(0.5 * (h @ h) for chart in charts for h in chart.values()) / len(rows)
    losses = [module(batch, random).loss for module in (free, dear)]
    assert torch.allclose(losses[1] - losses[0], 0.5 * energy / 12)
    wanted = torch.autograd.grad(0.5 * energy / 12, dear.out["9"])[0]
    found = [torch.autograd.grad(loss, module.out["9"])[0] for loss, module in zip(losses, (free, dear), strict=True)]
    assert torch.allclose(found[1] - found[0], wanted)


@pytest.mark.parametrize("name", NAMES)
def test_dropout_is_drawn_in_training_only(name, feed):
    module, plain = made(name, feed, dropout=0.3), made(name, feed)
    batch = feed.batch(np.arange(20))
    random = torch.Generator().manual_seed(0)
    assert torch.equal(module.eval()(batch, random).logits, plain.eval()(batch).logits)
    assert not torch.allclose(module.train()(batch, random).logits, module(batch, random).logits)


@pytest.mark.parametrize("name", NAMES)
def test_start_is_the_size_of_the_first_word_vectors_and_of_nothing_else(name, feed):
    before, usual = dict(made(name, feed).named_parameters()), MODELS.build(name, SMALL).start
    assert usual == (1.0 if name == "lstm_pair" else 0.3)  # what they were before there was a choice
    after = dict(made(name, feed, start=2.0).named_parameters())
    (words,) = {"word.vectors", "lstm.word"} & set(before)
    assert torch.allclose(after.pop(words), before.pop(words) * 2.0 / usual)
    assert all(torch.equal(after[one], before[one]) for one in before)
    for wrong in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(SpecError, match="start"):
            MODELS.build(name, {"start": wrong})


def test_products_have_a_larger_share_where_vectors_or_the_tensor_are_larger(feed):
    def share(**more):
        return share_of_products(made("comptreentn", feed, activation="tanh", **more), feed)

    usual, silent = share(), share(tensor=0.0)
    assert set(usual) == {"modifier", "phrase", "object", "negated", "label"}
    assert set(silent.values()) == {0.0}
    for kind in usual:
        assert share(start=0.1)[kind] < usual[kind] < share(start=1.0)[kind] < 1
        assert usual[kind] < share(tensor=3.0)[kind]
    # the products of word vectors grow with the square of their size, W's part with the size: 9 times the odds
    odds = [one["modifier"] / (1 - one["modifier"]) for one in (usual, share(start=0.9), share(tensor=3.0))]
    assert odds[1] == pytest.approx(9 * odds[0])
    assert odds[2] == pytest.approx(9 * odds[0])
    with pytest.raises(SpecError, match="tensor"):
        MODELS.build("comptreentn", {"tensor": -1.0})


def test_the_width_that_words_use_is_that_of_their_axes(feed):
    module = MODELS.build("cbow", SMALL).build(Shape(len(feed.vocabulary), 3))
    vectors = torch.zeros_like(module.word.vectors)
    vectors[:4] = torch.tensor([[3.0], [-3.0], [3.0], [-3.0]]) * torch.eye(7)[0]
    module.word.vectors.data = vectors + 5  # a shift of all says nothing
    assert use_of_width(module.word)["width"] == pytest.approx(1 / 7)
    module.word.vectors.data = torch.cat([torch.eye(7), -torch.eye(7)])
    assert use_of_width(module.word) == pytest.approx({"size": 1 / 7**0.5, "width": 1.0})


def test_heads_know_the_classes_of_every_question(feed):
    for kind, nodes in ASKED.items():
        for node in nodes:
            assert set(np.unique(feed.classes[:, TARGETS.index(node)])) == set(range(CLASSES[kind]))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 899), min_size=1, max_size=40))
def test_word_pairs_are_each_there_once_and_found_where_they_stand(feed, rows):
    batch = feed.batch(np.array(rows))
    for kind, columns in (("modifier", [1, 4, 7]), ("head", [2, 5, 8]), ("quantifier", [0, 6]), ("negation", [3])):
        pairs = batch.words[kind]
        assert torch.equal(pairs.premise[pairs.where], batch.tokens[:, 0, columns].T)
        assert torch.equal(pairs.hypothesis[pairs.where], batch.tokens[:, 1, columns].T)
        assert torch.equal(pairs.count, torch.bincount(pairs.where.flatten(), minlength=len(pairs.count)))
        slots = [pairs.where[slot] for slot in range(len(columns))]
        for slot, (first, last) in enumerate(zip(pairs.begin, pairs.begin[1:], strict=False)):
            assert ((slots[slot] >= first) & (slots[slot] < last)).all()
            assert (
                len(set(zip(pairs.premise[first:last].tolist(), pairs.hypothesis[first:last].tolist(), strict=True)))
                == last - first
            )
        if kind in ASKED:
            own = feed.classes[rows][:, [TARGETS.index(node) for node in ASKED[kind]]].T
            assert (batch.asked[kind][pairs.where].numpy() == own).all()


def test_swapping_the_sentences_asks_for_converse_relations(corpus, feed):
    """Premise and hypothesis change places: every relation becomes its converse, contradictions stay."""
    tokens = corpus.tokens.reshape(-1, 2, 9)[:, ::-1].reshape(-1, 18)
    turned = SentencePairs.of(
        aligned(tokens, corpus.vocabulary), corpus.vocabulary, ("entailment", "neutral", "contradiction")
    )
    four = [Relation.EQ, Relation.FWD, Relation.REV, Relation.IND]
    converse = {2: [0, 1], 4: [four.index(one.converse) for one in four], 7: [int(one.converse) for one in Relation]}
    for kind, nodes in ASKED.items():
        for node in nodes:
            before, after = (some.classes[:, TARGETS.index(node)] for some in (feed, turned))
            if kind == "label":
                assert ((before == 2) == (after == 2)).all()  # ^ and | are their own converses
                assert (before != after).any()
            else:
                assert (np.array(converse[CLASSES[kind]])[before] == after).all()


def test_accuracy_at_the_nodes_is_that_of_the_answers(feed):
    module = made("comptreenn", feed).eval()
    found = node_accuracy(module, feed, size=100)
    batch = feed.batch(np.arange(len(feed)))
    for question, logits in enumerate(by_question(module.answers(batch, None), batch)):
        right = (logits.argmax(-1).numpy() == feed.classes[:, question]).mean()
        assert found[TARGETS[question]] == pytest.approx(right)


def test_what_the_bottleneck_passes_on_depends_on_the_class_alone(feed):
    """Nodes of one predicted class pass on the same vector, whatever their words are."""
    module = made("relation_bottleneck", feed, channel="hard").eval()
    batch = feed.batch(np.arange(300))
    with torch.no_grad():
        logits, up = module.walk(batch, None)
    for kind in ("phrase", "object", "negated"):
        best = logits[kind].argmax(-1)
        assert torch.allclose(up[kind], module.table[kind][best])


@pytest.mark.parametrize("channel", ["softdet", "gold"])
def test_a_stopped_gradient_keeps_the_root_from_the_words(channel, feed):
    """Trained on the label alone, only the cell of the root and the nodes without a label learn anything."""
    module = made("relation_bottleneck", feed, channel=channel, intermediate=False).train()
    batch = feed.batch(np.arange(30))
    module(batch, torch.Generator().manual_seed(0)).loss.backward()
    reached = {name.split(".")[1] for name, weight in module.named_parameters()
               if name.startswith("cells") and weight.grad is not None and weight.grad.abs().max() > 0}  # fmt: skip
    assert reached == {"label", "quantifier"}


def test_noise_is_drawn_in_training_and_makes_no_vector_longer(feed):
    module = made("noisy_channel", feed, noise=3.0)
    batch = feed.batch(np.arange(30))
    with torch.no_grad():
        loud, quiet = (
            module.train().walk(batch, random)[1]["object"] for random in (torch.Generator().manual_seed(1), None)
        )
    assert torch.allclose(quiet.pow(2).mean(-1), torch.ones(1, 30, dtype=torch.float64), atol=1e-3)
    assert 2.5 < float((loud - quiet).std()) < 5  # its own noise, and what its children's does to it


def test_an_exchange_within_classes_changes_nothing_for_a_bottleneck(feed):
    """Its nodes pass on nothing but a class; a tree of free vectors passes on more, and answers differently."""
    some = SentencePairs(feed.tokens[:200], feed.classes[:200], feed.vocabulary)
    gold = made("relation_bottleneck", feed, channel="gold").train()
    gold.eval = lambda: gold  # in training this channel hands up the true classes
    for within, kept in passed_to_parents(gold, some).values():
        assert within == pytest.approx(0, abs=1e-12)
        assert kept == 1.0
    free = passed_to_parents(made("comptreenn", feed), some)
    assert free["object"][0] > 0.5
    assert free["object"][1] < 1.0


def test_words_that_were_never_seen_are_named(corpus):
    with pytest.raises(RunError, match=r"row 0 has the word '\w+', which the model has never seen"):
        SentencePairs.of(corpus, ("every", "some"), ("entailment",))
    with pytest.raises(RunError, match="is empty"):
        SentencePairs.of(corpus[:0], corpus.vocabulary, ("entailment",))


def test_labels_in_another_order_keep_their_meaning(corpus, feed):
    turned = SentencePairs.of(corpus, corpus.vocabulary, ("contradiction", "neutral", "entailment"))
    assert (turned.targets == 2 - feed.targets).all()
    assert OUTCOMES[7:10] == ("entailment", "neutral", "contradiction")
    assert len(generated_vocabulary(4)) == len(feed.vocabulary)


@pytest.mark.parametrize(
    ("name", "wrong", "said"),
    [
        ("cbow", {"weights": (1.0,)}, "one number, 0 or more, for each of modifier"),
        ("cbow", {"dropout": 1.0}, "dropout = 1.0: must be at least 0 and below 1"),
        ("comptreenn", {"tying": "kind"}, "tying"),
        ("comptreenn", {"activation": "gelu"}, "activation"),
        ("relation_bottleneck", {"channel": "wide"}, "channel"),
        ("relation_bottleneck", {"where": ("root",)}, "some of modifier"),
        ("relation_bottleneck", {"layers": 3}, "layers"),
        ("noisy_channel", {"noise": -1.0}, "noise = -1.0"),
    ],
)
def test_wrong_settings_are_refused(name, wrong, said):
    with pytest.raises(SpecError, match=said):
        MODELS.build(name, wrong)
