"""Posing Fair Generalization Tasks for Natural Language Inference (Geiger, Cases, Karttunen and Potts, EMNLP 2019).

What the paper printed, how each row is trained here, and what it hoped for: composition functions that solve the task.
Accuracies are percentages. Every run has its own split of the redundancy in question (`split_seed` is its seed), so
intervals count splits as well as first weights. Settings were chosen on dev; docs/fair_nli_2019.md says what was tried.
The shortcut ladder stands beside every score, and each run keeps the evidence that no held-out encoding was trained on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import sqrt
from statistics import fmean, stdev
from typing import Any

import numpy as np

from pomona.data.corpus import Corpus
from pomona.data.task import generate
from pomona.papers.reproduce import PAPERS, Budget, Cell, Paper, Plan, slug
from pomona.shortcuts.ladder import ladder
from pomona.tasks.fair_nli.logic.fragment import TARGETS
from pomona.training.recipe import Recipe
from pomona.training.run import Run

# row: train, dev, test of Table 3, each with its 95 % interval
PRINTED: dict[str, tuple[tuple[float, float], ...]] = {
    "CBoW": ((88.04, 0.68), (54.18, 0.17), (53.99, 0.27)),
    "TreeNN": ((67.01, 12.71), (54.01, 8.40), (53.73, 8.36)),
    "LSTM encoder": ((98.43, 0.41), (53.14, 2.45), (52.51, 2.78)),
    "Attention LSTM": ((73.66, 9.97), (47.52, 0.43), (47.28, 0.95)),
    "CompTreeNN": ((99.65, 0.42), (80.17, 7.53), (80.21, 7.71)),
    "CompTreeNTN": ((99.92, 0.08), (90.45, 2.48), (90.32, 2.71)),
}
GRID = {"dropout": (0.0, 0.1, 0.2, 0.3), "rate": (1e-2, 3e-3, 1e-3, 3e-4), "l2": (0.0, 1e-4, 1e-3, 1e-2),
        "activation": ("relu", "tanh")}  # fmt: skip
RATIOS = {"hardest": "0", "rho-1-8": "1/8", "rho-1-4": "1/4", "rho-1-2": "1/2", "rho-3-4": "3/4"}  # of Figure 5
CHUNK = 50_000  # pairs between two looks at dev

_SHARED: dict[str, Any] = {
    "data": "fair_nli/hardest",
    "fresh": True,
    "dev_rows": 10_000,
    "batch": 256,
    "batching": "random",
    "schedule": "cosine",
    "warmup": 200,
    "stop": 1_000,
}


@dataclass(frozen=True)
class Row:
    """A model as the cpu budget trains it: how many chunks of pairs, for the table and (`fewer`) for Figure 5."""

    model: str
    rate: float
    chunks: int
    seeds: int
    fewer: int = 1
    settings: tuple[tuple[str, Any], ...] = ()
    l2: float = 0.0
    chunk: int = CHUNK
    more: tuple[tuple[str, Any], ...] = ()  # of the recipe

    @property
    def whole(self) -> dict[str, int]:
        """Settings of data whose training set is one chunk, with the core that makes it fair."""
        return {"train": self.chunk}

    def recipe(self, **more: Any) -> Recipe:
        """A recipe of this row; `more` overrides.

        A chunk is the first rows of 500,000 pairs, and the core of a split stands anywhere among those. At the hardest
        task any 50,000 show all there is; elsewhere `whole` asks for a training set that has its core.
        """
        own = {"model": self.model, "settings": dict(self.settings), "rate": self.rate, "l2": self.l2}
        return Recipe(**{**_SHARED, **own, "rows": self.chunk, "epochs": self.chunks, **dict(self.more), **more})


_SOCHER = (("inner", "softmax"), ("activation", "tanh"))  # "as in the sentiment models of Socher et al. (2013)"
_RESTLESS = (("batch", 64), ("schedule", "constant"))  # CompTreeNN gets nowhere without

ROWS: dict[str, Row] = {
    "CBoW": Row("cbow", 3e-3, 4, 3, 2),
    "TreeNN": Row("treenn", 3e-3, 4, 3, 2),
    "LSTM encoder": Row("lstm_pair", 3e-3, 3, 3, 2),
    "Attention LSTM": Row("attention_lstm", 3e-3, 2, 3),
    "CompTreeNN": Row("comptreenn", 1e-2, 12, 5, 3, settings=_SOCHER, l2=1e-4, more=_RESTLESS),
    "CompTreeNTN": Row("comptreentn", 3e-3, 6, 5, 3, settings=(("width", 32), *_SOCHER)),
}
BOTTLENECK = Row("relation_bottleneck", 4e-3, 2, 5, chunk=100_000)
CHANNEL = Row("noisy_channel", 6e-3, 7, 5, chunk=100_000, settings=(("noise", 1.25),))
LEARNED = Row("learned_tree", 4e-3, 12, 3)
_FREE = ("noisy channel", "learned tree", "learned tree ablations")  # no label is handed up
_ABOVE = ["object", "negated"]
ABLATIONS: dict[str, dict[str, Any]] = {  # all with half of the training; the first is what they are compared with
    "nothing left out": {},
    "hard": {"channel": "hard"},
    "soft": {"channel": "soft"},
    "gold": {"channel": "gold"},
    "hard at object and negated only": {"channel": "hard", "where": _ABOVE},
    "hard at object only": {"channel": "hard", "where": ["object"]},
    "hard at negated only": {"channel": "hard", "where": ["negated"]},
    "logits without a softmax": {"channel": "logit"},
    "soft, h added": {"channel": "soft", "skip": True},
    "soft, only the label asked": {"channel": "soft", "intermediate": False},
    "tied by arity": {"tying": "arity"},
    "nowhere": {"where": []},
}


@dataclass(frozen=True)
class Trial:
    """Runs that differ in nothing but their seed, and the number that their test accuracy stands for."""

    where: str
    row: str
    column: str
    recipe: Recipe
    seeds: int

    @property
    def pairs(self) -> int:
        """How many are seen in training."""
        return self.recipe.epochs * (self.recipe.rows or 500_000)

    def name(self, seed: int) -> str:
        return slug(f"{self.row} {self.column}".replace("/", "-").replace(",", ""), seed)


def trials(budget: Budget) -> list[Trial]:
    """All that is trained. `smoke` shows that all works; `paper` has 10 epochs of 500,000 fixed pairs and 5 seeds."""
    made: list[Trial] = []
    for row, chosen in ROWS.items():
        made.append(Trial("Table 3", row, "test", chosen.recipe(), chosen.seeds))
        for data, ratio in RATIOS.items():
            whole = chosen.whole if data != "hardest" else {}
            recipe = chosen.recipe(data=f"fair_nli/{data}", epochs=chosen.fewer, data_settings=whole)
            made.append(Trial("Figure 5", row, f"test at rho {ratio}", recipe, 1))
        for data, name in (("hardest", "0"), ("rho-3-4", "3/4")):
            settings = {**dict(chosen.settings), "intermediate": False}
            whole = chosen.whole if name != "0" else {}
            recipe = chosen.recipe(data=f"fair_nli/{data}", epochs=chosen.fewer, settings=settings, data_settings=whole)
            made.append(Trial("intermediate", row, f"test at rho {name}, label alone", recipe, 1))
    for row in ("CompTreeNN", "CompTreeNTN"):
        for inner, activation in product(("hidden", "softmax"), ("relu", "tanh")):
            settings = {**dict(ROWS[row].settings), "inner": inner, "activation": activation}
            recipe = ROWS[row].recipe(settings=settings, epochs=4, rate=3e-3, l2=0.0, batch=256, schedule="cosine")
            made.append(Trial("inner questions", row, f"test, {inner}, {activation}", recipe, 1))
    made += _solvers()
    return [_at(trial, budget) for trial in made]


def _solvers() -> list[Trial]:
    """What goes beyond the paper, on 100,000 test pairs, and what happens when a part is left out."""
    large = {"test": 100_000}
    made = []
    readings: dict[str, dict[str, Any]] = {
        "test": {},
        "test, whole classes": {"whole_classes": True},
        "test, strict": {"lexical": "strict", **BOTTLENECK.whole},
    }
    for column, data in readings.items():
        recipe = BOTTLENECK.recipe(data_settings={**large, **data})
        made.append(Trial("bottleneck", "Relation bottleneck", column, recipe, 5))
    for column, settings in ABLATIONS.items():
        recipe = BOTTLENECK.recipe(settings=settings, epochs=1)
        made.append(Trial("bottleneck ablations", "Relation bottleneck", f"test, {column}", recipe, 1))
    made.append(Trial("noisy channel", "Noisy channel", "test", CHANNEL.recipe(data_settings=large), 5))
    less = CHANNEL.recipe(data_settings=large, rate=4e-3, settings={"noise": 1.0})  # the first choice: one seed fails
    made.append(Trial("noisy channel", "Noisy channel", "test, noise 1", less, 5))
    without: dict[str, dict[str, Any]] = {  # all with 3 chunks of 7
        "nothing left out": {}, "without noise": {"noise": 0.0}, "without LayerNorm": {"norm": False},
    }  # fmt: skip
    for column, change in without.items():
        recipe = CHANNEL.recipe(settings={**dict(CHANNEL.settings), **change}, epochs=3)
        made.append(Trial("noisy channel ablations", "Noisy channel", f"test, {column}", recipe, 1))
    made.append(Trial("learned tree", "Learned tree", "test", LEARNED.recipe(), LEARNED.seeds))
    free: dict[str, dict[str, Any]] = {  # all with half of the training
        "nothing left out": {}, "without noise": {"noise": 0.0}, "without a price": {"price": 0.0},
    }  # fmt: skip
    for column, settings in free.items():
        recipe = LEARNED.recipe(settings=settings, epochs=LEARNED.chunks // 2)
        made.append(Trial("learned tree ablations", "Learned tree", f"test, {column}", recipe, 1))
    return made


def _at(trial: Trial, budget: Budget) -> Trial:
    recipe = trial.recipe
    if budget == "cpu":
        return trial
    if budget == "paper":
        settings = {name: value for name, value in recipe.settings.items() if name != "width"}
        data = {name: value for name, value in recipe.data_settings.items() if name != "train"}
        recipe = dataclasses.replace(recipe, rows=None, fresh=False, epochs=10, settings=settings, data_settings=data)
        return dataclasses.replace(trial, recipe=recipe, seeds=5)
    strict = recipe.data_settings.get("lexical") == "strict"
    few = {**recipe.data_settings, "train": 1_500, "dev": 200, "test": 300, "vocabulary": 5 if strict else 100}
    settings = {**recipe.settings, "width": 16, "hidden": 16}
    small = dataclasses.replace(
        recipe, data_settings=few, settings=settings, rows=1_500, dev_rows=200, epochs=1, warmup=2
    )
    return dataclasses.replace(trial, recipe=small, seeds=1)


def grid(budget: Budget, row: str) -> dict[str, Recipe]:
    """The paper's grid: three epochs for each setting; the cpu budget takes 20,000 pairs for each of a few."""
    ways = GRID if budget == "paper" else {**GRID, "dropout": (0.0,), "rate": (3e-3, 1e-3), "l2": (0.0, 1e-4)}
    made = {}
    for dropout, rate, l2, activation in product(*ways.values()):
        chosen = ROWS[row].recipe(rate=rate, l2=l2, epochs=3 if budget == "paper" else 1)
        settings = {**chosen.settings, "dropout": dropout, "activation": activation}
        trial = Trial("grid", row, "", dataclasses.replace(chosen, settings=settings, rows=20_000), 1)
        made[f"dev at dropout {dropout}, rate {rate}, l2 {l2}, {activation}"] = _at(trial, budget).recipe
        if budget == "paper":
            made[next(reversed(made))] = dataclasses.replace(_at(trial, budget).recipe, epochs=3)
    return made


