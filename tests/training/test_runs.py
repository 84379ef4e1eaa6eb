"""Recipes and run folders: the same recipe again, never another one over it, whole files or none."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from pomona.base.errors import RunError, SpecError
from pomona.training.predictions import Predictions
from pomona.training.recipe import Recipe
from pomona.training.run import Run, environment
from pomona.trees.binary import random_trees


def test_a_recipe_survives_json():
    recipe = Recipe("treelstm", {"width": 24, "half_width": True}, exclude=("a.tsv",), longest=30, select_on="test")
    again = Recipe.from_settings(json.loads(json.dumps(recipe.plain)))
    assert again == recipe
    assert again.key == recipe.key
    assert Recipe("treelstm", seed=1).key != Recipe("treelstm").key


def test_keys_are_those_of_recipes_before_fidelity_was_split():
    assert Recipe("lstm").key == "5ee7be752d671795"
    assert Recipe("treelstm", {"width": 24}, seed=1, longest=30, exclude=("a.tsv",)).key == "04b5ee80f3768820"
    assert Recipe("lstm", select_on="test").key != Recipe("lstm").key


def old(model, *quirks, **more):
    """A recipe.json of the time when the quirks of the ListOps code were a list of names."""
    plain = {name: value for name, value in Recipe(model).plain.items() if name != "select_on"}
    return Recipe.from_settings(json.loads(json.dumps({**plain, "fidelity": quirks, **more})))


@pytest.mark.parametrize(
    ("model", "quirks", "settings", "more"),
    [
        ("lstm", (), {}, {}),
        ("lstm", ("short_training",), {}, {"longest": 50}),
        ("lstm", ("half_width",), {}, {}),  # without effect on a model without trees
        ("lstm", ("left_padding", "batch_layernorm"), {"left_padding": True, "batch_layernorm": True}, {}),
        ("treelstm", ("short_training", "half_width"), {"half_width": True}, {"longest": 50}),
        ("bilstm", ("test_selection",), {}, {"select_on": "test"}),
        ("seq2seq_lstm", ("short_training",), {}, {"longest": 50}),
        ("chart", ("paper",), {"half_width": True, "batch_layernorm": True}, {"longest": 50, "select_on": "test"}),
        ("lstm", ("paper",), {"left_padding": True, "batch_layernorm": True}, {"longest": 50, "select_on": "test"}),
    ],
)
def test_recipes_with_fidelity_mean_what_they_meant(model, quirks, settings, more):
    assert old(model, *quirks) == Recipe(model, settings, **more)
    assert old(model, *quirks, settings={"width": 9}) == Recipe(model, {"width": 9, **settings}, **more)


def test_a_shorter_limit_stays():
    assert old("lstm", "short_training", longest=20).longest == 20
    assert old("lstm", "short_training", longest=80).longest == 50


def test_wrong_fidelity_is_named():
    with pytest.raises(SpecError, match=r"nothing is called 'half_widt'. Did you mean 'half_width'\?"):
        old("treelstm", "half_widt")
    with pytest.raises(SpecError, match=r"half_width change the models of the ListOps paper .* seq2seq_lstm is none"):
        old("seq2seq_lstm", "half_width")
    assert Recipe.from_settings({"model": "lstm", "fidelity": "paper"}) == old("lstm", "paper")


def test_a_run_begun_with_fidelity_is_found_again(tmp_path):
    recipe = Recipe("treelstm", {"width": 8, "half_width": True}, longest=50)
    run = Run.open(tmp_path / "run", recipe)
    plain = {name: value for name, value in recipe.plain.items() if name != "select_on"}
    run.write("recipe.json", {**plain, "settings": {"width": 8}, "fidelity": ["short_training", "half_width"]})
    assert Run.open(tmp_path / "run", recipe).recipe == recipe
    with pytest.raises(RunError, match="another recipe: there settings = "):
        Run.open(tmp_path / "run", Recipe("treelstm", {"width": 8}, longest=50))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"epochs": 0}, "epochs = 0"),
        ({"rate": 0.0}, "rate = 0"),
        ({"decay": 2.0}, "decay = 2"),
        ({"l2": -1.0}, "l2 = -1"),
        ({"select_on": "train"}, "select_on = 'train'"),
    ],
)
def test_a_wrong_recipe_is_named(settings, words):
    with pytest.raises(SpecError, match=words.replace("?", r"\?")):
        Recipe("lstm", **settings)


def test_an_unknown_setting_is_named():
    with pytest.raises(SpecError, match="Did you mean 'epochs'"):
        Recipe.from_settings({"model": "lstm", "epoch": 3})


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
