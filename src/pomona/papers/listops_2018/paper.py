"""ListOps: A Diagnostic Dataset for Latent Tree Learning (Nangia and Bowman, NAACL student workshop 2018).

How each number of the paper is measured here. Accuracy and F1 are percentages. `recipes` says what is trained, and
`verdicts` what the numbers mean for the paper's claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from pomona.data.corpus import Corpus
from pomona.data.task import corpus_of_trees, generate
from pomona.evaluation import parse_f1 as f1
from pomona.evaluation import random_trees
from pomona.evaluation.accuracy import answers_from
from pomona.evaluation.baselines import Baselines, learning_examples
from pomona.evaluation.records import kept_evaluations
from pomona.papers.listops_2018.latent import latent_cells, latent_runs, shortened
from pomona.papers.listops_2018.recipes import (
    AGREEING,
    DEPTHS,
    DRAWN,
    FIGURE_2,
    PRINTED,
    ROWS,
    SIZES,
    TEST,
    TREES,
    agreement,
    larger,
    own_test,
    recipes,
    test_set,
)
from pomona.papers.listops_2018.rivals import rival_cells, rival_runs
from pomona.papers.listops_2018.verdicts import CLAIMS
from pomona.papers.records import Record, interval, joined, record, training
from pomona.papers.reproduce import PAPERS, Cell, Paper, Plan, Tests, slug
from pomona.training.recipe import Recipe
from pomona.training.run import Run
from pomona.trees import brackets
from pomona.trees.binary import binarise, branching


@PAPERS.add("listops_2018")
@dataclass(frozen=True)
class ListOps2018(Paper):
    """ListOps: A Diagnostic Dataset for Latent Tree Learning (Nangia and Bowman 2018)."""

    title = "ListOps: A Diagnostic Dataset for Latent Tree Learning"
    places = ("Table 1", "Table 2", "Table 3", "Figure 2", "Figure 3", "Figure 4", "agreement", "latent")
    claims = CLAIMS
    files: ClassVar[dict[str, str]] = {TEST: "the paper's test set, 10,000 lines of an answer, a tab and an expression"}

    def measure(self, plan: Plan) -> dict[str, Any]:
        runs, bigger = _table_runs(plan), _bigger_runs(plan)
        latent = {**latent_runs(plan), **rival_runs(plan)}
        test = test_set(recipes(plan.budget)[AGREEING][0])
        baselines = Baselines(test, learning_examples(test, [Recipe("lstm", data="listops/d20s")]))
        assert baselines.ladder is not None
        finished = {**runs, **bigger, **latent}
        now = {row: [shortened(_record(run, row, baselines)) for run in some] for row, some in finished.items()}
        tables = _Tables(plan, test, generate("listops/d20s", "train", 0), runs, now)
        cells = [tables.cell(*printed) for printed in PRINTED]
        cells += [*tables.several_seeds(), *tables.figure_2(), *tables.figure_3(), *tables.figure_4()]
        cells += [*_agreement_cells(plan), *latent_cells(plan, now), *rival_cells(plan, now)]
        return {
            "cells": cells,
            "ladder": {rung.name: round(100 * rung.accuracy, 2) for rung in baselines.ladder.rungs},
            "runs": [entry for some in now.values() for entry in some],
        }


def _table_runs(plan: Plan) -> dict[str, list[Run]]:
    """The finished runs of each row."""
    places = {(where, row) for where, row, *_ in PRINTED} | {("Figure 2", row) for row in DRAWN}
    runs: dict[str, list[Run]] = {}
    for row, some in recipes(plan.budget).items():
        wanted = any(plan.wants(where, row) for where, name in places if name == row)
        for recipe in some:
            run = plan.run(recipe, slug(row, recipe.seed), _tests(recipe), train=wanted)
            if run is not None:
                runs.setdefault(row, []).append(run)
    return runs


def _bigger_runs(plan: Plan) -> dict[str, list[Run]]:
    """The finished runs of Figure 4, by row and size."""
    runs: dict[str, list[Run]] = {}
    for row, some in larger(plan.budget).items():
        for size, recipe in reversed(some.items()):  # the largest decides the claim
            name = sized(row, size)
            run = plan.run(recipe, slug(name, recipe.seed), _tests(recipe), train=plan.wants("Figure 4", row))
            if run is not None:
                runs[name] = [run]
    return runs


def sized(row: str, size: int) -> str:
    """The name of a row trained on a larger set."""
    return f"{row} {size // 1000}k"


def _tests(recipe: Recipe) -> dict[str, Any]:
    return {
        "test_d20s": lambda: test_set(recipe),
        "test": lambda: own_test(recipe),
        "figure_2": figure_2,
    }


def figure_2() -> Corpus:
    """The three sentences whose trees are drawn in Figure 2."""
    return corpus_of_trees(brackets.read([text for text, *_ in FIGURE_2]))


def _record(run: Run, row: str, baselines: Baselines) -> Record:
    """One run for the results file; its effective depth is that of its answers to the paper's test set."""
    scores = {
        name: {key: value for key, value in entry.items() if key not in ("fingerprint", "ladder")}
        for name, entry in kept_evaluations(run).items()
    }
    predictions = run.predictions("test_d20s")
    if predictions is not None:
        depths = baselines.depths(answers_from(predictions, baselines.corpus).given)
        scores["test_d20s"]["effective_depth"] = [depth.as_dict() for depth in depths]
    return record(run, row, environment=run.environment, scores=scores)


