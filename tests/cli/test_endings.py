"""How the command ends: terminated, with a bug, with a system that refuses; and what a terminal is shown meanwhile."""

from __future__ import annotations

import dataclasses
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pomona.data import formats

from command_line import ENVIRONMENT, PROGRAM, SMALL, Run  # isort: skip

HOSTILE = "\x1b]0;owned\x07\x1b[31m[/x][link=http://x]:smile:"


def test_a_terminated_command_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    sizes = ["--set", "train=4000000", "--set", "dev=10", "--set", "test=10", "--split", "train"]
    process = subprocess.Popen(
        [*PROGRAM, "generate", "listops/d20s", "--out", str(tmp_path), *sizes],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT,
    )  # fmt: skip
    stop = time.monotonic() + 60
    while not any(tmp_path.iterdir()) and time.monotonic() < stop:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (143, "")
    assert err == "Terminated; nothing half-written was left behind.\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [ZeroDivisionError("by \x1b[31mnothing"), EOFError(), KeyError("x")])
def test_what_nobody_foresaw_is_called_a_bug(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    made: dict[str, Any] = {"error": error}
    exec(compile("def breaks(path):\n    raise error", formats.__file__, "exec"), made)  # as if it were our own code
    breaks = made["breaks"]
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    data = tmp_path / "rows.tsv"
    data.write_text("1\t1\n")
    entry = formats.FORMATS.named("tsv")
    monkeypatch.setitem(formats.FORMATS._entries, "tsv", dataclasses.replace(entry, read=breaks))
    ran = run("stats", data)
    assert ran.status == 4
    assert f"A bug in Pomona with {data}:" in ran.err
    assert "\x1b" not in ran.err
    (file,) = tmp_path.glob("pomona-bug-*.txt")
    assert str(file) in ran.err
    assert f"pomona 'stats' '{data}'" in file.read_text()
    assert "Traceback" in file.read_text()


@pytest.mark.parametrize(
    "arguments",
    [["train", "treelstm", "--out", "x/" * 2500], ["report", "x/" * 2500],
     ["evaluate", "x/" * 2500, "--data", "listops/d20s"], ["generate", "listops/d20s", "--out", "x" * 300, *SMALL]],
)  # fmt: skip
def test_a_path_that_is_too_long_is_bad_input(run: Run, tmp_path: Path, arguments: list[str]) -> None:
    ran = run(*arguments)
    assert ran.status == 3
    assert "Traceback" not in ran.err
    assert len(ran.err) < 6000


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp437"])
@pytest.mark.parametrize("verb", ["stats", "show"])
def test_encodings_that_lack_our_characters(tmp_path: Path, encoding: str, verb: str) -> None:
    rows = tmp_path / "rows.tsv"
    rows.write_text("9\t( ( ( [MAX 2 ) 9 ) ] )\n")
    ran = subprocess.run(
        [*PROGRAM, verb, str(rows)], capture_output=True, env=ENVIRONMENT | {"PYTHONIOENCODING": encoding}, check=True
    )
    shown = ran.stdout.decode(encoding)
    assert ran.stderr == b""
    assert ("`-" in shown or "#" in shown) or encoding == "cp437"
    assert "?" not in shown


def test_a_folder_whose_name_is_not_utf_8(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/caf\xe9"
    ran = subprocess.run(
        [*PROGRAM, "generate", "listops/d20s", "--out", folder, *SMALL],
        capture_output=True,
        env=ENVIRONMENT,
        check=True,
    )
    assert b"\\udce9" in ran.stdout
    assert sorted(path.name for path in Path(os.fsdecode(folder)).iterdir()) == [
        "dev.parquet",
        "manifest.json",
        "test.parquet",
        "train.parquet",
    ]
    subprocess.run([*PROGRAM, "verify", folder], capture_output=True, env=ENVIRONMENT, check=True)


def on_a_terminal(*arguments: str, folder: Path) -> str:
    """What a command writes to a terminal."""
    shown = bytearray()

    def read(number: int) -> bytes:
        data = os.read(number, 4096)
        shown.extend(data)
        return b""

    pid, number = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execve(sys.executable, [*PROGRAM, *arguments], ENVIRONMENT | {"TERM": "xterm-256color"})
    try:
        while True:
            read(number)
    except OSError:  # the other end was closed
        os.waitpid(pid, 0)
        os.close(number)
    return shown.decode("utf-8", "replace")


@pytest.mark.parametrize(
    "arguments",
    [
        ["generate", "listops/d20s", "--out", HOSTILE, *SMALL], ["stats", HOSTILE], ["verify", HOSTILE],
        ["train", "treelstm", "--out", HOSTILE, "--data", HOSTILE], ["stats", f"--{HOSTILE}"], [f"--{HOSTILE}"],
    ],
)  # fmt: skip
def test_a_terminal_is_not_controlled_by_names(tmp_path: Path, arguments: list[str]) -> None:
    shown = on_a_terminal(*[argument.replace("/", "_") if "http" in argument else argument for argument in arguments],
                          folder=tmp_path)  # fmt: skip
    assert "\x1b]0" not in shown
    assert "\x07" not in shown
    assert "\x1b]8" not in shown, "a link"
    assert "owned" in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\s|│", "", shown)


def test_a_progress_bar_shows_names_as_text(tmp_path: Path) -> None:
    code = (
        "import sys, time\nfrom pomona.cli import terminal\n"
        f"with terminal.progress({HOSTILE!r}, 2) as advance:\n    advance(1); time.sleep(0.3)"
    )
    pid, number = pty.fork()
    if pid == 0:
        os.execve(
            sys.executable, [sys.executable, "-c", code], ENVIRONMENT | {"TERM": "xterm-256color", "COLUMNS": "160"}
        )
    shown = bytearray()
    try:
        while True:
            shown += os.read(number, 4096)
    except OSError:
        os.waitpid(pid, 0)
        os.close(number)
    text = shown.decode()
    assert "\x1b]0" not in text
    assert "[/x][link=http://x]:smile:" in text
