"""The weights and the state of a run, to and from its folder.

    module, vocabulary, outcomes, model = load(run)  # the trained module, with the words and answers it knows
    save_state(run, module, adam, state, about)      # all that is needed to resume, in state.safetensors
    state = load_state(run, module, adam)            # a new state if none was saved

The state is one file, so it is the state before some step or after it, and never half of each.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from pomona.base.errors import FormatError, PomonaError, RunError, SpecError
from pomona.base.files import read_bytes
from pomona.base.randomness import stream_key
from pomona.base.registry import settings_of
from pomona.base.shapes import ANYTHING, COUNT, TEXT, WHOLE, Kind, check
from pomona.models.model import MODELS, Model, Shape, seeded
from pomona.training import tensors
from pomona.training.recipe import Recipe
from pomona.training.run import Run
from pomona.trees.values import from_json

STATE = "state.safetensors"
_SIZES = ("width", "hidden", "inner", "layers", "heads", "beam")  # settings that models share
_SHARES = ("dropout", "gate_dropout")
_FLOAT = Kind("a number", lambda value: type(value) in (int, float))  # infinity too
_KINDS: dict[str, Any] = {"int": WHOLE, "float": _FLOAT, "list[float]": [_FLOAT], "list[dict[str, Any]]": [{}]}
_COUNTED = ("epoch", "position", "step", "stale", "waited", "right", "seen")
_MOMENTS = ("step", "exp_avg", "exp_avg_sq")  # Adam's own names of what it keeps for each weight


@dataclass
class State:
    """The numbers that a run carries from step to step."""

    epoch: int = 0
    position: int = 0  # batches done in this epoch
    step: int = 0
    factor: float = 1.0  # the product of all decays of the rate
    best: float = -1.0  # dev accuracy
    best_loss: float = math.inf  # dev loss of the best epoch
    best_epoch: int = -1
    stale: int = 0  # epochs since the best one
    waited: int = 0  # epochs since the best one or since the rate fell
    loss: float = 0.0  # sums over this epoch: of the loss, ...
    right: int = 0  # ... of the right answers
    seen: int = 0  # ... and of the examples
    seconds: float = 0.0  # processor time of the training
    stage: int = 0  # the stage that is trained now, ...
    stage_step: int = 0  # ... its steps so far, ...
    grown: int = 0  # ... the lengths that it has learnt, if it grows, ...
    recent: list[float] = field(default_factory=list)  # ... and the last shares of right answers of its newest length
    curve: list[dict[str, Any]] = field(default_factory=list)


class Trained(NamedTuple):
    """A module with its weights, the words and answers that it knows, and the model that built it."""

    module: nn.Module
    vocabulary: tuple[str, ...]
    outcomes: tuple[Any, ...]
    model: Model


# -- modules and their weights ----------------------------------------------------------------------------------------


def model_of(recipe: Recipe) -> Model:
    """The model of a recipe; an error if a size is no size."""
    model = MODELS.build(recipe.model, recipe.settings)
    for name in _SIZES:
        size = getattr(model, name, 1)
        if isinstance(size, int) and size < 1:
            raise SpecError(f"{recipe.model}: {name} = {size}: must be at least 1")
    for name in _SHARES:
        share = getattr(model, name, 0)
        if isinstance(share, (int, float)) and not 0 <= share < 1:
            raise SpecError(f"{recipe.model}: {name} = {share}: must be at least 0 and below 1")
    return model


def build(recipe: Recipe, vocabulary: tuple[str, ...], outcomes: tuple[Any, ...], answers: int = 0) -> nn.Module:
    """The module of a recipe with its first weights, which depend on nothing but the recipe's seed.

    `answers` is how many the data ask for (`Model.asking`); 0 if that is not known.
    """
    model = model_of(recipe).asking(answers)
    try:
        with seeded(int(stream_key("first weights", recipe.seed)) >> 1):
            return model.build(Shape(len(vocabulary), len(outcomes), vocabulary, outcomes))
    except (AssertionError, RuntimeError, TypeError, ValueError, ZeroDivisionError) as error:
        if isinstance(error, PomonaError):
            raise
        raise SpecError(f"{recipe.model} cannot be built with the settings {settings_of(model)}: {error}") from error


def load(run: Run, which: str = "best") -> Trained:
    """The trained module of a run: `best` on dev, or `last`."""
    path = run.folder / f"{which}.safetensors"
    if not path.exists():
        raise RunError(f"{run.folder} has no {which} weights yet; train it with the same command again")
    arrays, about = read_torch(path)
    vocabulary, outcomes, answers = _words(about, path)
    module = build(run.recipe, vocabulary, outcomes, answers)
    with torch.no_grad():
        for name, tensor in module.state_dict().items():
            tensor.copy_(fitting(arrays, name, tensor, path))
    return Trained(module.eval(), vocabulary, outcomes, model_of(run.recipe).asking(answers))


def save_weights(run: Run, which: str, module: nn.Module, about: Mapping[str, Any]) -> None:
    run.write_bytes(f"{which}.safetensors", tensors_to_bytes(_weights(module), about))


def _weights(module: nn.Module) -> dict[str, Tensor]:
    """Parameters, and whatever else a module carries from step to step, for example a moving average."""
    return {name: tensor.detach() for name, tensor in module.state_dict().items()}


# -- the state in the middle of a run ---------------------------------------------------------------------------------


def save_state(
    run: Run, module: nn.Module, adam: torch.optim.Optimizer, state: State, about: Mapping[str, Any]
) -> None:
    arrays = {f"weight.{name}": weight for name, weight in _weights(module).items()}
    for name, weight in module.named_parameters():
        if weight in adam.state:  # a weight that never had a gradient has none
            arrays |= {f"{moment}.{name}": adam.state[weight][moment] for moment in _MOMENTS}
    run.write_bytes(STATE, tensors_to_bytes(arrays, {**about, "state": asdict(state)}))


def load_state(run: Run, module: nn.Module, adam: torch.optim.Optimizer) -> State:
    """The saved state of a run, with its weights put into the module and Adam; a new state if none was saved."""
    path = run.folder / STATE
    if not path.exists():
        return State()
    arrays, about = read_torch(path)
    state = _state(about, path)
    with torch.no_grad():
        for name, tensor in module.state_dict().items():
            tensor.copy_(fitting(arrays, f"weight.{name}", tensor, path))
        for name, weight in module.named_parameters():
            if f"exp_avg.{name}" in arrays:
                step = torch.tensor(float(state.step))
                arrays.setdefault(f"step.{name}", step)  # older files have none
                like = dict(zip(_MOMENTS, (step, weight, weight), strict=True))
                adam.state[weight] = {
                    moment: fitting(arrays, f"{moment}.{name}", like[moment], path).to(weight.device)
                    for moment in _MOMENTS
                }
    return state


def _state(about: Mapping[str, Any], path: Path) -> State:
    """The numbers of a saved state, each of them checked."""
    known = {f"{name}?": _KINDS[kind] for name, kind in State.__annotations__.items()}  # older files lack some
    try:
        values = check(about, {"state": known})["state"]
        state = State(**values)
    except (FormatError, TypeError) as error:
        raise RunError(f"{path} holds no state of a run: {error}") from None
    if min(getattr(state, name) for name in _COUNTED) < 0 or (state.position and not state.seen):
        raise RunError(f"{path} holds no state of a run: its counts contradict each other")
    return state


# -- longer trainings -------------------------------------------------------------------------------------------------

# The state before the rate falls, and the best weights up to then: a longer training of the same settings begins here.
TRUNK, TRUNK_BEST = "trunk.safetensors", "trunk_best.safetensors"


def keep_trunk(run: Run) -> None:
    """Keep the state as it is now for a longer training."""
    for source, target in ((STATE, TRUNK), ("best.safetensors", TRUNK_BEST)):
        run.write_bytes(target, read_bytes(run.folder / source))


def begin_from(run: Run, shorter: Run) -> None:
    """Begin a new run where a shorter one stood before its rate fell."""
    if not run.recipe.extends(shorter.recipe):
        raise RunError(
            f"{shorter.folder} cannot be extended to this recipe: all settings but `epochs` must be the same, with "
            "more epochs, and the schedule must be 'cooldown'"
        )
    parts = {"data.json": "data.json", "best.safetensors": TRUNK_BEST, STATE: TRUNK}
    if not all((shorter.folder / source).exists() for source in parts.values()):
        raise RunError(f"{shorter.folder} has not come to the end of its full rate; train it first")
    for target, source in parts.items():  # the state last: without it a run is new
        run.write_bytes(target, read_bytes(shorter.folder / source))


def to_extend(recipe: Recipe, folders: Iterable[Path]) -> Run | None:
    """Of the runs in these folders the longest that this recipe can begin from."""
    runs = [Run.read(folder) for folder in folders if (folder / TRUNK).exists()]
    return max((run for run in runs if recipe.extends(run.recipe)), key=lambda run: run.recipe.epochs, default=None)


# -- files ------------------------------------------------------------------------------------------------------------


def saved_words(run: Run) -> tuple[tuple[str, ...], tuple[Any, ...]] | None:
    """The words and answers of a run that was begun before, to which its weights belong; None for a new run."""
    path = run.folder / STATE
    if not path.exists():
        return None
    return _words(read_torch(path)[1], path)[:2]


def _words(about: Mapping[str, Any], path: Path) -> tuple[tuple[str, ...], tuple[Any, ...], int]:
    """The words and answers in the header of a file, and how many answers the data ask for (0: older files)."""
    try:
        check(about, {"vocabulary": [TEXT], "outcomes": [ANYTHING], "answers?": COUNT})
        words, outcomes = tuple(about["vocabulary"]), tuple(map(from_json, about["outcomes"]))
        return words, outcomes, int(about.get("answers", 0))
    except (FormatError, ValueError) as error:
        raise RunError(f"{path} does not hold the words and answers of a model: {error}") from None


def fitting(arrays: Mapping[str, Tensor], name: str, like: Tensor, path: Path) -> Tensor:
    """The tensor of this name, which must have the shape of another."""
    tensor = arrays.get(name)
    if tensor is None or tensor.shape != like.shape or tensor.is_floating_point() != like.is_floating_point():
        got = "nothing" if tensor is None else f"{' x '.join(map(str, tensor.shape))} numbers of {tensor.dtype}"
        raise RunError(
            f"{path} does not fit this model: for {name[:100]}, {' x '.join(map(str, like.shape))} numbers of "
            f"{like.dtype}, it holds {got}"
        )
    return tensor


def tensors_to_bytes(arrays: Mapping[str, Tensor], about: Mapping[str, Any]) -> bytes:
    """The content of a safetensors file with these tensors, and `about` as JSON in its header."""
    return tensors.to_bytes({name: array.detach().cpu().numpy() for name, array in arrays.items()}, about)


def read_torch(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What `tensors_to_bytes` wrote."""
    arrays, about = tensors.read(path)
    return {name: torch.from_numpy(array) for name, array in arrays.items()}, about