@PAPERS.add("fair_nli_2019")
@dataclass(frozen=True)
class FairNLI2019(Paper):
    """Posing Fair Generalization Tasks for Natural Language Inference (Geiger et al. 2019)."""

    title = "Posing Fair Generalization Tasks for Natural Language Inference"
    places = (
        "Table 3", "Figure 5", "intermediate", "inner questions", "bottleneck", "bottleneck ablations", "noisy channel",
        "noisy channel ablations", "learned tree", "learned tree ablations", "grid",
    )  # fmt: skip

    def measure(self, plan: Plan) -> dict[str, Any]:
        cells: list[Cell] = []
        about: list[dict[str, Any]] = []
        for trial in trials(plan.budget):
            runs = _runs(plan, trial)
            cells += _cells(plan, trial, runs)
            about += [_about(trial, run) for run in runs]
        cells += _grid_cells(plan)
        test = generate("fair_nli/hardest", "test", 0)
        rungs = {
            rung.name: round(100 * rung.accuracy, 2)
            for rung in ladder(test, generate("fair_nli/hardest", "train", 0, CHUNK)).rungs
        }
        return {"cells": cells, "ladder": rungs, "runs": about}


def _runs(plan: Plan, trial: Trial) -> list[Run]:
    """The finished runs of a trial."""
    return [run for seed in range(trial.seeds) if (run := run_of(plan, trial, seed)) is not None]


