"""ListOps: A Diagnostic Dataset for Latent Tree Learning (Nangia and Bowman, NAACL student workshop 2018).

What the paper printed, and how each row is trained here. Accuracy and F1 are percentages. The paper's tree models of
"128D" hold 64 numbers of h and 64 of c, and its code trains on sentences of at most 50 tokens: both are switched on
for every row that they concern, by name. What it did and we do not: choose weights on the test set, pad on the left,
normalise over the batch. Settings were chosen on dev; docs/models.md says what was tried.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from pomona.runs import Recipe

TITLE = "ListOps: A Diagnostic Dataset for Latent Tree Learning"
TEST = "listops/test_d20s.tsv"  # the paper's own test set, under the data folder
Budget = Literal["smoke", "cpu", "paper"]

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

# Trees drawn in Figure 2, with the answers the paper's models gave.
FIGURE_2 = (
    ("[MAX [MED [MED 1 [SM 3 1 3 ] 9 ] 6 ] 5 ]", 6, {"RL-SPINN 128D": 5, "ST-Gumbel 128D": 5}),
    ("[SM [SM [SM [MAX 5 6 ] 2 ] 0 ] 5 0 8 6 ]", 7, {"RL-SPINN 128D": 7, "ST-Gumbel 128D": 2}),
    ("[MED 6 [MED 3 2 2 ] 8 5 [MED 8 6 2 ] ]", 6, {"RL-SPINN 128D": 6, "ST-Gumbel 128D": 5}),
)

_SHARED: dict[str, Any] = {
    "data": "listops/d20s",
    "exclude": (TEST,),
    "dev_rows": 5_000,
    "schedule": "cosine",
    "warmup": 200,
    "clip": 1.0,
    "stop": 1_000,
    "fidelity": ("short_training",),
}
_TREE = {"fidelity": ("short_training", "half_width"), "rate": 1e-2, "batch": 128, "batching": "random"}

_LATENT = {"fidelity": ("short_training", "half_width"), "batch": 64}

# Each row of Table 1: what differs from _SHARED, and how many seeds the cpu budget trains.
ROWS: dict[str, tuple[dict[str, Any], int]] = {
    "TreeLSTM 128D": (
        {**_TREE, "model": "treelstm", "settings": {"width": 128}, "weight_decay": 0.03, "epochs": 24}, 4),
    "TreeLSTM 48D": (
        {**_TREE, "model": "treelstm", "settings": {"width": 48}, "weight_decay": 0.01, "epochs": 100}, 1),
    "LSTM 128D": ({"model": "lstm", "settings": {"width": 128}, "rate": 2e-3, "batch": 64, "epochs": 40}, 4),
    "LSTM 1024D": ({"model": "lstm", "settings": {"width": 1024}, "rate": 5e-4, "batch": 64, "epochs": 12}, 1),
    "RL-SPINN 128D": (
        {**_LATENT, "model": "rl_spinn", "settings": {"width": 128}, "rate": 3e-3, "epochs": 12}, 4),
    "RL-SPINN 48D": (
        {**_LATENT, "model": "rl_spinn", "settings": {"width": 48}, "rate": 3e-3, "epochs": 12}, 1),
    "ST-Gumbel 128D": (
        {**_LATENT, "model": "st_gumbel", "settings": {"width": 128}, "rate": 5e-3, "epochs": 12}, 4),
    "ST-Gumbel 48D": (
        {**_LATENT, "model": "st_gumbel", "settings": {"width": 48}, "rate": 5e-3, "epochs": 12}, 1),
}  # fmt: skip


def recipes(budget: Budget) -> dict[str, list[Recipe]]:
    """The runs of each row. `smoke` shows that all works; `paper` has four seeds of each and twice the epochs."""
    made: dict[str, list[Recipe]] = {}
    for row, (settings, seeds) in ROWS.items():
        recipe = Recipe(**{**_SHARED, **settings})
        if budget == "smoke":
            small = {**recipe.settings, "width": min(48, recipe.settings["width"])}
            few = {"train": 1_500, "dev": 200, "test": 500}
            recipe = dataclasses.replace(recipe, settings=small, data_settings=few, dev_rows=200, epochs=1, warmup=5)
            seeds = min(2, seeds)
        elif budget == "paper":
            recipe, seeds = dataclasses.replace(recipe, epochs=2 * recipe.epochs), 4
        made[row] = [dataclasses.replace(recipe, seed=seed) for seed in range(seeds)]
    return made
