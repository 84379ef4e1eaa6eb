"""One run of a sweep, in a worker: train or resume it, then evaluate it.

    RunOrder("runs/lstm-seed=0", recipe.plain, evaluate=("test",)).do()

`evaluate` names what the finished run is evaluated on: a split of the data that it was trained on ("test", or with the
name of its task, "listops/d20s:test"), another task with split and seed ("listops/lra:test:7"), or a file. What was
evaluated already is not evaluated again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pomona.base.errors import RunInUseError, SpecError
from pomona.base.files import kind_of
from pomona.base.registry import trust
from pomona.data.corpus import Corpus
from pomona.data.sources import corpus_from, source_kind
from pomona.data.task import generate
from pomona.sweeps.orders import Order
from pomona.training.recipe import Recipe
from pomona.training.run import Run
from pomona.training.tracking import follow, follower

LOOK_AGAIN = 0.5  # seconds between two looks at a run that another process trains


@dataclass(frozen=True)
class RunOrder(Order):
    """The folder and the recipe of a run, and what it is evaluated on afterwards."""

    folder: str
    recipe: Mapping[str, Any]
    evaluate: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()  # of the user's own; they are imported, so their code runs
    threads: int = 1
    track: tuple[str, ...] = ()  # trackers that follow the learning curve

    @property
    def name(self) -> str:
        return Path(self.folder).name

    def do(self) -> None:
        """Train the run to its end and evaluate it."""
        from pomona.training.loop import train

        for module in self.modules:
            trust(module)
        report = follower(self.folder, self.track) or False  # the command shows how far all runs are
        recipe = Recipe.from_settings(self.recipe)
        run = _when_free(lambda: train(recipe, self.folder, threads=self.threads, progress=report))
        follow(self.folder, self.track)
        for source in self.evaluate:
            if name_of(source) not in run.scores:
                _evaluate(run, source, self.threads)


def _when_free(train: Callable[[], Run]) -> Run:
    """Train a run, after a worker that still trains it has ended: of a sweep that was killed, its workers live on until
    their run is finished."""
    while True:
        try:
            return train()
        except RunInUseError:
            time.sleep(LOOK_AGAIN)


def _evaluate(run: Run, source: str, threads: int) -> None:
    from pomona.evaluation.overlap import overlap, refuse_overlap
    from pomona.evaluation.records import keep
    from pomona.evaluation.subjects import Reading, answer, evaluate_answered

    corpus = corpus_for(run.recipe, source)
    refuse_overlap(overlap(run, corpus), corpus, run)
    answered = answer(run, corpus, run.folder.name, Reading(threads=threads))
    assert answered.predictions is not None
    keep(run, name_of(source), answered.predictions, evaluate_answered(answered, corpus, ladders=False))


def name_of(source: str) -> str:
    """The name under which a run keeps the evaluation on this source; a path's folders are left out."""
    return Path(source).name if kind_of(source) == "file" else source.replace("/", "-").replace(":", "-")


def corpus_for(recipe: Recipe, source: str) -> Corpus:
    """What `--evaluate SOURCE` means for a run of this recipe."""
    if kind_of(source) == "file":
        return corpus_from(source)
    task, _, rest = source.partition(":")
    split, _, seed = rest.partition(":")
    if task == recipe.data and not seed:
        task, rest = split or "test", ""  # its own data, with the settings and the seed that it was trained with
    if "/" not in task and not rest and source_kind(recipe.data) == "folder":
        return corpus_from(recipe.data, split=task)
    if "/" not in task and not rest and source_kind(recipe.data) == "task":
        return generate(recipe.data, task, recipe.data_seed, **recipe.data_settings)
    if not (seed or "0").isdecimal():
        raise SpecError(f"{source!r}: the seed {seed!r} is no number; write task:split:seed, as listops/d20s:test:7")
    return corpus_from(task, split=split or "test", seed=int(seed or 0))
