"""What every model of sentences that is not given the gold trees must do in training; a new one is tested here, too."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from pomona.models.model import MODELS
from pomona.training import loop
from pomona.training.loop import train
from pomona.training.recipe import Recipe
from pomona.trees.binary import random_trees
from training_material import Killed, assert_same_bits, kill_at

FEW = {"train": 300, "dev": 20, "test": 10, "length": (1, 20)}


def latent(name):
    model = MODELS.build(name)
    return model.example == "listops/d20s" and not model.given_trees


NAMES = [entry.name for entry in MODELS.entries() if latent(entry.name)]
CASES = [(name, {}) for name in NAMES] + [(name, {"tied": True}) for name in ("ordered_memory", "beam_tree")]


def recipe(name, settings):
    short = [{"name": stage.name, "steps": 4} for stage in MODELS.build(name).stages()]
    plain = {} if short else {"rows": 60, "batch": 16, "epochs": 2}
    return Recipe(name, {"width": 8, **settings}, data_settings=FEW, dev_rows=40, stages=tuple(short), **plain)


def test_the_models_of_this_file():
    assert {"shift_reduce", "ordered_memory", "beam_tree", "st_gumbel", "rl_spinn", "chart"} <= set(NAMES)
    assert "treelstm" not in NAMES


@pytest.mark.parametrize(("name", "settings"), CASES)
def test_no_gold_tree_bracket_or_value_reaches_the_model(name, settings, tmp_path, monkeypatch):
    """The training sentences get random trees, other values at every node, and other names of operators and
    brackets: the weights are the same to the bit."""
    honest_run, honest = train(recipe(name, settings), tmp_path / "honest"), loop.corpora

    def spoilt(which):
        train_on, dev = honest(which)
        trees = random_trees(train_on.lengths, 3)
        values = np.random.default_rng(0).integers(0, 10, len(trees.symbol)).astype(train_on.values.dtype)
        return renamed(dataclasses.replace(train_on, forest=trees, values=values)), renamed(dev)

    monkeypatch.setattr(loop, "corpora", spoilt)
    run = train(recipe(name, settings), tmp_path / "spoilt")
    assert run.data["train"] != honest_run.data["train"]
    assert_same_bits(run, honest_run)


def renamed(corpus):
    words = tuple(word if word.isdigit() else f"x{number}" for number, word in enumerate(corpus.vocabulary))
    return dataclasses.replace(corpus, vocabulary=words, origin={})


@pytest.mark.parametrize(("name", "settings"), CASES)
def test_a_killed_run_resumes_to_the_same_bits(name, settings, tmp_path):
    asked = recipe(name, settings)
    whole = train(asked, tmp_path / "whole")
    with pytest.raises(Killed):
        train(asked, tmp_path / "killed", save_every=0.0, progress=kill_at(whole.curve[-1]["step"] - 2))
    assert_same_bits(train(asked, tmp_path / "killed"), whole)
