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
from pomona.base import files
from pomona.base.errors import PomonaError
from pomona.training.tensors import sealed

BATCH = 5_000  # cases of one process, at most
BATCH_SECONDS = 1.5  # of processor time, about
SECONDS = 10  # of processor time for one case
WAITING = 200  # seconds on the clock that it could have run, for what hangs
MEMORY = 2 << 30  # bytes that a batch may ask for beyond what the process has already
LONGEST_MESSAGE = 2_000
LIBRARIES = ("torch", "pyarrow.parquet", "pomona.training.loop", "pomona.papers.tre_2019.dynamics", "pomona.reports")


@dataclass
class Findings:
    """What happened to the cases, and those that broke a promise."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[tuple[str, int, str]] = field(default_factory=list)  # reader, case, what happened
    done: Counter[str] = field(default_factory=Counter)  # cases of each reader
    used: Counter[str] = field(default_factory=Counter)  # seconds of processor time of each reader

    def __str__(self) -> str:
        parts = ", ".join(f"{count:,} {what}" for what, count in sorted(self.counts.items()))
        least = min(self.done.values(), default=0)
        return (
            f"{sum(self.counts.values()):,} inputs, at least {least:,} for each of {len(self.done)} readers, "
            f"{sum(self.used.values()):.0f} s of processor time: {parts}"
        )

    @classmethod
    def read(cls, path: Path | None, seed: int) -> Findings:
        """What was done before with the same seed."""
        if path is None or not path.exists():
            return cls()
        plain = json.loads(path.read_text())
        if plain["seed"] != seed:
            raise SystemExit(f"{path} is of seed {plain['seed']}, not {seed}")
        counts, done, used = (Counter(plain[name]) for name in ("counts", "done", "used"))
        return cls(counts, [(reader, number, what) for reader, number, what in plain["wrong"]], done, used)

    def keep(self, path: Path | None, seed: int) -> None:
        if path is not None:
            plain = {"seed": seed, "counts": self.counts, "wrong": self.wrong, "done": self.done, "used": self.used}
            files.write_json(path, plain)


def case(reader: Reader, seeds: list[bytes], seed: int, number: int) -> bytes:
    """The content of one case."""
    return mutated(seeds[0], random.Random(f"{seed} {reader.name} {number}"), seeds[1:])


def fuzz(readers: Iterable[Reader], home: Path, *, cases: int, seed: int = 0, until: float | None = None,
         kept: Path | None = None, say: Callable[[str], None] = lambda text: None) -> Findings:  # fmt: skip
    """Read this many mutated files altogether, or as many as fit before the time `until`.

    All readers get the same processor time, so that slow ones have fewer cases. `kept` is a file with what was done
    before: a campaign that was stopped goes on from there.
    """
    chosen = list(readers)
    findings, warm = Findings.read(kept, seed), set[str]()
    load()
    seconds = {  # of processor time for one case, as far as it is known
        reader.name: findings.used[reader.name] / findings.done[reader.name] if findings.done[reader.name] else 4e-3
        for reader in chosen
    }
    while sum(findings.done.values()) < cases:
        for reader in sorted(chosen, key=lambda reader: findings.used[reader.name]):
            left = cases - sum(findings.done.values())
            if left <= 0 or (until is not None and time.monotonic() > until):
                return findings
            first = findings.done[reader.name]
            if reader.name not in warm:
                warm.add(warmed(reader, home))
            size = min(left, BATCH, max(1, int(BATCH_SECONDS / max(seconds[reader.name], 1e-5))))
            before = _processor_time()
            for number, what, detail in _batch(reader, home, seed, range(first, first + size)):
                findings.counts[what] += 1
                if detail:
                    findings.wrong.append((reader.name, number, detail))
            used = _processor_time() - before
            seconds[reader.name] = max(used / size, 1e-5)
            findings.used[reader.name] += used
            findings.done[reader.name] = first + size
            findings.keep(kept, seed)
        say(str(findings))
    return findings


def warmed(reader: Reader, home: Path) -> str:
    """Read the whole file once in this process, so that forked ones have all that is imported and compiled."""
    with tempfile.TemporaryDirectory(prefix="pomona-campaign-") as folder:
        copy_part(home, Path(folder) / "home", reader)
        with contextlib.suppress(Exception):  # what it says is the business of the cases
            reader.read(Path(folder) / "home")
    return reader.name


def _processor_time() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _batch(reader: Reader, home: Path, seed: int, numbers: range) -> Iterator[tuple[int, str, str]]:
    """Number, outcome and, if a promise was broken, what happened."""
    waiting = list(numbers)
    while waiting:
        with tempfile.TemporaryDirectory(prefix="pomona-campaign-") as folder:
            copy = Path(folder) / "home"
            copy_part(home, copy, reader)
            done = 0
            for number, what, detail in _in_child(lambda: _cases(reader, home, copy, seed, waiting)):  # noqa: B023
                yield number, what, detail
                done += 1
        if done < len(waiting):  # the process died
            yield waiting[done], "died", f"the process died on case {waiting[done]}"
            done += 1
        waiting = waiting[done:]


def copy_part(home: Path, copy: Path, reader: Reader) -> None:
    """The folder of the material that holds the reader's file."""
    top = reader.file.split("/")[0]
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(home / top, copy / top, symlinks=True)


