"""Every command that writes, with what it needs and what it must leave behind.

    job = JOBS["train a tree model"]
    job.prepare(folder)                    # the inputs of the command
    run(job, folder)                       # exit status; in a forked process, so that it can be killed
    written(folder)                        # a digest of every file that was written, without clocks

`tests/contracts/test_campaign_jobs.py` compares the table with the output options of all commands.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from campaign.material import RECIPE
from pomona.base import files
from pomona.papers.reproduce import PAPERS, Paper, Plan

SMALL = ["--set", "train=40", "--set", "dev=8", "--set", "test=12"]
TRAIN = ["--recipe", "epochs=2", "--recipe", "batch=16", "--recipe", "dev_rows=8", "--quiet"]
CLOCKS = re.compile(rb'"(core_seconds|cpu_seconds|seconds)": [0-9.e+-]+|"environment": \{.*?\n  \},?', re.S)
UNREAD = ("environment.json", ".lock", ".scores.lock")  # which machine it was; locks


@dataclass(frozen=True)
class Job:
    """A command and its inputs. `seeded`: an older output of another seed may be there before."""

    name: str
    arguments: Callable[[int], list[str]]  # of the command, for a seed; paths are relative to the folder
    options: tuple[str, ...] = ("out",)  # the output options that this job uses
    prepare: Callable[[Path], None] = lambda folder: None
    seeded: bool = True


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
    return lambda seed: ["train", model, "--data", task, "--out", "run", *more, *TRAIN]


def _inputs(*names: str) -> Callable[[Path], None]:
    """Copy parts of the material into the folder."""

    def prepare(folder: Path) -> None:
        import shutil

        for name in names:
            source = Path(os.environ["POMONA_CAMPAIGN"]) / name
            (shutil.copytree if source.is_dir() else shutil.copyfile)(source, folder / source.name)

    return prepare


_ORCHARD = ["--set", "train=40", "--set", "dev=8", "--set", "test=12", "--set", "iid=8"]
_PAIRS = [word for pair in ("train=60", "dev=20", "test=20") for word in ("--set", pair)]
_LISTS = [word for pair in ("train=40", "dev=8", "test=12") for word in ("--set", pair)]
_TABLE = [
    Job("generate parquet", _generate("listops/d20s", "parquet", SMALL)),
    Job("generate jsonl, tsv and lra", _generate("listops/d20s", "jsonl,tsv,lra", SMALL)),
    Job("generate orchard", _generate("orchard/easy/first-last", "orchard", _ORCHARD)),
    Job("generate snli", _generate("fair_nli", "snli", ["--size", "20"])),
    Job("train a tree model", _train("treelstm", "listops/d20s", "--model-set", "width=4", *_LISTS), seeded=False),
    Job("train a sequence model", _train("lstm", "listops/d20s", "--model-set", "width=4", *_LISTS), seeded=False),
    Job("train a pair model", _train("cbow", "fair_nli", *_PAIRS), seeded=False),
    Job("evaluate", lambda seed: ["evaluate", "run", "--data", "listops/d20s", *SMALL, "--name", "again",
                                  "--save-answers", "answers.jsonl"], ("save_answers",), _inputs("run"), seeded=False),
    Job("report", lambda seed: ["report", "run", "certificate.json", "fit.json", "--out", "report",
                                "--title", f"t{seed}", "-q"],
        prepare=_inputs("run", "reports/certificate.json", "reports/fit.json")),
    Job("reproduce", lambda seed: ["reproduce", "campaign-runs", "--budget", "smoke", "--folder", "runs",
                                   "--results", "results.json"], ("results", "folder"), seeded=False),
    Job("compare", lambda seed: ["compare", "answers.jsonl", "answers.csv", "--data", "listops/d20s", *SMALL, "--out",
                                 "comparison.json"], ("out",), _inputs("answers/answers.jsonl", "answers/answers.csv"),
        seeded=False),
    Job("certify", lambda seed: ["certify", "sentences.jsonl", "--out", "certificate.json"],
        prepare=_inputs("corpora/sentences.jsonl"), seeded=False),
    Job("tre", lambda seed: ["tre", "vectors.npy", "derivations.jsonl", "--out", "fit.json", "--plot", "fit.svg",
                             "--shuffle", str(9 + seed)], ("out", "plot"),
        _inputs("vectors/vectors.npy", "vectors/derivations.jsonl")),
    Job("stats", lambda seed: ["stats", "lists.tsv", "--plot", "depths.svg"], ("plot",), _inputs("corpora/lists.tsv"),
        seeded=False),
    Job("ladder", lambda seed: ["ladder", "lists.tsv", "--train", "lists.tsv", "--plot", "ladder.svg"], ("plot",),
        _inputs("corpora/lists.tsv"), seeded=False),
    Job("export", lambda seed: ["export", "listops/d20s", *SMALL, "--data-seed", str(seed), "--out", "inputs.jsonl"]),
]  # fmt: skip
JOBS = {job.name: job for job in _TABLE}


# -- running -----------------------------------------------------------------------------------------------------------


def start(job: Job, folder: Path, seed: int = 0, hook: Callable[[], None] | None = None) -> int:
    """Run a job in a forked process, in its folder; `hook` is called before the command. Returns the process."""
    child = os.fork()
    if child:
        return child
    try:
        os.chdir(folder)
        with open(os.devnull, "w") as nothing, open("../said.txt", "w") as said:  # noqa: PTH123 - of this process only
            os.dup2(nothing.fileno(), 1)
            os.dup2(said.fileno(), 2)
        sys.argv = ["pomona", *job.arguments(seed)]
        if hook:
            hook()
        from pomona.cli.main import main

        main()
        status = 0
    except SystemExit as ending:
        status = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
    except BaseException:
        status = 70
    os._exit(status)


def ended(child: int, seconds: float = 120.0) -> int:
    """The exit status of a process; -9 if it was killed, also by us because it took too long."""
    stop = time.monotonic() + seconds
    while time.monotonic() < stop:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def run(job: Job, folder: Path, seed: int = 0, hook: Callable[[], None] | None = None) -> int:
    return ended(start(job, folder, seed, hook))


def said(folder: Path) -> str:
    """What the last command in a folder wrote to standard error."""
    path = folder.parent / "said.txt"
    return path.read_text(errors="replace")[-400:] if path.exists() else ""


# -- what was written --------------------------------------------------------------------------------------------------


def written(folder: Path) -> dict[str, str]:
    """A digest of every file in a folder, without clocks, locks and what killed processes left behind."""
    return {
        str(path.relative_to(folder)): _digest(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and path.name not in UNREAD
        and not path.name.startswith(".lock")
        and not files.is_left_over(path)
    }


def left_over(folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if files.is_left_over(path)]


def _digest(path: Path) -> str:
    content = path.read_bytes()
    if path.suffix in (".json", ".jsonl"):
        content = CLOCKS.sub(b"", content)
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
