"""The ListOps paper: recipes are those of the recorded runs; which run a table shows; what the numbers decide."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pomona.data.task import generate
from pomona.evaluation.parse_f1 import parse_f1
from pomona.papers.claims import NOT_REPRODUCED, REPRODUCED, UNDECIDED, Measured
from pomona.papers.listops_2018 import paper
from pomona.papers.listops_2018 import recipes as paper_recipes
from pomona.papers.listops_2018.paper import best_on_dev
from pomona.papers.listops_2018.recipes import ROWS, agreement, recipes
from pomona.papers.listops_2018.verdicts import CLAIMS
from pomona.papers.reproduce import Plan, slug
from pomona.training.recipe import Recipe
from pomona.training.run import Run

RESULTS = Path(__file__).parents[2] / "results" / "listops_2018.json"


def test_the_run_with_the_highest_dev_accuracy_is_the_best(tmp_path):
    runs = []
    for seed, dev in enumerate((0.5, 0.9, 0.7)):
        run = Run.open(tmp_path / str(seed), Recipe("lstm", seed=seed))
        run.write("summary.json", {"best_epoch": 0, "dev": dev})
        runs.append(run)
    assert best_on_dev(runs) is runs[1]
    assert best_on_dev(runs[::-1]) is runs[1]


RECORDED = [row for row in ROWS if row != "LSTM 1024D"]  # its run was made with fewer epochs


@pytest.mark.parametrize("row", RECORDED)
def test_recipes_are_those_of_the_recorded_runs(row):
    """The records are from the time of the list `fidelity`: a run begun then must be found again."""
    records = [record["recipe"] for record in json.loads(RESULTS.read_text())["runs"] if record["row"] == row]
    assert records
    assert all(Recipe.from_settings(record) in recipes("cpu")[row] for record in records)


# -- cells and claims --------------------------------------------------------------------------------------------------


class Stub:
    """A plan without runs: what is known are the records of the results file."""

    budget, where, rows = "cpu", (), ()
    cell, wants = Plan.cell, Plan.wants
    paper = "listops_2018"

    def __init__(self, records):
        self.known = records


def tables(records):
    return paper._Tables(Stub(records), None, None, {}, {})


def record_of(row, seed, accuracy, dev):
    return {"row": row, "recipe": recipes("cpu")[row][seed].plain, "dev": dev, "epochs": 12, "best_epoch": 3,
            "train_rows": 70_000, "scores": {"test_d20s": {"accuracy": accuracy, "f1_gold": accuracy / 2}}}  # fmt: skip


def test_table_1_shows_the_run_that_dev_chooses_and_mean_and_best_of_all():
    row = "ST-Gumbel 48D"
    known = {row: [record_of(row, 0, 0.5, 0.7), record_of(row, 1, 0.6, 0.6), record_of(row, 2, 0.58, 0.65)]}
    made = tables(known)
    assert made.cell("Table 1", row, "accuracy", 58.5)["measured"] == 50.0
    assert made.cell("Table 3", row, "F1 gold", 55.3)["measured"] == 25.0  # of an older record, beside the accuracy
    several = {(cell["row"], cell["column"]): cell for cell in made.several_seeds()}
    assert several[row, "mean accuracy"]["measured"] == 56.0
    assert several[row, "best accuracy"]["measured"] == 60.0
    low, high = several[row, "mean accuracy"]["interval"]
    assert low == pytest.approx(56 - 4.303 * 5.292 / 3**0.5, abs=0.01)
    assert high + low == pytest.approx(112)
    assert {name for name, _ in several} == {row}  # of the rows with more than one run
    assert several[row, "mean accuracy"]["seen"] == 12 * 70_000


def test_a_record_of_another_recipe_is_not_counted():
    row = "ST-Gumbel 48D"
    other = record_of(row, 1, 0.9, 0.9)
    other["recipe"] = {**other["recipe"], "rate": 1.0}
    assert tables({row: [record_of(row, 0, 0.5, 0.7), other]}).cell("Table 1", row, "accuracy", 58.5)["runs"] == 1


def findings(**values):
    """The verdicts on cells of Tables 2 and 3."""
    cells = []
    for place, measured in values.items():
        row, column = place.split("__")
        name = row.replace("_", " ").replace("Gumbel", "ST-Gumbel").replace("RL", "RL-SPINN")
        cells.append({"where": "Table 2", "row": name, "column": column.replace("_", " "), "printed": 50.0,
                      "measured": measured, "low": measured - 1, "high": measured + 1, "runs": 4,
                      "budget": "cpu"})  # fmt: skip
    return {claim.says: claim.judge(Measured({"cells": cells})).verdict for claim in CLAIMS}


def test_claims_of_order_and_agreement_are_judged():
    means = {"LSTM_128D__mean_accuracy": 70.0, "RL_128D__mean_accuracy": 65.0}
    says = "models that learn their trees do worse than the LSTM"
    assert findings(**means, Gumbel_128D__mean_accuracy=60.0)[says] == REPRODUCED
    assert findings(**means, Gumbel_128D__mean_accuracy=71.0)[says] == NOT_REPRODUCED
    assert findings(**means)[says] == UNDECIDED
    agree = "two runs of ST-Gumbel agree no better than random trees"
    assert findings(Gumbel_128D__self_F1=35.0, Random_Trees__self_F1=30.0)[agree] == REPRODUCED
    assert findings(Gumbel_128D__self_F1=63.0, Random_Trees__self_F1=30.0)[agree] == NOT_REPRODUCED
    assert findings()["more training data does not help the models that learn trees"] == UNDECIDED


def test_the_study_of_agreement_changes_one_thing_at_a_time():
    first, *others = agreement("cpu").values()
    assert all(len(some) == 2 for some in (first, *others))
    for some in others:
        changed = {key for key, value in some[0].plain.items() if value != first[0].plain[key]}
        assert len(changed) == 1


def test_agreement_is_measured_of_two_runs(tmp_path, monkeypatch):
    few = generate("listops/d20s", "test", 0, train=1_500, dev=200, test=500)[:40]
    monkeypatch.setattr(paper, "_few", lambda recipe: {"first_1000": lambda: few})
    monkeypatch.setattr(paper_recipes, "AGREEMENT", {"nothing changed": {}, "rate 5e-4": {"rate": 5e-4}})
    asked = Plan("listops_2018", budget="smoke", where=("agreement",), folder=tmp_path)
    cells = {cell["column"]: cell for cell in paper._agreement_cells(asked)}
    for change in ("nothing changed", "rate 5e-4"):
        names = [slug(f"agreement {change}", seed) for seed in range(2)]
        first, second = (Run.read(asked.home / name).predictions("first_1000").trees for name in names)
        assert cells[f"self F1, {change}"]["measured"] == pytest.approx(100 * parse_f1(first, second).value, abs=0.01)
        assert cells[f"accuracy, {change}"]["runs"] == 2
    elsewhere = Plan("listops_2018", budget="smoke", where=("Table 1",), folder=tmp_path / "empty")
    assert {cell["measured"] for cell in paper._agreement_cells(elsewhere)} == {None}  # nothing is trained unasked
