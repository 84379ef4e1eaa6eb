"""Every reader with mutated files: an error of ours that names the file, or a value that can be used.

    findings = fuzz(READERS.values(), home, cases=1000, seed=0)

Cases run in forked batches with a limit of memory and of time, so that a crash is a finding, too. Case `number` of a
reader depends on nothing but the seed, the reader's name and the number.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import importlib
import io
import json
import os
import random
import resource
import shutil
import signal
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from campaign.mutations import mutated
from campaign.readers import Reader
from pomona.base.errors import PomonaError

BATCH = 1_000
SECONDS = 10  # of processor time for one case
WAITING = 200  # seconds on the clock, for what hangs
MEMORY = 2 << 30  # bytes that a batch may ask for beyond what the process has already
LONGEST_MESSAGE = 2_000
LIBRARIES = ("torch", "pyarrow.parquet", "pomona.training.loop", "pomona.papers.tre_2019.dynamics", "pomona.reports")


@dataclass
class Findings:
    """What happened to the cases, and those that broke a promise."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[tuple[str, int, str]] = field(default_factory=list)  # reader, case, what happened

    def __str__(self) -> str:
        parts = ", ".join(f"{count:,} {what}" for what, count in sorted(self.counts.items()))
        return f"{sum(self.counts.values()):,} inputs: {parts}"


def case(reader: Reader, seeds: list[bytes], seed: int, number: int) -> bytes:
    """The content of one case."""
    return mutated(seeds[0], random.Random(f"{seed} {reader.name} {number}"), seeds[1:])


def fuzz(readers: Iterable[Reader], home: Path, *, cases: int, seed: int = 0, until: float | None = None,
         say: Callable[[str], None] = lambda text: None) -> Findings:  # fmt: skip
    """Read this many mutated files with every reader, or as many as fit before the time `until`."""
    findings = Findings()
    chosen = list(readers)
    done = dict.fromkeys((reader.name for reader in chosen), 0)
    while any(count < cases for count in done.values()) and (until is None or time.monotonic() < until):
        for reader in chosen:
            first, last = done[reader.name], min(done[reader.name] + BATCH, cases)
            if first < last and (until is None or time.monotonic() < until):
                before = time.monotonic()
                for number, what, detail in _batch(reader, home, seed, range(first, last)):
                    findings.counts[what] += 1
                    if detail:
                        findings.wrong.append((reader.name, number, detail))
                done[reader.name] = last
                say(f"{reader.name}: {last} cases, {(time.monotonic() - before) / (last - first) * 1e3:.1f} ms each")
    return findings


def _batch(reader: Reader, home: Path, seed: int, numbers: range) -> Iterator[tuple[int, str, str]]:
    """Number, outcome and, if a promise was broken, what happened."""
    waiting = list(numbers)
    while waiting:
        with tempfile.TemporaryDirectory(prefix="pomona-campaign-") as folder:
            copy = Path(folder) / "home"
            shutil.copytree(home, copy, ignore=_other_folders(home, reader), symlinks=True)
            done = 0
            for number, what, detail in _in_child(lambda: _cases(reader, home, copy, seed, waiting)):  # noqa: B023
                yield number, what, detail
                done += 1
        if done < len(waiting):  # the process died
            yield waiting[done], "died", f"the process died on case {waiting[done]}"
            done += 1
        waiting = waiting[done:]


def _other_folders(home: Path, reader: Reader) -> Any:
    top = reader.file.split("/")[0]
    return lambda folder, names: [name for name in names if Path(folder) == home and name != top]


def _in_child(work: Callable[[], Iterator[tuple[int, str, str]]]) -> Iterator[tuple[int, str, str]]:
    """What a forked process yields, as far as it comes."""
    out, into = os.pipe()
    gc.collect()
    child = os.fork()
    if not child:
        os.close(out)
        try:
            limited()
            with os.fdopen(into, "w", encoding="utf-8", buffering=1) as pipe:
                for line in work():
                    pipe.write(json.dumps(line) + "\n")
        finally:
            os._exit(0)
    os.close(into)
    with os.fdopen(out, encoding="utf-8") as pipe:
        for line in pipe:
            yield tuple(json.loads(line))
    os.waitpid(child, 0)


def limited() -> None:
    """From now on this process may ask for little memory, and its alarm ends a case. Libraries are loaded before."""
    for module in LIBRARIES:
        importlib.import_module(module)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    timed()
    warnings.simplefilter("ignore")


def timed() -> None:
    """From now on an alarm ends a case that takes too long."""
    for kind in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(kind, _late)


def _late(*_: Any) -> None:
    raise TooSlow


class TooSlow(BaseException):
    """A case took too long."""


def _cases(reader: Reader, home: Path, copy: Path, seed: int, numbers: list[int]) -> Iterator[tuple[int, str, str]]:
    path = copy / reader.file
    original = (home / reader.file).read_bytes()
    alike = [
        other.read_bytes()
        for other in (home / reader.file).parent.glob(f"*{Path(reader.file).suffix}")
        if other.is_file()
    ]
    right = digest(reader.read(_restored(home, copy, reader))) if reader.sealed else ""
    for number in numbers:
        _restored(home, copy, reader)
        data = case(reader, [original, *alike], seed, number)
        path.write_bytes(data)
        yield number, *outcome(reader, copy, right)


def _restored(home: Path, copy: Path, reader: Reader) -> Path:
    """The copy as it was: a reader that also writes has changed it."""
    top = reader.file.split("/")[0]
    for source in (home / top).rglob("*"):
        target = copy / source.relative_to(home)
        if source.is_file() and (not target.exists() or target.stat().st_mtime_ns != source.stat().st_mtime_ns):
            shutil.copy2(source, target)
    for target in list((copy / top).rglob("*")):
        if target.is_file() and not (home / target.relative_to(copy)).exists():
            target.unlink()
    return copy


def outcome(reader: Reader, home: Path, right: str = "") -> tuple[str, str]:
    """What reading a file gave: refused, read, or a promise broken and how."""
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.alarm(WAITING)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            value = reader.read(home)
    except PomonaError as error:
        return _refused(error, home)
    except TooSlow:
        return "too slow", f"took more than {SECONDS} s"
    except BaseException as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        ours = [frame for frame in traceback.extract_tb(error.__traceback__) if "/pomona/" in frame.filename]
        last = ours[-1] if ours else place
        return (
            "raw exception",
            f"{type(error).__name__}: {str(error)[:200]} ({last.filename.rpartition('/pomona/')[2]}:{last.lineno})",
        )
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
    if right and digest(value) != right:
        return "silent change", "a changed file was read, and its value is another"
    return "read", ""


def _refused(error: PomonaError, home: Path) -> tuple[str, str]:
    text = str(error)
    if len(text) > LONGEST_MESSAGE:
        return "long message", f"a message of {len(text):,} characters: {text[:100]}"
    return "refused", ""


def digest(value: Any) -> str:
    return hashlib.sha256(repr(value).encode("utf-8", "backslashreplace")).hexdigest()
