"""`pomona compare`: which of several models is better on a corpus, and are these examples enough to tell?"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pomona.cli import terminal
from pomona.cli.options import AllowOverlap, AsJson, Data, DataSeed, Import, Settings, Size, Split

if TYPE_CHECKING:
    from pomona.evaluation.comparison import Comparison, Pair
    from pomona.evaluation.significance import Difference

GROUP = "models"


def compare(
    models: Annotated[
        list[str],
        typer.Argument(
            help="Runs, files of answers or package.module:thing; NAME=A,B,C is one model with several seeds."
        ),
    ],
    data: Data,
    split: Split = "",
    data_seed: DataSeed = None,
    size: Size = None,
    cluster: Annotated[
        str,
        typer.Option(help="Groups of examples that are not independent: derivation, operator, any column of the data."),
    ] = "",
    confidence: Annotated[float, typer.Option(help="Confidence of every interval.", min=0.5, max=0.9999)] = 0.95,
    settings: Settings = None,
    allow_overlap: AllowOverlap = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the comparison to this JSON file.")] = None,
    imports: Import = None,
    as_json: AsJson = False,
) -> None:
    """Paired differences with intervals, exact McNemar tests adjusted by Holm, and the smallest detectable difference.

    Several seeds of a model are averaged, with t-intervals, and compared by Welch's test.

    Example: [bold]pomona compare a.jsonl b.jsonl --data listops/d20s --cluster derivation[/bold]
    or [bold]pomona compare tree=runs/tree-0,runs/tree-1 lstm=runs/lstm-0,runs/lstm-1 --data test.tsv[/bold]
    """
    from pomona.base.files import kind_of, write_json
    from pomona.base.registry import parse_settings
    from pomona.cli.commands.evaluate import subject_of
    from pomona.data.sources import corpus_from
    from pomona.evaluation.comparison import compare as compared
    from pomona.evaluation.subjects import evaluate

    if len(models) < 2:
        raise typer.BadParameter("a comparison needs at least two models", param_hint="MODELS")
    corpus = corpus_from(data, split=split, seed=data_seed, settings=parse_settings(settings or []))[:size]
    sides = []
    short = [Path(model).name for model in models]
    for model, last in zip(models, short, strict=True):
        name, equals, members = model.partition("=")
        if not equals or kind_of(model):
            name, members = last if short.count(last) == 1 else model, model
        paths = [members] if kind_of(members) else members.split(",")
        subjects = [subject_of(path) for path in paths if path]
        sides.append(
            [evaluate(subject, corpus, name=name, ladders=False, allow_overlap=allow_overlap) for subject in subjects]
        )
    comparison = compared(*sides, cluster=cluster, confidence=confidence, seed=data_seed or 0)
    told = [f"{side.name}: {note}" for group in sides for side in group for note in side.notes]
    comparison = dataclasses.replace(comparison, notes=(*comparison.notes, *dict.fromkeys(told)))
    if out is not None:
        write_json(out, comparison.as_dict())
    if as_json:
        terminal.emit_json(comparison.as_dict())
        return
    _print(comparison, confidence)
    if out is not None:
        terminal.out.print(f"\nWrote {terminal.plain(out)}. Next: pomona report {terminal.plain(out)} ...")


def _print(comparison: Comparison, confidence: float) -> None:
    terminal.out.print(f"{terminal.plain(comparison.corpus)}, {100 * confidence:g} % intervals")
    sides = [
        (side.name, f"{side.accuracy.value:.2%}", *_bounds(side.accuracy, ".2%"), len(side.accuracies),
         side.accuracy.method)
        for side in comparison.sides
    ]  # fmt: skip
    terminal.out.print(terminal.table(None, ["model", "right", "from", "to", "runs", ""], sides))
    clustered = [f"by {comparison.cluster}", "to"] if comparison.cluster else []
    columns = ["difference", "", "from", "to", *clustered, "only one right", "p", "p (Holm)", "detectable"]
    rows = [_row(pair, bool(comparison.cluster)) for pair in comparison.pairs]
    terminal.out.print(terminal.table(None, columns, rows))
    for method in dict.fromkeys(f"{pair.difference.method}, {pair.test}" for pair in comparison.pairs):
        terminal.out.print(f"[dim]{terminal.plain(method)}[/dim]")
    terminal.out.print("[dim]detectable: the smallest difference found with 80 % power on these examples[/dim]")
    for note in comparison.notes:
        terminal.out.print(f"[yellow]note[/]: {terminal.plain(note)}")


def _row(pair: Pair, clustered: bool) -> tuple[str, ...]:
    counts = "" if pair.only_first is None else f"{pair.only_first:,} / {pair.only_second:,}"
    detectable = "" if pair.detectable is None else f"{pair.detectable:.2%}"
    bounds = ["", ""] if pair.clustered is None else _bounds(pair.clustered, "+.2%")
    return (
        f"{pair.first} - {pair.second}", f"{pair.difference.value:+.2%}", *_bounds(pair.difference, "+.2%"),
        *(bounds if clustered else []), counts, _p(pair.p_value), _p(pair.adjusted), detectable,
    )  # fmt: skip


def _bounds(difference: Difference, form: str) -> list[str]:
    return ["-" if bound != bound else format(bound, form) for bound in difference.interval]


def _p(value: float) -> str:
    return "-" if value != value else f"{value:.3g}"
