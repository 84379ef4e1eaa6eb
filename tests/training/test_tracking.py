"""Learning curves elsewhere: as CSV always, and in TensorBoard's own reader every number of every epoch, once."""

from __future__ import annotations

import csv
import dataclasses
import sys
from pathlib import Path
from typing import Any

import pytest

from pomona.base.errors import SpecError
from pomona.sweeps.sweep import sweep
from pomona.training.loop import train
from pomona.training.recipe import Recipe
from pomona.training.run import Run
from pomona.training.tracking import TRACKERS, Tracker, follow, follower

CURVE = [
    {
        "epoch": epoch, "loss": 2.5 - epoch, "train": 0.25, "dev": 0.5, "dev_loss": 1.5, "rate": 0.001, "stage": "flat",
        "step": 300 * (epoch + 1), "core_seconds": 2.0 * epoch,
        "dev_by_nesting": {"3": [8, 7, 5, 10], "12": [1, 0, 0, 4]},
    }
    for epoch in range(3)
]  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> Run:
    made = Run.open(tmp_path / "run", Recipe("lstm"))
    made.write_curve(CURVE[:2])
    return made


def in_tensorboard(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard reads below a folder: (step, value) by tag."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util import tensor_util

    events = EventAccumulator(str(folder))
    events.Reload()
    tags = events.Tags()["tensors"] + events.Tags()["scalars"]
    found = {}
    for tag in tags:
        if tag in events.Tags()["scalars"]:
            found[tag] = [(event.step, event.value) for event in events.Scalars(tag)]
        else:
            found[tag] = [
                (event.step, tensor_util.make_ndarray(event.tensor_proto).item()) for event in events.Tensors(tag)
            ]
    return found


def test_a_curve_is_csv_as_well(run: Run) -> None:
    rows = list(csv.DictReader((run.folder / "curve.csv").read_text().splitlines()))
    assert [float(row["loss"]) for row in rows] == [2.5, 1.5]
    assert rows[0].keys() == {*CURVE[0].keys() - {"dev_by_nesting"}, "dev at depth 3", "dev at depth 12"}
    assert (rows[1]["dev at depth 3"], rows[1]["dev at depth 12"], rows[1]["stage"]) == ("0.5", "0.0", "flat")


def test_tensorboard_reads_every_number_once(run: Run) -> None:
    follow(run.folder, ["tensorboard"])
    follow(run.folder, ["tensorboard"])
    run.write_curve(CURVE)
    follow(run.folder, ["tensorboard"])
    found = in_tensorboard(run.folder / "tensorboard")
    assert found["loss/train"] == [(300, 2.5), (600, 1.5), (900, 0.5)]
    assert found["accuracy/dev at depth 3"] == [(300, 0.5), (600, 0.5), (900, 0.5)]
    assert found.keys() == {
        "loss/train", "loss/dev", "accuracy/train", "accuracy/dev", "rate", "core_seconds", "accuracy/dev at depth 3",
        "accuracy/dev at depth 12",
    }  # fmt: skip
    (run.folder / "tracked-tensorboard.json").unlink()  # a crash between sending and noting it
    follow(run.folder, ["tensorboard"])
    assert in_tensorboard(run.folder / "tensorboard") == found


def test_a_sweep_is_tracked_whether_its_runs_are_new_or_finished(tmp_path: Path) -> None:
    sizes = {"train": 60, "dev": 20, "test": 20}
    recipe = {"epochs": 2, "dev_rows": 20}
    plan: dict[str, Any] = {"model": "lstm", "set": sizes, "model_set": {"width": 6}, "recipe": recipe}
    sweep(plan, tmp_path / "runs", workers=1)
    assert not list(tmp_path.rglob("*tfevents*"))
    sweep({**plan, "seeds": 2}, tmp_path / "runs", workers=1, track=["tensorboard"])
    for seed in (0, 1):
        curve = Run.read(tmp_path / "runs" / f"lstm-seed={seed}").curve
        found = in_tensorboard(tmp_path / "runs" / f"lstm-seed={seed}" / "tensorboard")
        assert found["accuracy/dev"] == [(entry["step"], pytest.approx(entry["dev"])) for entry in curve]
        assert len(curve) == 2


def test_a_run_is_followed_while_it_is_trained(tmp_path: Path) -> None:
    seen: list[int] = []
    recipe = Recipe("lstm", settings={"width": 6}, data_settings={"train": 60, "dev": 20, "test": 20}, epochs=3)
    report = follower(tmp_path / "run", ["tensorboard"])
    assert report is not None

    def watch(now: Any) -> None:
        report(now)
        seen.append(len(list(tmp_path.rglob("*tfevents*"))))

    train(dataclasses.replace(recipe, dev_rows=20), tmp_path / "run", progress=watch)
    assert sorted({*seen}) == [0, 1, 2]
    assert follower(tmp_path / "run", []) is None


def test_another_tracker_is_one_more_file(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []

    @TRACKERS.add("list")
    @dataclasses.dataclass(frozen=True)
    class AsList(Tracker):
        """Numbers in a list."""

        def send(self, run: Run, entries: Any) -> None:
            sent.extend(entry["epoch"] for entry in entries)

    try:
        follow(run.folder, ["list"])
        run.write_curve(CURVE)
        follow(run.folder, ["list"])
    finally:
        TRACKERS._entries.pop("list")
    assert sent == [0, 1, 2]


def test_a_tracker_that_does_not_exist_is_an_error_before_anything_is_trained(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="Did you mean 'tensorboard'"):
        sweep({"model": "lstm"}, tmp_path / "runs", track=["tensorbord"])
    assert not (tmp_path / "runs").exists()
    assert "tensorflow" not in sys.modules
