"""What to report on, made without training: answers are the gold ones with some spoilt, trees are random ones."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from pomona.data import formats
from pomona.data.corpus import Corpus
from pomona.data.task import generate
from pomona.evaluation.accuracy import answers_from
from pomona.evaluation.evaluation import Evaluation
from pomona.evaluation.records import keep
from pomona.fairness import certify
from pomona.tasks.propositional import every_sentence
from pomona.training.predictions import Predictions
from pomona.training.recipe import Recipe
from pomona.training.run import Run
from pomona.trees.binary import random_trees
from pomona.trees.forest import Forest

SMALL = {"train": 400, "dev": 40, "test": 240}
HOSTILE = "<img src=x onerror=\"window.hacked='yes'\">"
CLOSING = "</script><script>window.hacked='yes'</script>"


def said(corpus: Corpus, share: float, seed: int, trees: Forest | None = None, outcomes: Any = None) -> Predictions:
    """Answers of which this share is right."""
    draw = np.random.default_rng(seed)
    truth = corpus.targets[:, 0].astype(np.int64)
    given = np.where(draw.random(len(corpus)) < share, truth, (truth + 1) % len(corpus.outcomes))
    logits = np.eye(len(corpus.outcomes), dtype=np.float32)[given]
    return Predictions(corpus.fingerprint, tuple(outcomes or corpus.outcomes), logits, trees)


def add_run(folder: Path, recipe: Recipe, corpus: Corpus, predictions: Predictions, name: str = "test") -> Run:
    """A run's folder with a curve, and with its answers on a corpus."""
    run = Run.open(folder, recipe)
    run.write_curve(
        [{"epoch": at, "loss": 2 / (at + 1), "train": 0.5, "dev": 0.6 + 0.05 * at, "rate": 0.01} for at in range(4)]
    )
    run.write("summary.json", {"best_epoch": 3, "dev": 0.75, "core_seconds": 1.0})
    keep(run, name, predictions, Evaluation.of(corpus, answers_from(predictions, corpus, name)))
    return run


def small_test() -> Corpus:
    return generate("listops/d20s", "test", 0, **SMALL)


def two_runs(folder: Path) -> tuple[Corpus, list[Path]]:
    """A good run and a latent-tree run on a small ListOps, as training would leave them."""
    corpus = small_test()
    recipe = Recipe("treelstm", {"width": 8}, data_settings=SMALL, dev_rows=40)
    trees = random_trees(corpus.lengths, seed=5)
    add_run(folder / "good", recipe, corpus, said(corpus, 0.9, 1))
    latent = dataclasses.replace(recipe, model="st_gumbel")
    add_run(folder / "latent", latent, corpus, said(corpus, 0.5, 2, trees))
    return corpus, [folder / "good", folder / "latent"]


def hostile_run(folder: Path) -> Path:
    """A run whose name, model, data, tokens, values and answers all try to become markup."""
    source = small_test()[:60]
    strange = {"9": HOSTILE, "8": CLOSING, "MAX": "' onload='", "7": '"><svg onload=alert(1)>'}
    opened = {f"[{name}": f"[{other}" for name, other in strange.items()}
    corpus = dataclasses.replace(
        source,
        vocabulary=tuple(opened.get(word, strange.get(word, word)) for word in source.vocabulary),
        forest=dataclasses.replace(source.forest, names=tuple(strange.get(name, name) for name in source.forest.names)),
        outcomes=tuple(strange.get(str(one), str(one)) for one in source.outcomes),
        origin={},
    )
    data = folder / "hostile.parquet"
    formats.write(corpus, data)
    recipe = Recipe(CLOSING, {HOSTILE: CLOSING}, data=str(data))
    read = formats.read(data)
    run = add_run(
        folder / HOSTILE.replace("/", ""), recipe, read, said(read, 0.4, 3, random_trees(read.lengths, 1)), HOSTILE
    )
    return run.folder


CELLS = [
    {"where": "Table 1", "row": "LSTM", "column": "accuracy", "printed": 73.3, "measured": 71.5, "deviation": 0.4,
     "low": 71, "high": 72, "runs": 3, "budget": "cpu", "command": "pomona reproduce x"},
    {"where": "Table 1", "row": CLOSING, "column": "accuracy", "printed": 98.7, "measured": None, "deviation": None,
     "low": None, "high": None, "runs": 0, "budget": "cpu", "command": "pomona reproduce x"},
]  # fmt: skip


def fit() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    items = [{"row": at, "item": HOSTILE, "tre": 0.1 * at} for at in range(3)]
    return {
        "score": 0.31, "compose": "add", "distance": "cosine", "items": 60, "primitives": 9, "notes": [CLOSING],
        "certificate": {"status": "exact", "lower_bound": 0.3, "zero": 1.0, "centroid": None}, "best": items,
        "worst": items, "per_item": rng.random(60).tolist(),
        "shuffle": {"shuffles": 100, "mean": 0.8, "lowest": 0.7, "p_value": 0.01, "normalized": 0.6, "reason": None},
    }  # fmt: skip


def documents(folder: Path) -> Path:
    """A certificate, a paper's results, a fit, and a file that is none of ours."""
    folder.mkdir(parents=True, exist_ok=True)
    sentences = every_sentence()
    certify(sentences[[0, 1, 2]], sentences[[0, 2, 5, 7]]).save(folder / "unfair.json")
    (folder / "paper.json").write_text(json.dumps({"paper": "A paper", "cells": CELLS}))
    (folder / "fit.json").write_text(json.dumps(fit()))
    (folder / "other.json").write_text('{"not": "ours"}')
    return folder


def blocks(page: str) -> Any:
    found = re.search(r'<script type="application/json" id="tests">(.*?)</script>', page, re.S)
    assert found is not None
    return json.loads(found.group(1))
