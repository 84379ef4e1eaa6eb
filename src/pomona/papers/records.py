"""Records of runs in a results file: how the runs were trained, and earlier records joined with new ones.

    records = joined(plan.known.get("CBoW", []), recipes, [record(run, "CBoW") for run in runs])
    cell = {**plan.cell(...), **training(recipes[0], records)}
    cell["weights"], cell["seen"], cell["still_rising"]     "best of 3 looks at dev", 150000, 5

A results file outlives its runs. An earlier record counts beside new runs only if its recipe is the planned one, with
one of the planned seeds; a record of another recipe is never joined.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from math import sqrt
from statistics import fmean, stdev
from typing import Any

from pomona.base.errors import SpecError
from pomona.training.recipe import Recipe
from pomona.training.run import Run

Record = dict[str, Any]
GAIN = 0.01  # a dev accuracy that gains more than this in the last quarter of training is still rising


def record(run: Run, row: str, **more: Any) -> Record:
    """A finished run for the results file: its recipe, its summary and its dev accuracy at every look."""
    looks = [round(entry["dev"], 4) for entry in run.curve]
    return {"row": row, "recipe": run.recipe.plain, **run.summary, "dev_curve": looks, **more}


def joined(known: Iterable[Record], recipes: Sequence[Recipe], now: Sequence[Record]) -> list[Record]:
    """The records of these recipes, in their order: new ones, and earlier ones whose runs are no longer here."""
    by_recipe: dict[str, Record] = {}
    for entry in (*known, *now):  # of one recipe the newest
        recipe = _recipe(entry)
        if recipe is not None:
            by_recipe[recipe.key] = entry
    return [by_recipe[recipe.key] for recipe in recipes if recipe.key in by_recipe]


def recorded(entries: Iterable[Record]) -> frozenset[str]:
    """The keys of the recipes that these records are of."""
    return frozenset(recipe.key for entry in entries if (recipe := _recipe(entry)) is not None)


def _recipe(entry: Mapping[str, Any]) -> Recipe | None:
    """The recipe of a record; None if it has none that is readable today."""
    try:
        return Recipe.from_settings(entry["recipe"])
    except (KeyError, SpecError):
        return None


# -- how a number was trained ------------------------------------------------------------------------------------------


def training(recipe: Recipe, records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What a cell says of the runs behind it: recipe, rule for the weights, examples seen, runs still rising."""
    chosen = "dev" if recipe.select_on == "dev" else "test, as in the paper's code"
    looks = max((entry["epochs"] for entry in records), default=recipe.epochs)
    rows = max((entry["train_rows"] for entry in records if "train_rows" in entry), default=recipe.rows)
    return {
        "recipe": recipe_key(recipe),
        "weights": f"best of {looks} looks at {chosen}",
        "seen": None if rows is None else looks * rows,
        "still_rising": sum(map(rising, records)) if records else None,
    }


def interval(values: Sequence[float]) -> list[float] | None:
    """The 95 % interval of a mean over runs (Student's); None for a single run."""
    if len(values) < 2:
        return None
    from scipy.stats import t

    half = float(t.ppf(0.975, len(values) - 1)) * stdev(values) / sqrt(len(values))
    return [round(fmean(values) - half, 3), round(fmean(values) + half, 3)]


def rising(entry: Mapping[str, Any]) -> bool:
    """Whether dev accuracy gained more than GAIN in the last quarter of the looks at it; a record without a curve
    counts as rising if its last look was its best."""
    looks = entry.get("dev_curve") or []
    if len(looks) < 2:
        return bool(entry["best_epoch"] + 1 == entry["epochs"])
    earlier = looks[: max(1, 3 * len(looks) // 4)]
    return bool(max(looks) - max(earlier) > GAIN)


def recipe_key(recipe: Recipe) -> str:
    """The key of a recipe without its seeds, which all runs of a row share."""
    return without_seeds(recipe).key


def without_seeds(recipe: Recipe) -> Recipe:
    settings = {name: value for name, value in recipe.data_settings.items() if name != "split_seed"}
    return dataclasses.replace(recipe, seed=0, data_seed=0, data_settings=settings)


def train_command(recipe: Recipe) -> str:
    """The `pomona train` command of a recipe, without what is a default.

    >>> train_command(Recipe("lstm", {"width": 48}, epochs=2))
    'pomona train lstm --data listops/d20s --model-set width=48 --recipe epochs=2'
    """
    usual = Recipe(recipe.model).plain
    parts = [f"pomona train {recipe.model} --data {recipe.data}"]
    parts += [f"--model-set {name}={_plain(value)}" for name, value in recipe.settings.items()]
    parts += [f"--set {name}={_plain(value)}" for name, value in recipe.data_settings.items()]
    for name, value in recipe.plain.items():
        separately = ("model", "settings", "data", "data_settings", "seed", "data_seed")
        if name not in separately and value != usual.get(name):
            parts.append(f"--recipe {name}={_plain(value)}")
    seeds = {"--seed": recipe.seed, "--data-seed": recipe.data_seed}
    return " ".join(parts + [f"{option} {seed}" for option, seed in seeds.items() if seed])


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return value
    text = json.dumps(value)
    return f"'{text}'" if set(text) & set(" []{}\"") else text
