"""`pomona ls`: lists of tasks, models, measures and papers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pomona.cli import terminal
from pomona.cli.options import AsJson, Import

if TYPE_CHECKING:
    from pomona.cli.catalogue import Listing

GROUP = "start"


def ls(
    what: Annotated[
        str,
        typer.Argument(
            help="tasks, models, measures or papers; or the name of one, for example listops or treelstm; or recipe.",
            show_default=False,
        ),
    ] = "tasks",
    imports: Import = None,
    as_json: AsJson = False,
) -> None:
    """List the tasks, models, measures or papers; or describe one of them, with all its settings and their defaults.

    Example: [bold]pomona ls[/bold], then [bold]pomona ls listops[/bold], [bold]pomona ls models[/bold] or
    [bold]pomona ls treelstm[/bold]
    """
    from pomona.cli import catalogue

    if what not in catalogue.KINDS:
        about = catalogue.described(what)
        terminal.emit_json(about) if as_json else _describe(about)
        return
    listed = catalogue.listing(what, imports or ())
    if as_json:
        terminal.emit_json(listed)
    elif what == "tasks":
        _show_tasks(listed)
    else:
        rows = [(name, about["about"]) for name, about in listed.items()]
        terminal.out.print(terminal.table(None, [what.removesuffix("s"), "what it is"], rows, left=2))
        without = any(about.get("settings") == catalogue.NO_TORCH for about in listed.values())
        terminal.out.print(f"\n{terminal.plain(catalogue.NO_TORCH.capitalize()) if without else _NEXT[what]}")


def _describe(about: dict[str, Any]) -> None:
    """One entry: what it is, its presets, its settings, and the option that sets them."""
    kind, name = about["kind"], terminal.plain(about["name"])
    terminal.out.print(f"[bold]{name}[/bold], a {kind}: {terminal.plain(about.get('title') or about['about'])}")
    if about.get("presets"):
        presets = [(preset, _rows_of(one["splits"]), _values(one["set"])) for preset, one in about["presets"].items()]
        terminal.out.print(terminal.table("", ["preset", "rows of each split", "sets"], presets, left=3))
    for heading in ("places", "claims"):
        if about.get(heading):
            terminal.out.print(f"\n{heading}\n  " + terminal.plain("\n  ".join(about[heading]), lines=True))
    if about["settings"] and kind in _OPTIONS:
        option = _OPTIONS[kind]
        rows = [(key, one["type"], _value(one["default"]), one["help"]) for key, one in about["settings"].items()]
        title = f"\nsettings: {option} NAME=VALUE"
        terminal.out.print(terminal.table(title, ["name", "type", "default", "what it is"], rows, left=4))
    if about.get("note"):
        terminal.out.print(terminal.plain(about["note"].capitalize()))
    terminal.out.print(f"\n{_USE[kind].format(name=name)}")


def _rows_of(splits: dict[str, int]) -> str:
    return "  ".join(f"{split} {count:,}" for split, count in reversed(splits.items()))


def _values(settings: dict[str, Any]) -> str:
    return " ".join(f"{name}={_value(value)}" for name, value in settings.items())


def _value(value: Any) -> str:
    import json

    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)


_OPTIONS = {"task": "--set", "model": "--model-set", "measure": "--measure-set", "recipe": "--recipe"}
_USE = {
    "recipe": "Train with some: pomona train treelstm --data data/ --recipe epochs=10 --recipe rate=0.01",
    "task": "See one: pomona show {name} -n 2      Make one: pomona generate {name} --out data",
    "model": "Train one: pomona train {name} --data data/ --out runs/{name}",
    "measure": "Use one: pomona measure {name} ...      or: pomona evaluate ... --measure {name}",
    "paper": "Reproduce it: pomona reproduce {name} --budget smoke",
}
_NEXT = {
    "models": "Its settings: pomona ls treelstm\nTrain one: pomona train treelstm --data listops/d20s --out runs/tree",
    "measures": "Its settings: pomona ls topsim\nUse one: pomona measure topsim meanings.jsonl messages.txt",
    "papers": "One of them: pomona ls listops_2018\nReproduce one: pomona reproduce listops_2018 --budget smoke",
}


def _show_tasks(listed: Listing) -> None:
    families = {name.partition("/")[0]: about["about"] for name, about in listed.items()}
    for name, about in families.items():
        terminal.out.print(f"[bold]{terminal.plain(name)}[/bold]  {terminal.plain(about)}")
    rows = [(name, _rows_of(about["splits"])) for name, about in listed.items()]
    terminal.out.print(terminal.table(None, ["name", "rows of each split"], rows, left=2))
    terminal.out.print(
        "\nOne of them, with its settings: pomona ls listops      See one: pomona show listops/d20s -n 2"
        "\nMore: pomona ls models, pomona ls measures, pomona ls papers"
    )
