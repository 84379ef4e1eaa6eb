"""Hostile names in every argument of every command, and as the names of all its files, on a real terminal.

    every_argument()                       each command, with a hostile text in one argument after the other
    every_name(JOBS.values())              each job of the table, whose inputs and outputs have hostile names

Law: no control sequence of the name reaches the terminal, and the command ends in one of the known ways.
"""

from __future__ import annotations

import importlib
import os
import pty
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from campaign.fuzzing import load
from campaign.jobs import Job, command, warm
from campaign.kills import Toll

HOSTILE = "\x1b]0;owned\x07\x1b[31m[-x][link=http:x]:smile:\u202e\x1b]8;;http:x\x07"
FORBIDDEN = ("\x1b]0", "\x07", "\x1b]8", "\u202e", "Traceback")
OUTPUTS = ("--out", "--plot", "--results", "--folder", "--save-answers", "--title")
SHORT = {"demo": ["--rows", "100", "--epochs", "1"]}  # what makes a command short that runs with few arguments
STATUSES = (0, 1, 2, 3)
SECONDS = 120


def every_argument(until: float) -> Toll:
    """Each command with a hostile text in each argument and each option, the others as short as they can be."""
    toll = Toll()
    load()
    for arguments in _commands():
        if time.monotonic() > until:
            break
        with tempfile.TemporaryDirectory(prefix="pomona-campaign-") as folder:
            _judge(toll, arguments[0], arguments, *shown(Path(folder), lambda words=arguments: _pomona(words)))
    return toll


def _commands() -> Iterator[list[str]]:
    from pomona.cli.verbs import Verbs

    for verb, known in Verbs().items():
        needed = [HOSTILE for one in known.params if one.param_type_name == "argument" and one.required]
        needed += SHORT.get(verb, [])
        if HOSTILE in needed:
            yield [verb, *needed]
        yield [verb, *needed, f"--{HOSTILE}"]
        for one in known.params:
            if one.param_type_name == "option" and not getattr(one, "is_flag", False) and "--help" not in one.opts:
                yield [verb, *needed, one.opts[0], HOSTILE]
                if one.multiple:
                    yield [verb, *needed, one.opts[0], f"width={HOSTILE}"]


def every_name(jobs: Iterable[Job], until: float) -> Toll:
    """Each job with hostile names for all its files."""
    toll = Toll()
    for job in jobs:
        if time.monotonic() > until:
            break
        warm([job])
        with tempfile.TemporaryDirectory(prefix="pomona-campaign-") as name:
            folder = Path(name)
            job.prepare(folder)
            there = {path.name for path in folder.iterdir()}
            for path in folder.iterdir():
                path.rename(folder / f"{HOSTILE}{path.name}")
            words = job.arguments(0)
            named = [
                f"{HOSTILE}{word}" if word in there or words[number - 1] in OUTPUTS else word
                for number, word in enumerate(words)
            ]
            status, text = shown(folder, lambda words=named: _pomona(words))
            _judge(toll, job.name, named, status, text)
            if status not in (0, 1):
                toll.lost.append(f"{job.name} with hostile names ended with {status}: {text[-300:]!r}")
    return toll


def _judge(toll: Toll, name: str, arguments: list[str], status: int, text: str) -> None:
    toll.commands += 1
    toll.kills[name] += status == 3
    what = f"{name}: {[word.replace(HOSTILE, 'HOSTILE') for word in arguments]}"
    toll.lost += [f"{what} shows {found!r}: {text[-300:]!r}" for found in FORBIDDEN if found in text]
    if status not in STATUSES:
        toll.lost.append(f"{what} ended with {status}: {text[-300:]!r}")


def _pomona(words: list[str]) -> int:
    from pomona.cli import terminal

    importlib.reload(terminal)  # which looks whether its output is a terminal
    return command(Job("terminal", lambda seed: words), 0)


def shown(folder: Path, work: Callable[[], int]) -> tuple[int, str]:
    """The exit status of a function, in a forked process with a terminal of its own, and what it wrote there."""
    child, number = pty.fork()
    if not child:
        status = 70
        try:
            os.environ["TERM"] = "xterm-256color"
            os.chdir(folder)
            sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
            signal.alarm(SECONDS)
            status = work()
            sys.stdout.flush()
        finally:
            os._exit(status)
    text = bytearray()
    with suppress(OSError):  # the other end was closed
        while piece := os.read(number, 1 << 16):
            text += piece
    os.close(number)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), text.decode("utf-8", "replace")
