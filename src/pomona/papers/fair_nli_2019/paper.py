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
from pomona.evaluation.baselines import Baselines, learning_examples
from pomona.papers.fair_nli_2019.recipes import FREE, PRINTED, ROWS, Trial, trials
from pomona.papers.fair_nli_2019.search import search
from pomona.papers.reproduce import PAPERS, Cell, Paper, Plan
from pomona.tasks.fair_nli.logic.fragment import TARGETS
from pomona.training.recipe import Recipe
from pomona.training.run import Run


@PAPERS.add("fair_nli_2019")
@dataclass(frozen=True)
class FairNLI2019(Paper):
    """Posing Fair Generalization Tasks for Natural Language Inference (Geiger et al. 2019)."""

    title = "Posing Fair Generalization Tasks for Natural Language Inference"
    places = (
        "Table 3", "Figure 5", "intermediate", "inner questions", "first vectors", "bottleneck", "bottleneck ablations",
        "noisy channel", "noisy channel ablations", "learned tree", "learned tree ablations", "grid",
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
        ladder = Baselines(test, learning_examples(test)).ladder
        assert ladder is not None
        rungs = {rung.name: round(100 * rung.accuracy, 2) for rung in ladder.rungs}
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
    """The test pairs, after a check that none of their encodings was trained on."""
    from pomona.models.inputs.pairs import evidence_of_split

    test = generate(recipe.data, "test", recipe.data_seed, **recipe.data_settings)
    evidence_of_split(generate(recipe.data, "train", recipe.data_seed, recipe.rows, **recipe.data_settings), test)
    return test


def _look_inside(run: Run) -> None:
    """Add scores: accuracy at the twelve nodes; what aligned trees pass to the parent; the tree, if one was learned."""
    tensor = run.recipe.model == "comptreentn"
    if "nodes" in run.scores and {"handed_up", "tree"} & set(run.scores) and ("products" in run.scores) == tensor:
        return
    from pomona.models.layers.aligned_tree import AlignedTree, passed_to_parents
    from pomona.models.pair.comptreentn import share_of_products
    from pomona.models.pair.learned_tree import LearnedTreeModule, phrases_in, tree_of
    from pomona.models.pair_model import PairModel, PairModule, node_accuracy
    from pomona.training.checkpoints import build, load, model_of

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
        if tensor:
            first = build(recipe, vocabulary, outcomes)
            assert isinstance(first, AlignedTree)
            shares = {"first": share_of_products(first, feed), "trained": share_of_products(module, feed)}
            run.add_scores("products", shares)
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
        inside = _node_cells(make, trial.column, runs) if trial.where in ("bottleneck", "first vectors", *FREE) else []
        return [{**cell, "pairs": trial.pairs} for cell in (make(trial.column, None, tests), *inside)]
    train, dev, test = PRINTED[trial.row]
    cells = [
        make("train", train, [run.scores["train"]["accuracy"] for run in runs]),
        make("dev", dev, [run.summary["dev"] for run in runs]),
        make("test", test, tests),
        _cell(plan, "Figure 5", trial.row, "test at rho 0", None, tests),
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
        cells.append(make(f"{column}: variance within classes, {kind}", None, [run[kind][0] for run in inside]))
        cells.append(make(f"{column}: labels kept after exchange, {kind}", None, [run[kind][1] for run in inside]))
    shares = [run.scores["products"] for run in runs if "products" in run.scores]
    for when, kind in product(("first", "trained"), ("modifier", "phrase", "object", "negated", "label")):
        if shares:
            values = [share[when][kind] for share in shares]
            cells.append(make(f"{column}: share of products, {when} weights, {kind}", None, values))
    trees = [run.scores["tree"] for run in runs if "tree" in run.scores]
    if trees:
        cells.append(make(f"{column}: phrases that are nodes of the tree", None, [tree["phrases"] for tree in trees]))
        cells.append(make(f"{column}: attention to the counterpart", None, [tree["sees_its_own"] for tree in trees]))
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
        for column, run in search(plan, row):
            cells.append(_cell(plan, "grid", row, column, None, [run.summary["dev"]]))
    return cells


def _about(trial: Trial, run: Run) -> dict[str, Any]:
    """One run for the record."""
    scores = {name: entry["accuracy"] for name, entry in run.scores.items() if "accuracy" in entry}
    return {
        "row": trial.row,
        "column": trial.column,
        "recipe": run.recipe.plain,
        **run.summary,
        "scores": scores,
        "encodings": run.certificate.get("encodings"),
        "fair": run.certificate.get("certificate", {}).get("fair"),
    }
