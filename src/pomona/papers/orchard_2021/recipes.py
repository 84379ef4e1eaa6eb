"""How the rows of the ORCHARD paper are trained here: every row with its recipes, and the test sets of all depths."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import cache
from typing import Any

from pomona.data.corpus import Corpus
from pomona.data.task import generate
from pomona.papers.orchard_2021.trends import DEPTHS, DIFFICULTIES, FAMILIES, MODELS
from pomona.papers.reproduce import Budget, slug
from pomona.training.recipe import Recipe

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
# Rows that are trained until dev stops rising: epochs of 16,000 fresh examples each, by difficulty and family.
_LONG: dict[str, Any] = {"data_settings": {"train": 16_000, "dev": 1_000, "test": 500, "iid": 0}, "dev_rows": 1_000}
EPOCHS: dict[str, int] = {
    "LSTM easy min-max": 16, "LSTM easy first-last": 16, "LSTM medium min-max": 24, "LSTM medium first-last": 24,
    "LSTM hard min-max": 24, "LSTM hard first-last": 48,
}  # fmt: skip
_CPU: dict[str, dict[str, Any]] = {
    "LSTM": {
        "model": "seq2seq_lstm", "settings": {"width": 128, "bidirectional": False}, "rate": 5e-3, "weight_decay": 0.1,
        "schedule": "cooldown", **_LONG,
    },
    "BiLSTM": {"model": "seq2seq_lstm", "settings": {"width": 96}, "rate": 2e-3, "batch": 16, "epochs": 10},
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
_STACK: dict[str, Any] = {  # trained in the model's own stages, on a fixed set
    "model": "stack_machine", "data_settings": {"train": 40_000, "dev": 1_000, "test": 500, "iid": 0}, "dev_rows": 1_000
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
SEEDS: dict[str, int] = {"LSTM": 2, "BiLSTM": 2, "Transformer": 2, "Oracle": 2, "Looped": 1, "Router": 1, "Stack": 2}
SEEDS |= {f"LSTM hard {family}": 3 for family in FAMILIES.values()}  # where the paper printed a number
DIGITS = " digits"


def rows() -> Iterator[tuple[str, str, str, str]]:
    """Every row: its name, and the model, difficulty and family that it is of."""
    for model in MODELS.values():
        for difficulty in DIFFICULTIES:
            for family in FAMILIES.values():
                yield f"{model} {difficulty} {family}", model, difficulty, family
    for difficulty in DIFFICULTIES:
        for family in FAMILIES.values():
            yield f"BiLSTM {difficulty} {family}", "BiLSTM", difficulty, family
    for difficulty in DIFFICULTIES[1:]:
        for family in FAMILIES.values():
            yield f"Oracle {difficulty} {family}", "Oracle", difficulty, family
    for difficulty in DIFFICULTIES:
        for family in FAMILIES.values():
            yield f"Stack {difficulty} {family}", "Stack", difficulty, family
    for model in ("Looped", "Router"):
        for family in FAMILIES.values():
            yield f"{model} easy {family}", model, "easy", family
            for coding in ("", DIGITS):
                yield f"{model} hard {family}{coding}", model, "hard", family


def recipes(budget: Budget) -> dict[str, list[Recipe]]:
    """The runs of each row; every seed has training and test examples of its own."""
    planned: dict[str, list[Recipe]] = {}
    for row, model, difficulty, family in rows():
        shared = _STACK if model == "Stack" else {**_SHARED, **_CPU[model]}
        settings = {**shared, "data": f"orchard/{difficulty}/{family}"}
        settings |= {"epochs": EPOCHS[row]} if row in EPOCHS else {}
        if budget == "paper" and model in _PAPER:
            settings = {**_PAPER_DATA, **_PAPER[model], "data": settings["data"]}
        elif budget == "smoke":
            few = {"train": 128, "dev": 10, "test": 10, "iid": 0}
            settings |= {"data_settings": few, "dev_rows": 10, "epochs": 2}
            if model == "Stack":
                settings["stages"] = tuple({"name": name, "steps": 4} for name in ("soft", "first", "quoting", "all"))
            else:
                settings |= {"batch": 64, "warmup": 2}
            settings["settings"] = {**settings.get("settings", {}), "width": 16}
        if row.endswith(DIGITS):
            settings["data_settings"] = {**settings.get("data_settings", {}), "copies": "digits"}
        recipe = Recipe(**settings)
        seeds = 1 if budget == "smoke" else SEEDS.get(row, SEEDS[model])
        planned[row] = [dataclasses.replace(recipe, seed=seed, data_seed=seed) for seed in range(seeds)]
    return planned


def folder_of(row: str, recipe: Recipe) -> str:
    """The folder of a run; a training that may be extended has its epochs in its name, so both are kept."""
    return slug(row, recipe.seed) + (f"-{recipe.epochs}" if recipe.schedule == "cooldown" else "")


def bins(recipe: Recipe) -> Corpus:
    """The test sets of all depths, one after the other."""
    return _bins(recipe.data, recipe.data_seed, tuple(sorted(recipe.data_settings.items())))


@cache
def _bins(data: str, seed: int, settings: tuple[tuple[str, Any], ...]) -> Corpus:
    return Corpus.concatenate([generate(data, f"test-{depth}", seed, **dict(settings)) for depth in DEPTHS])


def preset(recipe: Recipe) -> str:
    return recipe.data.removeprefix("orchard/") + (DIGITS if recipe.data_settings.get("copies") == "digits" else "")


@cache
def _train(data: str, seed: int, settings: tuple[tuple[str, Any], ...]) -> Corpus:
    return generate(data, "train", seed, dict(settings).get("train"), **dict(settings))


def trained_on(recipe: Recipe) -> Corpus:
    """The first epoch of a run; its words are all that the model knows."""
    return _train(recipe.data, recipe.data_seed, tuple(sorted(recipe.data_settings.items())))
