"""Posing Fair Generalization Tasks for Natural Language Inference (Geiger, Cases, Karttunen and Potts, EMNLP 2019).

What the paper printed, how each row is trained here, and what it hoped for: composition functions that solve the task.
Accuracies are percentages. Every run has its own split of the redundancy in question (`split_seed` is its seed), so
intervals count splits as well as first weights. Settings were chosen on dev; docs/fair_nli_2019.md says what was tried.
The shortcut ladder stands beside every score, and each run keeps the evidence that no held-out encoding was trained on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import product
from statistics import fmean
from typing import Any

import numpy as np

from pomona.data.corpus import Corpus
from pomona.data.task import generate
from pomona.evaluation.baselines import Baselines, learning_examples
from pomona.papers.fair_nli_2019.recipes import FREE, PRINTED, ROWS, Trial, trials
from pomona.papers.fair_nli_2019.search import over_splits, search
from pomona.papers.fair_nli_2019.verdicts import CLAIMS
from pomona.papers.records import Record, interval, joined, record, training
from pomona.papers.reproduce import PAPERS, Cell, Paper, Plan
from pomona.tasks.fair_nli.logic.fragment import TARGETS
from pomona.training.recipe import Recipe
from pomona.training.run import Run

INSIDE = ("nodes", "handed_up", "products", "words", "tree")  # scores of what a run does inside


@PAPERS.add("fair_nli_2019")
@dataclass(frozen=True)
class FairNLI2019(Paper):
    """Posing Fair Generalization Tasks for Natural Language Inference (Geiger et al. 2019)."""

    title = "Posing Fair Generalization Tasks for Natural Language Inference"
    places = (
        "Table 3", "Figure 5", "intermediate", "inner questions", "first vectors", "bottleneck", "bottleneck ablations",
        "noisy channel", "noisy channel ablations", "learned tree", "learned tree ablations", "grid",
        "grid over splits",
    )  # fmt: skip

    claims = CLAIMS

    def measure(self, plan: Plan) -> dict[str, Any]:
        cells: list[Cell] = []
        records: list[Record] = []
        for trial in trials(plan.budget):
            now = [_record(trial, run) for run in _runs(plan, trial)]
            known = plan.known.get(trial.row, [])  # of any column: one recipe may stand in two tables
            cells += _cells(plan, trial, joined(known, trial.recipes, now))
            records += now
        cells += _grid_cells(plan)
        test = generate("fair_nli/hardest", "test", 0)
        ladder = Baselines(test, learning_examples(test)).ladder
        assert ladder is not None
        rungs = {rung.name: round(100 * rung.accuracy, 2) for rung in ladder.rungs}
        return {"cells": cells, "ladder": rungs, "runs": records}


def _runs(plan: Plan, trial: Trial) -> list[Run]:
    """The finished runs of a trial."""
    return [run for seed in range(trial.seeds) if (run := run_of(plan, trial, seed)) is not None]


def run_of(plan: Plan, trial: Trial, seed: int) -> Run | None:
    """One run of a trial, scored and looked into; None if it may not be trained now and is not finished."""
    recipe = trial.with_seed(seed)
    tests = {"train": partial(_train, recipe), "test": partial(_test, recipe)}
    run = plan.run(recipe, trial.name(seed), tests, train=plan.wants(trial.where, trial.row))
    if run is None:
        return None
    from pomona.models.model import threads_of

    look = partial(threads_of(plan.threads)(_look_inside), run)
    if not plan.done(f"{trial.name(seed)}-inside", "nodes" in run.scores, look):
        return None
    look()  # what runs of earlier versions lack
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
    if "nodes" in run.scores and {"handed_up", "tree"} & set(run.scores) and ("words" in run.scores) == tensor:
        return
    from pomona.models.layers.aligned_tree import AlignedTree, passed_to_parents
    from pomona.models.layers.pair_heads import use_of_width
    from pomona.models.pair.comptreentn import share_of_products
    from pomona.models.pair.learned_tree import LearnedTreeModule, phrases_in, tree_of
    from pomona.models.pair_model import PairModel, PairModule, node_accuracy
    from pomona.training.checkpoints import build, load

    module, vocabulary, outcomes, model = load(run)
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
            pulls = _pulls_at_words(first, feed.batch(np.arange(recipe.batch)), recipe.l2)
            at_first = {**use_of_width(first.word), **pulls}
            run.add_scores("words", {"first": at_first, "trained": use_of_width(module.word)})
    if isinstance(module, LearnedTreeModule):
        carried = module.eval().carried(feed.batch(np.arange(len(feed))).tokens)
        tree = tree_of(carried)
        run.add_scores("tree", {
            "tree": str(tree),
            "phrases": phrases_in(tree),
            "sees_its_own": module.alignment().diagonal().mean().item(),
            "carried": {f"{first}-{last}": round(much, 2) for (first, last), much in carried.items()},
        })  # fmt: skip


def _pulls_at_words(module: Any, batch: Any, l2: float) -> dict[str, float]:
    """The root mean square of what draws at the vectors of the words in a batch: the twelve questions, and L2."""
    vectors = module.word.vectors
    module.train()
    module.zero_grad()
    module(batch).loss.backward()
    here = vectors.grad.abs().sum(1) > 0
    task, own = (float(part[here].detach().pow(2).mean().sqrt()) for part in (vectors.grad, vectors))
    module.zero_grad()
    module.eval()
    return {"pull of the task": task, "pull of L2": l2 * own}


# -- cells ------------------------------------------------------------------------------------------------------------


def _cells(plan: Plan, trial: Trial, records: list[Record]) -> list[Cell]:
    """The cells of a trial. Records of earlier sessions may lack curves and what was measured inside."""
    make = partial(_cell, plan, trial.where, trial.row)
    tests = [entry["scores"]["test"] for entry in records]
    if trial.where != "Table 3":
        looked_into = trial.where in ("bottleneck", "first vectors", *FREE)
        inside = _node_cells(make, trial.column, records) if looked_into else []
        cells = [make(trial.column, None, tests), *inside]
    else:
        train, dev, test = PRINTED[trial.row]
        cells = [
            make("train", train, [entry["scores"]["train"] for entry in records]),
            make("dev", dev, [entry["dev"] for entry in records]),
            make("test", test, tests),
            _cell(plan, "Figure 5", trial.row, "test at rho 0", None, tests),
            *_node_cells(make, "test", records),
            *_curve_cells(plan, trial, records),
        ]
    return [{**cell, **training(trial.recipe, records)} for cell in cells]


def _curve_cells(plan: Plan, trial: Trial, records: list[Record]) -> list[Cell]:
    """Dev accuracy by the number of pairs seen."""
    curves = [entry["dev_curve"] for entry in records if "dev_curve" in entry]
    cells = []
    for look in range(trial.recipe.epochs if curves else 0):
        pairs = (look + 1) * (trial.recipe.rows or 500_000)
        values = [curve[look] for curve in curves]
        cells.append(_cell(plan, "Figure 5", trial.row, f"dev after {pairs:,} pairs", None, values))
    return cells


def _node_cells(make: Any, column: str, records: list[Record]) -> list[Cell]:
    inside = [entry["inside"] for entry in records if "inside" in entry]
    cells = [make(f"{column} at {node}", None, [run["nodes"][node] for run in inside]) for node in TARGETS]
    passed = [run["handed_up"] for run in inside if "handed_up" in run]
    for kind in ("phrase", "object", "negated") if passed else ():
        cells.append(make(f"{column}: variance within classes, {kind}", None, [run[kind][0] for run in passed]))
        cells.append(make(f"{column}: labels kept after exchange, {kind}", None, [run[kind][1] for run in passed]))
    shares = [run["products"] for run in inside if "products" in run]
    for when, kind in product(("first", "trained"), ("modifier", "phrase", "object", "negated", "label")):
        if shares:
            values = [share[when][kind] for share in shares]
            cells.append(make(f"{column}: share of products, {when} weights, {kind}", None, values))
    words = [run["words"] for run in inside if "words" in run]
    if words:
        left = [run["trained"]["size"] / run["first"]["size"] for run in words]
        cells.append(make(f"{column}: size of word vectors, of that at first", None, left))
        cells.append(make(f"{column}: width that word vectors use", None, [run["trained"]["width"] for run in words]))
        pulls = [run["first"]["pull of L2"] / run["first"]["pull of the task"] for run in words]
        cells.append(make(f"{column}: pull of L2 at words, of the task's, first weights", None, pulls))
    trees = [run["tree"] for run in inside if "tree" in run]
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
    cell["interval"] = interval(shown)
    return cell


def _grid_cells(plan: Plan) -> list[Cell]:
    """Dev accuracy at every setting of the grid that was tried."""
    cells = []
    for row in ROWS:
        for column, run in search(plan, row):
            cell = _cell(plan, "grid", row, column, None, [run.summary["dev"]])
            cells.append({**cell, **training(run.recipe, [record(run, row)])})
        for column, runs in over_splits(plan, row):
            cell = _cell(plan, "grid over splits", row, column, None, [run.summary["dev"] for run in runs])
            cells.append({**cell, **training(runs[0].recipe, [record(run, row) for run in runs])})
    return cells


def _record(trial: Trial, run: Run) -> Record:
    """One run for the results file."""
    return record(
        run,
        trial.row,
        column=trial.column,
        scores={name: entry["accuracy"] for name, entry in run.scores.items() if "accuracy" in entry},
        inside={name: run.scores[name] for name in INSIDE if name in run.scores},
        encodings=run.certificate.get("encodings"),
        fair=run.certificate.get("certificate", {}).get("fair"),
    )
