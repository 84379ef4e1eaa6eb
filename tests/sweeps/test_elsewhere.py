"""Sweeps on Ray and Slurm: the bits of one run after the other, on one node or several, whatever is killed."""

from __future__ import annotations

import os
import random
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pomona.base.errors import RunError
from pomona.sweeps.on_slurm import Slurm, script, submit
from pomona.sweeps.orders import answer
from pomona.sweeps.plan import Plan
from pomona.sweeps.sweep import missing, sweep
from pomona.sweeps.table import read_table
from pomona.sweeps.work import RunOrder
from sweeps_material import PLAN, bits

LONGER = {**PLAN, "seeds": 3, "recipe": {**PLAN["recipe"], "epochs": 50}}
KILLS = 6


# -- Ray ---------------------------------------------------------------------------------------------------------------


def test_ray_gives_the_same_bits(tmp_path: Path, one_by_one: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    monkeypatch.chdir(tmp_path)
    table = sweep({**PLAN, "seeds": 1}, "runs", on="ray", workers=2, evaluate=["test"])  # a path from here
    assert not ray.is_initialized()  # it was started here, so it is stopped here
    found = bits(tmp_path / "runs")
    assert len(found) == 2
    assert found.items() <= one_by_one.items()
    assert all(line.scores["test"].runs == 1 for line in table.lines)


@pytest.mark.conformance
def test_workers_of_ray_that_are_killed_at_random_moments_cost_nothing(tmp_path: Path) -> None:
    """Real Ray, real SIGKILL: every run is finished, with the bits of an undisturbed sweep."""
    sweep(LONGER, tmp_path / "alone", workers=2)
    over, killed = threading.Event(), []
    thread = threading.Thread(target=_kill_at_random, args=(tmp_path / "runs", over, killed), daemon=True)
    thread.start()
    try:
        table = sweep(LONGER, tmp_path / "runs", on="ray", workers=2, retries=2 * KILLS)
    finally:
        over.set()
        thread.join(10)
    assert killed
    assert not table.failed
    assert bits(tmp_path / "runs") == bits(tmp_path / "alone")
    assert len(bits(tmp_path / "runs")) == 6


def _kill_at_random(folder: Path, over: threading.Event, killed: list[int]) -> None:
    """Kill a worker of Ray that holds the lock of a run in this folder, again and again."""
    moments = random.Random(0)
    while len(killed) < KILLS and not over.is_set():
        time.sleep(moments.uniform(0.05, 1.0))
        for process in _writing_in(folder):
            os.kill(process, signal.SIGKILL)
            killed.append(process)
            break


def _writing_in(folder: Path) -> Iterator[int]:
    """The processes that have the lock of a run open."""
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            target = link.readlink()
        except OSError:
            continue
        if target.name == ".lock" and target.is_relative_to(folder) and int(link.parts[2]) != os.getpid():
            yield int(link.parts[2])


@pytest.mark.conformance
def test_several_nodes_share_a_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two nodes of Ray on this machine, one core each, at an address, as in a cluster."""
    import ray

    monkeypatch.setenv("RAY_worker_niceness", "0")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")

    sweep(LONGER, tmp_path / "alone", workers=2)
    with _two_nodes() as address:
        table = sweep(LONGER, tmp_path / "runs", on="ray", address=address)
        assert not ray.is_initialized()
    assert not table.failed
    assert bits(tmp_path / "runs") == bits(tmp_path / "alone")


@contextmanager
def _two_nodes() -> Iterator[str]:
    """The address of a Ray with two nodes; its start is tried twice, and it is always stopped."""
    from ray.cluster_utils import Cluster

    for last in (False, True):
        cluster = Cluster()
        try:
            for _ in range(2):
                cluster.add_node(num_cpus=1, include_dashboard=False, object_store_memory=100 << 20)
            cluster.wait_for_nodes()
            break
        except Exception:
            cluster.shutdown()
            if last:
                raise
    try:
        yield cluster.address
    finally:
        cluster.shutdown()


def test_a_machine_that_does_not_see_the_folder_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "there")
    text = RunOrder("runs/lstm", Plan.of(PLAN).jobs()[0].recipe.plain).as_text()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").rmdir()
    found = answer(text)
    assert "all machines must see the same folders under the same paths" in found["error"]
    assert found["final"]


# -- Slurm -------------------------------------------------------------------------------------------------------------


SBATCH = """#!/bin/sh
cp "$1" {folder}/submitted.sh
echo "Submitted batch job 123"
"""
SRUN = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do case "$1" in --output | --error) shift 2 ;; *) shift ;; esac; done
exec "$@"
"""


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with commands that stand in for Slurm's: one keeps what is submitted, one runs its arguments."""
    folder = tmp_path / "slurm-commands"
    folder.mkdir()
    for name, text in (("sbatch", SBATCH.replace("{folder}", str(folder))), ("srun", SRUN)):
        (folder / name).write_text(text)
        (folder / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")  # ours are found first, whatever is installed
    return folder


def run_task(submitted: Path, number: int | None = None) -> subprocess.CompletedProcess[str]:
    """Run a job, or one task of an array, as Slurm would: the script that was submitted, with Slurm's variables."""
    known = {"JOB_ID": 123 + (number or 0), "NTASKS": 1, "PROCID": 0}
    known |= {} if number is None else {"ARRAY_JOB_ID": 123, "ARRAY_TASK_ID": number}
    known |= {"JOB_NUM_NODES": 1, "NNODES": 1, "NODEID": 0, "LOCALID": 0}
    told = {f"SLURM_{name}": str(value) for name, value in known.items()} | {"SLURM_JOB_NODELIST": "here"}
    return subprocess.run(
        ["/bin/sh", str(submitted)], env={**os.environ, **told}, capture_output=True, text=True, check=False
    )


def test_slurm_gets_one_task_for_each_missing_run_and_the_bits_are_the_same(
    tmp_path: Path, slurm: Path, one_by_one: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plan = Plan.of({**PLAN, "seeds": 1})
    orders = missing(plan, "runs", evaluate=["test"])
    assert submit(orders, Path("runs"), Slurm(partition="cpu", hours=2.5, at_once=3)) == ["123_0", "123_1"]
    submitted = slurm / "submitted.sh"
    shown = script(orders, Path("runs"), Slurm(partition="cpu", hours=2.5, at_once=3))
    assert _options(shown) == _options(submitted.read_text())
    for line in ("--array=0-1%2", "--partition=cpu", "--time=150", "--cpus-per-task=1"):
        assert f"#SBATCH {line}" in shown
    assert "OMP_NUM_THREADS=1" in shown
    assert run_task(submitted, 1).returncode == 0
    assert [order.name for order in missing(plan, "runs", evaluate=["test"])] == [orders[0].name]  # the queue
    assert run_task(submitted, 0).returncode == 0
    found = bits(tmp_path / "runs")
    assert len(found) == 2
    assert found.items() <= one_by_one.items()
    assert all(line.scores["test"].runs == 1 for line in read_table("runs").lines)


def _options(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("#SBATCH")]


def test_a_task_of_slurm_that_fails_is_named_by_the_table(
    tmp_path: Path, slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    failing: dict[str, Any] = {**PLAN, "seeds": 1, "recipe": {**PLAN["recipe"], "rate": 1e30}}
    orders = missing(Plan.of(failing), "runs")
    assert submit(orders, Path("runs"), Slurm()) == ["123"]
    assert _options(script(orders, Path("runs"), Slurm())) == _options((slurm / "submitted.sh").read_text())
    assert run_task(slurm / "submitted.sh").returncode != 0
    assert "Start again with a lower rate" in read_table("runs").failed["lstm-seed=0"]


def test_without_slurm_or_when_it_refuses_it_says_so(
    tmp_path: Path, slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = [RunOrder(str(tmp_path / "lstm"), {})]
    (slurm / "sbatch").write_text("#!/bin/sh\necho 'sbatch: error: invalid partition' >&2\nexit 1\n")
    with pytest.raises(RunError, match=r"Slurm did not take the job: .*invalid partition"):
        submit(orders, tmp_path, Slurm())
    monkeypatch.setenv("PATH", str(tmp_path))  # whatever is installed, sbatch is not found
    with pytest.raises(RunError, match="there is no Slurm here"):
        submit(orders, tmp_path, Slurm())
