"""A sweep as one array job of Slurm, submitted through submitit (extra `slurm`). Submit and leave: the run folders are
the queue. A task that is preempted or comes to its time limit goes back into Slurm's queue by itself, and its run
resumes; what failed or was killed is submitted again by the same command.

    submit(orders, folder, partition="cpu", hours=4)       the numbers of the jobs
    script(orders, folder, partition="cpu", hours=4)       what would be submitted, for a dry run
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pomona.base.errors import RunError
from pomona.base.extras import extras_named
from pomona.base.files import write_text
from pomona.sweeps.crew import FAILED
from pomona.sweeps.orders import Order, described, perform

MEMORY = "4GB"
MOST_LIMITS = 10  # how often a task that came to its time limit goes back into the queue
WARNING = 90  # seconds before its time limit, in which a task goes back into the queue; less of a short one


@dataclass(frozen=True)
class Slurm:
    """What is asked of Slurm for each run."""

    partition: str = ""
    hours: float = 4.0  # of a task, before its run goes back into the queue
    at_once: int = 64  # runs of the array that may run at a time
    memory: str = MEMORY
    more: Mapping[str, Any] | None = None  # further options of sbatch, for example {"account": "lab"}

    @property
    def parameters(self) -> dict[str, Any]:
        """The options in submitit's words."""
        partition = {"partition": self.partition} if self.partition else {}
        minutes = max(1, round(60 * self.hours))
        return {
            "job_name": "pomona",
            "cpus_per_task": 1,
            "mem": self.memory,
            "time": minutes,
            "signal_delay_s": min(WARNING, 10 * minutes),
            "array_parallelism": self.at_once,
            "setup": ["export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1"],
            **partition,
            **(self.more or {}),
        }


def submit(orders: Sequence[Order], folder: Path, asked: Slurm) -> list[str]:
    """Submit an array job with one task for each order; the numbers of its jobs."""
    executor = _executor(folder, asked)
    try:
        notes = [str(folder.absolute() / FAILED / f"{order.name}.txt") for order in orders]
        jobs = executor.map_array(Performance(), [order.as_text() for order in orders], notes)
    except Exception as error:
        raise RunError(f"Slurm did not take the job: {error}. `--dry-run` shows the script.") from error
    return [str(job.job_id) for job in jobs]


def script(orders: Sequence[Order], folder: Path, asked: Slurm) -> str:
    """The script that `submit` would give to sbatch."""
    with extras_named():
        from submitit.slurm.slurm import _make_sbatch_string

    parameters = asked.parameters
    if len(orders) > 1:  # one run is a plain job
        parameters["map_count"] = len(orders)
    else:
        del parameters["array_parallelism"]
    command = f"{shlex.quote(sys.executable)} -u -m submitit.core._submit {shlex.quote(str(folder / 'slurm'))}"
    return str(_make_sbatch_string(command=command, folder=folder / "slurm", **parameters))


def _executor(folder: Path, asked: Slurm) -> Any:
    with extras_named():
        import submitit

    try:
        executor = submitit.SlurmExecutor(folder=folder / "slurm", max_num_timeout=MOST_LIMITS)
    except RuntimeError as error:
        raise RunError(f"there is no Slurm here: {error}. Submit from a machine that has sbatch.") from error
    executor.update_parameters(**asked.parameters)
    return executor


class Performance:
    """What a task of the array does: an order, whose error is Slurm's failure and is written where the sweep looks for
    it. At its time limit submitit asks for a `checkpoint`, what to do next, and puts the task back into the queue."""

    def __call__(self, order: str, note: str) -> None:
        from submitit.core.utils import UncompletedJobError

        try:
            perform(order)
        except UncompletedJobError as error:
            said = "Slurm's time limit came too often; the same command submits the run again, and it resumes"
            write_text(note, f"{said} ({error})\n")
            raise
        except Exception as error:
            found = described(error)
            write_text(note, f"{found['error']}\n\n{found['traceback']}")
            raise
        Path(note).unlink(missing_ok=True)

    def checkpoint(self, order: str, note: str) -> Any:
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, order, note)  # the run folder has all that is done
