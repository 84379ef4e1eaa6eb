"""A Recipe says everything that decides a training run; a Run is the folder that training leaves behind.

    recipe = Recipe("treelstm", data="listops/d20s", longest=50, epochs=20, rate=1e-2)
    run = Run.open("runs/tree", recipe)          # made, or found with the same recipe; another recipe is an error
    run.curve[-1]["dev"], run.recipe == recipe

    recipe.json           the Recipe                     state.safetensors   where a killed run goes on
    environment.json      versions, machine, threads     best, last          weights (.safetensors)
    data.json             fingerprints of train and dev    certificate.json    why dev is held out, for some tasks
    curve.jsonl           one line an epoch              predictions/        answers and trees on a corpus, by name
    scores.json           what was measured, by corpus   .lock               held while a process trains

Every file is whole or not there. Nothing here imports torch, so runs can be compared and reported without it.
"""

from __future__ import annotations

import dataclasses
import fcntl
import hashlib
import importlib.metadata
import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pomona.base.errors import FormatError, RunError, SpecError, TreeError, did_you_mean
from pomona.base.files import replacing, write_json
from pomona.base.registry import settings_of, validated
from pomona.trees.binary import from_transitions, transitions
from pomona.trees.forest import Forest
from pomona.trees.values import from_json

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
LONGEST_NAME = 200  # bytes of a test's name, which becomes a file's name


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


@dataclass(frozen=True, eq=False)
class Score:
    """What a measure gives: a number, the examples behind it, and its interval."""

    value: float
    per_example: npt.NDArray[np.float64]
    interval: tuple[float, float]
    higher_is_better: bool = True

    def __repr__(self) -> str:
        low, high = self.interval
        return f"Score({self.value:.4f}, {low:.4f} to {high:.4f}, {len(self.per_example):,} examples)"


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a run said about a corpus: an answer and logits a row, and the trees it chose if it chooses any."""

    corpus: str  # its fingerprint
    outcomes: tuple[Any, ...]
    logits: npt.NDArray[np.float32]  # [rows, outcomes] or [rows, answers, outcomes]
    trees: Forest | None = None
    vocabulary: tuple[str, ...] = ()  # the words that the model knows, where that is recorded

    @cached_property
    def answers(self) -> npt.NDArray[np.int64]:
        """Positions in `outcomes`, [rows] or [rows, answers]."""
        return np.asarray(self.logits.argmax(axis=-1), np.int64)

    def save(self, path: Path) -> None:
        from safetensors.numpy import save

        arrays: dict[str, npt.NDArray[Any]] = {"logits": np.ascontiguousarray(self.logits)}
        about = {"corpus": self.corpus, "outcomes": list(self.outcomes), "vocabulary": list(self.vocabulary)}
        if self.trees is not None:
            steps, start = transitions(self.trees)
            leaf = self.trees.leaf
            arrays |= {"steps": steps, "start": start, "leaves": self.trees.symbol[leaf]}
            about["names"] = list(self.trees.names)
        with replacing(path) as beside:
            beside.write_bytes(save(arrays, {"about": json.dumps(about)}))

    @classmethod
    def load(cls, path: Path) -> Predictions:
        arrays, about = read_tensors(path)
        try:
            trees = None
            if "steps" in arrays:
                trees = from_transitions(arrays["steps"], arrays["start"], arrays["leaves"], tuple(about["names"]))
            words = tuple(about.get("vocabulary", ()))
            return cls(str(about["corpus"]), tuple(map(from_json, about["outcomes"])), arrays["logits"], trees, words)
        except (KeyError, TypeError, AttributeError, TreeError) as error:
            raise RunError(f"{path} holds no predictions of ours: {type(error).__name__} {error}") from None


def read_tensors(path: Path) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """Arrays of a safetensors file and the JSON kept under `about` in its header."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "np") as file:
            about = json.loads((file.metadata() or {}).get("about", "{}"))
            return {name: file.get_tensor(name) for name in file.keys()}, about  # noqa: SIM118 - not a mapping
    except (OSError, SafetensorError, ValueError) as error:
        raise RunError(f"{path} cannot be read as a safetensors file: {error}") from None


