"""A sweep: the same bits as one run after the other, wherever it runs; what fails or is killed costs nothing else."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pomona.base.errors import RunError, SpecError
from pomona.sweeps.local import Ended, Local
from pomona.sweeps.plan import Plan
from pomona.sweeps.search import search
from pomona.sweeps.sweep import DECLARATION, Progress, owned, sweep
from pomona.sweeps.table import Table, read_table
from pomona.sweeps.work import RunOrder
from pomona.training.recipe import Recipe
from pomona.training.run import Run
from sweeps_material import PLAN, SIZES, bits

FAILING: dict[str, Any] = {**PLAN, "seeds": 1, "recipe": {**PLAN["recipe"], "rate": [0.001, 1e30]}}


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Table, list[Progress]]:
    """The plan on two local workers."""
    folder, seen = tmp_path_factory.mktemp("sweep") / "runs", []
    table = sweep(PLAN, folder, workers=2, evaluate=["test"], watch=seen.append)
    return folder, table, seen


def test_a_sweep_has_the_bits_of_one_run_after_the_other(
    swept: tuple[Path, Table, list[Progress]], one_by_one: dict[str, bytes]
) -> None:
    assert bits(swept[0]) == one_by_one
    assert len(one_by_one) == 4


def test_the_table_has_a_line_for_each_setting_over_its_seeds(swept: tuple[Path, Table, list[Progress]]) -> None:
    folder, table, _ = swept
    assert [line.settings["rate"] for line in table.lines] in ([0.001, 0.01], [0.01, 0.001])
    for line in table.lines:
        runs = [Run.read(folder / name) for name in line.runs]
        assert line.finished == len(runs) == 2
        assert line.dev is not None
        assert line.dev.value == pytest.approx(sum(run.summary["dev"] for run in runs) / 2)
        assert line.scores["test"].value == pytest.approx(sum(run.scores["test"]["accuracy"] for run in runs) / 2)
        assert line.core_seconds > 0
    assert table.best is table.lines[0]
    assert table.lines[0].dev.value >= table.lines[1].dev.value  # type: ignore[union-attr]
    rows = list(csv.DictReader(table.as_csv().splitlines()))
    assert [float(row["rate"]) for row in rows] == [line.settings["rate"] for line in table.lines]
    assert float(rows[0]["dev"]) == table.lines[0].dev.value  # type: ignore[union-attr]
    assert table.as_dict()["lines"][0]["scores"]["test"]["runs"] == 2
    assert "core-seconds" in str(table)
    assert json.loads((folder / DECLARATION).read_text()) == {"plan": PLAN, "evaluate": ["test"]}


def test_it_says_how_far_it_has_come(swept: tuple[Path, Table, list[Progress]]) -> None:
    seen = swept[2]
    assert seen[-1].done == 4
    assert not seen[-1].running
    assert seen[-1].best is not None
    assert all(now.done + len(now.running) + now.waiting + len(now.failed) == 4 for now in seen)
    assert any(now.running for now in seen)


def test_the_same_call_again_does_nothing_and_a_larger_plan_only_what_is_new(
    swept: tuple[Path, Table, list[Progress]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, ordered = swept[0], []
    monkeypatch.setattr(Local, "submit", lambda self, order: ordered.append(order.name))
    monkeypatch.setattr(Local, "poll", lambda self, seconds: _ended(self, ordered))
    sweep(PLAN, folder, workers=2, evaluate=["test"])
    assert ordered == []
    sweep({**PLAN, "model_set": {"width": [8, 9]}, "seeds": 1}, folder, workers=2)
    assert sorted(ordered) == ["lstm-width=9-rate=0.001-seed=0", "lstm-width=9-rate=0.01-seed=0"]


def _ended(engine: Any, ordered: list[str]) -> list[Any]:
    told = getattr(engine, "told", 0)
    engine.told = len(ordered)
    return [Ended(name, None) for name in ordered[told:]]


def test_a_run_that_fails_does_not_stop_the_others_and_is_named(tmp_path: Path) -> None:
    table = sweep(FAILING, tmp_path / "runs", workers=1)
    (name,) = table.failed
    assert name == "lstm-rate=1e+30-seed=0"
    assert "Start again with a lower rate" in table.failed[name]
    assert "Traceback" in (tmp_path / "runs" / "failed" / f"{name}.txt").read_text()
    assert [line.runs for line in table.lines if line.finished] == [("lstm-rate=0.001-seed=0",)]
    assert f"failed: {name}" in str(table)


def test_a_killed_worker_is_replaced_and_the_bits_are_the_same(tmp_path: Path, one_by_one: dict[str, bytes]) -> None:
    killed: list[int] = []

    def kill_one(engine: Local) -> None:
        while not killed:
            time.sleep(0.05)
            for worker in [*engine._workers]:
                if worker.order is not None and (Path(worker.order.folder) / "curve.jsonl").exists():
                    os.kill(worker.process.pid, signal.SIGKILL)
                    killed.append(worker.process.pid)
                    return

    engine = Local(2)
    thread = threading.Thread(target=kill_one, args=(engine,), daemon=True)
    thread.start()
    table = sweep(PLAN, tmp_path / "runs", on=engine)
    thread.join(10)
    assert killed
    assert bits(tmp_path / "runs") == one_by_one
    assert not table.failed


def test_a_worker_that_always_dies_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    table = sweep({**PLAN, "seeds": 1}, tmp_path / "runs", workers=1, retries=1)
    assert len(table.failed) == 2
    assert all("its worker process ended by exit status 1" in error for error in table.failed.values())


def test_a_run_that_a_worker_of_a_killed_sweep_still_trains_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed alone, a sweep leaves its workers, which finish their run; given again, it must not call it failed."""
    recipe = Plan.of({**PLAN, "seeds": 1}).jobs()[0].recipe
    tries: list[int] = []

    def busy(seconds: float) -> None:
        tries.append(1)
        if len(tries) == 3:
            holding.close()

    monkeypatch.setattr("pomona.sweeps.work.time", SimpleNamespace(sleep=busy))
    with ExitStack() as holding:
        holding.enter_context(Run.open(tmp_path / "run", recipe).locked())
        RunOrder(str(tmp_path / "run"), recipe.plain).do()
    assert len(tries) == 3
    assert Run.read(tmp_path / "run").finished


