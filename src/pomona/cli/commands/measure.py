"""`pomona measure`: any measure by name, of files of items or of answers to a corpus."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pomona.cli import terminal
from pomona.cli.options import (
    AllowOverlap,
    AsJson,
    Data,
    DataSeed,
    Import,
    MeasureSettings,
    SeedOrNone,
    Settings,
    Size,
    Split,
    pair_text,
)

if TYPE_CHECKING:
    from pomona.evaluation.measure import Measure

GROUP = "measures"


def measure(
    name: Annotated[str, typer.Argument(help="A measure; pomona ls measures lists them.")],
    first: Annotated[
        Path, typer.Argument(help="Meanings, attributes or vectors: .jsonl, .csv, .npy, trees or text; or answers.")
    ],
    second: Annotated[Path | None, typer.Argument(help="Messages, vectors or labels, in the same order.")] = None,
    data: Data = "",
    split: Split = "",
    data_seed: DataSeed = None,
    size: Size = None,
    settings: Settings = None,
    measure_settings: MeasureSettings = None,
    allow_overlap: AllowOverlap = False,
    meaning_distance: Annotated[
        str | None, typer.Option(help="hamming (default), edit, tree, cosine, euclidean or l1.", show_default=False)
    ] = None,
    message_distance: Annotated[
        str | None, typer.Option(help="edit (default), hamming, tree, cosine, euclidean or l1.", show_default=False)
    ] = None,
    method: Annotated[str | None, typer.Option(help="spearman, pearson or kendall.", show_default=False)] = None,
    permutations: Annotated[int | None, typer.Option(min=0, help="Permutations of items for a p-value.")] = None,
    binning: Annotated[str | None, typer.Option(help="andreas2019 or range, for binned-entropy.")] = None,
    neighbours: Annotated[int | None, typer.Option(min=1, help="Neighbours for mutual-information.")] = None,
    seed: SeedOrNone = None,
    imports: Import = None,
    as_json: AsJson = False,
) -> None:
    """Apply one measure to files of items, or with --data to a run or a file of answers.

    Example: [bold]pomona measure topsim attributes.jsonl messages.txt --permutations 1000[/bold]
    or [bold]pomona measure parse-f1 answers.jsonl --data test.tsv --measure-set root=false[/bold]
    """
    from pomona.base.registry import parse_settings
    from pomona.cli.commands.evaluate import print_measure, subject_of
    from pomona.data.sources import corpus_from
    from pomona.evaluation.measure import MEASURES, apply
    from pomona.evaluation.subjects import evaluate

    options = {
        "meaning_distance": meaning_distance, "message_distance": message_distance, "method": method,
        "permutations": permutations, "binning": binning, "neighbours": neighbours, "seed": seed,
    }  # fmt: skip
    given = {option: value for option, value in options.items() if value is not None}
    chosen = MEASURES.build(name, {**given, **parse_settings(measure_settings or [])})
    _check_settings(chosen, parse_settings(settings or []), data)
    if data:
        if second is not None:
            raise typer.BadParameter("with --data there is one file of answers, or one run", param_hint="SECOND")
        corpus = corpus_from(data, split=split, seed=data_seed, size=size, settings=parse_settings(settings or []))
        subject = subject_of(str(first))
        evaluation = evaluate(subject, corpus, name=first.name, ladders=False, allow_overlap=allow_overlap)
        values = apply(chosen, evaluation)
    else:
        values = _of_files(chosen, [first] if second is None else [first, second])
    if as_json:
        terminal.emit_json({"measure": name, **values})
        return
    print_measure(f"{name}: {MEASURES.entry(name)[0].about}", values)


def _check_settings(chosen: Measure, settings: dict[str, Any], data: str) -> None:
    """An error for `--set`, the settings of the task, where those of the measure are meant or there is no task."""
    own = [name for name in settings if hasattr(chosen, name)]
    if own:
        message = f"{own[0]} is a setting of the measure: --measure-set {pair_text(own[0], settings[own[0]])}"
        raise typer.BadParameter(message, param_hint="--set")
    if settings and not data:
        raise typer.BadParameter("these are settings of a task; name one with --data", param_hint="--set")


def _of_files(chosen: Measure, paths: list[Path]) -> dict[str, Any]:
    from pomona.base.errors import MeasureError
    from pomona.evaluation.measure import ItemMeasure, plain_values, read_item_files

    if not isinstance(chosen, ItemMeasure):
        raise typer.BadParameter(
            f"{chosen.name} is measured on answers; say with --data which corpus they answer.", param_hint="--data"
        )
    if len(paths) < len(chosen.reads):
        raise typer.BadParameter(
            f"{chosen.name} compares two files, {' and '.join(chosen.reads)}; give the second one.", param_hint="SECOND"
        )
    items = read_item_files(chosen, paths)
    try:
        return plain_values(chosen.of_items(*items))
    except MeasureError as error:  # which speaks of rows
        raise MeasureError(f"{' and '.join(map(str, paths))}: {error}") from error.__cause__

