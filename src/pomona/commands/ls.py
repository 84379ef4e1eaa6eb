"""`pomona ls`: what there is."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pomona import terminal


def ls(
    family: Annotated[str, typer.Argument(help="Only this task, with its settings.", show_default=False)] = "",
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """List the tasks and their presets; with a name, the settings of that task.

    Example: [bold]pomona ls[/bold], then [bold]pomona ls listops[/bold]
    """
    import dataclasses

    from pomona.registry import settings_of
    from pomona.sampling import TASKS

    entries = [TASKS.entry(family)[0]] if family else list(TASKS.entries())
    described: dict[str, dict[str, Any]] = {
        name: {"splits": TASKS.build(name).sizes, "about": entry.about, "settings": settings_of(TASKS.build(name))}
        for entry in entries
        for name in entry.names
    }
    if as_json:
        terminal.emit_json(described)
        return
    rows = [
        (name, "  ".join(f"{split} {count:,}" for split, count in reversed(one["splits"].items())))
        for name, one in described.items()
    ]
    for entry in entries:
        terminal.out.print(f"[bold]{terminal.plain(entry.name)}[/bold]  {terminal.plain(entry.about)}")
    terminal.out.print(terminal.table(None, ["name", "rows of each split"], rows, left=2))
    if family:
        fields = dataclasses.fields(entries[0].kind)
        terminal.out.print(
            terminal.table("\nsettings", ["name", "default"], [(item.name, item.default) for item in fields], left=2)
        )
    terminal.out.print(
        "\nSee one: pomona show listops/d20s -n 2      Make one: pomona generate listops/d20s --out data"
    )
