"""`pomona train`: train a model on a corpus into a run folder, or resume the run that is there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pomona.cli import terminal
from pomona.cli.options import (
    AsJson,
    Data,
    DataSeed,
    Import,
    ModelSettings,
    Quiet,
    Seed,
    Settings,
    Track,
    Training,
    model_names,
)

COLUMNS = {"loss": ".4f", "train": ".2%", "dev": ".2%", "rate": ".2g"}

if TYPE_CHECKING:
    from pomona.training.recipe import Recipe

GROUP = "models"


def train(
    model: Annotated[
        str,
        typer.Argument(
            help="The name of a model, for example treelstm, or package.module:Model (imported, so its code runs).",
            autocompletion=model_names,
        ),
    ],
    data: Data = "listops/d20s",
    dev: Annotated[
        str,
        typer.Option(help="A file to choose the weights on. Default: dev of the task or folder, or rows of a file."),
    ] = "",
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder of the run.")] = Path("runs/run"),
    seed: Seed = 0,
    data_seed: DataSeed = None,
    settings: Settings = None,
    model_settings: ModelSettings = None,
    recipe: Training = None,
    fidelity: Annotated[
        list[str] | None,
        typer.Option(hidden=True, help="The former name of settings such as --model-set half_width=true; still read."),
    ] = None,
    threads: Annotated[int, typer.Option(help="Number of threads that torch uses.", min=1)] = 1,
    device: Annotated[str, typer.Option(help="cpu or cuda; by default cuda if it is available.")] = "",
    track: Track = None,
    quiet: Quiet = False,
    imports: Import = None,
    as_json: AsJson = False,
) -> None:
    """Train a model. After an interruption the same command resumes the run, to the same weights bit for bit.

    Example: [bold]pomona train treelstm --data listops/d20s --out runs/tree --recipe longest=50[/bold]
    """
    from pomona.base.registry import is_import, trust

    if is_import(model):
        trust(model.partition(":")[0])
    chosen = {
        "model": model, "data": data, "seed": seed, **({"dev": dev} if dev else {}),
        **({"data_seed": data_seed} if data_seed is not None else {}), **({"fidelity": fidelity} if fidelity else {}),
    }  # fmt: skip
    asked = _recipe(chosen, recipe or [], settings or [], model_settings or [])

    from pomona.training.loop import Progress
    from pomona.training.loop import train as run_training
    from pomona.training.tracking import follow, follower

    with terminal.progress(f"{model} on {data}", None, quiet=quiet) as advance:
        printed = -1
        following = follower(out, track or [])

        def report(now: Progress) -> None:
            nonlocal printed
            advance(1)
            if following is not None:
                following(now)
            if not quiet and now.epoch != printed and now.step > 20:
                printed = now.epoch
                terminal.err.print(
                    f"epoch {now.epoch + 1}: step {now.step:,} of {now.steps:,}, loss {now.loss:.3f}, "
                    f"{now.examples_per_second:,.0f} examples/s, {_duration(now.seconds_left)} left"
                )

        run = run_training(asked, out, device=device or None, threads=threads, progress=report)
        follow(out, track or [])
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


def _recipe(chosen: dict[str, Any], training: list[str], settings: list[str], model_settings: list[str]) -> Recipe:
    """The recipe that the options describe; wrong names and values are errors, before a folder is created."""
    from pomona.base.registry import parse_settings
    from pomona.cli.options import recipe_settings
    from pomona.models.model import MODELS
    from pomona.training.recipe import Recipe

    more = recipe_settings(training)
    for name in more.keys() & {*chosen, "settings", "data_settings"}:
        if name in ("data_seed", "dev", "fidelity") or more[name] != chosen.get(name):
            option = _OPTIONS.get(name, f"--{name.replace('_', '-')}")
            raise typer.BadParameter(f"{name} is no setting of the training: write {option}", param_hint="--recipe")
    model = {"settings": parse_settings(model_settings)}
    task = {"data_settings": parse_settings(settings)}
    asked = Recipe.from_settings({**chosen, **model, **task, **more})
    kind = MODELS.entry(asked.model)[0].kind
    if task["data_settings"]:
        _check_settings(task["data_settings"], asked.data, kind, asked.model)
    MODELS.build(asked.model, asked.settings)
    return asked


_OPTIONS = {"model": "it first", "settings": "--model-set NAME=VALUE", "data_settings": "--set NAME=VALUE"}


def _check_settings(settings: dict[str, Any], data: str, model: type, name: str) -> None:
    """An error for `--set`, the settings of the task, where a setting of the model is meant."""
    import dataclasses

    from pomona.cli.options import pair_text
    from pomona.data.sources import source_kind
    from pomona.data.task import TASKS

    is_task = source_kind(data) == "task"
    of_task = {item.name for item in dataclasses.fields(TASKS.entry(data)[0].kind)} if is_task else set()
    of_model = {item.name for item in dataclasses.fields(model)}
    for key, value in settings.items():
        if key in of_model - of_task:
            message = f"{data} has no setting {key!r}; it is one of {name}: --model-set {pair_text(key, value)}"
            raise typer.BadParameter(message, param_hint="--set")


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
