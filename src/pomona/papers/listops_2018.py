"""ListOps: A Diagnostic Dataset for Latent Tree Learning (Nangia and Bowman, NAACL student workshop 2018).

What the paper printed, and how each row is trained here. Accuracy and F1 are percentages. The paper's tree models of
"128D" have 64 numbers of h and 64 of c, and its code trains on sentences of at most 50 tokens; every row that this
concerns does the same. Unlike the paper's code, we do not choose weights on the test set, pad on the left, or normalise
over the batch. Settings were chosen on dev; docs/models.md says what was tried.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from pomona.data import formats
from pomona.data.corpus import Corpus
from pomona.data.sources import data_file
from pomona.data.task import corpus_of_trees, generate
from pomona.evaluation import parse_f1 as f1
from pomona.evaluation import random_trees
from pomona.evaluation.accuracy import answers_from
from pomona.evaluation.baselines import Baselines, learning_examples
from pomona.evaluation.records import kept_evaluations
from pomona.papers.reproduce import PAPERS, Budget, Cell, Paper, Plan, slug
from pomona.training.recipe import Recipe
from pomona.training.run import Run
from pomona.trees import brackets
from pomona.trees.binary import binarise, branching

TEST = "listops/test_d20s.tsv"  # the paper's own test set, under the data folder

# where, row, column, what the paper printed
PRINTED: tuple[tuple[str, str, str, float], ...] = (
    ("Table 1", "LSTM 128D", "accuracy", 73.3),
    ("Table 1", "LSTM 1024D", "accuracy", 74.4),
    ("Table 1", "TreeLSTM 48D", "accuracy", 94.7),
    ("Table 1", "TreeLSTM 128D", "accuracy", 98.7),
    ("Table 1", "RL-SPINN 48D", "accuracy", 62.3),
    ("Table 1", "RL-SPINN 128D", "accuracy", 64.8),
    ("Table 1", "ST-Gumbel 48D", "accuracy", 58.5),
    ("Table 1", "ST-Gumbel 128D", "accuracy", 61.0),
    ("Table 2", "LSTM 128D", "mean accuracy", 71.5),
    ("Table 2", "RL-SPINN 128D", "mean accuracy", 60.7),
    ("Table 2", "ST-Gumbel 128D", "mean accuracy", 57.6),
    ("Table 2", "LSTM 128D", "max accuracy", 74.4),
    ("Table 2", "RL-SPINN 128D", "max accuracy", 64.8),
    ("Table 2", "ST-Gumbel 128D", "max accuracy", 61.0),
    ("Table 2", "RL-SPINN 128D", "self F1", 30.8),
    ("Table 2", "ST-Gumbel 128D", "self F1", 32.3),
    ("Table 2", "Random Trees", "self F1", 30.1),
    ("Table 3", "RL-SPINN 48D", "F1 left", 64.5),
    ("Table 3", "RL-SPINN 48D", "F1 right", 16.0),
    ("Table 3", "RL-SPINN 48D", "F1 gold", 32.1),
    ("Table 3", "RL-SPINN 48D", "depth", 14.6),
    ("Table 3", "RL-SPINN 128D", "F1 left", 43.5),
    ("Table 3", "RL-SPINN 128D", "F1 right", 13.0),
    ("Table 3", "RL-SPINN 128D", "F1 gold", 71.1),
    ("Table 3", "RL-SPINN 128D", "depth", 10.4),
    ("Table 3", "ST-Gumbel 48D", "F1 left", 52.2),
    ("Table 3", "ST-Gumbel 48D", "F1 right", 15.3),
    ("Table 3", "ST-Gumbel 48D", "F1 gold", 55.3),
    ("Table 3", "ST-Gumbel 48D", "depth", 11.1),
    ("Table 3", "ST-Gumbel 128D", "F1 left", 56.5),
    ("Table 3", "ST-Gumbel 128D", "F1 right", 9.8),
    ("Table 3", "ST-Gumbel 128D", "F1 gold", 57.3),
    ("Table 3", "ST-Gumbel 128D", "depth", 12.7),
    ("Table 3", "Ground-Truth Trees", "F1 left", 41.6),
    ("Table 3", "Ground-Truth Trees", "F1 right", 8.8),
    ("Table 3", "Ground-Truth Trees", "F1 gold", 100.0),
    ("Table 3", "Ground-Truth Trees", "depth", 9.6),
    ("Table 3", "Random Trees", "F1 left", 24.0),
    ("Table 3", "Random Trees", "F1 right", 24.0),
    ("Table 3", "Random Trees", "F1 gold", 24.2),
    ("Table 3", "Random Trees", "depth", 5.2),
    ("Figure 3", "training set", "average depth", 9.6),
)
TREES = {"F1 left": "f1_left", "F1 right": "f1_right", "F1 gold": "f1_gold", "depth": "depth"}
DEPTHS = (*range(0, 45, 5), float("inf"))  # bins of Figure 3, which has no numbers but the mean
SIZES = (90_000, 240_000, 540_000, 990_000)  # training sets of Figure 4, which has no numbers in print

# Trees drawn in Figure 2, with the answers the paper's models gave.
FIGURE_2 = (
    ("[MAX [MED [MED 1 [SM 3 1 3 ] 9 ] 6 ] 5 ]", 6, {"RL-SPINN 128D": 5, "ST-Gumbel 128D": 5}),
    ("[SM [SM [SM [MAX 5 6 ] 2 ] 0 ] 5 0 8 6 ]", 7, {"RL-SPINN 128D": 7, "ST-Gumbel 128D": 2}),
    ("[MED 6 [MED 3 2 2 ] 8 5 [MED 8 6 2 ] ]", 6, {"RL-SPINN 128D": 6, "ST-Gumbel 128D": 5}),
)

_DRAWN = ("RL-SPINN 128D", "ST-Gumbel 128D")  # the models of Figure 2

_SHARED: dict[str, Any] = {
    "data": "listops/d20s",
    "exclude": (TEST,),
    "dev_rows": 5_000,
    "schedule": "cosine",
    "warmup": 200,
    "clip": 1.0,
    "stop": 1_000,
    "longest": 50,  # as in the paper's code, whose limit of 100 counts transitions, two for each token but one
}
_TREE = {"rate": 1e-2, "batch": 128, "batching": "random"}
_LATENT = {"batch": 64}
_128D, _48D = ({"width": width, "half_width": True} for width in (128, 48))  # 64 or 24 numbers of h, as in the code

# Each row of Table 1: what differs from _SHARED, and how many seeds the cpu budget trains.
ROWS: dict[str, tuple[dict[str, Any], int]] = {
    "TreeLSTM 128D": (
        {**_TREE, "model": "treelstm", "settings": _128D, "weight_decay": 0.03, "epochs": 24}, 4),
    "TreeLSTM 48D": (
        {**_TREE, "model": "treelstm", "settings": _48D, "weight_decay": 0.01, "epochs": 100}, 1),
    "LSTM 128D": (
        {"model": "lstm", "settings": {"width": 128}, "rate": 3e-3, "weight_decay": 0.1, "batch": 64, "epochs": 60}, 4),
    "LSTM 1024D": (
        {"model": "lstm", "settings": {"width": 1024}, "rate": 1e-3, "weight_decay": 0.1, "batch": 64, "epochs": 8}, 1),
    "RL-SPINN 128D": (
        {**_LATENT, "model": "rl_spinn", "settings": _128D, "rate": 3e-3, "epochs": 12}, 4),
    "RL-SPINN 48D": (
        {**_LATENT, "model": "rl_spinn", "settings": _48D, "rate": 3e-3, "epochs": 12}, 1),
    "ST-Gumbel 128D": (
        {**_LATENT, "model": "st_gumbel", "settings": _128D, "rate": 5e-3, "epochs": 12}, 4),
    "ST-Gumbel 48D": (
        {**_LATENT, "model": "st_gumbel", "settings": _48D, "rate": 5e-3, "epochs": 12}, 1),
}  # fmt: skip


def recipes(budget: Budget) -> dict[str, list[Recipe]]:
    """The runs of each row. `smoke` only shows that everything works; `paper` has four seeds and twice the epochs."""
    planned: dict[str, list[Recipe]] = {}
    for row, (settings, seeds) in ROWS.items():
        recipe = Recipe(**{**_SHARED, **settings})
        if budget == "smoke":
            small = {**recipe.settings, "width": min(48, recipe.settings["width"])}
            few = {"train": 1_500, "dev": 200, "test": 500}
            recipe = dataclasses.replace(recipe, settings=small, data_settings=few, dev_rows=200, epochs=1, warmup=5)
            seeds = min(2, seeds)
        elif budget == "paper":
            recipe, seeds = dataclasses.replace(recipe, epochs=2 * recipe.epochs), 4
        planned[row] = [dataclasses.replace(recipe, seed=seed) for seed in range(seeds)]
    return planned


def larger(budget: Budget) -> dict[str, dict[int, Recipe]]:
    """The runs of Figure 4 beyond 90,000 examples: as many steps as for 90,000 and, with `paper`, as many epochs."""
    sizes = {"smoke": (), "cpu": SIZES[1:2], "paper": SIZES[1:]}[budget]
    planned: dict[str, dict[int, Recipe]] = {}
    for row in ("LSTM 128D", "RL-SPINN 128D", "ST-Gumbel 128D"):
        first = recipes(budget)[row][0]
        for size in sizes:
            epochs = first.epochs if budget == "paper" else max(1, round(first.epochs * SIZES[0] / size))
            recipe = dataclasses.replace(first, data_settings={"train": size}, epochs=epochs)
            planned.setdefault(row, {})[size] = recipe
    return planned


@PAPERS.add("listops_2018")
@dataclass(frozen=True)
class ListOps2018(Paper):
    """ListOps: A Diagnostic Dataset for Latent Tree Learning (Nangia and Bowman 2018)."""

    title = "ListOps: A Diagnostic Dataset for Latent Tree Learning"
    places = ("Table 1", "Table 2", "Table 3", "Figure 2", "Figure 3", "Figure 4")

    def measure(self, plan: Plan) -> dict[str, Any]:
        runs = _table_runs(plan)
        bigger = _bigger_runs(plan)
        test = formats.read(data_file(TEST))
        baselines = Baselines(test, learning_examples(test, [Recipe("lstm", data="listops/d20s")]))
        assert baselines.ladder is not None
        tables = _Tables(plan, test, generate("listops/d20s", "train", 0), runs)
        cells = [tables.cell(*printed) for printed in PRINTED]
        cells += [*tables.figure_2(), *tables.figure_3(), *tables.figure_4(bigger)]
        everything = [*((row, run) for row, some in runs.items() for run in some), *bigger.values()]
        return {
            "cells": cells,
            "ladder": {rung.name: round(100 * rung.accuracy, 2) for rung in baselines.ladder.rungs},
            "runs": [_record(run, row, baselines) for row, run in everything],
        }


def _table_runs(plan: Plan) -> dict[str, list[Run]]:
    """The finished runs of each row."""
    places = {(where, row) for where, row, *_ in PRINTED} | {("Figure 2", row) for row in _DRAWN}
    runs: dict[str, list[Run]] = {}
    for row, some in recipes(plan.budget).items():
        wanted = any(plan.wants(where, row) for where, name in places if name == row)
        for recipe in some:
            run = plan.run(recipe, slug(row, recipe.seed), _tests(recipe), train=wanted)
            if run is not None:
                runs.setdefault(row, []).append(run)
    return runs


def _bigger_runs(plan: Plan) -> dict[tuple[str, int], tuple[str, Run]]:
    """The finished runs of Figure 4, by row and size."""
    runs = {}
    for row, some in larger(plan.budget).items():
        for size, recipe in some.items():
            name = f"{row} {size // 1000}k"
            run = plan.run(recipe, slug(name, recipe.seed), _tests(recipe), train=plan.wants("Figure 4", row))
            if run is not None:
                runs[row, size] = name, run
    return runs


def _tests(recipe: Recipe) -> dict[str, Any]:
    return {
        "test_d20s": lambda: formats.read(data_file(TEST)),
        "test": lambda: generate(recipe.data, "test", recipe.data_seed, **recipe.data_settings),
        "figure_2": figure_2,
    }


def figure_2() -> Corpus:
    """The three sentences whose trees are drawn in Figure 2."""
    return corpus_of_trees(brackets.read([text for text, *_ in FIGURE_2]))


def _record(run: Run, row: str, baselines: Baselines) -> dict[str, Any]:
    """One run for the results file; its effective depth is that of its answers to the paper's test set."""
    scores = {
        name: {key: value for key, value in entry.items() if key not in ("fingerprint", "ladder")}
        for name, entry in kept_evaluations(run).items()
    }
    predictions = run.predictions("test_d20s")
    if predictions is not None:
        depths = baselines.depths(answers_from(predictions, baselines.corpus).given)
        scores["test_d20s"]["effective_depth"] = [depth.as_dict() for depth in depths]
    return {"row": row, "recipe": run.recipe.plain, **run.summary, "environment": run.environment, "scores": scores}