def _in_child(work: Callable[[], Iterator[tuple[int, str, str]]]) -> Iterator[tuple[int, str, str]]:
    """What a forked process yields, as far as it comes."""
    out, into = os.pipe()
    child = os.fork()
    if not child:
        os.close(out)
        try:
            gc.freeze()  # what the first process has is not searched for garbage again and again
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


def load() -> None:
    """Load the libraries, which is paid once in the process that forks, and needs more memory than a case may have."""
    for module in LIBRARIES:
        importlib.import_module(module)


def limited() -> None:
    """From now on this process may ask for little memory, and its alarm ends a case."""
    load()
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    timed()
    warnings.simplefilter("ignore")


def timed() -> None:
    """From now on an alarm ends a case that takes too long."""
    for kind in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(kind, _late)


def _late(kind: int, _: Any) -> None:
    if kind == signal.SIGALRM and time.monotonic() - _ready() - _BEGAN[0] < WAITING:  # others had the processor
        signal.alarm(WAITING)
        return
    raise TooSlow


_BEGAN = [0.0]  # when the case did, without the time that it was ready to run and had no processor


def _ready() -> float:
    """Seconds for which this process was ready to run and had no processor."""
    try:
        return int(Path("/proc/self/schedstat").read_bytes().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


class TooSlow(BaseException):
    """A case took too long."""


def _cases(reader: Reader, home: Path, copy: Path, seed: int, numbers: list[int]) -> Iterator[tuple[int, str, str]]:
    path = copy / reader.file
    seeds = [(home / reader.file).read_bytes(), *alike(reader, home)]
    right = digest(reader.read(copy)) if reader.sealed else ""
    for number in numbers:
        if reader.writes:
            copy_part(home, copy, reader)
        data = case(reader, seeds, seed, number)
        path.write_bytes(data)
        yield number, *outcome(reader, copy, "" if is_forged(data) else right)
    if not reader.writes and (changed := _others(copy, path)) != _others(home, home / reader.file):
        raise AssertionError(f"{reader.name} writes, which its entry in the table does not say: {changed}")


def is_forged(data: bytes) -> bool:
    """Whether a mutation has made the digest of a changed safetensors file anew; nobody can notice that."""
    return data[8:9] == b"{" and sealed(data) == data


def alike(reader: Reader, home: Path) -> list[bytes]:
    """Files of the same kind, from which a mutation may take pieces."""
    source = home / reader.file
    return [other.read_bytes() for other in sorted(source.parent.glob(f"*{source.suffix}")) if other.is_file()]


def _others(home: Path, but: Path) -> dict[str, int]:
    """The files beside the one that is mutated, with their sizes."""
    folder = home / but.relative_to(home).parts[0]
    paths = [path for path in folder.rglob("*") if path.is_file() and path != but]
    return {str(path.relative_to(home)): path.stat().st_size for path in paths}


def outcome(reader: Reader, home: Path, right: str = "") -> tuple[str, str]:
    """What reading a file gave: refused, read, or a promise broken and how."""
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    _BEGAN[0] = time.monotonic() - _ready()
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
