"""Reproducing a paper: train what is missing, go on with what was begun, and set what was printed beside what came out.

    results = reproduce("listops_2018", budget="smoke")
    results["cells"][0]     {"where": "Table 1", "row": "TreeLSTM 128D", "column": "accuracy", "printed": 98.7,
                             "measured": 99.7, "deviation": ..., "low": ..., "high": ..., "runs": 4, ...}

A cell is one number of the paper. Its `measured` is the mean of the finished runs, `runs` of them, and null while there
is none: nothing is filled in. Beside the cells stand the ladder of shortcuts on the same test set, and for each run its
scores and the effective depth of its answers. Each run leaves its predictions on the paper's test set (`test_d20s`) and
on our own test split (`test`) in its folder, so that everything here can be computed again without training.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np

from pomona import formats
from pomona.binary import binarise, branching
from pomona.corpus import Corpus
from pomona.errors import RunError, SpecError
from pomona.files import write_json
from pomona.measures import parse_f1 as f1
from pomona.measures.effective_depth import effective_depth
from pomona.papers import listops_2018
from pomona.papers.listops_2018 import PRINTED, TEST, Budget
from pomona.runs import Recipe, Run, environment
from pomona.sampling import generate
from pomona.scoring import scores_of
from pomona.shortcuts import ladder
from pomona.sources import data_file

Say = Callable[[str], None]
Cell = dict[str, Any]
TREES = {"F1 left": "f1_left", "F1 right": "f1_right", "F1 gold": "f1_gold", "depth": "depth"}


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
    """The cells of a paper's tables and figures; `where` ("Table 1", ...) and `rows` limit what is trained."""
    if paper != "listops_2018":
        raise SpecError(f"no paper is called {paper!r}; there is listops_2018")
    chosen = [cell for cell in PRINTED if (not where or cell[0] in where) and (not rows or cell[1] in rows)]
    wanted = {cell[1] for cell in chosen}
    runs: dict[str, list[Run]] = {}
    for row, recipes in listops_2018.recipes(budget).items():
        if row not in wanted:
            continue
        for recipe in recipes:
            run = _run(recipe, Path(folder) / paper / budget / slug(row, recipe.seed), threads, train_missing, say)
            if run is not None:
                runs.setdefault(row, []).append(run)
    test = formats.read(data_file(TEST))
    train = generate("listops/d20s", "train", 0)  # what the ladder and Figure 3 are about, whatever the budget
    found = _Found(test, train, runs)
    command = f"pomona reproduce {paper} --budget {budget}"
    cells = [
        {"where": place, "row": row, "column": column, "printed": printed, **found.cell(row, column),
         "budget": budget, "command": command}
        for place, row, column, printed in chosen
    ]  # fmt: skip
    results = {
        "paper": listops_2018.TITLE,
        "environment": environment(threads=threads),
        "cells": cells,
        "ladder": {rung.name: round(100 * rung.accuracy, 2) for rung in ladder(test, train).rungs},
        "runs": [_about(run, row, test, train) for row, some in runs.items() for run in some],
    }
    if out is not None:
        write_json(out, results)
    return results


def slug(row: str, seed: int) -> str:
    """The folder of a run: `TreeLSTM 128D` with seed 2 is `treelstm-128d-2`."""
    return f"{row.lower().replace(' ', '-')}-{seed}"


def _run(recipe: Recipe, folder: Path, threads: int, train_missing: bool, say: Say) -> Run | None:
    """The finished run of a recipe with its scores; trained now if need be."""
    run = Run.read(folder) if (folder / "recipe.json").exists() else None
    if run is not None and run.recipe != recipe:
        raise RunError(f"{folder} holds a run of another recipe; move it away, or name another folder for the runs")
    if run is None or not run.finished:
        if not train_missing:
            return None
        say(f"training {folder}")
        from pomona.training import train

        run = train(recipe, folder, threads=threads)
    if not {"test_d20s", "test"} <= run.scores.keys():
        from pomona.training import corpora

        made = corpora(recipe)  # a test split is held out only from the examples that its own generator trains on
        run.check_data({"train": made[0].fingerprint, "dev": made[1].fingerprint})
    for name in ("test_d20s", "test"):
        if name not in run.scores:
            from pomona.training import predict

            corpus = formats.read(data_file(TEST)) if name == "test_d20s" else _own_test(recipe)
            predictions = predict(run, corpus, threads=threads)
            run.add_predictions(name, predictions)
            run.add_scores(name, scores_of(corpus, predictions))
    say(f"{folder}: dev {run.summary['dev']:.4f}, test_d20s {run.scores['test_d20s']['accuracy']:.4f}")
    return run


