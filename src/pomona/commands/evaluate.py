"""`pomona evaluate`: what a trained run scores on a corpus."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pomona import terminal


def evaluate(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    data: Annotated[str, typer.Option(help="A file, or a task's name.")],
    split: Annotated[str, typer.Option(help="Which split of a task.")] = "test",
    seed: Annotated[int, typer.Option(help="Which draw of a task.")] = 0,
    weights: Annotated[str, typer.Option(help="best or last.")] = "best",
    name: Annotated[str, typer.Option(help="Keep predictions and scores in the run under this name.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Accuracy with its interval, by length and nesting depth; for models that parse, F1 of their trees as well.

    Example: [bold]pomona evaluate runs/tree --data listops/d20s --split test[/bold]
    """
    from pomona.runs import Run
    from pomona.scoring import scores_of
    from pomona.sources import corpus_from

    trained = Run.read(run)
    corpus = corpus_from(data, split=split, seed=seed)

    from pomona.training import predict

    predictions = predict(trained, corpus, which=weights)
    scores = scores_of(corpus, predictions)
    if name:
        trained.add_predictions(name, predictions)
        trained.add_scores(name, scores)
    if as_json:
        terminal.emit_json(scores)
        return
    low, high = scores["interval"]
    terminal.out.print(
        f"[bold]{scores['accuracy']:.2%}[/bold] right ({low:.2%} to {high:.2%}) of {scores['rows']:,} examples"
    )
    for title, key in (("length", "by_length"), ("nesting", "by_nesting")):
        rows = [(group, f"{share:.2%}", f"{count:,}") for group, (share, count) in scores[key].items()]
        terminal.out.print(terminal.table(None, [title, "right", "examples"], rows))
    if "f1_gold" in scores:
        trees = [(what, f"{scores[key]:.2%}") for what, key in _TREES]
        trees.append(("average depth", f"{scores['depth']:.2f}"))
        terminal.out.print(terminal.table(None, ["trees", ""], trees))


_TREES = (
    ("F1 with gold", "f1_gold"),
    ("the same without the root", "f1_gold_without_root"),
    ("F1 with left-branching", "f1_left"),
    ("F1 with right-branching", "f1_right"),
    ("lists closed as a unit", "list_recall"),
)
