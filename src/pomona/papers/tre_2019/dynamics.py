"""Learning dynamics (section 4, Figure 3): does compression go with compositionality while a classifier learns?

    folder = dynamics_folder("runs/tre_2019/cpu/dynamics", Dynamics(runs=10))
    learn(folder)                # trains what is missing, run by run and epoch by epoch; resumes after an interruption
    judge(folder)                # correlations over the paper's choices of epochs and over all epochs

A network sees two examples of a concept and makes a classifier theta = tanh(W (z1 + z2) + b) from them; its answer
about a third picture is theta . z. Before training and after each epoch we measure

* the TRE of theta (addition and cosine; exact and as published),
* the paper's entropy of theta, which it calls I(theta; X),
* the same entropy with bins over the actual range of theta, and
* a nearest-neighbour estimate of the information that theta holds about the attribute.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pomona.base.errors import FormatError, RunError, SpecError
from pomona.base.randomness import stream_key
from pomona.base.registry import validated
from pomona.base.shapes import COUNT, NUMBER, TEXT, Maybe, check
from pomona.models.model import seeded
from pomona.papers.tre_2019.concepts import Painter, Tasks, bundled_digits, data_folder, read_digits
from pomona.papers.tre_2019.correlations import correlate
from pomona.papers.tre_2019.folders import Folder, Say
from pomona.papers.tre_2019.published import PublishedTasks, read_archive
from pomona.representations.information import binned_entropy, mutual_information
from pomona.representations.tre import Derivations, ReconstructionWarning, tre
from pomona.representations.tre.legacy import andreas2019
from pomona.training.checkpoints import fitting, read_torch, tensors_to_bytes
from pomona.training.run import environment

VALIDATION = 500
PATIENCE, FACTOR = 10, 0.5  # of the plateau schedule: torch's defaults except for the factor, as in the released code
_ENTRY = {
    "epoch": COUNT, "accuracy": NUMBER, "gradient": Maybe(NUMBER),
    **dict.fromkeys(("exact", "bound", "legacy", "frozen", "entropy", "entropy_range", "information"), NUMBER),
}  # fmt: skip
_RUN = {"digits": TEXT, "curve": [_ENTRY]}
PROBES = 20  # tasks for each of the 22 attributes, to estimate the information


@dataclass(frozen=True)
class Dynamics:
    """The settings of training. The paper has 10 runs of 20 epochs of 100 batches of 128."""

    runs: int = 10
    epochs: int = 20
    batches: int = 100
    batch: int = 128
    rate: float = 1e-3
    tasks: int = 10_000
    digits: str | None = None  # the paper's archive (.tar.gz), or a folder with MNIST; None: what is in the data folder
    seed: int = 0


def dynamics_folder(path: str | Path, settings: Dynamics) -> Folder:
    return Folder.open(path, {"experiment": "dynamics", **dataclasses.asdict(settings)})


class Classifier(nn.Module):
    """The paper's network (appendix A; the padding of the first layer is that of the released code)."""

    def __init__(self) -> None:
        super().__init__()
        self.see = nn.Sequential(
            nn.Conv2d(3, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(400, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(),
        )  # fmt: skip
        self.join = nn.Linear(64, 64)

    def represent(self, first: Tensor, second: Tensor) -> Tensor:
        """theta, [n, 64]."""
        return torch.tanh(self.join(self.see(first) + self.see(second)))

    def forward(self, first: Tensor, second: Tensor, test: Tensor) -> Tensor:
        answer: Tensor = (self.represent(first, second) * self.see(test)).sum(1)
        return answer


class Pictures:
    """Standardised pictures: each pixel minus its mean over the first examples, divided by its standard deviation."""

    def __init__(self, tasks: Tasks | PublishedTasks, painter: Painter | None, device: str = "cpu") -> None:
        self.tasks, self.painter, self.device = tasks, painter, device
        seen = self._shown(tasks, np.arange(len(tasks)), 0)
        self.mean, self.deviation = seen.mean(0), seen.std(0, unbiased=False).clamp_min(1e-6)

    def __call__(
        self, rows: npt.NDArray[np.int64], which: Any, tasks: Tasks | PublishedTasks | None = None
    ) -> Tensor:
        shown = self._shown(self.tasks if tasks is None else tasks, rows, which)
        return (shown - self.mean) / self.deviation

    def _shown(self, tasks: Tasks | PublishedTasks, rows: npt.NDArray[np.int64], which: Any) -> Tensor:
        if isinstance(tasks, PublishedTasks):
            return tasks.pictures(rows, which).to(self.device)
        assert self.painter is not None
        return tasks.pictures(self.painter, rows, which)


@dataclass
class World:
    """What all runs share: tasks, pictures, and the items that TRE is measured on."""

    tasks: Tasks | PublishedTasks
    pictures: Pictures
    train: npt.NDArray[np.int64]
    validation: npt.NDArray[np.int64]
    measured: npt.NDArray[np.int64]  # one task of every distinct derivation, then the validation tasks
    derivations: Derivations
    probes: Tasks | PublishedTasks
    source: str

    @classmethod
    def make(cls, settings: Dynamics, device: str) -> World:
        tasks, painter, probes, source = _pictured(settings, device)
        names = tasks.derivations
        if len(tasks) <= VALIDATION:
            raise SpecError(f"{len(tasks)} tasks: {VALIDATION} are kept for validation, so more are needed")
        first = sorted({name: row for row, name in reversed(list(enumerate(names)))}.values())
        measured = np.concatenate([first, np.arange(len(tasks) - VALIDATION, len(tasks))])
        return cls(
            tasks,
            Pictures(tasks, painter, device),
            np.arange(len(tasks) - VALIDATION),
            np.arange(len(tasks) - VALIDATION, len(tasks)),
            measured,
            Derivations.of([names[row] for row in measured]),
            probes,
            source,
        )


def _pictured(settings: Dynamics, device: str) -> tuple[Any, Painter | None, Any, str]:
    """Tasks, who paints them, the tasks of single attributes, and what the pictures are."""
    known = data_folder() / "concepts" / "data.tar.gz"
    archive = known if settings.digits is None and known.is_file() else Path(settings.digits or "")
    if archive.suffixes[-2:] == [".tar", ".gz"]:
        published = read_archive(archive)
        return published, None, published.of_attributes(PROBES), f"the paper's pictures, {len(published)} tasks"
    digits = bundled_digits() if settings.digits == "bundled" else read_digits(settings.digits)
    tasks = Tasks.draw(digits, settings.seed, settings.tasks)
    return tasks, Painter.of(digits, device), Tasks.of_attributes(digits, settings.seed, PROBES), digits.source


def learn(
    folder: Folder, *, only: Sequence[int] | None = None, device: str = "cpu", say: Say = lambda text: None
) -> None:
    """Train every unfinished run, or only these. Resumes after the last complete epoch and gives the same bits."""
    settings = _settings(folder)
    chosen = range(settings.runs) if only is None else only
    missing = [run for run in chosen if not (folder.path / f"run-{run}.json").exists()]
    if missing:
        world = World.make(settings, device)
        for run in missing:
            with folder.locked(f"run-{run}"):
                _learn_run(folder, settings, run, world, device, say)


def _settings(folder: Folder) -> Dynamics:
    known = folder.read("settings.json", {}, {})
    return validated(Dynamics, {key: value for key, value in known.items() if key != "experiment"}, "dynamics")


def _learn_run(folder: Folder, settings: Dynamics, run: int, world: World, device: str, say: Say) -> None:
    with seeded(int(stream_key("dynamics", settings.seed, run)) >> 1):
        model = Classifier().to(device)
    optimiser = torch.optim.Adam(model.parameters(), lr=settings.rate)
    state = folder.path / f"run-{run}.safetensors"
    curve: list[dict[str, Any]] = []
    if state.exists():
        curve = _restore(model, optimiser, state)
    else:
        curve.append(measure(model, world, 0))
    while len(curve) <= settings.epochs:
        epoch = len(curve)
        for group in optimiser.param_groups:
            group["lr"] = settings.rate * FACTOR ** plateaus([entry["accuracy"] for entry in curve[1:]])
        _epoch(model, optimiser, world, settings, run, epoch)
        entry = measure(model, world, epoch)
        curve.append(entry)
        say(
            f"{folder.path}: run {run}, epoch {epoch} of {settings.epochs}: validation {entry['accuracy']:.3f}, "
            f"TRE {entry['exact']:.4f}, entropy {entry['entropy']:.3f}"
        )
        folder.write_bytes(state.name, _saved(model, optimiser, curve))
    theta = represent(model, world, world.measured)
    folder.write_bytes(f"theta-{run}.safetensors", tensors_to_bytes({"theta": theta}, {}))
    folder.write(f"run-{run}.json", {"digits": world.source, "environment": environment(), "curve": curve})
    state.unlink()


def plateaus(accuracies: list[float]) -> int:
    """How often the rate has been halved: after more than ten epochs without improvement (torch's rule)."""
    best, waited, halved = float("-inf"), 0, 0
    for accuracy in accuracies:
        if accuracy > best * (1 + 1e-4) if best > 0 else accuracy > best:
            best, waited = accuracy, 0
        else:
            waited += 1
        if waited > PATIENCE:
            waited, halved = 0, halved + 1
    return halved


def _epoch(model: Classifier, optimiser: Any, world: World, settings: Dynamics, run: int, epoch: int) -> None:
    rng = np.random.default_rng(int(stream_key("batches", settings.seed, run, epoch)))
    for _ in range(settings.batches):
        rows = world.train[rng.integers(len(world.train), size=settings.batch)]
        negative = rng.integers(2, size=settings.batch)
        first, second, test = (world.pictures(rows, which) for which in (0, 1, 2 + negative))
        # As in the released code, class 1 is "not the concept".
        label = torch.as_tensor(negative, dtype=torch.float32, device=first.device)
        loss = nn.functional.binary_cross_entropy_with_logits(model(first, second, test), label)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()


@torch.no_grad()
def represent(
    model: Classifier, world: World, rows: npt.NDArray[np.int64], tasks: Tasks | PublishedTasks | None = None
) -> Tensor:
    return model.represent(world.pictures(rows, 0, tasks), world.pictures(rows, 1, tasks))


@torch.no_grad()
def measure(model: Classifier, world: World, epoch: int) -> dict[str, Any]:
    """The measurements of one epoch."""
    rows = world.validation
    negative = rows % 2
    answer = model(world.pictures(rows, 0), world.pictures(rows, 1), world.pictures(rows, 2 + negative)).cpu().numpy()
    theta = represent(model, world, world.measured).double().cpu().numpy()
    seen = theta[-VALIDATION:]
    probes = represent(model, world, np.arange(len(world.probes)), world.probes).double().cpu().numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReconstructionWarning)
        fit = tre(theta, world.derivations)
        frozen, moving = (andreas2019(theta, world.derivations, zero_init=zero).score for zero in (True, False))
    return {
        "epoch": epoch,
        "accuracy": float(((answer > 0) == negative).mean()),
        "exact": fit.score,
        "bound": fit.bound.lower_bound,
        "gradient": fit.bound.gradient_norm,
        "legacy": moving,
        "frozen": frozen,
        "entropy": binned_entropy(seen),
        "entropy_range": binned_entropy(seen, binning="range"),
        "information": mutual_information(probes, [str(name) for name in world.probes.derivations]),
        "saturated": float((np.abs(seen) >= 0.5).mean()),
    }


def _saved(model: nn.Module, optimiser: Any, curve: list[dict[str, Any]]) -> bytes:
    arrays = {f"weights/{name}": value for name, value in model.state_dict().items()}
    for number, entry in optimiser.state_dict()["state"].items():
        arrays |= {f"adam/{number}/{name}": value for name, value in entry.items()}
    return tensors_to_bytes(arrays, {"curve": curve})


def _restore(model: nn.Module, optimiser: Any, path: Path) -> list[dict[str, Any]]:
    arrays, about = read_torch(path)
    try:
        check(about, {"curve": [_ENTRY]})
    except FormatError as error:
        raise RunError(f"{path} cannot be read: {error}") from None
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            tensor.copy_(fitting(arrays, f"weights/{name}", tensor, path))
    known = optimiser.state_dict()
    for number, weight in enumerate(model.parameters() if any(name.startswith("adam/") for name in arrays) else ()):
        like = {"step": torch.zeros(()), "exp_avg": weight, "exp_avg_sq": weight}
        state = {which: fitting(arrays, f"adam/{number}/{which}", tensor, path) for which, tensor in like.items()}
        known["state"][number] = state
    optimiser.load_state_dict(known)
    return list(about["curve"])


def thetas(folder: Path) -> list[npt.NDArray[np.float64]]:
    """The final classifiers of every finished run, [items, 64]."""
    paths = sorted(folder.glob("theta-*.safetensors"), key=lambda path: (len(path.stem), path.stem))
    return [_theta(read_torch(path)[0].get("theta"), path) for path in paths]


def _theta(theta: Tensor | None, path: Path) -> npt.NDArray[np.float64]:
    if theta is None or theta.ndim != 2 or not torch.isfinite(theta).all():
        raise RunError(f"{path} does not hold one vector of finite numbers for each item")
    return np.asarray(theta.double().numpy())


def derivations(settings: Dynamics) -> Derivations:
    """The derivations of the concepts that every run is measured on."""
    return World.make(settings, "cpu").derivations


# -- correlations ---------------------------------------------------------------------------------------------------

TRES = ("exact", "legacy", "frozen")
CHOICES = ("before the best epoch", "from most entropy to the best", "all epochs")
INFORMATIONS = ("entropy", "entropy_range", "information")
MOST_RUNS = 10_000


def selections(curves: list[list[dict[str, Any]]]) -> dict[str, list[tuple[int, int]]]:
    """The (run, epoch) pairs of each figure: the paper's two choices, and all."""
    chosen: dict[str, list[tuple[int, int]]] = {name: [] for name in CHOICES}
    for run, curve in enumerate(curves):
        best = int(np.argmax([entry["accuracy"] for entry in curve]))
        most = int(np.argmax([entry["entropy"] for entry in curve[: best + 1]]))
        chosen[CHOICES[0]] += [(run, epoch) for epoch in range(best)]
        chosen[CHOICES[1]] += [(run, epoch) for epoch in range(most, best)]
        chosen[CHOICES[2]] += [(run, epoch) for epoch in range(len(curve))]
    return chosen


def judge(folder: Folder) -> dict[str, Any]:
    """Correlate TRE with information over each choice of epochs; intervals come from resampling whole runs."""
    runs = [folder.read(f"run-{run}.json", None, _RUN) for run in range(min(_settings(folder).runs, MOST_RUNS))]
    curves = [run["curve"] for run in runs if run is not None and run["curve"]]
    results: dict[str, Any] = {"runs": len(curves), "correlations": []}
    if not curves:
        return results
    results["digits"] = next(run["digits"] for run in runs if run is not None)
    results["accuracies"] = [max(entry["accuracy"] for entry in curve) for curve in curves]
    results["best epochs"] = [int(np.argmax([entry["accuracy"] for entry in curve])) for curve in curves]
    results["untrained"] = {name: [curve[0][name] for curve in curves] for name in TRES}
    results["final"] = {name: [curve[-1][name] for curve in curves] for name in TRES}
    for choice, epochs in selections(curves).items():
        for kind in TRES:
            for information in INFORMATIONS:
                x, y = ([curves[run][epoch][name] for run, epoch in epochs] for name in (kind, information))
                r = correlate(x, y, clusters=[run for run, _ in epochs])
                results["correlations"].append({"epochs": choice, "tre": kind, "information": information, **r.plain})
    results["curves"] = curves
    return results
