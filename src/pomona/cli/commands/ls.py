"""`pomona ls`: lists of tasks, models, measures and papers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

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
            help="tasks, models, measures or papers; or the name of a task, for its settings.", show_default=False
        ),
    ] = "tasks",
    imports: Import = None,
    as_json: AsJson = False,
) -> None:
    """List the tasks and their presets; the models, measures or papers; or the settings of one task.

    Example: [bold]pomona ls[/bold], then [bold]pomona ls listops[/bold] or [bold]pomona ls models[/bold]
    """
    from pomona.cli import catalogue

    family = "" if what in catalogue.KINDS else what
    listed = catalogue.tasks(family) if family else catalogue.listing(what)
    if as_json:
        terminal.emit_json(listed)
    elif family or what == "tasks":
        _show_tasks(listed, family)
    else:
        rows = [(name, about["about"]) for name, about in listed.items()]
        terminal.out.print(terminal.table(None, [what.removesuffix("s"), "what it is"], rows, left=2))
        without = any(about.get("settings") == catalogue.NO_TORCH for about in listed.values())
        terminal.out.print(f"\n{terminal.plain(catalogue.NO_TORCH.capitalize()) if without else _NEXT[what]}")


_NEXT = {
    "models": "Settings: pomona ls models --json\nTrain one: pomona train treelstm --data listops/d20s --out runs/tree",
    "measures": "Settings: pomona ls measures --json\nUse one: pomona measure topsim meanings.jsonl messages.txt",
    "papers": "Reproduce one: pomona reproduce listops_2018 --budget smoke",
}


def _show_tasks(listed: Listing, family: str) -> None:
    families = {name.partition("/")[0]: about["about"] for name, about in listed.items()}
    for name, about in families.items():
        terminal.out.print(f"[bold]{terminal.plain(name)}[/bold]  {terminal.plain(about)}")
    rows = [
        (name, "  ".join(f"{split} {count:,}" for split, count in reversed(about["splits"].items())))
        for name, about in listed.items()
    ]
    terminal.out.print(terminal.table(None, ["name", "rows of each split"], rows, left=2))
    if family:
        import dataclasses

        from pomona.data.task import TASKS

        fields = dataclasses.fields(TASKS.entry(family)[0].kind)
        settings = [(item.name, item.default) for item in fields]
        terminal.out.print(terminal.table("\nsettings", ["name", "default"], settings, left=2))
    terminal.out.print(
        "\nSee one: pomona show listops/d20s -n 2      Make one: pomona generate listops/d20s --out data"
        "\nMore: pomona ls models, pomona ls measures, pomona ls papers"
    )
