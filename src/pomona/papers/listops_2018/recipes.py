"""What the ListOps paper printed, and what is trained for each number: rows, recipes, sizes of training sets.

The paper's tree models of "128D" have 64 numbers of h and 64 of c, and its code trains on sentences of at most 50
tokens; every row that this concerns does the same. Unlike the paper's code, we do not choose weights on the test set,
pad on the left, or normalise over the batch. Settings were chosen on dev; docs/models.md says what was tried.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from pomona.data import formats
from pomona.data.corpus import Corpus
from pomona.data.sources import data_file, has_data_file
from pomona.data.task import generate
from pomona.papers.reproduce import Budget
from pomona.training.recipe import Recipe

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

DRAWN = ("RL-SPINN 128D", "ST-Gumbel 128D")  # the models of Figure 2

_SHARED: dict[str, Any] = {
    "data": "listops/d20s",
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

# Each row of Table 1: what differs from _SHARED, and how many seeds the cpu budget trains. The LSTM of 1024D needs some
# 110 to 155 core-seconds an epoch where there are units for products of bfloat16, else two to five times as many.
ROWS: dict[str, tuple[dict[str, Any], int]] = {
    "TreeLSTM 128D": (
        {**_TREE, "model": "treelstm", "settings": _128D, "weight_decay": 0.03, "epochs": 24}, 4),
    "TreeLSTM 48D": (
        {**_TREE, "model": "treelstm", "settings": _48D, "weight_decay": 0.01, "epochs": 100}, 4),
    "LSTM 128D": (
        {"model": "lstm", "settings": {"width": 128}, "rate": 3e-3, "weight_decay": 0.1, "batch": 64, "epochs": 60}, 4),
    "LSTM 1024D": (
        {"model": "lstm", "settings": {"width": 1024, "precision": "bfloat16"}, "rate": 1e-3, "weight_decay": 0.1,
         "batch": 128, "epochs": 40}, 1),
    "RL-SPINN 128D": (
        {**_LATENT, "model": "rl_spinn", "settings": _128D, "rate": 3e-3, "epochs": 12}, 4),
    "RL-SPINN 48D": (
        {**_LATENT, "model": "rl_spinn", "settings": _48D, "rate": 3e-3, "epochs": 12}, 4),
    "ST-Gumbel 128D": (
        {**_LATENT, "model": "st_gumbel", "settings": _128D, "rate": 5e-3, "epochs": 12}, 4),
    "ST-Gumbel 48D": (
        {**_LATENT, "model": "st_gumbel", "settings": _48D, "rate": 5e-3, "epochs": 12}, 4),
}  # fmt: skip


# Which setting makes runs of ST-Gumbel agree: one thing changed at a time, short runs of 48D, two seeds each. They are
# trained on 20,000 examples and parse the first thousand sentences of the test file.
AGREEMENT: dict[str, dict[str, Any]] = {
    "nothing changed": {},
    "one epoch": {"epochs": 1},
    "four times the examples": {"rows": 80_000},
    "rate 5e-4": {"rate": 5e-4},
    "first leaf vectors of 0.1": {"settings": {**_48D, "leaf_deviation": 0.1}},
    "first leaf vectors of 2": {"settings": {**_48D, "leaf_deviation": 2.0}},
    "temperature 0.3": {"settings": {**_48D, "temperature": 0.3}},
    "leaves by an LSTM": {"settings": {**_48D, "leaf": "rnn"}},
}
AGREEING = "ST-Gumbel 48D"


def agreement(budget: Budget) -> dict[str, list[Recipe]]:
    """The runs of the study of agreement, by what is changed."""
    first = recipes(budget)[AGREEING][0]
    if budget != "smoke":
        first = dataclasses.replace(first, rows=20_000, epochs=3)
    return {
        name: [dataclasses.replace(first, seed=seed, **_fitting(change, budget)) for seed in range(2)]
        for name, change in AGREEMENT.items()
    }


def _fitting(change: dict[str, Any], budget: Budget) -> dict[str, Any]:
    return {key: value for key, value in change.items() if key not in ("epochs", "rows") or budget != "smoke"}


def held_out() -> tuple[str, ...]:
    """The files whose examples must not be trained on."""
    return (TEST,) if has_data_file(TEST) else ()


def test_set(recipe: Recipe) -> Corpus:
    """The paper's test set; where the file is not there, the test split of the recipe's own data."""
    return formats.read(data_file(TEST)) if has_data_file(TEST) else own_test(recipe)


def own_test(recipe: Recipe) -> Corpus:
    return generate(recipe.data, "test", recipe.data_seed, **recipe.data_settings)


def recipes(budget: Budget) -> dict[str, list[Recipe]]:
    """The runs of each row. `smoke` only shows that everything works; `paper` has four seeds and twice the epochs."""
    planned: dict[str, list[Recipe]] = {}
    for row, (settings, seeds) in ROWS.items():
        recipe = Recipe(**{**_SHARED, **settings}, exclude=held_out())
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
    sizes = () if budget == "smoke" else SIZES[1:]
    planned: dict[str, dict[int, Recipe]] = {}
    for row in ("LSTM 128D", "RL-SPINN 128D", "ST-Gumbel 128D"):
        first = recipes(budget)[row][0]
        for size in sizes:
            epochs = first.epochs if budget == "paper" else max(1, round(first.epochs * SIZES[0] / size))
            recipe = dataclasses.replace(first, data_settings={"train": size}, epochs=epochs)
            planned.setdefault(row, {})[size] = recipe
    return planned
