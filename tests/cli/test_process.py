"""The command as a process: progress, pipes, interruptions, and what it must not load."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from pomona.cli import terminal
from pomona.data import formats
from pomona.data.corpus import Corpus

from command_line import ENVIRONMENT, PROGRAM, SMALL, Run  # isort: skip


def test_nothing_moves_where_nobody_watches(tmp_path: Path) -> None:
    ran = subprocess.run(
        [*PROGRAM, "generate", "listops/d20s", "--out", str(tmp_path), *SMALL],
        capture_output=True, text=True, env=ENVIRONMENT | {"TERM": "xterm-256color"}, check=True,
    )  # fmt: skip
    assert ran.stderr == ""
    assert "\x1b" not in ran.stdout
    assert "\r" not in ran.stdout


def test_progress_moves_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    def shown(is_terminal: bool, quiet: bool) -> str:
        console = Console(force_terminal=is_terminal, file=(file := __import__("io").StringIO()), width=80)
        monkeypatch.setattr(terminal, "err", console)
        with terminal.progress("drawing", 3, quiet=quiet) as advance:
            advance(3)
        return str(file.getvalue())

    assert "drawing" in shown(True, False)
    assert shown(True, True) == shown(False, False) == ""


@pytest.mark.parametrize("arguments", [["ls"], ["ls", "--json"]])
def test_a_reader_that_leaves_early_is_no_failure(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)  # `| head` that has seen enough
    ran = subprocess.run([*PROGRAM, *arguments], stdout=writing, stderr=subprocess.PIPE, env=ENVIRONMENT, check=False)
    os.close(writing)
    assert (ran.returncode, ran.stderr) == (0, b"")


def test_the_package_is_a_command_too() -> None:
    module, script = (
        subprocess.run([*start, "ls"], capture_output=True, text=True, env=ENVIRONMENT, check=True).stdout
        for start in ([sys.executable, "-m", "pomona"], PROGRAM)
    )
    assert module == script != ""


def test_an_interruption_is_130_and_says_that_nothing_is_left(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: object, corpus: Corpus) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(formats.FORMATS.named("parquet").writer, "write", interrupted)
    ran = run("generate", "listops/d20s", "--out", tmp_path, *SMALL)
    assert ran.status == 130
    assert "Interrupted; nothing half-written was left behind." in ran.err
    assert list(tmp_path.iterdir()) == []


SCIPY = ["scipy.linalg", "scipy.special", "scipy.stats", "scipy.optimize", "scipy.sparse"]  # Numba loads the top only


@pytest.mark.parametrize(
    ("arguments", "never"),
    [
        (["--help"], ["torch", "scipy", "vl_convert", "numba", "pyarrow", "numpy", "pydantic", "typer.rich_utils"]),
        (["ls", "listops"], ["torch", "scipy", "vl_convert", "numba", "pyarrow"]),
        (["ls", "papers"], ["torch", "scipy", "vl_convert", "numba", "pyarrow"]),
        (["generate", "listops/d20s", "--out", "OUT", *SMALL], ["torch", "vl_convert", *SCIPY]),
        (["generate", "listops/d20s", "--out", "OUT", "-f", "tsv", *SMALL], ["torch", "pyarrow", *SCIPY]),
        (["show", "listops/d20s", *SMALL], ["torch", "vl_convert", "pyarrow", *SCIPY]),
    ],
)
def test_what_is_not_needed_is_not_loaded(tmp_path: Path, arguments: list[str], never: list[str]) -> None:
    code = (
        "import sys\nfrom pomona.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit as ended:\n    assert not ended.code, ended.code\n"
        f"print(sorted(set({never!r}) & set(sys.modules)), file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, *[str(tmp_path) if one == "OUT" else one for one in arguments]]
    for _ in range(2):  # the first may compile loops, for which Numba loads more
        ran = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=True)
    assert ran.stderr.splitlines()[-1] == "[]"
