"""Every model on every task: what it can read it evaluates, with a name and without; what it cannot, it refuses."""

from __future__ import annotations

import dataclasses
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import pomona as pm
from pomona.base.errors import PomonaError
from pomona.cli.main import app
from pomona.data.task import TASKS as TASK_REGISTRY
from pomona.evaluation.records import kept_evaluations
from pomona.models.model import MODELS
from pomona.training.run import Run

FEW = {"train": 60, "dev": 10, "test": 30}
TASKS: dict[str, dict[str, Any]] = {  # one preset of every family, small: settings of the data, split to evaluate on
    "listops/d20s": {"settings": FEW, "split": "test"},
    "orchard/easy/min-max": {"settings": {**FEW, "iid": 10}, "split": "test-3"},
    "fair_nli/hardest": {"settings": {"train": 1_500, "dev": 60, "test": 60}, "split": "test"},
    "propositional/deep": {"settings": FEW, "split": "test"},
}
NAMES = [entry.name for entry in MODELS.entries()]
PAIRS = [(model, task) for model in NAMES for task in TASKS]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@cache
def trained(model: str, task: str, home: Path) -> Run | PomonaError:
    """A run of one epoch on few examples, or why there is none."""
    fields = dataclasses.fields(MODELS.build(model))
    sizes = ("width", "hidden", "inner")
    tiny = {field.name: 8 for field in fields if field.name in sizes and isinstance(field.default, int)}
    recipe = pm.Recipe(
        model, tiny, data=task, data_settings=TASKS[task]["settings"], rows=48, dev_rows=10, epochs=1,
        longest=40 if task.startswith("listops") else None,
    )  # fmt: skip
    try:
        return pm.train(recipe, home / f"{model}-{task.replace('/', '-')}")
    except PomonaError as error:
        return error


def command(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def evaluated(run: Run, task: str, *more: object) -> Any:
    settings = [part for name, value in TASKS[task]["settings"].items() for part in ("--set", f"{name}={value}")]
    where = ["--data", task, "--split", TASKS[task]["split"], "--size", 25, *settings]
    return command("evaluate", run.folder, *where, *more, "--json")


def test_there_is_a_task_of_every_family() -> None:
    ours = {entry.name for entry in TASK_REGISTRY.entries() if entry.kind.__module__.startswith("pomona.")}
    assert {task.partition("/")[0] for task in TASKS} == ours


@pytest.mark.parametrize(("model", "task"), PAIRS)
def test_with_a_name_and_without_the_numbers_are_the_same(model: str, task: str, home: Path) -> None:
    run = trained(model, task, home)
    if isinstance(run, PomonaError):
        assert task.partition("/")[0] != MODELS.build(model).example.partition("/")[0], run
        assert 20 < len(str(run)) < 600  # a sentence that says what cannot be read
        assert "\n" not in str(run)
        return
    without, named = evaluated(run, task, "--no-ladder"), evaluated(run, task, "--no-ladder", "--name", "test")
    assert (without.exit_code, named.exit_code) == (0, 0), (without.output, named.output)
    found = json.loads(named.stdout)
    assert json.loads(without.stdout) == found
    assert kept_evaluations(run)["test"] == run.scores["test"] == found
    assert found["rows"] == 25
    predictions = run.predictions("test")
    assert predictions is not None
    corpus = pm.generate(task, TASKS[task]["split"], 0, **TASKS[task]["settings"])[:25]
    again = pm.evaluate(predictions, corpus, ladders=False)
    data = found.pop("data")
    assert (data["source"], data["size"]) == (task, 25)
    assert again.as_dict() == {**found, "name": "predictions"}
    assert found["trees"] or predictions.trees is None or found["notes"]


SEQUENCES = {"seq2seq_lstm", "seq2seq_transformer", "looped_transformer", "data_router"}
READABLE = {  # what must not be lost: tasks that these models have always read
    "listops/d20s": {"bilstm", "chart", "lstm", "quoting_treelstm", "rl_spinn", "st_gumbel", "treelstm", *SEQUENCES},
    "orchard/easy/min-max": {"quoting_treelstm", *SEQUENCES},
    "fair_nli/hardest": {"cbow", "comptreenn", "lstm", "lstm_pair", "treelstm", "treenn", "learned_tree", *SEQUENCES},
    "propositional/deep": {
        "bilstm", "chart", "lstm", "quoting_treelstm", "rl_spinn", "st_gumbel", "treelstm", *SEQUENCES,
    },
}


@pytest.mark.parametrize("task", TASKS)
def test_the_report_shows_every_run_of_a_task(task: str, home: Path, tmp_path: Path) -> None:
    runs = {model: trained(model, task, home) for model in NAMES}
    read = {model: run for model, run in runs.items() if isinstance(run, Run)}
    assert READABLE[task] <= read.keys()
    for run in read.values():
        if "test" not in run.scores:
            assert evaluated(run, task, "--no-ladder", "--name", "test").exit_code == 0
    made = pm.report([run.folder for run in read.values()], tmp_path / "report", with_figures=False)
    page = made.page.read_text(encoding="utf-8")
    for model, run in read.items():
        assert run.folder.name in page
        assert f"{kept_evaluations(run)['test']['accuracy']:.2%}" in page, model
    assert not any("were not found" in note for note in made.notes), made.notes


@pytest.mark.parametrize("task", TASKS)
def test_the_ladder_is_kept_as_well(task: str, home: Path) -> None:
    run = next(run for model in NAMES if isinstance(run := trained(model, task, home), Run))
    done = evaluated(run, task, "--name", "with ladder")
    assert done.exit_code == 0, done.output
    kept = kept_evaluations(run)["with ladder"]
    assert kept == json.loads(done.stdout)
    corpus = pm.generate(task, TASKS[task]["split"], 0, **TASKS[task]["settings"])[:25]
    ladder = pm.evaluate(run, corpus).ladder
    assert ladder is not None
    assert kept["ladder"] == ladder.as_dict()
    assert f"train: {TASKS[task]['settings']['train']:,} examples" in kept["ladder"]["learnt_from"]  # all of it


def test_what_cannot_be_read_is_refused_with_a_clear_sentence(home: Path) -> None:
    refused = {
        ("cbow", "listops/d20s"): "not aligned trees of sentence pairs",
        ("treelstm", "orchard/easy/min-max"): "2",
    }
    for (model, task), words in refused.items():
        error = trained(model, task, home)
        assert isinstance(error, PomonaError)
        assert words in str(error)
    small = ["--model-set", "width=8", "--model-set", "inner=8", "--model-set", "answers=2"]
    done = command("train", "data_router", "--data", "propositional/deep", "--out", home / "refused", *small)
    assert "asks 1 question an example, and this model gives 2 answers" in str(done.exception)
    assert not (home / "refused" / "best.safetensors").exists()
    both = trained("data_router", "orchard/easy/min-max", home)
    assert isinstance(both, Run)
    error = evaluated(both, "listops/d20s").exception
    assert "asks 1 question an example, and this model gives 2 answers" in str(error)
    run = trained("quoting_treelstm", "orchard/easy/min-max", home)
    assert isinstance(run, Run)
    for other in ("listops/d20s", "propositional/deep"):  # trained on one task, evaluated on another
        shown = evaluated(run, other, "--no-ladder")
        assert shown.exit_code == 0 or isinstance(shown.exception, PomonaError), shown.exception
