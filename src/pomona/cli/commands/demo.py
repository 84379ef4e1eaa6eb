"""`pomona demo`: every step once, from data to a page of results, in about three minutes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pomona.cli import terminal
from pomona.cli.options import AsJson, DataSeed, Seed

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
    as_json: AsJson = False,
) -> None:
    """Run every step once on a small scale: data, a fairness proof, two models, their baselines, TRE and a report.

    If it is interrupted, the same command resumes.

    Example: [bold]pomona demo[/bold]
    """
    from pomona.base.extras import need

    need("torch")  # say it now, not after the first steps
    with terminal.aside(really=as_json):
        facts = _tell(out, seed, data_seed or 0, rows, epochs)
    if as_json:
        terminal.emit_json(facts)


def _heading(text: str) -> None:
    terminal.out.print(f"\n[bold cyan]{text}[/bold cyan]")


def _tell(out: Path, seed: int, data_seed: int, rows: int, epochs: int) -> dict[str, Any]:
    begin = time.monotonic()
    data = {"train": rows, "dev": max(100, rows // 9), "test": max(100, rows // 9)}
    settings = [f"{split}={count}" for split, count in data.items()]
    corpora = _data(out, data_seed, settings)
    certificates = _fairness(out, data_seed)
    runs = _training(out, seed, data_seed, settings, epochs)
    scores = _meaning(runs, corpora)
    tre = _representations(out, runs["TreeLSTM"], corpora["test"])
    page = _page(out, [*runs.values(), *certificates, tre])
    seconds = time.monotonic() - begin
    tree, lstm = scores["TreeLSTM"], scores["LSTM"]
    terminal.out.print(
        f"\nAll of it took {seconds:.0f} seconds and is in [bold]{terminal.plain(out)}/[/bold]. Open "
        f"[bold]{terminal.plain(page)}[/bold] in a browser.\n"
        f"The scale is small: one seed, {rows:,} examples, {epochs} and {_half(epochs)} epochs. For the paper's "
        "results,\nrun [bold]pomona reproduce listops_2018[/bold]."
    )
    return {
        "folder": str(out),
        "page": str(page),
        "seconds": round(seconds, 1),
        "accuracy": {"TreeLSTM": tree.accuracy.value, "LSTM": lstm.accuracy.value},
        "effective_depth": {name: [one.as_dict() for one in found.depths] for name, found in scores.items()},
        "ladder": {rung.name: rung.accuracy for rung in tree.ladder.rungs} if tree.ladder else {},
    }


def _data(out: Path, seed: int, settings: list[str]) -> dict[str, Corpus]:
    from pomona.cli.commands.generate import generate
    from pomona.cli.commands.show import show
    from pomona.cli.commands.verify import verify
    from pomona.data import formats

    _heading(f"1. Data. {TASK}: distinct expressions, divided into train, dev and test")
    generate(TASK, out=out / "data", data_seed=seed, formats="parquet,tsv", settings=settings)
    show(str(out / "data" / "test.parquet"), n=1)
    terminal.out.print("\nCompute every answer again, and look for duplicates and leaks:")
    verify([out / "data"])
    return {split: formats.read(out / "data" / f"{split}.parquet") for split in ("train", "dev", "test")}


def _fairness(out: Path, seed: int) -> list[Path]:
    """A split that is proved fair, and the same split without one fact."""
    from pomona.data.task import generate
    from pomona.fairness import certify, mirror

    _heading("2. Fairness. Does the training set contain every fact that the test set needs?")
    few: dict[str, Any] = {"train": 31_000, "dev": 1_000, "test": 5_000}
    train, test = (generate("fair_nli/hardest-strict", split, seed, **few) for split in ("train", "test"))
    fair = certify(train, test)
    fact = next((one.function, one.inputs) for one in fair.witnesses if one.function == "ROOT")
    unfair = certify(mirror(train, fact), test)
    paths = []
    for name, found, about in (
        ("fair", fair, "fair_nli/hardest-strict, whose test has only combinations that train has not"),
        ("unfair", unfair, f"the same without the one fact {fact[0]}({', '.join(map(str, fact[1]))})"),
    ):
        paths.append(out / f"{name}.certificate.json")
        found.save(paths[-1])
        verdict = "[bold green]FAIR[/]  " if found.fair else "[bold red]UNFAIR[/]"
        terminal.out.print(
            f"{verdict} {terminal.plain(about)}: {found.answered:,} of {len(test):,} test examples follow from training"
        )
    return paths


def _half(epochs: int) -> int:
    return max(1, epochs // 2)


def _training(out: Path, seed: int, data_seed: int, settings: list[str], epochs: int) -> dict[str, Path]:
    """Train two models at once, each in a process of its own, with the command that a reader would type."""
    _heading("3. Models. A TreeLSTM that is given the trees, and an LSTM that is not, side by side")
    shared = ["--seed", str(seed), "--data", TASK, "--quiet", "--data-seed", str(data_seed)]
    shared += ["--recipe", "longest=50", "--recipe", "schedule=cosine"]
    shared += [f"--set={setting}" for setting in settings]
    chosen = {
        "TreeLSTM": ["treelstm", "--recipe", "rate=0.01", "--recipe", "weight_decay=0.03", "--recipe", "batch=128",
                     "--recipe", "batching=random", "--model-set", "width=64", "--recipe", f"epochs={epochs}"],
        "LSTM": ["lstm", "--recipe", "rate=0.003", "--recipe", f"epochs={_half(epochs)}"],
    }  # fmt: skip
    runs = {name: out / "runs" / name.lower() for name in chosen}
    running = {}
    for name, own in chosen.items():
        order = ["train", *own, "--out", str(runs[name]), *shared]
        short = " ".join(["pomona", *order[:2], "--data", TASK, "--out", order[order.index("--out") + 1], "..."])
        terminal.out.print(f"  {terminal.plain(short)}")
        command = [sys.executable, "-c", "from pomona.cli.main import main; main()", *order]
        running[name] = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        _watch(running, runs, epochs)
    finally:
        for process in running.values():
            process.kill()  # if we were interrupted; has no effect on a finished process
    return runs


def _watch(running: dict[str, subprocess.Popen[str]], runs: dict[str, Path], epochs: int) -> None:
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
    terminal.out.print(terminal.table(None, columns, rows))


def _meaning(runs: dict[str, Path], corpora: dict[str, Corpus]) -> dict[str, Evaluation]:
    """Accuracy by depth, compared with evaluators that see only the top k levels of a tree."""
    from pomona.evaluation.accuracy import answers_from
    from pomona.evaluation.baselines import Baselines
    from pomona.evaluation.evaluation import Evaluation
    from pomona.evaluation.records import keep
    from pomona.training.run import Run

    _heading("4. Baselines. Accuracy by depth, compared with predictors that see only the top k levels of a tree")
    from pomona.training.predict import predict

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
    terminal.out.print(terminal.table(None, columns, rows))
    for name, one in found.items():
        for depth in one.depths:
            terminal.out.print(f"\n[bold]{name}[/bold] {terminal.plain(depth, lines=True)}")
    return found


def _representations(out: Path, run: Path, test: Corpus) -> Path:
    """TRE of the TreeLSTM's vectors for flat lists."""
    import numpy as np

    from pomona.base.files import replacing
    from pomona.cli.commands.tre import tre
    from pomona.training.run import Run

    _heading(
        "5. Representations. Are the TreeLSTM's vectors of flat lists, for example [MAX 2 9 ], sums of their parts?"
    )
    flat = test[(test.nesting == 1) & (test.lengths <= 8)]
    from pomona.training.predict import represent

    with replacing(out / "vectors.npy") as beside, beside.open("wb") as file:
        np.save(file, represent(Run.read(run), flat))
    with replacing(out / "derivations.jsonl") as beside:
        parts = [[word.strip("[") for word in text.split() if word != "]"] for text in flat.texts]
        beside.write_text("".join(json.dumps(one) + "\n" for one in parts), encoding="utf-8")
    fit = out / "tre.json"
    tre(out / "vectors.npy", out / "derivations.jsonl", shuffle=SHUFFLES, out=fit, show=2)
    terminal.out.print(
        "Normalised, 1 is exactly a sum of the parts and 0 is no better than shuffled. A model that has computed the\n"
        "answer may have forgotten the parts: TRE says how compositional vectors are, not how good."
    )
    return fit


def _page(out: Path, parts: list[Path]) -> Path:
    from pomona.reports import report

    _heading("6. The report")
    with terminal.progress("drawing", None):
        made = report(parts, out / "report", data=[str(out / "data" / "test.parquet")], title="Pomona demo")
    terminal.out.print(
        f"Wrote {terminal.plain(made.page)} ({made.size / 1e6:.1f} MB), and {len(made.figures)} figures."
    )
    return made.page
