"""Reproducing a paper: train what is missing, resume what was begun, and put our numbers beside the printed ones.

    results = reproduce("listops_2018", budget="smoke")
    results["cells"][0]     {"where": "Table 1", "row": "TreeLSTM 128D", "column": "accuracy", "printed": 98.7,
                             "measured": 99.7, "deviation": ..., "low": ..., "high": ..., "runs": 4, ...}

A paper is one file in `pomona.papers` that says what was printed and how to measure it. A cell is one number of the
paper. Its `measured` is the mean over the finished runs (`runs` of them) unless the paper's column says otherwise, and
null while there are none: nothing is filled in. Each run keeps its predictions and their evaluation in its folder, so
that everything can be measured again without training. An existing results file keeps what this call could not measure;
a number that is kept from another recipe than today's is marked `older_recipe`. `records` joins earlier runs with new
ones, and `claims` says what the numbers mean for each claim of the paper.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, ClassVar, Literal, TypedDict, Unpack, get_args

from pomona.base.errors import FormatError, RunError, SpecError, did_you_mean
from pomona.base.files import read_json, write_json
from pomona.base.registry import Registry
from pomona.base.shapes import ANYTHING, COUNT, NUMBER, TEXT, WHOLE, Each, Maybe, check
from pomona.data.corpus import Corpus
from pomona.data.sources import data_folder, has_data_file
from pomona.evaluation.measure import with_measures
from pomona.evaluation.records import keep, kept_evaluations
from pomona.evaluation.subjects import Reading, answer, evaluate_answered
from pomona.papers.claims import Claim
from pomona.papers.records import recipe_key, train_command, without_seeds
from pomona.training.recipe import Recipe
from pomona.training.run import Run, environment

Budget = Literal["smoke", "cpu", "paper"]
BUDGETS: tuple[str, ...] = get_args(Budget)
Say = Callable[[str], None]
Cell = dict[str, Any]


Tests = Mapping[str, Callable[[], Corpus]]  # by name; each is made only if a run has not been evaluated on it


class Options(TypedDict, total=False):
    """What `reproduce` is told about a paper, with the defaults of Plan."""

    budget: Budget
    where: Sequence[str]
    rows: Sequence[str]
    folder: str | Path
    threads: int
    train_missing: bool
    say: Say


@dataclass(frozen=True)
class Plan:
    """Which parts of a paper are trained, at which budget, and where the runs are."""

    paper: str
    budget: Budget = "cpu"
    where: Sequence[str] = ()  # "Table 1", "Figure 3", ...; all if empty
    rows: Sequence[str] = ()  # all if empty
    folder: str | Path = "runs"
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
        return Path(self.folder) / self.paper / self.budget

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
        self, recipe: Recipe, name: str, tests: Tests, *, train: bool = True, measures: Sequence[str] = ()
    ) -> Run | None:
        """The finished run of a recipe in folder `name`, evaluated on every test with these measures; None if it is
        not finished and may not be trained now."""
        folder = self.home / name
        run = Run.read(folder) if (folder / "recipe.json").exists() else None
        if run is not None and run.recipe != recipe:
            raise RunError(f"{folder} holds a run of another recipe; move it away, or name another folder for the runs")
        if run is None or not run.finished:
            if not (train and self.train_missing):
                return None
            self.say(f"training {folder}")
            from pomona.training.checkpoints import to_extend
            from pomona.training.loop import train as run_training

            shorter = to_extend(recipe, sorted(self.home.iterdir()) if self.home.exists() else [])
            run = run_training(recipe, folder, threads=self.threads, after=shorter)
        self._evaluate(run, tests, measures)
        return run

    def _evaluate(self, run: Run, tests: Tests, measures: Sequence[str]) -> None:
        missing = [name for name in tests if name not in run.scores]
        if not missing:
            return
        from pomona.training.data import corpora

        train, dev = corpora(run.recipe)  # a test split is held out only from what its own generator trains on
        run.check_data({"train": train.fingerprint, "dev": dev.fingerprint})
        for name in missing:
            corpus = tests[name]()
            answered = answer(run, corpus, run.folder.name, Reading(threads=self.threads))
            assert answered.predictions is not None
            evaluation = with_measures(evaluate_answered(answered, corpus, ladders=False), measures)
            keep(run, name, answered.predictions, evaluation)
        scores = ", ".join(f"{name} {entry['accuracy']:.4f}" for name, entry in kept_evaluations(run).items())
        self.say(f"{run.folder}: dev {run.summary['dev']:.4f}, {scores}")


@dataclass(frozen=True)
class Paper:
    """A paper: what it printed, and how each number is measured here."""

    name: ClassVar[str]
    title: ClassVar[str]
    places: ClassVar[tuple[str, ...]]  # the tables, figures and experiments that can be asked for
    claims: ClassVar[tuple[Claim, ...]] = ()  # judged by `papers.claims`; they open the paper's page
    files: ClassVar[Mapping[str, str]] = {}  # files of the paper's data: path under the data folder, what it contains

    def measure(self, plan: Plan) -> dict[str, Any]:
        """`cells`, and whatever else a reader needs; all plain JSON values."""
        raise NotImplementedError(f"{type(self).__name__} must define measure(plan)")


PAPERS: Registry[Paper] = Registry("paper", "pomona.papers")


def reproduce(paper: str, *, out: str | Path | None = None, **options: Unpack[Options]) -> dict[str, Any]:
    """The cells of a paper's tables and figures, written to `out` as well.

    Options are fields of Plan: `budget`; `where` ("Table 1", ...) and `rows`, which limit what is trained now; `folder`
    of the runs; `threads`; `train_missing=False` to measure only what is trained already; `say`, for progress.
    """
    plan = Plan(paper, **options)
    if plan.budget not in BUDGETS:
        raise SpecError(f"no budget is called {plan.budget!r}. {did_you_mean(plan.budget, BUDGETS)}")
    chosen = PAPERS.build(paper)
    for where in plan.where:
        if where not in chosen.places:
            raise SpecError(f"{paper} has no {where!r}. {did_you_mean(where, chosen.places)}")
    before = _read(out)
    if before.get("paper", chosen.title) != chosen.title:
        raise FormatError(f"{out} holds results of {before['paper']!r}, not of {paper}; name another file")
    missing = missing_files(paper)
    for path, content in missing.items():
        plan.say(
            f"{path} is not here: {content}. Put it at {data_folder() / path}, or set POMONA_DATA to the folder that "
            "has it. Until then our own test split stands in for it, and the results are shown but not kept."
        )
    measured = chosen.measure(dataclasses.replace(plan, known=_known(before, plan.budget)))
    known_rows = {cell["row"] for cell in measured["cells"]}
    for row in plan.rows:
        if row not in known_rows:
            raise SpecError(f"{paper} has no row {row!r}. {did_you_mean(row, sorted(known_rows))}")
    now = environment(threads=plan.threads)
    where_measured = now if plan.train_missing else before.get("environment", now)  # without training, as it was
    results = {"paper": chosen.title, "environment": where_measured, **measured}
    results = _merged(before, results, plan.budget)
    if out is not None and not missing:
        write_json(out, results)
    return results


def missing_files(paper: str) -> dict[str, str]:
    """The files of a paper's data that are not there, and what each contains."""
    files = PAPERS.entry(paper)[0].kind.files
    return {path: content for path, content in files.items() if not has_data_file(path)}


