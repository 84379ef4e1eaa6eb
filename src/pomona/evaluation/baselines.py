"""What a score is compared with: baselines that see only part of the input, and the model's effective depth.

    baselines = Baselines(test, learning_examples(test))
    baselines.ladder                    every baseline that applies (`pomona.shortcuts.ladder`); None if none does
    baselines.depths(answers.given)     the effective depth of each question (`pomona.shortcuts.effective_depth`)

This is the only place where the two are computed for an evaluation, and `learning_examples` is the only rule for what
they learn from; commands, papers and reports all use it. The ladder is computed once for a corpus and shared by all
the models evaluated on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pomona.base.arrays import Ints
from pomona.base.errors import MeasureError, PomonaError
from pomona.data.corpus import Corpus
from pomona.data.shards.folder import Shards
from pomona.data.sources import source_kind, training_for
from pomona.data.task import TASKS, Task, generate
from pomona.shortcuts.effective_depth import EffectiveDepth, Evaluators
from pomona.shortcuts.ladder import Ladder, ladder
from pomona.training.data import training_corpus
from pomona.training.recipe import Recipe


@dataclass(frozen=True, eq=False)
class Baselines:
    """The ladder of a corpus, learnt from `train`, and the effective depth of any answers to it.

    `train_depth` is the depth of the deepest trees that the model was trained on: effective depth then also says
    whether the model is better beyond it than an evaluator that stops there.
    """

    corpus: Corpus
    train: Corpus | None = None
    train_depth: int | None = None

    @cached_property
    def _ladder_or_reason(self) -> Ladder | str:
        try:
            return ladder(self.corpus, self.train)
        except MeasureError as error:
            return f"No ladder: {error}."

    @property
    def ladder(self) -> Ladder | None:
        return self._ladder_or_reason if isinstance(self._ladder_or_reason, Ladder) else None

    @property
    def notes(self) -> tuple[str, ...]:
        """Why there is no ladder, if there is none, or which of its rungs do not apply."""
        found = self._ladder_or_reason
        return (found,) if isinstance(found, str) else found.notes

    def depths(self, given: Ints) -> tuple[EffectiveDepth, ...]:
        """The effective depth of answers (positions among the outcomes, [examples, questions]), for each question."""
        return tuple(
            self._evaluators.explain(given[:, question], question, self.train_depth)
            for question in range(given.shape[1])
        )

    @cached_property
    def _evaluators(self) -> Evaluators:
        """The truncated evaluators and look-ups, which are the same for every model."""
        return Evaluators.of(self.corpus, self.train)


def learning_examples(corpus: Corpus | Shards, recipes: Sequence[Recipe] = ()) -> Corpus | None:
    """The examples that baselines learn from.

    They are the whole train split of the task that made the corpus. A corpus that does not name its task (a TSV file)
    takes the largest train split among the tasks of these recipes, of the runs that answered it, or the file that they
    were trained on. Examples that are in the corpus itself are left out. None, where there is neither, means that one
    half of the corpus is answered from the other.
    """
    parts = [corpus] if isinstance(corpus, Corpus) else corpus.parts()
    first = corpus if isinstance(corpus, Corpus) else next(corpus.parts())
    train = training_for(first)
    if train is None:
        train = _largest_train_split(recipes)
    if train is None:
        return None
    shared = np.zeros(len(train), np.bool_)
    for part in parts:
        shared |= np.isin(train.keys, part.keys)
    found: Corpus = train[~shared] if shared.any() else train
    return found if len(found) else None


def _largest_train_split(recipes: Sequence[Recipe]) -> Corpus | None:
    tasks: list[tuple[Task, int]] = []
    files: list[Recipe] = []
    for recipe in recipes:
        with suppress(PomonaError):  # what is no longer there teaches nothing
            if source_kind(recipe.data) != "task":
                files.append(recipe)
            else:
                tasks.append((TASKS.build(recipe.data, recipe.data_settings), recipe.data_seed))
    tasks = [(task, seed) for task, seed in tasks if task.sizes.get("train", 0)]
    if tasks:
        task, seed = max(tasks, key=lambda candidate: candidate[0].sizes["train"])
        return generate(task, "train", seed)
    read: list[Corpus] = []
    for recipe in files:
        with suppress(PomonaError):
            read.append(training_corpus(recipe))
    return max(read, key=len, default=None)
