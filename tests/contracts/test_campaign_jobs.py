"""A short form of the campaign: every output of a command is in its table, and kills and faults lose nothing."""

from __future__ import annotations

import errno
import inspect
import os
import signal
from pathlib import Path

import pytest
from campaign import faults, kills
from campaign.jobs import JOBS, Job, left_over, run, written

from pomona.cli.verbs import Verbs, modules

WRITES = ("out", "plot", "save", "folder", "results")  # parameters of commands that name what is written
# Each of these is a sequence of other commands, or writes with what other commands write with.
COMPOSED = {"demo": "generate, train, report", "sweep": "train", "represent": "one file through the door"}
EXPORT = JOBS["export"]


def test_every_command_that_writes_is_a_job() -> None:
    import importlib

    verbs = {job.arguments(0)[0] for job in JOBS.values()}
    for verb, module in modules().items():
        command = getattr(importlib.import_module(f"pomona.cli.commands.{module}"), module)
        outputs = [name for name in inspect.signature(command).parameters if name in WRITES]
        assert not outputs or verb in verbs | COMPOSED.keys(), f"{verb} writes {outputs}: add it to campaign/jobs.py"
    assert verbs <= set(Verbs())


@pytest.fixture(scope="module")
def wanted() -> kills.Expected:
    return kills.expected(EXPORT, older=True)


def test_a_command_that_is_killed_in_the_door_can_be_given_again(wanted: kills.Expected) -> None:
    """Killed before the first line of the door, in its middle and at its end, over an older output."""
    with kills.workplace(EXPORT) as folder:
        total = kills.lines(EXPORT, folder)
    assert total > 30
    for number in (1, total // 2, total - 1):
        with kills.workplace(EXPORT) as folder:
            run(EXPORT, folder, kills.OLDER)
            before = written(folder)
            hook = kills.at_line(number, lambda: os.kill(os.getpid(), signal.SIGKILL))
            assert run(EXPORT, folder, hook=hook) == -signal.SIGKILL
            assert written(folder) in (before, wanted.files)
            assert kills.judged(EXPORT, folder, run(EXPORT, folder), wanted) == []


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_fault_in_the_door_is_status_3_and_the_old_file_stays(wanted: kills.Expected, code: int) -> None:
    with kills.workplace(EXPORT) as folder:
        run(EXPORT, folder, kills.OLDER)
        before = written(folder)

        def fail() -> None:
            raise OSError(code, os.strerror(code))

        status = run(EXPORT, folder, hook=kills.at_line(20, fail, faults.CLEANING))
        assert status == 3
        assert written(folder) == before
        assert left_over(folder) == []


def test_the_harness_sees_a_loss(tmp_path: Path, wanted: kills.Expected) -> None:
    """A file that is missing, another or left behind is found."""
    (tmp_path / "inputs.jsonl").write_text("other")
    (tmp_path / ".inputs.jsonl.0123abcd.part").write_text("half")
    (tmp_path / "more").write_text("")
    found = kills.judged(Job("x", lambda seed: []), tmp_path, 70, wanted)
    assert len(found) == 4
