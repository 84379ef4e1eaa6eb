"""Every command that writes, with what it needs and what it must leave behind.

    job = JOBS["train a tree model"]
    job.prepare(folder)                    # the inputs of the command
    run(job, folder)                       # exit status; in a forked process, so that it can be killed
    written(folder)                        # a digest of every file that was written, without clocks

`tests/contracts/test_campaign_jobs.py` compares the table with the output options of all commands.
"""

from __future__ import annotations

import csv
import gc
import hashlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from campaign.material import RECIPE
from pomona.base import files
from pomona.data import datasets
from pomona.data.shards.generation import WORK
from pomona.papers.reproduce import PAPERS, Paper, Plan

SMALL = ["--set", "train=40", "--set", "dev=8", "--set", "test=12"]
TRAIN = ["--recipe", "epochs=2", "--recipe", "batch=16", "--recipe", "dev_rows=8", "--quiet"]
CLOCKS = re.compile(rb'"(core_seconds|cpu_seconds|seconds)": [0-9.e+-]+|"environment": \{.*?\n  \},?', re.S)
UNFINISHED = "a manifest that says that its dataset is unfinished"  # in the place of a digest
UNREAD = ("environment.json",)  # which machine it was


@dataclass(frozen=True)
class Job:
    """A command and its inputs. `seeded`: an older output of another seed may be there before."""

    name: str
    arguments: Callable[[int], list[str]]  # of the command, for a seed; paths are relative to the folder
    options: tuple[str, ...] = ("out",)  # the output options that this job uses
    prepare: Callable[[Path], None] = lambda folder: None
    seeded: bool = True
    draws: bool = False  # with the plot engine, whose threads do not survive a fork


@dataclass(frozen=True)
class _Trained(Paper):
    """A paper whose only number comes from one tiny run."""

    name = "campaign-runs"
    title = "A campaign with runs"
    places = ("Table 1",)

    def measure(self, plan: Plan) -> dict[str, Any]:
        from campaign.material import test_corpus
        from pomona.papers.records import record

        run = plan.run(RECIPE, "tiny", {"test": test_corpus})
        share = [100 * run.summary["dev"]] if run else []
        records = [record(run, "tiny")] if run else []
        return {"cells": [plan.cell("Table 1", "tiny", "accuracy", 50.0, share)], "runs": records}


PAPERS.add("campaign-runs")(_Trained)


def _generate(task: str, form: str, sizes: Sequence[str]) -> Callable[[int], list[str]]:
    return lambda seed: ["generate", task, "--out", "data", "--format", form, "--data-seed", str(seed), "-q", *sizes]


def _train(model: str, task: str, *more: str) -> Callable[[int], list[str]]:
    return lambda seed: ["train", model, "--data", task, "--out", "run", *TRAIN, *more]


def _inputs(*names: str) -> Callable[[Path], None]:
    """Copy parts of the material into the folder."""

    def prepare(folder: Path) -> None:
        import shutil

        for name in names:
            source = Path(os.environ["POMONA_CAMPAIGN"]) / name
            (shutil.copytree if source.is_dir() else shutil.copyfile)(source, folder / source.name)

    return prepare


