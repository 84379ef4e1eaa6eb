"""`pomona verify`: read files again and compute every answer again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pomona.cli import terminal
from pomona.cli.options import AsJson, Import, Most, Seed, Workers

if TYPE_CHECKING:
    from pomona.data.verification import Verification

GROUP = "data"


def verify(
    paths: Annotated[list[Path], typer.Argument(help="Files, or folders of files (datasets).")],
    most: Most = 50,
    prover: Annotated[
        str | None, typer.Option(help="Also check the labels of sentence pairs with z3, eprover or prover9.")
    ] = None,
    sample: Annotated[
        int, typer.Option(help="How many pairs of each file the prover checks; 0 for all.", min=0)
    ] = 1000,
    seed: Seed = 0,
    workers: Workers = None,
    imports: Import = None,
    as_json: AsJson = False,
) -> None:
    """Check files: compute every answer again, and find lost brackets, duplicates and leaks between splits.

    The files of a folder are also compared with its manifest.json. Prints file:line for each problem. Exit status 0 if
    there is none, 1 otherwise.

    Example: [bold]pomona verify data/[/bold], [bold]pomona verify nli/test.parquet --prover z3[/bold]
    """
    from pomona.base.workers import workers as crew_of
    from pomona.data.datasets import MANIFEST
    from pomona.data.shards.checking import shards_among
    from pomona.data.verification import files_in
    from pomona.data.verification import verify as verified

    files = files_in(paths)
    count = workers if shards_among(paths) else 1
    with (
        terminal.progress("verifying", len(files), quiet=as_json) as advance,
        crew_of("local", count, modules=imports or []) as crew,
    ):
        result = verified(*paths, prover=prover, sample=sample or None, seed=seed, progress=advance, crew=crew)
    if as_json:
        terminal.emit_json(_plain(result))
    else:
        _print(result, most)
        listed = [path for path in paths if path.is_dir() and (path / MANIFEST).is_file()]
        if result.holds and listed:
            terminal.out.print(f"The files are those that {terminal.plain(listed[0] / MANIFEST)} lists.")
    if not result.holds:
        raise typer.Exit(terminal.CHECK_FAILED)


def _plain(result: Verification) -> dict[str, Any]:
    """The result as plain JSON values."""
    return {
        "holds": result.holds,
        "answers": result.answers,
        "unchecked": list(result.unchecked),
        "files": [
            {"path": path, "format": kind, "rows": rows, "fingerprint": fingerprint}
            for path, kind, rows, fingerprint in result.files
        ],
        "problems": [vars(problem) for problem in result.problems],
    }


def _print(result: Verification, most: int) -> None:
    shown = result.problems if most == 0 else result.problems[:most]
    for problem in shown:
        terminal.out.print(terminal.plain(problem))
    if len(shown) < len(result.problems):
        terminal.out.print(f"... and {len(result.problems) - len(shown):,} more (--most 0 prints all)")
    rows = [(path, kind, fingerprint[:16], f"{count:,}") for path, kind, count, fingerprint in result.files]
    terminal.out.print(terminal.table(None, ["file", "format", "fingerprint", "rows"], rows, left=3))
    if result.answers != "nothing":
        terminal.out.print(f"Answers worked out by {terminal.plain(result.answers)}.")
    for path in result.unchecked:
        terminal.out.print(
            f"[bold yellow]Not checked[/]: the values and answers of {terminal.plain(path)}. The file names no task, "
            "and its operators have no rules here (pomona.trees.define_operator in a module of yours, and --import)."
        )
    if result.holds and result.unchecked:
        terminal.out.print(
            "[bold yellow]The rest holds[/]: files can be read, tokens fit their trees, no duplicates, no leaks."
        )
    elif result.holds:
        terminal.out.print("[bold green]All holds[/]: every answer recomputes, no duplicates, no leaks.")
    else:
        terminal.out.print(f"[bold red]{len(result.problems):,} problems[/].")