def run_of(plan: Plan, trial: Trial, seed: int) -> Run | None:
    """One run of a trial, scored and looked into; None if it may not be trained now and is not finished."""
    split = {**trial.recipe.data_settings, "split_seed": seed}
    recipe = dataclasses.replace(trial.recipe, seed=seed, data_seed=seed, data_settings=split)
    tests = {"train": partial(_train, recipe), "test": partial(_test, recipe)}
    run = plan.run(recipe, trial.name(seed), tests, train=plan.wants(trial.where, trial.row))
    if run is not None:
        _look_inside(run)
    return run


def _train(recipe: Recipe) -> Corpus:
    """The first pairs that were trained on."""
    rows = min(recipe.rows or 10_000, 10_000)
    return generate(recipe.data, "train", recipe.data_seed, rows, **recipe.data_settings)


def _test(recipe: Recipe) -> Corpus:
    """The test pairs, after looking that none of their encodings was trained on."""
    from pomona.models.inputs.pairs import evidence_of_split

    test = generate(recipe.data, "test", recipe.data_seed, **recipe.data_settings)
    evidence_of_split(generate(recipe.data, "train", recipe.data_seed, recipe.rows, **recipe.data_settings), test)
    return test


def _look_inside(run: Run) -> None:
    """Accuracy on test at each of the twelve nodes; on dev what aligned trees hand up; the tree, if one was learned."""
    if "nodes" in run.scores and {"handed_up", "tree"} & set(run.scores):
        return
    from pomona.models.layers.aligned_tree import AlignedTree, passed_to_parents
    from pomona.models.pair.learned_tree import LearnedTreeModule, phrases_in, tree_of
    from pomona.models.pair_model import PairModel, PairModule, node_accuracy
    from pomona.training.checkpoints import load, model_of

    model, (module, vocabulary, outcomes) = model_of(run.recipe), load(run)
    assert isinstance(model, PairModel)
    assert isinstance(module, PairModule)
    recipe = run.recipe
    if "nodes" not in run.scores:
        run.add_scores("nodes", node_accuracy(module, model.read(_test(recipe), vocabulary, outcomes)))
    if isinstance(module, AlignedTree | LearnedTreeModule):
        dev = generate(recipe.data, "dev", recipe.data_seed, **recipe.data_settings)[:4_000]
        feed = model.read(dev, vocabulary, outcomes)
    if isinstance(module, AlignedTree):
        run.add_scores("handed_up", passed_to_parents(module, feed))
    if isinstance(module, LearnedTreeModule):
        carried = module.eval().carried(feed.batch(np.arange(len(feed))).tokens)
        tree = tree_of(carried)
        run.add_scores("tree", {
            "tree": str(tree),
            "phrases": phrases_in(tree),
            "sees_its_own": module.alignment().diagonal().mean().item(),
            "carried": {f"{first}-{last}": round(much, 2) for (first, last), much in carried.items()},
        })  # fmt: skip