# With figures, a report takes twenty times as long, all of it inside the plot engine.
_PAGE = ["report", "run", "certificate.json", "fit.json", "--out", "report", "-q"]
_ORCHARD = ["--set", "train=40", "--set", "dev=8", "--set", "test=12", "--set", "iid=8"]
_TABLE = [
    Job("generate parquet", _generate("listops/d20s", "parquet", SMALL)),
    Job("generate jsonl, tsv and lra", _generate("listops/d20s", "jsonl,tsv,lra", SMALL)),
    Job("generate orchard", _generate("orchard/easy/first-last", "orchard", _ORCHARD)),
    Job("generate snli", _generate("fair_nli", "snli", ["--size", "20"])),
    Job("generate shards", _generate("listops/d20s", "parquet", [*SMALL, "--split", "dev,train", "--rows", "60",
                                                                 "--shards", "3", "--workers", "1"])),
    Job("train a tree model", _train("treelstm", "listops/d20s", "--model-set", "width=4", *SMALL), seeded=False),
    Job("train a sequence model", _train("lstm", "listops/d20s", "--model-set", "width=4", *SMALL), seeded=False),
    Job("train a pair model", _train("cbow", "fair_nli", "--model-set", "width=4", "--set", "train=1272", "--recipe",
                                     "batch=256"), seeded=False),
    Job("sweep", lambda seed: ["sweep", "--model", "lstm", "--seeds", "2", "--model-set", "width=4", "--at-once", "1",
                               "--evaluate", "test", "--out", "runs", *SMALL, *TRAIN], seeded=False),
    Job("evaluate", lambda seed: ["evaluate", "run", "--data", "listops/d20s", *SMALL, "--name", "again",
                                  "--save-answers", "answers.jsonl"], ("save_answers",), _inputs("run"), seeded=False),
    Job("represent", lambda seed: ["represent", "run", "--data", "listops/d20s", *SMALL, "--out", "vectors.npz"],
        prepare=_inputs("run"), seeded=False),
    Job("report", lambda seed: [*_PAGE, "--title", f"t{seed}", "--no-figures"],
        prepare=_inputs("run", "reports/certificate.json", "reports/fit.json")),
    Job("report with figures", lambda seed: [*_PAGE[:1], *_PAGE[2:], "--title", f"t{seed}"],
        prepare=_inputs("reports/certificate.json", "reports/fit.json"), draws=True),
    Job("reproduce", lambda seed: ["reproduce", "campaign-runs", "--budget", "smoke", "--folder", "runs",
                                   "--results", "results.json"], ("results", "folder"), seeded=False),
    Job("compare", lambda seed: ["compare", "answers.jsonl", "answers.csv", "--data", "listops/d20s", *SMALL, "--out",
                                 "comparison.json"], ("out",), _inputs("answers/answers.jsonl", "answers/answers.csv"),
        seeded=False),
    Job("certify", lambda seed: ["certify", "sentences.jsonl", "--out", "certificate.json"],
        prepare=_inputs("corpora/sentences.jsonl"), seeded=False),
    Job("tre", lambda seed: ["tre", "vectors.npy", "derivations.jsonl", "--out", "fit.json", "--plot", "fit.svg",
                             "--shuffle", str(9 + seed)], ("out", "plot"),
        _inputs("vectors/vectors.npy", "vectors/derivations.jsonl"), draws=True),
    Job("stats", lambda seed: ["stats", "lists.tsv", "--plot", "depths.svg"], ("plot",), _inputs("corpora/lists.tsv"),
        seeded=False, draws=True),
    Job("ladder", lambda seed: ["ladder", "lists.tsv", "--train", "lists.tsv", "--plot", "ladder.svg"], ("plot",),
        _inputs("corpora/lists.tsv"), seeded=False, draws=True),
    Job("export", lambda seed: ["export", "listops/d20s", *SMALL, "--data-seed", str(seed), "--out", "inputs.jsonl"]),
]  # fmt: skip
JOBS = {job.name: job for job in _TABLE}


# -- running -----------------------------------------------------------------------------------------------------------


def warm(jobs: Iterable[Job]) -> None:
    """Run the jobs that do not draw in this process, so that forked ones have all that is imported and compiled."""
    here = Path.cwd()
    for job in jobs:
        if not job.draws and job.name not in _WARM:
            with tempfile.TemporaryDirectory(prefix="pomona-campaign-") as name:
                job.prepare(Path(name))
                os.chdir(name)
                try:
                    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                        command(job, 0)
                finally:
                    os.chdir(here)
                    signal.signal(signal.SIGTERM, signal.SIG_DFL)
            _WARM.add(job.name)


_WARM: set[str] = set()
_TOLD: list[int] = []  # the standard errors of the last commands, to read from


