"""The learning rate from step to step.

    learning_rate(recipe, step, steps)       warm-up, then constant, a cosine, or a root of the steps
    cooled(recipe, epochs)                   the factor of a `cooldown`: the full rate, then a straight line to 0

Until the rate of a `cooldown` falls it does not depend on where the training ends. So a longer training can begin where
a shorter one stood then (`Recipe.extends`).
"""

from __future__ import annotations

import math

from pomona.training.recipe import COOLDOWN, Recipe

COSINE_END = 0.01  # the rate at the end of a cosine schedule, as a share of the first rate


def learning_rate(recipe: Recipe, step: int, steps: int, factor: float = 1.0) -> float:
    """The rate at a step, counted from 0, out of `steps`; `factor` is by how much plateaus have lowered it."""
    rate = recipe.rate * factor * min(1.0, (step + 1) / max(1, recipe.warmup))
    if recipe.schedule == "cosine":
        done = min(1.0, step / max(1, steps))
        return rate * (COSINE_END + (1 - COSINE_END) * (1 + math.cos(math.pi * done)) / 2)
    if recipe.schedule == "inverse_sqrt":
        return rate * math.sqrt(max(1, recipe.warmup) / max(step + 1, recipe.warmup, 1))
    return rate


def cooled(recipe: Recipe, done: float) -> float:
    """The factor of the rate after so many epochs: 1, and in the last part of a `cooldown` a straight line to 0."""
    if recipe.schedule != "cooldown" or done <= recipe.cooldown_at:
        return 1.0
    return min(1.0, max(0.0, 1 - done / recipe.epochs) / COOLDOWN)
