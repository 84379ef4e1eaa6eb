"""What every measure must do, whatever it is: a new file in `pomona.measures` is tested here without a line more."""

from __future__ import annotations

import dataclasses
import importlib
import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import pomona as pm
import pomona.measures
from pomona.base.errors import MeasureError, PomonaError, SpecError
from pomona.base.registry import settings_of
from pomona.cli import catalogue
from pomona.cli.main import app
from pomona.data.answers import Answers, write_answers
from pomona.evaluation.evaluation import Evaluation, Inside
from pomona.evaluation.measure import FROM_EVALUATION, MEASURES, ItemMeasure, apply, from_text, measure, with_measures
from pomona.trees.binary import binarise, branching

ENTRIES = {entry.name: entry for entry in MEASURES.entries()}
ITEMS = [name for name, entry in ENTRIES.items() if issubclass(entry.kind, ItemMeasure)]
ANSWERS = [name for name in ENTRIES if name not in ITEMS]
IN_EVALUATIONS = [name for name in ITEMS if set(ENTRIES[name].kind.reads) <= FROM_EVALUATION.keys()]
PAIRS = [(i, j) for i in range(4) for j in range(4)]


def vectors(seed: int = 0) -> Any:
    """Vectors that are nearly sums of their parts."""
    random = np.random.default_rng(seed)
    parts = random.normal(size=(2, 4, 3))
    return np.array([parts[0][i] + parts[1][j] for i, j in PAIRS]) + 0.1 * random.normal(size=(16, 3))


EXAMPLES: dict[str, Any] = {  # items of every kind that a measure may read; values and the content of a file
    "meanings": [[i, j] for i, j in PAIRS],
    "attributes": [[i, j] for i, j in PAIRS],
    "messages": ["abcd"[i] + "wxyz"[j] for i, j in PAIRS],
    "symbols": ["abcd"[i] + "wxyz"[j] for i, j in PAIRS],
    "labels": ["abcd"[i] for i, _ in PAIRS],
    "derivations": [[f"a{i}", f"b{j}"] for i, j in PAIRS],
    "trees": [[f"a{i}", f"b{j}"] for i, j in PAIRS],
    "other trees": [[f"a{i}", [f"b{j}", "c"]] for i, j in PAIRS],
    "vectors": vectors(),
    "other vectors": vectors(1),
}


def items(name: str) -> list[Any]:
    return [EXAMPLES[kind] for kind in ENTRIES[name].kind.reads]


def written(name: str, folder: Path) -> list[Path]:
    """The items of a measure as files."""
    paths = []
    for kind in ENTRIES[name].kind.reads:
        values = EXAMPLES[kind]
        path = folder / f"{kind.replace(' ', '-')}{'.npy' if isinstance(values, np.ndarray) else '.jsonl'}"
        if isinstance(values, np.ndarray):
            np.save(path, values)
        else:
            path.write_text("".join(json.dumps(value) + "\n" for value in values))
        paths.append(path)
    return paths


@cache
def evaluation() -> Evaluation:
    """Answers with trees and vectors, as a run of a model that parses would give them."""
    corpus = pm.generate("listops/d20s", "test", 1, train=300, dev=10, test=80)
    given = corpus.targets.astype(np.int64).copy()
    given[::5] = (given[::5] + 1) % 10
    given[3] = -1
    random = np.random.default_rng(0)
    table = random.normal(size=(10, 6)).astype(np.float32)
    noise = random.normal(size=(80, 6)).astype(np.float32)
    inside = Inside(corpus.vocabulary, lambda: table[corpus.targets[:, 0]] + 0.1 * noise)
    return Evaluation.of(corpus, Answers("mine", given, binarise(corpus.forest)), None, inside)


