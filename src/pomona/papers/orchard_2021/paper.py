"""ORCHARD: A Benchmark for Measuring Systematic Generalization of Multi-Hierarchical Reasoning (Pung and Chan 2021).

Models are trained on trees of depth 3 to 6 and tested at each depth from 3 to 12. There are three difficulties, two
families of operators and two models. Figures 2 (MIN-MAX) and 3 (FIRST-LAST) show how often both trees are answered
right, Figures 4 (LSTM) and 5 (Transformer) the first, the second and both on hard. The paper prints four numbers and
describes eight trends (`trends`); its curves are pictures without numbers. All values are percentages.

Beside every curve stand baselines on the same examples (`shortcuts`: evaluators that open only the top k levels, the
first answer repeated, the Bayes ceiling of a model that has no word for large COPY arguments) and each model's
effective depth at depth 12. Rows named `Oracle`, `Looped` and `Router` are not in the paper. The first is given the
trees and shows what can be learned; the others are Transformers made for depth, which are asked for the value of every
list in training. `digits` spells COPY arguments in digits.

At the `cpu` budget models are small, answer with two heads, and see fresh examples at every step. `paper` has the
paper's sizes and its 500 epochs, for a machine with GPUs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from pomona.data.answers import asked
from pomona.data.corpus import Corpus
from pomona.data.task import generate
from pomona.evaluation.accuracy import answers_from, wilson
from pomona.evaluation.baselines import Baselines
from pomona.evaluation.records import kept_evaluations
from pomona.papers.orchard_2021.trends import DEPTHS, DIFFICULTIES, FAMILIES, MODELS, QUESTIONS, TRAINED, Curve, trends
from pomona.papers.reproduce import PAPERS, Budget, Cell, Paper, Plan, slug
from pomona.shortcuts import ladder as shortcuts
from pomona.training.recipe import Recipe
from pomona.training.run import Run
from pomona.trees.links import copy_arguments

LEVELS = 6  # the deepest truncation drawn, as deep as training
UNKNOWN = "unknown-copies"  # a measure that is kept with every evaluation

# All that the paper printed: the first tree at depth 12, hard.
PRINTED = {
    ("LSTM", "min-max"): 86.7,
    ("LSTM", "first-last"): 88.7,
    ("Transformer", "min-max"): 54.1,
    ("Transformer", "first-last"): 48.3,
}

_SHARED: dict[str, Any] = {
    "data_settings": {"train": 8_000, "dev": 500, "test": 500, "iid": 0},
    "fresh": True,
    "dev_rows": 500,
    "batch": 64,
    "schedule": "cosine",
    "warmup": 100,
    "clip": 1.0,
    "stop": 1_000,
}
_CPU: dict[str, dict[str, Any]] = {
    "LSTM": {"model": "seq2seq_lstm", "settings": {"width": 96}, "rate": 2e-3, "batch": 16, "epochs": 10},
    "Transformer": {
        "model": "seq2seq_transformer", "settings": {"width": 64, "layers": 3, "inner": 128, "norm": "pre"},
        "rate": 2e-3, "batch": 16, "warmup": 400, "epochs": 12,
    },
    "Oracle": {"model": "quoting_treelstm", "rate": 1e-2, "weight_decay": 0.03, "epochs": 10},
    "Looped": {
        "model": "looped_transformer", "settings": {"width": 64, "inner": 128, "node_weight": 4.0}, "rate": 1e-2,
        "batch": 16, "epochs": 6,
    },
    "Router": {
        "model": "data_router", "settings": {"width": 64, "inner": 128, "node_weight": 4.0}, "rate": 4e-3, "batch": 16,
        "epochs": 3,
    },
}  # fmt: skip
_PAPER_DATA: dict[str, Any] = {"dev_rows": 5_000, "batch": 512, "epochs": 500, "stop": 1_000}
_PAPER: dict[str, dict[str, Any]] = {
    "LSTM": {
        "model": "seq2seq_lstm", "rate": 1e-3, "schedule": "constant", "clip": 25.0,
        "settings": {
            "width": 512, "bidirectional": False, "target": "pair", "dropout": 0.1, "first_words": 0.1, "beam": 5,
        },
    },
    "Transformer": {
        "model": "seq2seq_transformer", "rate": 5e-4, "schedule": "inverse_sqrt", "warmup": 4_000, "clip": 1.0,
        "betas": (0.9, 0.98), "weight_decay": 1.2e-6,
        "settings": {
            "width": 512, "layers": 6, "inner": 2048, "heads": 8, "norm": "post", "target": "pair", "dropout": 0.3,
            "beam": 5,
        },
    },
}  # fmt: skip
SEEDS: dict[str, int] = {"LSTM": 2, "Transformer": 2, "Oracle": 2, "Looped": 1, "Router": 1}
DIGITS = " digits"


def rows() -> Iterator[tuple[str, str, str, str]]:
    """Every row: its name, and the model, difficulty and family that it is of."""
    for model in MODELS.values():
        for difficulty in DIFFICULTIES:
            for family in FAMILIES.values():
                yield f"{model} {difficulty} {family}", model, difficulty, family
    for difficulty in DIFFICULTIES[1:]:
        for family in FAMILIES.values():
            yield f"Oracle {difficulty} {family}", "Oracle", difficulty, family
    for model in ("Looped", "Router"):
        for family in FAMILIES.values():
            yield f"{model} easy {family}", model, "easy", family
            for coding in ("", DIGITS):
                yield f"{model} hard {family}{coding}", model, "hard", family


def recipes(budget: Budget) -> dict[str, list[Recipe]]:
    """The runs of each row; every seed has training and test examples of its own."""
    planned: dict[str, list[Recipe]] = {}
    for row, model, difficulty, family in rows():
        settings = {**_SHARED, **_CPU[model], "data": f"orchard/{difficulty}/{family}"}
        if budget == "paper" and model in _PAPER:
            settings = {**_PAPER_DATA, **_PAPER[model], "data": settings["data"]}
        elif budget == "smoke":
            few = {"train": 128, "dev": 10, "test": 10, "iid": 0}
            settings |= {"data_settings": few, "dev_rows": 10, "epochs": 2, "batch": 64, "warmup": 2}
            settings["settings"] = {**settings.get("settings", {}), "width": 16}
        if row.endswith(DIGITS):
            settings["data_settings"] = {**settings.get("data_settings", {}), "copies": "digits"}
        recipe = Recipe(**settings)
        seeds = 1 if budget == "smoke" else SEEDS[model]
        planned[row] = [dataclasses.replace(recipe, seed=seed, data_seed=seed) for seed in range(seeds)]
    return planned


@PAPERS.add("orchard_2021")
@dataclass(frozen=True)
class Orchard2021(Paper):
    """ORCHARD: systematic generalisation of multi-hierarchical reasoning (Pung and Chan 2021)."""

    title = "ORCHARD: A Benchmark For Measuring Systematic Generalization of Multi-Hierarchical Reasoning"
    places = ("Figure 2", "Figure 3", "Figure 4", "Figure 5", "Beyond")

    def measure(self, plan: Plan) -> dict[str, Any]:
        runs = _runs(plan)
        curves = {row: Curve.of([kept_evaluations(run)["bins"] for run in some]) for row, some in runs.items() if some}
        for row, records in plan.known.items():  # measured before, their runs no longer here
            curves.setdefault(row, Curve.of([record["scores"] for record in records]))
        planned = recipes(plan.budget)
        presets = {_preset(recipe): recipe for recipe in (planned[row][0] for row in curves)}
        return {
            "cells": [_cell(plan, point, curves) for point in points()],
            "trends": trends(curves),
            "shortcuts": {preset: _shortcuts(recipe) for preset, recipe in presets.items()},
            "runs": [_record(run, row) for row, some in runs.items() for run in some],
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
        wanted = any(plan.wants(where, row) for where in _figures(row, model, difficulty, family))
        for recipe in planned[row]:
            tests = {"bins": partial(bins, recipe)}
            run = plan.run(recipe, slug(row, recipe.seed), tests, train=wanted, measures=[UNKNOWN])
            if run is not None:
                runs.setdefault(row, []).append(run)
    return runs


def bins(recipe: Recipe) -> Corpus:
    """The test sets of all depths, one after the other."""
    return _bins(recipe.data, recipe.data_seed, tuple(sorted(recipe.data_settings.items())))


@cache
def _bins(data: str, seed: int, settings: tuple[tuple[str, Any], ...]) -> Corpus:
    return Corpus.concatenate([generate(data, f"test-{depth}", seed, **dict(settings)) for depth in DEPTHS])


def _cell(plan: Plan, point: Point, curves: dict[str, Curve]) -> Cell:
    where, row, depth, question = point
    model, _, family = row.split()[:3]
    known = where in MODELS and question == "first" and depth == DEPTHS[-1]
    printed = PRINTED[model, family] if known else None
    curve = curves.get(row)
    values = [] if curve is None else [100 * share for share in curve.shares(depth, question)]
    cell = plan.cell(where, row, f"{question} at depth {depth}", printed, values)
    if curve is not None:
        low, high = wilson(*curve.counts(depth, question))
        cell["interval"] = [round(100 * low, 2), round(100 * high, 2)]
    return cell


# -- baselines and records --------------------------------------------------------------------------------------------


def _preset(recipe: Recipe) -> str:
    return recipe.data.removeprefix("orchard/") + (DIGITS if recipe.data_settings.get("copies") == "digits" else "")


@cache
def _train(data: str, seed: int, settings: tuple[tuple[str, Any], ...]) -> Corpus:
    return generate(data, "train", seed, dict(settings).get("train"), **dict(settings))


def _trained_on(recipe: Recipe) -> Corpus:
    """The first epoch of a run; its words are all that the model knows."""
    return _train(recipe.data, recipe.data_seed, tuple(sorted(recipe.data_settings.items())))


def _shortcuts(recipe: Recipe) -> dict[str, dict[str, list[float | None]]]:
    """The accuracy of baselines at each depth, [first, second, both] in percent; None where one does not answer."""
    corpus, train = bins(recipe), _trained_on(recipe)
    wanted = asked(corpus)
    rungs: dict[str, Any] = {}
    for name, by_hand in (("top", False), ("by hand, top", True)):
        answers = shortcuts.evaluations(corpus, train, LEVELS, by_hand=by_hand)
        for level in range(1, LEVELS + 1):
            rungs[f"{name} {level}"] = (answers[:, :, level] == wanted).astype(float)
    repeated = np.full(wanted.shape, np.nan)
    repeated[:, 1] = wanted[:, 0] == wanted[:, 1]
    rungs["repeat the first answer"] = repeated
    if _preset(recipe).startswith("easy") or recipe.data_settings.get("copies") == "digits":
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
    predictions = run.predictions("bins")
    if predictions is not None:
        corpus = bins(run.recipe)
        answers = answers_from(predictions, corpus)
        deepest = np.flatnonzero(corpus.nesting == DEPTHS[-1])
        baselines = Baselines(corpus.take(deepest), _trained_on(run.recipe), TRAINED[-1])
        depths = baselines.depths(answers.given[deepest])
        scores["effective_depth"] = {
            question: depth.as_dict() for question, depth in zip(QUESTIONS, depths, strict=False)
        }
    return {"row": row, "recipe": run.recipe.plain, **run.summary, "environment": run.environment, "scores": scores}
