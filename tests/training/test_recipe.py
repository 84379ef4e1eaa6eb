"""Recipes: read and written as JSON, with errors that name what is wrong; old ones mean what they meant."""

from __future__ import annotations

import json

import pytest

from pomona.base.errors import RunError, SpecError
from pomona.training.recipe import Recipe
from pomona.training.run import Run


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
    with pytest.raises(SpecError, match=r"half_width: these are settings of lstm, .* seq2seq_lstm has none"):
        old("seq2seq_lstm", "half_width")
    with pytest.raises(SpecError, match="nothing is called 3"):
        old("lstm", 3)
    with pytest.raises(SpecError, match="longest = 'long'"):
        old("lstm", "paper", longest="long")
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
