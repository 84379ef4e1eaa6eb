"""Errors in a user's own code: one line with file, line and function, and never our own traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import Run
from pomona.base.errors import SpecError
from pomona.sweeps.sweep import sweep

MINE = """
from dataclasses import dataclass
import pomona as pm
from pomona.trees.operators import Operator, define_operator

def sevens(texts):
    return ["7"] * len(texts)

def divides(texts):
    return 1 // 0


def reads(texts):
    return open("/nowhere/there")

def asks(texts):
    raise KeyError("\\x1b[31mred\\nand a second line")

@pm.MEASURES.add("broken-measure")
@dataclass(frozen=True)
class Broken(pm.Measure):
    \"\"\"Broken.\"\"\"
    def of_evaluation(self, evaluation):
        return evaluation.nothing_of_the_kind

def halved(arguments):
    return arguments[0] / 0

define_operator(Operator("HALF", halved))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the user's module, which is imported once."""
    made = tmp_path_factory.mktemp("users")
    (made / "mine_broken.py").write_text(MINE)
    return made


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["evaluate", "mine_broken:divides"], "mine_broken.py, line 10, in divides: ZeroDivisionError: "),
        (["evaluate", "mine_broken:reads"], "mine_broken.py, line 14, in reads: FileNotFoundError: "),
        (["evaluate", "mine_broken:asks"], "mine_broken.py, line 17, in asks: KeyError: "),
        (
            ["evaluate", "mine_broken:sevens", "--measure", "broken-measure"],
            "mine_broken.py, line 24, in of_evaluation: AttributeError: ",
        ),
    ],
)
def test_code_of_the_users_is_named_with_its_line(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    ran = run(*arguments, "--data", "listops/d20s", "--size", 5, "--set", "train=50", "--set", "test=5", "--no-ladder")
    assert ran.status == 3
    assert f"Your own code failed at {words}" in ran.err
    assert "Traceback (most" not in ran.err
    assert "\x1b" not in ran.err
    (kept,) = tmp_path.glob("pomona-error-*.txt")
    assert str(kept) in ran.err.replace("\n", "")
    assert "Traceback (most" in kept.read_text()


def test_a_rule_of_the_users_is_named_with_its_line(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "mine_half.py").write_text(MINE.replace("broken-measure", "broken-measure-2").replace("HALF", "HALF2"))
    (tmp_path / "rows.ptb").write_text("(HALF2 1 2)\n")
    ran = run("show", "rows.ptb", "--import", "mine_half")
    assert ran.status == 3
    assert "SpecError: the rule of 'HALF2' failed on [1, 2]: ZeroDivisionError" in ran.err
    assert "(mine_half.py, line 27, in halved)" in ran.err.replace("\n", " ")


@pytest.mark.parametrize("arguments", [["sweep", "plan.toml"], ["sweep", "plan.toml", "--dry-run"]])
def test_code_that_a_file_names_is_not_imported(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    """Only what was typed is imported."""
    module = _named_in_files(tmp_path, f"mine_in_{len(arguments)}_{arguments[0]}")
    monkeypatch.chdir(tmp_path)
    assert run(*arguments, "--out", "runs").status == (0 if "--dry-run" in arguments else 3)
    assert not (tmp_path / "it-ran").exists()
    run("sweep", "--model", f"{module}:Model", "--out", "runs")
    assert (tmp_path / "it-ran").exists()  # typed: this was asked for


def test_a_declaration_in_a_file_does_not_import_its_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`sweep("plan.toml", ...)` used to import the modules that its models are in."""
    module = _named_in_files(tmp_path, "mine_in_a_plan")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SpecError, match=f"add --import {module}"):
        sweep("plan.toml", "runs")
    assert not (tmp_path / "it-ran").exists()
    with pytest.raises(SpecError, match="has no 'Model'"):
        sweep("plan.toml", "runs", modules=(module,))
    assert (tmp_path / "it-ran").exists()


def _named_in_files(folder: Path, module: str) -> str:
    (folder / f"{module}.py").write_text("open('it-ran', 'w').close()\n")
    (folder / "plan.toml").write_text(f'model = "{module}:Model"\nseeds = 1\n')
    return module
