"""`pomona evaluate`: accuracy and more of a model on a corpus: a run, a file of answers or code of your own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    Predictions,
    Settings,
    Size,
    Split,
    Train,
    TrainDepth,
    Verbose,
    Weights,
)

if TYPE_CHECKING:
    from pomona.data.corpus import Corpus
    from pomona.evaluation.accuracy import Group
    from pomona.evaluation.evaluation import Evaluation
    from pomona.evaluation.subjects import Answered

GROUP = "models"


def evaluate(
    model: Annotated[
        str,
        typer.Argument(
            help="A run's folder, a file of answers, or package.module:thing (which is imported, so its code runs).",
            show_default=False,
        ),
    ] = "",
    data: Data = "",
    split: Split = "",
    data_seed: DataSeed = None,
    size: Size = None,
    predictions: Predictions = None,
    train: Train = "",
    train_depth: TrainDepth = None,
    ladder: Annotated[bool, typer.Option(help="Baselines that see part of the input, and effective depth.")] = True,
    measures: Annotated[
        list[str] | None,
        typer.Option(
            "--measure",
            help="A further measure (pomona ls measures), for example topsim or topsim:method=kendall; repeatable.",
        ),
    ] = None,
    weights: Weights = "best",
    name: Annotated[
        str, typer.Option(help="The name under which a run keeps its scores. Default: that of the split or the file.")
    ] = "",
    save: Annotated[
        Path | None, typer.Option("--save-answers", help="Write the answers here, to evaluate or compare them again.")
    ] = None,
    settings: Settings = None,
    allow_overlap: AllowOverlap = False,
    imports: Import = None,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Accuracy with intervals, overall and by length, depth, operator and arity, beside simple baselines.

    For answers that come with trees, parse F1 as well; answers that cannot be read are counted apart from wrong ones.

    The result is kept, for pomona report: in a run's folder (scores.json), or beside a file of answers. A second
    evaluation on the same examples replaces the first; other examples of the same name get a name of their own.

    Example: [bold]pomona evaluate --data listops/d20s --split test --predictions answers.jsonl[/bold]
    or [bold]pomona evaluate runs/tree --data test.tsv --measure topsim[/bold]
    """
    from pomona.base.registry import parse_settings
    from pomona.data.answers import write_answers
    from pomona.data.sources import Named
    from pomona.evaluation.measure import from_text, with_measures
    from pomona.evaluation.records import record_of
    from pomona.evaluation.subjects import Reading, answer, evaluate_answered

    if bool(model) == (predictions is not None):
        raise typer.BadParameter("give either a model or --predictions, and not both", param_hint="MODEL")
    if not data:
        raise typer.BadParameter("say what to evaluate on: a task, a file or a folder", param_hint="--data")
    given = model or str(predictions)
    subject = subject_of(given)
    for text in measures or []:
        from_text(text)  # a measure that does not exist is an error before the work, not after it
    if name:
        _check_name(subject, name, given)
    named = Named(data, split, data_seed, size, parse_settings(settings or []))
    corpus = named.corpus()
    notes = _checked_overlap(subject, corpus, allow=allow_overlap)
    answered = answer(subject, corpus, Path(given).name, Reading(which=weights))
    learn_from = learning_source(train, data_seed) if train and ladder else None
    evaluation = evaluate_answered(answered, corpus, ladders=ladder, train=learn_from, train_depth=train_depth)
    evaluation = notes(with_measures(evaluation, measures or []))
    record = record_of(evaluation, named)
    if save is not None:
        write_answers(corpus, answered.answers, save)
    kept = _keep(answered, record, name or named.label, save or Path(given), chosen=bool(name))
    if as_json:
        with terminal.aside():
            terminal.out.print(kept)
        terminal.emit_json(record)
        return
    _print(evaluation, verbose=verbose)
    if save is not None:
        terminal.out.print(f"\nWrote {terminal.plain(save)}")
    terminal.out.print(f"\n{kept}")