def _few(recipe: Recipe) -> Tests:
    """The first thousand sentences of the paper's test set."""
    return {"first_1000": lambda: test_set(recipe)[:1_000]}


def _agreement_cells(plan: Plan) -> list[Cell]:
    """How far two short runs of ST-Gumbel agree when one setting is changed, with their accuracy and depth."""
    cells = []
    wanted = "agreement" in plan.where and plan.wants("agreement", AGREEING)
    for change, planned in agreement(plan.budget).items():
        names = [slug(f"agreement {change}", recipe.seed) for recipe in planned]
        asked = (plan.run(one, name, _few(one), train=wanted) for one, name in zip(planned, names, strict=True))
        runs = [run for run in asked if run is not None]
        scores = [kept_evaluations(run)["first_1000"] for run in runs]
        kept = [run.predictions("first_1000") for run in runs]
        trees = [one.trees for one in kept if one is not None and one.trees is not None]
        agree = [100 * f1.self_f1(trees, resamples=1).value] if len(trees) > 1 else []
        found = {
            "self F1": agree,
            "accuracy": [100 * entry["accuracy"] for entry in scores],
            "F1 gold": [100 * entry["trees"]["f1_gold"]["value"] for entry in scores],
            "depth": [entry["trees"]["depth"]["value"] for entry in scores],
        }
        for column, values in found.items():
            cell = plan.cell("agreement", AGREEING, f"{column}, {change}", None, values, runs=len(runs))
            cells.append({**cell, **training(planned[0], [record(run, AGREEING) for run in runs])})
    return cells


