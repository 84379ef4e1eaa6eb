"""ORCHARD: A Benchmark for Measuring Systematic Generalization of Multi-Hierarchical Reasoning (Pung and Chan 2021).

Models are trained on trees of depth 3 to 6 and tested at each depth from 3 to 12. There are three difficulties, two
families of operators and two models. Figures 2 (MIN-MAX) and 3 (FIRST-LAST) show how often both trees are answered
right, Figures 4 (LSTM) and 5 (Transformer) the first, the second and both on hard. The paper prints four numbers and
describes eight trends (`trends`); its curves are pictures without numbers. All values are percentages.

Beside every curve stand baselines on the same examples (`shortcuts`: evaluators that open only the top k levels, the
first answer repeated, the Bayes ceiling of a model that has no word for large COPY arguments) and each model's
effective depth at depth 12. `brackets` asks what stops the LSTM on deep trees. The paper's LSTM reads in one direction;
rows named `BiLSTM`, `Oracle`, `Stack`, `Looped` and `Router` are not in the paper. The oracle is given the trees and
shows what can be learned; the stack machine finds out what to push, pop and quote (`PRIORS` says what it is told);
the last two are Transformers made for depth, which are asked for the value of every list in training.
`digits` spells COPY arguments in digits.

At the `cpu` budget models are small, answer with two heads, and see fresh examples at every step. `paper` has the
paper's sizes and its 500 epochs, for a machine with GPUs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from pomona.data.answers import asked
from pomona.evaluation.accuracy import answers_from, wilson
from pomona.evaluation.baselines import Baselines
from pomona.evaluation.records import kept_evaluations
from pomona.papers.orchard_2021 import brackets
from pomona.papers.orchard_2021.brackets import SETS
from pomona.papers.orchard_2021.recipes import bins, folder_of, preset, recipes, rows, trained_on
from pomona.papers.orchard_2021.trends import DEPTHS, DIFFICULTIES, FAMILIES, MODELS, QUESTIONS, TRAINED, Curve, trends
from pomona.papers.orchard_2021.verdicts import CLAIMS
from pomona.papers.records import Record, joined, record, training
from pomona.papers.reproduce import PAPERS, Cell, Paper, Plan
from pomona.shortcuts import ladder as shortcuts
from pomona.training.recipe import Recipe
from pomona.training.run import Run
from pomona.trees.links import copy_arguments

LEVELS = 6  # the deepest truncation drawn, as deep as training
UNKNOWN = "unknown-copies"  # a measure that is kept with every evaluation
PRIORS = (  # of the stack machine
    "a word's action depends on the word alone; words that spell numbers share an action, and their numbers are known; "
    "question k is about the part before the k-th X; something may be quoted by number, in one of six orders; the "
    "answer v is tied to the word v; lengths grow and the first question comes first. No tree, no value of a node, "
    "no meaning of a bracket, an operator or COPY is given."
)
BRACKETS = "brackets"  # the experiment of `brackets`
COUNTING = tuple(f"LSTM {difficulty} first-last" for difficulty in DIFFICULTIES)  # the rows that it is made with

# All that the paper printed: the first tree at depth 12, hard.
PRINTED = {
    ("LSTM", "min-max"): 86.7,
    ("LSTM", "first-last"): 88.7,
    ("Transformer", "min-max"): 54.1,
    ("Transformer", "first-last"): 48.3,
}


@PAPERS.add("orchard_2021")
@dataclass(frozen=True)
class Orchard2021(Paper):
    """ORCHARD: systematic generalisation of multi-hierarchical reasoning (Pung and Chan 2021)."""

    title = "ORCHARD: A Benchmark For Measuring Systematic Generalization of Multi-Hierarchical Reasoning"
    places = ("Figure 2", "Figure 3", "Figure 4", "Figure 5", "Beyond", BRACKETS)
    claims = CLAIMS

    def measure(self, plan: Plan) -> dict[str, Any]:
        planned, runs = recipes(plan.budget), _runs(plan)
        now = {row: [_record(run, row) for run in some] for row, some in runs.items()}
        found = {row: joined(plan.known.get(row, []), planned[row], now.get(row, [])) for row in planned}
        found = {row: records for row, records in found.items() if records}
        curves = {row: Curve.of([entry["scores"] for entry in records]) for row, records in found.items()}
        presets = {preset(recipe): recipe for recipe in (planned[row][0] for row in curves)}
        return {
            "cells": [
                *(_cell(plan, point, planned[point[1]][0], found.get(point[1], [])) for point in points()),
                *(_open(plan, row, name, planned[row][0], found.get(row, [])) for row in COUNTING for name in SETS),
            ],
            "trends": trends(curves),
            "shortcuts": {name: _shortcuts(recipe) for name, recipe in presets.items()},
            "curves": {folder_of(row, run.recipe): by_depth(run) for row, some in runs.items() for run in some},
            "runs": [entry for records in now.values() for entry in records],
        }


def _figures(row: str, model: str, difficulty: str, family: str) -> list[str]:
    """Where a row is drawn."""
    places = [where for where, name in FAMILIES.items() if name == family]
    places += [where for where, name in MODELS.items() if name == model and difficulty == "hard"]
    return places if model in MODELS.values() else ["Beyond"]


Point = tuple[str, str, int, str]  # where, row, depth, question


def points() -> Iterator[Point]:
    """Every point of every curve."""
    for row, model, difficulty, family in rows():
        for where in _figures(row, model, difficulty, family):
            for question in QUESTIONS if where not in FAMILIES else QUESTIONS[2:]:
                for depth in DEPTHS:
                    yield where, row, depth, question


def _runs(plan: Plan) -> dict[str, list[Run]]:
    runs: dict[str, list[Run]] = {}
    planned = recipes(plan.budget)
    for row, model, difficulty, family in rows():
        places = [*_figures(row, model, difficulty, family), *([BRACKETS] if row in COUNTING else [])]
        wanted = any(plan.wants(where, row) for where in places)
        for recipe in planned[row]:
            tests = {"bins": partial(bins, recipe)}
            if row in COUNTING:
                tests[brackets.NAME] = partial(brackets.corpus, recipe)
            run = plan.run(recipe, folder_of(row, recipe), tests, train=wanted, measures=[UNKNOWN])
            if run is not None:
                runs.setdefault(row, []).append(run)
    return runs


def _cell(plan: Plan, point: Point, recipe: Recipe, records: list[Record]) -> Cell:
    where, row, depth, question = point
    model, _, family = row.split()[:3]
    known = where in MODELS and question == "first" and depth == DEPTHS[-1]
    printed = PRINTED[model, family] if known else None
    curve = Curve.of([entry["scores"] for entry in records])
    values = [100 * share for share in curve.shares(depth, question)]
    cell = {**plan.cell(where, row, f"{question} at depth {depth}", printed, values), **training(recipe, records)}
    if model == "Stack":
        cell |= {"seen": None, "priors": PRIORS}  # how many are seen depends on when the lengths grow
    if records:
        low, high = wilson(*curve.counts(depth, question))
        cell["interval"] = [round(100 * low, 2), round(100 * high, 2)]
    return cell


def _open(plan: Plan, row: str, name: str, recipe: Recipe, records: list[Record]) -> Cell:
    """One set of the experiment with open brackets: the first tree, in percent."""
    asked_of = [entry for entry in records if "brackets" in entry["scores"]]
    values = [entry["scores"]["brackets"][name] for entry in asked_of]
    return {**plan.cell(BRACKETS, row, name, None, values), **training(recipe, asked_of)}


def by_depth(run: Run) -> dict[str, list[Any]]:
    """The learning curve of a run on dev: examples seen (of a run in stages: steps), and for each depth [first,
    second, both] in percent."""
    curve: dict[str, list[Any]] = {"seen": [run.summary["train_rows"] * (entry["epoch"] + 1) for entry in run.curve]}
    if run.curve and "stage" in run.curve[0]:
        curve = {"step": [entry["step"] for entry in run.curve], "stage": [entry["stage"] for entry in run.curve]}
    for entry in run.curve:
        for depth, (*right, of) in entry.get("dev_by_nesting", {}).items():
            curve.setdefault(depth, []).append([round(100 * count / of, 1) for count in right])
    return curve


# -- baselines and records --------------------------------------------------------------------------------------------


def _shortcuts(recipe: Recipe) -> dict[str, dict[str, list[float | None]]]:
    """The accuracy of baselines at each depth, [first, second, both] in percent; None where one does not answer."""
    corpus, train = bins(recipe), trained_on(recipe)
    wanted = asked(corpus)
    rungs: dict[str, Any] = {}
    for name, by_hand in (("top", False), ("by hand, top", True)):
        answers = shortcuts.evaluations(corpus, train, LEVELS, by_hand=by_hand)
        for level in range(1, LEVELS + 1):
            rungs[f"{name} {level}"] = (answers[:, :, level] == wanted).astype(float)
    repeated = np.full(wanted.shape, np.nan)
    repeated[:, 1] = wanted[:, 0] == wanted[:, 1]
    rungs["repeat the first answer"] = repeated
    if preset(recipe).startswith("easy") or recipe.data_settings.get("copies") == "digits":
        rungs["ceiling"] = np.ones(wanted.shape)
    else:
        known = set(copy_arguments(train.forest, train.width)[1].tolist())
        rungs["ceiling"] = shortcuts.copy_ceiling(corpus, known).right
    return {
        name: {str(depth): _percent(right[corpus.nesting == depth]) for depth in DEPTHS}
        for name, right in rungs.items()
    }


def _percent(right: Any) -> list[float | None]:
    both = right.prod(axis=1).mean()
    return [None if np.isnan(share) else round(100 * float(share), 2) for share in (*right.mean(axis=0), both)]


def _record(run: Run, row: str) -> dict[str, Any]:
    """One run for the results file, with its effective depth on either tree at depth 12."""
    entry = kept_evaluations(run)["bins"]
    scores = {key: value for key, value in entry.items() if key not in ("fingerprint", "ladder")}
    counted = brackets.scores(run)
    if counted is not None:
        scores["brackets"] = counted
    predictions = run.predictions("bins")
    if predictions is not None:
        corpus = bins(run.recipe)
        answers = answers_from(predictions, corpus)
        deepest = np.flatnonzero(corpus.nesting == DEPTHS[-1])
        baselines = Baselines(corpus.take(deepest), trained_on(run.recipe), TRAINED[-1])
        depths = baselines.depths(answers.given[deepest])
        scores["effective_depth"] = {
            question: depth.as_dict() for question, depth in zip(QUESTIONS, depths, strict=False)
        }
    return record(run, row, environment=run.environment, scores=scores)