def learning_source(source: str, seed: int | None) -> Corpus:
    """The examples that baselines learn from: a file, or the train split of a task or a folder."""
    from pomona.data.sources import corpus_from, source_kind

    kind = source_kind(source)
    return corpus_from(source, split="" if kind == "file" else "train", seed=seed if kind == "task" else None)


def _checked_overlap(subject: Any, corpus: Corpus, *, allow: bool) -> Callable[[Evaluation], Evaluation]:
    """An error if a run was trained on examples of the corpus; what adds the notes about that to an evaluation."""
    from dataclasses import replace

    from pomona.evaluation.overlap import overlap, overlap_notes, refuse_overlap
    from pomona.training.run import Run

    if not isinstance(subject, Run):
        return lambda evaluation: evaluation
    seen = overlap(subject, corpus)
    if not allow:
        refuse_overlap(seen, corpus, subject)
    return lambda evaluation: replace(evaluation, notes=(*evaluation.notes, *overlap_notes(seen, evaluation)))


def _keep(answered: Answered, record: dict[str, Any], name: str, path: Path, *, chosen: bool) -> str:
    """Keep an evaluation in the run, or beside the file of answers; a sentence that says where."""
    from pomona.base.errors import PomonaError
    from pomona.base.files import kind_of
    from pomona.evaluation.records import free_name, keep, keep_beside

    try:
        if answered.run is not None:
            assert answered.predictions is not None
            name = name if chosen else free_name(answered.run, name, record["fingerprint"])
            keep(answered.run, name, answered.predictions, record)
            return f"Kept as {terminal.plain(repr(name))} in {terminal.plain(answered.run.folder / 'scores.json')}"
        if kind_of(path) == "file":
            return f"Kept in {terminal.plain(keep_beside(path, record))}"
    except PomonaError as error:
        if chosen:
            raise
        return f"[yellow]Not kept[/]: {terminal.plain(error)}"
    return "Not kept: code has no folder of its own. --save-answers FILE keeps the answers and this evaluation."


def subject_of(model: str) -> Any:
    """A run's folder as a Run; anything else as it stands."""
    from pomona.base.files import kind_of
    from pomona.training.run import Run

    return Run.read(model) if kind_of(model) == "folder" else model


def _check_name(subject: Any, name: str, given: str) -> None:
    """An error if scores cannot be kept under this name, before the work and not after it."""
    from pomona.base.errors import RunError
    from pomona.training.run import Run

    if not isinstance(subject, Run):
        raise RunError(f"--name keeps scores in a run's folder, and {given!r} is none; --save-answers writes a file")
    subject.predictions_at(name)


# -- for people --------------------------------------------------------------------------------------------------------

_TREES = {
    "f1_gold": "F1 with gold",
    "f1_gold_without_root": "the same without the root",
    "f1_left": "F1 with left-branching",
    "f1_right": "F1 with right-branching",
    "list_recall": "lists closed as a unit",
}


