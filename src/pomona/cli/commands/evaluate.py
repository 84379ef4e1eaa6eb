"""`pomona evaluate`: accuracy and more of a model on a corpus: a run, a file of answers or code of your own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pomona.cli import terminal
from pomona.cli.commands import task_names

if TYPE_CHECKING:
    from pomona.evaluation.evaluation import Evaluation
    from pomona.training.run import Run


def evaluate(
    model: Annotated[
        str,
        typer.Argument(
            help="A run's folder, a file of answers, or package.module:thing (which is imported, so its code runs).",
            show_default=False,
        ),
    ] = "",
    data: Annotated[
        str,
        typer.Option(help="A file or a task, for example listops/d20s.", autocompletion=task_names),
    ] = "",
    split: Annotated[str, typer.Option(help="Which split of a task.")] = "test",
    seed: Annotated[int, typer.Option(help="Random seed of a task's data.")] = 0,
    size: Annotated[int | None, typer.Option(help="Use only the first N examples.", min=1)] = None,
    predictions: Annotated[
        Path | None, typer.Option(help='Answers as JSON lines: {"id", "prediction"}, optionally with "tree".')
    ] = None,
    train: Annotated[
        str, typer.Option(help="What baselines learn from: a file or task; by default the task's train split.")
    ] = "",
    train_depth: Annotated[
        int | None, typer.Option(help="Depth of the deepest training trees: is the model better beyond it?")
    ] = None,
    ladder: Annotated[bool, typer.Option(help="Baselines that see part of the input, and effective depth.")] = True,
    measures: Annotated[
        list[str] | None,
        typer.Option(
            "--measure",
            help="A further measure (pomona ls measures), for example topsim or topsim:method=kendall; repeatable.",
        ),
    ] = None,
    weights: Annotated[str, typer.Option(help="Of a run: best or last.")] = "best",
    name: Annotated[str, typer.Option(help="Keep predictions and scores in the run under this name.")] = "",
    save: Annotated[
        Path | None, typer.Option("--save-answers", help="Write the answers here, to evaluate or compare them again.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A setting of the task, for example branching=0.3; repeatable.")
    ] = None,
    modules: Annotated[
        list[str] | None,
        typer.Option("--import", help="A module of yours with the run's model or a measure; its code runs."),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Also the tests behind the effective depth.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")] = False,
) -> None:
    """Accuracy with intervals, overall and by length, depth, operator and arity, beside simple baselines.

    For answers that come with trees, parse F1 as well; answers that cannot be read are counted apart from wrong ones.

    Example: [bold]pomona evaluate --data listops/d20s --split test --predictions answers.jsonl[/bold]
    or [bold]pomona evaluate runs/tree --data test.tsv --measure topsim[/bold]
    """
    from pomona.base.registry import parse_settings
    from pomona.data.answers import write_answers
    from pomona.data.sources import corpus_from
    from pomona.evaluation.measure import from_text, with_measures
    from pomona.evaluation.subjects import Reading, answer, evaluate_answered

    if bool(model) == (predictions is not None):
        raise typer.BadParameter("give either a model or --predictions, and not both", param_hint="MODEL")
    if not data:
        raise typer.BadParameter("say what to evaluate on: a file, or a task's name", param_hint="--data")
    given = model or str(predictions)
    subject = subject_of(given, modules or [])
    for text in measures or []:
        from_text(text)  # a measure that does not exist is an error before the work, not after it
    if name:
        _check_name(subject, name, given)
    corpus = corpus_from(data, split=split, seed=seed, settings=parse_settings(settings or []))[:size]
    answered = answer(subject, corpus, Path(given).name, Reading(which=weights))
    learn_from = corpus_from(train, split="train", seed=seed) if train and ladder else None
    evaluation = evaluate_answered(answered, corpus, ladders=ladder, train=learn_from, train_depth=train_depth)
    evaluation = with_measures(evaluation, measures or [])
    if name:
        from pomona.evaluation.records import keep

        assert answered.run is not None
        assert answered.predictions is not None
        keep(answered.run, name, answered.predictions, evaluation)
    if save is not None:
        write_answers(corpus, answered.answers, save)
    if as_json:
        terminal.emit_json(evaluation.as_dict())
        return
    _print(evaluation, verbose=verbose)
    if save is not None:
        terminal.out.print(f"\nWrote {terminal.plain(save)}")


def subject_of(model: str, modules: list[str]) -> Any:
    """A run's folder as a Run; anything else as it stands. Modules of the user's own are imported first."""
    from pomona.base.files import kind_of
    from pomona.base.registry import imported

    if kind_of(model) == "folder":
        return run_at(Path(model), modules)
    for module in modules:
        imported(f"{module}:")
    return model


def run_at(folder: Path, modules: list[str]) -> Run:
    """The run in a folder; its model may live in modules of the user's own, which are imported first."""
    from pomona.training.run import Run

    if modules:
        from pomona.models.model import MODELS

        for module in modules:
            MODELS.trust(module)
    return Run.read(folder)


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
    from pomona.evaluation.evaluation import GROUPINGS

    low, high = evaluation.accuracy.interval
    terminal.out.print(f"{terminal.plain(evaluation.name)} on {terminal.plain(repr(evaluation.corpus))}")
    terminal.out.print(
        f"[bold]{evaluation.accuracy.value:.2%}[/bold] right ({low:.2%} to {high:.2%}): "
        f"{int(evaluation.right.sum()):,} right, {evaluation.wrong:,} wrong, {evaluation.unparsed:,} unparsed of "
        f"{len(evaluation):,}"
    )
    asked = "tree" if len(evaluation.questions) == evaluation.corpus.width else "answer"
    if len(evaluation.questions) > 1:
        each = [(f"{asked} {number}", *_shares(score)) for number, score in enumerate(evaluation.questions, 1)]
        terminal.out.print(terminal.table(None, ["question", "right", "from", "to"], each))
    for grouping in GROUPINGS:
        _print_groups(evaluation, grouping)
    if evaluation.trees:
        trees: list[tuple[str, ...]] = [
            (title, *_shares(evaluation.trees[key])) for key, title in _TREES.items() if key in evaluation.trees
        ]
        trees.append(("average depth", f"{evaluation.trees['depth'].value:.2f}", "", ""))
        terminal.out.print(terminal.table(None, ["trees", "", "from", "to"], trees))
    if evaluation.ladder is not None:
        _print_ladder(evaluation)
    for number, depth in enumerate(evaluation.depths, 1):
        model = f"On {asked} {number} the model" if len(evaluation.depths) > 1 else "The model"
        terminal.out.print(f"\n{model} {terminal.plain(depth, lines=True)}")
        if verbose:
            terminal.out.print(terminal.plain(depth.details))
    for name, values in evaluation.measures.items():
        print_measure(name, values)
    for note in evaluation.notes:
        terminal.out.print(terminal.plain(note))


def _print_groups(evaluation: Evaluation, grouping: str) -> None:
    groups = evaluation.by(grouping)
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
