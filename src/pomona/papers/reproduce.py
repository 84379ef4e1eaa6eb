"""Reproducing a paper: compute what is missing, go on with what was begun, set what came out beside what was printed.

    results = reproduce("listops_2018", budget="smoke")
    results["cells"][0]     {"where": "Table 1", "row": "TreeLSTM 128D", "column": "accuracy", "printed": 98.7,
                             "measured": 99.7, "deviation": ..., "low": ..., "high": ..., "runs": 4, ...}

A paper is one file in `pomona.papers` that says what was printed and how to measure it. A cell is one number of the
paper; its `measured` is the mean of the finished runs unless the paper's column says otherwise, `runs` of them, and
null while there is none: nothing is filled in. Each run leaves its predictions in its folder, so that everything can
be measured again without training. A results file that is there already keeps what this call could not measure anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, ClassVar, Literal, get_args

from pomona.base.errors import FormatError, RunError, SpecError, did_you_mean
from pomona.base.files import write_json
from pomona.base.registry import Registry
from pomona.data.corpus import Corpus
from pomona.evaluation.scoring import scores_of
from pomona.training.recipe import Recipe
from pomona.training.run import Run, environment

Budget = Literal["smoke", "cpu", "paper"]
BUDGETS: tuple[str, ...] = get_args(Budget)
Say = Callable[[str], None]
Cell = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """What is asked of a paper: which parts are trained, at which budget, where the runs are."""

    paper: str
    budget: Budget = "cpu"
    where: tuple[str, ...] = ()  # "Table 1", "Figure 3", ...; all if empty
    rows: tuple[str, ...] = ()  # all if empty
    folder: Path = Path("runs")
    threads: int = 1
    train_missing: bool = True
    say: Say = field(default=lambda text: None, repr=False, compare=False)
    known: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict, repr=False)  # row: records of old runs

    def wants(self, where: str, row: str) -> bool:
        """Whether this part may be trained now; what is finished already is measured in any case."""
        return (not self.where or where in self.where) and (not self.rows or row in self.rows)

    @property
    def home(self) -> Path:
        """The folder of this paper's runs at this budget."""
        return self.folder / self.paper / self.budget

    def cell(
        self,
        where: str,
        row: str,
        column: str,
        printed: float | str | None,
        values: Sequence[float],
        *,
        measured: float | str | None = None,
        runs: int | None = None,
    ) -> Cell:
        """One number of the paper beside ours: the mean of `values`, one for each run, unless `measured` is given."""
        if measured is None and values:
            measured = round(fmean(values), 2)
        return {
            "where": where,
            "row": row,
            "column": column,
            "printed": printed,
            "measured": measured,
            "deviation": round(stdev(values), 2) if len(values) > 1 else None,
            "low": round(min(values), 2) if values else None,
            "high": round(max(values), 2) if values else None,
            "runs": len(values) if runs is None else runs,
            "budget": self.budget,
            "command": f"pomona reproduce {self.paper} --budget {self.budget}",
        }

    def run(
        self, recipe: Recipe, name: str, tests: Mapping[str, Callable[[], Corpus]], *, train: bool = True
    ) -> Run | None:
        """The finished run of a recipe in folder `name`, with predictions and scores on every test; None if it may not
        be trained now and is not finished."""
        folder = self.home / name
        run = Run.read(folder) if (folder / "recipe.json").exists() else None
        if run is not None and run.recipe != recipe:
            raise RunError(f"{folder} holds a run of another recipe; move it away, or name another folder for the runs")
        if run is None or not run.finished:
            if not (train and self.train_missing):
                return None
            self.say(f"training {folder}")
            from pomona.training.loop import train as run_training

            run = run_training(recipe, folder, threads=self.threads)
        self._answer(run, tests)
        return run

    def _answer(self, run: Run, tests: Mapping[str, Callable[[], Corpus]]) -> None:
        missing = [name for name in tests if name not in run.scores]
        if not missing:
            return
        from pomona.training.data import corpora
        from pomona.training.predict import predict

        made = corpora(run.recipe)  # a test split is held out only from the examples that its own generator trains on
        run.check_data({"train": made[0].fingerprint, "dev": made[1].fingerprint})
        for name in missing:
            corpus = tests[name]()
            predictions = predict(run, corpus, threads=self.threads)
            run.add_predictions(name, predictions)
            run.add_scores(name, scores_of(corpus, predictions))
        scored = ", ".join(f"{name} {run.scores[name]['accuracy']:.4f}" for name in tests)
        self.say(f"{run.folder}: dev {run.summary['dev']:.4f}, {scored}")