class _Tables:
    """What was measured, by row and column: of finished runs, and of earlier ones whose records are known."""

    def __init__(
        self, plan: Plan, test: Corpus, train: Corpus, runs: dict[str, list[Run]], now: Mapping[str, list[Record]]
    ) -> None:
        self.plan, self.test, self.train, self.runs = plan, test, train, runs
        self.planned = dict(recipes(plan.budget))
        for row, some in larger(plan.budget).items():
            self.planned |= {sized(row, size): [recipe] for size, recipe in some.items()}
        self.records = {
            row: joined(plan.known.get(row, []), some, now.get(row, [])) for row, some in self.planned.items()
        }

    def cell(self, where: str, row: str, column: str, printed: float | None) -> Cell:
        """Table 2 has means over runs. Tables 1 and 3 show the paper's best run; ours is the best on dev."""
        scale = 1 if "depth" in column else 100
        values = [scale * value for value in self._values(row, column)]
        measured, records = None, self.records.get(row, [])
        if values and column.startswith(("max ", "best ")):
            measured = round(max(values), 2)
        elif values and row in ROWS and where != "Table 2" and not column.startswith("mean "):
            measured = round(values[records.index(max(records, key=_dev))], 2)
        runs = len(self.runs.get(row, [])) if column == "self F1" else len(records)
        cell = self.plan.cell(where, row, column, printed, values, measured=measured, runs=runs)
        if "mean" in column:
            cell["interval"] = interval(values)
        return self._trained(cell, row)

    def _trained(self, cell: Cell, row: str) -> Cell:
        """A cell with how its runs were trained."""
        return {**cell, **training(self.planned[row][0], self.records[row])} if row in self.planned else cell

    def several_seeds(self) -> list[Cell]:
        """Mean and best of every row of Table 1 that has more than one run."""
        rows = [row for row in ROWS if len(self.records[row]) > 1]
        return [self.cell("Table 1", row, f"{which} accuracy", None) for row in rows for which in ("mean", "best")]

    def figure_2(self) -> list[Cell]:
        """What the best runs answer to the sentences of Figure 2, and the trees they build."""
        cells = []
        for sentence, (text, truth, printed) in enumerate(FIGURE_2):
            for row in DRAWN:
                run = best_on_dev(self.runs[row]) if self.runs.get(row) else None
                kept = run.predictions("figure_2") if run is not None else None
                values = [] if kept is None else [float(kept.outcomes[int(kept.answers[sentence])])]
                column = f"answer to {text} (truth {truth})"
                cell = self._trained(self.plan.cell("Figure 2", row, column, printed[row], values), row)
                if kept is not None and kept.trees is not None:
                    cell["tree"] = brackets.write(kept.trees[sentence : sentence + 1])[0]
                cells.append(cell)
        return cells

    def figure_3(self) -> list[Cell]:
        """The distribution of average depth over the training set."""
        depths = f1.average_depth(binarise(self.train.forest), resamples=1).per_sentence
        cells = []
        for low, high in pairwise(DEPTHS):
            share = 100 * float(((depths >= low) & (depths < high)).mean())
            column = f"% of trees of average depth {low:g} to {high:g}" if high < 1e9 else f"% deeper than {low:g}"
            cells.append(self.plan.cell("Figure 3", "training set", column, None, [share], runs=0))
        return cells

    def figure_4(self) -> list[Cell]:
        """Accuracy by the size of the training set; the paper gives a plot and no numbers."""
        cells = []
        for row in larger("cpu"):
            for size in SIZES:
                name = row if size == SIZES[0] else sized(row, size)
                values = [100 * value for value in self._values(name, "accuracy")]
                cell = self.plan.cell("Figure 4", row, f"accuracy from {size // 1000}k", None, values)
                cells.append(self._trained(cell, name))
        return cells

    def _values(self, row: str, column: str) -> list[float]:
        if row == "Random Trees":
            return [self._random(column)]
        if row == "Ground-Truth Trees":
            return [self._gold(column)]
        if row == "training set":
            return [f1.average_depth(binarise(self.train.forest), resamples=1).value]
        scores = [entry["scores"]["test_d20s"] for entry in self.records.get(row, [])]
        if column.endswith("accuracy"):
            return [entry["accuracy"] for entry in scores]
        if column == "self F1":
            kept = [run.predictions("test_d20s") for run in self.runs.get(row, [])]
            trees = [one.trees for one in kept if one is not None and one.trees is not None]
            return [f1.self_f1(trees, resamples=1).value] if len(trees) > 1 else []
        return [_tree_score(entry, TREES[column]) for entry in scores]

    def _random(self, column: str) -> float:
        """Exact expectations for random trees; no tree is drawn."""
        lengths = self.test.lengths
        if column == "F1 gold":
            return random_trees.expected_f1(binarise(self.test.forest), resamples=1).value
        if column == "depth":
            return float(random_trees.expected_depth(lengths[lengths > 1]).mean())
        if column == "self F1":
            return float(np.nanmean(random_trees.expected_self_f1(lengths)))
        return float(np.nanmean(random_trees.expected_branching_f1(lengths)))

    def _gold(self, column: str) -> float:
        gold = binarise(self.test.forest)
        if column == "depth":
            return f1.average_depth(gold, resamples=1).value
        other = gold if column == "F1 gold" else branching(self.test.lengths, "left" if "left" in column else "right")
        return f1.parse_f1(gold, other, resamples=1).value


def _tree_score(scores: Mapping[str, Any], name: str) -> float:
    """A score of the trees; older records have it beside the accuracy, and as a plain number."""
    found = scores.get("trees", scores)[name]
    return float(found["value"] if isinstance(found, Mapping) else found)


def _dev(entry: Record) -> float:
    return float(entry["dev"])


def best_on_dev(runs: Iterable[Run]) -> Run:
    """The run whose dev accuracy is highest: the one whose trees are drawn (Figure 2)."""
    return max(runs, key=lambda run: float(run.summary["dev"]))
