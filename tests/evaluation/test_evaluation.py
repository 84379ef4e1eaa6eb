"""One room for every model: what is measured, for every task, from a file, a function, a module, a run or an import."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import pomona as pm
from pomona.base.errors import FormatError, MeasureError, RunError, SpecError
from pomona.data.answers import Answers, answers_given, ids_of
from pomona.data.groups import FIELDS, groups_of
from pomona.evaluation.accuracy import accuracy, wilson
from pomona.evaluation.baselines import Baselines
from pomona.evaluation.evaluation import Evaluation
from pomona.evaluation.parse_f1 import parse_f1
from pomona.models.model import MODELS, Shape
from pomona.trees import brackets
from pomona.trees.binary import binarise, branching

SMALL = {"train": 200, "dev": 10, "test": 120}


@cache
def data(name: str) -> pm.Corpus:
    if name == "orchard":
        return pm.generate("orchard/hard/min-max", split="test-5", seed=3, iid=10, **SMALL)
    if name == "pairs":
        return pm.generate("orchard/hard/min-max", split="test-5", seed=3, iid=10, target="pair", **SMALL)
    if name == "nli":
        return pm.generate("fair_nli/hardest", split="test", size=120)
    if name == "propositional":
        return pm.generate("propositional/deep", split="test", size=120)
    return pm.generate("listops/d20s", split="test", seed=3, **SMALL)


TASKS = ["listops", "orchard", "pairs", "nli", "propositional"]


def said(corpus: pm.Corpus, wrong: int = 0, unparsed: int = 0) -> list[Any]:
    """Right answers as text, but for the first few, which are wrong or cannot be read."""
    texts = [",".join(map(str, one.target)) for one in corpus]
    other = texts[wrong : wrong + 1]
    for row in range(wrong):
        candidates = [text for text in texts if not set(text.split(",")) & set(texts[row].split(","))]
        texts[row] = candidates[0] if candidates else other[0]
    return [*texts[:wrong], *["what?"] * unparsed, *texts[wrong + unparsed :]]


# -- what is counted -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TASKS)
def test_right_wrong_and_unparsed_for_every_task(name: str) -> None:
    corpus = data(name)
    found = pm.evaluate(said(corpus, 7, 5), corpus, ladders=False)
    assert (int(found.right.sum()), found.wrong, found.unparsed) == (len(corpus) - 12, 7, 5)
    assert found.accuracy.value == (len(corpus) - 12) / len(corpus)
    assert found.accuracy.interval == wilson(len(corpus) - 12, len(corpus))
    assert len(found.questions) == corpus.width
    for what in FIELDS:
        groups = found.by(what)
        assert sum(one.rows for one in groups) == len(corpus)
        assert sum(one.right for one in groups) == len(corpus) - 12
        assert sum(one.unparsed for one in groups) == 5
    assert json.loads(json.dumps(found.as_dict(), allow_nan=False))["rows"] == len(corpus)
    assert "5 unparsed" in str(found)


def test_first_second_and_both_answers() -> None:
    corpus = data("orchard")
    given = corpus.targets.astype(np.int64).copy()
    given[:30, 1] = (given[:30, 1] + 1) % 10
    given[20:40, 0] = -1
    found = Evaluation.of(corpus, Answers("mine", given))
    assert [one.value for one in found.questions] == [100 / 120, 90 / 120]
    assert found.accuracy.value == 80 / 120
    assert (found.wrong, found.unparsed) == (20, 20)


def test_groups_are_what_they_say() -> None:
    corpus = data("listops")
    names, numbers = groups_of(corpus, "operator")
    roots = [one.trees.names[int(one.trees.symbol[-1])] for one in corpus]
    assert [names[number] for number in numbers] == [
        root if one.nesting else "one token" for root, one in zip(roots, corpus, strict=True)
    ]
    names, numbers = groups_of(corpus, "arity")
    assert [int(names[number]) for number in numbers] == [
        len(one.trees.nested()[0]) - 1 if one.nesting else 0 for one in corpus
    ]
    for what in ("nesting", "dependency", "length"):
        names, numbers = groups_of(corpus, what)
        amounts = [getattr(one, what) for one in corpus]
        for name, amount in zip([names[number] for number in numbers], amounts, strict=True):
            low, _, high = name.removeprefix("<").removesuffix("+").partition("-")
            if name.startswith("<"):
                assert amount < int(low)
            elif name.endswith("+"):
                assert amount >= int(low)
            else:
                assert int(low) <= amount <= int(high or low)
    with pytest.raises(MeasureError, match=r"cannot be grouped by 'nestin'. Did you mean 'nesting'"):
        groups_of(corpus, "nestin")


def test_derivations_forget_the_digits_and_nothing_else() -> None:
    texts = ["[MAX 2 [MIN 3 4 ] ]", "[MAX 9 [MIN 0 0 ] ]", "[MAX [MIN 3 4 ] 2 ]", "[MAX 2 [MAX 3 4 ] ]", "[MAX 2 3 4 ]"]
    from pomona.data.task import corpus_of_trees

    numbers = groups_of(corpus_of_trees(brackets.read(texts)), "derivation")[1].tolist()
    assert numbers[0] == numbers[1]
    assert len({numbers[0], *numbers[2:]}) == 4


def test_columns_of_your_own_are_groups(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    rows = [{"tree": {"type": "yes", "value": "yes"}, "source": f"s{row % 3}", "id": row} for row in range(9)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    corpus = pm.read(path)
    found = pm.evaluate(["yes"] * 8 + ["no"], corpus, ladders=False)
    assert [(one.name, one.right) for one in found.by("source")] == [("s0", 3), ("s1", 3), ("s2", 2)]
    assert found.unparsed == 1  # "no" is no value of any node there


@pytest.mark.parametrize("name", TASKS)
def test_the_ladder_stands_beside_and_what_does_not_apply_is_told(name: str) -> None:
    corpus = data(name)
    found = pm.evaluate(said(corpus), corpus)
    assert found.ladder is not None
    assert "most frequent answer" in {rung.name for rung in found.ladder.rungs}
    digits = name in ("listops", "orchard", "pairs")
    assert len(found.depths) == (corpus.width if digits else 0)
    assert bool(found.notes) != digits
    if digits:
        assert found.depths[0].depth == float("inf")
        assert "train" in found.ladder.learnt_from
    else:
        assert found.notes[0].startswith("No effective depth: ")


def test_examples_without_answers_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text('{"tree": {"type": "a", "value": 1}, "id": "x"}\n{"tree": {"type": "b"}, "id": "y"}\n')
    with pytest.raises(MeasureError, match=r"1 of 2 examples have no known answer .first: 'y'"):
        pm.evaluate([1, None], pm.read(path))  # what is unknown and what was not said are not the same answer
    with pytest.raises(MeasureError, match="is empty: there is nothing to evaluate on"):
        Evaluation.of(data("listops")[:0], Answers("none", np.zeros((0, 1), np.int64)))
    file = tmp_path / "nothing.jsonl"
    file.write_text('{"tree": {"type": "a"}, "target": []}\n')
    with pytest.raises(MeasureError, match="asks for nothing"):
        Evaluation.of(pm.read(file), Answers("none", np.zeros((1, 0), np.int64)))


# -- trees -----------------------------------------------------------------------------------------------------------


def test_trees_are_measured_where_they_are_given(tmp_path: Path) -> None:
    corpus = data("listops")
    rows = [
        {"id": name, "prediction": 0, "tree": text} for name, text in zip(ids_of(corpus), corpus.texts, strict=True)
    ]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = pm.evaluate(path, corpus, ladders=False)
    assert found.trees["f1_gold"].value == found.trees["list_recall"].value == 1.0
    gold = binarise(corpus.forest)
    assert found.trees["f1_right"].value == parse_f1(gold, branching(corpus.lengths, "right")).value < 1
    assert found.as_dict()["trees"]["f1_gold"]["interval"] == [1.0, 1.0]
    assert not pm.evaluate(said(corpus), corpus, ladders=False).trees


def test_trees_that_have_nothing_to_stand_beside(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    node = {"type": "MAX", "value": 2, "children": [{"type": "2", "value": 2}]}
    path.write_text(json.dumps({"tree": node, "text": "the larger of two", "id": "x"}) + "\n")
    answers = tmp_path / "a.jsonl"
    tree = "( ( the larger ) ( of two ) )"
    answers.write_text(json.dumps({"id": "x", "prediction": 2, "tree": tree}) + "\n")
    found = pm.evaluate(answers, pm.read(path), ladders=False)
    assert (found.accuracy.value, dict(found.trees)) == (1.0, {})
    assert found.notes[0].startswith("No scores of trees: the trees of ")
    assert "do not stand over its tokens" in found.notes[0]
    with pytest.raises(MeasureError, match="do not stand over its tokens"):
        pm.evaluate(answers, pm.read(path), ladders=False, measures=["parse-f1"])


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


# -- runs, files and imports -----------------------------------------------------------------------------------------

OWN = '''
from dataclasses import dataclass
import torch
from torch import nn
from pomona.models.model import Model, Output

class Module(nn.Module):
    def __init__(self, width, shape):
        super().__init__()
        self.words = nn.Embedding(shape.vocabulary, width)
        self.out = nn.Linear(width, shape.classes)
    def forward(self, batch, random=None):
        kept = torch.arange(batch.tokens.shape[1]) < batch.lengths[:, None]
        return Output(self.out((self.words(batch.tokens) * kept[..., None]).sum(1)))

@dataclass(frozen=True)
class Bag(Model):
    """A bag of words."""
    width: int = 8
    def build(self, shape):
        return Module(self.width, shape)

def answer(texts):
    return [text.split()[-1] for text in texts]

class Fixed:
    def __call__(self, texts):
        return ["4"] * len(texts)

class Needy:
    def __init__(self, what): ...

number = 7
'''


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of somebody's own in the working folder."""
    monkeypatch.chdir(tmp_path)
    name = f"somebodys_{abs(hash(str(tmp_path))) % 10**9}"
    (tmp_path / f"{name}.py").write_text(OWN)
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    return name


