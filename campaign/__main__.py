"""`python -m campaign [PART ...] [--seconds N] [--count N] [--seed N]`: run the campaign and print what it counted."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

PARTS = ("kills", "points", "faults", "disks", "kernel", "fuzz", "races", "numbers")
_WRITES = (
    ("write", "ENOSPC"),
    ("write", "EIO"),
    ("fsync", "EIO"),
    ("rename", "EROFS"),
    ("write", "EDQUOT"),
    ("write", "EINTR"),
)


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m campaign", description=__doc__)
    options.add_argument("parts", nargs="*", choices=[*PARTS, []], help=", ".join(PARTS))
    options.add_argument("--seconds", type=float, default=900.0, help="for all parts together")
    options.add_argument("--count", type=int, default=1_000, help="kills, and mutated files of each reader")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--material", type=Path, help="a folder to keep the material in, to begin faster next time")
    chosen = options.parse_args()
    parts = chosen.parts or list(PARTS)
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="pomona-campaign-") as folder:
        home = chosen.material or Path(folder) / "material"
        _in_child(partial(_make, home))
        os.environ["POMONA_CAMPAIGN"] = str(home)
        for number, part in enumerate(parts):
            left = chosen.seconds - time.process_time() if number == len(parts) - 1 else chosen.seconds / len(parts)
            begin = time.monotonic()
            counted, lost = _part(part, home, chosen.count, chosen.seed, begin + left)
            wrong += len(lost)
            print(f"{part}: {counted} ({time.monotonic() - begin:.0f} s)", flush=True)
            for one in lost[:50]:
                print(f"  {one}", flush=True)
    print(f"{wrong} promises broken" if wrong else "Every promise held.")
    return int(bool(wrong))


def _make(home: Path) -> None:
    from campaign.material import make

    if not (home / "corpora").exists():
        make(home)


def _in_child(work: Callable[[], None]) -> None:
    """Do work in another process: where torch has computed gradients, a fork could not."""
    child = os.fork()
    if not child:
        work()
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        raise SystemExit("the material could not be made")


def _part(part: str, home: Path, count: int, seed: int, until: float) -> tuple[str, list[str]]:
    from campaign import faults, fuzzing, kills, races, same_bits
    from campaign.jobs import JOBS
    from campaign.readers import READERS

    say = partial(print, flush=True)
    if part == "fuzz":
        findings = fuzzing.fuzz(READERS.values(), home, cases=count, seed=seed, until=until)
        return str(findings), [f"{reader}, case {number}: {what}" for reader, number, what in findings.wrong]
    if part == "numbers":
        compared, different = same_bits.differences(same_bits.pythons())
        return f"{compared} processes, {len(different)} differences", different
    tolls: list[kills.Toll] = []
    jobs = list(JOBS.values())
    if part == "kills":
        tolls = [kills.kills(jobs, count=count, seed=seed, until=until, say=say)]
    elif part == "points":
        tolls = [kills.points(job, older=job.seeded, until=until) for job in jobs]
    elif part == "faults":
        tolls = [faults.faults(jobs, until=until), *(faults.limits(job) for job in jobs if time.monotonic() < until)]
    elif part == "disks":
        if not faults.can_mount():
            return "NOT RUN: no right to mount a small disk", []
        sizes = (8, 16, 32, 64, 128, 256)
        tolls = [faults.full_disks(job, sizes) for job in jobs if time.monotonic() < until]
    elif part == "kernel":
        if not faults.can_inject():
            return "NOT RUN: there is no strace", []
        calls = [(call, error, at) for at in (1, 2, 3, 5, 8, 13) for call, error in _WRITES]
        tolls = [faults.injected(job, calls) for job in jobs if time.monotonic() < until]
    else:
        tolls = [
            races.scores(home), races.scores(home, locks=False), races.trainers(), races.generators(),
            races.generators(locks=False), races.caches(),
        ]  # fmt: skip
    lost = [one for toll in tolls for one in toll.lost]
    return (
        f"{sum(toll.commands for toll in tolls):,} commands, {sum(toll.kills for toll in tolls):,} killed or refused",
        lost,
    )


if __name__ == "__main__":
    sys.exit(main())