@dataclass(frozen=True)
class Paper:
    """A paper: what it printed, and how each number is measured here."""

    name: ClassVar[str]
    title: ClassVar[str]
    places: ClassVar[tuple[str, ...]]  # the tables, figures and experiments that can be asked for

    def measure(self, plan: Plan) -> dict[str, Any]:
        """`cells`, and whatever else a reader needs; all plain JSON values."""
        raise NotImplementedError(f"{type(self).__name__} must define measure(plan)")


PAPERS: Registry[Paper] = Registry("paper", "pomona.papers")


def reproduce(
    paper: str,
    *,
    budget: Budget = "cpu",
    where: Sequence[str] = (),
    rows: Sequence[str] = (),
    folder: str | Path = "runs",
    out: str | Path | None = None,
    threads: int = 1,
    train_missing: bool = True,
    say: Say = lambda text: None,
) -> dict[str, Any]:
    """The cells of a paper's tables and figures; `where` ("Table 1", ...) and `rows` limit what is trained now."""
    if budget not in BUDGETS:
        raise SpecError(f"no budget is called {budget!r}. {did_you_mean(budget, BUDGETS)}")
    chosen = PAPERS.build(paper)
    for place in where:
        if place not in chosen.places:
            raise SpecError(f"{paper} has no {place!r}. {did_you_mean(place, chosen.places)}")
    before = _read(out)
    if before.get("paper", chosen.title) != chosen.title:
        raise FormatError(f"{out} holds results of {before['paper']!r}, not of {paper}; name another file")
    records = [record for record in before.get("runs", []) if record.get("budget", "cpu") == budget]
    known = {row: [record for record in records if record["row"] == row] for row in {one["row"] for one in records}}
    plan = Plan(paper, budget, tuple(where), tuple(rows), Path(folder), threads, train_missing, say, known)
    found = chosen.measure(plan)
    there = {cell["row"] for cell in found["cells"]}
    for row in rows:
        if row not in there:
            raise SpecError(f"{paper} has no row {row!r}. {did_you_mean(row, sorted(there))}")
    results = {"paper": chosen.title, "environment": environment(threads=threads), **found}
    results["cells"] = _kept_cells(before.get("cells", []), results["cells"])
    mine = [{**record, "budget": budget} for record in results.get("runs", [])]
    again = {_mark(record) for record in mine}
    results["runs"] = [*mine, *(record for record in before.get("runs", []) if _mark(record) not in again)]
    for name in before.keys() - {"paper", "environment", "cells", "runs"}:
        results[name] = _kept(before[name], results.get(name))
    if out is not None:
        write_json(out, results)
    return results


def slug(row: str, seed: int) -> str:
    """The folder of a run: `TreeLSTM 128D` with seed 2 is `treelstm-128d-2`."""
    return f"{row.lower().replace(' ', '-')}-{seed}"


def _read(out: str | Path | None) -> dict[str, Any]:
    if out is None or not Path(out).exists():
        return {}
    try:
        found = json.loads(Path(out).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FormatError(f"{out} is there and cannot be read as results: {error}. Move it away.") from None
    parts = {"cells": ("where", "row", "column", "measured", "budget"), "runs": ("row",)}
    if not isinstance(found, dict) or not all(_records(found.get(name, []), needed) for name, needed in parts.items()):
        raise FormatError(f"{out} is there and is no file of results: its cells are not ours. Move it away.")
    return found


def _records(part: Any, needed: tuple[str, ...]) -> bool:
    """Whether this is a list of objects that have what is needed."""
    return isinstance(part, list) and all(isinstance(one, dict) and set(needed) <= one.keys() for one in part)


def _kept_cells(before: list[Cell], now: list[Cell]) -> list[Cell]:
    """What was measured now, and what was measured before and could not be measured now."""
    old = {_place(cell): cell for cell in before if cell["measured"] is not None}
    made = [old.pop(_place(cell), cell) if cell["measured"] is None else cell for cell in now]
    here = {_place(cell) for cell in now}
    return made + [cell for place, cell in old.items() if place not in here]


def _kept(before: Any, now: Any) -> Any:
    """A section as it is now, or as it was if there is nothing now; one of several parts is so part by part."""
    if isinstance(before, dict) and isinstance(now, dict) and all(isinstance(part, dict) for part in before.values()):
        return {**before, **{name: part for name, part in now.items() if part or name not in before}}
    return now or before


def _mark(record: Mapping[str, Any]) -> tuple[str, ...]:
    """What a record of a run is of."""
    seed = record.get("recipe", {}).get("seed")
    return tuple(str(one) for one in (record.get("budget", "cpu"), record["row"], record.get("column"), seed))


def _place(cell: Cell) -> tuple[str, ...]:
    return tuple(str(cell[key]) for key in ("where", "row", "column", "budget"))
