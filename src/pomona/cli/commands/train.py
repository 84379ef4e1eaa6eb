"""`pomona train`: a model on a corpus, into a run folder; the same command again goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pomona.cli import terminal
from pomona.cli.commands import model_names, task_names


def train(
    model: Annotated[
        str,
        typer.Argument(
            help="A model's name, as treelstm, or package.module:Model (imported, so its code runs).",
            autocompletion=model_names,
        ),
    ],
    data: Annotated[
        str, typer.Option(help="A task's name, as listops/d20s, or a file.", autocompletion=task_names)
    ] = "listops/d20s",
    out: Annotated[Path, typer.Option(help="The run's folder.")] = Path("runs/run"),
    seed: Annotated[int, typer.Option(help="Of first weights, order and noise.")] = 0,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A setting of the model, as width=48; may repeat.")
    ] = None,
    recipe: Annotated[
        list[str] | None,
        typer.Option("--with", help="A setting of the training, as epochs=20, rate=0.01, longest=50; may repeat."),
    ] = None,
    data_settings: Annotated[
        list[str] | None, typer.Option("--data-set", help="A setting of the task, as train=1000; may repeat.")
    ] = None,
    fidelity: Annotated[
        list[str] | None, typer.Option(help="A quirk of the paper's code, or `paper` for all; may repeat.")
    ] = None,
    modules: Annotated[
        list[str] | None, typer.Option("--import", help="A module of yours that adds models by name; its code runs.")
    ] = None,
    threads: Annotated[int, typer.Option(help="Threads of torch.", min=1)] = 1,
    device: Annotated[str, typer.Option(help="cpu or cuda; by default cuda if there is one.")] = "",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing while it runs.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Train a model. Killed at any moment, the same command goes on and ends with the same weights, bit for bit.

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
        "fidelity": fidelity or [],
        **parse_settings(recipe or []),
    }
    made = Recipe.from_settings(chosen)

    from pomona.models.model import MODELS
    from pomona.training.loop import Progress
    from pomona.training.loop import train as run_training

    for module in [*(modules or []), *([model.partition(":")[0]] if is_import(model) else [])]:
        MODELS.trust(module)
    MODELS.build(made.model, made.settings)  # a wrong name or setting is an error before a folder is made
    with terminal.progress(f"{model} on {data}", None, quiet=quiet) as advance:
        said = -1

        def report(now: Progress) -> None:
            nonlocal said
            advance(1)
            if not quiet and now.epoch != said and now.step > 20:
                said = now.epoch
                terminal.err.print(
                    f"epoch {now.epoch + 1}: step {now.step:,} of {now.steps:,}, loss {now.loss:.3f}, "
                    f"{now.examples_per_second:,.0f} examples/s, {_duration(now.seconds_left)} left"
                )

        run = run_training(made, out, device=device or None, threads=threads, progress=report)
    if as_json:
        terminal.emit_json({"folder": str(run.folder), "recipe": made.plain, **run.summary})
        return
    rows = [
        (one["epoch"] + 1, f"{one['loss']:.4f}", f"{one['train']:.2%}", f"{one['dev']:.2%}", f"{one['rate']:.2g}")
        for one in run.curve
    ]
    shown = rows if len(rows) <= 12 else [*rows[:3], ("...", "", "", "", ""), *rows[-8:]]
    terminal.out.print(terminal.table(None, ["epoch", "loss", "train", "dev", "rate"], shown))
    terminal.out.print(
        f"Best dev {run.summary['dev']:.2%} in epoch {run.summary['best_epoch'] + 1}; "
        f"{run.summary['core_seconds']:,.0f} core seconds; {terminal.plain(run.folder)}"
    )


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
