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
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, ClassVar, Literal, TypedDict, Unpack, get_args

from pomona.base.errors import FormatError, RunError, SpecError, did_you_mean
from pomona.base.files import write_json
from pomona.base.registry import Registry, trust
from pomona.data.corpus import Corpus
from pomona.data.sources import data_folder, has_data_file
from pomona.evaluation.measure import with_measures
from pomona.evaluation.records import keep, kept_evaluations
from pomona.evaluation.subjects import Reading, answer, evaluate_answered
from pomona.papers.claims import Claim
from pomona.papers.records import recorded
from pomona.papers.results import Cell as Cell
from pomona.papers.results import held, known_records, merged, read_results
from pomona.papers.side_by_side import Elsewhere, Leave, Work, all_pieces
from pomona.sweeps.orders import Order
from pomona.training.recipe import Recipe
from pomona.training.run import Run, environment

Budget = Literal["smoke", "cpu", "paper"]
BUDGETS: tuple[str, ...] = get_args(Budget)
Say = Callable[[str], None]


Tests = Mapping[str, Callable[[], Corpus]]  # by name; each is made only if a run has not been evaluated on it


class Options(TypedDict, total=False):
    """What `reproduce` is told about a paper, with the defaults of Plan."""

    budget: Budget
    where: Sequence[str]
    rows: Sequence[str]
    folder: str | Path
    threads: int
    train_missing: bool
    skip_recorded: bool
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
    skip_recorded: bool = False  # train no run that `known` has a record of
    say: Say = field(default=lambda text: None, repr=False, compare=False)
    leave: Leave | None = field(default=None, repr=False, compare=False)  # what becomes of missing pieces of work
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
        trained = run is not None and run.finished
        if not trained and not (train and self._may_train(recipe)):
            return None
        evaluated = run is not None and trained and all(test in run.scores for test in tests)
        if self.done(name, evaluated, partial(self._finish, recipe, folder, tests, measures)):
            return Run.read(folder)
        return None

    def _may_train(self, recipe: Recipe) -> bool:
        return self.train_missing and not (self.skip_recorded and recipe.key in self._recorded)

    @cached_property
    def _recorded(self) -> frozenset[str]:
        """The keys of the recipes that have a record."""
        return recorded(entry for some in self.known.values() for entry in some)

    def done(self, name: str, already: bool, work: Work) -> bool:
        """Whether a piece of work of this paper is done: already, or now; or it is left to another process.

        A paper does all that takes long in pieces, each of a name of its own, so that they can be done side by side.
        """
        if already:
            return True
        if self.leave is not None:
            return self.leave(name, work)
        work()
        return True

    def _finish(self, recipe: Recipe, folder: Path, tests: Tests, measures: Sequence[str]) -> None:
        """Train a run to its end, and evaluate it."""
        from pomona.training.checkpoints import to_extend
        from pomona.training.loop import train

        run = Run.read(folder) if (folder / "recipe.json").exists() else None
        shorter = None
        if run is None or not run.finished:
            self.say(f"training {folder}")
            shorter = to_extend(recipe, sorted(self.home.iterdir()) if self.home.exists() else [])
        run = train(recipe, folder, threads=self.threads, after=shorter)  # of a finished run, removes what a kill left
        self._evaluate(run, tests, measures)

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


class _PieceDone(BaseException):
    """The piece that a worker was to do is done; the rest of the paper is for others."""


@dataclass(frozen=True)
class Piece(Order):
    """One piece of a paper's work, for a worker: it goes through the paper's code and does this piece alone."""

    paper: str
    budget: Budget
    where: tuple[str, ...]
    rows: tuple[str, ...]
    folder: str
    threads: int
    modules: tuple[str, ...]
    piece: str

    @property
    def name(self) -> str:
        return self.piece.replace("/", "-")

    def do(self) -> None:
        for module in self.modules:
            trust(module)
        with suppress(_PieceDone):
            plan = Plan(self.paper, self.budget, self.where, self.rows, self.folder, self.threads, leave=self._leave)
            PAPERS.build(self.paper).measure(plan)
            raise RunError(f"{self.paper} has no piece of work {self.piece!r}; start the same command again")

    def _leave(self, name: str, work: Work) -> bool:
        if name != self.piece:
            return False
        work()
        raise _PieceDone


