"""The search for settings, on dev alone: the grid of the paper, the best for longer, then one change at a time.

What one split says may not hold for others (TreeNN's choice did not), so `over_splits` searches on the mean of two.
"""

from __future__ import annotations

import dataclasses
from itertools import product
from statistics import fmean
from typing import Any

from pomona.papers.fair_nli_2019.recipes import QUESTIONS, RESTLESS, ROWS, Trial, at_budget
from pomona.papers.reproduce import Budget, Plan, slug
from pomona.training.recipe import Recipe
from pomona.training.run import Run

GRID: dict[str, tuple[Any, ...]] = {  # of the paper; L2 as beside the sum of twelve losses
    "dropout": (0.0, 0.1, 0.2, 0.3),
    "rate": (1e-2, 3e-3, 1e-3, 3e-4),
    "l2": (0.0, 1e-4, 1e-3, 1e-2),
    "activation": ("relu", "tanh"),
}
FEWER = {**GRID, "dropout": (0.0,), "rate": (1e-2, 3e-3, 1e-3), "l2": (0.0, 1e-3, 1e-2, 3e-2)}  # of the cpu budget
KEPT = 4  # settings of a rung that go on to the next
OVER_SPLITS = {"TreeNN": tuple(product((1e-2, 3e-3), (2e-3, 3e-3)))}  # row: rates and L2, tried on SPLITS
SPLITS = 2


def grid(budget: Budget, row: str) -> dict[str, Recipe]:
    """The first rung of the search. `paper`: the paper's grid, three epochs for each setting.

    `cpu`: without dropout, without the lowest rate and the lowest L2 (which is 8e-6 here: nothing), with a higher one.
    """
    ways = GRID if budget == "paper" else FEWER
    recipes = (
        _tried(budget, row, ROWS[row].rungs[0], rate, l2 / QUESTIONS, {"activation": activation, "dropout": dropout})
        for dropout, rate, l2, activation in product(*ways.values())
    )
    return {_described(recipe): recipe for recipe in recipes}


def _tried(budget: Budget, row: str, chunks: int, rate: float, l2: float, change: dict[str, Any]) -> Recipe:
    chosen = ROWS[row].recipe(rate=rate, l2=l2, epochs=chunks, **dict(RESTLESS))
    own = {name: value for name, value in chosen.settings.items() if name not in ("start", "dropout")}  # searched for
    recipe = _changed(dataclasses.replace(chosen, settings=own), change)
    recipe = at_budget(Trial("grid", row, "", recipe, 1), budget).recipe
    return dataclasses.replace(recipe, epochs=3) if budget == "paper" else recipe


def _described(recipe: Recipe) -> str:
    """What of a recipe the search varies."""
    own = [f"{name} {recipe.settings[name]}" for name in ("dropout", "start", "inner") if name in recipe.settings]
    l2, pairs = f"l2 {QUESTIONS * recipe.l2:.3g} / {QUESTIONS}", recipe.epochs * (recipe.rows or 500_000)
    return ", ".join([f"dev at rate {recipe.rate}", l2, str(recipe.settings["activation"]), *own, f"{pairs:,} pairs"])


def search(plan: Plan, row: str) -> list[tuple[str, Run]]:
    """Successive halving on dev alone, split 0: every setting of the grid, the best for longer, then the best of all
    with one thing changed at a time. Budgets other than `cpu` have the grid alone."""
    rungs, ways, made = ROWS[row].rungs, list(grid(plan.budget, row).values()), []
    for rung in range(len(rungs) + 1 if plan.budget == "cpu" else 1):
        runs = _rung(plan, row, rung, ways)
        made += runs
        if len(runs) < len(ways):
            break
        best = sorted(runs, key=lambda run: -run.summary["dev"])  # of equal ones the first
        if rung + 1 < len(rungs):
            ways = [dataclasses.replace(run.recipe, epochs=rungs[rung + 1]) for run in best[:KEPT]]
        else:
            ways = [_changed(best[0].recipe, change) for change in _changes(row)]
    return [(_described(run.recipe), run) for run in made]


def over_splits(plan: Plan, row: str) -> list[tuple[str, list[Run]]]:
    """Settings of a row on the first two splits, ReLU; then the best of their means with one thing changed."""
    tried = [_tried(plan.budget, row, 3, rate, l2, {"activation": "relu"}) for rate, l2 in OVER_SPLITS.get(row, ())]
    train = "grid over splits" in plan.where and plan.wants("grid over splits", row)
    made = [(_described(recipe), _on_splits(plan, row, recipe, train=train)) for recipe in tried]
    if made and plan.budget == "cpu" and all(len(runs) == SPLITS for _, runs in made):
        best = max(made, key=lambda one: mean_dev(one[1]))[1][0].recipe
        best = dataclasses.replace(best, seed=0, data_seed=0, data_settings={})
        for change in ({"start": 1.0}, {"dropout": 0.1}, {"inner": "softmax"}):
            recipe = _changed(best, change)
            made.append((_described(recipe), _on_splits(plan, row, recipe, train=train)))
    return [(name, runs) for name, runs in made if runs]


def _on_splits(plan: Plan, row: str, recipe: Recipe, *, train: bool) -> list[Run]:
    """The finished runs of a recipe on each split."""
    trial = Trial("grid over splits", row, _described(recipe), recipe, SPLITS)
    runs = (plan.run(one, trial.name(seed), {}, train=train) for seed, one in enumerate(trial.recipes))
    return [run for run in runs if run is not None]


def mean_dev(runs: list[Run]) -> float:
    return fmean(run.summary["dev"] for run in runs)


def _rung(plan: Plan, row: str, rung: int, ways: list[Recipe]) -> list[Run]:
    """The finished runs of these recipes."""
    train = "grid" in plan.where and plan.wants("grid", row)
    runs = (plan.run(way, slug(f"grid {row} {rung}", number), {}, train=train) for number, way in enumerate(ways))
    return [run for run in runs if run is not None]


def _changed(recipe: Recipe, change: dict[str, Any]) -> Recipe:
    return dataclasses.replace(recipe, settings={**recipe.settings, **change})


def _changes(row: str) -> list[dict[str, float]]:
    """Dropout, and other sizes of the first word vectors than the model's own."""
    from pomona.models.model import MODELS

    usual = getattr(MODELS.build(ROWS[row].model), "start", None)
    sizes = [size for size in (0.1, 0.3, 1.0) if size != usual]
    return [*({"dropout": share} for share in (0.1, 0.3)), *({"start": size} for size in sizes)]
