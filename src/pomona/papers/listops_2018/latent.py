"""What the paper asks for in the end, a latent tree model that succeeds: `shift_reduce`, its reach and its ablations.

The model is given sentences and answers. What it is told besides (`PRIORS`) stands beside every number. Training is as
for the paper's models: 90,000 expressions without those of the test file. It is then tested on that file, and on
longer, wider and deeper ListOps. An ablation leaves the last stage out, as does the row that it is compared with.
`FORMER` has the stages that the model had at first. `WIDE` is today's model with counters in its cell and noise on its
nodes, for lists of more arguments than in training.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from typing import Any

from pomona.data.corpus import Corpus
from pomona.data.task import generate
from pomona.papers.listops_2018.recipes import held_out, test_set
from pomona.papers.records import Record, joined, recipe_key
from pomona.papers.reproduce import Budget, Cell, Plan, slug
from pomona.training.recipe import Recipe
from pomona.training.run import Run

WHERE = "latent"
ROW = "Shift-reduce 64D"
FORMER = f"{ROW}, beginnings not kept apart, shorter last stage"
SHORT = f"{ROW}, without the last stage"
WIDE = f"{ROW}, counters and noise"
PRIORS = (
    "stage 1 composes flat sentences of 4 to 6 tokens from left to right, and keeps beginnings apart from answers; the "
    "answer v is tied to the token v; lengths grow from stage to stage. No tree, no value of a node and no meaning "
    "of a bracket is given."
)
FORMER_PRIORS = PRIORS.replace(", and keeps beginnings apart from answers", "")
EXCEPT = " This row is told all of that but for what its name says."
COUNTERS = " Every vector has 16 counters, which add up along left children."
ELSEWHERE = (
    *(f"length-{low}-{low + 100}" for low in range(200, 1_000, 100)),
    "arguments-10", "arguments-15", "lra",
    "depth-generalisation", "depth-generalisation-50", "depth-generalisation-100", "dependency-balanced",
)  # fmt: skip

WHOLE = 2_000  # rows of each of these test sets

_STAGES = ("flat", "parser", "both to 12", "both to 20")  # all but the last
_FORMER: dict[str, dict[str, Any]] = {"flat": {"settings": {"apart": 0.0}}, "own trees": {"steps": 1_200}}
_NOISY = ("flat", *_STAGES[2:], "own trees")  # wherever the cell learns


def _former() -> tuple[dict[str, Any], ...]:
    """The stages that the model had at first."""
    return tuple({"name": name, **_FORMER.get(name, {})} for name in (*_STAGES, "own trees"))


def _noisy(noise: float) -> tuple[dict[str, Any], ...]:
    """Today's stages, with noise on every node."""
    stages = (*_STAGES, "own trees")
    return tuple({"name": name, **({"settings": {"noise": noise}} if name in _NOISY else {})} for name in stages)


_ABLATIONS: dict[str, dict[str, Any]] = {  # what differs from SHORT
    "random trees in stage 1": {"stages": ({"name": "flat", "settings": {"trees": "random"}}, *_STAGES[1:])},
    "beginnings not kept apart": {"stages": ({"name": "flat", **_FORMER["flat"]}, *_STAGES[1:])},
    "untied output": {"settings": {"tied": False}},
    "no growing lengths in stage 1": {"stages": ({"name": "flat", "growing": False, "steps": 1_200}, *_STAGES[1:])},
    "cell and parser together from the start": {"stages": ({"name": "both to 20", "steps": 1_600},)},
    **{
        f"{trees} trees in stage 2": {
            "stages": (_STAGES[0], {"name": "parser", "settings": {"sampled": trees}}, *_STAGES[2:])
        }
        for trees in (2, 4)
    },
}


def latent_recipes(budget: Budget) -> dict[str, list[Recipe]]:
    """The runs of each row: five seeds, three with counters, four of the former stages, and two of each ablation."""
    plain = Recipe("shift_reduce", exclude=held_out())
    short = dataclasses.replace(plain, stages=_STAGES)
    former = dataclasses.replace(plain, stages=_former())
    wide = dataclasses.replace(plain, settings={"counters": 16}, stages=_noisy(0.3))
    rows = {ROW: (plain, 5), WIDE: (wide, 3), FORMER: (former, 4), SHORT: (short, 2)}
    rows |= {f"{SHORT}, {name}": (dataclasses.replace(short, **change), 2) for name, change in _ABLATIONS.items()}
    if budget == "smoke":
        sizes = {"train": 1_500, "dev": 200, "test": 500}
        few: dict[str, Any] = {"settings": {"width": 16}, "data_settings": sizes, "dev_rows": 200, "epochs": 1}
        stages = tuple({"name": name, "steps": 5} for name in (*_STAGES, "own trees"))
        rows = {ROW: (dataclasses.replace(plain, **few, stages=stages), 2)}
    return {row: [dataclasses.replace(one, seed=seed) for seed in range(seeds)] for row, (one, seeds) in rows.items()}