def start(job: Job, folder: Path, seed: int = 0, hook: Callable[[], None] | None = None) -> int:
    """Run a job in a forked process, in its folder; `hook` is called before the command. Returns the process.

    It leads a group of its own, to which the workers of a sweep belong.
    """
    words, told = os.pipe()  # not a file: what limits files must not silence the command
    child = os.fork()
    if child:
        os.close(told)
        _TOLD.append(words)
        if len(_TOLD) > 16:
            os.close(_TOLD.pop(0))
        return child
    status = 70
    try:
        os.setpgid(0, 0)
        os.chdir(folder)
        with Path(os.devnull).open("w") as nothing:
            os.dup2(nothing.fileno(), 1)
        os.dup2(told, 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
        gc.freeze()
        if hook:
            hook()
        status = command(job, seed)
    finally:
        os._exit(status)


def command(job: Job, seed: int) -> int:
    """Run the command of a job in this process, and return its exit status."""
    from pomona.cli.main import main

    sys.argv = ["pomona", *job.arguments(seed)]
    try:
        with mock.patch("pomona.sweeps.local.subprocess", _WORKERS):
            main()
    except SystemExit as ending:
        return ending.code if isinstance(ending.code, int) else int(ending.code is not None)
    except BaseException:
        traceback.print_exc()
        return 70
    return 0


class ForkedWorker:
    """A worker of a sweep that is forked, where Pomona would start a new process and load torch for many seconds."""

    def __init__(self, command: list[str], **_: Any) -> None:
        assert command[1:] == ["-m", "pomona.sweeps.worker"], command
        orders, into = os.pipe()
        out, answers = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            try:
                from pomona.sweeps.worker import serve

                os.dup2(orders, 0)
                os.dup2(answers, 1)
                os.closerange(3, 64)
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                sys.stdin = os.fdopen(0)
                serve()
            finally:
                os._exit(0)
        os.close(orders)
        os.close(answers)
        self.stdin, self.stdout = os.fdopen(into, "w"), os.fdopen(out)
        self._status: int | None = None

    def poll(self) -> int | None:
        if self._status is None and (ending := os.waitpid(self.pid, os.WNOHANG))[0]:
            self._status = os.waitstatus_to_exitcode(ending[1])
        return self._status

    def wait(self, timeout: float | None = None) -> int:
        stop = None if timeout is None else time.monotonic() + timeout
        while (status := self.poll()) is None:
            if stop is not None and time.monotonic() > stop:
                raise subprocess.TimeoutExpired("a worker", timeout or 0.0)
            time.sleep(0.005)
        return status

    def terminate(self) -> None:
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        self._send(signal.SIGKILL)

    def _send(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)


def status_within(child: int, seconds: float) -> int | None:
    """The exit status of a process that ends within this time; None if it does not."""
    stop = time.monotonic() + seconds
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        left = stop - time.monotonic()
        if left <= 0:
            return None
        time.sleep(min(left, 0.004))


def ended(child: int, seconds: float = 600.0) -> int:
    """The exit status of a process; -9 if it was killed, also by us because it took too long."""
    status = status_within(child, seconds)
    if status is None:
        os.kill(child, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status


def run(job: Job, folder: Path, seed: int = 0, hook: Callable[[], None] | None = None) -> int:
    return ended(start(job, folder, seed, hook))


def said() -> str:
    """What the last command wrote to standard error."""
    os.set_blocking(_TOLD[-1], False)
    try:
        return os.read(_TOLD[-1], 1 << 16).decode(errors="replace")[-400:]
    except BlockingIOError:
        return ""


_WORKERS = SimpleNamespace(Popen=ForkedWorker, PIPE=subprocess.PIPE, TimeoutExpired=subprocess.TimeoutExpired)


# -- what was written --------------------------------------------------------------------------------------------------


def written(folder: Path) -> dict[str, str]:
    """A digest of every file in a folder, without clocks, locks and what killed processes left behind."""
    return {
        str(path.relative_to(folder)): _digest(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and path.name not in UNREAD
        and not path.name.endswith(".lock")
        and not files.is_left_over(path)
        and WORK not in path.parts  # of shards in the making, which the same command needs
    }


def left_over(folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if files.is_left_over(path)]


def unfinished(folder: Path) -> list[str]:
    """Working files that a command which was killed leaves for the next, and a finished one does not."""
    return [str(path.relative_to(folder)) for path in folder.rglob(WORK)]


def _digest(path: Path) -> str:
    content = path.read_bytes()
    if path.name == datasets.MANIFEST and json.loads(content).get(datasets.UNFINISHED):
        return UNFINISHED
    if path.suffix in (".json", ".jsonl"):
        content = CLOCKS.sub(b"", content)
    if path.name == "curve.csv":
        rows = csv.DictReader(content.decode().splitlines())
        content = repr([{name: cell for name, cell in row.items() if "seconds" not in name} for row in rows]).encode()
    return hashlib.sha256(content).hexdigest()


def whole(folder: Path) -> list[str]:
    """The files in a folder that are not whole: every visible file must be readable at any time."""
    from pomona.base.errors import PomonaError
    from pomona.data.formats import FORMATS, read
    from pomona.training import tensors

    wrong = []
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or files.is_left_over(path):
            continue
        try:
            if path.suffix == ".json":
                json.loads(path.read_bytes())
            elif path.suffix == ".safetensors":
                tensors.read(path)
            elif FORMATS.holds_corpora(path) and path.parent.name == "data":
                read(path)
        except (PomonaError, ValueError) as error:
            wrong.append(f"{path.relative_to(folder)}: {error}")
    return wrong