# -- cells ------------------------------------------------------------------------------------------------------------


def _cells(plan: Plan, trial: Trial, runs: list[Run]) -> list[Cell]:
    make = partial(_cell, plan, trial.where, trial.row)
    tests = [run.scores["test"]["accuracy"] for run in runs]
    if trial.where != "Table 3":
        inside = _node_cells(make, trial.column, runs) if trial.where in ("bottleneck", *_FREE) else []
        return [{**cell, "pairs": trial.pairs} for cell in (make(trial.column, None, tests), *inside)]
    train, dev, test = PRINTED[trial.row]
    cells = [
        make("train", train, [run.scores["train"]["accuracy"] for run in runs]),
        make("dev", dev, [run.summary["dev"] for run in runs]),
        make("test", test, tests),
        *_node_cells(make, "test", runs),
    ]
    cells = [{**cell, "pairs": trial.pairs} for cell in cells]
    steps = trial.recipe.epochs if runs else 0
    for epoch in range(steps):
        pairs = (epoch + 1) * (trial.recipe.rows or 500_000)
        values = [run.curve[epoch]["dev"] for run in runs]
        cells.append(_cell(plan, "Figure 5", trial.row, f"dev after {pairs:,} pairs", None, values))
    return cells


def _node_cells(make: Any, column: str, runs: list[Run]) -> list[Cell]:
    cells = [make(f"{column} at {node}", None, [run.scores["nodes"][node] for run in runs]) for node in TARGETS]
    inside = [run.scores["handed_up"] for run in runs if "handed_up" in run.scores]
    for kind in ("phrase", "object", "negated") if inside else ():
        cells.append(make(f"{column}: variance within classes, {kind}", None, [one[kind][0] for one in inside]))
        cells.append(make(f"{column}: labels kept after exchange, {kind}", None, [one[kind][1] for one in inside]))
    trees = [run.scores["tree"] for run in runs if "tree" in run.scores]
    if trees:
        cells.append(make(f"{column}: phrases that are nodes of the tree", None, [one["phrases"] for one in trees]))
        cells.append(make(f"{column}: attention to the counterpart", None, [one["sees_its_own"] for one in trees]))
    return cells


