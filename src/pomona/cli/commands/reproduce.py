"""`pomona reproduce`: the tables and figures of a paper, measured again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pomona.cli import terminal
from pomona.cli.options import Address, AsJson, AtOnce, Import, On, need_ray

GROUP = "papers"


def reproduce(
    paper: Annotated[
        str, typer.Argument(help="A paper's name, for example listops_2018; pomona ls papers lists them.")
    ],
    table: Annotated[list[int] | None, typer.Option(help="Only this table; may be repeated.")] = None,
    figure: Annotated[list[int] | None, typer.Option(help="Only this figure; may be repeated.")] = None,
    experiment: Annotated[list[str] | None, typer.Option(help="Only this experiment; may be repeated.")] = None,
    row: Annotated[
        list[str] | None, typer.Option(help="Only this row, for example 'TreeLSTM 128D'; may be repeated.")
    ] = None,
    budget: Annotated[
        str, typer.Option(help="How much to train: smoke (2 minutes), cpu (a night) or paper (all of it).")
    ] = "cpu",
    folder: Annotated[Path, typer.Option(help="Folder of the runs.")] = Path("runs"),
    results: Annotated[
        Path | None, typer.Option(help="File for the results. Default: results/PAPER.json, except for smoke.")
    ] = None,
    on: On = "",
    at_once: AtOnce = None,
    address: Address = "",
    no_train: Annotated[
        bool, typer.Option("--no-train", help="Train no missing runs: test finished ones if need be, and show them.")
    ] = False,
    skip_recorded: Annotated[
        bool, typer.Option("--skip-recorded", help="Train no run of which the results file has a record.")
    ] = False,
    imports: Import = None,
    as_json: AsJson = False,
) -> None:
    """Train the models of a paper's tables and figures, resume unfinished runs, and compare with the printed numbers.

    The same command resumes. Runs are trained one after the other; with --on local or --on ray, all that are missing
    are trained side by side, with the same numbers. A results file keeps the records of its runs: where their folders
    are gone, --skip-recorded completes a row instead of training it anew.

    Example: [bold]pomona reproduce listops_2018 --budget smoke --on local[/bold]
    """
    from pomona.papers.claims import judged
    from pomona.papers.reproduce import PAPERS, missing_files
    from pomona.papers.reproduce import reproduce as run_reproduction
    from pomona.papers.side_by_side import Elsewhere

    where = [f"Table {number}" for number in table or []] + [f"Figure {number}" for number in figure or []]
    where += experiment or []
    out = results or (Path("results") / f"{paper}.json" if budget != "smoke" else None)
    if on not in ("", "local", "ray"):
        raise typer.BadParameter(f"missing runs are trained on local or ray; got {on!r}", param_hint="--on")
    need_ray(on, address)
    where_trained: Any = on or ("local" if at_once else "")
    elsewhere = Elsewhere(where_trained, at_once, address, tuple(imports or ())) if where_trained else None
    try:
        reproduced = run_reproduction(
            paper,
            budget=budget,  # type: ignore[arg-type]
            where=where,
            rows=row or [],
            folder=folder,
            out=out,
            elsewhere=elsewhere,
            train_missing=not no_train,
            skip_recorded=skip_recorded,
            say=lambda text: terminal.err.print(terminal.plain(text)),
        )
    except KeyboardInterrupt:
        terminal.err.print("\nStopped. The same command resumes.")
        raise
    failed = reproduced.pop("failed", {})
    claims = judged(PAPERS.entry(paper)[0].kind, reproduced)
    if missing_files(paper):
        out = None  # it was not written
    if as_json:
        terminal.emit_json({**reproduced, "claims": claims, **({"failed": failed} if failed else {})})
        if failed:
            raise typer.Exit(terminal.CHECK_FAILED)
        return
    smoke = ", SMOKE TEST: a few steps on few examples, to see that everything runs" if budget == "smoke" else ""
    _print(reproduced, f"{reproduced['paper']}{smoke}", where, row or [])
    _print_claims(claims, smoke)
    if out is not None:
        terminal.out.print(f"Wrote {terminal.plain(out)}")
    for name, error in failed.items():
        terminal.out.print(f"[bold]failed[/bold] {terminal.plain(name)}: {terminal.plain(error)}")
    if failed:
        raise typer.Exit(terminal.CHECK_FAILED)


def _print(reproduced: dict[str, Any], title: str, where: list[str], only: list[str]) -> None:
    """The cells of these tables and rows (all, if there are none), then baselines and the paper's answer."""
    rows = [
        (cell["where"], cell["row"], cell["column"], *(_number(cell[key]) for key in _NUMBERS), cell["runs"])
        for cell in reproduced["cells"]
        if (not where or cell["where"] in where) and (not only or cell["row"] in only)
    ]
    columns = ["", "row", "column", "paper", "ours", "deviation", "low", "high", "runs"]
    terminal.out.print(terminal.table(terminal.plain(title), columns, rows, left=3))
    if "ladder" in reproduced:
        rungs = [(name, _number(value)) for name, value in reproduced["ladder"].items()]
        title = "Baselines that see only part of the input, on the same test set"
        terminal.out.print(terminal.table(title, ["sees", "accuracy"], rungs))
    if reproduced.get("answer"):
        terminal.out.print(terminal.plain(reproduced["answer"]))


def _print_claims(claims: list[dict[str, str]], more: str) -> None:
    """What the numbers, new and old, say of each claim of the paper."""
    if claims:
        columns = ["claim", "printed", "ours", "verdict"]
        rows = [[terminal.plain(claim[column]) for column in columns] for claim in claims]
        terminal.out.print(terminal.table(f"What the paper claims{more}", columns, rows, left=4))


_NUMBERS = ("printed", "measured", "deviation", "low", "high")


def _number(value: float | str | None) -> str:
    if isinstance(value, str):
        return value
    return "-" if value is None else f"{value:.1f}" if abs(value) >= 2 else f"{value:.2f}"
