"""`pomona parse`: the tree that a model chose, beside the gold tree."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pomona.cli import terminal
from pomona.cli.options import AsJson, Import, Weights

GROUP = "models"


def parse(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    text: Annotated[str, typer.Argument(help='A sequence, for example "[MAX 2 9 [MIN 4 7 ] 0 ]".')],
    weights: Weights = "best",
    imports: Import = None,
    as_json: AsJson = False,
) -> None:
    """Draw the tree that a model built over a sequence, and the gold tree (Figure 2 of the ListOps paper).

    Example: [bold]pomona parse runs/gumbel "[MAX 2 9 [MIN 4 7 ] 0 ]"[/bold]
    """
    from pomona.data.task import corpus_of_trees
    from pomona.evaluation.parse_f1 import parse_f1
    from pomona.training.run import Run
    from pomona.trees import brackets
    from pomona.trees.binary import binarise
    from pomona.trees.drawing import draw

    trained = Run.read(run)
    corpus = corpus_of_trees(brackets.read(text))
    gold = binarise(corpus.forest)

    from pomona.training.checkpoints import model_of
    from pomona.training.predict import predict

    predictions = predict(trained, corpus, which=weights)
    answer, truth = predictions.outcomes[int(predictions.answers[0])], corpus[0].target[0]
    chosen = None if predictions.trees is None else brackets.write(predictions.trees)[0]
    agreement = None
    if predictions.trees is not None and corpus.lengths[0] > 1:
        agreement = parse_f1(predictions.trees, gold, resamples=1).value
    if as_json:
        terminal.emit_json(
            {"text": text, "answer": answer, "truth": truth, "tree": chosen, "gold": brackets.write(gold)[0],
             "f1": agreement, "given": model_of(trained.recipe).given_trees}
        )  # fmt: skip
        return
    terminal.out.print(f"truth {terminal.plain(truth)}, {terminal.plain(trained.recipe.model)} says "
                       f"[bold]{terminal.plain(answer)}[/bold]")  # fmt: skip
    if predictions.trees is None or chosen is None:
        terminal.out.print(f"{terminal.plain(trained.recipe.model)} builds no tree; the gold one is")
        terminal.out.print(terminal.plain(draw(gold), lines=True))
        return
    if agreement is not None:
        terminal.out.print(f"F1 of the two trees {agreement:.1%}")
    mine, theirs = draw(predictions.trees).splitlines(), draw(gold).splitlines()
    model = model_of(trained.recipe)
    how = "given" if model.given_trees else "chosen"
    if model.given_trees:
        terminal.out.print(f"{terminal.plain(trained.recipe.model)} is given the gold tree; it chooses none")
    width = max(map(len, [*mine, how])) + 4
    terminal.out.print(f"[bold]{how:<{width}}gold[/bold]")
    for place in range(max(len(mine), len(theirs))):
        left = mine[place] if place < len(mine) else ""
        right = theirs[place] if place < len(theirs) else ""
        terminal.out.print(terminal.plain(f"{left:<{width}}{right}"))
