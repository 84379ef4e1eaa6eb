"""`pomona ladder`: what cheap information scores on a corpus, and where a model's predictions stand on it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pomona.cli import terminal
from pomona.cli.commands import task_names

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from pomona.data.corpus import Corpus
    from pomona.shortcuts.effective_depth import EffectiveDepth
    from pomona.shortcuts.ladder import Ladder


def ladder(
    source: Annotated[
        str, typer.Argument(help="A file, or a task's name, as orchard/hard/min-max.", autocompletion=task_names)
    ],
    split: Annotated[str, typer.Option(help="Which split of a task.")] = "test",
    seed: Annotated[int, typer.Option(help="Which draw of a task.")] = 0,
    size: Annotated[int, typer.Option(help="At most so many examples.", min=2)] = 10_000,
    train: Annotated[
        str, typer.Option(help="A file or task to learn from; else the task's train split, or half of the file.")
    ] = "",
    levels: Annotated[int, typer.Option(help="Truncated evaluators open up to so many levels.", min=0, max=40)] = 8,
    predictions: Annotated[
        Path | None, typer.Option(help="A model's answers, by id or one a line: its rung, and its effective depth.")
    ] = None,
    train_depth: Annotated[
        int | None, typer.Option(help="With --predictions: the deepest trees that the model was trained on.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A setting of the task, as copies=digits; may repeat.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Also draw the ladder to this PNG, SVG or PDF file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """What can be scored from nothing, from counts, from the top k levels: the ladder to read a model's score on.

    Example: [bold]pomona ladder orchard/hard/min-max --split test-12[/bold]
    """
    from pomona.base.errors import MeasureError
    from pomona.base.registry import parse_settings
    from pomona.data.sources import corpus_from
    from pomona.evaluation.baselines import Baselines, learning_examples
    from pomona.shortcuts.ladder import ladder as make

    chosen = parse_settings(settings or [])
    whole = corpus_from(source, split=split, seed=seed, size=None, settings=chosen)
    corpus = whole[:size]
    learn = corpus_from(train, split="train", seed=seed) if train else learning_examples(corpus)
    made = make(corpus, learn, levels=levels)
    depths: tuple[EffectiveDepth, ...] = ()
    notes: list[str] = []
    if predictions is not None:
        given = _answers(corpus, predictions, len(whole))
        made = _with_model(made, corpus, given, predictions.name)
        try:
            depths = Baselines(corpus, learn, train_depth).depths(given)
        except MeasureError as error:
            notes.append(f"No effective depth: {error}.")
    questions = made.rungs[0].right.shape[1]
    asked = "tree" if questions == corpus.width else "answer"
    if plot is not None:
        _draw(made, plot, asked)
    if as_json:
        found = {**made.as_dict(), "effective_depth": [one.as_dict() for one in depths], "notes": notes}
        terminal.emit_json(found)
        return
    columns = [f"{asked} {number + 1}" for number in range(questions)] if questions > 1 else []
    rows = [
        (
            rung.name,
            _bar(rung.accuracy if questions == 1 or rung.accuracy == rung.accuracy else rung.per_question[-1]),
            rung.sees,
            *([_percent(one) for one in rung.per_question] if questions > 1 else []),
            _percent(rung.accuracy),
            _percent(rung.error),
        )
        for rung in made.rungs
    ]
    title = f"{made.corpus}, learnt from {made.learnt_from}"
    headings = ["what is seen", "", "", *columns, "all" if questions > 1 else "accuracy", "±"]
    terminal.out.print(terminal.table(terminal.plain(title), headings, rows, left=3))
    for number, one in enumerate(depths):
        name = f"{asked} {number + 1}: " if len(depths) > 1 else ""
        terminal.out.print(f"\n{name}{terminal.plain(one)}")
    for note in notes:
        terminal.out.print(f"\n{terminal.plain(note)}")
    if plot is not None:
        terminal.out.print(f"\nWrote {terminal.plain(plot)}")


def _with_model(made: Ladder, corpus: Corpus, given: npt.NDArray[np.int64], name: str) -> Ladder:
    """The ladder with one more rung: the model."""
    import dataclasses

    from pomona.data.answers import asked
    from pomona.shortcuts.lookups import Rung

    rung = Rung(f"predictions ({name})", "the model", (given == asked(corpus)).astype(float), given)
    return dataclasses.replace(made, rungs=(*made.rungs, rung))


def _answers(corpus: Corpus, path: Path, whole: int) -> npt.NDArray[np.int64]:
    """A file of answers by id, as `pomona evaluate` reads, or plain lines for the examples or for the `whole` file."""
    from pomona.base.errors import FormatError
    from pomona.data.answers import answers_given, read_answers, text_of

    text = text_of(path)
    if path.suffix.lower() in (".csv", ".tsv", ".json", ".jsonl") or text.lstrip().startswith(("{", "[")):
        return read_answers(path, corpus).given
    lines = text.removesuffix("\n").split("\n")
    if len(lines) not in (len(corpus), whole):
        message = f"{len(lines):,} lines for {len(corpus):,} examples; a file of predictions has one line an example"
        raise FormatError(message, path=path)
    return answers_given(corpus, lines[: len(corpus)])


def _percent(value: float) -> str:
    return "-" if value != value else f"{100 * value:.1f}"


def _bar(value: float, width: int = 20) -> str:
    """A bar of eighths of a block.

    >>> _bar(0.5, 4)
    '██'
    """
    if value != value:
        return ""
    eighths = round(8 * width * value)
    return "█" * (eighths // 8) + ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")[eighths % 8]


def _draw(made: Ladder, path: Path, asked: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import numpy as np

    from pomona.base.errors import FormatError
    from pomona.base.files import replacing

    kind = path.suffix.removeprefix(".").lower()
    if kind not in ("png", "svg", "pdf"):
        raise FormatError("a plot ends in .png, .svg or .pdf", path=path)
    rungs = list(reversed(made.rungs))
    questions = rungs[0].right.shape[1]
    figure, axes = plt.subplots(figsize=(7, 0.6 + 0.26 * len(rungs)), layout="constrained")
    places = np.arange(len(rungs))
    colours = ("#f58518", "#54a24b", "#e45756", "#72b7b2")
    whole = [0.0 if rung.accuracy != rung.accuracy else 100 * rung.accuracy for rung in rungs]
    axes.barh(places, whole, color="#4c78a8", height=0.7, label=f"all {asked}s" if questions > 1 else None)
    for number in range(questions if questions > 1 else 0):
        marks = [100 * rung.per_question[number] for rung in rungs]
        axes.plot(
            marks,
            places,
            linestyle="",
            marker="o^sd"[number % 4],
            markersize=4,
            color=colours[number % 4],
            label=f"{asked} {number + 1}",
        )
    axes.set(yticks=places, yticklabels=[rung.name for rung in rungs], xlim=(0, 100), xlabel="accuracy, %")
    axes.set_title(made.corpus.replace("$", r"\$"), fontsize=9)
    axes.tick_params(axis="y", labelsize=8, length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    if questions > 1:
        axes.legend(frameon=False, fontsize=8, loc="upper right")
    with replacing(path) as beside:
        figure.savefig(beside, format=kind, dpi=160)
    plt.close(figure)