def test_there_are_measures_of_both_kinds() -> None:
    old = "topsim rsa posdis bosdis context-independence conditional-entropy binned-entropy tree-edit proposition-1"
    assert {*old.split(), "mutual-information", "tre"} <= set(ITEMS)
    assert {"accuracy", "parse-f1", "effective-depth", "ladder", "unknown-copies"} <= set(ANSWERS)
    assert set(catalogue.listing("measures")) == set(ENTRIES)


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_says_what_it_is_and_survives_json(name: str) -> None:
    entry = ENTRIES[name]
    assert entry.about.endswith((".", "?"))
    assert len(entry.about) < 120
    chosen = MEASURES.build(name)
    assert MEASURES.build(name, json.loads(json.dumps(settings_of(chosen)))) == chosen
    assert from_text(name) == chosen
    with pytest.raises(SpecError, match=f"{name} has no setting 'colour'"):
        MEASURES.build(name, {"colour": 1})


@pytest.mark.parametrize("name", ITEMS)
def test_items_give_plain_values_twice_alike(name: str) -> None:
    values = measure(name, *items(name))
    assert values
    assert json.loads(json.dumps(values, allow_nan=False)) == values
    assert measure(name, *items(name)) == values


@pytest.mark.parametrize("name", ITEMS)
def test_the_order_of_the_items_changes_nothing(name: str) -> None:
    turned = np.random.default_rng(1).permutation(16)
    values = measure(name, *items(name))
    again = measure(name, *([part[row] for row in turned] if isinstance(part, list) else part[turned]
                            for part in items(name)))  # fmt: skip
    for key, value in values.items():
        if isinstance(value, float):
            assert again[key] == pytest.approx(value, abs=1e-6), key
        elif isinstance(value, list) and len(value) == 16:
            assert [value[row] for row in turned] == again[key]


@pytest.mark.parametrize("name", [name for name in ITEMS if len(ENTRIES[name].kind.reads) == 2])
def test_two_lists_must_have_the_same_length(name: str) -> None:
    first, second = items(name)
    with pytest.raises(PomonaError, match=r"\d+"):
        measure(name, first, second[:-1])
    with pytest.raises(MeasureError, match=f"{name} reads two lists: .*; got 1"):
        measure(name, first)


@pytest.mark.parametrize("name", ITEMS)
def test_files_give_what_the_values_give(name: str, tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["measure", name, *map(str, written(name, tmp_path)), "--json"])
    assert shown.exit_code == 0, shown.output
    assert json.loads(shown.stdout) == {"measure": name, **measure(name, *items(name))}


@pytest.mark.parametrize("name", [*ANSWERS, *IN_EVALUATIONS])
def test_an_evaluation_gives_plain_values(name: str) -> None:
    found = with_measures(evaluation(), [name])
    values = found.measures[name]
    assert values
    assert json.loads(json.dumps(found.as_dict(), allow_nan=False))["measures"] == {name: values}
    assert measure(name, evaluation()) == values
    assert name in str(found)


@pytest.mark.parametrize("name", [name for name in ITEMS if name not in IN_EVALUATIONS])
def test_what_an_evaluation_lacks_is_named(name: str) -> None:
    with pytest.raises(MeasureError, match=f"{name} reads .*, and an evaluation has no .*; give files: pomona measure"):
        measure(name, evaluation())


@pytest.mark.parametrize("name", IN_EVALUATIONS)
def test_a_model_without_vectors_is_named(name: str) -> None:
    without = dataclasses.replace(evaluation(), inside=Inside())
    with pytest.raises(MeasureError, match="mine has no sentence vectors: only a run"):
        measure(name, without)


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_in_a_file_are_measured_with_data(name: str, tmp_path: Path) -> None:
    corpus = evaluation().corpus
    pm.write(corpus, tmp_path / "test.parquet")
    write_answers(corpus, evaluation().answers, tmp_path / "answers.jsonl")
    order = ["measure", name, str(tmp_path / "answers.jsonl")]
    shown = CliRunner().invoke(app, [*order, "--data", str(tmp_path / "test.parquet"), "--json"])
    assert shown.exit_code == 0, shown.output
    outside = dataclasses.replace(evaluation(), inside=Inside())  # a file does not say which words the model knows
    assert json.loads(shown.stdout) == {"measure": name, **measure(name, outside)}
    assert CliRunner().invoke(app, order).exit_code == 2  # on answers, the corpus is needed
    with pytest.raises(MeasureError, match=f"{name} is measured on an evaluation"):
        measure(name, [1, 2], [3, 4])


