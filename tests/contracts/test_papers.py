"""What every paper must do, whatever it is: a new file in `pomona.papers` is tested here without a line more."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest

from pomona.base.errors import SpecError
from pomona.cli import catalogue
from pomona.data.task import TASKS
from pomona.models.model import MODELS
from pomona.papers.claims import UNDECIDED, Verdict, judged
from pomona.papers.reproduce import BUDGETS, PAPERS, Plan, reproduce
from pomona.reports.inputs import checked_results
from pomona.training.recipe import Recipe
from pomona.training.run import Run

ROOT = Path(__file__).parents[2]
ENTRIES = {entry.name: entry for entry in PAPERS.entries()}
CELL = {"where", "row", "column", "printed", "measured", "deviation", "low", "high", "runs", "budget", "command"}
EMPTY = ROOT / "nowhere"  # a folder without runs


class Asked(Plan):
    """A plan that trains nothing and remembers what would be trained, and into which folder."""

    def run(self, recipe: Recipe, name: str, tests: Any, **how: Any) -> Run | None:
        PLANNED.setdefault((self.paper, self.budget), []).append((name, recipe))
        return None


PLANNED: dict[tuple[str, str], list[tuple[str, Recipe]]] = {}


@cache
def measured(paper: str, budget: str) -> dict[str, Any]:
    """What a paper gives where nothing was trained."""
    return PAPERS.build(paper).measure(Asked(paper, budget, folder=EMPTY, train_missing=False))  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def with_data(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POMONA_DATA", str(data_folder))


def numbers(cell: Mapping[str, Any]) -> Iterator[Any]:
    yield from (cell[key] for key in ("printed", "measured", "deviation", "low", "high"))


@pytest.mark.parametrize("paper", ENTRIES)
def test_an_entry_says_what_it_is(paper: str) -> None:
    entry = ENTRIES[paper]
    assert entry.about.endswith(".")
    assert entry.kind.title
    assert len(set(entry.kind.places)) == len(entry.kind.places) > 0
    assert catalogue.listing("papers")[paper]["places"] == list(entry.kind.places)
    for option, words in ({"where": ["Table 99"]}, "'Table 99'"), ({"budget": "none"}, "no budget is called 'none'"):
        with pytest.raises(SpecError, match=words):
            reproduce(paper, folder=EMPTY, train_missing=False, **option)  # type: ignore[arg-type]


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("paper", ENTRIES)
def test_cells_are_well_formed_and_nothing_is_filled_in(paper: str, budget: str) -> None:
    found = measured(paper, budget)
    cells = checked_results(json.loads(json.dumps(found, allow_nan=False)), Path(paper))["cells"]
    keys = [(cell["where"], cell["row"], cell["column"]) for cell in cells]
    assert len(set(keys)) == len(keys) > 0
    for cell in cells:
        assert cell.keys() >= CELL
        assert cell["where"] in ENTRIES[paper].kind.places
        assert cell["budget"] == budget
        assert cell["command"].startswith(f"pomona reproduce {paper}")
        assert all(isinstance(one, str) or one is None or math.isfinite(one) for one in numbers(cell))
        if cell["runs"] == 0 and cell["measured"] is not None:  # a constant of the data, which needs no run
            assert cell["deviation"] is None
    assert any(cell["printed"] is not None for cell in cells)
    assert not EMPTY.exists()


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("paper", ENTRIES)
def test_plans_are_valid_recipes_in_folders_of_their_own(paper: str, budget: str) -> None:
    measured(paper, budget)
    planned = PLANNED.get((paper, budget), [])
    folders = [name for name, _ in planned]
    assert len(set(folders)) == len(folders)
    assert planned or paper == "tre_2019"  # whose experiments are no recipes
    models: set[str] = set()
    for name, recipe in planned:
        assert Path(name).name == name
        assert Recipe.from_settings(json.loads(json.dumps(recipe.plain))) == recipe
        task = TASKS.build(recipe.data, recipe.data_settings)
        assert {"train", "dev"} <= task.sizes.keys()
        assert recipe.rows is None or recipe.rows <= task.sizes["train"]
        marked = json.dumps([recipe.model, dict(recipe.settings)], sort_keys=True)
        if marked not in models:
            models.add(marked)
            MODELS.build(recipe.model, recipe.settings)
    if budget == "smoke":
        for _, recipe in planned:
            rows = recipe.rows or TASKS.build(recipe.data, recipe.data_settings).sizes["train"]
            assert recipe.epochs * rows < 10_000


@pytest.mark.parametrize("paper", ENTRIES)
def test_the_results_file_speaks_of_known_cells(paper: str) -> None:
    path = ROOT / "results" / f"{paper}.json"
    if not path.exists():
        pytest.skip("nothing was measured yet")
    results = json.loads(path.read_text(encoding="utf-8"))
    checked_results(results, path)
    assert results["paper"] == ENTRIES[paper].kind.title
    known = {(cell["where"], cell["row"], cell["column"]): cell["printed"] for cell in measured(paper, "cpu")["cells"]}
    for cell in results["cells"]:
        assert cell["where"] in ENTRIES[paper].kind.places
        key = cell["where"], cell["row"], cell["column"]
        if key in known:
            assert cell["printed"] == known[key], key  # what was printed does not change
    there = {(cell["where"], cell["row"], cell["column"]) for cell in results["cells"]}
    assert {key for key, printed in known.items() if printed is not None} <= there  # measured or not, each is there
    for record in results.get("runs", []):
        if "recipe" in record:
            Recipe.from_settings(record["recipe"])  # still readable


@pytest.mark.parametrize("paper", ENTRIES)
def test_a_results_file_is_written_and_kept(paper: str, tmp_path: Path) -> None:
    ask: dict[str, Any] = {"budget": "smoke", "folder": tmp_path / "runs", "train_missing": False}
    first = reproduce(paper, out=tmp_path / "results.json", **ask)
    assert json.loads((tmp_path / "results.json").read_text()) == first
    again = reproduce(paper, out=tmp_path / "results.json", **ask)
    assert again["cells"] == first["cells"]


@pytest.mark.parametrize("paper", ENTRIES)
def test_every_claim_has_a_verdict_its_reason_and_a_command(paper: str) -> None:
    kind = ENTRIES[paper].kind
    path = ROOT / "results" / f"{paper}.json"
    committed = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"cells": []}
    assert len({claim.says for claim in kind.claims}) == len(kind.claims)
    for claim in kind.claims:
        assert claim.where in kind.places
    for row in judged(kind, committed):
        assert row["verdict"] in get_args(Verdict)
        assert row["reason"].endswith(".")
        assert row["printed"]
        assert row["ours"]
    assert all(row["verdict"] == UNDECIDED for row in judged(kind, {"cells": []}))  # no number, no decision
