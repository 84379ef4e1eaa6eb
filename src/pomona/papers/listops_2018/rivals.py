"""Other models that find their own trees, beside `shift_reduce` in the experiment `latent`: Ordered Memory, beam tree.

They are trained in our harness with a budget of minutes on one core, not of days on a GPU: what a cell says is how far
they come with the examples that it names (`seen`), not what they can reach. Both have the width of `shift_reduce`, and
of its priors they are given one, growing lengths, or two, the tie of answers to words (`priors`). Test sets are those
of `latent`, fewer rows of each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

from pomona.data.corpus import Corpus
from pomona.data.task import generate
from pomona.papers.listops_2018.latent import ELSEWHERE, WHERE
from pomona.papers.listops_2018.recipes import held_out, test_set
from pomona.papers.records import Record, joined, recipe_key, rising
from pomona.papers.reproduce import Budget, Cell, Plan, slug
from pomona.training.recipe import Recipe
from pomona.training.run import Run

FEWER = 100  # rows of the test sets of other distributions


def _lengths(to_6: int, to_12: int, to_20: int, to_50: int) -> tuple[dict[str, Any], ...]:
    """Stages of growing lengths, with their steps (the most of the first)."""
    usual = {"batch": 128, "rate": 2e-3, "clip": 1.0}
    return (
        {"name": "to 6", "shortest": 4, "longest": 6, "growing": True, "steps": to_6, "epochs": 100, "warmup": 100,
         **usual, "batch": 64},
        {"name": "to 12", "longest": 12, "steps": to_12, **usual},
        {"name": "to 20", "longest": 20, "steps": to_20, **usual},
        {"name": "to 50", "longest": 50, "steps": to_50, "look": to_50 // 2, "schedule": "linear", **usual},
    )  # fmt: skip


TIED = ", answers tied to words"
_SHORT = {
    "Ordered Memory 64D": ("ordered_memory", _lengths(2_500, 400, 200, 200)),
    "Beam tree 64D": ("beam_tree", _lengths(2_000, 300, 200, 250)),
}
ROWS: dict[str, tuple[str, dict[str, Any], tuple[dict[str, Any], ...]]] = {
    **{row: (model, {}, stages) for row, (model, stages) in _SHORT.items()},
    **{row + TIED: (model, {"tied": True}, stages) for row, (model, stages) in _SHORT.items()},
    "Beam tree 64D, trained longer": ("beam_tree", {}, _lengths(2_000, 1_000, 1_000, 1_500)),
}


def rival_recipes(budget: Budget) -> dict[str, Recipe]:
    """The run of each row. A smoke test has none: to answer the paper's test file alone would take half its time."""
    if budget == "smoke":
        return {}
    return {
        row: Recipe(model, {"width": 64, **settings}, exclude=held_out(), dev_rows=1_000, stages=stages)
        for row, (model, settings, stages) in ROWS.items()
    }


def priors(recipe: Recipe) -> str:
    """What a model is told."""
    tie = "the answer v is tied to the token v" if recipe.settings.get("tied") else "answers are not tied to tokens"
    return (
        f"lengths grow from stage to stage; {tie}. No tree, no order of composition, no value of a node and no meaning "
        "of a bracket is given."
    )


def rival_runs(plan: Plan) -> dict[str, list[Run]]:
    """The finished runs of each row."""
    runs = {}
    for row, recipe in rival_recipes(plan.budget).items():
        tests: dict[str, Callable[[], Corpus]] = {"test_d20s": partial(test_set, recipe)}
        tests |= {name: partial(_elsewhere, name) for name in ELSEWHERE}
        run = plan.run(recipe, slug(row.replace(",", ""), recipe.seed), tests, train=plan.wants(WHERE, row))
        if run is not None:
            runs[row] = [run]
    return runs


@cache
def _elsewhere(name: str) -> Corpus:
    """The first rows of the test split of another preset."""
    corpus: Corpus = generate(f"listops/{name}", "test", 0)[:FEWER]
    return corpus


def rival_cells(plan: Plan, now: Mapping[str, list[Record]]) -> list[Cell]:
    """The cells of these rows, from these records and earlier ones."""
    cells = []
    for row, recipe in rival_recipes(plan.budget).items():
        records = joined(plan.known.get(row, []), [recipe], now.get(row, []))
        known = {
            "recipe": recipe_key(recipe),
            "weights": f"best of {max((entry['epochs'] for entry in records), default=0)} looks at dev",
            "seen": max(map(examples_seen, records), default=None),
            "still_rising": sum(map(rising, records)) if records else None,
            "priors": priors(recipe),
        }
        for column, values in _columns(records).items():
            cells.append({**plan.cell(WHERE, row, column, None, values), **known})
    return cells


def examples_seen(record: Record) -> int:
    """How many examples a run was trained on; its first stage ends early if all lengths are learnt."""
    first, *later = record["recipe"]["stages"]
    fixed = sum(stage["steps"] for stage in later)
    return int(first["batch"] * (record["steps"] - fixed) + sum(stage["batch"] * stage["steps"] for stage in later))


def _columns(records: list[Record]) -> dict[str, list[float]]:
    """The numbers of every run, by column. Accuracy and F1 are percentages."""
    columns = {
        "accuracy": [100 * entry["scores"]["test_d20s"]["accuracy"] for entry in records],
        "F1 gold": [100 * entry["scores"]["test_d20s"]["trees"]["f1_gold"]["value"] for entry in records],
        "core minutes": [entry["core_seconds"] / 60 for entry in records],
        "thousands of examples seen": [examples_seen(entry) / 1_000 for entry in records],
        "% of runs whose accuracy on dev still rose": [100.0 * rising(entry) for entry in records],
    }
    for name in ELSEWHERE:
        found = [entry["scores"][name] for entry in records if name in entry["scores"]]
        rows = found[0]["rows"] if found else FEWER
        columns[f"accuracy on {name} ({rows} rows)"] = [100 * score["accuracy"] for score in found]
    return columns
