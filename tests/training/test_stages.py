"""Stages: one run in parts, resumed to the same bits anywhere; what a stage says is done, what is wrong is named."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import torch

from pomona.base.errors import RunError, SpecError
from pomona.models.stages import Stage, resolved
from pomona.training.checkpoints import State
from pomona.training.loop import Trainer, train
from pomona.training.recipe import Recipe
from pomona.training.run import Run
from pomona.training.staging import Part
from training_material import SMALL, Killed, assert_same_bits, kill_at, weights

GROWING = {"name": "grow", "shortest": 4, "longest": 7, "growing": True, "move_on": 0.05, "window": 3, "steps": 40}
FROZEN = {"name": "cell alone", "longest": 12, "steps": 9, "frozen": ["leaf", "classifier"], "rate": 1e-2, "look": 4}
LAST = {"name": "all", "steps": 14, "schedule": "linear", "warmup": 3, "weight_decay": 0.1, "batch": 32, "look": 5}
STAGED = dataclasses.replace(SMALL, stages=(GROWING, FROZEN, LAST))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return train(STAGED, tmp_path_factory.mktemp("runs") / "whole")


@pytest.fixture(scope="module")
def ends(whole):
    """The last step of each stage."""
    return {entry["stage"]: entry["step"] for entry in whole.curve}


def test_one_curve_tells_all_stages(whole, ends):
    assert list(ends) == ["grow", "cell alone", "all"]
    assert [entry["epoch"] for entry in whole.curve] == list(range(len(whole.curve)))
    assert ends["grow"] < 40  # it grew through four lengths and ended by its rule
    assert ends["cell alone"] == ends["grow"] + 9
    looks = [entry["step"] - ends["cell alone"] for entry in whole.curve if entry["stage"] == "all"]
    assert looks == [5, 10, 14]
    assert whole.summary["steps"] == ends["all"] == ends["cell alone"] + 14
    assert whole.curve[-1]["rate"] == pytest.approx(3e-3 * (1 - 0.98 * 13 / 14))


@pytest.mark.parametrize("stage", ["grow", "cell alone", "all"])
@pytest.mark.parametrize("place", [0, 1, 4, -1])
def test_a_run_killed_anywhere_in_any_stage_ends_with_the_same_bits(tmp_path, whole, ends, stage, place):
    """At the first step of a stage, the next, one in its middle, and its last, after which the next stage begins."""
    first = {"grow": 0, "cell alone": ends["grow"], "all": ends["cell alone"]}[stage]
    step = ends[stage] if place < 0 else first + 1 + place
    with pytest.raises(Killed):
        train(STAGED, tmp_path / "run", save_every=0.0, progress=kill_at(step))
    assert not Run.read(tmp_path / "run").finished
    assert_same_bits(train(STAGED, tmp_path / "run"), whole)


def test_a_run_killed_again_and_again_ends_with_the_same_bits(tmp_path, whole):
    for step in range(3, whole.summary["steps"], 5):
        with pytest.raises(Killed):
            train(STAGED, tmp_path / "run", save_every=0.0, progress=kill_at(step))
    assert_same_bits(train(STAGED, tmp_path / "run"), whole)


def test_a_run_killed_between_two_stages_ends_with_the_same_bits(tmp_path, whole, monkeypatch):
    """Curve and weights of a stage's end are written, its state is not."""
    honest = Trainer.save

    def fail(self):
        if self.state.stage == 2:
            raise Killed
        honest(self)

    monkeypatch.setattr(Trainer, "save", fail)
    with pytest.raises(Killed):
        train(STAGED, tmp_path / "run")
    monkeypatch.undo()
    assert_same_bits(train(STAGED, tmp_path / "run"), whole)


def test_frozen_weights_stay_and_the_optimiser_begins_anew(tmp_path, whole):
    run = train(dataclasses.replace(STAGED, stages=(GROWING,)), tmp_path / "one")
    two = train(dataclasses.replace(STAGED, stages=(GROWING, FROZEN)), tmp_path / "two")
    before, after = weights(run, "last"), weights(two, "last")
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved == {name for name in before if name.startswith("cell")}
    with pytest.raises(Killed):
        train(STAGED, tmp_path / "three", save_every=0.0, progress=kill_at(two.summary["steps"] + 1))
    state = Trainer(Run.read(tmp_path / "three"), torch.device("cpu"), 60.0, None)
    assert (state.state.stage, state.state.stage_step, len(state.adam.state)) == (2, 0, 0)


def test_what_a_stage_says_stands_in_for_the_recipe(tmp_path):
    trainer = Trainer(Run.open(tmp_path / "run", STAGED), torch.device("cpu"), 60.0, None)
    grow, cell, last = trainer.parts
    assert (grow.batch, last.batch) == (SMALL.batch, 32)
    assert (grow.weight_decay, last.weight_decay) == (SMALL.weight_decay, 0.1)
    assert (grow.rate(0), cell.rate(5), last.rate(0)) == (SMALL.rate, 1e-2, pytest.approx(SMALL.rate / 3))
    assert grow.l2 == SMALL.l2


