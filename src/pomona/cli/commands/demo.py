"""`pomona demo`: every step once, from data to a page of results: one verdict a step, on one screen."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from pomona.cli import terminal
from pomona.cli.options import AsJson, DataSeed, Seed, Verbose

if TYPE_CHECKING:
    from pomona.data.corpus import Corpus
    from pomona.evaluation.evaluation import Evaluation

TASK = "listops/d20s"
SHUFFLES = 200

GROUP = "start"


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the results.")] = Path("demo"),
    seed: Seed = 0,
    data_seed: DataSeed = None,
    rows: Annotated[int, typer.Option(help="Training examples.", min=100)] = 90_000,
    epochs: Annotated[int, typer.Option(help="Epochs of the TreeLSTM; the LSTM has half as many.", min=1)] = 8,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Run every step once on a small scale: data, a fairness proof, two models, their baselines, TRE and a report.

    Each step prints one verdict; --verbose adds the details. If it is
    interrupted, the same command resumes.

    Example: [bold]pomona demo[/bold]
    """
    from pomona.base.extras import need

    need("torch")  # say it now, not after the first steps
    with terminal.aside(really=as_json):
        facts = _tell(Demo(out, seed, data_seed or 0, verbose), rows, epochs)
    if as_json:
        terminal.emit_json(facts)


class Demo(NamedTuple):
    """Where the demo writes, its seeds, and how much it prints."""

    out: Path
    seed: int
    data_seed: int
    verbose: bool

    def verdict(self, step: str, *sentences: str) -> None:
        """What a step found, in a few lines."""
        width = min(terminal.out.width, 120)
        for number, sentence in enumerate(sentences):
            lines = textwrap.wrap(sentence, max(40, width - 17), break_on_hyphens=False, break_long_words=False)
            for line_number, line in enumerate(lines):
                name = f"[bold cyan]{step:<16}[/]" if not number and not line_number else " " * 16
                terminal.out.print(f"{name} {terminal.plain(line)}", soft_wrap=True, highlight=False)

    @contextmanager
    def details(self) -> Iterator[None]:
        """Inside, commands print only if details are wanted."""
        before, terminal.out.quiet = terminal.out.quiet, not self.verbose
        try:
            yield
        finally:
            terminal.out.quiet = before


