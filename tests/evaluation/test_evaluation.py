"""One room for every model: what is measured, for every task, from a file, a function, a module, a run or an import."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import pomona as pm
from evaluation_material import SMALL, TASKS, data, said
from pomona.base.errors import FormatError, MeasureError, SpecError
from pomona.data.answers import Answers, answers_given, ids_of
from pomona.data.groups import FIELDS, groups_of
from pomona.evaluation.accuracy import accuracy, wilson
from pomona.evaluation.baselines import Baselines
from pomona.evaluation.evaluation import Evaluation
from pomona.evaluation.parse_f1 import parse_f1
from pomona.models.model import MODELS
from pomona.trees import brackets
from pomona.trees.binary import binarise, branching

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
        assert found.notes[0].startswith("Left out are the look-up table and the top k levels")
        assert found.notes[1].startswith("No effective depth: ")


def test_examples_without_answers_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text('{"tree": {"type": "a", "value": 1}, "id": "x"}\n{"tree": {"type": "b"}, "id": "y"}\n')
    with pytest.raises(MeasureError, match=r"1 of 2 examples have no known answer .first: 'y'"):
        pm.evaluate([1, None], pm.read(path))  # what is unknown and what was not said are not the same answer
    with pytest.raises(MeasureError, match="is empty: there is nothing to evaluate on"):
        Evaluation.of(data("listops")[:0], Answers("none", np.zeros((0, 1), np.int64)))
    file = tmp_path / "nothing.jsonl"
    file.write_text('{"tree": {"type": "a"}, "target": []}\n')
    with pytest.raises(MeasureError, match="asks no questions"):
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
    asked = pm.evaluate(answers, pm.read(path), ladders=False, measures=["parse-f1"])
    assert asked.notes[1].startswith("No parse-f1: the trees of ")


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
    found = pm.evaluate(run, corpus, ladders=False, allow_overlap=True)
    by_path = pm.evaluate(str(tmp_path / "run"), corpus, ladders=False, allow_overlap=True)
    assert found.given.tolist() == by_path.given.tolist()
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
    assert "one example cannot be split" in found.notes[0]
