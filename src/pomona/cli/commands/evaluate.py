"""`pomona evaluate`: what a model scores on a corpus, be it a run, a file of answers or code of your own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pomona.cli import terminal
from pomona.cli.commands import task_names

if TYPE_CHECKING:
    from pomona.data.corpus import Corpus
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
        str, typer.Option(help="A file, or a task's name, as listops/d20s.", autocompletion=task_names)
    ] = "",
    split: Annotated[str, typer.Option(help="Which split of a task.")] = "test",
    seed: Annotated[int, typer.Option(help="Which draw of a task.")] = 0,
    size: Annotated[int | None, typer.Option(help="At most so many examples, the first ones.", min=1)] = None,
    predictions: Annotated[
        Path | None, typer.Option(help='Answers as JSON lines, {"id", "prediction"} and perhaps "tree".')
    ] = None,
    train: Annotated[
        str, typer.Option(help="What the ladder learns from: a file or task; else the task's train split.")
    ] = "",
    train_depth: Annotated[
        int | None, typer.Option(help="The deepest trees that the model was trained on: is there more beyond?")
    ] = None,
    ladder: Annotated[bool, typer.Option(help="The shortcut ladder and the effective depth beside the score.")] = True,
    weights: Annotated[str, typer.Option(help="Of a run: best or last.")] = "best",
    name: Annotated[str, typer.Option(help="Keep predictions and scores in the run under this name.")] = "",
    save: Annotated[
        Path | None, typer.Option("--save-answers", help="Write the answers here, to evaluate or compare them again.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A setting of the task, as branching=0.3; may repeat.")
    ] = None,
    modules: Annotated[
        list[str] | None,
        typer.Option("--import", help="A module of yours that the run's model lives in; its code runs."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Accuracy with intervals, overall and by length, depth, operator and arity, beside what cheap information scores.

    For answers that come with trees, parse F1 as well; answers that cannot be read are counted apart from wrong ones.

    Example: [bold]pomona evaluate --data listops/d20s --split test --predictions answers.jsonl[/bold]
    or [bold]pomona evaluate runs/tree --data test.tsv[/bold]
    """
    from pomona.base.registry import parse_settings
    from pomona.data.answers import write_answers
    from pomona.data.sources import corpus_from, training_for
    from pomona.evaluation.evaluation import evaluated
    from pomona.evaluation.subjects import answers_of

    if bool(model) == (predictions is not None):
        raise typer.BadParameter("give either a model or --predictions, and not both", param_hint="MODEL")
    if not data:
        raise typer.BadParameter("say what to evaluate on: a file, or a task's name", param_hint="--data")
    corpus = corpus_from(data, split=split, seed=seed, settings=parse_settings(settings or []))[:size]
    subject = subject_of(model or str(predictions), modules or [])
    if name:
        answers = _kept(subject, corpus, name, weights, model)
    else:
        answers = answers_of(subject, corpus, which=weights, name=Path(model or str(predictions)).name)
    learn = None
    if ladder:
        learn = corpus_from(train, split="train", seed=seed) if train else training_for(corpus)
    found = evaluated(corpus, answers, train=learn, ladders=ladder, train_depth=train_depth)
    if save is not None:
        write_answers(corpus, answers, save)
    if as_json:
        terminal.emit_json(found.as_dict())
        return
    _print(found)
    if save is not None:
        terminal.out.print(f"\nWrote {terminal.plain(save)}")


def subject_of(model: str, modules: list[str]) -> Any:
    """A run's folder as a Run; anything else as it stands."""
    from pomona.base.files import kind_of

    return run_at(Path(model), modules) if kind_of(model) == "folder" else model


def run_at(folder: Path, modules: list[str]) -> Run:
    """The run in a folder; its model may live in modules of the user's own, which are imported first."""
    from pomona.training.run import Run

    if modules:
        from pomona.models.model import MODELS

        for module in modules:
            MODELS.trust(module)
    return Run.read(folder)


