"""`pomona ladder`: baselines that see only part of the input, and a model's predictions among them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pomona.cli import terminal
from pomona.cli.options import (
    AsJson,
    DataSeed,
    Import,
    Plot,
    Predictions,
    Settings,
    Size,
    Source,
    Split,
    Train,
    TrainDepth,
    Workers,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from pomona.data.corpus import Corpus
    from pomona.data.shards.folder import Shards
    from pomona.shortcuts.effective_depth import EffectiveDepth
    from pomona.shortcuts.ladder import Ladder

GROUP = "proofs"
IN_MEMORY = 100_000  # rows of shards that are read as one corpus


def ladder(
    source: Source,
    split: Split = "",
    data_seed: DataSeed = None,
    size: Size = 10_000,
    train: Train = "",
    levels: Annotated[
        int, typer.Option(help="How many levels of a tree the largest truncated evaluator sees.", min=0, max=40)
    ] = 8,
    predictions: Predictions = None,
    train_depth: TrainDepth = None,
    settings: Settings = None,
    plot: Plot = None,
    workers: Workers = None,
    imports: Import = None,
    as_json: AsJson = False,
) -> None:
    """The ladder: accuracy of baselines that see only part of the input. Compare a model with them.

    The rungs go from always the same answer over counts of tokens to evaluators that see the top k levels of a tree.
    Baselines learn from the task's train split, or from one half of a file that names no task. --predictions, answers
    by id or one for each line, adds a model's accuracy and its effective depth.

    Example: [bold]pomona ladder orchard/hard/min-max --split test-12[/bold]
    """
    from pomona.base.errors import MeasureError
    from pomona.base.registry import parse_settings
    from pomona.base.workers import workers as crew_of
    from pomona.cli.commands.evaluate import learning_source
    from pomona.data.formats import parquet
    from pomona.data.shards.folder import Shards
    from pomona.data.sources import corpus_from, shards_of
    from pomona.evaluation.baselines import Baselines, learning_examples
    from pomona.shortcuts.ladder import ladder as make

    chosen = parse_settings(settings or [])
    shards = shards_of(source, split) if data_seed is None and not chosen else None
    if shards is not None and IN_MEMORY < len(shards) <= (size or len(shards)) and predictions is None:
        made = _of_shards(shards, train, levels, workers, imports or [])
        asked = "tree" if made.rungs[0].right.shape[1] == parquet.said(shards.files[0].path)["width"] else "answer"
        _show(made, asked, list(made.notes), (), plot, as_json=as_json)
        return
    most = size if shards is not None and predictions is None else None  # of shards no more than is needed
    whole = corpus_from(source, split=split, seed=data_seed, size=most, settings=chosen)
    corpus = whole[:size]
    taught = shards_of(train, "train") if train else None
    with crew_of("local", 1 if taught is None else workers, modules=imports or []) as crew:
        learn = taught or (learning_source(train, data_seed) if train else learning_examples(corpus))
        made = make(corpus, learn, levels=levels, crew=crew)
    depths: tuple[EffectiveDepth, ...] = ()
    notes = list(made.notes)
    if predictions is not None:
        given = _answers(corpus, predictions, len(whole))
        made = _with_model(made, corpus, given, predictions.name)
        try:
            if isinstance(learn, Shards):
                raise MeasureError("its evaluators learn from a training set in one piece, and --train is in shards")
            depths = Baselines(corpus, learn, train_depth).depths(given)
        except MeasureError as error:
            notes.append(f"No effective depth: {error}.")
    questions = made.rungs[0].right.shape[1]
    _show(made, "tree" if questions == corpus.width else "answer", notes, depths, plot, as_json=as_json)


def _of_shards(shards: Shards, train: str, levels: int, workers: int | None, modules: list[str]) -> Ladder:
    """The ladder of a whole split in shards."""
    from pomona.base.workers import workers as crew_of
    from pomona.cli.commands.evaluate import learning_source
    from pomona.data.sources import shards_of
    from pomona.evaluation.baselines import learning_examples
    from pomona.shortcuts.ladder import ladder as make

    with crew_of("local", workers, modules=modules) as crew:
        learn = shards_of(train, "train") or learning_source(train, None) if train else learning_examples(shards)
        return make(shards, learn, levels=levels, crew=crew)


def _show(
    made: Ladder, asked: str, notes: list[str], depths: tuple[EffectiveDepth, ...], plot: Path | None, *, as_json: bool
) -> None:
    """Print the ladder, and draw it."""
    if plot is not None:
        _draw(made, plot, asked)
    if as_json:
        found = {**made.as_dict(), "effective_depth": [one.as_dict() for one in depths], "notes": notes}
        terminal.emit_json(found)
        return
    _print(made, asked)
    for number, one in enumerate(depths):
        model = f"On {asked} {number + 1} the model" if len(depths) > 1 else "The model"
        terminal.out.print(f"\n{model} {terminal.plain(one, lines=True)}")
    for note in notes:
        terminal.out.print(f"\n{terminal.plain(note)}")
    if plot is not None:
        terminal.out.print(f"\nWrote {terminal.plain(plot)}")


def _with_model(made: Ladder, corpus: Corpus, given: npt.NDArray[np.int64], name: str) -> Ladder:
    """The ladder with the model as one more rung."""
    import dataclasses

    from pomona.data.answers import asked
    from pomona.shortcuts.lookups import Rung

    rung = Rung(f"predictions ({name})", "the model", (given == asked(corpus)).astype(float), given)
    return dataclasses.replace(made, rungs=(*made.rungs, rung))


def _answers(corpus: Corpus, path: Path, whole: int) -> npt.NDArray[np.int64]:
    """Answers by id, in a file that `pomona evaluate` reads, or one per line for the examples or the `whole` file."""
    from pomona.base.errors import FormatError
    from pomona.base.files import read_text
    from pomona.data.answers import answers_given, read_answers

    text = read_text(path)
    if path.suffix.lower() in (".csv", ".tsv", ".json", ".jsonl") or text.lstrip().startswith(("{", "[")):
        return read_answers(path, corpus).given
    lines = text.removesuffix("\n").split("\n")
    if len(lines) not in (len(corpus), whole):
        message = f"{len(lines):,} lines for {len(corpus):,} examples; a file of predictions has one line an example"
        raise FormatError(message, path=path)
    return answers_given(corpus, lines[: len(corpus)])


def _print(ladder: Ladder, asked: str) -> None:
    """The rungs as a table, with a column for each question if there are several."""
    questions = ladder.rungs[0].right.shape[1]
    columns = [f"{asked} {number + 1}" for number in range(questions)] if questions > 1 else []
    rows = [
        (
            rung.name,
            _bar(rung.accuracy if questions == 1 or rung.accuracy == rung.accuracy else rung.per_question[-1]),
            rung.sees,
            *([_percent(share) for share in rung.per_question] if questions > 1 else []),
            _percent(rung.accuracy),
            _percent(rung.error),
        )
        for rung in ladder.rungs
    ]
    title = f"{ladder.corpus}, learnt from {ladder.learnt_from}"
    headings = ["what is seen", "", "", *columns, "all" if questions > 1 else "accuracy", "±"]
    terminal.out.print(terminal.table(terminal.plain(title), headings, rows, left=3))


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


def _draw(ladder: Ladder, path: Path, asked: str) -> None:
    """A bar for each rung; where there are several questions, a mark for each of them too."""
    from pomona.base.plots import COLOURS, Drawing, percent

    questions = ladder.rungs[0].right.shape[1]
    names = [f"{asked} {number + 1}" for number in range(questions)] if questions > 1 else []
    scale = {"scale": {"domain": [0, 1]}}
    rung_axis = {"field": "rung", "type": "nominal", "sort": None, "title": None, "axis": {"labelLimit": 300}}
    bars = [
        {"rung": rung.name, "accuracy": 0.0 if rung.accuracy != rung.accuracy else rung.accuracy}
        for rung in ladder.rungs
    ]
    marks = [
        {"rung": rung.name, "accuracy": float(share), "question": name}
        for rung in ladder.rungs
        for name, share in zip(names, rung.per_question, strict=False)
    ]
    encoding = {"x": percent("accuracy", f"accuracy, all {asked}s" if names else "accuracy", **scale), "y": rung_axis}
    named = {"field": "question", "title": None}
    colour = {**named, "scale": {"domain": names, "range": COLOURS[1 : 1 + questions]}}
    layers: list[dict[str, Any]] = [
        {"data": {"values": bars}, "mark": {"type": "bar", "color": COLOURS[0]}, "encoding": encoding}
    ]
    if names:
        points = {"type": "point", "filled": True, "size": 40, "opacity": 1}
        shape = {**named, "scale": {"domain": names}}
        layers.append(
            {"data": {"values": marks}, "mark": points, "encoding": {**encoding, "color": colour, "shape": shape}}
        )
    Drawing({"title": ladder.corpus, "height": 20 * len(bars), "layer": layers}).save(path)
