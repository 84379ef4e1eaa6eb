"""The experiment `latent`: its recipes are stages that the model has, and nothing is filled in that was not trained."""

from __future__ import annotations

import dataclasses
import json

import pytest

from pomona.models.stages import resolved
from pomona.papers.listops_2018.latent import (
    COUNTERS,
    ELSEWHERE,
    FORMER,
    FORMER_PRIORS,
    PRIORS,
    ROW,
    SHORT,
    WIDE,
    latent_cells,
    latent_recipes,
)
from pomona.papers.reproduce import Plan
from pomona.training.checkpoints import model_of
from pomona.training.recipe import Recipe
from pomona.training.staging import stages_of


@pytest.mark.parametrize("budget", ["smoke", "cpu", "paper"])
def test_every_row_has_stages_that_the_model_knows(budget):
    own = [stage.name for stage in model_of(Recipe("shift_reduce")).stages()]
    rows = latent_recipes(budget)
    assert len({recipe.key for some in rows.values() for recipe in some}) == sum(map(len, rows.values()))
    for row, some in rows.items():
        for recipe in some:
            stages = stages_of(recipe, model_of(recipe))
            assert {stage.name for stage in stages} <= set(own)
            assert (stages[-1].name == own[-1]) == (row in (ROW, WIDE, FORMER))
            assert recipe.exclude == ("listops/test_d20s.tsv",)  # the paper's test file is never trained on


def test_every_ablation_changes_one_thing():
    rows = latent_recipes("cpu")
    plain = rows[SHORT][0]
    declared = model_of(plain).stages()
    former = resolved(rows[FORMER][0].stages, declared)
    assert [one.name for one, two in zip(former, declared, strict=True) if one != two] == ["flat", "own trees"]
    assert dict(former[0].settings) == {**declared[0].settings, "apart": 0.0}
    assert former[-1] == dataclasses.replace(declared[-1], steps=1_200)
    for row, (recipe, *_) in rows.items():
        if row in (ROW, FORMER, SHORT, WIDE):
            continue
        stages = resolved(recipe.stages, declared) != resolved(plain.stages, declared)
        assert stages != (recipe.settings != plain.settings)


def test_cells_are_means_of_records_with_the_priors_beside_them():
    rows = latent_recipes("cpu")
    plan = Plan("listops_2018")
    empty = latent_cells(plan, {})
    assert all(cell["measured"] is None and cell["runs"] == 0 for cell in empty)
    score = {"accuracy": 0.99, "trees": {"f1_gold": {"value": 1.0}}, "effective_depth": [{"depth": "everything"}]}
    records = [
        {"row": ROW, "recipe": json.loads(json.dumps(recipe.plain)), "epochs": 7, "core_seconds": 60.0 * (seed + 1),
         "scores": {"test_d20s": {**score, "accuracy": 0.99 + seed / 1_000}, "lra": {"rows": 2_000, "accuracy": 0.5},
                    "arguments-10": {"rows": 500 if seed else 2_000, "accuracy": 0.8 + seed / 10}}}
        for seed, recipe in enumerate(rows[ROW][:3])
    ]  # fmt: skip
    cells = {cell["column"]: cell for cell in latent_cells(plan, {ROW: records}) if cell["row"] == ROW}
    assert {cell["priors"] for cell in cells.values()} == {PRIORS}
    assert [cells["accuracy"][key] for key in ("measured", "low", "high", "runs")] == [99.1, 99.0, 99.2, 3]
    assert cells["F1 gold"]["measured"] == 100
    assert cells["core minutes"]["measured"] == 2
    assert cells["% of runs that open everything (effective depth)"]["measured"] == 100
    assert cells["accuracy on lra"]["measured"] == 50
    assert cells["accuracy on length-900-1000"]["measured"] is None
    parts = {"": [80.0, 1], " (500 rows)": [95.0, 2]}  # earlier runs were tested on the first rows: never in one mean
    wide = {part: cells[f"accuracy on arguments-10{part}"] for part in parts}
    assert {part: [cell["measured"], cell["runs"]] for part, cell in wide.items()} == parts
    assert len(cells) == 4 + len(ELSEWHERE) + 1
    assert {cell["priors"] for cell in empty if cell["row"] == WIDE} == {PRIORS + COUNTERS}
    assert {cell["priors"] for cell in empty if cell["row"] == FORMER} == {FORMER_PRIORS} != {PRIORS}


def test_counters_and_noise_are_all_that_the_wide_row_changes():
    plain, wide = (latent_recipes("cpu")[row][0] for row in (ROW, WIDE))
    one, two = (stages_of(recipe, model_of(recipe)) for recipe in (plain, wide))
    noisy = [stage.name for stage in two if stage.settings.get("noise")]
    assert noisy == [stage.name for stage in one if "cell" not in stage.frozen]
    quiet = [{key: value for key, value in stage.settings.items() if key not in ("noise", "blur")} for stage in two]
    assert quiet == [dict(stage.settings) for stage in one]
    assert [dataclasses.replace(stage, settings={}) for stage in one] == [
        dataclasses.replace(stage, settings={}) for stage in two
    ]  # fmt: skip
    assert (dict(plain.settings), dict(wide.settings)) == ({}, {"counters": 16})
