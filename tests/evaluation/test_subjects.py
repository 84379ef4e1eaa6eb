"""Whatever answers: functions and modules are asked in parts, and say what their numbers mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import pomona as pm
from evaluation_material import TASKS, data
from pomona.base.errors import MeasureError, RunError
from pomona.models.model import MODELS, Shape

# -- functions -------------------------------------------------------------------------------------------------------


def test_a_function_is_asked_in_parts_and_in_order() -> None:
    corpus = data("listops")
    lengths: list[int] = []
    right = dict(zip(corpus.texts, corpus.targets[:, 0].tolist(), strict=True))

    def answer(texts: list[str]) -> list[str]:
        lengths.append(len(texts))
        return [str(right[text]) for text in texts]

    found = pm.evaluate(answer, corpus, ladders=False, rows=50)
    assert (found.accuracy.value, found.name) == (1.0, "answer")
    assert lengths == [50, 50, 20]
    assert pm.evaluate(lambda texts: np.array([right[text] for text in texts]), corpus).accuracy.value == 1.0


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda texts: texts[1:], "was given a list of 120 strings and must give as many answers; got 119 answers"),
        (lambda texts: "7", "must give as many answers; got '7'"),
        (lambda texts: None, "must give as many answers; got None"),
    ],
)
def test_a_function_that_does_not_answer_each(answer: Any, words: str) -> None:
    with pytest.raises(MeasureError, match=words):
        pm.evaluate(answer, data("listops"), ladders=False)


@pytest.mark.parametrize("subject", [7, None, object()])
def test_what_cannot_answer(subject: Any) -> None:
    with pytest.raises(MeasureError, match="cannot be evaluated; give a file of answers"):
        pm.evaluate(subject, data("listops"))
    with pytest.raises(RunError, match="no run folder or file of answers 'nowhere'"):
        pm.evaluate("nowhere", data("listops"))


# -- modules ---------------------------------------------------------------------------------------------------------


class FirstToken(nn.Module):
    """Answers by a table over the first token; knows whether it was handed padding as padding."""

    def __init__(self, vocabulary: tuple[str, ...], outcomes: tuple[Any, ...], questions: int = 1) -> None:
        super().__init__()
        self.vocabulary, self.outcomes, self.questions = vocabulary, outcomes, questions
        torch.manual_seed(0)
        self.table = nn.Embedding(len(vocabulary), questions * len(outcomes))
        self.drop = nn.Dropout(0.9)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        assert ids.shape == mask.shape
        assert bool(mask[:, 0].all())
        assert bool((ids[~mask] == 0).all())
        logits: torch.Tensor = self.drop(self.table(ids[:, 0]))
        return logits.view(len(ids), self.questions, -1) if self.questions > 1 else logits


@pytest.mark.parametrize("name", TASKS)
def test_a_plain_module(name: str) -> None:
    corpus = data(name)
    answers = tuple(outcome for outcome in corpus.outcomes if name != "pairs" or isinstance(outcome, int))[::-1]
    module = FirstToken(tuple(sorted(corpus.vocabulary)), answers, corpus.width)
    module.train()
    found = pm.evaluate(module, corpus, ladders=False, rows=32)
    assert module.training  # as it was
    table = module.table.weight.detach().view(len(module.vocabulary), corpus.width, -1).argmax(2)
    expected = [
        [corpus.outcomes.index(answers[int(best)]) for best in table[module.vocabulary.index(one.tokens[0])]]
        for one in corpus
    ]
    assert found.given.tolist() == expected
    assert found.name == "FirstToken"


def test_a_module_says_what_its_numbers_mean() -> None:
    corpus = data("listops")
    module = FirstToken(corpus.vocabulary, corpus.outcomes)
    del module.vocabulary
    with pytest.raises(MeasureError, match=r"FirstToken has no attribute 'vocabulary'.*vocabulary=train.vocabulary"):
        pm.evaluate(module, corpus)
    same = pm.evaluate(module, corpus, vocabulary=corpus.vocabulary, ladders=False)
    turned = pm.evaluate(module, corpus, vocabulary=corpus.vocabulary[::-1], ladders=False)
    assert same.given.tolist() != turned.given.tolist()
    with pytest.raises(MeasureError, match=r"words that are not in the vocabulary: .*\[M"):
        pm.evaluate(module, corpus, vocabulary=("0", "1", "]"))
    with pytest.raises(MeasureError, match="gives 10 logits a question, and has 3 outcomes"):
        pm.evaluate(module, corpus, vocabulary=corpus.vocabulary, outcomes=(1, 2, 3))
    module.forward = lambda ids, mask: ids[0]  # type: ignore[assignment]
    with pytest.raises(MeasureError, match=r"must give logits \[\d+, outcomes\] or .*; got \[\d+\]"):
        pm.evaluate(module, corpus, vocabulary=corpus.vocabulary)


def test_a_module_that_parses() -> None:
    corpus = data("listops")

    class Parser(FirstToken):
        def parse(self, ids: torch.Tensor, mask: torch.Tensor) -> list[str]:
            return [
                " ".join(self.vocabulary[one] for one in row[kept].tolist())
                for row, kept in zip(ids, mask, strict=True)
            ]

    found = pm.evaluate(Parser(corpus.vocabulary, corpus.outcomes), corpus, ladders=False, rows=17)
    assert found.trees["f1_gold"].value == 1.0


def test_a_module_as_pomonas_own() -> None:
    corpus = data("listops")
    module = MODELS.build("treelstm", {"width": 8}).build(Shape(len(corpus.vocabulary), len(corpus.outcomes)))
    how = {"vocabulary": corpus.vocabulary, "outcomes": corpus.outcomes}
    found = pm.evaluate(module, corpus, ladders=False, **how)
    again = pm.evaluate(module, corpus, ladders=False, rows=7, **how)
    assert found.given.tolist() == again.given.tolist()
    assert found.trees["f1_gold"].value == 1.0  # it reads the gold trees
