"""ORCHARD: A Benchmark for Measuring Systematic Generalization of Multi-Hierarchical Reasoning (Pung and Chan 2021).

Trained on trees of depth 3 to 6, tested at each depth from 3 to 12; three difficulties, two families of operators, two
models. Figures 2 and 3 show how often both trees are answered right (MIN-MAX, FIRST-LAST), Figures 4 and 5 the first,
the second and both on hard (LSTM, Transformer). In print there are four numbers and eight trends (T1 to T8 of our
specification); the curves themselves are pictures. Percentages throughout.

Beside every curve stand what cheap information scores on the same examples (`shortcuts`: evaluators that open only the
top k levels, the first answer repeated, the Bayes ceiling of a model that has no word for large COPY arguments) and
each model's effective depth at depth 12. Rows named `Oracle`, `Looped` and `Router` are not in the paper: the first is
given the trees and shows what can be learned, the others are Transformers made for depth, which are asked the value
of every list in training; `digits` spells COPY arguments in digits.

At the `cpu` budget models are small, answer with two heads, and see fresh examples at every step. `paper` has the
paper's sizes and its 500 epochs, for a machine with GPUs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from statistics import fmean, variance
from typing import Any

import numpy as np

from pomona.data.answers import asked
from pomona.data.corpus import Corpus
from pomona.data.task import generate
from pomona.evaluation.accuracy import check_same, wilson
from pomona.papers.reproduce import PAPERS, Budget, Cell, Paper, Plan, slug
from pomona.shortcuts import ladder as shortcuts
from pomona.shortcuts.effective_depth import effective_depth
from pomona.training.recipe import Recipe
from pomona.training.run import Run
from pomona.trees.links import copy_arguments

FAMILIES = {"Figure 2": "min-max", "Figure 3": "first-last"}
DIFFICULTIES = ("easy", "medium", "hard")
MODELS = {"Figure 4": "LSTM", "Figure 5": "Transformer"}
QUESTIONS = ("first", "second", "both")
DEPTHS = tuple(range(3, 13))
TRAINED, BEYOND = DEPTHS[:4], DEPTHS[6:]  # 3 to 6; 9 to 12
LEVELS = 6  # the deepest truncation drawn, as deep as training

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
    made: dict[str, list[Recipe]] = {}
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
        made[row] = [dataclasses.replace(recipe, seed=seed, data_seed=seed) for seed in range(seeds)]
    return made


@PAPERS.add("orchard_2021")
@dataclass(frozen=True)
class Orchard2021(Paper):
    """ORCHARD: systematic generalisation of multi-hierarchical reasoning (Pung and Chan 2021)."""

    title = "ORCHARD: A Benchmark For Measuring Systematic Generalization of Multi-Hierarchical Reasoning"
    places = ("Figure 2", "Figure 3", "Figure 4", "Figure 5", "Beyond")

    def measure(self, plan: Plan) -> dict[str, Any]:
        runs = _runs(plan)
        curves = {row: Curve.of([run.scores for run in some]) for row, some in runs.items() if some}
        for row, some in plan.known.items():  # measured before, their runs no longer here
            curves.setdefault(row, Curve.of([record["scores"] for record in some]))
        found = [_cell(plan, where, row, depth, question, curves) for where, row, depth, question in _places()]
        return {
            "cells": found,
            "trends": trends(curves),
            "shortcuts": {
                _preset(recipes(plan.budget)[row][0]): shares
                for row in curves
                for shares in [_shortcuts(recipes(plan.budget)[row][0])]
            },
            "runs": [_about(run, row) for row, some in runs.items() for run in some],
        }


def _figures(row: str, model: str, difficulty: str, family: str) -> list[str]:
    """Where a row is drawn."""
    places = [where for where, name in FAMILIES.items() if name == family]
    places += [where for where, name in MODELS.items() if name == model and difficulty == "hard"]
    return places if model in MODELS.values() else ["Beyond"]


def _places() -> Iterator[tuple[str, str, int, str]]:
    """Every point of every curve: where, row, depth, question."""
    for row, model, difficulty, family in rows():
        for where in _figures(row, model, difficulty, family):
            for question in QUESTIONS if where not in FAMILIES else QUESTIONS[2:]:
                for depth in DEPTHS:
                    yield where, row, depth, question


def _runs(plan: Plan) -> dict[str, list[Run]]:
    made: dict[str, list[Run]] = {}
    planned = recipes(plan.budget)
    for row, model, difficulty, family in rows():
        wanted = any(plan.wants(where, row) for where in _figures(row, model, difficulty, family))
        for recipe in planned[row]:
            run = plan.run(recipe, slug(row, recipe.seed), {"bins": partial(bins, recipe)}, train=wanted)
            if run is not None:
                made.setdefault(row, []).append(run)
    return made


def bins(recipe: Recipe) -> Corpus:
    """The test sets of all depths, one after the other."""
    return _bins(recipe.data, recipe.data_seed, tuple(sorted(recipe.data_settings.items())))


@cache
def _bins(data: str, seed: int, settings: tuple[tuple[str, Any], ...]) -> Corpus:
    return Corpus.concatenate([generate(data, f"test-{depth}", seed, **dict(settings)) for depth in DEPTHS])


def _cell(plan: Plan, where: str, row: str, depth: int, question: str, curves: dict[str, Curve]) -> Cell:
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


@dataclass(frozen=True)
class Curve:
    """What the runs of a row scored: for each run, depth and question the number right, of so many."""

    runs: tuple[dict[str, dict[str, Any]], ...]  # `by_depth` of each

    @classmethod
    def of(cls, scores: list[dict[str, Any]]) -> Curve:
        """Of the scores of runs, or of their records."""
        return cls(tuple(one.get("bins", one)["by_depth"] for one in scores))

    def shares(self, depth: int, question: str) -> list[float]:
        return [run[str(depth)][question][0] for run in self.runs]

    def counts(self, depth: int, question: str) -> tuple[int, int]:
        """Right, and of how many, all runs together; each has examples of its own."""
        asked = [run[str(depth)]["rows"] for run in self.runs]
        right = [share * rows for share, rows in zip(self.shares(depth, question), asked, strict=True)]
        return round(sum(right)), sum(asked)

    def mean(self, depths: tuple[int, ...], question: str) -> tuple[float, float]:
        """The mean share over depths, and its variance: what so many examples leave, or the runs, whichever is more."""
        counts = [self.counts(depth, question) for depth in depths]
        shares = [(right + 1) / (of + 2) for right, of in counts]  # never 0 or 1, so the variance is honest
        drawn = fmean(share * (1 - share) / (of + 2) for share, (_, of) in zip(shares, counts, strict=True))
        means = [fmean(some) for some in zip(*(self.shares(depth, question) for depth in depths), strict=True)]
        trained = variance(means) / len(means) if len(means) > 1 else 0.0  # holds what examples leave, too
        return fmean(right / of for right, of in counts), max(drawn / len(depths), trained)


# -- the trends ------------------------------------------------------------------------------------------------------

_GOOD, _CLEAR = 0.8, 0.1  # what "good" and "clearly" are taken to mean


def trends(curves: dict[str, Curve]) -> list[dict[str, Any]]:
    """T1 to T8 with every comparison they make: difference in percentage points, 95 % interval, yes, no or open.

    A comparison is "yes" if its whole interval is above 0, "no" if it is below, else "open"; both sides are taken as
    independent, which is on the safe side where they answer the same examples. A trend holds if all its comparisons do,
    fails if one is "no", and is open otherwise, or while a row has fewer than two runs: one does not tell what another
    training would have given.
    """
    found = []
    for name, text, comparisons in _trends():
        cases = [_compared(curves, *comparison) for comparison in comparisons]
        verdicts = {case["verdict"] for case in cases}
        verdict = "fails" if "no" in verdicts else "holds" if verdicts == {"yes"} else "open"
        found.append({"trend": name, "says": text, "verdict": verdict, "cases": cases})
    return found


Side = tuple[str, tuple[int, ...], str]  # row, depths, question


def _trends() -> Iterator[tuple[str, str, list[tuple[Side, Side | None, float]]]]:
    hard = [(model, family) for model in MODELS.values() for family in FAMILIES.values()]
    every = [f"{model} {difficulty} {family}" for difficulty in DIFFICULTIES for model, family in hard]
    harder = [(difficulty, family) for difficulty in DIFFICULTIES[1:] for family in FAMILIES.values()]
    lstm, transformer = MODELS.values()
    yield (
        "T1",
        "both models are good at depths 3 to 6 (both trees right in 80 %)",
        [((row, TRAINED, "both"), None, _GOOD) for row in every],
    )
    yield (
        "T2",
        "clear drop beyond depth 7 (at 12 ten points below 6)",
        [((row, (6,), "both"), (row, (12,), "both"), _CLEAR) for row in every],
    )
    yield (
        "T3",
        "easy above medium above hard",
        [
            ((f"{model} {one} {family}", DEPTHS, "both"), (f"{model} {other} {family}", DEPTHS, "both"), 0.0)
            for model, family in hard
            for one, other in pairwise(DIFFICULTIES)
        ],
    )
    yield (
        "T4",
        "FIRST-LAST above MIN-MAX on medium and hard",
        [
            ((f"{model} {one} first-last", DEPTHS, "both"), (f"{model} {one} min-max", DEPTHS, "both"), 0.0)
            for model in MODELS.values()
            for one in DIFFICULTIES[1:]
        ],
    )
    yield (
        "T5",
        "Transformer above LSTM on medium and hard at depths 3 to 6",
        [
            ((f"{transformer} {one} {family}", TRAINED, "both"), (f"{lstm} {one} {family}", TRAINED, "both"), 0.0)
            for one, family in harder
        ],
    )
    yield (
        "T6",
        "LSTM far above Transformer from depth 9 (ten points)",
        [
            ((f"{lstm} {one} {family}", BEYOND, "both"), (f"{transformer} {one} {family}", BEYOND, "both"), _CLEAR)
            for one in DIFFICULTIES
            for family in FAMILIES.values()
        ],
    )
    yield (
        "T7",
        "on hard the second tree holds back both (ten points below the first at depth 12)",
        [
            ((f"{model} hard {family}", (12,), "first"), (f"{model} hard {family}", (12,), "second"), _CLEAR)
            for model, family in hard
        ],
    )
    yield "T8", "first tree at depth 12, hard: LSTM at least 85 %, at least ten points above the Transformer", [
        *(((f"{lstm} hard {family}", (12,), "first"), None, 0.85) for family in FAMILIES.values()),
        *(
            ((f"{lstm} hard {family}", (12,), "first"), (f"{transformer} hard {family}", (12,), "first"), _CLEAR)
            for family in FAMILIES.values()
        ),
    ]  # fmt: skip


def _compared(curves: dict[str, Curve], one: Side, other: Side | None, margin: float) -> dict[str, Any]:
    sides = [side for side in (one, other) if side is not None]
    about = {"above": _named(one), "below": None if other is None else _named(other), "margin": round(100 * margin, 1)}
    if any(row not in curves for row, _, _ in sides):
        return {**about, "difference": None, "interval": None, "verdict": "not run"}
    runs = min(len(curves[row].runs) for row, _, _ in sides)
    means = [curves[row].mean(depths, question) for row, depths, question in sides]
    difference = means[0][0] - margin - (means[1][0] if other is not None else 0.0)
    spread = 1.96 * float(np.sqrt(sum(variance for _, variance in means)))
    low, high = difference - spread, difference + spread
    return {
        **about,
        "difference": round(100 * difference, 2),
        "interval": [round(100 * low, 2), round(100 * high, 2)],
        "verdict": "one run" if runs < 2 else "yes" if low > 0 else "no" if high < 0 else "open",
    }


def _named(side: Side) -> str:
    row, depths, question = side
    return f"{row}, {question} at depth {depths[0]}" + (f" to {depths[-1]}" if len(depths) > 1 else "")


# -- what stands beside them -------------------------------------------------------------------------------------------


def _preset(recipe: Recipe) -> str:
    return recipe.data.removeprefix("orchard/") + (DIGITS if recipe.data_settings.get("copies") == "digits" else "")


@cache
def _train(data: str, seed: int, settings: tuple[tuple[str, Any], ...]) -> Corpus:
    return generate(data, "train", seed, dict(settings).get("train"), **dict(settings))


def _trained_on(recipe: Recipe) -> Corpus:
    """The first epoch of a run; its words are all that the model knows."""
    return _train(recipe.data, recipe.data_seed, tuple(sorted(recipe.data_settings.items())))


def _shortcuts(recipe: Recipe) -> dict[str, dict[str, list[float | None]]]:
    """What cheap information scores at each depth: [first, second, both], percentages; None where it has no say."""
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


def _about(run: Run, row: str) -> dict[str, Any]:
    """One run for the record, with its effective depth on either tree at depth 12."""
    scores = {key: value for key, value in run.scores["bins"].items() if key not in ("fingerprint", "by_length")}
    predictions = run.predictions("bins")
    if predictions is not None:
        corpus = bins(run.recipe)
        check_same(corpus, predictions)
        deepest = np.flatnonzero(corpus.nesting == DEPTHS[-1])
        answers = np.array([str(one) for one in predictions.outcomes])[predictions.answers[deepest]]
        said = [tuple(one) for one in answers.tolist()]
        train = _trained_on(run.recipe)
        scores["effective_depth"] = {
            question: effective_depth(
                corpus.take(deepest), said, train=train, question=place, train_depth=TRAINED[-1]
            ).as_dict()
            for place, question in enumerate(QUESTIONS[:2])
        }  # fmt: skip
    return {"row": row, "recipe": run.recipe.plain, **run.summary, "environment": run.environment, "scores": scores}