@pytest.mark.parametrize(("longest", "epochs", "steps"), [(12, 3, 30), (12, 1, 10), (8, 3, 15), (None, 9, 40)])
def test_a_pass_has_every_row_of_the_range_once(longest, epochs, steps):
    lengths = np.array([7, 9, 30, 12, 8] * 10)
    stage = Stage("x", shortest=8, longest=longest, epochs=epochs, batch=3, steps=40)
    part, state = Part(stage, Recipe("lstm"), lengths), State()
    wanted = np.flatnonzero((lengths >= 8) & (lengths <= (longest or 30)))
    seen = []
    while not part.over(state):
        rows = part.rows(state)
        seen.append(rows)
        part.count(state, rows, 0.0)
    per_pass = -(-len(wanted) // 3)
    assert len(seen) == min(40, epochs * per_pass)
    first, second = (np.concatenate(seen[n * per_pass : (n + 1) * per_pass] or [[]]) for n in (0, 1))
    assert sorted(first) == wanted.tolist()
    assert len(second) < len(wanted) or (sorted(second) == wanted.tolist() and second.tolist() != first.tolist())


def test_a_growing_stage_adds_a_length_when_the_newest_is_learnt():
    lengths = np.repeat([4, 5, 7], 20)
    stage = Stage("x", shortest=4, longest=7, growing=True, move_on=0.9, window=4, batch=8, steps=500, epochs=500)
    part, state = Part(stage, Recipe("lstm"), lengths), State()
    batches = []
    while not part.over(state):
        rows = part.rows(state)
        assert len(set(lengths[rows])) == 1
        assert len(set(rows.tolist())) == 8
        newest = [4, 5, 7][state.grown]
        assert lengths[rows[0]] <= newest
        batches.append((newest, int(lengths[rows[0]])))
        learnt = sum(pair[1] == newest for pair in batches)
        part.count(state, rows, 1.0 if learnt > 20 else 0.5)  # each length is learnt after twenty batches
    assert state.grown == 3
    for newest in (4, 5, 7):
        own = [length for about, length in batches if about == newest]
        # after twenty wrong ones it takes four right ones to fill the window
        assert own.count(newest) == 24
        assert newest == 4 or 24 < len(own) < 100


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        ({"name": "a", "steps": 0}, r"stage 'a': steps = 0: must be at least 1"),
        ({"name": "a", "rate": -1.0}, r"stage 'a': rate = -1.0: must be a positive number"),
        ({"name": "a", "shortest": 9, "longest": 4}, r"stage 'a': longest = 4 is below shortest = 9"),
        ({"name": "a", "schedule": "plateau"}, r"stage 'a': schedule = 'plateau'"),
        ({"name": "a", "step": 3}, r"stage 'a' has no setting 'step'. Did you mean 'steps'"),
        ({"name": "a", "batch": "many"}, r"stage 'a': batch = 'many'"),
        ({"name": "a", "move_on": 1.5}, r"stage 'a': move_on = 1.5"),
        ({"name": "a", "betas": [0.9, 1.0]}, r"stage 'a': betas"),
        ({"steps": 3}, r"stage 2 of the recipe has no name"),
        ({"name": "grow"}, r"stage 'grow': two stages have this name"),
    ],
)
def test_a_wrong_stage_is_named(stage, words):
    with pytest.raises(SpecError, match=words):
        Recipe.from_settings({"model": "lstm", "stages": [GROWING, stage]})


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"stages": ({"name": "a", "frozen": ["leav"]},)}, SpecError, r"frozen = 'leav'.*Did you mean 'leaf'"),
        ({"stages": ({"name": "a", "frozen": [""]},)}, SpecError, "stage 'a': all weights are frozen"),
        ({"stages": ({"name": "a", "shortest": 600},)}, SpecError, "stage 'a': no training example .* has 600 to"),
        ({"stages": ({"name": "a", "settings": {"trees": 3}},)}, SpecError, "stage 'a': settings = .*treelstm has"),
        ({"schedule": "cosine"}, SpecError, "schedule = 'cosine' has no effect: treelstm is trained in the stages"),
        ({"fresh": True}, SpecError, "fresh = True has no effect"),
        ({"stages": ({"name": "a", "batch": 3},), "batch": 5}, SpecError, "batch = 5 has no effect"),
    ],
)  # fmt: skip
def test_what_cannot_be_trained_is_refused(tmp_path, change, error, words):
    with pytest.raises(error, match=words):
        train(dataclasses.replace(STAGED, **change), tmp_path / "run")


def test_a_recipe_with_stages_survives_json_and_one_without_says_nothing_of_them(tmp_path):
    again = Recipe.from_settings(json.loads(json.dumps(STAGED.plain)))
    assert again == STAGED
    assert again.key == STAGED.key != SMALL.key
    assert "stages" not in SMALL.plain
    as_objects = tuple(resolved(STAGED.stages, ()))
    assert resolved(dataclasses.replace(SMALL, stages=as_objects).stages, ()) == as_objects
    Run.open(tmp_path / "run", STAGED)
    with pytest.raises(RunError, match=r"another recipe: there stages = .*here None"):
        Run.open(tmp_path / "run", SMALL)


def test_a_recipe_changes_what_it_names_of_the_models_stages():
    own = (Stage("flat", longest=6, steps=10), Stage("all", steps=20, settings={"trees": 2, "weight": 0.5}))
    assert resolved((), own) == own
    one = Recipe("lstm", stages=("flat", {"name": "all", "steps": 5, "settings": {"trees": 4}}, {"name": "new"}))
    flat, everything, new = resolved(one.stages, own)
    assert flat == own[0]
    assert everything == Stage("all", steps=5, settings={"trees": 4, "weight": 0.5})
    assert new == Stage("new")
