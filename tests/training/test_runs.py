"""Run folders: the same recipe again, never another one over it, whole files or none."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pomona.base.errors import RunError
from pomona.training.predictions import Predictions
from pomona.training.recipe import Recipe
from pomona.training.run import Run, environment
from pomona.trees.binary import random_trees


def test_a_folder_of_another_recipe_is_an_error_and_nothing_changes(tmp_path):
    run = Run.open(tmp_path / "run", Recipe("lstm"))
    before = (run.folder / "recipe.json").read_bytes()
    assert Run.open(tmp_path / "run", Recipe("lstm")).recipe == run.recipe
    with pytest.raises(RunError, match=r"another recipe: there seed = 0, here 1"):
        Run.open(tmp_path / "run", Recipe("lstm", seed=1))
    assert (run.folder / "recipe.json").read_bytes() == before


def test_a_folder_with_other_things_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(RunError, match="holds no run"):
        Run.open(tmp_path, Recipe("lstm"))
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(RunError, match=r"no recipe\.json"):
        Run.read(tmp_path)


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot be saved"):
        Run.open(tmp_path / "file" / "run", Recipe("lstm"))


def test_two_processes_do_not_train_in_one_folder(tmp_path):
    run = Run.open(tmp_path / "run", Recipe("lstm"))
    with run.locked(), pytest.raises(RunError, match="another process"), Run.read(run.folder).locked():
        pass
    with run.locked():
        pass


def test_predictions_come_back(tmp_path):
    run = Run.open(tmp_path / "run", Recipe("lstm"))
    trees = random_trees(np.array([3, 1, 7]), 5)
    logits = np.arange(30, dtype=np.float32).reshape(3, 10)
    run.add_predictions("test", Predictions("abc", tuple(range(10)), logits, trees))
    again = run.predictions("test")
    assert again.trees == trees
    assert np.array_equal(again.logits, logits)
    assert again.answers.tolist() == [9, 9, 9]
    assert again.corpus == "abc"
    assert run.predictions("dev") is None


def test_a_broken_file_is_named(tmp_path):
    run = Run.open(tmp_path / "run", Recipe("lstm"))
    (run.folder / "predictions").mkdir()
    (run.folder / "predictions" / "test.safetensors").write_bytes(b"nonsense")
    with pytest.raises(RunError, match=r"test\.safetensors cannot be read"):
        run.predictions("test")


def test_runs_are_read_without_torch():
    code = "import sys, pomona.training.data, pomona.training.run; assert 'torch' not in sys.modules"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_the_environment_is_plain():
    assert json.loads(json.dumps(environment(threads=1)))["threads"] == 1


@pytest.mark.parametrize("name", ["../best", "a/b", "", "a\\b", "a\nb", "x" * 300])
def test_predictions_are_kept_under_plain_names_only(tmp_path, name):
    run = Run.open(tmp_path / "run", Recipe("lstm"))
    said = Predictions("0", (0, 1), np.zeros((1, 2), np.float32))
    for attempt in (lambda: run.add_predictions(name, said), lambda: run.predictions(name)):
        with pytest.raises(RunError, match="plain file name"):
            attempt()
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["recipe.json"]


def _add(folder: Path, worker: int) -> None:
    run = Run.read(folder)
    for number in range(10):
        run.add_scores(f"{worker}-{number}", {"accuracy": 0.5})


def test_no_score_is_lost_when_processes_add_theirs_at_once(tmp_path: Path) -> None:
    run = Run.open(tmp_path / "run", Recipe("treelstm"))
    fork = multiprocessing.get_context("fork")
    workers = [fork.Process(target=_add, args=(run.folder, worker)) for worker in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(run.scores) == 40


def test_what_a_kill_in_the_first_write_leaves_is_no_content(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / ".recipe.json.0123abcd.part").write_text("{")
    run = Run.open(folder, Recipe("treelstm"))
    assert sorted(path.name for path in folder.iterdir()) == ["recipe.json"]
    assert Run.open(folder, Recipe("treelstm")).recipe == run.recipe


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("recipe.json", "[" * 5000, "nested too deeply"),
        ("recipe.json", '{"model": ' + "1" * 5000 + "}", "a number that is too long"),
        ("recipe.json", "[]", "holds no object"),
        ("recipe.json", '{"model": "x", "epochs": "many"}', "epochs"),
        ("scores.json", "[" * 5000, "nested too deeply"),
        ("curve.jsonl", '{"epoch": 0, "loss": Infinity, "train": 1, "dev": 1, "rate": 1}\n', "line 1 is no epoch"),
        ("curve.jsonl", '{"epoch": 0, "loss": 1}\n', "line 1 is no epoch"),
        ("curve.jsonl", "[" * 5000, "nested too deeply"),
    ],
)
def test_a_damaged_file_of_a_run_is_named(tmp_path: Path, name: str, content: str, message: str) -> None:
    run = Run.open(tmp_path, Recipe("treelstm"))
    (tmp_path / name).write_text(content)
    with pytest.raises(RunError, match=f"{name}.*{message}"):
        _ = (Run.read(tmp_path).recipe, run.scores, run.curve)