class _Tables:
    """What was measured, by row and column."""

    def __init__(self, plan: Plan, test: Corpus, train: Corpus, runs: dict[str, list[Run]]) -> None:
        self.plan, self.test, self.train, self.runs = plan, test, train, runs

    def cell(self, where: str, row: str, column: str, printed: float) -> Cell:
        """Table 2 has means over runs. Tables 1 and 3 show the paper's best run; ours is the best on dev."""
        scale = 1 if "depth" in column else 100
        values = [scale * value for value in self._values(row, column)]
        measured = None
        if values and column == "max accuracy":
            measured = round(max(values), 2)
        elif values and row in ROWS and where != "Table 2":
            measured = round(values[self.runs[row].index(best_on_dev(self.runs[row]))], 2)
        runs = len(self.runs.get(row, []))
        return self.plan.cell(where, row, column, printed, values, measured=measured, runs=runs)

    def figure_2(self) -> list[Cell]:
        """What the best runs answer to the sentences of Figure 2, and the trees they build."""
        cells = []
        for sentence, (text, truth, printed) in enumerate(FIGURE_2):
            for row in _DRAWN:
                run = best_on_dev(self.runs[row]) if self.runs.get(row) else None
                kept = run.predictions("figure_2") if run is not None else None
                values = [] if kept is None else [float(kept.outcomes[int(kept.answers[sentence])])]
                column = f"answer to {text} (truth {truth})"
                cell = self.plan.cell("Figure 2", row, column, printed[row], values)
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

    def figure_4(self, bigger: dict[tuple[str, int], tuple[str, Run]]) -> list[Cell]:
        """Accuracy by the size of the training set; the paper gives a plot and no numbers."""
        cells = []
        for row in ("LSTM 128D", "RL-SPINN 128D", "ST-Gumbel 128D"):
            for size in SIZES:
                trained = [run for key, (_, run) in bigger.items() if key == (row, size)]
                runs = self.runs.get(row, []) if size == SIZES[0] else trained
                values = [100 * kept_evaluations(run)["test_d20s"]["accuracy"] for run in runs]
                cells.append(self.plan.cell("Figure 4", row, f"accuracy from {size // 1000}k", None, values))
        return cells

    def _values(self, row: str, column: str) -> list[float]:
        if row == "Random Trees":
            return [self._random(column)]
        if row == "Ground-Truth Trees":
            return [self._gold(column)]
        if row == "training set":
            return [f1.average_depth(binarise(self.train.forest), resamples=1).value]
        runs = self.runs.get(row, [])
        scores = [kept_evaluations(run)["test_d20s"] for run in runs]
        if column == "accuracy" or column.endswith(" accuracy"):
            return [entry["accuracy"] for entry in scores]
        if column == "self F1":
            trees = [kept.trees for run in runs if (kept := run.predictions("test_d20s")) and kept.trees is not None]
            return [f1.self_f1(trees, resamples=1).value] if len(trees) > 1 else []
        return [entry["trees"][TREES[column]]["value"] for entry in scores]

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


def best_on_dev(runs: Iterable[Run]) -> Run:
    """The run whose dev accuracy is highest: the one whose trees are drawn (Figure 2)."""
    return max(runs, key=lambda run: float(run.summary["dev"]))
