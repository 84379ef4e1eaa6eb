"""A paper side by side: the same cells and bits as one run after the other; what fails is named and stops nothing."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from pomona.base.errors import RunError
from pomona.base.registry import trust
from pomona.papers.reproduce import PAPERS, Piece, Plan, reproduce
from pomona.papers.side_by_side import Elsewhere
from pomona.sweeps.orders import answer
from pomona.sweeps.sweep import owned

PAPER = '''
import dataclasses
from dataclasses import dataclass
from functools import partial

from pomona.data.task import generate
from pomona.papers.reproduce import PAPERS, Paper
from pomona.training.recipe import Recipe

SIZES = {"train": 100, "dev": 30, "test": 30}


@PAPERS.add("small_2026")
@dataclass(frozen=True)
class Small(Paper):
    """Two rates, and the better one with another seed."""

    title = "A small paper"
    places = ("Table 1",)

    def measure(self, plan):
        rates = (0.01, 1e30 if plan.budget == "paper" else 0.001)
        runs = [self.run(plan, rate, 0) for rate in rates]
        cells = [self.cell(plan, f"rate {rate}", run) for rate, run in zip(rates, runs)]
        if all(runs):
            best = max(runs, key=lambda run: run.summary["dev"])
            cells.append(self.cell(plan, "again", self.run(plan, best.recipe.rate, 1)))
        return {"cells": cells, "runs": []}

    def run(self, plan, rate, seed):
        recipe = Recipe("lstm", settings={"width": 6}, data_settings=SIZES, epochs=1, rate=rate, seed=seed, dev_rows=30)
        tests = {"test": partial(generate, "listops/d20s", "test", 0, **SIZES)}
        return plan.run(recipe, f"rate-{rate}-{seed}", tests, train=plan.wants("Table 1", "LSTM"))

    def cell(self, plan, column, run):
        return plan.cell("Table 1", "LSTM", column, None, [100 * run.scores["test"]["accuracy"]] if run else [])
'''


@pytest.fixture
def paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A paper of the user's own, in the working folder, as workers find it."""
    (tmp_path / "small_paper.py").write_text(PAPER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    trust("small_paper")
    yield "small_2026"
    sys.modules.pop("small_paper", None)
    PAPERS._entries.pop("small_2026", None)


def bits(folder: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in sorted(folder.rglob("last.safetensors"))}


@pytest.mark.parametrize("on", ["local", pytest.param("ray", marks=pytest.mark.conformance)])
def test_side_by_side_and_one_after_the_other_are_the_same(paper: str, tmp_path: Path, on: Any) -> None:
    said: list[str] = []
    alone = reproduce(paper, folder="alone", out="alone.json")
    elsewhere = Elsewhere(on, workers=2, modules=("small_paper",))
    found = reproduce(paper, folder="runs", out="found.json", elsewhere=elsewhere, say=said.append)
    assert found == alone
    assert [cell["runs"] for cell in found["cells"]] == [1, 1, 1]
    assert (tmp_path / "found.json").read_bytes() == (tmp_path / "alone.json").read_bytes()
    assert bits(tmp_path / "runs") == bits(tmp_path / "alone")
    assert len(bits(tmp_path / "runs")) == 3
    assert said[0] == "0 of 2 done; running: rate-0.01-0, rate-0.001-0"
    assert said[-1] == "1 of 1 done"  # of the piece that follows from the first two
    again = reproduce(paper, folder="runs", out="found.json", elsewhere=elsewhere)
    assert again == alone


def test_a_piece_that_fails_is_named_and_the_others_are_measured(paper: str, tmp_path: Path) -> None:
    elsewhere = Elsewhere(workers=1, modules=("small_paper",))
    found = reproduce(paper, budget="paper", folder="runs", out="found.json", elsewhere=elsewhere)
    (name,) = found["failed"]
    assert name == "rate-1e+30-0"
    assert "Start again with a lower rate" in found["failed"][name]
    assert [cell["runs"] for cell in found["cells"]] == [1, 0]
    assert "failed" not in json.loads((tmp_path / "found.json").read_text())
    assert "Traceback" in (tmp_path / "runs" / paper / "paper" / "failed" / f"{name}.txt").read_text()
    from typer.testing import CliRunner

    from pomona.cli.main import app

    told = ["reproduce", paper, "--import", "small_paper", "--budget", "paper", "--at-once", "1"]
    done = CliRunner().invoke(app, [*told, "--folder", "runs", "--results", "found.json"])
    assert done.exit_code == 1
    assert f"failed {name}: " in done.output


def test_an_interruption_ends_the_workers_and_the_same_call_resumes(
    paper: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pomona.sweeps.local import Local

    elsewhere, stopped = Elsewhere(workers=1, modules=("small_paper",)), []
    with monkeypatch.context() as patched:
        patched.setattr(Local, "poll", lambda self, seconds: (_ for _ in ()).throw(KeyboardInterrupt))
        leaving = Local.__exit__
        patched.setattr(Local, "__exit__", lambda self, *error: (leaving(self, *error), stopped.append(self))[0])
        with pytest.raises(KeyboardInterrupt):
            reproduce(paper, folder="runs", elsewhere=elsewhere)
    assert [engine._workers for engine in stopped] == [[]]
    assert [cell["runs"] for cell in reproduce(paper, folder="runs", elsewhere=elsewhere)["cells"]] == [1, 1, 1]


def test_what_another_process_has_written_meanwhile_is_kept(paper: str, tmp_path: Path) -> None:
    out = tmp_path / "results.json"

    def write_in_between(text: str) -> None:
        if not out.exists():
            cell = Plan(paper).cell("Table 1", "GRU", "rate 0.01", None, [50.0])
            out.write_text(json.dumps({"paper": "A small paper", "cells": [cell], "runs": []}))

    reproduce(paper, folder="runs", out=out, say=write_in_between)
    assert {cell["row"] for cell in json.loads(out.read_text())["cells"]} == {"LSTM", "GRU"}


def test_two_commands_do_not_share_a_folder(paper: str, tmp_path: Path) -> None:
    with owned(Plan(paper, folder="runs").home), pytest.raises(RunError, match="another command is working in"):
        reproduce(paper, folder="runs", elsewhere=Elsewhere(workers=1, modules=("small_paper",)))


def test_a_piece_that_the_paper_does_not_have_is_an_error(paper: str) -> None:
    order = Piece(paper, "cpu", (), (), "runs", 1, ("small_paper",), "rate-7")
    assert "has no piece of work 'rate-7'" in answer(order.as_text())["error"]
    assert not Path("runs").exists()


@pytest.mark.conformance
@pytest.mark.parametrize(
    ("paper", "asked"),
    [
        ("listops_2018", {"rows": ["LSTM 128D", "TreeLSTM 128D"], "where": ["Table 1"]}),
        ("orchard_2021", {"rows": ["Oracle hard min-max", "Oracle hard first-last"]}),
        ("fair_nli_2019", {"where": ["Table 3"], "rows": ["CompTreeNN", "CBoW"]}),
        ("tre_2019", {"where": ["game", "dynamics"]}),
    ],
)
def test_every_paper_has_the_same_cells_side_by_side(
    paper: str, asked: dict[str, Any], data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POMONA_DATA", str(data_folder))
    asked = {"budget": "smoke", **asked}
    alone = reproduce(paper, folder=tmp_path / "alone", **asked)
    found = reproduce(paper, folder=tmp_path / "runs", elsewhere=Elsewhere(workers=2), **asked)
    assert [_without_seconds(cell) for cell in found["cells"]] == [_without_seconds(cell) for cell in alone["cells"]]
    assert any(cell["runs"] for cell in found["cells"])


def _without_seconds(cell: dict[str, Any]) -> dict[str, Any]:
    return {} if "minutes" in cell["column"] else cell
