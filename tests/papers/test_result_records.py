"""Records of runs: only those of the planned recipe are joined, and a cell says how its runs were trained."""

from __future__ import annotations

import dataclasses
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pomona.base.registry import parse_settings
from pomona.papers import fair_nli_2019  # noqa: F401
from pomona.papers.fair_nli_2019.recipes import trials
from pomona.papers.listops_2018.recipes import recipes as listops_recipes
from pomona.papers.records import GAIN, Record, joined, recipe_key, rising, train_command, training
from pomona.papers.reproduce import Plan
from pomona.papers.results import _kept_cells
from pomona.training.recipe import Recipe

RECIPE = Recipe("lstm", {"width": 48}, rows=1_000, epochs=4)


def entry(seed: int, dev: float, **change: object) -> Record:
    recipe = dataclasses.replace(RECIPE, seed=seed, **change)  # type: ignore[arg-type]
    return {"row": "LSTM", "recipe": recipe.plain, "dev": dev, "best_epoch": 1, "epochs": 4, "train_rows": 900}


def seeds(*numbers: int) -> list[Recipe]:
    return [dataclasses.replace(RECIPE, seed=seed) for seed in numbers]


def test_earlier_records_count_beside_new_ones_if_their_recipe_is_the_planned_one() -> None:
    known = [entry(0, 0.1), entry(1, 0.2), entry(2, 0.3, rate=0.5), entry(7, 0.4), {"row": "LSTM"}]
    records = joined(known, seeds(0, 1, 2, 3), [entry(1, 0.9), entry(3, 0.8)])
    assert [record["dev"] for record in records] == [0.1, 0.9, 0.8]  # the new run of seed 1, none of seed 2


def test_a_recipe_that_is_no_longer_readable_is_not_joined() -> None:
    broken = {**entry(0, 0.1), "recipe": {"model": "lstm", "unheard_of": 1}}
    assert joined([broken], seeds(0), []) == []


def test_a_cell_says_how_its_runs_were_trained() -> None:
    curves = [0.1, 0.2, 0.3, 0.5], [0.1, 0.5, 0.5, 0.4]
    records = [{**entry(seed, 0.5), "dev_curve": curve} for seed, curve in enumerate(curves)]
    facts = training(RECIPE, records)
    assert facts["weights"] == "best of 4 looks at dev"
    assert facts["seen"] == 3_600
    assert facts["still_rising"] == 1
    assert training(RECIPE, [])["still_rising"] is None
    assert "test" in training(dataclasses.replace(RECIPE, select_on="test"), [])["weights"]


@pytest.mark.parametrize(("best", "expected"), [(3, True), (2, False)])
def test_without_a_curve_the_last_look_decides(best: int, expected: bool) -> None:
    assert rising({"best_epoch": best, "epochs": 4}) is expected


@given(st.lists(st.floats(0, 1), min_size=2, max_size=20))
def test_rising_is_a_gain_in_the_last_quarter(looks: list[float]) -> None:
    cut = max(1, 3 * len(looks) // 4)
    assert 0 < cut < len(looks)
    gain = max(looks[cut:]) - max(looks[:cut])
    assert rising({"dev_curve": looks}) == (gain > GAIN)


def test_seeds_do_not_count_in_the_key_of_a_recipe() -> None:
    split = dataclasses.replace(RECIPE, seed=3, data_seed=3, data_settings={"split_seed": 3})
    assert recipe_key(split) == recipe_key(RECIPE)
    assert recipe_key(dataclasses.replace(RECIPE, rate=0.5)) != recipe_key(RECIPE)


def planned() -> list[Recipe]:
    of_listops = [recipe for some in listops_recipes("cpu").values() for recipe in some]
    return [*of_listops, *(recipe for trial in trials("cpu") for recipe in trial.recipes[-1:])]


@pytest.mark.parametrize("recipe", planned(), ids=lambda recipe: recipe.key)
def test_the_command_of_a_recipe_gives_that_recipe(recipe: Recipe) -> None:
    words = shlex.split(train_command(recipe))
    options: dict[str, list[str]] = {}
    for name, value in zip(words[3::2], words[4::2], strict=True):
        options.setdefault(name, []).append(value)
    chosen = {
        "model": words[2],
        "data": options["--data"][0],
        "settings": parse_settings(options.get("--model-set", [])),
        "data_settings": parse_settings(options.get("--set", [])),
        "seed": int(options.get("--seed", ["0"])[0]),
        "data_seed": int(options.get("--data-seed", ["0"])[0]),
        **parse_settings(options.get("--recipe", [])),
    }
    assert Recipe.from_settings(chosen) == recipe


def test_a_number_that_is_kept_from_another_recipe_is_marked() -> None:
    plan = Plan("some_2026")
    old, new = ({**plan.cell("Table 1", "A", "test", 1.0, [2.0, 3.0]), "recipe": key} for key in ("old", "new"))
    empty = {**plan.cell("Table 1", "A", "test", 1.0, []), "recipe": "new"}
    assert _kept_cells([old], [empty]) == [{**old, "older_recipe": True}]
    assert _kept_cells([{**new, "older_recipe": True}], [empty]) == [new]  # the recipe is today's again
    assert _kept_cells([old], [new]) == [new]


def test_more_runs_of_the_same_recipe_stand_against_fewer() -> None:
    plan = Plan("some_2026")
    many, few = ({**plan.cell("Table 1", "A", "test", 1.0, values), "recipe": "same"} for values in ([2.0, 3.0], [9.0]))
    assert _kept_cells([many], [few]) == [many]
    assert _kept_cells([{**many, "recipe": "other"}], [few]) == [few]