def test_two_sweeps_do_not_share_a_folder(tmp_path: Path) -> None:
    with owned(tmp_path), pytest.raises(RunError, match="another command is working in"):
        sweep(PLAN, tmp_path, workers=1)


def test_a_wrong_name_is_an_error_before_anything_is_started(tmp_path: Path) -> None:
    for change, words in (({"model": "lsmt"}, "Did you mean 'lstm'"), ({"set": {"trian": 3}}, "Did you mean 'train'")):
        with pytest.raises(SpecError, match=words):
            sweep({**PLAN, **change}, tmp_path / "runs")
        assert not (tmp_path / "runs").exists()
    with pytest.raises(SpecError, match="a sweep runs on local or ray"):
        sweep(PLAN, tmp_path / "runs", on="cloud")  # type: ignore[arg-type]
    with pytest.raises(RunError, match="is no folder of runs"):
        read_table(tmp_path / "nothing")


# -- the command -----------------------------------------------------------------------------------------------------


def test_the_command_reads_values_ranges_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    small = [word for name, value in SIZES.items() for word in ("--set", f"{name}={value}")]
    asked = ["sweep", "--model", "treelstm,lstm", "--seeds", "2", "--set", "width=8,16", *small, "--dry-run"]
    names = _call(*asked).split()  # the command of the issue: width can only be the model's
    assert sorted(names) == sorted(
        f"{model}-width={width}-seed={seed}" for model in ("treelstm", "lstm") for width in (8, 16) for seed in (0, 1)
    )
    ranges = ["sweep", "--model", "lstm", "--recipe", "rate=0.001..0.1", "--random", "3", *small, "--dry-run"]
    assert len(_call(*ranges).split()) == 3
    Path("plan.toml").write_text('model = "lstm"\nseeds = 3\n[model_set]\nwidth = [4, 8]\n')
    assert len(_call("sweep", "plan.toml", "--seeds", "1", *small, "--dry-run").split()) == 2
    Path("recipe.json").write_text('{"epochs": 3, "rate": [0.1, 0.2]}')
    assert len(_call("sweep", "--model", "lstm", "--recipe", "recipe.json", *small, "--dry-run").split()) == 2
    Path("other.toml").write_text('model = "lstm"\ndata = "propositional/deep"\n')
    typed = _call("sweep", "other.toml", "--data", "listops/d20s,listops/lra", *small, "--dry-run").split()
    assert typed == ["lstm-data=listops_d20s-seed=0", "lstm-data=listops_lra-seed=0"]
    script = _call("sweep", "plan.toml", "--on", "slurm", "--dry-run", "--out", "runs", *small)
    assert "#SBATCH --array=0-5%6\n" in script
    assert "2 of 2" not in _call("sweep", "show", "runs")


def test_an_address_without_ray_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from pomona.cli.main import app

    monkeypatch.chdir(tmp_path)
    for words in (["sweep", "--model", "lstm"], ["reproduce", "listops_2018", "--at-once", "2"]):
        done = CliRunner().invoke(app, [*words, "--address", "head:6379"])
        assert done.exit_code == 2
        assert "used with --on ray" in " ".join(done.output.replace("│", " ").split())
    assert not list(tmp_path.iterdir())


def test_the_command_shows_the_table(swept: tuple[Path, Table, list[Progress]]) -> None:
    text = _call("sweep", "show", str(swept[0]))
    assert "Best on dev: model=lstm, rate=" in text
    assert _call("sweep", "show", str(swept[0]), "--csv") == read_table(swept[0]).as_csv()