# -- the numbers -----------------------------------------------------------------------------------------------------


def test_the_numbers_are_those_of_the_functions_behind_them() -> None:
    from pomona.representations.information import binned_entropy, mutual_information
    from pomona.representations.tre import tre

    found = evaluation()
    assert measure("accuracy", found)["value"] == found.accuracy.value
    assert measure("accuracy", found, by="nesting")["groups"] == {one.name: one.accuracy for one in found.by("nesting")}
    assert measure("parse-f1", found)["value"] == 1.0  # its trees are the gold ones
    assert measure("unknown-copies", found) == {"value": None}
    assert measure("ladder", found)["model"] == found.accuracy.value
    labels = [str(one.target[0]) for one in found.corpus]
    assert measure("mutual-information", found)["value"] == mutual_information(found.vectors, labels)
    assert measure("binned-entropy", found, rows=30)["value"] == binned_entropy(found.vectors[:30])
    assert measure("binned-entropy", found)["value"] == binned_entropy(found.vectors)
    fit = tre(EXAMPLES["vectors"], EXAMPLES["derivations"])
    assert measure("tre", EXAMPLES["vectors"], EXAMPLES["derivations"])["value"] == pytest.approx(fit.score)


def test_settings_reach_the_functions_behind_them() -> None:
    from pomona.evaluation.parse_f1 import parse_f1
    from pomona.representations.information import mutual_information
    from pomona.representations.topographic import topographic_similarity

    corpus, gold = evaluation().corpus, binarise(evaluation().corpus.forest)
    left = branching(corpus.lengths, "left")
    found = Evaluation.of(corpus, Answers("left", corpus.targets.astype(np.int64), left))
    variants: list[dict[str, Any]] = [{}, {"root": False}, {"leaves": True}, {"average": "micro"}]
    values = [measure("parse-f1", found, **variant)["value"] for variant in variants]
    assert values == [parse_f1(left, gold, **variant).value for variant in variants]
    assert len(set(values)) == 4
    pair = EXAMPLES["meanings"], EXAMPLES["vectors"]
    methods = ("spearman", "pearson", "kendall")
    values = [measure("topsim", *pair, message_distance="l1", method=method)["value"] for method in methods]
    expected = [topographic_similarity(*pair, "hamming", "l1", method=method).value for method in methods]
    assert values == pytest.approx(expected)
    assert len({round(value, 9) for value in values}) == 3
    values = [
        measure("mutual-information", EXAMPLES["vectors"], EXAMPLES["labels"], neighbours=k)["value"] for k in (1, 2)
    ]
    assert values == [mutual_information(EXAMPLES["vectors"], EXAMPLES["labels"], k) for k in (1, 2)]
    assert values[0] != values[1]
    for distance in ("l1", "sql2"):
        assert (
            measure("tre", EXAMPLES["vectors"], EXAMPLES["derivations"], distance=distance)["value"]
            != (measure("tre", EXAMPLES["vectors"], EXAMPLES["derivations"])["value"])
        )
    shuffled = measure("tre", EXAMPLES["vectors"], EXAMPLES["derivations"], shuffles=19, distance="sql2")
    assert shuffled["p_value"] == 0.05  # nothing shuffled is as good
    assert shuffled["shuffled"] > shuffled["value"]
    assert measure("topsim", EXAMPLES["meanings"], EXAMPLES["messages"], permutations=99)["p_value"] == 0.01


def test_effective_depth_is_that_of_the_evaluation() -> None:
    found = pm.evaluate(evaluation().answers, evaluation().corpus)
    assert measure("effective-depth", evaluation()) == found.depths[0].as_dict()
    assert measure("effective-depth", found, train_depth=3)["beyond"]["train_depth"] == 3
    with pytest.raises(MeasureError, match="question = 1: an example here asks questions 0 to 0"):
        measure("effective-depth", found, question=1)


