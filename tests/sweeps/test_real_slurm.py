"""A sweep on a real Slurm of one node, which the test starts: submitted, killed, preempted, put back into the queue,
submitted again; with the bits of one run after the other."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pomona.sweeps.on_slurm import Slurm, submit
from pomona.sweeps.plan import Plan
from pomona.sweeps.sweep import missing, sweep
from pomona.sweeps.table import read_table
from slurm_material import MISSING, slurm
from sweeps_material import PLAN, bits

LONGER: dict[str, Any] = {**PLAN, "seeds": 1, "recipe": {**PLAN["recipe"], "epochs": 150, "stop": 1_000}}
SECONDS = 240.0  # for anything that is waited for

pytestmark = [
    pytest.mark.conformance,
    pytest.mark.skipif(
        bool(MISSING), reason=f"NOT RUN: no Slurm here ({', '.join(MISSING)}): apt-get install slurm-wlm munge"
    ),
]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    with tempfile.TemporaryDirectory(prefix="slurm-", dir="/tmp") as folder, slurm(Path(folder)) as told:
        for name in ("PATH", "SLURM_CONF"):
            monkeypatch.setenv(name, told[name])
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(str(Path(__file__).parents[2] / place) for place in ("src",)))
        try:
            yield told
        finally:
            said("scancel", "--me")
            wait(lambda: not said("squeue", "--noheader"))


def said(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout


def wait(reached: Callable[[], Any]) -> None:
    deadline = time.monotonic() + SECONDS
    while not reached():
        assert time.monotonic() < deadline, said("squeue") + said("scontrol", "show", "job")
        time.sleep(0.3)


def state(job: str) -> str:
    """RUNNING, PENDING, COMPLETED, FAILED ..."""
    words = dict(word.partition("=")[::2] for word in said("scontrol", "show", "job", job).split())
    return words.get("JobState", "")


def restarts(job: str) -> int:
    words = dict(word.partition("=")[::2] for word in said("scontrol", "show", "job", job).split())
    return int(words.get("Restarts", 0))


def begun(folder: Path) -> bool:
    return bool(list(folder.glob("*/recipe.json")))


def at_once(job: str) -> None:
    """Slurm waits two minutes before it starts a job again; not here."""
    wait(lambda: state(job) in ("PENDING", "RUNNING"))
    said("scontrol", "update", f"JobId={job}", "StartTime=now")


def test_killed_tasks_are_submitted_again_and_the_bits_are_the_same(
    tmp_path: Path, cluster: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plan = Plan.of(LONGER)
    jobs = submit(missing(plan, "runs", evaluate=["test"]), Path("runs"), Slurm(partition="cpu", memory="500MB"))
    assert len(jobs) == 2
    wait(lambda: begun(tmp_path / "runs"))
    said("scancel", "--signal=KILL", jobs[0])
    wait(lambda: state(jobs[0]) not in ("RUNNING", "COMPLETING"))
    assert state(jobs[0]) != "COMPLETED"
    wait(lambda: state(jobs[1]) == "COMPLETED")
    orders = missing(plan, "runs", evaluate=["test"])
    assert [order.name for order in orders] == ["lstm-rate=0.001-seed=0"]
    again = submit(orders, Path("runs"), Slurm(partition="cpu", memory="500MB"))
    wait(lambda: state(again[0]) == "COMPLETED")
    assert not missing(plan, "runs", evaluate=["test"])
    table = read_table("runs")
    assert not table.failed
    assert all(line.scores["test"].runs == 1 for line in table.lines)
    sweep(plan, "alone", workers=1)
    assert bits(tmp_path / "runs") == bits(tmp_path / "alone")


@pytest.mark.parametrize("how", ["time limit", "preempted"])
def test_a_task_that_must_leave_goes_back_into_the_queue_by_itself(
    tmp_path: Path, cluster: dict[str, str], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.chdir(tmp_path)
    plan = Plan.of({**LONGER, "recipe": {**LONGER["recipe"], "rate": 0.01}})
    (job,) = submit(missing(plan, "runs"), Path("runs"), Slurm(partition="cpu", memory="500MB"))
    wait(lambda: begun(tmp_path / "runs"))
    if how == "time limit":
        said("scancel", "--signal=USR2", job)  # what Slurm sends, as it was asked to, before the time is over
    else:
        urgent = ["sbatch", "--partition=urgent", "--cpus-per-task=2", "--mem=100M", "--output=/dev/null"]
        said(*urgent, "--wrap=sleep 1")
    wait(lambda: restarts(job) == 1)
    at_once(job)
    wait(lambda: state(job) == "COMPLETED")
    assert not missing(plan, "runs")
    assert not read_table("runs").failed
    sweep(plan, "alone", workers=1)
    assert bits(tmp_path / "runs") == bits(tmp_path / "alone")
