"""Training: a run that was killed resumes to the same bits; what cannot be trained says why and changes nothing."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

from pomona.base.errors import RunError, SpecError
from pomona.data import formats
from pomona.data.task import generate
from pomona.models.model import threads_of
from pomona.training.checkpoints import load, to_extend
from pomona.training.loop import Trainer, train
from pomona.training.predict import predict
from pomona.training.recipe import Recipe
from pomona.training.run import Run
from pomona.training.schedules import cooled, learning_rate
from training_material import SMALL, WHICH, Killed, assert_same_bits, kill_at, weights


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return train(SMALL, tmp_path_factory.mktemp("runs") / "whole")


@pytest.mark.parametrize("step", [1, 7, 23, 24, 40, 59])
def test_a_run_killed_at_any_step_ends_with_the_same_bits(tmp_path, whole, step):
    with pytest.raises(Killed):
        train(SMALL, tmp_path / "run", save_every=0.0, progress=kill_at(step))
    assert not Run.read(tmp_path / "run").finished
    assert_same_bits(train(SMALL, tmp_path / "run"), whole)


def test_noise_and_moving_averages_resume_as_well(tmp_path):
    recipe = dataclasses.replace(
        SMALL, model="rl_spinn", settings={"width": 8, "baseline": "moving_average"}, epochs=2, rows=100
    )
    done = train(recipe, tmp_path / "whole")
    assert weights(done, "last")["average"] > 0

    with pytest.raises(Killed):
        train(recipe, tmp_path / "run", save_every=0.0, progress=kill_at(5))
    assert_same_bits(train(recipe, tmp_path / "run"), done)


def test_steps_in_which_a_weight_has_no_gradient_do_not_count_for_it(tmp_path):
    """A policy has no choice in sentences of two words, and Adam leaves its weights alone there."""
    data = tmp_path / "short.tsv"
    corpus = generate("listops/d20s", split="train", train=400, dev=10, test=10)
    short = corpus[corpus.lengths <= 12][:12]
    digits = "".join(f"{digit}\t{digit}\n" for digit in range(8))
    formats.write(short, data)
    data.write_text(data.read_text() + digits)
    recipe = dataclasses.replace(
        SMALL, model="rl_spinn", data=str(data), data_settings={}, epochs=2, batch=1, dev_rows=4, longest=None
    )
    done = train(recipe, tmp_path / "whole")

    with pytest.raises(Killed):
        train(recipe, tmp_path / "run", save_every=0.0, progress=kill_at(20))
    assert_same_bits(train(recipe, tmp_path / "run"), done)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": "seq2seq_lstm", "settings": {"half_width": True}}, "seq2seq_lstm has no setting 'half_width'"),
        ({"data": "FILE", "data_settings": {"nonsense": 3}}, "is a file: it has no settings"),
        ({"data": "FILE", "data_settings": {}, "select_on": "test"}, "no test split to select on"),
    ],
)  # fmt: skip
def test_options_without_effect_are_rejected(tmp_path, change, words):
    data = tmp_path / "some.tsv"
    formats.write(generate("listops/d20s", split="train", train=40, dev=10, test=10), data)
    change = {name: str(data) if value == "FILE" else value for name, value in change.items()}
    with pytest.raises(SpecError, match=words):
        train(dataclasses.replace(SMALL, **change), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_model_for_the_processor_alone_stays_there(tmp_path, monkeypatch):
    recipe = dataclasses.replace(SMALL, model="st_gumbel", epochs=1, rows=40)
    with pytest.raises(SpecError, match="on the processor alone"):
        train(recipe, tmp_path / "other", device="cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert train(recipe, tmp_path / "run").environment["device"] == "cpu"


def test_a_run_killed_between_two_files_ends_with_the_same_bits(tmp_path, whole, monkeypatch):
    """Best weights and curve of the second epoch are written, its state is not."""
    honest, saves = Trainer.save, []

    def fail(self):
        saves.append(self.state.epoch)
        if len(saves) == 2:
            raise Killed
        honest(self)

    monkeypatch.setattr(Trainer, "save", fail)
    with pytest.raises(Killed):
        train(SMALL, tmp_path / "run")
    monkeypatch.undo()
    assert_same_bits(train(SMALL, tmp_path / "run"), whole)


def test_a_process_that_is_killed_leaves_a_run_that_resumes(tmp_path, whole):
    code = (
        "import sys, json, time; from pomona.training.recipe import Recipe; from pomona.training.loop import train\n"
        "wait = lambda now: time.sleep(30 * (now.step == 9))\n"  # so that it is surely still at work when it is killed
        "train(Recipe.from_settings(json.loads(sys.argv[1])), sys.argv[2], save_every=0.0, progress=wait)"
    )
    folder = tmp_path / "run"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen([sys.executable, "-c", code, json.dumps(SMALL.plain), str(folder)], env=environment)
    for _ in range(600):
        if (folder / "state.safetensors").exists() or process.poll() is not None:
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert (folder / "state.safetensors").exists()
    assert_same_bits(train(SMALL, folder), whole)


@pytest.mark.parametrize("forgotten", [False, True])
def test_a_run_whose_data_have_changed_is_not_resumed(tmp_path, monkeypatch, forgotten):
    """Another version may give other examples under the same name and seed; a run must not be trained on both."""
    from pomona.training import loop as training

    with pytest.raises(Killed):
        train(SMALL, tmp_path / "run", save_every=0.0, progress=kill_at(30))
    before = (tmp_path / "run" / "state.safetensors").read_bytes()
    honest = training.corpora
    if forgotten:  # begun before fingerprints were kept
        (tmp_path / "run" / "data.json").unlink()
    else:
        monkeypatch.setattr(training, "corpora", lambda recipe: (honest(recipe)[0][1:], honest(recipe)[1]))
    with pytest.raises(RunError, match="was trained on other examples than listops/d20s gives now"):
        train(SMALL, tmp_path / "run")
    assert (tmp_path / "run" / "state.safetensors").read_bytes() == before


def test_a_finished_run_is_left_as_it_is(whole):
    before = {path.name: path.stat().st_mtime_ns for path in whole.folder.iterdir()}
    train(SMALL, whole.folder)
    assert {path.name: path.stat().st_mtime_ns for path in whole.folder.iterdir()} == before


def test_a_run_that_was_killed_after_its_summary_loses_its_state(tmp_path, whole):
    """The state of a finished run is of no use; a kill between the last two steps leaves it behind."""
    folder = shutil.copytree(whole.folder, tmp_path / "run")
    (folder / "state.safetensors").write_bytes(b"")
    train(SMALL, folder)
    assert sorted(path.name for path in folder.iterdir()) == sorted(path.name for path in whole.folder.iterdir())


def test_another_seed_is_another_run(tmp_path, whole):
    """Other first weights, and the examples in another order."""
    one = dataclasses.replace(SMALL, epochs=1)
    first, second = (train(dataclasses.replace(one, seed=seed), tmp_path / str(seed)) for seed in (0, 1))
    assert not torch.equal(weights(first, "last")["leaf"], weights(second, "last")["leaf"])
    assert first.curve[0]["loss"] == whole.curve[0]["loss"] != second.curve[0]["loss"]


def test_weights_are_read_back_and_answer(whole):
    corpus = generate("listops/d20s", split="dev", train=400, dev=50, test=50)
    module = load(whole)[0]
    for name, weight in module.named_parameters():
        assert torch.equal(weight, weights(whole, "best")[name])
    predictions = predict(whole, corpus)
    right = float((predictions.answers == corpus.targets[:, 0]).mean())
    assert right == max(entry["dev"] for entry in whole.curve) == whole.summary["dev"]
    assert predictions.trees is not None
    assert np.array_equal(predict(whole, corpus[::-1]).logits.argmax(1), predictions.answers[::-1])


def test_the_best_epoch_on_dev_is_kept(tmp_path):
    """A rate far too high makes later epochs worse; the weights kept are those of the best one."""
    run = train(dataclasses.replace(SMALL, rate=0.3, epochs=4, clip=100.0), tmp_path / "run")
    best = max(run.curve, key=lambda entry: entry["dev"])
    assert run.summary["dev"] == best["dev"]
    assert run.summary["best_epoch"] == best["epoch"]
    dev = generate("listops/d20s", split="dev", train=400, dev=50, test=50)
    shares = {which: float((predict(run, dev, which=which).answers == dev.targets[:, 0]).mean()) for which in WHICH}
    assert shares == {"best": best["dev"], "last": run.curve[-1]["dev"]}
    assert shares["best"] > shares["last"]


def test_of_epochs_that_are_equally_right_on_dev_the_one_with_the_least_loss_is_kept(tmp_path):
    """A dev set that is easily answered in full must not keep the weights of the first epoch that does."""
    run = train(dataclasses.replace(SMALL, epochs=12, dev_rows=1, rate=1e-2), tmp_path / "run")
    top = max(entry["dev"] for entry in run.curve)
    best = min((entry for entry in run.curve if entry["dev"] == top), key=lambda entry: entry["dev_loss"])
    assert best["epoch"] > next(entry["epoch"] for entry in run.curve if entry["dev"] == top)
    assert run.summary["best_epoch"] == best["epoch"]


def test_the_rate_rises_and_then_falls_with_the_root_of_the_steps(tmp_path):
    recipe = dataclasses.replace(SMALL, schedule="inverse_sqrt", warmup=4, betas=(0.9, 0.98))
    trainer = Trainer(Run.open(tmp_path / "run", recipe), torch.device("cpu"), 60.0, None)
    assert trainer.adam.param_groups[0]["betas"] == (0.9, 0.98)
    rates = [learning_rate(recipe, step, 30) / recipe.rate for step in (0, 1, 3, 15, 63)]
    assert rates == pytest.approx([0.25, 0.5, 1.0, 0.5, 0.25])
    with pytest.raises(SpecError, match="decay rates of Adam's means"):
        dataclasses.replace(SMALL, betas=(0.9, 1.0))


def test_a_cosine_falls_from_the_rate_to_a_hundredth_of_it(tmp_path):
    recipe = dataclasses.replace(SMALL, schedule="cosine", epochs=2, rate=0.01)
    rates = [learning_rate(recipe, step, 100) for step in (0, 25, 50, 75, 100, 200)]
    assert rates == pytest.approx([0.01, 0.0085502, 0.00505, 0.0015498, 1e-4, 1e-4], rel=1e-4)
    run = train(recipe, tmp_path / "run")
    steps, last = run.summary["steps"], run.curve[-1]["rate"]
    assert last == learning_rate(recipe, steps - 1, steps)
    assert 1e-4 < last < 2e-4


COOLING = dataclasses.replace(SMALL, schedule="cooldown", warmup=5, epochs=4)


def test_a_cooldown_keeps_the_rate_and_then_falls_in_a_straight_line(tmp_path):
    factors = [cooled(dataclasses.replace(COOLING, epochs=10), done) for done in (0, 3.5, 7, 7.75, 8.5, 9.75, 10)]
    assert factors == pytest.approx([1, 1, 1, 0.75, 0.5, 1 / 12, 0])
    rates = [entry["rate"] for entry in train(COOLING, tmp_path / "run").curve]
    assert rates[:2] == [COOLING.rate] * 2
    assert 0 < rates[3] < rates[2] < COOLING.rate


@pytest.mark.parametrize("killed", [None, 2, 3])
def test_a_run_that_begins_where_a_shorter_one_stood_has_the_bits_of_one_trained_from_nothing(
    tmp_path, monkeypatch, killed
):
    """Also if the shorter one was killed while the state before its cool-down was being kept."""
    longer = dataclasses.replace(COOLING, epochs=6)
    whole = train(longer, tmp_path / "whole")
    folder = tmp_path / "short"
    if killed is not None:
        steps = whole.curve[1]["step"] + (killed - 2)  # at the end of the last epoch of full rate, and a step later
        with pytest.raises(Killed):
            train(COOLING, folder, save_every=0.0, progress=kill_at(steps))
    shorter = train(COOLING, folder)
    assert to_extend(longer, tmp_path.iterdir()).folder == folder
    seen = []
    extended = train(longer, tmp_path / "long", after=shorter, progress=seen.append)
    assert_same_bits(extended, whole)
    assert seen[0].epoch == COOLING.cooldown_at == 2
    assert to_extend(dataclasses.replace(longer, epochs=8), tmp_path.iterdir()).recipe.epochs == 6
    assert to_extend(dataclasses.replace(longer, rate=0.1), tmp_path.iterdir()) is None


def test_what_cannot_be_extended_says_so(tmp_path):
    shorter = train(COOLING, tmp_path / "short")
    for name, change in (("a", {"epochs": 3}), ("b", {"epochs": 6, "rate": 0.1}), ("c", {"epochs": 6, "warmup": 0})):
        with pytest.raises(RunError, match="cannot be extended to this recipe"):
            train(dataclasses.replace(COOLING, **change), tmp_path / name, after=shorter)
    (shorter.folder / "trunk.safetensors").unlink()
    with pytest.raises(RunError, match="has not come to the end of its full rate"):
        train(dataclasses.replace(COOLING, epochs=6), tmp_path / "long", after=shorter)


def test_a_curve_of_several_questions_counts_them_by_depth(tmp_path):
    few = {"train": 64, "dev": 30, "test": 5, "iid": 0}
    recipe = Recipe("seq2seq_lstm", {"width": 8}, data="orchard/easy/min-max", data_settings=few, dev_rows=30, epochs=1)
    run = train(recipe, tmp_path / "run")
    groups = run.curve[0]["dev_by_nesting"]
    dev = generate("orchard/easy/min-max", "dev", 0, **few)
    right = predict(run, dev).logits[:, :, :10].argmax(2) == dev.targets
    for depth, counts in groups.items():
        rows = dev.nesting == int(depth)
        assert counts == [*right[rows].sum(0), right[rows].all(1).sum(), rows.sum()]
    assert sum(counts[-1] for counts in groups.values()) == len(dev)


def test_the_rate_falls_when_dev_does_not_improve_and_training_stops(tmp_path):
    recipe = dataclasses.replace(SMALL, rate=1e-12, epochs=30, patience=2, stop=5, decay=0.5)
    run = train(recipe, tmp_path / "run")
    assert [round(entry["rate"] / 1e-12, 3) for entry in run.curve] == [1, 1, 1, 0.5, 0.5, 0.25]
    assert run.summary["epochs"] == 6


def test_one_thread_is_used_and_the_callers_setting_restored(tmp_path):
    before = torch.get_num_threads()
    seen = set()
    train(dataclasses.replace(SMALL, epochs=1), tmp_path / "r", progress=lambda _: seen.add(torch.get_num_threads()))
    assert seen == {1}
    assert torch.get_num_threads() == before


def test_an_unknown_model_is_named_before_anything_is_trained(tmp_path):
    with pytest.raises(SpecError, match="Did you mean 'treelstm'"):
        train(dataclasses.replace(SMALL, model="treelstn"), tmp_path / "run")


def test_another_recipe_in_the_folder_is_an_error(whole):
    with pytest.raises(RunError, match="another recipe: there rate = "):
        train(dataclasses.replace(SMALL, rate=0.5), whole.folder)


def test_a_corpus_with_new_words_is_an_error(whole):
    corpus = generate("listops/d20s", split="test", train=40, dev=5, test=5, operators=("MIN", "FIRST"))
    with pytest.raises(RunError, match=r"token '\[FIRST', which the model has never seen"):
        predict(whole, corpus)


def test_a_full_disk_keeps_the_last_state(tmp_path, whole, monkeypatch):
    """A run that can no longer write stops with a clear error, and resumes to the same bits when it can."""
    import pathlib

    honest = pathlib.Path.write_bytes

    def full(self, data):
        if "curve" in self.name and data.count(b"\n") == 2:
            raise OSError(28, "No space left on device")
        return honest(self, data)

    monkeypatch.setattr(pathlib.Path, "write_bytes", full)
    with pytest.raises(RunError, match="No space left on device"):
        train(SMALL, tmp_path / "run")
    monkeypatch.undo()
    assert not list((tmp_path / "run").glob("*.part"))
    assert_same_bits(train(SMALL, tmp_path / "run"), whole)


def test_a_diverging_run_says_so(tmp_path):
    with pytest.raises(RunError, match="lower rate"):
        train(dataclasses.replace(SMALL, rate=1e30, clip=1e30), tmp_path / "run")


def test_numbers_next_to_nothing_are_nothing_while_a_model_computes():
    """L2 shrinks weights that nothing needs to denormal numbers, with which some processors are 160 times as slow."""
    tiny = torch.full((64, 64), 1e-40)
    before = float((tiny @ torch.ones(64, 64)).max())
    assert before > 0
    with threads_of(1):
        assert float((tiny @ torch.ones(64, 64)).max()) == 0.0
        with threads_of(1):
            pass
        assert float((tiny @ torch.ones(64, 64)).max()) == 0.0  # an inner block does not end what the outer one began
    assert float((tiny @ torch.ones(64, 64)).max()) == before