class Run:
    """A folder that training fills; reading one needs no torch."""

    def __init__(self, folder: str | Path, recipe: Recipe) -> None:
        self.folder, self.recipe = Path(folder), recipe

    def __repr__(self) -> str:
        done = "finished" if self.finished else f"{len(self.curve)} of {self.recipe.epochs} epochs"
        return f"Run({str(self.folder)!r}: {self.recipe.model} on {self.recipe.data}, seed {self.recipe.seed}, {done})"

    @classmethod
    def open(cls, folder: str | Path, recipe: Recipe) -> Run:
        """The run of this recipe in this folder: a new one, or the one that was begun there."""
        folder = Path(folder)
        if (folder / "recipe.json").is_file():
            known = cls.read(folder)
            if known.recipe != recipe:
                theirs, ours = known.recipe.plain, recipe.plain
                name = next(name for name in ours if ours[name] != theirs.get(name))
                raise RunError(
                    f"{folder} holds a run of another recipe: there {name} = {theirs.get(name)!r}, here "
                    f"{ours[name]!r}. Nothing was touched; take another folder or the same settings."
                )
            return known
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise RunError(f"{folder} is not empty and holds no run; nothing was touched. Take another folder.")
        run = cls(folder, recipe)
        run.write("recipe.json", recipe.plain)
        return run

    @classmethod
    def read(cls, folder: str | Path) -> Run:
        """A run that is there already."""
        path = Path(folder) / "recipe.json"
        try:
            recipe = Recipe.from_settings(json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise RunError(f"{folder} holds no run: there is no recipe.json in it") from None
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise RunError(f"{path} cannot be read: {error}") from None
        return cls(folder, recipe)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from training into this folder; the system lets go when the process ends."""
        try:
            with (self.folder / ".lock").open("a") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise RunError(f"another process is training in {self.folder}; wait for it") from None
                yield
        except OSError as error:
            raise RunError(f"{self.folder} cannot be written: {error.strerror or error}") from error

    # -- parts -------------------------------------------------------------------------------------------------------

    def write(self, name: str, value: Any) -> None:
        """Put a JSON document into the folder, whole or not at all."""
        try:
            write_json(self.folder / name, value)
        except FormatError as error:
            raise RunError(f"the run cannot be saved: {error}") from error

    def write_bytes(self, name: str, content: bytes) -> None:
        try:
            with replacing(self.folder / name) as beside:
                beside.write_bytes(content)
        except FormatError as error:
            raise RunError(f"the run cannot be saved: {error}") from error

    def read_json(self, name: str) -> dict[str, Any]:
        """A JSON document of the folder; empty if it is not there."""
        path = self.folder / name
        try:
            found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        except (OSError, ValueError) as error:
            raise RunError(f"{path} cannot be read: {error}") from None
        if not isinstance(found, dict):
            raise RunError(f"{path} cannot be read: it holds no object")
        return found

    @property
    def curve(self) -> list[dict[str, Any]]:
        """One entry an epoch: losses, dev accuracy, rate, examples a second."""
        path = self.folder / "curve.jsonl"
        try:
            entries = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        except (OSError, ValueError) as error:
            raise RunError(f"{path} cannot be read, its end may be cut off: {error}") from None
        if not all(isinstance(entry, dict) for entry in entries):
            raise RunError(f"{path} cannot be read: a line is no object")
        return entries

    def write_curve(self, curve: Sequence[Mapping[str, Any]]) -> None:
        self.write_bytes("curve.jsonl", "".join(json.dumps(entry) + "\n" for entry in curve).encode())

    @property
    def finished(self) -> bool:
        return bool(self.summary)

    @property
    def summary(self) -> dict[str, Any]:
        """Best epoch, its dev accuracy, seconds of training; empty while the run goes on."""
        return self.read_json("summary.json")

    @property
    def data(self) -> dict[str, str]:
        """Fingerprints of the corpora that the run was trained and chosen on."""
        return self.read_json("data.json")

    @property
    def certificate(self) -> dict[str, Any]:
        """What shows that dev is held out in the sense of the task; empty for tasks that need no such thing."""
        return self.read_json("certificate.json")

    def check_data(self, found: Mapping[str, str]) -> None:
        """Keep the fingerprints, or refuse if the run was begun, and so partly trained, on other examples."""
        if not self.data and not self.curve and not (self.folder / "state.safetensors").exists():
            self.write("data.json", dict(found))
        elif self.data != dict(found):
            raise RunError(
                f"{self.folder} was trained on other examples than {self.recipe.data} gives now (train "
                f"{self.data.get('train', 'unknown')[:12]}, now {found['train'][:12]}): the generator or the file has "
                "changed. Its scores on today's splits would not be held out; train again in another folder."
            )

    @property
    def environment(self) -> dict[str, Any]:
        """Versions and machine of the training."""
        return self.read_json("environment.json")

    @property
    def scores(self) -> dict[str, Any]:
        """What was measured, by name of corpus."""
        return self.read_json("scores.json")

    def add_scores(self, name: str, scores: Mapping[str, Any]) -> None:
        self.write("scores.json", {**self.scores, name: dict(scores)})

    def predictions_at(self, name: str) -> Path:
        """Where predictions of this name are kept; a name that would lead to another folder is an error."""
        if not name.isprintable() or not name or set(name) & set("/\\") or len(os.fsencode(name)) > LONGEST_NAME:
            raise RunError(
                f"predictions cannot be kept under the name {name[:60]!r}: take a plain file name without slashes, of "
                f"at most {LONGEST_NAME} bytes, as test"
            )
        return self.folder / "predictions" / f"{name}.safetensors"

    def predictions(self, name: str) -> Predictions | None:
        path = self.predictions_at(name)
        return Predictions.load(path) if path.exists() else None

    def add_predictions(self, name: str, predictions: Predictions) -> None:
        path = self.predictions_at(name)
        try:
            predictions.save(path)
        except FormatError as error:
            raise RunError(f"the run cannot be saved: {error}") from error


def environment(**more: Any) -> dict[str, Any]:
    """Versions and machine, for the record beside every result."""
    versions = {}
    for package in ("pomona", "torch", "numpy", "numba", "scipy", "safetensors"):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:  # run from a source tree
            versions[package] = "not installed"
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "packages": versions,
        **more,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
