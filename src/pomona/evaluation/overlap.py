"""Was the test trained on? The examples of a corpus that a run has seen in training.

    seen = overlap(run, test)
    seen.rows                    positions of the examples that were trained on
    seen.unknown                 why that could not be told, for example because the training file is gone; else empty
    refuse_overlap(seen, ...)    an error that names the first of them; `evaluate` calls it for every run

The training examples are read or generated again from the run's recipe, and compared by their content keys. Where the
task itself keeps its splits apart, as with the splits of one draw, there is nothing to compare.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pomona.base.arrays import Ints
from pomona.base.errors import PomonaError, RunError
from pomona.data.corpus import Corpus
from pomona.data.row_checks import line_of
from pomona.data.sources import source_kind
from pomona.data.task import TASKS
from pomona.evaluation.evaluation import Evaluation
from pomona.training.data import training_corpus
from pomona.training.recipe import Recipe
from pomona.training.run import Run

SHOWN = 8  # lines that an error names


@dataclass(frozen=True, eq=False)
class Overlap:
    """The rows of a corpus that a run was trained on, out of how many training examples."""

    rows: Ints
    trained: int = 0
    unknown: str = ""


NONE = np.zeros(0, np.int64)


def overlap(run: Run, corpus: Corpus) -> Overlap:
    """The rows of a corpus that are among a run's training examples."""
    recipe = run.recipe
    if "path" not in corpus.origin and _held_out(recipe, corpus):
        return Overlap(NONE)
    try:
        train = training_corpus(recipe)
    except (PomonaError, OSError) as error:
        return Overlap(NONE, unknown=f"the training examples are not there any more: {error}")
    if run.data.get("train", train.fingerprint) != train.fingerprint:
        return Overlap(NONE, unknown=f"{recipe.data} does not give the examples any more that the run was trained on")
    rows = np.flatnonzero(np.isin(corpus.keys, train.keys))
    later = recipe.fresh and len(run.curve) > 1 and not _held_out(recipe, corpus)
    unknown = f"of the {len(run.curve)} epochs, each with fresh examples, only the first was compared" if later else ""
    return Overlap(rows, len(train), unknown)


def _held_out(recipe: Recipe, corpus: Corpus) -> bool:
    """Whether this is another split of the very draw that the recipe trains on; splits of one draw are disjoint."""
    origin = corpus.origin
    if source_kind_or_none(recipe) != "task" or origin.get("split") in (None, "train"):
        return False
    try:
        task = TASKS.build(recipe.data, recipe.data_settings)
        same = TASKS.build(str(origin.get("task")), origin.get("settings") or {}) == task
    except PomonaError:
        return False
    return same and origin.get("version") == task.version and origin.get("seed") == recipe.data_seed


def source_kind_or_none(recipe: Recipe) -> str:
    """What the data of a recipe are; empty if they are not there any more."""
    try:
        return source_kind(recipe.data)
    except PomonaError:
        return ""


def _name(corpus: Corpus) -> str:
    """What a corpus is called in an error: its file, or the split and draw of its task."""
    origin = corpus.origin
    drawn = f"{origin.get('task') or 'the corpus'} ({origin.get('split')}, data seed {origin.get('seed')})"
    return str(origin.get("path") or (drawn if origin.get("task") else repr(corpus)))


def refuse_overlap(seen: Overlap, corpus: Corpus, run: Run) -> None:
    """An error that names the first examples of the corpus that were trained on, if there are any."""
    if not len(seen.rows):
        return
    lines = ", ".join(str(line_of(corpus, row)) for row in seen.rows[:SHOWN].tolist())
    more = ", ..." if len(seen.rows) > SHOWN else ""
    own = f"{run.recipe.data} with --data-seed {run.recipe.data_seed}"
    held_out = f"the splits of {own} are held out" if source_kind_or_none(run.recipe) == "task" else "take another test"
    raise RunError(
        f"{len(seen.rows):,} of the {len(corpus):,} examples of {_name(corpus)} are among the {seen.trained:,} that "
        f"{run.folder} was trained on: {'rows' if corpus.lines is None else 'lines'} {lines}{more} (the first is "
        f"{corpus[int(seen.rows[0])].text[:80]}). Their score would say nothing about new examples: {held_out}, or add "
        "--allow-overlap (in Python allow_overlap=True)"
    )


def overlap_notes(seen: Overlap, evaluation: Evaluation) -> tuple[str, ...]:
    """What an evaluation says of examples that were trained on."""
    notes = []
    if len(seen.rows):
        others = np.setdiff1d(np.arange(len(evaluation)), seen.rows)
        without = f"; without them {evaluation.right[others].mean():.2%} are right" if len(others) else ""
        notes.append(f"{len(seen.rows):,} of {len(evaluation):,} examples were in the training data{without}.")
    if seen.unknown:
        notes.append(f"Not checked whether the test was trained on: {seen.unknown}.")
    return tuple(notes)
