"""`pomona measure`: any measure by name, of files of items or of answers to a corpus."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pomona.cli import terminal
from pomona.cli.commands import task_names

if TYPE_CHECKING:
    from pomona.evaluation.measure import Measure


def measure(
    name: Annotated[str, typer.Argument(help="A measure; pomona ls measures lists them.")],
    first: Annotated[
        Path, typer.Argument(help="Meanings, attributes or vectors: .jsonl, .csv, .npy, trees or text; or answers.")
    ],
    second: Annotated[Path | None, typer.Argument(help="Messages, vectors or labels, in the same order.")] = None,
    data: Annotated[
        str,
        typer.Option(help="The corpus that FIRST answers: a file, or a task's name.", autocompletion=task_names),
    ] = "",
    split: Annotated[str, typer.Option(help="Which split of a task.")] = "test",
    size: Annotated[int | None, typer.Option(help="Use only the first N examples.", min=1)] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A setting of the measure, as method=kendall; may be repeated.")
    ] = None,
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
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the measure's random choices.")] = None,
    modules: Annotated[
        list[str] | None, typer.Option("--import", help="A module of yours with a measure or a model; its code runs.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Apply one measure to files of items, or with --data to a run or a file of answers.

    Example: [bold]pomona measure topsim attributes.jsonl messages.txt --permutations 1000[/bold]
    or [bold]pomona measure parse-f1 answers.jsonl --data test.tsv --set root=false[/bold]
    """
    from pomona.base.registry import imported, parse_settings
    from pomona.cli.commands.evaluate import print_measure
    from pomona.evaluation.measure import MEASURES

    for module in modules or []:
        imported(f"{module}:")
    options = {
        "meaning_distance": meaning_distance, "message_distance": message_distance, "method": method,
        "permutations": permutations, "binning": binning, "neighbours": neighbours, "seed": seed,
    }  # fmt: skip
    given = {option: value for option, value in options.items() if value is not None}
    chosen = _measure(name, {**given, **parse_settings(settings or [])})
    if data:
        if second is not None:
            raise typer.BadParameter("with --data there is one file of answers, or one run", param_hint="SECOND")
        values = _of_answers(chosen, first, data, split, size, modules or [])
    else:
        values = _of_files(chosen, [first] if second is None else [first, second])
    if as_json:
        terminal.emit_json({"measure": name, **values})
        return
    print_measure(f"{name}: {MEASURES.entry(name)[0].about}", values)


def _measure(name: str, settings: dict[str, Any]) -> Measure:
    from pomona.evaluation.measure import MEASURES

    return MEASURES.build(name, settings)


def _of_files(chosen: Measure, paths: list[Path]) -> dict[str, Any]:
    from pomona.evaluation.measure import ItemMeasure, plain_values, read_item_files

    if not isinstance(chosen, ItemMeasure):
        raise typer.BadParameter(
            f"{chosen.name} is measured on answers; say with --data which corpus they answer.", param_hint="--data"
        )
    if len(paths) < len(chosen.reads):
        raise typer.BadParameter(
            f"{chosen.name} compares two files, {' and '.join(chosen.reads)}; give the second one.", param_hint="SECOND"
        )
    return plain_values(chosen.of_items(*read_item_files(chosen, paths)))


def _of_answers(
    chosen: Measure, path: Path, data: str, split: str, size: int | None, modules: list[str]
) -> dict[str, Any]:
    from pomona.cli.commands.evaluate import subject_of
    from pomona.data.sources import corpus_from
    from pomona.evaluation.measure import apply
    from pomona.evaluation.subjects import evaluate

    corpus = corpus_from(data, split=split)[:size]
    return apply(chosen, evaluate(subject_of(str(path), modules), corpus, name=path.name, ladders=False))