def latent_runs(plan: Plan) -> dict[str, list[Run]]:
    """The finished runs of each row."""
    runs: dict[str, list[Run]] = {}
    for row, some in latent_recipes(plan.budget).items():
        for recipe in some:
            name = slug(row.replace(",", ""), recipe.seed)
            run = plan.run(recipe, name, _tests(plan, row, recipe), train=plan.wants(WHERE, row))
            if run is not None:
                runs.setdefault(row, []).append(run)
    return runs


def shortened(entry: Record) -> Record:
    """A record whose scores on other tests than the paper's are rows and accuracy alone: there are many of them."""
    kept = ("rows", "accuracy", "interval")
    scores = {
        name: {key: found[key] for key in (kept if name in ELSEWHERE else found) if key in found}
        for name, found in entry["scores"].items()
    }
    return {**entry, "scores": scores}


def _tests(plan: Plan, row: str, recipe: Recipe) -> dict[str, Callable[[], Corpus]]:
    tests: dict[str, Callable[[], Corpus]] = {"test_d20s": lambda: test_set(recipe)}
    if row in (ROW, FORMER, WIDE) and plan.budget != "smoke":
        tests |= {name: partial(_elsewhere, name) for name in ELSEWHERE}
    return tests


@cache
def _elsewhere(name: str) -> Corpus:
    """The test split of another preset (2,000 rows); it is drawn once for all seeds."""
    return generate(f"listops/{name}", "test", 0)


def latent_cells(plan: Plan, now: Mapping[str, list[Record]]) -> list[Cell]:
    """The cells of the experiment, from these records and earlier ones."""
    cells = []
    for row, planned in latent_recipes(plan.budget).items():
        records = joined(plan.known.get(row, []), planned, now.get(row, []))
        known = {
            "recipe": recipe_key(planned[0]),
            "weights": f"best of {max((entry['epochs'] for entry in records), default=0)} looks at dev",
            "priors": _priors(row),
        }
        for column, values in _columns(row, records).items():
            cells.append({**plan.cell(WHERE, row, column, None, values), **known})
    return cells


def _priors(row: str) -> str:
    if row == FORMER:
        return FORMER_PRIORS
    return PRIORS + COUNTERS * (row == WIDE) + EXCEPT * (row not in (ROW, WIDE, SHORT))


def _columns(row: str, records: Iterable[Record]) -> dict[str, list[float]]:
    """The numbers of every run, by column. Accuracy and F1 are percentages."""
    records = list(records)

    def of_test(name: str, *path: str) -> list[float]:
        found = [entry["scores"].get(name) for entry in records]
        for key in path:
            found = [part[key] if part else None for part in found]
        return [100 * float(value) for value in found if value is not None]

    columns = {
        "accuracy": of_test("test_d20s", "accuracy"),
        "F1 gold": of_test("test_d20s", "trees", "f1_gold", "value"),
        "core minutes": [entry["core_seconds"] / 60 for entry in records],
    }
    if row in (ROW, FORMER, WIDE):
        depths = [entry["scores"]["test_d20s"]["effective_depth"][0]["depth"] for entry in records]
        opens = [100.0 * (depth == "everything") for depth in depths]
        columns["% of runs that open everything (effective depth)"] = opens
        for name in ELSEWHERE:
            columns |= _by_rows(name, [entry["scores"][name] for entry in records if name in entry["scores"]])
    return columns


def _by_rows(name: str, scores: Iterable[Record]) -> dict[str, list[float]]:
    """The accuracies on the whole of a test set, and apart from them those of earlier runs, on its first rows."""
    columns: dict[str, list[float]] = {f"accuracy on {name}": []}
    for found in scores:
        part = "" if found["rows"] == WHOLE else f" ({found['rows']} rows)"
        columns.setdefault(f"accuracy on {name}{part}", []).append(100 * found["accuracy"])
    return columns
