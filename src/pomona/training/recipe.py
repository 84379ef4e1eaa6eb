"""A Recipe says everything that decides a training run."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pomona.base.errors import SpecError, did_you_mean
from pomona.base.registry import settings_of, validated

# What the ListOps paper's code does and its text does not say; each can be switched on by name, `paper` means all.
FIDELITY = {
    "short_training": "train on at most 50 tokens: its limit of 100 counts transitions, two for each token but one",
    "half_width": "a '128D' tree model has 64 numbers of h and 64 of c: the embedding is cut in two",
    "left_padding": "the LSTM reads trainable padding in front of every sentence shorter than the longest of its batch",
    "batch_layernorm": "LayerNorm takes one mean and deviation over the whole batch, not one for each row",
    "test_selection": "the learning rate falls and weights are kept by accuracy on `dev_rows` of test, not of dev",
}


MODULE_FIDELITY = ("half_width", "left_padding", "batch_layernorm")  # those that are a matter of the module


SHORT_TRAINING = 50


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the bits of a run, and nothing else (not the folder, not the number of threads)."""

    model: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    data: str = "listops/d20s"  # a task by name, or a file
    data_settings: Mapping[str, Any] = field(default_factory=dict)
    data_seed: int = 0
    rows: int | None = None  # of the training split; None for all of it
    fresh: bool = False  # every epoch draws its own examples; those of dev and test are left out
    longest: int | None = None  # tokens; longer training examples are left out
    exclude: tuple[str, ...] = ()  # files whose examples must not be trained on
    dev_rows: int = 2_000
    epochs: int = 20
    batch: int = 64
    batching: Literal["bucketed", "random"] = "bucketed"
    rate: float = 1e-3
    schedule: Literal["plateau", "cosine", "constant", "inverse_sqrt"] = "plateau"
    warmup: int = 0  # steps in which the rate rises from 0; inverse_sqrt: then it falls as 1 / sqrt(steps / warmup)
    decay: float = 0.5  # plateau: the rate is multiplied by this ...
    patience: int = 2  # ... after so many epochs without a better dev accuracy
    stop: int = 10  # and training ends after so many
    l2: float = 0.0  # added to the gradient, as Adam of 2018 had it
    weight_decay: float = 0.0  # taken off the weights themselves (AdamW)
    clip: float = 5.0  # largest norm of the gradient
    betas: tuple[float, float] = (0.9, 0.999)  # of Adam
    fidelity: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        chosen = set(FIDELITY) if "paper" in self.fidelity else set(self.fidelity)
        for name in chosen:
            if name not in FIDELITY:
                raise SpecError(f"fidelity: nothing is called {name!r}. {did_you_mean(name, [*FIDELITY, 'paper'])}")
        object.__setattr__(self, "fidelity", tuple(name for name in FIDELITY if name in chosen))
        if "short_training" in chosen:
            object.__setattr__(self, "longest", min(self.longest or SHORT_TRAINING, SHORT_TRAINING))
        for name in ("epochs", "batch", "dev_rows", "patience", "stop"):
            if getattr(self, name) < 1:
                raise SpecError(f"{name} = {getattr(self, name)}: at least 1 is needed")
        for name in ("rate", "clip"):
            if not 0 < getattr(self, name) < float("inf"):
                raise SpecError(f"{name} = {getattr(self, name)}: a positive number is needed")
        for name in ("l2", "weight_decay", "warmup"):
            if getattr(self, name) < 0:
                raise SpecError(f"{name} = {getattr(self, name)}: 0 or more is needed")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise SpecError(f"betas = {self.betas}: Adam's means forget with numbers from 0 to below 1")
        if not 0 < self.decay <= 1:
            raise SpecError(f"decay = {self.decay}: the rate is multiplied by a number above 0 and at most 1")

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Recipe:
        """A recipe from plain values, as they stand in recipe.json or on the command line."""
        known = [item.name for item in dataclasses.fields(cls)]
        for name in settings:
            if name not in known:
                raise SpecError(f"a recipe has no setting {name!r}. {did_you_mean(name, known)}")
        return validated(cls, settings, "recipe")

    @property
    def plain(self) -> dict[str, Any]:
        """The recipe as JSON values."""
        return settings_of(self)

    @property
    def key(self) -> str:
        """Sixteen letters that stand for this recipe."""
        text = json.dumps(self.plain, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]
