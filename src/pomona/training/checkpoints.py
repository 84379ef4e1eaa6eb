"""Modules and their weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pomona.base.errors import RunError
from pomona.base.randomness import stream_key
from pomona.models.model import MODELS, Model, Shape, seeded
from pomona.training.recipe import Recipe
from pomona.training.run import Run


def model_of(recipe: Recipe) -> Model:
    return MODELS.build(recipe.model, recipe.settings)


def build(recipe: Recipe, vocabulary: tuple[str, ...], outcomes: tuple[Any, ...]) -> nn.Module:
    """The module of a recipe with its first weights, which depend on the recipe's seed alone."""
    with seeded(int(stream_key("first weights", recipe.seed)) >> 1):
        return model_of(recipe).build(Shape(len(vocabulary), len(outcomes), recipe.fidelity))


def load(run: Run, which: str = "best") -> tuple[nn.Module, tuple[str, ...], tuple[Any, ...]]:
    """The trained module of a run (`best` on dev, or `last`), its words and its answers."""
    path = run.folder / f"{which}.safetensors"
    if not path.exists():
        raise RunError(f"{run.folder} has no {which} weights yet; train it with the same command again")
    arrays, about = read_torch(path)
    vocabulary, outcomes = tuple(about["vocabulary"]), tuple(about["outcomes"])
    module = build(run.recipe, vocabulary, outcomes)
    module.load_state_dict(arrays)
    return module.eval(), vocabulary, outcomes


def tensors_to_bytes(arrays: dict[str, Tensor], about: dict[str, Any]) -> bytes:
    from safetensors.torch import save

    plain = {name: array.detach().cpu().contiguous() for name, array in arrays.items()}
    return save(plain, {"about": json.dumps(about)})


def read_torch(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    from pomona.training.predictions import read_tensors

    arrays, about = read_tensors(path)
    return {name: torch.from_numpy(array) for name, array in arrays.items()}, about
