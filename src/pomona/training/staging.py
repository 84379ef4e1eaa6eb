"""A stage of a run at work: the rows of every step, the rate, and when the stage is over.

    part = Part(stage, recipe, lengths)
    while not part.over(state):
        rows = part.rows(state)                       # of the next step
        ...                                           # learn at part.rate(state.stage_step)
        part.count(state, rows, share of right answers)

All rows follow from (seed, stage, step) and from the numbers in the state, so a resumed run continues to the same bits.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Ints
from pomona.base.errors import SpecError, did_you_mean
from pomona.base.randomness import random_order, stream_key
from pomona.base.registry import validated
from pomona.models.model import Model
from pomona.models.stages import INHERITED, Stage, resolved
from pomona.training.checkpoints import State
from pomona.training.recipe import Recipe

_WITHOUT_EFFECT = ("fresh", "batching", "schedule", "decay", "patience", "stop")  # a stage has its own, or none

Rows = npt.NDArray[np.int64]


def stages_of(recipe: Recipe, model: Model) -> tuple[Stage, ...]:
    """The stages of a recipe, or else of its model; an error for settings of the recipe that would have no effect."""
    stages = resolved(recipe.stages, model.stages())
    if not stages:
        return ()
    usual = Recipe(recipe.model)
    their_own = [name for name in INHERITED if all(getattr(stage, name) is not None for stage in stages)]
    for name in (*_WITHOUT_EFFECT, *their_own):
        if getattr(recipe, name) != getattr(usual, name):
            raise SpecError(
                f"{name} = {getattr(recipe, name)!r} has no effect: {recipe.model} is trained in the stages "
                f"{', '.join(stage.name for stage in stages)}; leave it out or set what a stage has in `stages`"
            )
    for stage in stages:
        told(stage, model)
    return stages


def told(stage: Stage, model: Model) -> Any:
    """What the model is told in this stage: an instance of its `stage_settings`."""
    if model.stage_settings is None:
        if stage.settings:
            raise stage.error(f"settings = {dict(stage.settings)}: {model.name} has no settings of stages")
        return None
    known = [item.name for item in dataclasses.fields(model.stage_settings)]
    for name in stage.settings:
        if name not in known:
            raise stage.error(f"{model.name} has no setting {name!r} of a stage. {did_you_mean(name, known)}")
    try:
        return validated(model.stage_settings, stage.settings, model.name)
    except SpecError as error:
        raise stage.error(str(error)) from None


class Part:
    """One stage of a run, with the rows that it trains on."""

    def __init__(self, stage: Stage, recipe: Recipe, lengths: Ints) -> None:
        self.stage, self.seed = stage, recipe.seed
        values = {name: getattr(recipe if getattr(stage, name) is None else stage, name) for name in INHERITED}
        self.batch: int = values["batch"]
        self.first_rate: float = values["rate"]
        self.warmup: int = values["warmup"]
        self.l2: float = values["l2"]
        self.weight_decay: float = values["weight_decay"]
        self.clip: float = values["clip"]
        self.betas: tuple[float, float] = values["betas"]
        longest = lengths.max() if stage.longest is None else stage.longest
        self._rows = np.flatnonzero((lengths >= stage.shortest) & (lengths <= longest))
        if not len(self._rows):
            raise stage.error(
                f"no training example of {recipe.data} has {stage.shortest} to {longest} tokens; they have "
                f"{lengths.min()} to {lengths.max()}"
            )
        mine = lengths[self._rows]
        self._of_length = [self._rows[mine == length] for length in np.unique(mine)] if stage.growing else []
        self.per_pass = math.ceil(len(self._rows) / self.batch)
        self.steps = values["epochs"] * self.per_pass
        if stage.steps is not None:
            self.steps = min(self.steps, stage.steps)
        self._pass = -1
        self._order = self._rows

    def over(self, state: State) -> bool:
        return state.stage_step >= self.steps or (self.stage.growing and state.grown >= len(self._of_length))

    def looks(self, state: State) -> bool:
        """Whether dev is looked at after the steps done so far."""
        return self.over(state) or (self.stage.look is not None and state.stage_step % self.stage.look == 0)

    def rate(self, step: int) -> float:
        """The rate at a step of this stage, counted from 0."""
        rate = self.first_rate * min(1.0, (step + 1) / max(1, self.warmup))
        done = min(1.0, step / self.steps)
        if self.stage.schedule == "linear":
            rate *= 1 - (1 - self.stage.end) * done
        elif self.stage.schedule == "cosine":
            rate *= self.stage.end + (1 - self.stage.end) * (1 + math.cos(math.pi * done)) / 2
        return rate

    def rows(self, state: State) -> Rows:
        """The rows of the next step."""
        if self.stage.growing:
            return self._of_one_length(state)
        number, position = divmod(state.stage_step, self.per_pass)
        if number != self._pass:
            key = stream_key("pass of a stage", self.seed, self.stage.name, number)
            self._order, self._pass = self._rows[random_order(key, len(self._rows))], number
        return self._order[position * self.batch : (position + 1) * self.batch]

    def _of_one_length(self, state: State) -> Rows:
        """Rows of the newest length, or else of one of those before it."""
        key = stream_key("step of a stage", self.seed, self.stage.name, state.stage_step)
        random = np.random.Generator(np.random.Philox(key=int(key)))
        newest = state.grown == 0 or random.random() < self.stage.newest
        some = self._of_length[state.grown if newest else int(random.integers(state.grown))]
        chosen: Rows = random.choice(some, min(self.batch, len(some)), replace=False)
        return chosen

    def count(self, state: State, rows: Rows, right: float) -> None:
        """One more step is done, in which this share of the answers was right."""
        state.stage_step += 1
        if not self.stage.growing or rows[0] not in self._of_length[state.grown]:
            return
        state.recent = [*state.recent, right][-self.stage.window :]
        if len(state.recent) == self.stage.window and sum(state.recent) >= self.stage.move_on * self.stage.window:
            state.grown, state.recent = state.grown + 1, []