def _cell(
    plan: Plan, where: str, row: str, column: str, printed: tuple[float, float] | None, values: Iterable[float]
) -> Cell:
    """A mean in percent with its 95 % interval (Student's), beside the paper's, which is printed as a half width."""
    shown = [100 * value for value in values]
    cell = plan.cell(where, row, column, printed[0] if printed else None, shown)
    if shown:
        cell["measured"] = round(fmean(shown), 3)
    cell["printed_interval"] = printed[1] if printed else None
    half = _student(len(shown)) * stdev(shown) / sqrt(len(shown)) if len(shown) > 1 else None
    cell["interval"] = None if half is None else [round(fmean(shown) - half, 3), round(fmean(shown) + half, 3)]
    return cell


def _student(runs: int) -> float:
    from scipy.stats import t

    return float(t.ppf(0.975, runs - 1))


def _grid_cells(plan: Plan) -> list[Cell]:
    """Dev accuracy at every setting of the grid that was tried."""
    cells = []
    for row in ROWS:
        for number, (column, recipe) in enumerate(grid(plan.budget, row).items()):
            run = plan.run(
                recipe, slug(f"grid {row}", number), {}, train="grid" in plan.where and plan.wants("grid", row)
            )
            if run is not None:
                cells.append(_cell(plan, "grid", row, column, None, [run.summary["dev"]]))
    return cells


def _about(trial: Trial, run: Run) -> dict[str, Any]:
    """One run for the record."""
    scores = {name: found["accuracy"] for name, found in run.scores.items() if "accuracy" in found}
    return {
        "row": trial.row,
        "column": trial.column,
        "recipe": run.recipe.plain,
        **run.summary,
        "scores": scores,
        "encodings": run.certificate.get("encodings"),
        "fair": run.certificate.get("certificate", {}).get("fair"),
    }
