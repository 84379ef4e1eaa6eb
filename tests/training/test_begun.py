"""Where a run's examples come from (a task, files, a folder), and what a training that fails leaves behind."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import pomona as pm
from pomona.base.errors import RunError, SpecError
from pomona.models.model import Model
from pomona.training.data import corpora
from pomona.training.loop import train

SIZE: dict[str, Any] = {"train": 40, "dev": 12, "test": 12, "nesting": [2, None]}
TINY: dict[str, Any] = {"settings": {"width": 4}, "epochs": 1}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    for split in ("train", "dev", "test"):
        pm.write(pm.generate("listops/d20s", split, 3, **SIZE), folder / f"{split}.tsv")
    return folder


def test_a_dev_file_chooses_the_weights_and_all_of_train_is_trained_on(data: Path, tmp_path: Path) -> None:
    recipe = pm.Recipe("lstm", data=str(data / "train.tsv"), dev=str(data / "dev.tsv"), **TINY)
    examples, dev = corpora(recipe)
    assert examples.fingerprint == pm.read(data / "train.tsv").fingerprint
    assert dev.fingerprint == pm.read(data / "dev.tsv").fingerprint
    run = train(recipe, tmp_path / "run")
    assert run.data == {"train": examples.fingerprint, "dev": dev.fingerprint}
    assert pm.Run.read(tmp_path / "run").recipe == recipe
    held_out = corpora(pm.Recipe("lstm", data=str(data / "train.tsv"), dev_rows=10))
    assert [len(part) for part in held_out] == [30, 10]  # without a dev file, rows of the file itself


def test_a_folder_gives_train_and_dev(data: Path) -> None:
    recipe = pm.Recipe("lstm", data=str(data), dev_rows=5, **TINY)
    examples, dev = corpora(recipe)
    assert examples.fingerprint == pm.read(data / "train.tsv").fingerprint
    assert dev.fingerprint == pm.read(data / "dev.tsv")[:5].fingerprint
    seven = corpora(pm.Recipe("lstm", data=str(data), rows=7))[0]
    assert seven.fingerprint == pm.read(data / "train.tsv")[:7].fingerprint


def test_the_key_of_a_recipe_is_as_before_unless_it_names_a_dev_file() -> None:
    assert pm.Recipe("lstm").key == "5ee7be752d671795"
    assert pm.Recipe("lstm", dev="dev.tsv").key != pm.Recipe("lstm").key


def test_weights_are_not_chosen_on_what_was_trained_on(data: Path) -> None:
    pm.write(pm.read(data / "train.tsv")[5:8], data / "leaky.tsv")
    with pytest.raises(RunError, match=r"3 of the 3 examples of .*leaky.tsv are also in .*the first on line 1"):
        corpora(pm.Recipe("lstm", data=str(data / "train.tsv"), dev=str(data / "leaky.tsv")))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"settings": {"width": -1}}, r"lstm: width = -1: must be at least 1"),
        ({"settings": {"width": 0}}, r"width = 0: must be at least 1"),
        ({"settings": {"wdith": 8}}, r"lstm has no setting 'wdith'"),
        ({"data": "nowhere.tsv"}, r"nowhere\.tsv: there is no such file"),
        ({"data": "listops/d20"}, r"listops has no preset 'd20'"),
        ({"data_settings": {"trian": 3}}, r"listops has no setting 'trian'"),
        ({"data": "DATA", "data_seed": 3}, r"is a folder of examples: it has no settings"),
        ({"dev": "nowhere.tsv"}, r"nowhere\.tsv: there is no such file"),
        ({"dev": "listops/d20s"}, r"dev = 'listops/d20s' is no file"),
        ({"dev": "DATA/dev.tsv", "select_on": "test"}, r"weights are chosen on one"),
    ],
)
def test_what_is_wrong_is_said_before_there_is_a_folder(
    wrong: dict[str, Any], words: str, data: Path, tmp_path: Path
) -> None:
    chosen = {key: value.replace("DATA", str(data)) if value == str(value) else value for key, value in wrong.items()}
    with pytest.raises(pm.PomonaError, match=words):
        train(pm.Recipe(**{"model": "lstm", **chosen}), tmp_path / "deep" / "run")
    assert not (tmp_path / "deep").exists()


@dataclass(frozen=True)
class Breaks(Model):
    """A model of a user's own that fails when it is built, or at a step."""

    when: str = "build"

    def build(self, shape: Any) -> torch.nn.Module:
        if self.when == "build":
            raise ValueError("no such layer")
        return Broken(shape, self.when)


class Broken(torch.nn.Module):
    def __init__(self, shape: Any, when: str) -> None:
        super().__init__()
        self.words, self.when, self.calls = torch.nn.Embedding(shape.vocabulary, shape.classes), when, 0

    def forward(self, batch: Any, random: Any = None) -> pm.Output:
        self.calls += 1
        if self.when == "first step" or (self.when == "later" and self.calls > 8):
            raise KeyError("a slip of the user's own")
        return pm.Output(self.words(batch.tokens).sum(1))


@pytest.fixture
def breaks() -> str:
    pm.MODELS.add("breaks")(Breaks)
    return "breaks"


def broken(breaks: str, data: Path, when: str) -> pm.Recipe:
    return pm.Recipe(breaks, {"when": when}, data=str(data), epochs=3, batch=10)


@pytest.mark.parametrize(("when", "error"), [("build", SpecError), ("first step", KeyError)])
def test_a_failure_of_the_users_code_leaves_no_folder(
    breaks: str, data: Path, tmp_path: Path, when: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        train(broken(breaks, data, when), tmp_path / "runs" / "mine")
    assert not (tmp_path / "runs").exists()
    (tmp_path / "kept").mkdir()  # a folder that was there stays, without what the run had put into it
    with pytest.raises(error):
        train(broken(breaks, data, when), tmp_path / "kept" / "run")
    assert list((tmp_path / "kept").iterdir()) == []


def test_what_was_trained_is_never_removed(breaks: str, data: Path, tmp_path: Path) -> None:
    """The second epoch fails: what the first one saved stays, and a good command resumes or is refused as ever."""
    with pytest.raises(KeyError):
        train(broken(breaks, data, "later"), tmp_path / "run")
    assert len(pm.Run.read(tmp_path / "run").curve) == 1
    before = sorted(path.name for path in (tmp_path / "run").iterdir())
    with pytest.raises(RunError, match="holds a run of another recipe"):
        train(broken(breaks, data, "never"), tmp_path / "run")
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == before


def test_an_interrupted_run_keeps_its_name(breaks: str, data: Path, tmp_path: Path) -> None:
    def stop(progress: Any) -> None:
        raise KeyboardInterrupt

    recipe = broken(breaks, data, "never")
    with pytest.raises(KeyboardInterrupt):
        train(recipe, tmp_path / "run", progress=stop)
    assert pm.Run.read(tmp_path / "run").recipe == recipe
    assert train(recipe, tmp_path / "run").finished
    assert np.isfinite(pm.Run.read(tmp_path / "run").summary["dev"])
