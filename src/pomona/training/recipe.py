"""A Recipe holds everything that decides the weights of a training run.

    recipe = Recipe("treelstm", {"width": 64}, data="listops/d20s", longest=50, epochs=20, rate=1e-2)
    recipe.plain                             # its settings as JSON values, the content of recipe.json
    Recipe.from_settings(recipe.plain)       # the same recipe again, with every name and type checked

A recipe may have stages (`pomona.models.stages`); a model may have stages of its own, which a recipe without any uses.

Recipes once had a list called `fidelity` of things that the ListOps paper's code does and its text does not say. Each
of them is now a setting of what it changes, and `from_settings` still reads the list:

    short_training     longest=50. The code's limit of 100 counts transitions, two for each token but one.
    half_width         half_width=true, a setting of the models that build trees
    left_padding       left_padding=true, a setting of `lstm`
    batch_layernorm    batch_layernorm=true, a setting of all models of that paper
    test_selection     select_on="test"
    paper              all of the above
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pomona.base.errors import SpecError, did_you_mean
from pomona.base.registry import settings_of, validated
from pomona.models.stages import checked

SHORT_TRAINING = 50  # tokens
COOLDOWN = 0.3  # the last part of a `cooldown` schedule, in which the rate falls to 0 in a straight line
_TREES = ("treelstm", "st_gumbel", "rl_spinn", "chart")
_FIDELITY: dict[str, tuple[str, ...]] = {  # the former names, and the models that have a setting of that name
    "short_training": (),
    "half_width": _TREES,
    "left_padding": ("lstm",),
    "batch_layernorm": ("lstm", "bilstm", *_TREES),
    "test_selection": (),
}
_AT_LEAST_ONE = ("epochs", "batch", "dev_rows", "patience", "stop")
_POSITIVE = ("rate", "clip")
_NOT_NEGATIVE = ("l2", "weight_decay", "warmup")


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the bits of a run, and nothing else (neither the folder nor the number of threads)."""

    model: str  # the name of a model, or package.module:Class
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the model
    seed: int = 0  # of the first weights, the order of the batches and the noise
    data: str = "listops/d20s"  # the name of a task, a file, or a dataset's folder
    data_settings: Mapping[str, Any] = field(default_factory=dict)  # of the task
    data_seed: int = 0  # of the task's examples
    rows: int | None = None  # of the training split; None for all of them
    fresh: bool = False  # draw new examples for every epoch, without those of dev and test
    longest: int | None = None  # tokens; longer training examples are left out
    exclude: tuple[str, ...] = ()  # files whose examples must not be trained on
    dev: str = ""  # a file that the weights are chosen on; by default dev of the task or folder, or rows of the file
    dev_rows: int = 2_000  # at most; of a file with no more rows than this: a tenth of them
    epochs: int = 20  # passes over the training examples
    batch: int = 64  # examples of a step
    batching: Literal["bucketed", "random"] = "bucketed"  # batches of examples of like length, or of any
    rate: float = 1e-3  # the learning rate
    schedule: Literal["plateau", "cosine", "constant", "inverse_sqrt", "cooldown"] = "plateau"  # how the rate changes
    warmup: int = 0  # steps in which the rate rises from 0; inverse_sqrt: afterwards it falls as sqrt(warmup / steps)
    decay: float = 0.5  # plateau: multiply the rate by this ...
    patience: int = 2  # ... after this many epochs without a better dev accuracy
    stop: int = 10  # end the training after this many epochs without a better dev accuracy
    l2: float = 0.0  # added to the gradient, as Adam did in 2018
    weight_decay: float = 0.0  # subtracted from the weights themselves (AdamW)
    clip: float = 5.0  # largest norm of the gradient
    betas: tuple[float, float] = (0.9, 0.999)  # of Adam
    select_on: Literal["dev", "test"] = "dev"  # the split that chooses rate and weights; test as in the ListOps code
    stages: tuple[Any, ...] = ()  # parts of the training, one after the other; if empty, those of the model, if any

    def __post_init__(self) -> None:
        for name in _AT_LEAST_ONE:
            if getattr(self, name) < 1:
                raise SpecError(f"{name} = {getattr(self, name)}: must be at least 1")
        for name in _POSITIVE:
            if not 0 < getattr(self, name) < float("inf"):
                raise SpecError(f"{name} = {getattr(self, name)}: must be a positive number")
        for name in _NOT_NEGATIVE:
            if getattr(self, name) < 0:
                raise SpecError(f"{name} = {getattr(self, name)}: must be 0 or more")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise SpecError(f"betas = {self.betas}: the decay rates of Adam's means must be at least 0 and below 1")
        if not 0 < self.decay <= 1:
            raise SpecError(f"decay = {self.decay}: the factor of the rate must be above 0 and at most 1")
        if self.select_on not in ("dev", "test"):
            raise SpecError(f"select_on = {self.select_on!r}: must be 'dev' or 'test'")
        object.__setattr__(self, "stages", checked(self.stages))

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Recipe:
        """A recipe from plain values, for example those of recipe.json or of the command line."""
        settings = _without_fidelity(settings)
        known = [item.name for item in dataclasses.fields(cls)]
        for name in settings:
            if name not in known:
                raise SpecError(f"a recipe has no setting {name!r}. {did_you_mean(name, known)}")
        return validated(cls, settings, "recipe")

    @property
    def plain(self) -> dict[str, Any]:
        """The recipe as JSON values; a recipe without stages or a dev file says nothing of them."""
        values = settings_of(self)
        for name in ("stages", "dev"):
            if not values[name]:
                del values[name]
        return values

    @property
    def cooldown_at(self) -> int:
        """How many epochs a `cooldown` schedule trains at the full rate, before the rate falls."""
        return int(self.epochs * (1 - COOLDOWN) + 1e-9)

    def extends(self, other: Recipe) -> bool:
        """Whether this is a longer training whose first epochs are those of `other`: the same settings and more epochs,
        on a `cooldown` schedule, whose rate does not depend on the end until it falls."""
        longer = self.schedule == "cooldown" and self.epochs > other.epochs
        return longer and dataclasses.replace(self, epochs=other.epochs) == other

    @property
    def key(self) -> str:
        """Sixteen letters that identify this recipe. They never change: a later field counts only if it is set."""
        values = {**self.plain, "fidelity": []}
        if self.select_on == "dev":
            del values["select_on"]
        text = json.dumps(values, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _without_fidelity(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The same settings, with today's settings in place of the former list `fidelity`."""
    chosen = dict(settings)
    if "fidelity" not in chosen:
        return chosen
    quirks, model, longest = _quirks(chosen.pop("fidelity")), chosen.get("model"), chosen.get("longest")
    if "short_training" in quirks and isinstance(longest, int | None):
        chosen["longest"] = min(longest or SHORT_TRAINING, SHORT_TRAINING)
    if "test_selection" in quirks:
        chosen["select_on"] = "test"
    of_models = [name for name in quirks if _FIDELITY[name]]
    if of_models and model not in _FIDELITY["batch_layernorm"]:
        raise SpecError(
            f"fidelity = {', '.join(of_models)}: these are settings of {', '.join(_FIDELITY['batch_layernorm'])}, and "
            f"{model} has none of them; leave them out"
        )
    flags = {name: True for name in of_models if model in _FIDELITY[name]}  # the others never had an effect
    settings = chosen.get("settings", {})
    return {**chosen, "settings": {**settings, **flags}} if flags and isinstance(settings, Mapping) else chosen


def _quirks(names: Any) -> list[str]:
    """The names in a list called `fidelity`, in order; `paper` stands for all."""
    names = names if isinstance(names, list | tuple) else [names]
    for name in names:
        if name not in (*_FIDELITY, "paper"):
            raise SpecError(f"fidelity: nothing is called {name!r}. {did_you_mean(str(name), [*_FIDELITY, 'paper'])}")
    return [name for name in _FIDELITY if name in names or "paper" in names]
