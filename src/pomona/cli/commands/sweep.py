"""`pomona sweep`: many runs from one command or one file, on this machine, Ray or Slurm; and their table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pomona.cli import terminal
from pomona.cli.options import (
    Address,
    AsJson,
    AtOnce,
    Data,
    DataSeed,
    Import,
    ModelSettings,
    On,
    Quiet,
    Seed,
    Settings,
    Track,
    Training,
    is_settings_file,
    model_names,
    need_ray,
    settings_file,
)

if TYPE_CHECKING:
    from pomona.sweeps.plan import Plan
    from pomona.sweeps.sweep import Progress, Watch
    from pomona.sweeps.table import Table

GROUP = "models"


def sweep(
    what: Annotated[
        str, typer.Argument(help="A TOML file with the declaration; or `show`, to print the table of a folder.")
    ] = "",
    folder: Annotated[Path | None, typer.Argument(help="With `show`: the folder of runs.")] = None,
    model: Annotated[
        str, typer.Option(help="Models with a comma between them, as treelstm,lstm.", autocompletion=model_names)
    ] = "",
    data: Data = "",
    seeds: Annotated[str, typer.Option(help="How many seeds (5), or which ones (0,3,4).")] = "",
    settings: Settings = None,
    model_settings: ModelSettings = None,
    recipe: Training = None,
    data_seed: DataSeed = None,
    random: Annotated[int, typer.Option(help="Draw so many combinations; ranges are written rate=0.001..0.1.")] = 0,
    search: Annotated[str, typer.Option(help="Choose settings from the results so far: optuna.")] = "",
    trials: Annotated[int, typer.Option(help="Of a search: how many combinations are tried.", min=1)] = 20,
    evaluate: Annotated[
        list[str] | None,
        typer.Option(help="Evaluate each finished run: a split (test), task:split:seed, or a file; repeatable."),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder of the runs.")] = Path("runs"),
    on: On = "local",
    at_once: AtOnce = None,
    address: Address = "",
    retries: Annotated[int, typer.Option(help="Tries again after a worker died or code failed.", min=0)] = 2,
    partition: Annotated[str, typer.Option(help="Of Slurm.")] = "",
    hours: Annotated[float, typer.Option(help="Of Slurm: after this time a run goes back into the queue.")] = 4.0,
    track: Track = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the runs, or Slurm's script; start nothing.")
    ] = False,
    seed: Seed = 0,
    imports: Import = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the table as CSV.")] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train many runs: models x seeds x data x settings. The same command resumes; more values train only what is new.

    Values with a comma between them are tried in all combinations; models and data too. Each run is a folder in --out,
    as `pomona train` writes it. `pomona sweep show runs` prints the table: mean and t-interval over seeds.

    Example: [bold]pomona sweep --model treelstm,lstm --seeds 5 --model-set width=64,128 --evaluate test[/bold]
    """
    from pomona.sweeps.table import read_table

    if what == "show":
        _print(read_table(folder or out), as_csv=as_csv, as_json=as_json)
        return
    if folder is not None:
        raise typer.BadParameter("a second argument goes with `show` only", param_hint="FOLDER")
    need_ray(on, address)
    typed = {"model": model, "data": data, "seeds": seeds, "data_seed": data_seed, "random": random}
    plan = _plan(what, typed, {"set": settings, "model_set": model_settings, "recipe": recipe})
    how: dict[str, Any] = {"evaluate": evaluate or [], "modules": imports or [], "retries": retries, "seed": seed}
    how["track"] = track or []
    if on == "slurm":
        from pomona.sweeps.on_slurm import Slurm

        _slurm(plan, out, how, Slurm(partition, hours, at_once or 64), dry_run=dry_run)
        return
    if dry_run:
        for job in plan.jobs(seed):
            terminal.out.print(terminal.plain(job.name))
        return
    try:
        with _watching(quiet=quiet) as watch:
            how |= {"on": on, "workers": at_once, "address": address, "watch": watch}
            table = _run(plan, out, search, trials, how)
    except KeyboardInterrupt:
        show = f"[bold]pomona sweep show {terminal.plain(out)}[/bold]"
        terminal.err.print(f"\nStopped. The same command resumes; {show} tells how far.")
        raise
    _print(table, as_csv=as_csv, as_json=as_json)
    if table.failed:
        raise typer.Exit(terminal.CHECK_FAILED)


def _run(plan: Plan, out: Path, search: str, trials: int, how: dict[str, Any]) -> Table:
    from pomona.sweeps.sweep import sweep

    if not search:
        return sweep(plan, out, **how)
    if search != "optuna":
        raise typer.BadParameter(f"there is one way to search, optuna; got {search!r}", param_hint="--search")
    from pomona.sweeps.search import search as run_search

    return run_search(plan, out, trials, **how)


# -- what was typed --------------------------------------------------------------------------------------------------


def _plan(path: str, typed: dict[str, Any], tables: dict[str, list[str] | None]) -> Plan:
    """The declaration in a file, with what was typed in its place."""
    from pomona.base.registry import is_import, trust
    from pomona.sweeps.plan import Plan

    declared = settings_file(path) if path else {}
    for name in ("model", "data"):
        if typed[name]:
            declared[name] = typed[name].split(",")
    for name in typed["model"].split(","):
        if is_import(name):  # typed, not from the file
            trust(name.partition(":")[0])
    if typed["seeds"]:
        declared["seeds"] = _seeds(typed["seeds"])
    if typed["data_seed"] is not None:
        declared["data_seed"] = typed["data_seed"]
    if typed["random"]:
        declared["random"] = typed["random"]
    for table, pairs in tables.items():
        if pairs:
            declared[table] = {**declared.get(table, {}), **_chosen(pairs)}
    return Plan.of(_in_their_tables(declared))


