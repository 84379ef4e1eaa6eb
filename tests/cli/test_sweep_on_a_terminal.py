"""What a person at a terminal sees of a sweep: one table that is brought up to date; and how to go on after Ctrl-C."""

from __future__ import annotations

import os
import pty
import re
import signal
from collections.abc import Callable
from pathlib import Path

from command_line import ENVIRONMENT, PROGRAM

SWEEP = [
    "sweep", "--model", "lstm", "--recipe", "rate=0.01,1e30", "--at-once", "1", "--out", "runs", "--set", "train=1000",
    "--set", "dev=100", "--set", "test=20", "--recipe", "dev_rows=100", "--model-set", "width=8",
]  # fmt: skip


def on_a_terminal(arguments: list[str], folder: Path, react: Callable[[str], str]) -> tuple[int, str]:
    """The exit status and all that is shown; `react` is told of it, and says what is typed."""
    pid, number = pty.fork()
    if pid == 0:
        os.chdir(folder)
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # tests that run in the background have been told to ignore it
        known = {"TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40", "OMP_NUM_THREADS": "1"}
        os.execve(PROGRAM[0], [*PROGRAM, *arguments], ENVIRONMENT | known)
    shown = ""
    try:
        while True:
            shown += os.read(number, 4096).decode(errors="replace")
            if typed := react(shown):
                os.write(number, typed.encode())
    except OSError:
        _, status = os.waitpid(pid, 0)
        os.close(number)
    return os.waitstatus_to_exitcode(status), re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)


def test_a_sweep_is_one_table_and_the_failed_run_is_named(tmp_path: Path) -> None:
    status, shown = on_a_terminal([*SWEEP, "--recipe", "epochs=2"], tmp_path, lambda text: "")
    assert status == 1  # a run has failed
    first, second = r"lstm-rate=0\.01-seed=0", r"lstm-rate=1e\+30-seed=0"
    for words in ("done +1", f"running +{first}", "waiting +1", f"failed +{second}"):
        assert re.search(words, shown), words
    for words in ("examples/s +[1-9]", r"left +about \d+", rf"best +\d+\.\d\d% on dev: {first}"):
        assert re.search(words, shown), words
    assert "a second" not in shown  # no bar of a single run
    end = shown[shown.rindex("core-seconds") :]
    assert re.search(r"failed lstm-rate=1e\+30-seed=0: .*Start again with a lower rate", end.replace("\r\n", " "))


def test_after_an_interruption_it_says_how_to_go_on(tmp_path: Path) -> None:
    typed: list[str] = []

    def interrupt(shown: str) -> str:
        if typed or "running" not in shown or not list(tmp_path.glob("runs/*/curve.csv")):
            return ""
        typed.append("\x03")
        return typed[0]

    asked = [*SWEEP, "--recipe", "rate=0.01", "--recipe", "epochs=400"]
    status, shown = on_a_terminal(asked, tmp_path, interrupt)
    assert status == 130
    said = shown[shown.rindex("Stopped.") :]
    assert "The same command resumes; pomona sweep show runs tells how far." in said
    assert "examples/s" not in said  # the table is over
    held = [Path(link).resolve() for link in Path("/proc").glob("[0-9]*/cwd") if os.access(link, os.R_OK)]
    assert tmp_path.resolve() not in held  # no worker is left