def _tell(demo: Demo, rows: int, epochs: int) -> dict[str, Any]:
    begin = time.monotonic()
    data = {"train": rows, "dev": max(100, rows // 9), "test": max(100, rows // 9)}
    settings = [f"{split}={count}" for split, count in data.items()]
    corpora = _data(demo, settings)
    certificates = _fairness(demo)
    runs = _training(demo, settings, epochs)
    scores = _meaning(demo, runs, corpora)
    tre = _representations(demo, runs["TreeLSTM"], corpora["test"])
    page = _page(demo, [*runs.values(), *certificates, tre])
    seconds = time.monotonic() - begin
    tree, lstm = scores["TreeLSTM"], scores["LSTM"]
    terminal.out.print(
        f"\nAll of it took {seconds:.0f} seconds and is in {terminal.plain(demo.out)}/. The scale is small: one seed, "
        f"{rows:,} examples, {epochs} and {_half(epochs)}\nepochs; pomona reproduce listops_2018 measures the paper's "
        f"tables. Now open the page in a browser:\n[bold]{terminal.plain(page)}[/bold]", soft_wrap=True
    )  # fmt: skip
    return {
        "folder": str(demo.out),
        "page": str(page),
        "seconds": round(seconds, 1),
        "accuracy": {"TreeLSTM": tree.accuracy.value, "LSTM": lstm.accuracy.value},
        "effective_depth": {name: [one.as_dict() for one in found.depths] for name, found in scores.items()},
        "ladder": {rung.name: rung.accuracy for rung in tree.ladder.rungs} if tree.ladder else {},
    }


def _data(demo: Demo, settings: list[str]) -> dict[str, Corpus]:
    from pomona.base.errors import SplitError
    from pomona.cli.commands.generate import generate
    from pomona.cli.commands.show import show
    from pomona.data import formats
    from pomona.data.verification import verify

    folder = demo.out / "data"
    with demo.details():
        generate(TASK, out=folder, data_seed=demo.data_seed, formats="parquet,tsv", settings=settings)
        show(str(folder / "test.parquet"), n=1)
    found = verify(folder)
    if not found.holds:
        raise SplitError(f"the data do not verify: {found.problems[0]}")
    corpora = {split: formats.read(folder / f"{split}.parquet") for split in ("train", "dev", "test")}
    sizes = ", ".join(f"{len(corpus):,} {split}" for split, corpus in corpora.items())
    demo.verdict("1 Data", f"{TASK}: {sizes}. Every answer recomputes; no duplicates, no leaks.")
    return corpora


def _fairness(demo: Demo) -> list[Path]:
    """A split that is proved fair, and the same split without one fact."""
    from pomona.data.task import generate
    from pomona.fairness import certify, mirror

    few: dict[str, Any] = {"train": 31_000, "dev": 1_000, "test": 5_000}
    train, test = (generate("fair_nli/hardest-strict", split, demo.data_seed, **few) for split in ("train", "test"))
    fair = certify(train, test)
    fact = next((one.function, one.inputs) for one in fair.witnesses if one.function == "ROOT")
    unfair = certify(mirror(train, fact), test)
    paths = []
    for name, found in (("fair", fair), ("unfair", unfair)):
        paths.append(demo.out / f"{name}.certificate.json")
        found.save(paths[-1])
        if demo.verbose:
            terminal.out.print(terminal.plain(f"{paths[-1]}: {found!r}"))
    shown = f"{fact[0]}({', '.join(map(str, fact[1]))})"
    demo.verdict(
        "2 Fairness",
        f"{'FAIR' if fair.fair else 'UNFAIR'}: training determines {fair.answered:,} of {len(test):,} test pairs of "
        f"fair_nli/hardest-strict. {'FAIR' if unfair.fair else 'UNFAIR'} without the one fact {shown}: "
        f"{unfair.answered:,} of {len(test):,}.",
    )
    return paths


def _half(epochs: int) -> int:
    return max(1, epochs // 2)


def _training(demo: Demo, settings: list[str], epochs: int) -> dict[str, Path]:
    """Train two models at once, each in a process of its own, with the command that a reader would type."""
    shared = ["--seed", str(demo.seed), "--data", TASK, "--quiet", "--data-seed", str(demo.data_seed)]
    shared += ["--recipe", "longest=50", "--recipe", "schedule=cosine"]
    shared += [f"--set={setting}" for setting in settings]
    chosen = {
        "TreeLSTM": ["treelstm", "--recipe", "rate=0.01", "--recipe", "weight_decay=0.03", "--recipe", "batch=128",
                     "--recipe", "batching=random", "--model-set", "width=64", "--recipe", f"epochs={epochs}"],
        "LSTM": ["lstm", "--recipe", "rate=0.003", "--recipe", f"epochs={_half(epochs)}"],
    }  # fmt: skip
    runs = {name: demo.out / "runs" / name.lower() for name in chosen}
    running = {}
    for name, own in chosen.items():
        order = ["train", *own, "--out", str(runs[name]), *shared]
        if demo.verbose:
            terminal.out.print(terminal.plain(shlex.join(["pomona", *order])))
        command = [sys.executable, "-c", "from pomona.cli.main import main; main()", *order]
        running[name] = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        _watch(demo, running, runs, epochs)
    finally:
        for process in running.values():
            process.kill()  # if we were interrupted; has no effect on a finished process
    return runs


def _watch(demo: Demo, running: dict[str, subprocess.Popen[str]], runs: dict[str, Path], epochs: int) -> None:
    """Show progress until both models are trained."""
    from pomona.base.errors import RunError
    from pomona.training.run import Run

    wanted = {"TreeLSTM": epochs, "LSTM": _half(epochs)}
    seen = 0
    with terminal.progress("training, epochs of both", sum(wanted.values())) as advance:
        while True:
            busy = any(process.poll() is None for process in running.values())
            curves = {name: Run.read(run).curve for name, run in runs.items() if (run / "recipe.json").exists()}
            done = sum(len(curve) for curve in curves.values())
            advance(done - seen)
            seen = done
            if not busy:
                break
            time.sleep(0.3)
    for name, process in running.items():
        if process.returncode:
            said = process.stderr.read() if process.stderr else ""
            raise RunError(f"training the {name} failed: {said.strip() or process.returncode}")
    rows = [
        (name, len(curve), f"{curve[0]['dev']:.1%}", f"{curve[-1]['dev']:.1%}", f"{curve[-1]['core_seconds']:.0f}")
        for name, curve in curves.items()
    ]
    columns = ["model", "epochs", "dev after the first", "after the last", "core seconds"]
    with demo.details():
        terminal.out.print(terminal.table(None, columns, rows))
    tree, lstm = (f"{curves[name][-1]['dev']:.1%}" for name in ("TreeLSTM", "LSTM"))
    demo.verdict("3 Models", f"On dev, a TreeLSTM that is given the trees is right on {tree}, an LSTM on {lstm}.")


def _meaning(demo: Demo, runs: dict[str, Path], corpora: dict[str, Corpus]) -> dict[str, Evaluation]:
    """Accuracy by depth, compared with evaluators that see only the top k levels of a tree."""
    from pomona.evaluation.accuracy import answers_from
    from pomona.evaluation.baselines import Baselines
    from pomona.evaluation.evaluation import Evaluation
    from pomona.evaluation.records import keep
    from pomona.training.predict import predict
    from pomona.training.run import Run

    test, found = corpora["test"], {}
    baselines = Baselines(test, corpora["train"])
    for name, folder in runs.items():
        run = Run.read(folder)
        predictions = predict(run, test)
        found[name] = Evaluation.of(test, answers_from(predictions, test, name), baselines)
        keep(run, "test", predictions, found[name])
    ladder = found["LSTM"].ladder
    assert ladder is not None
    rungs = [rung for rung in ladder.rungs if rung.name in ("top 1 level", "top 2 levels", "top 3 levels")]
    rows = []
    groups = {name: {group.name: group for group in one.by("nesting")} for name, one in found.items()}
    nesting = found["LSTM"].corpus.nesting
    for name, group in groups["LSTM"].items():
        inside = [str(depth) == name for depth in nesting.tolist()]
        if not name.isdigit() or group.rows < 20:
            continue
        shares = [f"{rung.right[inside].all(1).mean():.0%}" for rung in rungs]
        rows.append((name, f"{group.rows:,}", *shares, *(f"{one[name].accuracy:.0%}" for one in groups.values())))
    whole = [f"{rung.accuracy:.1%}" for rung in rungs]
    rows.append(("all", f"{len(test):,}", *whole, *(f"{one.accuracy.value:.1%}" for one in found.values())))
    columns = ["nesting", "examples", *(rung.name for rung in rungs), *found]
    with demo.details():
        terminal.out.print(terminal.table(None, columns, rows))
        for name, one in found.items():
            for depth in one.depths:
                terminal.out.print(f"{name} {terminal.plain(depth, lines=True)}")
    right = ", ".join(f"{name} {one.accuracy.value:.1%}" for name, one in found.items())
    tops = ", ".join(f"{rung.accuracy:.1%}" for rung in rungs)
    demo.verdict(
        "4 Baselines",
        f"On test: {right}; evaluators that open only the top 1, 2 and 3 levels: {tops}.",
        *(f"The {name} {depth.sentence}." for name, one in found.items() for depth in one.depths),
    )
    return found


def _representations(demo: Demo, run: Path, test: Corpus) -> Path:
    """TRE of the TreeLSTM's vectors for flat lists."""
    from pomona.base.files import read_json, replacing, write_array
    from pomona.cli.commands.tre import tre
    from pomona.training.run import Run

    out = demo.out
    flat = test[(test.nesting == 1) & (test.lengths <= 8)]
    from pomona.training.predict import represent

    write_array(out / "vectors.npy", represent(Run.read(run), flat))
    with replacing(out / "derivations.jsonl") as beside:
        parts = [[word.strip("[") for word in text.split() if word != "]"] for text in flat.texts]
        beside.write_text("".join(json.dumps(one) + "\n" for one in parts), encoding="utf-8")
    fit = out / "tre.json"
    with demo.details():
        tre(out / "vectors.npy", out / "derivations.jsonl", shuffle=SHUFFLES, out=fit, show=2)
    said = read_json(fit)["verdict"]["sentences"]
    demo.verdict(
        "5 Vectors", f"Are the TreeLSTM's vectors of flat lists sums of their parts? {said['explained']}",
        f"Is that more than chance? {said['chance'].split(';')[0].capitalize().rstrip('.')}.",
    )  # fmt: skip
    return fit


def _page(demo: Demo, parts: list[Path]) -> Path:
    from pomona.reports import report

    with terminal.progress("drawing", None):
        data = [str(demo.out / "data" / "test.parquet")]
        made = report(parts, demo.out / "report", data=data, title="Pomona demo")
    figures = f"and {len(made.figures)} figures for a paper" if made.figures else ""
    demo.verdict("6 Report", f"One page of {made.size / 1e6:.1f} MB with a tree explorer, {figures}.")
    return made.page
