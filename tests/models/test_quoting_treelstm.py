"""The oracle's graph is the trees with every COPY led back to its node; values and gradients are those of recursion."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pomona.base.errors import RunError
from pomona.data.task import generate
from pomona.models.model import MODELS, Shape, seeded
from pomona.trees.links import positions

FEW = {"train": 60, "dev": 5, "test": 5, "iid": 0}


@pytest.fixture(scope="module")
def corpus():
    return generate("orchard/medium/min-max", "train", 5, **FEW)


def built(corpus, **settings):
    model = MODELS.build("quoting_treelstm", {"width": 6, **settings})
    vocabulary, outcomes = model.words(corpus)
    with seeded(3):
        module = model.build(Shape(len(vocabulary), len(outcomes))).double()
    return module, vocabulary, model.read(corpus, vocabulary, outcomes)


def recursive(module, vocabulary, example):
    """h at the root of each tree by recursion; COPY n is evaluated as the n-th node of the first tree."""
    forest = example.trees
    place = positions(forest, 2)
    first = {int(place[node]): node for node in range(forest.start[1])}
    words = {word: number for number, word in enumerate(vocabulary)}
    leaf_h, leaf_c = module.leaf.chunk(2, 1)
    children, at = forest.children[1], forest.children[0]

    def state(node):
        if forest.links[node]:
            return state(first[int(place[node - forest.links[node]])])
        number = words[forest.names[forest.symbol[node]]]
        made = leaf_h[number], leaf_c[number]
        if forest.arity[node]:
            for child in children[at[node] : at[node + 1]]:
                made = module.cell.pair(*made, *state(int(child)))
            made = module.cell.pair(*made, leaf_h[words["]"]], leaf_c[words["]"]])
        return made

    return torch.stack([state(int(root))[0] for root in forest.root])


def test_values_and_gradients_are_those_of_recursion(corpus):
    module, vocabulary, feed = built(corpus, node_weight=0.0)
    rows = np.array([4, 11, 30])
    fast = module(feed.batch(rows)).logits
    slow = torch.stack([module.classifier(recursive(module, vocabulary, corpus[int(row)])) for row in rows])
    assert torch.allclose(fast, slow, rtol=0, atol=1e-12)
    weigh = torch.randn_like(fast)
    weights = list(module.parameters())
    one, two = (torch.autograd.grad((logits * weigh).sum(), weights) for logits in (fast, slow))
    assert all(torch.allclose(a, b, rtol=0, atol=1e-11) for a, b in zip(one, two, strict=True))


def test_every_list_is_supervised_with_its_value(corpus):
    module, _, feed = built(corpus)
    rows = np.array([2, 9])
    batch = feed.batch(rows)
    inner = [int((~corpus[int(row)].trees.leaf).sum()) for row in rows]
    assert len(batch.lists) == sum(inner)
    expected = [
        value
        for row in rows
        for value, leaf in zip(corpus[int(row)].values, corpus[int(row)].trees.leaf, strict=True)
        if not leaf
    ]
    assert batch.values.tolist() == expected
    assert module.train()(batch).penalty > 0
    assert module.eval()(batch).penalty is None


def test_lists_with_equal_content_are_computed_once(corpus):
    _, _, feed = built(corpus)
    twice, once = feed.batch(np.array([3, 3])), feed.batch(np.array([3]))
    assert len(twice.schedule) == len(once.schedule)


def test_answers_as_pairs_and_unknown_operators_are_errors(corpus):
    paired = generate("orchard/easy/first-last", "train", 1, target="pair", **FEW)
    with pytest.raises(RunError, match="answers each tree by itself"):
        built(paired)
    model = MODELS.build("quoting_treelstm")
    other = generate("orchard/easy/first-last", "train", 1, **FEW)
    with pytest.raises(RunError, match="which the model has never seen"):
        model.read(other, *model.words(corpus))