def test_the_report_of_a_sweep_shows_what_each_setting_does(swept: tuple[Path, Table, list[Progress]]) -> None:
    from pomona.reports.collect import collect
    from pomona.reports.inputs import gather
    from pomona.reports.setting_plots import setting_plots

    runs = [swept[0] / name for line in swept[1].lines for name in line.runs]
    (plot,) = setting_plots(collect(gather(runs)))
    (panel,) = plot.spec["concat"]
    assert panel["encoding"]["x"]["title"] == "rate"
    assert panel["encoding"]["x"]["scale"] == {"type": "log"}
    shown = {(row["run"], row["value"], row["dev"]) for row in panel["data"]["values"]}
    assert shown == {(run.name, Run.read(run).recipe.rate, Run.read(run).summary["dev"]) for run in runs}
    assert not list(setting_plots(collect(gather(runs[:3]))))


def _call(*words: str) -> str:
    from typer.testing import CliRunner

    from pomona.cli.main import app

    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == 0, done.output
    return done.output


# -- search ------------------------------------------------------------------------------------------------------------


def test_a_search_goes_on_where_it_stood(tmp_path: Path) -> None:
    ranges = {**PLAN, "seeds": 1, "recipe": {**PLAN["recipe"], "rate": {"low": 1e-4, "high": 1e-1}}}
    first = search(Plan.of(ranges), tmp_path / "runs", 2, workers=1)
    names = {path.name for path in (tmp_path / "runs").glob("lstm-*")}
    assert len(names) == 2
    second = search(Plan.of(ranges), tmp_path / "runs", 3, workers=1)
    assert names < {path.name for path in (tmp_path / "runs").glob("lstm-*")}
    assert len(second.lines) == len(first.lines) + 1 == 3
    assert not second.failed


def test_a_search_that_was_killed_resumes_the_run_it_was_at(
    tmp_path: Path, swept: tuple[Path, Table, list[Progress]], monkeypatch: pytest.MonkeyPatch
) -> None:
    ranges = {**PLAN, "seeds": 1, "recipe": {**PLAN["recipe"], "rate": {"low": 1e-4, "high": 1e-1}}}
    with monkeypatch.context() as patched:
        patched.setattr(Local, "poll", lambda self, seconds: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            search(Plan.of(ranges), tmp_path / "runs", 1, workers=1)
    table = search(Plan.of(ranges), tmp_path / "runs", 1, workers=1)
    assert [line.finished for line in table.lines] == [1]


class Played:
    """An engine without training: runs reach what they are told on dev, and the opposite on test."""

    slots = 1

    def __init__(self, reached: list[float]) -> None:
        self.reached, self.orders, self.cancelled, self.polls = reached, [], [], 0

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: Any) -> None:
        pass

    def submit(self, order: Any) -> None:
        self.orders.append(order)
        self.polls = 0
        entry = {"loss": 1.0, "train": 0.5, "rate": 0.1, "dev": self.reached[len(self.orders) - 1]}
        run = Run.open(order.folder, Recipe.from_settings(order.recipe))
        run.write_curve([{"epoch": epoch, **entry} for epoch in range(2)])
        run.add_scores("test", {"accuracy": 1 - entry["dev"]})

    def poll(self, seconds: float) -> list[Any]:
        self.polls += 1
        if self.polls == 1:  # it is still running, and can be looked at
            return []
        run = Run.read(self.orders[-1].folder)
        run.write("summary.json", {"best_epoch": 0, "dev": run.curve[-1]["dev"]})
        return [Ended(self.orders[-1].name, None)]

    def cancel(self, name: str) -> None:
        self.cancelled.append(name)


def test_a_search_stops_what_is_below_the_median_on_dev_and_never_looks_at_test(tmp_path: Path) -> None:
    import optuna

    ranges = {**PLAN, "seeds": 1, "recipe": {**PLAN["recipe"], "rate": {"low": 1e-4, "high": 1e-1}}}
    engine = Played([0.3, 0.4, 0.5, 0.6, 0.7, 0.1, 0.8])
    table = search(Plan.of(ranges), tmp_path / "runs", 7, on=engine, evaluate=["test"])
    assert engine.cancelled == [engine.orders[5].name]  # 0.1, after five trials with a median of 0.5
    assert table.best is not None
    assert table.best.dev is not None
    assert table.best.dev.value == 0.8
    store = optuna.storages.journal.JournalFileBackend(str(tmp_path / "runs" / "trials.log"))
    study = optuna.load_study(study_name="pomona", storage=optuna.storages.JournalStorage(store))
    assert [trial.value for trial in study.trials if trial.state.name == "COMPLETE"] == [0.3, 0.4, 0.5, 0.6, 0.7, 0.8]


def test_a_search_ends_when_everything_is_tried(swept: tuple[Path, Table, list[Progress]], tmp_path: Path) -> None:
    seen: list[Progress] = []
    shutil.copytree(swept[0], tmp_path / "runs")
    table = search(Plan.of({**PLAN, "seeds": 1}), tmp_path / "runs", 20, workers=1, watch=seen.append)
    assert len(table.lines) == 2  # there are no more combinations
    assert not seen  # both runs are finished: nothing was trained


def test_a_search_without_anything_to_choose_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="a search needs settings to choose"):
        search(Plan.of({"model": "lstm"}), tmp_path, 3)
    with pytest.raises(SpecError, match="at least 1"):
        search(Plan.of(PLAN), tmp_path, 0)
