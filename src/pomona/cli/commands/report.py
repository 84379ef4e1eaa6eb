"""`pomona report`: a page to look at, and figures for a paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pomona.cli import terminal
from pomona.cli.options import AsJson, Import, ManyData, Quiet

GROUP = "papers"


def report(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUNS...",
            help="Runs, evaluated answers, folders of them; JSON of evaluate, compare, reproduce, tre, certify.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The report's folder.")] = Path("report"),
    data: ManyData = None,
    title: Annotated[str, typer.Option(help="The page's title.")] = "Pomona report",
    examples: Annotated[int, typer.Option(help="Most examples of a test that the explorer shows.", min=1)] = 10_000,
    figures: Annotated[bool, typer.Option(help="Write SVG and PDF of each plot beside the page.")] = True,
    quiet: Quiet = False,
    imports: Import = None,
    as_json: AsJson = False,
) -> None:
    """Write one page that opens from disk: accuracy on the ladder, effective depth, learning, papers, trees to explore.

    The examples that models were evaluated on are found by themselves, if they are where they were. For others, repeat
    --data with a file, a folder, or task:split:seed.

    Example: [bold]pomona report runs/ results/listops_2018.json --out report[/bold]
    """
    from pomona.reports import report as make

    with terminal.progress("reporting", None, quiet=quiet):
        made = make(paths, out, data=data or (), title=title, examples=examples, with_figures=figures)
    if as_json:
        terminal.emit_json(
            {
                "page": str(made.page),
                "bytes": made.size,
                "figures": [str(path) for path in made.figures],
                "notes": list(made.notes),
            }
        )
        return
    for note in made.notes:
        terminal.err.print(f"[yellow]note[/]: {terminal.plain(note)}")
    beside = f", and {len(made.figures)} figures beside it" if made.figures else ""
    terminal.out.print(f"Wrote [bold]{terminal.plain(made.page)}[/bold] ({made.size / 1e6:.1f} MB){beside}.")
