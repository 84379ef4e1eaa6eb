"""A short form of the campaign: every output of a command is in its table, and kills and faults lose nothing."""

from __future__ import annotations

import errno
import inspect
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from campaign import faults, kills
from campaign.jobs import JOBS, left_over, run, said, written

from pomona.cli.verbs import Verbs, modules

WRITES = ("out", "plot", "save", "folder", "results")  # parameters of commands that name what is written
# A sequence of other commands.
COMPOSED = {"demo": "generate, train, report"}
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
def bench() -> Iterator[kills.Bench]:
    made = kills.Bench(EXPORT, older=True)
    yield made
    made.close()


def test_a_command_that_is_killed_before_a_call_can_be_given_again(bench: kills.Bench) -> None:
    """Killed before the first call that changes the disk, in the middle and before the last, over an older output."""
    total = kills.calls(bench)
    assert total > 15
    for number in (1, total // 2, total):
        with bench.place() as folder:
            hook = kills.at_call(number, lambda: os.kill(os.getpid(), signal.SIGKILL))
            assert run(EXPORT, folder, hook=hook) == -signal.SIGKILL
            assert written(folder) in (bench.before, bench.files)
            assert kills.judged(bench, folder, run(EXPORT, folder)) == []


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_fault_in_a_call_is_status_3_and_the_old_file_stays(bench: kills.Bench, code: int) -> None:
    with bench.place() as folder:

        def fail() -> None:
            raise OSError(code, os.strerror(code))

        middle = kills.calls(bench, faults.CLEANING) // 2  # the last calls come after the new file is in its place
        status = run(EXPORT, folder, hook=kills.at_call(middle, fail, faults.CLEANING))
        assert (status, os.strerror(code) in said()) == (3, True)
        assert written(folder) == bench.before
        assert left_over(folder) == []


def test_a_kill_at_random_is_counted_and_kept(tmp_path: Path) -> None:
    """A campaign that was stopped goes on from its count."""
    first = kills.kills([EXPORT], count=1, seed=3, kept=tmp_path / "kept.json")
    assert first.kills.total() >= 1
    again = kills.kills([EXPORT], count=first.kills.total(), seed=3, kept=tmp_path / "kept.json")
    assert (again.kills, again.commands, again.lost) == (first.kills, first.commands, [])


def test_the_harness_sees_a_loss(tmp_path: Path, bench: kills.Bench) -> None:
    """A file that is missing, another or left behind is found."""
    (tmp_path / "inputs.jsonl").write_text("other")
    (tmp_path / ".inputs.jsonl.0123abcd.part").write_text("half")
    (tmp_path / "more").write_text("")
    assert len(kills.judged(bench, tmp_path, 70)) == 4
    assert len(faults.judged(bench, tmp_path, 70, {"gone": ""})) == 5