def _print(evaluation: Evaluation, *, verbose: bool) -> None:
    from pomona.evaluation.evaluation import SHOWN_GROUPINGS

    low, high = evaluation.accuracy.interval
    terminal.out.print(f"{terminal.plain(evaluation.name)} on {terminal.plain(repr(evaluation.corpus))}")
    terminal.out.print(
        f"[bold]{evaluation.accuracy.value:.2%}[/bold] right ({low:.2%} to {high:.2%}): "
        f"{int(evaluation.right.sum()):,} right, {evaluation.wrong:,} wrong, {evaluation.unparsed:,} unparsed of "
        f"{len(evaluation):,}"
    )
    asked = "tree" if len(evaluation.questions) == evaluation.corpus.width else "answer"
    _print_verdicts(evaluation, asked, verbose=verbose)
    if evaluation.ladder is not None:
        _print_ladder(evaluation)
    terminal.out.print()
    if len(evaluation.questions) > 1:
        each = [(f"{asked} {number}", *_shares(score)) for number, score in enumerate(evaluation.questions, 1)]
        terminal.out.print(terminal.table(None, ["question", "right", "from", "to"], each))
    for grouping in SHOWN_GROUPINGS:
        if grouping == "chain" and len(evaluation.chains) > 1:
            for number, chains in enumerate(evaluation.chains, 1):
                _print_groups(f"chain of {asked} {number}", chains.groups)
        else:
            _print_groups(grouping, evaluation.by(grouping))
    if evaluation.trees:
        trees: list[tuple[str, ...]] = [
            (title, *_shares(evaluation.trees[key])) for key, title in _TREES.items() if key in evaluation.trees
        ]
        trees.append(("average depth", f"{evaluation.trees['depth'].value:.2f}", "", ""))
        terminal.out.print(terminal.table(None, ["trees", "", "from", "to"], trees))
    for name, values in evaluation.measures.items():
        print_measure(name, values)
    for note in evaluation.notes:
        terminal.out.print(terminal.plain(note))


def _print_verdicts(evaluation: Evaluation, asked: str, *, verbose: bool) -> None:
    """What the answers show, in words: first, since that is what a reader came for."""
    for number, depth in enumerate(evaluation.depths, 1):
        model = f"On {asked} {number} the model" if len(evaluation.depths) > 1 else "The model"
        terminal.out.print(f"{model} {terminal.plain(depth, lines=True)}")
        if verbose:
            terminal.out.print(terminal.plain(depth.details))
    for number, chains in enumerate(evaluation.chains, 1):
        if chains.slope is None:
            continue
        where = f"On {asked} {number}, " if len(evaluation.chains) > 1 else ""
        terminal.out.print(f"{where}{terminal.plain(chains.sentence)}")
        if verbose:
            terminal.out.print(terminal.plain(chains.details))


def _print_groups(grouping: str, groups: Sequence[Group]) -> None:
    if len(groups) > 1:
        rows = [
            (group.name, f"{group.accuracy:.2%}", *(f"{bound:.2%}" for bound in group.interval),
             f"{group.unparsed:,}", f"{group.rows:,}")
            for group in groups
        ]  # fmt: skip
        terminal.out.print(terminal.table(None, [grouping, "right", "from", "to", "unparsed", "examples"], rows))


def _print_ladder(evaluation: Evaluation) -> None:
    """The baselines from the lowest to the highest accuracy, and the model among them."""
    assert evaluation.ladder is not None
    known = [
        (rung.accuracy, rung.name, rung.sees) for rung in evaluation.ladder.rungs if rung.accuracy == rung.accuracy
    ]
    known.append((evaluation.accuracy.value, "-> this model", ""))
    rows = [(name, sees, f"{value:.2%}") for value, name, sees in sorted(known, key=lambda row: row[0])]
    title = f"\nbaselines that see only part of the input, learnt from {terminal.plain(evaluation.ladder.learnt_from)}"
    terminal.out.print(terminal.table(title, ["what is seen", "", "right"], rows, left=2))


def print_measure(name: str, values: Mapping[str, Any]) -> None:
    """The values of one measure as a table; what has no value is left out."""
    rows = [(key.replace("_", " "), value_text(value)) for key, value in values.items() if value not in (None, [], {})]
    rows = rows or [("value", "none")]
    terminal.out.print(terminal.table(f"\n{terminal.plain(name)}", ("", ""), rows, left=2))


def value_text(value: Any) -> str:
    """A value of a measure in one line."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {value_text(part)}" for key, part in value.items())
    return ", ".join(map(value_text, value)) if isinstance(value, (tuple, list)) else str(value)


def _shares(score: Any) -> tuple[str, str, str]:
    return f"{score.value:.2%}", f"{score.interval[0]:.2%}", f"{score.interval[1]:.2%}"
