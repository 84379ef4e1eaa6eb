"""`pomona compare`: which of several models is better on a corpus, and could these examples tell?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pomona.cli import terminal
from pomona.cli.commands import task_names

if TYPE_CHECKING:
    from pomona.evaluation.comparison import Comparison
    from pomona.evaluation.significance import Difference


def compare(
    models: Annotated[
        list[str],
        typer.Argument(
            help="Runs, files of answers or package.module:thing; NAME=A,B,C is one model with several seeds."
        ),
    ],
    data: Annotated[str, typer.Option(help="A file, or a task's name, as listops/d20s.", autocompletion=task_names)],
    split: Annotated[str, typer.Option(help="Which split of a task.")] = "test",
    seed: Annotated[int, typer.Option(help="Which draw of a task.")] = 0,
    size: Annotated[int | None, typer.Option(help="At most so many examples, the first ones.", min=1)] = None,
    cluster: Annotated[
        str, typer.Option(help="Examples that stand or fall together: derivation, operator, any column of the data.")
    ] = "",
    confidence: Annotated[float, typer.Option(help="Of every interval.", min=0.5, max=0.9999)] = 0.95,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A setting of the task, as branching=0.3; may repeat.")
    ] = None,
    modules: Annotated[
        list[str] | None, typer.Option("--import", help="A module of yours that a run's model lives in; its code runs.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Paired difference with interval, exact McNemar test, Holm over all pairs, and what could have been detected.

    Several seeds of a model are averaged, with t-intervals, and compared by Welch's test.

    Example: [bold]pomona compare a.jsonl b.jsonl --data listops/d20s --cluster derivation[/bold]
    or [bold]pomona compare tree=runs/tree-0,runs/tree-1 lstm=runs/lstm-0,runs/lstm-1 --data test.tsv[/bold]
    """
    from pathlib import Path

    from pomona.base.files import kind_of
    from pomona.base.registry import parse_settings
    from pomona.cli.commands.evaluate import subject_of
    from pomona.data.sources import corpus_from
    from pomona.evaluation.comparison import compare as compared
    from pomona.evaluation.subjects import evaluate

    if len(models) < 2:
        raise typer.BadParameter("a comparison needs at least two models", param_hint="MODELS")
    corpus = corpus_from(data, split=split, seed=seed, settings=parse_settings(settings or []))[:size]
    sides = []
    short = [Path(given).name for given in models]
    for given, last in zip(models, short, strict=True):
        name, equals, members = given.partition("=")
        if not equals or kind_of(given):
            name, members = last if short.count(last) == 1 else given, given
        names = [members] if kind_of(members) else members.split(",")
        sides.append(
            [evaluate(subject_of(one, modules or []), corpus, name=name, ladders=False) for one in names if one]
        )
    found = compared(*sides, cluster=cluster, confidence=confidence, seed=seed)
    if as_json:
        terminal.emit_json(found.as_dict())
        return
    _print(found, confidence)


def _print(found: Comparison, confidence: float) -> None:
    terminal.out.print(f"{terminal.plain(found.corpus)}, {100 * confidence:g} % intervals")
    sides = [
        (one.name, f"{one.accuracy.value:.2%}", *_bounds(one.accuracy, ".2%"), len(one.accuracies), one.accuracy.method)
        for one in found.sides
    ]
    terminal.out.print(terminal.table(None, ["model", "right", "from", "to", "runs", ""], sides))
    rows = []
    for one in found.pairs:
        counts = "" if one.only_first is None else f"{one.only_first:,} / {one.only_second:,}"
        could = "" if one.detectable is None else f"{one.detectable:.2%}"
        together = [] if not found.cluster else ["", ""] if one.clustered is None else _bounds(one.clustered, "+.2%")
        rows.append(
            (f"{one.first} - {one.second}", f"{one.difference.value:+.2%}", *_bounds(one.difference, "+.2%"),
             *together, counts, _p(one.p_value), _p(one.adjusted), could)
        )  # fmt: skip
    clustered = [f"by {found.cluster}", "to"] if found.cluster else []
    columns = ["difference", "", "from", "to", *clustered, "only one right", "p", "p (Holm)", "detectable"]
    terminal.out.print(terminal.table(None, columns, rows))
    for method in dict.fromkeys(f"{one.difference.method}, {one.test}" for one in found.pairs):
        terminal.out.print(f"[dim]{terminal.plain(method)}[/dim]")
    terminal.out.print("[dim]detectable: the smallest difference found with 80 % power on these examples[/dim]")
    for note in found.notes:
        terminal.out.print(f"[yellow]note[/]: {terminal.plain(note)}")


def _bounds(difference: Difference, how: str) -> list[str]:
    return ["-" if bound != bound else format(bound, how) for bound in difference.interval]


def _p(value: float) -> str:
    return "-" if value != value else f"{value:.3g}"