def _own_test(recipe: Recipe) -> Corpus:
    return generate(recipe.data, "test", recipe.data_seed, **recipe.data_settings)


def _about(run: Run, row: str, test: Corpus, train: Corpus) -> dict[str, Any]:
    """One run for the record; its effective depth is that of its answers on the paper's test set."""
    scores = {
        name: {key: value for key, value in found.items() if key != "fingerprint"} for name, found in run.scores.items()
    }
    predictions = run.predictions("test_d20s")
    if predictions is not None:
        answers = [predictions.outcomes[place] for place in predictions.answers.tolist()]
        scores["test_d20s"]["effective_depth"] = effective_depth(test, answers, train=train).as_dict()
    return {"row": row, "recipe": run.recipe.plain, **run.summary, "environment": run.environment, "scores": scores}


class _Found:
    """What was measured, by row and column."""

    def __init__(self, test: Corpus, train: Corpus, runs: dict[str, list[Run]]) -> None:
        self.test, self.train, self.runs = test, train, runs

    def cell(self, row: str, column: str) -> Cell:
        values = [100 * value if self._share(column) else value for value in self._values(row, column)]
        if not values:
            return {"measured": None, "deviation": None, "low": None, "high": None, "runs": 0}
        measured = max(values) if column == "max accuracy" else fmean(values)
        return {
            "measured": round(measured, 2),
            "deviation": round(stdev(values), 2) if len(values) > 1 else None,
            "low": round(min(values), 2),
            "high": round(max(values), 2),
            "runs": len(self.runs.get(row, [])),
        }

    @staticmethod
    def _share(column: str) -> bool:
        return "depth" not in column

    def _values(self, row: str, column: str) -> list[float]:
        if row == "Random Trees":
            return [self._random(column)]
        if row == "Ground-Truth Trees":
            return [self._gold(column)]
        if row == "training set":
            return [self._training_depth()]
        runs = self.runs.get(row, [])
        scores = [run.scores["test_d20s"] for run in runs]
        if column == "accuracy" or column.endswith(" accuracy"):
            return [one["accuracy"] for one in scores]
        if column == "self F1":
            trees = [found.trees for run in runs if (found := run.predictions("test_d20s")) and found.trees is not None]
            return [f1.self_f1(trees, resamples=1).value] if len(trees) > 1 else []
        return [one[TREES[column]] for one in scores]

    def _random(self, column: str) -> float:
        """Exact expectations; no tree is drawn."""
        lengths = self.test.lengths
        if column == "F1 gold":
            return f1.expected_f1(binarise(self.test.forest), resamples=1).value
        if column == "depth":
            return float(f1.expected_depth(lengths[lengths > 1]).mean())
        expected = f1.expected_self_f1(lengths) if column == "self F1" else f1.expected_branching_f1(lengths)
        return float(np.nanmean(expected))

    def _gold(self, column: str) -> float:
        gold = binarise(self.test.forest)
        if column == "depth":
            return f1.average_depth(gold, resamples=1).value
        other = gold if column == "F1 gold" else branching(self.test.lengths, "left" if "left" in column else "right")
        return f1.parse_f1(gold, other, resamples=1).value

    def _training_depth(self) -> float:
        return f1.average_depth(binarise(self.train.forest), resamples=1).value


def best_on_dev(runs: Iterable[Run]) -> Run:
    """The run whose dev accuracy is highest: the one whose trees are drawn (Figure 2)."""
    return max(runs, key=lambda run: float(run.summary["dev"]))