def test_chain_is_that_of_the_evaluation() -> None:
    (chains,) = evaluation().chains
    found = measure("chain", evaluation())
    assert found["groups"] == {group.name: group.accuracy for group in evaluation().by("chain")}
    assert (found["sentence"], found["trend"], found["slope"]) == (chains.sentence, chains.trend, chains.slope)
    with pytest.raises(MeasureError, match="question = 1: an example here asks questions 0 to 0"):
        measure("chain", evaluation(), question=1)


def test_settings_in_a_name() -> None:
    found = with_measures(evaluation(), ["accuracy", "accuracy:by=operator"])
    assert "groups" not in found.measures["accuracy"]
    assert set(found.measures["accuracy:by=operator"]["groups"]) == {one.name for one in found.by("operator")}
    with pytest.raises(SpecError, match=r"no measure is called 'accuracies'\. Did you mean 'accuracy'"):
        with_measures(evaluation(), ["accuracies"])


def test_a_measure_that_returns_something_else_is_an_error() -> None:
    class Strange(ENTRIES["accuracy"].kind):  # type: ignore[misc]
        def of_evaluation(self, evaluation: Evaluation) -> Any:
            return {"value": object()}

    with pytest.raises(MeasureError, match="a measure gives numbers, texts and lists of them; got object"):
        apply(Strange(), evaluation())


# -- one new file ----------------------------------------------------------------------------------------------------

NEW = '''
"""How long answers are."""
from dataclasses import dataclass
from pomona.evaluation.measure import MEASURES, Measure

@MEASURES.add("answer-length")
@dataclass(frozen=True)
class AnswerLength(Measure):
    """How many letters the answers have."""
    extra: int = 0
    def of_evaluation(self, evaluation):
        outcomes = evaluation.corpus.outcomes
        letters = [len(str(outcomes[position])) for position in evaluation.given[:, 0] if position >= 0]
        return sum(letters) / len(letters) + self.extra
'''


@pytest.fixture
def new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "answer_length.py").write_text(NEW)
    monkeypatch.setattr(pomona.measures, "__path__", [*pomona.measures.__path__, str(tmp_path)])
    monkeypatch.setattr(MEASURES, "_discovered", False)
    importlib.invalidate_caches()
    yield
    del MEASURES._entries["answer-length"]
    del sys.modules["pomona.measures.answer_length"]


def test_a_new_file_is_reachable_from_everywhere(new_file: None, tmp_path: Path) -> None:
    small = {"train": 60, "dev": 10, "test": 20}
    recipe = pm.Recipe("lstm", {"width": 4}, data_settings=small, dev_rows=10, epochs=1, longest=30)
    pm.train(recipe, tmp_path / "run")
    call = CliRunner().invoke
    assert "answer-length" in call(app, ["ls", "measures"]).output
    where = ["--data", "listops/d20s", *(part for name, rows in small.items() for part in ("--set", f"{name}={rows}"))]
    ask = ["evaluate", str(tmp_path / "run"), *where, "--no-ladder", "--measure", "answer-length"]
    assert json.loads(call(app, [*ask, "--json"]).stdout)["measures"] == {"answer-length": {"value": 1.0}}
    done = call(app, [*ask, "--measure", "answer-length:extra=2"])  # replaces the evaluation that was kept
    assert done.exit_code == 0, done.output
    assert re.search(r"answer-length\s+value\s+1\n", done.output)
    data = tmp_path / "test.parquet"
    pm.write(pm.generate("listops/d20s", "test", **small), data)
    alone = ["measure", "answer-length", str(tmp_path / "run"), "--data", str(data)]
    shown = call(app, [*alone, "--measure-set", "extra=1"])
    assert re.search(r"value\s+2\n", shown.output), shown.output
    page = pm.report([tmp_path / "run"], tmp_path / "report", with_figures=False).page.read_text(encoding="utf-8")
    assert re.search(r"<td>answer-length</td><td>value 1</td>", page)
    assert re.search(r"<td>answer-length:extra=2</td><td>value 3</td>", page)
