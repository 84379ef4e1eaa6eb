"""Other models of the experiment `latent`: recipes that tell them nothing but lengths, and how far they came."""

from __future__ import annotations

import json

import pytest

from pomona.papers.listops_2018.latent import ELSEWHERE, latent_recipes
from pomona.papers.listops_2018.rivals import ROWS, examples_seen, priors, rival_cells, rival_recipes
from pomona.papers.reproduce import Plan
from pomona.training.checkpoints import model_of
from pomona.training.staging import stages_of


@pytest.mark.parametrize("budget", ["cpu", "paper"])
def test_every_row_is_another_model_in_stages_without_the_test_file(budget):
    recipes = rival_recipes(budget)
    assert not recipes.keys() & latent_recipes(budget).keys()
    assert {recipe.model for recipe in recipes.values()} == {"ordered_memory", "beam_tree"}
    for recipe in recipes.values():
        stages = stages_of(recipe, model_of(recipe))
        assert [stage.longest for stage in stages] == [6, 12, 20, 50]
        assert not any(stage.settings or stage.frozen for stage in stages)  # nothing but lengths is told
        assert recipe.exclude == ("listops/test_d20s.tsv",)
        tied = recipe.settings.get("tied", False)
        assert ("the answer v is tied to the token v" if tied else "answers are not tied") in priors(recipe)
        assert recipe.settings.keys() - {"tied"} == {"width"}


def test_cells_say_what_was_seen_and_whether_dev_still_rose():
    empty = rival_cells(Plan("listops_2018"), {})
    assert all(cell["measured"] is None and cell["seen"] is None and cell["still_rising"] is None for cell in empty)
    row, recipe = next(iter(rival_recipes("cpu").items()))
    score = {"accuracy": 0.7, "trees": {"f1_gold": {"value": 0.25}}}
    entry = {
        "row": row, "recipe": json.loads(json.dumps(recipe.plain)), "epochs": 5, "steps": 2_000 + 400 + 200 + 200,
        "core_seconds": 300.0, "dev_curve": [0.3, 0.5, 0.6, 0.65, 0.7], "best_epoch": 4,
        "scores": {"test_d20s": score, "lra": {"accuracy": 0.5, "rows": 60}},
    }  # fmt: skip
    assert examples_seen(entry) == 2_000 * 64 + 800 * 128
    cells = {cell["column"]: cell for cell in rival_cells(Plan("listops_2018"), {row: [entry]}) if cell["row"] == row}
    assert {cell["priors"] for cell in cells.values()} == {priors(recipe)}
    assert {(cell["seen"], cell["still_rising"]) for cell in cells.values()} == {(230_400, 1)}
    assert cells["accuracy"]["measured"] == 70
    assert cells["F1 gold"]["measured"] == 25
    assert cells["core minutes"]["measured"] == 5
    assert cells["% of runs whose accuracy on dev still rose"]["measured"] == 100
    assert cells["accuracy on lra (60 rows)"]["measured"] == 50
    assert cells["accuracy on length-900-1000 (100 rows)"]["measured"] is None
    assert len(cells) == 5 + len(ELSEWHERE)
    assert len(ROWS) == len({cell["row"] for cell in empty})
