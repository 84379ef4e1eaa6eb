"""A Stage is a part of a training run with its own sentences, rate and frozen weights.

    stages=[{"name": "short", "longest": 12, "steps": 400}, {"name": "all", "longest": 50, "steps": 2000}]

A recipe may list stages, and a model may have its own (`Model.stages`), which a recipe without stages uses. They are
trained one after the other, in one folder, with one curve; the optimiser begins anew in each. What a stage does not say
(None) is the recipe's. `resolved` puts the two lists together: an entry of the recipe that has the name of one of the
model's stages is that stage, with the settings that the entry changes.

A growing stage begins with the sentences of its shortest length alone. The next length is added when the last `window`
batches of the newest length were answered right in a share of `move_on`; the stage ends when its longest length is.

Torch is not needed to read this, since recipes are read without it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pomona.base.errors import SpecError, did_you_mean
from pomona.base.registry import settings_of, validated

INHERITED = ("epochs", "batch", "rate", "warmup", "l2", "weight_decay", "clip", "betas")  # None: as in the recipe


@dataclass(frozen=True)
class Stage:
    """A part of a training run. Lengths are counted in tokens."""

    name: str
    shortest: int = 1  # shorter sentences are left out
    longest: int | None = None  # longer sentences are left out
    growing: bool = False  # begin with the shortest sentences alone and add one length after the other
    move_on: float = 0.98  # growing: add a length when this share of answers is right ...
    window: int = 30  # ... in the last so many batches of the newest length
    newest: float = 0.5  # growing: the share of batches that have the newest length
    steps: int | None = None  # the stage ends after so many steps ...
    epochs: int | None = None  # ... or after so many passes over its sentences
    look: int | None = None  # steps between looks at dev; there is one at the end in any case
    batch: int | None = None
    rate: float | None = None
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    end: float = 0.02  # linear and cosine: the last rate, as a share of the first
    warmup: int | None = None
    l2: float | None = None
    weight_decay: float | None = None
    clip: float | None = None
    betas: tuple[float, float] | None = None
    frozen: tuple[str, ...] = ()  # beginnings of the names of weights that stay as they are
    settings: Mapping[str, Any] = field(default_factory=dict)  # what the model is told; see its stage_settings

    def __post_init__(self) -> None:
        if not self.name:
            raise SpecError("a stage has no name; give it one, for example 'short sentences'")
        for name in ("shortest", "window", "steps", "epochs", "look", "batch"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise self.error(f"{name} = {value}: must be at least 1")
        for name in ("rate", "clip"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise self.error(f"{name} = {value}: must be a positive number")
        for name in ("warmup", "l2", "weight_decay"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < float("inf"):
                raise self.error(f"{name} = {value}: must be 0 or more")
        for name in ("move_on", "end", "newest"):
            if not 0 < getattr(self, name) <= 1:
                raise self.error(f"{name} = {getattr(self, name)}: must be above 0 and at most 1")
        if self.schedule not in ("constant", "linear", "cosine"):
            raise self.error(f"schedule = {self.schedule!r}: must be constant, linear or cosine")
        if self.betas is not None and not all(0 <= beta < 1 for beta in self.betas):
            raise self.error(f"betas = {self.betas}: must be at least 0 and below 1")
        if self.longest is not None and self.longest < self.shortest:
            raise self.error(f"longest = {self.longest} is below shortest = {self.shortest}")

    def error(self, words: str) -> SpecError:
        return SpecError(f"stage {self.name!r}: {words}")

    @property
    def plain(self) -> dict[str, Any]:
        """The settings that are not the defaults, as JSON values."""
        usual = settings_of(Stage(self.name))
        return {key: value for key, value in settings_of(self).items() if key == "name" or value != usual[key]}


def checked(given: Sequence[Mapping[str, Any] | str | Stage]) -> tuple[dict[str, Any], ...]:
    """Stages as a recipe keeps them: plain values, in which every name and type is right; text is a name alone."""
    entries: list[dict[str, Any]] = []
    for number, stage in enumerate(given, 1):
        entry = stage.plain if isinstance(stage, Stage) else {"name": stage} if isinstance(stage, str) else dict(stage)
        if not isinstance(entry.get("name"), str):
            raise SpecError(f"stage {number} of the recipe has no name: {entry!r}. Write {{'name': ..., ...}}")
        _built(entry)
        if any(entry["name"] == other["name"] for other in entries):
            raise SpecError(f"stage {entry['name']!r}: two stages have this name; give each its own")
        entries.append(entry)
    return tuple(entries)


def resolved(given: Sequence[Mapping[str, Any]], declared: Sequence[Stage]) -> tuple[Stage, ...]:
    """The stages of a run: those the recipe lists, each with what the model's stage of that name says already."""
    if not given:
        return tuple(declared)
    own = {stage.name: stage.plain for stage in declared}
    stages = []
    for entry in given:
        known = own.get(entry["name"], {})
        told = {**known.get("settings", {}), **entry.get("settings", {})}
        stages.append(_built({**known, **entry, **({"settings": told} if told else {})}))
    return tuple(stages)


def _built(entry: Mapping[str, Any]) -> Stage:
    names = [item.name for item in dataclasses.fields(Stage)]
    for key in entry:
        if key not in names:
            raise SpecError(f"stage {entry['name']!r} has no setting {key!r}. {did_you_mean(key, names)}")
    return validated(Stage, entry, f"stage {entry['name']!r}")