def reproduce(
    paper: str, *, out: str | Path | None = None, elsewhere: Elsewhere | None = None, **options: Unpack[Options]
) -> dict[str, Any]:
    """The cells of a paper's tables and figures, written to `out` as well.

    One run is trained after the other, in this process; or all that are missing side by side (`elsewhere`), with the
    same cells at the end. Of those that fail, `failed` has the errors; it is not written.

    Options are fields of Plan: `budget`; `where` ("Table 1", ...) and `rows`, which limit what is trained now; `folder`
    of the runs; `threads`; `train_missing=False` to measure only what is trained already; `skip_recorded`, to train no
    run of which `out` has a record, where the folders of earlier runs are gone; `say`, for progress.
    """
    plan = Plan(paper, **options)
    if plan.budget not in BUDGETS:
        raise SpecError(f"no budget is called {plan.budget!r}. {did_you_mean(plan.budget, BUDGETS)}")
    chosen = PAPERS.build(paper)
    for where in plan.where:
        if where not in chosen.places:
            raise SpecError(f"{paper} has no {where!r}. {did_you_mean(where, chosen.places)}")
    before = read_results(out)
    if before.get("paper", chosen.title) != chosen.title:
        raise FormatError(f"{out} holds results of {before['paper']!r}, not of {paper}; name another file")
    missing = missing_files(paper)
    for path, content in missing.items():
        plan.say(
            f"{path} is not here: {content}. Put it at {data_folder() / path}, or set POMONA_DATA to the folder that "
            "has it. Until then our own test split stands in for it, and the results are shown but not kept."
        )
    plan = dataclasses.replace(plan, known=known_records(before, plan.budget))
    measured, failed = _measured(chosen, plan, elsewhere)
    known_rows = {cell["row"] for cell in measured["cells"]}
    for row in plan.rows:
        if row not in known_rows:
            raise SpecError(f"{paper} has no row {row!r}. {did_you_mean(row, sorted(known_rows))}")
    now = environment(threads=plan.threads)
    with held(out if not missing else None):
        before = read_results(out)  # another process may have added to it meanwhile
        where_measured = now if plan.train_missing else before.get("environment", now)  # without training, as it was
        results = merged(before, {"paper": chosen.title, "environment": where_measured, **measured}, plan.budget)
        if out is not None and not missing:
            write_json(out, results)
    return {**results, "failed": failed} if failed else results


def _measured(paper: Paper, plan: Plan, elsewhere: Elsewhere | None) -> tuple[dict[str, Any], dict[str, str]]:
    """What a paper measures, and the pieces of its work that failed, if they are done side by side."""
    if elsewhere is None or not plan.train_missing:
        return paper.measure(plan), {}
    asked = (plan.paper, plan.budget, tuple(plan.where), tuple(plan.rows), str(plan.folder), plan.threads)
    return all_pieces(
        lambda leave: paper.measure(dataclasses.replace(plan, leave=leave)),
        lambda piece: Piece(*asked, elsewhere.modules, piece),
        plan.home,
        elsewhere,
        plan.say,
    )


def missing_files(paper: str) -> dict[str, str]:
    """The files of a paper's data that are not there, and what each contains."""
    files = PAPERS.entry(paper)[0].kind.files
    return {path: content for path, content in files.items() if not has_data_file(path)}


def slug(row: str, seed: int) -> str:
    """The folder of a run: `TreeLSTM 128D` with seed 2 is `treelstm-128d-2`."""
    return f"{row.lower().replace(' ', '-')}-{seed}"