def _in_their_tables(declared: dict[str, Any]) -> dict[str, Any]:
    """The declaration with settings of the model where they belong: `--set width=64` can mean only the model's if no
    task has such a setting."""
    from dataclasses import fields

    from pomona.base.files import kind_of
    from pomona.data.task import TASKS

    tasks = [name for name in _listed(declared.get("data", "listops/d20s")) if not kind_of(name)]
    known = {item.name for name in tasks for item in fields(TASKS.entry(name)[0].kind)}
    strange = {name: value for name, value in declared.get("set", {}).items() if tasks and name not in known}
    if not strange or any(not _has(model, strange) for model in _listed(declared.get("model", []))):
        return declared
    kept = {name: value for name, value in declared["set"].items() if name not in strange}
    return {**declared, "set": kept, "model_set": {**declared.get("model_set", {}), **strange}}


def _has(model: str, settings: dict[str, Any]) -> bool:
    from dataclasses import fields

    from pomona.models.model import MODELS

    return settings.keys() <= {item.name for item in fields(MODELS.entry(model)[0].kind)}


def _listed(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value]


def _seeds(text: str) -> Any:
    numbers = text.split(",")
    if not all(number.strip().isdecimal() for number in numbers):
        raise typer.BadParameter(f"a number of seeds, or seeds with a comma between them; got {text!r}")
    return int(text) if len(numbers) == 1 else [int(number) for number in numbers]


def _chosen(pairs: list[str]) -> dict[str, Any]:
    """The values of settings as they were typed, or from files; later ones replace earlier ones."""
    chosen: dict[str, Any] = {}
    for pair in pairs:
        chosen |= settings_file(pair) if is_settings_file(pair) else dict([_values(pair)])
    return chosen


def _values(pair: str) -> tuple[str, Any]:
    """`width=64,128` as two values, `rate=0.001..0.1` as a range."""
    from pomona.base.registry import parse_settings

    name, equals, text = pair.partition("=")
    low, dots, high = text.partition("..")
    if dots and equals:
        ends = parse_settings([f"low={low}", f"high={high}"])
        return name, ends
    if not equals or text.startswith(("[", "{")):
        ((name, value),) = parse_settings([pair]).items()
        return name, [value]
    return name, [parse_settings([f"{name}={each}"])[name] for each in text.split(",")]


# -- Slurm -------------------------------------------------------------------------------------------------------------


def _slurm(plan: Plan, out: Path, how: dict[str, Any], asked: Any, *, dry_run: bool) -> None:
    from pomona.base.extras import need
    from pomona.sweeps.on_slurm import script, submit
    from pomona.sweeps.sweep import missing

    need("submitit")
    orders = missing(plan, out, **how)
    if not orders:
        terminal.out.print(f"All runs in {terminal.plain(out)} are finished.")
    elif dry_run:
        terminal.out.print(terminal.plain(script(orders, out, asked), lines=True))
    else:
        numbers = submit(orders, out, asked)
        terminal.out.print(
            f"Submitted {len(orders)} {'run' if len(orders) == 1 else 'runs'} as job "
            f"{terminal.plain(numbers[0].partition('_')[0])}. [bold]pomona sweep show {terminal.plain(out)}[/bold] "
            "tells how far they are."
        )


# -- for people --------------------------------------------------------------------------------------------------------


@contextmanager
def _watching(*, quiet: bool) -> Iterator[Watch | None]:
    """A table that updates on a terminal; elsewhere a line for each run that ends."""
    if quiet:
        yield None
    elif terminal.err.is_terminal:
        from rich.live import Live

        with Live(console=terminal.err, transient=True, refresh_per_second=2) as live:
            yield lambda now: live.update(_state(now))
    else:
        last = {"done": -1}

        def say(now: Progress) -> None:
            if now.done != last["done"]:
                last["done"] = now.done
                terminal.err.print(f"{now.done} done, {len(now.running)} running, {now.waiting} waiting", markup=False)

        yield say


def _state(now: Progress) -> Any:
    left = "" if now.seconds_left is None else _about(now.seconds_left)
    speed = f"{now.examples_per_second:,.0f}" if now.examples_per_second else ""
    best = "" if now.best is None else f"{now.best[1]:.2%} on dev: {now.best[0]}"
    rows = [
        ("done", f"{now.done:,}"), ("running", ", ".join(now.running)), ("waiting", f"{now.waiting:,}"),
        ("failed", ", ".join(now.failed) or "0"), ("examples/s", speed),
        ("left", left), ("best", best),
    ]  # fmt: skip
    return terminal.table(None, ["", ""], rows, left=2)


def _about(seconds: float) -> str:
    """A time in a unit that fits it."""
    if seconds >= 5_400:
        return f"about {seconds / 3_600:,.1f} h"
    return f"about {seconds / 60:,.0f} min" if seconds >= 90 else f"about {seconds:,.0f} s"


def _print(table: Table, *, as_csv: bool, as_json: bool) -> None:
    if as_json:
        terminal.emit_json(table.as_dict())
    elif as_csv:
        terminal.emit_lines(table.as_csv().splitlines())
    else:
        terminal.out.print(terminal.table(None, table.columns, list(table.rows()), left=1))
        best = table.best
        if best is not None and len(table.lines) > 1:
            chosen = ", ".join(f"{name}={value}" for name, value in best.settings.items())
            terminal.out.print(f"Best on dev: {terminal.plain(chosen)}")
        for name, error in table.failed.items():
            terminal.out.print(f"[bold]failed[/bold] {terminal.plain(name)}: {terminal.plain(error)}")
