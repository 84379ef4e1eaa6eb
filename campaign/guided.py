"""Fuzzing led by coverage: atheris changes a file so that the reader runs lines that it did not run before.

    python -m campaign.guided --seconds 600                  # all readers, the time divided among them
    python -m campaign.guided jsonl snli --seconds 600 --found build/found

It needs atheris, which is not a dependency of Pomona's (docs/reliability.md says how to install it). Whatever breaks a
promise is said with the file that did it, which is then in the folder `--found`; the reader is fuzzed on.

Numba cannot compile code into which atheris has put its counters. So a compiled loop is made from its source again;
what it runs is not counted, and everything else of Pomona's is.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import resource
import shutil
import sys
import tempfile
import time
from functools import cache, partial
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

MEGABYTES = 6_000  # of memory that one reader's process may have
ENDED = re.compile(r"Done (\d+) runs")
COVERED = re.compile(r"cov: (\d+)")


def main() -> int:
    import atheris  # type: ignore[import-not-found]

    from pomona.base import compiled

    made = compiled._dispatcher
    compiled._dispatcher = lambda function, settings: made(uncounted(function), settings)
    with atheris.instrument_imports(include=["pomona"]):  # all that is imported, torch included, would take minutes
        from campaign import fuzzing
        from campaign.readers import READERS

        fuzzing.load()
    options = argparse.ArgumentParser(prog="python -m campaign.guided", description=__doc__)
    options.add_argument("readers", nargs="*", help="of campaign/readers.py; by default all")
    options.add_argument("--seconds", type=float, default=600.0, help="for all readers together")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--found", type=Path, default=Path("build/found"), help="where files that break a promise go")
    options.add_argument("--material", type=Path, help="a folder with the material, to begin faster")
    chosen = options.parse_args()
    names = chosen.readers or list(READERS)
    chosen.found.mkdir(parents=True, exist_ok=True)
    if Path("/dev/shm").is_dir():
        tempfile.tempdir = "/dev/shm"
    begin, runs, broken = time.monotonic(), 0, 0
    with tempfile.TemporaryDirectory(prefix="pomona-campaign-") as folder:
        home = chosen.material or Path(folder) / "home"
        if not home.exists():
            _make(home)
        for number, name in enumerate(names):
            left = max(2, (chosen.seconds - (time.monotonic() - begin)) / (len(names) - number))
            log = Path(folder) / "log.txt"
            fuzzing.warmed(READERS[name], home)
            status = _in_child(log, partial(_fuzz, READERS[name], home, int(left), chosen.seed, chosen.found))
            text = log.read_text(errors="replace")
            found = [line for line in text.splitlines() if line.startswith("BROKEN ")]
            count, lines = ENDED.findall(text), COVERED.findall(text)
            if not count:
                found.append(f"the process ended with {status}: {text[-500:]}")
            runs, broken = runs + int(count[-1] if count else 0), broken + len(found)
            seen = f"{int(lines[0]):,} to {int(lines[-1]):,} places" if lines else "nothing"
            print(f"{name}: {int(count[-1]) if count else 0:,} inputs, coverage {seen}", flush=True)
            for one in found:
                print(f"  {one}", flush=True)
    print(f"{runs:,} inputs of {len(names)} readers, {broken} promises broken")
    return int(bool(broken))


def _make(home: Path) -> None:
    from campaign.material import make

    make(home)


def _in_child(log: Path, work: Any) -> int:
    """Run a function that ends its process in a forked one, which writes to `log`; its exit status."""
    child = os.fork()
    if not child:
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        try:
            work()
        finally:
            os._exit(70)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _fuzz(reader: Any, home: Path, seconds: int, seed: int, found: Path) -> None:
    """Let atheris change the file of one reader; ends the process."""
    import atheris

    from campaign import fuzzing

    folder = Path(tempfile.mkdtemp(prefix="pomona-campaign-"))
    copy, seeds = folder / "home", folder / "seeds"
    seeds.mkdir()
    others = fuzzing.alike(reader, home)  # whole files: one of them in the place of this one is no damage
    for number, data in enumerate([(home / reader.file).read_bytes(), *others]):
        (seeds / str(number)).write_bytes(data)
    fuzzing.copy_part(home, copy, reader)
    right = fuzzing.digest(reader.read(copy)) if reader.sealed else ""
    told: set[str] = set()

    def one(data: bytes) -> None:
        if reader.writes:
            fuzzing.copy_part(home, copy, reader)
        (copy / reader.file).write_bytes(data)
        what, detail = fuzzing.outcome(reader, copy, "" if data in others or fuzzing.is_forged(data) else right)
        if detail and detail not in told:
            told.add(detail)
            path = found / f"{reader.name.replace(' ', '-')}-{hashlib.sha256(data).hexdigest()[:12]}"
            path.write_bytes(data)
            os.write(1, f"BROKEN {what}: {detail} ({path})\n".encode())

    fuzzing.timed()
    resource.setrlimit(resource.RLIMIT_AS, (MEGABYTES << 20, MEGABYTES << 20))
    flags = [f"-max_total_time={seconds}", f"-seed={seed}", "-rss_limit_mb=0", "-handle_alrm=0", "-timeout=600",
             f"-artifact_prefix={found}/", "-max_len=100000"]  # fmt: skip
    atheris.Setup([sys.argv[0], *flags, str(seeds)], one)
    try:
        atheris.Fuzz()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# -- loops without counters --------------------------------------------------------------------------------------------


def uncounted(function: FunctionType) -> FunctionType:
    """The same function from its source, without what atheris has put into its code."""
    code = _codes(function.__code__.co_filename).get((function.__qualname__, function.__code__.co_firstlineno))
    if code is None:
        return function
    made = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__, made.__annotations__ = function.__kwdefaults__, function.__annotations__
    made.__module__, made.__qualname__, made.__doc__ = function.__module__, function.__qualname__, function.__doc__
    return made


@cache
def _codes(file: str) -> dict[tuple[str, int], CodeType]:
    """The code of every function in a file, by its name and its first line."""
    waiting, found = [compile(Path(file).read_text(), file, "exec", dont_inherit=True)], {}
    while waiting:
        for part in waiting.pop().co_consts:
            if isinstance(part, CodeType):
                found[part.co_qualname, part.co_firstlineno] = part
                waiting.append(part)
    return found


if __name__ == "__main__":
    sys.exit(main())
