"""Training: a Recipe in, a Run out. The same call again goes on where it was killed, to the same bits.

    run = train(Recipe("treelstm", longest=50, epochs=20, rate=1e-2), "runs/tree")
    predict(run, corpus).answers

Nothing random is carried from step to step: the order of an epoch is drawn from (seed, epoch), the noise of a step from
(seed, step). What is left to save is the weights, Adam's two moments, and a few numbers; they go into one file, so it
is the state before some step or after it and never half of each. The corpora are made anew each time, so their
fingerprints are kept, and a run whose data have changed (another generator under the same name) is not gone on with.
On a CPU with the same number of threads a run that was killed and started again ends with the bits of one that was not.
Weights are chosen on dev; test is never looked at (unless `test_selection` asks for what the paper's code did).
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pomona.base.arrays import Floats
from pomona.base.errors import RunError, SpecError
from pomona.base.randomness import stream_key
from pomona.data import formats
from pomona.data.corpus import Corpus
from pomona.data.sources import data_file
from pomona.data.task import TASKS, generate
from pomona.models.inputs.sentences import bucketed, by_length, shuffled
from pomona.models.model import MODELS, Feed, Model, Shape, seeded, threads_of
from pomona.training.run import MODULE_FIDELITY, Predictions, Recipe, Run, environment
from pomona.trees.forest import Forest
from pomona.trees.values import from_json

EPSILON = 1e-8  # Adam's default
COSINE_END = 0.01  # of the first rate
ANSWER_ROWS, ANSWER_AREA = 512, 1 << 13  # rows and positions of a batch when answering


@dataclass(frozen=True)
class Progress:
    """How far a run has come; handed to the caller after every step."""

    epoch: int
    step: int
    steps: int
    loss: float
    examples_per_second: float
    seconds_left: float


@dataclass
class _State:
    """The numbers that a run carries from step to step."""

    epoch: int = 0
    position: int = 0  # batches done in this epoch
    step: int = 0
    factor: float = 1.0  # by which plateaus have lowered the rate
    best: float = -1.0
    best_loss: float = math.inf
    best_epoch: int = -1
    stale: int = 0  # epochs since the best one
    waited: int = 0  # epochs since the best one or since the rate fell
    loss: float = 0.0
    right: int = 0
    seen: int = 0
    seconds: float = 0.0  # processor time of training
    curve: list[dict[str, Any]] = field(default_factory=list)


# -- data -------------------------------------------------------------------------------------------------------------


def corpora(recipe: Recipe) -> tuple[Corpus, Corpus]:
    """The training corpus of a recipe and the one its weights are chosen on."""
    if Path(recipe.data).is_file():
        whole = formats.read(recipe.data)
        order = np.random.Generator(np.random.Philox(key=int(stream_key("hold out", recipe.data_seed))))
        rows = order.permutation(len(whole))
        train, dev = whole.take(np.sort(rows[recipe.dev_rows :])), whole.take(np.sort(rows[: recipe.dev_rows]))
        train = train[: recipe.rows] if recipe.rows is not None else train
    else:
        chosen_on = "test" if "test_selection" in recipe.fidelity else "dev"
        train = generate(recipe.data, "train", recipe.data_seed, recipe.rows, **recipe.data_settings)
        dev = generate(recipe.data, chosen_on, recipe.data_seed, **recipe.data_settings)[: recipe.dev_rows]
    train, dev = _admitted(train, recipe), _without(dev, _excluded(recipe))
    for name, corpus in (("train", train), ("dev", dev)):
        if not len(corpus):
            raise RunError(
                f"no example is left for {name} from {recipe.data} "
                f"(longest = {recipe.longest}, rows = {recipe.rows}, dev_rows = {recipe.dev_rows})"
            )
    return train, dev


def fresh_corpus(recipe: Recipe, epoch: int, held_out: npt.NDArray[np.uint64]) -> Corpus:
    """The examples of a later epoch of a recipe with `fresh`, without those whose keys are held out."""
    seed = int(stream_key("fresh", recipe.data_seed, epoch)) >> 1
    drawn = generate(recipe.data, "train", seed, recipe.rows, **recipe.data_settings)
    return _admitted(_without(drawn, held_out), recipe)


def held_out_keys(recipe: Recipe, dev: Corpus) -> npt.NDArray[np.uint64]:
    """Keys of dev and of every test split: what a fresh draw must leave out, since it knows nothing of the splits."""
    if Path(recipe.data).is_file():
        raise RunError(
            f"{recipe.data} is a file, and no fresh examples can be drawn from it; name a task or fresh=false"
        )
    task = TASKS.build(recipe.data, recipe.data_settings)
    others = [split for split in task.sizes if split not in ("train", "dev")]
    return np.concatenate([dev.keys, *(generate(task, split, recipe.data_seed).keys for split in others)])


def _admitted(train: Corpus, recipe: Recipe) -> Corpus:
    """What of a draw may be trained on."""
    train = _without(train, _excluded(recipe))
    return train if recipe.longest is None else train[train.lengths <= recipe.longest]


def _excluded(recipe: Recipe) -> npt.NDArray[np.uint64]:
    keys = [formats.read(data_file(path)).keys for path in recipe.exclude]
    return np.concatenate(keys) if keys else np.zeros(0, np.uint64)


def _without(corpus: Corpus, keys: npt.NDArray[np.uint64]) -> Corpus:
    found: Corpus = corpus[~np.isin(corpus.keys, keys)] if len(keys) else corpus
    return found


# -- training ---------------------------------------------------------------------------------------------------------


def train(
    recipe: Recipe,
    folder: str | Path,
    *,
    device: str | None = None,
    threads: int = 1,
    save_every: float = 60.0,
    progress: Callable[[Progress], None] | None = None,
) -> Run:
    """The run of this recipe, begun or gone on with until it is finished; state is saved every `save_every` seconds."""
    model = model_of(recipe)
    _refuse_without_effect(recipe, model, device)
    run = Run.open(folder, recipe)
    if run.finished:
        return run
    with run.locked(), threads_of(threads):
        where = device or ("cuda" if model.gpu and torch.cuda.is_available() else "cpu")
        run.write("environment.json", environment(device=where, threads=threads))
        with _memory_errors(recipe):
            _Trainer(run, torch.device(where), save_every, progress).go()
    return run


def _refuse_without_effect(recipe: Recipe, model: Model, device: str | None) -> None:
    """What a recipe asks for and cannot have is an error, before there is a folder that says it had it."""
    if not model.gpu and device not in (None, "cpu"):
        raise SpecError(f"{recipe.model} is computed on the processor alone; leave out device = {device!r}")
    odd = [name for name in recipe.fidelity if name in MODULE_FIDELITY]
    if odd and not model.quirks:
        raise SpecError(
            f"fidelity: {', '.join(odd)} is of the ListOps paper's models, and {recipe.model} is none; leave it out"
        )
    if Path(recipe.data).is_file() and (recipe.data_settings or "test_selection" in recipe.fidelity):
        raise SpecError(
            f"{recipe.data} is a file: it has no settings (data_settings = {dict(recipe.data_settings)}) and no test "
            "split to select on (test_selection); leave them out, or name a task"
        )


@contextmanager
def _memory_errors(recipe: Recipe) -> Iterator[None]:
    try:
        yield
    except (MemoryError, torch.cuda.OutOfMemoryError) as error:
        raise RunError(_too_large(recipe)) from error
    except RuntimeError as error:
        if "can't allocate memory" in str(error):
            raise RunError(_too_large(recipe)) from error
        raise


def _too_large(recipe: Recipe) -> str:
    return f"{recipe.model} does not fit into memory with batch = {recipe.batch}, longest = {recipe.longest}; lower one"


class _Trainer:
    """One run in memory."""

    def __init__(
        self, run: Run, device: torch.device, save_every: float, progress: Callable[[Progress], None] | None
    ) -> None:
        self.run, self.recipe, self.device = run, run.recipe, device
        self.save_every, self.progress = save_every, progress
        train, dev = corpora(self.recipe)
        run.check_data({"train": train.fingerprint, "dev": dev.fingerprint})
        self.model = model_of(self.recipe)
        if not run.certificate and (evidence := self.model.evidence(train, dev)):
            run.write("certificate.json", evidence)
        self.vocabulary, self.outcomes = self.model.words(train)
        self.train = self.model.read(train, self.vocabulary, self.outcomes)
        self.drawn = 0  # the epoch whose examples these are, when every epoch has its own
        self.held_out = held_out_keys(self.recipe, dev) if self.recipe.fresh else None
        self.dev = self.model.read(dev, self.vocabulary, self.outcomes)
        self.dev_batches = _answer_batches(self.dev, device)
        self.module = build(self.recipe, self.vocabulary, self.outcomes).to(device)
        self.names, self.weights = zip(*self.module.named_parameters(), strict=True)
        self.adam = torch.optim.Adam(
            self.weights, 1.0, self.recipe.betas, EPSILON, weight_decay=self.recipe.l2, fused=True
        )
        self.state = _State()
        self._load()

    # -- the loop ----------------------------------------------------------------------------------------------------

    def go(self) -> None:
        recipe, state = self.recipe, self.state
        self.clock, self.saved, self.sped = time.process_time(), time.monotonic(), _Speed()
        while state.epoch < recipe.epochs and state.stale < recipe.stop:
            batches = self._batches(state.epoch)
            for position in range(state.position, len(batches)):
                self._step(batches[position], len(batches))
                state.position = position + 1
                if time.monotonic() - self.saved > self.save_every and state.position < len(batches):
                    self._save()
            self._end_epoch()
            self._save()
        last = tensors_to_bytes(self._weights(), self._about())
        self.run.write_bytes("last.safetensors", last)
        summary = {
            "best_epoch": state.best_epoch,
            "dev": state.best,
            "epochs": state.epoch,
            "steps": state.step,
            "core_seconds": round(state.seconds, 2),
            "parameters": sum(weight.numel() for weight in self.weights),
            "train_rows": len(self.train),
        }
        self.run.write("summary.json", summary)
        (self.run.folder / "state.safetensors").unlink(missing_ok=True)

    def _batches(self, epoch: int) -> list[npt.NDArray[np.int64]]:
        if self.held_out is not None and epoch != self.drawn:
            corpus = fresh_corpus(self.recipe, epoch, self.held_out)
            self.train, self.drawn = self.model.read(corpus, self.vocabulary, self.outcomes), epoch
        make = bucketed if self.recipe.batching == "bucketed" else shuffled
        return make(self.train.lengths, self.recipe.batch, stream_key("order", self.recipe.seed, epoch))

    def _rate(self, batches: int) -> float:
        recipe, step = self.recipe, self.state.step
        rate = recipe.rate * self.state.factor * min(1.0, (step + 1) / max(1, recipe.warmup))
        if recipe.schedule == "cosine":
            done = min(1.0, step / max(1, recipe.epochs * batches))
            rate *= COSINE_END + (1 - COSINE_END) * (1 + math.cos(math.pi * done)) / 2
        elif recipe.schedule == "inverse_sqrt":
            rate *= math.sqrt(max(1, recipe.warmup) / max(step + 1, recipe.warmup, 1))
        return rate

    def _step(self, rows: npt.NDArray[np.int64], batches: int) -> None:
        recipe, state = self.recipe, self.state
        batch = self.train.batch(rows, self.device)
        random = torch.Generator(self.device)
        random.manual_seed(int(stream_key("step", recipe.seed, state.step)) >> 1)
        self.module.train()
        output = self.module(batch, random)
        loss = output.loss
        if loss is None:
            flat = output.logits.flatten(0, -2), batch.targets.flatten()
            loss = nn.functional.cross_entropy(*flat, ignore_index=-1)
        total = loss if output.penalty is None else loss + output.penalty
        self.adam.zero_grad(set_to_none=True)
        total.backward()
        norm = nn.utils.clip_grad_norm_(self.weights, recipe.clip)
        value = float(loss.detach())
        if not (math.isfinite(value) and math.isfinite(float(norm))):
            raise RunError(
                f"{self.run.folder}: the loss is {value} and the gradient's norm {float(norm)} at step {state.step} "
                f"of epoch {state.epoch}; the last good state is kept. Begin again with a lower rate."
            )
        rate = self._rate(batches)
        self.adam.param_groups[0]["lr"] = rate
        if recipe.weight_decay:
            with torch.no_grad():
                torch._foreach_mul_(list(self.weights), 1 - rate * recipe.weight_decay)
        self.adam.step()
        state.step += 1
        state.loss += value * len(rows)
        state.right += int(_right(output.logits.detach().argmax(-1) == batch.targets).sum())
        state.seen += len(rows)
        if self.progress:
            self.sped.add(len(rows))
            left = (recipe.epochs - state.epoch) * batches - state.position - 1
            self.progress(
                Progress(state.epoch, state.step, recipe.epochs * batches, value, self.sped.rate, self.sped.left(left))
            )

    def _end_epoch(self) -> None:
        recipe, state = self.recipe, self.state
        logits, _ = answer(self.module, self.dev_batches)
        accuracy = float(_right(logits.argmax(-1) == self.dev.targets).mean())
        now = time.process_time()
        seconds, self.clock = now - self.clock, now
        state.seconds += seconds
        entry = {
            "epoch": state.epoch,
            "loss": state.loss / state.seen,
            "train": state.right / state.seen,
            "dev": accuracy,
            "dev_loss": _cross_entropy(logits, self.dev.targets),
            "rate": self.adam.param_groups[0]["lr"],
            "step": state.step,
            "core_seconds": round(state.seconds, 3),
        }
        state.curve.append(entry)
        state.stale, state.waited = state.stale + 1, state.waited + 1
        better = accuracy > state.best
        if better:
            state.stale = state.waited = 0
        if better or (accuracy == state.best and entry["dev_loss"] < state.best_loss):  # dev may be full early
            state.best, state.best_loss, state.best_epoch = accuracy, entry["dev_loss"], state.epoch
            self.run.write_bytes("best.safetensors", tensors_to_bytes(self._weights(), self._about()))
        if recipe.schedule == "plateau" and state.waited >= recipe.patience:
            state.factor, state.waited = state.factor * recipe.decay, 0
        state.epoch, state.position, state.loss, state.right, state.seen = state.epoch + 1, 0, 0.0, 0, 0
        self.run.write_curve(state.curve)

    # -- where to go on ----------------------------------------------------------------------------------------------

    def _weights(self) -> dict[str, Tensor]:
        """Parameters, and whatever else a module carries from step to step (a moving average)."""
        return {name: tensor.detach() for name, tensor in self.module.state_dict().items()}

    def _about(self) -> dict[str, Any]:
        return {"vocabulary": self.vocabulary, "outcomes": self.outcomes, "recipe": self.recipe.plain}

    def _save(self) -> None:
        now = time.process_time()
        self.state.seconds, self.clock = self.state.seconds + now - self.clock, now
        arrays = {f"weight.{name}": weight for name, weight in self._weights().items()}
        for name, weight in zip(self.names, self.weights, strict=True):
            for moment in ("step", "exp_avg", "exp_avg_sq"):
                if weight in self.adam.state:
                    arrays[f"{moment}.{name}"] = self.adam.state[weight][moment]
        about = {**self._about(), "state": asdict(self.state)}
        self.run.write_bytes("state.safetensors", tensors_to_bytes(arrays, about))
        self.saved = time.monotonic()

    def _load(self) -> None:
        path = self.run.folder / "state.safetensors"
        if not path.exists():
            return
        arrays, about = read_torch(path)
        self.state = _State(**about["state"])
        with torch.no_grad():
            for name, tensor in self.module.state_dict().items():
                tensor.copy_(arrays[f"weight.{name}"])
            for name, weight in zip(self.names, self.weights, strict=True):
                if f"exp_avg.{name}" in arrays:
                    steps = arrays.get(f"step.{name}", torch.tensor(float(self.state.step)))  # those with a gradient
                    self.adam.state[weight] = {
                        "step": steps.to(self.device),
                        "exp_avg": arrays[f"exp_avg.{name}"].to(self.device),
                        "exp_avg_sq": arrays[f"exp_avg_sq.{name}"].to(self.device),
                    }


class _Speed:
    """Examples a second and time left, by the clock on the wall, from the last twenty seconds."""

    def __init__(self) -> None:
        self._marks = [(time.monotonic(), 0, 0)]

    def add(self, examples: int) -> None:
        _, steps, seen = self._marks[-1]
        self._marks.append((time.monotonic(), steps + 1, seen + examples))
        while self._marks[-1][0] - self._marks[0][0] > 20 and len(self._marks) > 2:
            self._marks.pop(0)

    @property
    def _window(self) -> tuple[float, int, int]:
        (begin, first, old), (end, last, new) = self._marks[0], self._marks[-1]
        return max(end - begin, 1e-9), last - first, new - old

    @property
    def rate(self) -> float:
        seconds, _, examples = self._window
        return examples / seconds

    def left(self, steps: int) -> float:
        seconds, done, _ = self._window
        return steps * seconds / max(1, done)


# -- modules and their weights ---------------------------------------------------------------------------------------


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
    vocabulary, outcomes = tuple(about["vocabulary"]), tuple(map(from_json, about["outcomes"]))
    module = build(run.recipe, vocabulary, outcomes)
    module.load_state_dict(arrays)
    return module.eval(), vocabulary, outcomes


def tensors_to_bytes(arrays: dict[str, Tensor], about: dict[str, Any]) -> bytes:
    from safetensors.torch import save

    plain = {name: array.detach().cpu().contiguous() for name, array in arrays.items()}
    return save(plain, {"about": json.dumps(about)})


def read_torch(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    from pomona.training.run import read_tensors

    arrays, about = read_tensors(path)
    return {name: torch.from_numpy(array) for name, array in arrays.items()}, about


# -- answering ------------------------------------------------------------------------------------------------------


def _right(equal: Any) -> Any:
    """Rows whose answers, one or several, are all right."""
    return equal if equal.ndim == 1 else equal.all(1)


def _answer_batches(feed: Feed, device: torch.device | str) -> list[Any]:
    return [feed.batch(rows, device) for rows in by_length(feed.lengths, ANSWER_ROWS, ANSWER_AREA)]


def answer(module: nn.Module, batches: list[Any]) -> tuple[npt.NDArray[np.float32], Forest | None]:
    """Logits of every row, and the trees built, in the order of the corpus. Batches keep their plans for next time."""
    module.eval()
    order = np.concatenate([batch.rows for batch in batches])
    logits, trees = [], []
    with torch.no_grad():
        for batch in batches:
            output = module(batch)
            logits.append(output.logits.float().cpu().numpy())
            trees.append(output.trees)
    back = np.argsort(order, kind="stable")
    forest = None if trees[0] is None else Forest.concatenate(trees)[back]
    return np.concatenate(logits)[back], forest


def predict(run: Run, corpus: Corpus, *, which: str = "best", device: str = "cpu", threads: int = 1) -> Predictions:
    """What a trained run says of any corpus."""
    module, vocabulary, outcomes = load(run, which)
    feed = model_of(run.recipe).read(corpus, vocabulary, outcomes)
    with threads_of(threads), _memory_errors(run.recipe):
        logits, trees = answer(module.to(device), _answer_batches(feed, device))
    return Predictions(corpus.fingerprint, outcomes, logits, trees, vocabulary)


def represent(
    run: Run, corpus: Corpus, *, which: str = "best", device: str = "cpu", threads: int = 1
) -> npt.NDArray[np.float32]:
    """A vector for each sentence, [rows, width]: what the model gives for it, else its root, else its last token."""
    module, vocabulary, outcomes = load(run, which)
    feed = model_of(run.recipe).read(corpus, vocabulary, outcomes)
    found: list[npt.NDArray[np.float32]] = []
    batches = _answer_batches(feed, device)
    with threads_of(threads), _memory_errors(run.recipe), torch.no_grad():
        module.to(device).eval()
        for batch in batches:
            output = module(batch)
            if output.sentences is not None:
                found.append(output.sentences.float().cpu().numpy())
                continue
            if output.nodes is None or len(output.nodes) < len(batch.rows):
                raise RunError(f"{run.recipe.model} gives no vectors of what it reads; a model of trees or tokens does")
            ends = batch.start if output.trees is None else output.trees.start
            found.append(output.nodes[torch.from_numpy(np.asarray(ends[1:]) - 1)].float().cpu().numpy())
    back = np.argsort(np.concatenate([batch.rows for batch in batches]), kind="stable")
    return np.concatenate(found)[back]


def _cross_entropy(logits: Floats, targets: npt.NDArray[np.int64]) -> float:
    known = targets >= 0
    logits, targets = logits[known], targets[known]
    shifted = logits - logits.max(1, keepdims=True)
    chosen = shifted[np.arange(len(shifted)), targets]
    return float((np.log(np.exp(shifted).sum(1)) - chosen).mean())
