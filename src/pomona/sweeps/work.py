"""One run of a sweep, in a worker: train or resume it, then evaluate it. The order is plain JSON, never a pickle.

    work(Order("runs/lstm-seed=0", recipe.plain, evaluate=("test",)))

`evaluate` names what the finished run is evaluated on: a split of the data that it was trained on ("test"), a task with
split and seed ("listops/lra:test:7"), or a file. What was evaluated already is not evaluated again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pomona.base.errors import SpecError
from pomona.base.files import kind_of
from pomona.data.corpus import Corpus
from pomona.data.sources import corpus_from, source_kind
from pomona.data.task import generate
from pomona.training.recipe import Recipe
from pomona.training.run import Run


@dataclass(frozen=True)
class Order:
    """What a worker does: the folder and the recipe of a run, and what it is evaluated on afterwards."""

    folder: str
    recipe: Mapping[str, Any]
    evaluate: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()  # of the user's own; they are imported, so their code runs
    threads: int = 1

    @property
    def name(self) -> str:
        return Path(self.folder).name

    def as_text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Order:
        read = json.loads(text)
        return cls(**{**read, "evaluate": tuple(read["evaluate"]), "modules": tuple(read["modules"])})


def work(order: Order) -> None:
    """Train the run to its end and evaluate it. Both resume: what was done before is not done again."""
    from pomona.models.model import MODELS
    from pomona.training.loop import train

    for module in order.modules:
        MODELS.trust(module)
    run = train(Recipe.from_settings(order.recipe), order.folder, threads=order.threads)
    for source in order.evaluate:
        if name_of(source) not in run.scores:
            _evaluate(run, source, order.threads)


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
    if "/" not in task and not rest and source_kind(recipe.data) == "folder":
        return corpus_from(recipe.data, split=task)
    if "/" not in task and not rest and source_kind(recipe.data) == "task":
        return generate(recipe.data, task, recipe.data_seed, **recipe.data_settings)
    split, _, seed = rest.partition(":")
    if not (seed or "0").isdecimal():
        raise SpecError(f"{source!r}: the seed {seed!r} is no number; write task:split:seed, as listops/d20s:test:7")
    return corpus_from(task, split=split or "test", seed=int(seed or 0))
