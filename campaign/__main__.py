"""`python -m campaign [PART ...] [--seconds N] [--kills N] [--inputs N] [--seed N]`: run the campaign, print the count.

With `--kept FOLDER`, kills and mutated files go on where the last call with this folder stopped.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from campaign.jobs import Job
    from campaign.kills import Toll

PARTS = {  # and the share of the time that each gets
    "kills": 0.2, "points": 0.15, "faults": 0.15, "disks": 0.1, "kernel": 0.1, "fuzz": 0.2, "races": 0.05,
    "numbers": 0.05, "browser": 0.05, "terminal": 0.05,
}  # fmt: skip
_IN_KERNEL = (
    ("write", "ENOSPC"), ("fsync", "EIO"), ("rename", "EROFS"), ("write", "EINTR"), ("write", "EDQUOT"),
    ("openat", "EACCES"),
)  # fmt: skip
_KILOBYTES = (8, 16, 32, 64, 128, 256)


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m campaign", description=__doc__)
    options.add_argument("parts", nargs="*", choices=[*PARTS, []], help=", ".join(PARTS))
    options.add_argument("--seconds", type=float, default=900.0, help="for all parts together")
    options.add_argument("--kills", type=int, default=1_000, help="at random moments, of all commands together")
    options.add_argument("--inputs", type=int, default=1_000_000, help="mutated files, of all readers together")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--jobs", default="", help="only commands whose name contains one of these, with commas")
    options.add_argument("--material", type=Path, help="a folder to keep the material in, to begin faster next time")
    options.add_argument("--kept", type=Path, help="a folder to keep the count in, to go on next time")
    chosen = options.parse_args()
    parts = chosen.parts or list(PARTS)
    if "TMPDIR" not in os.environ and Path("/dev/shm").is_dir():
        tempfile.tempdir = "/dev/shm"
    begin, wrong = time.monotonic(), 0
    with tempfile.TemporaryDirectory(prefix="pomona-campaign-") as folder:
        home = chosen.material or Path(folder) / "material"
        _in_child(partial(_make, home))
        os.environ["POMONA_CAMPAIGN"] = str(home.absolute())
        if chosen.kept:
            chosen.kept.mkdir(parents=True, exist_ok=True)
        for number, part in enumerate(parts):
            left = begin + chosen.seconds - time.monotonic()
            share = PARTS[part] / sum(PARTS[later] for later in parts[number:])
            counted, lost = _part(part, home, chosen, time.monotonic() + max(left, 1) * share)
            wrong += len(lost)
            print(f"{part}: {counted}", flush=True)
            for one in lost[:50]:
                print(f"  {one}", flush=True)
    print(f"{wrong} promises broken" if wrong else "Every promise held.")
    return int(bool(wrong))


def _make(home: Path) -> None:
    from campaign.material import make

    if not (home / "corpora").exists():
        make(home)


def _in_child(work: Callable[[], None]) -> None:
    """Do work in another process, so that what it leaves in memory is not inherited by every command."""
    child = os.fork()
    if not child:
        work()
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        raise SystemExit("the material could not be made")


def _part(part: str, home: Path, chosen: argparse.Namespace, until: float) -> tuple[str, list[str]]:
    from campaign import faults, fuzzing, hostile, kills, same_bits
    from campaign.jobs import JOBS
    from campaign.readers import READERS

    say = partial(print, flush=True)
    kept = chosen.kept / f"{part}.json" if chosen.kept else None
    jobs = [job for job in JOBS.values() if any(word in job.name for word in chosen.jobs.split(","))]
    if part == "fuzz":
        findings = fuzzing.fuzz(READERS.values(), home, cases=chosen.inputs, seed=chosen.seed, until=until, kept=kept,
                                say=say)  # fmt: skip
        return str(findings), [f"{reader}, case {number}: {what}" for reader, number, what in findings.wrong]
    if part == "numbers":
        compared = same_bits.differences(same_bits.pythons())
        return str(compared), compared.wrong
    if part == "browser":
        with tempfile.TemporaryDirectory(prefix="pomona-campaign-") as folder:
            return hostile.pages(home, Path(folder), until)
    if part == "kills":
        toll = kills.kills(jobs, count=chosen.kills, seed=chosen.seed, until=until, kept=kept, say=say)
        return str(toll), toll.lost
    if part == "disks" and not faults.can_mount():
        return "NOT RUN: no right to mount a small disk", []
    if part == "kernel" and not faults.can_inject():
        return "NOT RUN: there is no strace", []
    total = kills.Toll()
    for toll in _tolls(part, home, jobs, until):
        total.add(toll)
    late = f"; {total.calls:,} calls could fail" if total.calls else ""
    late += "; the time was over before the end" if time.monotonic() > until else ""
    refused = f"{total.kills.total():,} of them {'killed' if part == 'points' else 'refused'}"
    return f"{total.commands:,} commands, {refused}, {len(total.lost)} losses ({_by_job(total)}){late}", total.lost


def _by_job(toll: Toll) -> str:
    return ", ".join(f"{count} {name}" for name, count in toll.kills.items())


def _tolls(part: str, home: Path, jobs: list[Job], until: float) -> Iterator[Toll]:
    """What each command, or each race, came to."""
    from campaign import faults, kills, races, terminals

    if part == "terminal":
        yield terminals.every_argument(0.2 * time.monotonic() + 0.8 * until)
        yield terminals.every_name(jobs, until)
        return
    if part == "races":
        yield from races.all_races(home)
        return
    rules = [(call, error, at) for at in (1, 2, 3, 5, 8, 13, 21, 34) for call, error in _IN_KERNEL]
    for number, job in enumerate(jobs):
        stop = time.monotonic() + (until - time.monotonic()) / (len(jobs) - number)  # what is left is for the others
        if part == "points":
            yield kills.points(job, until=stop)
        elif part == "faults":
            yield faults.faults(job, until=stop)
            yield faults.limits(job)
        elif part == "disks":
            yield faults.full_disks(job, _KILOBYTES, stop)
            yield faults.read_only(job)
        else:
            yield faults.injected(job, rules, stop)


if __name__ == "__main__":
    sys.exit(main())