def _known(before: Mapping[str, Any], budget: str) -> dict[str, list[dict[str, Any]]]:
    """The records of earlier runs at this budget, by row."""
    known: dict[str, list[dict[str, Any]]] = {}
    for record in before.get("runs", []):
        if record.get("budget", "cpu") == budget:
            known.setdefault(record["row"], []).append(record)
    return known


def _merged(before: Mapping[str, Any], now: Mapping[str, Any], budget: str) -> dict[str, Any]:
    """Results of now, with what was measured before and could not be measured now."""
    results = dict(now)
    results["cells"] = _kept_cells(before.get("cells", []), now["cells"])
    records = [{**record, "budget": budget} for record in now.get("runs", [])]
    again = {_mark(record) for record in records}
    results["runs"] = [*records, *(record for record in before.get("runs", []) if _mark(record) not in again)]
    results["recipes"] = _commands(results["runs"])
    for name in before.keys() - {"paper", "environment", "cells", "runs", "recipes"}:
        results[name] = _kept(before[name], results.get(name))
    return results


def _commands(records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The command that trains each recipe, by the key that cells carry; seeds are left out."""
    commands = {}
    for record in records:
        if {"model", "data"} <= record.get("recipe", {}).keys():
            recipe = Recipe.from_settings(record["recipe"])
            commands[recipe_key(recipe)] = train_command(without_seeds(recipe))
    return commands


def slug(row: str, seed: int) -> str:
    """The folder of a run: `TreeLSTM 128D` with seed 2 is `treelstm-128d-2`."""
    return f"{row.lower().replace(' ', '-')}-{seed}"


def _read(out: str | Path | None) -> dict[str, Any]:
    if out is None or not Path(out).exists():
        return {}
    try:
        results = check(read_json(out), _RESULTS)
        for number, record in enumerate(results.get("runs", [])):
            _readable_recipe(record, number)
    except (FormatError, SpecError) as error:
        raise FormatError(f"{out} is there and cannot be read as results: {error}. Move it away.") from None
    return dict(results)


_CELL = {
    "where": TEXT, "row": TEXT, "column": TEXT, "budget": TEXT, "measured": Maybe(NUMBER), "runs?": COUNT,
    "recipe?": Maybe(TEXT),
}  # fmt: skip
_RECORD = {
    "row": TEXT, "budget?": TEXT, "recipe?": Each(ANYTHING), "column?": Maybe(TEXT), "epochs?": COUNT,
    "best_epoch?": WHOLE, "train_rows?": COUNT, "dev_curve?": Maybe([NUMBER]), "dev?": NUMBER,
}  # fmt: skip
_RESULTS = {"paper?": TEXT, "cells?": [_CELL], "runs?": [_RECORD]}


def _readable_recipe(record: Mapping[str, Any], number: int) -> None:
    """An error if a record has a recipe that cannot be read: found before the training, not when it is over."""
    if {"model", "data"} <= record.get("recipe", {}).keys():
        try:
            Recipe.from_settings(record["recipe"])
        except SpecError as error:
            raise FormatError(f"runs[{number}].recipe: {error}") from None


def _kept_cells(before: list[Cell], now: list[Cell]) -> list[Cell]:
    """What was measured now, and what was measured before and could not be measured now, or from fewer runs."""
    old = {_place(cell): cell for cell in before if cell["measured"] is not None}
    here = {_place(cell) for cell in now}
    cells = [_newer(old.get(_place(cell)), cell) for cell in now]
    return cells + [cell for place, cell in old.items() if place not in here]


def _newer(before: Cell | None, now: Cell) -> Cell:
    """Which of two cells of one number stands. An earlier one whose recipe is no longer the planned one is marked."""
    if before is None:
        return now
    same = before.get("recipe") == now.get("recipe")
    fewer = now["measured"] is not None and same and "recipe" in now and before["runs"] > now["runs"]
    if now["measured"] is not None and not fewer:
        return now
    kept = {name: value for name, value in before.items() if name != "older_recipe"}
    return kept if same or "recipe" not in now else {**kept, "older_recipe": True}


def _kept(before: Any, now: Any) -> Any:
    """A section as it is now, or as it was if there is nothing now; a section of several parts, part by part."""
    if isinstance(before, dict) and isinstance(now, dict) and all(isinstance(part, dict) for part in before.values()):
        return {**before, **{name: part for name, part in now.items() if part or name not in before}}
    return now or before


def _mark(record: Mapping[str, Any]) -> tuple[str, ...]:
    """What tells a record of a run from the others."""
    seed = record.get("recipe", {}).get("seed")
    return tuple(str(part) for part in (record.get("budget", "cpu"), record["row"], record.get("column"), seed))


def _place(cell: Cell) -> tuple[str, ...]:
    return tuple(str(cell[key]) for key in ("where", "row", "column", "budget"))
