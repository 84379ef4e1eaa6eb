"""A Run is the folder that training fills. Nothing here imports torch, so runs can be read, compared and reported.

    run = Run.open("runs/tree", recipe)          # a new folder, or the one that holds a run of this recipe
    run.curve[-1]["dev"], run.recipe == recipe

    recipe.json           the Recipe                     state.safetensors   where a killed run resumes
    environment.json      versions, machine, threads     best, last          weights (.safetensors)
    data.json             fingerprints of train and dev  certificate.json    why dev is held out, for some tasks
    curve.jsonl, .csv     one line for each epoch        predictions/        answers and trees on a corpus, by name
    scores.json           what was measured, by corpus   .lock, .scores.lock held while a process trains, adds scores
    tensorboard/          what a tracker wrote           tracked-NAME.json   how many epochs a tracker has seen

Every file is replaced as a whole, so none is ever half written.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pomona.base import files
from pomona.base.errors import FormatError, RunError, RunInUseError, SpecError
from pomona.base.locks import InUse, locked
from pomona.base.shapes import COUNT, NUMBER, TEXT, WHOLE, Each, fault, is_number
from pomona.training.curves import as_csv
from pomona.training.predictions import Predictions
from pomona.training.recipe import Recipe

_MEASURED = ("epoch", "loss", "train", "dev", "rate")  # what every epoch of a curve has
_BEGUN = ("recipe.json", "environment.json", "data.json", "certificate.json", ".lock")  # before the first step
_TRAINED = ("state.safetensors", "curve.jsonl", "best.safetensors", "last.safetensors", "summary.json")
_SUMMARY = {
    "best_epoch": WHOLE, "dev": NUMBER, "epochs?": COUNT, "steps?": COUNT, "core_seconds?": NUMBER,
    "train_rows?": COUNT,
}  # fmt: skip
LONGEST_NAME = 200  # bytes of the name of a test, which becomes the name of a file


@contextmanager
def opened(folder: str | Path, recipe: Recipe) -> Iterator[Run]:
    """The run of this recipe in this folder, as `Run.open` gives it.

    If the block fails before a new run has saved anything that was trained, the new files are removed, so that the
    folder claims nothing. After an interruption they stay, and the run resumes.
    """
    folder = Path(folder)
    new = files.kind_of(folder / "recipe.json") != "file"
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        run = Run.open(folder, recipe)
        yield run
    except Exception:
        if new and not any((folder / name).exists() for name in _TRAINED):
            for name in _BEGUN:
                (folder / name).unlink(missing_ok=True)
            with suppress(OSError):  # something else is in it
                for path in missing:
                    path.rmdir()
        raise


class Run:
    """A folder that training fills; reading one needs no torch."""

    def __init__(self, folder: str | Path, recipe: Recipe) -> None:
        self.folder, self.recipe = Path(folder), recipe

    def __repr__(self) -> str:
        done = "finished" if self.finished else self.progress
        return f"Run({str(self.folder)!r}: {self.recipe.model} on {self.recipe.data}, seed {self.recipe.seed}, {done})"

    @classmethod
    def open(cls, folder: str | Path, recipe: Recipe) -> Run:
        """The run of this recipe in this folder: a new one, or the one that is there already."""
        folder = Path(folder)
        if files.kind_of(folder / "recipe.json") == "file":
            known = cls.read(folder)
            theirs, ours = known.recipe.plain, recipe.plain
            if theirs != ours:
                name = next(name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name))
                raise RunError(
                    f"{folder} holds a run of another recipe: there {name} = {theirs.get(name)!r}, here "
                    f"{ours.get(name)!r}. Nothing was changed; choose another folder or the same settings."
                )
            return known
        kind = files.kind_of(folder)
        if kind and not (kind == "folder" and files.is_empty(folder)):
            raise RunError(f"{folder} is not empty and holds no run; nothing was changed. Choose another folder.")
        run = cls(folder, recipe)
        run.write("recipe.json", recipe.plain)
        return run

    @classmethod
    def read(cls, folder: str | Path) -> Run:
        """The run that a folder holds."""
        path = Path(folder) / "recipe.json"
        if files.kind_of(path) != "file":
            raise RunError(f"{folder} holds no run: there is no recipe.json in it")
        settings = _object(path)
        try:
            return cls(folder, Recipe.from_settings(settings))
        except SpecError as error:
            raise RunError(f"{path} cannot be read: {error}") from None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from training in this folder; the system releases the lock when the process ends."""
        try:
            with locked(self.folder / ".lock"):
                yield
        except InUse:
            raise RunInUseError(f"another process is training in {self.folder}; wait for it") from None
        except OSError as error:
            raise RunError(f"{self.folder} cannot be written: {error.strerror or error}") from error

    # -- parts -------------------------------------------------------------------------------------------------------

    def write(self, name: str, value: Any) -> None:
        """Write a JSON document into the folder, as a whole or not at all."""
        try:
            files.write_json(self.folder / name, value)
        except FormatError as error:
            raise RunError(f"the run cannot be saved: {error}") from error

    def write_bytes(self, name: str, content: bytes) -> None:
        try:
            files.write_bytes(self.folder / name, content)
        except FormatError as error:
            raise RunError(f"the run cannot be saved: {error}") from error

    def read_json(self, name: str) -> dict[str, Any]:
        """A JSON document of the folder; empty if there is none."""
        path = self.folder / name
        return _object(path) if path.exists() else {}

    def _checked(self, name: str, shape: Any) -> dict[str, Any]:
        """A JSON document of the folder whose parts must have their kinds; empty if there is none."""
        value = self.read_json(name)
        wrong = fault(value, shape) if value else ""
        if wrong:
            raise RunError(f"{self.folder / name} is not what Pomona wrote: {wrong}")
        return value

    @property
    def curve(self) -> list[dict[str, Any]]:
        """One entry for each epoch: losses, accuracies, rate, step and seconds."""
        path = self.folder / "curve.jsonl"
        if not path.exists():
            return []
        try:
            lines = files.read_text(path).splitlines()
            entries = [files.parse_json(line, path, number) for number, line in enumerate(lines, 1)]
        except FormatError as error:
            raise RunError(f"{path} cannot be read, its end may be cut off: {error}") from None
        for number, entry in enumerate(entries, 1):
            if not isinstance(entry, dict) or not all(is_number(entry.get(name)) for name in _MEASURED):
                raise RunError(f"{path}, line {number} is no epoch: an object with numbers for {', '.join(_MEASURED)}")
        return entries

    def write_curve(self, curve: Sequence[Mapping[str, Any]]) -> None:
        self.write_bytes("curve.jsonl", "".join(json.dumps(entry) + "\n" for entry in curve).encode())
        self.write_bytes("curve.csv", as_csv(curve).encode())

    @property
    def progress(self) -> str:
        """How far the training has come: `3 of 20 epochs`, or `stage 'short sentences'`."""
        curve = self.curve
        if curve and "stage" in curve[-1]:
            return f"stage {curve[-1]['stage']!r}"
        return f"{len(curve)} of {self.recipe.epochs} epochs"

    @property
    def finished(self) -> bool:
        return bool(self.summary)

    @property
    def summary(self) -> dict[str, Any]:
        """Best epoch, its dev accuracy, seconds of training; empty until the run is finished."""
        return self._checked("summary.json", _SUMMARY)

    @property
    def data(self) -> dict[str, str]:
        """Fingerprints of the training corpus and of the corpus that the weights are chosen on."""
        return self._checked("data.json", Each(TEXT))

    @property
    def certificate(self) -> dict[str, Any]:
        """The evidence that dev is held out as the task demands; empty for tasks that need none."""
        return self.read_json("certificate.json")

    def check_data(self, fingerprints: Mapping[str, str]) -> None:
        """Record the fingerprints of a new run; an error if a run was begun on other examples."""
        if not self.data and not self.curve and not (self.folder / "state.safetensors").exists():
            self.write("data.json", dict(fingerprints))
        elif self.data != dict(fingerprints):
            raise RunError(
                f"{self.folder} was trained on other examples than {self.recipe.data} gives now (train "
                f"{self.data.get('train', 'unknown')[:12]}, now {fingerprints['train'][:12]}): the generator or the "
                "file has changed. Its scores on today's splits would not be held out; train again in another folder."
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
        """Add what was measured on one corpus; processes that do so at the same time wait for each other."""
        try:
            with locked(self.folder / ".scores.lock", wait=True):
                self.write("scores.json", {**self.scores, name: dict(scores)})
        except OSError as error:
            raise RunError(f"the run cannot be saved: {self.folder}: {error.strerror or error}") from error

    def predictions_at(self, name: str) -> Path:
        """The file of the predictions of this name; a name that would lead to another folder is an error."""
        if not name.isprintable() or not name or set(name) & set("/\\") or len(os.fsencode(name)) > LONGEST_NAME:
            raise RunError(
                f"predictions cannot be kept under the name {name[:60]!r}: choose a plain file name without slashes "
                f"of at most {LONGEST_NAME} bytes, for example test"
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


def _object(path: Path) -> dict[str, Any]:
    """The JSON object in a file of a run."""
    try:
        value = files.read_json(path)
    except FormatError as error:
        raise RunError(f"{path} cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise RunError(f"{path} cannot be read: it holds no object")
    return value


def environment(**more: Any) -> dict[str, Any]:
    """Versions and machine, to be recorded with every result."""
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
