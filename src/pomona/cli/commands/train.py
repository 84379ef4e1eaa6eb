"""`pomona train`: train a model on a corpus into a run folder, or resume the run that is there."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pomona.cli import terminal
from pomona.cli.commands import model_names, task_names

COLUMNS = {"loss": ".4f", "train": ".2%", "dev": ".2%", "rate": ".2g"}


def train(
    model: Annotated[
        str,
        typer.Argument(
            help="The name of a model, for example treelstm, or package.module:Model (imported, so its code runs).",
            autocompletion=model_names,
        ),
    ],
    data: Annotated[
        str, typer.Option(help="The name of a task, for example listops/d20s, or a file.", autocompletion=task_names)
    ] = "listops/d20s",
    out: Annotated[Path, typer.Option(help="The folder of the run.")] = Path("runs/run"),
    seed: Annotated[
        int, typer.Option(help="Random seed for initialisation, batch order and noise (data has its own).")
    ] = 0,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A setting of the model, for example width=48; may be repeated.")
    ] = None,
    recipe: Annotated[
        list[str] | None,
        typer.Option(
            "--with", help="A setting of the training, for example epochs=20, rate=0.01 or longest=50; may be repeated."
        ),
    ] = None,
    data_settings: Annotated[
        list[str] | None,
        typer.Option("--data-set", help="A setting of the task, for example train=1000; may be repeated."),
    ] = None,
    fidelity: Annotated[
        list[str] | None,
        typer.Option(hidden=True, help="The former name of settings such as --set half_width=true; still read."),
    ] = None,
    modules: Annotated[
        list[str] | None, typer.Option("--import", help="A module of your own that adds models; its code runs.")
    ] = None,
    threads: Annotated[int, typer.Option(help="Number of threads that torch uses.", min=1)] = 1,
    device: Annotated[str, typer.Option(help="cpu or cuda; by default cuda if it is available.")] = "",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing while it runs.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Train a model. After an interruption the same command resumes the run, to the same weights bit for bit.

    Example: [bold]pomona train treelstm --data listops/d20s --seed 0 --out runs/tree --with longest=50[/bold]
    """
    from pomona.base.registry import is_import, parse_settings
    from pomona.training.recipe import Recipe

    chosen: dict[str, Any] = {
        "model": model,
        "settings": parse_settings(settings or []),
        "seed": seed,
        "data": data,
        "data_settings": parse_settings(data_settings or []),
        **({"fidelity": fidelity} if fidelity else {}),
        **parse_settings(recipe or []),
    }
    asked = Recipe.from_settings(chosen)

    from pomona.models.model import MODELS
    from pomona.training.loop import Progress
    from pomona.training.loop import train as run_training

    for module in [*(modules or []), *([model.partition(":")[0]] if is_import(model) else [])]:
        MODELS.trust(module)
    MODELS.build(asked.model, asked.settings)  # report a wrong name or setting before a folder is created
    with terminal.progress(f"{model} on {data}", None, quiet=quiet) as advance:
        printed = -1

        def report(now: Progress) -> None:
            nonlocal printed
            advance(1)
            if not quiet and now.epoch != printed and now.step > 20:
                printed = now.epoch
                terminal.err.print(
                    f"epoch {now.epoch + 1}: step {now.step:,} of {now.steps:,}, loss {now.loss:.3f}, "
                    f"{now.examples_per_second:,.0f} examples/s, {_duration(now.seconds_left)} left"
                )

        run = run_training(asked, out, device=device or None, threads=threads, progress=report)
    if as_json:
        terminal.emit_json({"folder": str(run.folder), "recipe": asked.plain, **run.summary})
        return
    rows = [(entry["epoch"] + 1, *(f"{entry[name]:{form}}" for name, form in COLUMNS.items())) for entry in run.curve]
    shown = rows if len(rows) <= 12 else [*rows[:3], ("...", "", "", "", ""), *rows[-8:]]
    terminal.out.print(terminal.table(None, ["epoch", *COLUMNS], shown))
    terminal.out.print(
        f"Best dev {run.summary['dev']:.2%} in epoch {run.summary['best_epoch'] + 1}; "
        f"{run.summary['core_seconds']:,.0f} core seconds; {terminal.plain(run.folder)}"
    )


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