def test_code_by_name(own: str) -> None:
    corpus = data("listops")
    found = pm.evaluate(f"{own}:answer", corpus, ladders=False)
    assert found.given.tolist() == answers_given(corpus, [text.split()[-1] for text in corpus.texts]).tolist()
    assert found.name == f"{own}:answer"
    assert set(pm.evaluate(f"{own}:Fixed", corpus, ladders=False).given[:, 0]) == {4}
    for name, kind, words in (
        (f"{own}:anser", SpecError, "has no 'anser'. Did you mean 'answer'"),
        (f"{own}x:answer", SpecError, f"there is no module '{own}x', neither installed nor in "),
        (f"{own}:Needy", SpecError, "Needy.. could not be made"),
        (f"{own}:Bag", SpecError, "Bag is the settings of a model; train it"),
        (f"{own}:number", MeasureError, "int cannot be evaluated"),
    ):
        with pytest.raises(kind, match=words):
            pm.evaluate(name, corpus)


def test_a_model_of_your_own_trains_and_is_trusted_only_when_named(own: str, tmp_path: Path) -> None:
    name = f"{own}:Bag"
    with pytest.raises(SpecError, match=f"is code of your own, and was not imported: add --import {own}"):
        MODELS.build(name)
    MODELS.trust(own)
    recipe = pm.Recipe(name, {"width": 4}, data="listops/d20s", data_settings=SMALL, epochs=1, dev_rows=10)
    run = pm.train(recipe, tmp_path / "run")
    corpus = data("listops")
    found = pm.evaluate(run, corpus, ladders=False)
    assert found.given.tolist() == pm.evaluate(str(tmp_path / "run"), corpus, ladders=False).given.tolist()
    assert found.name == str(tmp_path / "run")
    predictions = pm.predict(run, corpus)
    assert found.accuracy.value == accuracy(corpus, predictions).value
    assert pm.evaluate(predictions, corpus, ladders=False).accuracy.value == found.accuracy.value
    with pytest.raises(MeasureError, match="50 examples"):
        pm.evaluate(predictions, corpus[:50])


def test_a_corpus_by_name_and_a_file_by_path(tmp_path: Path) -> None:
    corpus = pm.generate("propositional/paper", split="test")
    path = tmp_path / "a.jsonl"
    pm.data.write_answers(corpus, Answers("x", corpus.targets.astype(np.int64)), path)
    assert pm.evaluate(path, "propositional/paper", ladders=False).accuracy.value == 1.0
    with pytest.raises(FormatError, match="without a prediction"):
        pm.evaluate(str(path), data("listops"))


def test_answers_of_another_shape_are_refused() -> None:
    with pytest.raises(MeasureError, match=r"answers of shape \(120, 1\) to questions of shape \(120, 2\)"):
        pm.evaluate(Answers("x", np.zeros((120, 1), np.int64)), data("orchard"))


def test_one_example_has_no_ladder_and_says_so() -> None:
    corpus = data("listops")[:1]
    found = Evaluation.of(corpus, Answers("one", corpus.targets.astype(np.int64)), Baselines(corpus))
    assert found.ladder is None
    assert [note.partition(":")[0] for note in found.notes] == ["No ladder", "No effective depth"]
    assert "too few" in found.notes[0]