def _kept(subject: Any, corpus: Corpus, name: str, weights: str, model: str) -> Any:
    """The answers of a run, which keeps its predictions and scores."""
    from pomona.base.errors import RunError
    from pomona.evaluation.scoring import scores_of
    from pomona.evaluation.subjects import of_predictions
    from pomona.training.run import Run

    if not isinstance(subject, Run):
        raise RunError(f"--name keeps scores in a run's folder, and {model!r} is none; --save-answers writes a file")

    subject.predictions_at(name)  # a name that cannot be kept is said before the work, not after it
    from pomona.training.predict import predict

    predictions = predict(subject, corpus, which=weights)
    subject.add_predictions(name, predictions)
    subject.add_scores(name, scores_of(corpus, predictions))
    return of_predictions(predictions, corpus, Path(model).name)


# -- for people --------------------------------------------------------------------------------------------------------

_TREES = {
    "f1_gold": "F1 with gold",
    "f1_gold_without_root": "the same without the root",
    "f1_left": "F1 with left-branching",
    "f1_right": "F1 with right-branching",
    "list_recall": "lists closed as a unit",
}


def _print(found: Evaluation) -> None:
    from pomona.evaluation.evaluation import GROUPINGS

    low, high = found.accuracy.interval
    terminal.out.print(f"{terminal.plain(found.name)} on {terminal.plain(repr(found.corpus))}")
    terminal.out.print(
        f"[bold]{found.accuracy.value:.2%}[/bold] right ({low:.2%} to {high:.2%}): {int(found.right.sum()):,} right, "
        f"{found.wrong:,} wrong, {found.unparsed:,} unparsed of {len(found):,}"
    )
    asked = "tree" if len(found.questions) == found.corpus.width else "answer"
    if len(found.questions) > 1:
        each = [(f"{asked} {place + 1}", *_shares(one)) for place, one in enumerate(found.questions)]
        terminal.out.print(terminal.table(None, ["question", "right", "from", "to"], each))
    for what in GROUPINGS:
        groups = found.by(what)
        if len(groups) > 1:
            rows = [
                (one.name, f"{one.accuracy:.2%}", *(f"{bound:.2%}" for bound in one.interval), f"{one.unparsed:,}",
                 f"{one.rows:,}")
                for one in groups
            ]  # fmt: skip
            terminal.out.print(terminal.table(None, [what, "right", "from", "to", "unparsed", "examples"], rows))
    if found.trees:
        trees: list[tuple[str, ...]] = [
            (title, *_shares(found.trees[key])) for key, title in _TREES.items() if key in found.trees
        ]
        trees.append(("average depth", f"{found.trees['depth'].value:.2f}", "", ""))
        terminal.out.print(terminal.table(None, ["trees", "", "from", "to"], trees))
    if found.ladder is not None:
        _print_ladder(found)
    for place, depth in enumerate(found.depths):
        which = f"{asked} {place + 1}: " if len(found.depths) > 1 else ""
        terminal.out.print(f"\n{which}{terminal.plain(depth, lines=True)}")
    for note in found.notes:
        terminal.out.print(terminal.plain(note))


def _print_ladder(found: Evaluation) -> None:
    """The rungs, and between them, at its own height, the model."""
    assert found.ladder is not None
    known = [(rung.accuracy, rung.name, rung.sees) for rung in found.ladder.rungs if rung.accuracy == rung.accuracy]
    known.append((found.accuracy.value, "-> this model", ""))
    rows = [(name, sees, f"{value:.2%}") for value, name, sees in sorted(known, key=lambda one: one[0])]
    title = f"\nbeside what cheap information scores, learnt from {terminal.plain(found.ladder.learnt_from)}"
    terminal.out.print(terminal.table(title, ["what is seen", "", "right"], rows, left=2))


def _shares(score: Any) -> tuple[str, str, str]:
    return f"{score.value:.2%}", f"{score.interval[0]:.2%}", f"{score.interval[1]:.2%}"
