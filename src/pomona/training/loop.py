"""The training loop: a Recipe in, a Run out. A run that was killed resumes when the same call is made again.

    run = train(Recipe("treelstm", longest=50, epochs=20, rate=1e-2), "runs/tree")
    predict(run, corpus).answers

A resumed run ends with the same bits as one that was never interrupted (on a CPU, with the same number of threads). No
random state is carried from step to step: the order of an epoch is drawn from (seed, epoch), the noise of a step from
(seed, step). What is saved is the weights, Adam's two moments and a few numbers (`checkpoints.State`).

The corpora are generated anew each time, so their fingerprints are kept. A run is not resumed if its data have changed,
for example because another version of the generator gives other examples under the same name.

A recipe or a model may have stages (`pomona.models.stages`, `staging`): then an epoch of the curve is a look at dev,
and the optimiser begins anew in every stage. The same promises hold at any moment inside any stage.

Weights are chosen on dev. Test is never looked at, unless select_on="test" asks for what the ListOps code did.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pomona.base.arrays import Floats
from pomona.base.errors import RunError, SpecError, did_you_mean
from pomona.base.files import kind_of
from pomona.base.randomness import stream_key
from pomona.data.sources import source_kind
from pomona.data.task import TASKS
from pomona.models.inputs.batches import bucketed, shuffled
from pomona.models.model import Model, Output, threads_of
from pomona.training.checkpoints import (
    STATE,
    begin_from,
    build,
    keep_trunk,
    load_state,
    model_of,
    save_state,
    save_weights,
    saved_words,
)
from pomona.training.data import corpora, fresh_corpus, held_out_keys
from pomona.training.predict import answer, answer_batches, memory_errors
from pomona.training.recipe import Recipe
from pomona.training.run import Run, environment, opened
from pomona.training.schedules import cooled, learning_rate
from pomona.training.speed import Speed, watched
from pomona.training.staging import Part, stages_of, told

EPSILON = 1e-8  # Adam's default

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Progress:
    """How far a run has come; passed to the caller after every step."""

    epoch: int
    step: int
    steps: int
    loss: float
    examples_per_second: float
    seconds_left: float


Report = Callable[[Progress], None]


def train(
    recipe: Recipe,
    folder: str | Path,
    *,
    device: str | None = None,
    threads: int = 1,
    save_every: float = 60.0,
    progress: Report | bool | None = None,
    after: Run | None = None,
) -> Run:
    """Train a recipe in a folder until it is finished, or resume the run that is there.

    The state is saved every `save_every` seconds. `progress` is called after every step; by default it is shown where
    that is possible (`base.progress`), and with False nowhere. A new run may begin where a
    shorter one stood before its rate fell (`after`; see `Recipe.extends`), and ends with the same bits as without it.
    """
    model = model_of(recipe)
    if kind_of(Path(folder) / "summary.json") != "file":  # of a finished run the data need not be there any more
        _refuse_without_effect(recipe, model, device)
    with opened(folder, recipe) as run:
        if run.finished:
            with suppress(OSError):  # a folder that can only be read
                (run.folder / STATE).unlink(missing_ok=True)  # if the process was killed between its last two steps
            return run
        with run.locked(), threads_of(threads):
            where = device or ("cuda" if model.gpu and torch.cuda.is_available() else "cpu")
            run.write("environment.json", environment(device=where, threads=threads))
            if after is not None and not (run.folder / STATE).exists():
                begin_from(run, after)
            with memory_errors(recipe), watched(f"{recipe.model} on {recipe.data}", progress) as report:
                Trainer(run, torch.device(where), save_every, report).train()
    return run


def _refuse_without_effect(recipe: Recipe, model: Model, device: str | None) -> None:
    """Reject options that would have no effect before the run folder is created."""
    if not model.gpu and device not in (None, "cpu"):
        raise SpecError(f"{recipe.model} is computed on the processor alone; leave out device = {device!r}")
    kind = source_kind(recipe.data)  # an error if there is no such task, file or folder
    if kind == "file" and (recipe.data_settings or recipe.select_on == "test"):
        raise SpecError(
            f"{recipe.data} is a file: it has no settings (data_settings = {dict(recipe.data_settings)}) and no test "
            f"split to select on (select_on = {recipe.select_on!r}); leave them out, or name a task"
        )
    if kind == "folder" and (recipe.data_settings or recipe.data_seed):
        raise SpecError(
            f"{recipe.data} is a folder of examples: it has no settings (data_settings = {dict(recipe.data_settings)}) "
            f"and no seed (data_seed = {recipe.data_seed}); leave them out"
        )
    if kind == "task":
        TASKS.build(recipe.data, recipe.data_settings)
    if recipe.dev and recipe.select_on == "test":
        raise SpecError(f"dev = {recipe.dev!r} and select_on = 'test': weights are chosen on one; leave one out")
    if recipe.dev and source_kind(recipe.dev) != "file":
        raise SpecError(f"dev = {recipe.dev!r} is no file; a task or a folder has a split dev of its own")
    stages_of(recipe, model)


class Trainer:
    """One run in memory."""

    def __init__(self, run: Run, device: torch.device, save_every: float, progress: Report | None) -> None:
        self.run, self.recipe, self.device = run, run.recipe, device
        self.save_every, self.progress = save_every, progress
        self._read_data()
        self.module = build(self.recipe, self.vocabulary, self.outcomes, self.answers).to(device)
        self.weights: list[Tensor] = list(self.module.parameters())
        self.moving = self.weights  # those that are not frozen
        self.parts = [Part(stage, self.recipe, self.examples.lengths) for stage in stages_of(self.recipe, self.model)]
        for part in self.parts:
            self._frozen(part)
        self.adam = torch.optim.Adam(
            self.weights, 1.0, self.recipe.betas, EPSILON, weight_decay=self.recipe.l2, fused=True
        )
        self.state = load_state(run, self.module, self.adam)
        self.clock, self.saved, self.speed = time.process_time(), time.monotonic(), Speed()

    def _read_data(self) -> None:
        """The corpora in the numbers of the model, after a check that they are those the run was begun with."""
        train, dev = corpora(self.recipe)
        self.run.check_data({"train": train.fingerprint, "dev": dev.fingerprint})
        self.answers = train.targets.shape[1]
        self.model = model_of(self.recipe).asking(self.answers)
        if not self.run.certificate and (evidence := self.model.evidence(train, dev)):
            self.run.write("certificate.json", evidence)
        self.vocabulary, self.outcomes = saved_words(self.run) or self.model.words(train)
        self.examples = self.model.read(train, self.vocabulary, self.outcomes)
        self.drawn = 0  # the epoch that these examples were drawn for, if every epoch has its own
        self.held_out = held_out_keys(self.recipe, dev) if self.recipe.fresh else None
        self.dev, self.nesting = self.model.read(dev, self.vocabulary, self.outcomes), dev.nesting
        self.dev_batches = answer_batches(self.dev, self.device, self.model.answer_positions)

    # -- the loop ----------------------------------------------------------------------------------------------------

    def train(self) -> None:
        """From wherever the run stands to its end."""
        if self.parts:
            self._train_stages()
        else:
            self._train_epochs()
        self._finish()

    def _train_epochs(self) -> None:
        recipe, state = self.recipe, self.state
        while state.epoch < recipe.epochs and state.stale < recipe.stop:
            if recipe.schedule == "cooldown" and state.position == 0 and 0 < state.epoch == recipe.cooldown_at:
                keep_trunk(self.run)
            batches = self._batches(state.epoch)
            for position in range(state.position, len(batches)):
                self._step(batches[position], len(batches))
                state.position = position + 1
                if time.monotonic() - self.saved > self.save_every and state.position < len(batches):
                    self.save()
            self._end_epoch()
            self.save()

    def _train_stages(self) -> None:
        state = self.state
        while state.stage < len(self.parts):
            part = self.parts[state.stage]
            self._begin_stage(part)
            while not part.over(state):
                rows = part.rows(state)
                value, right = self._learn(rows, part.rate(state.stage_step), part.clip, part.weight_decay)
                part.count(state, rows, right / len(rows))
                if part.looks(state):
                    self._look({"stage": part.stage.name})
                left = sum(other.steps for other in self.parts[state.stage :]) - state.stage_step
                self._report(len(rows), value, state.step + left, left)
                if time.monotonic() - self.saved > self.save_every and not part.over(state):
                    self.save()
            state.stage, state.stage_step, state.grown, state.recent = state.stage + 1, 0, 0, []
            self.adam.state.clear()
            self.save()

    def _begin_stage(self, part: Part) -> None:
        """Set what differs from stage to stage, at its first step or wherever it is resumed."""
        frozen = self._frozen(part)
        for name, weight in self.module.named_parameters():
            weight.requires_grad_(name not in frozen)
            weight.grad = None
        self.moving = [weight for weight in self.weights if weight.requires_grad]
        self.adam.param_groups[0].update(betas=part.betas, weight_decay=part.l2)
        told_now = told(part.stage, self.model)
        if told_now is not None:
            self.module.begin_stage(told_now)  # type: ignore[operator]

    def _frozen(self, part: Part) -> set[str]:
        """The names of the weights that stay as they are in a stage."""
        names = [name for name, _ in self.module.named_parameters()]
        for beginning in part.stage.frozen:
            if not any(name.startswith(beginning) for name in names):
                raise part.stage.error(f"frozen = {beginning!r}: no weight begins so. {did_you_mean(beginning, names)}")
        frozen = {name for name in names if name.startswith(part.stage.frozen)}
        if len(frozen) == len(names):
            raise part.stage.error("all weights are frozen: there is nothing to train; freeze fewer of them")
        return frozen

    def _batches(self, epoch: int) -> list[Rows]:
        if self.held_out is not None and epoch != self.drawn:
            corpus = fresh_corpus(self.recipe, epoch, self.held_out)
            self.examples, self.drawn = self.model.read(corpus, self.vocabulary, self.outcomes), epoch
        cut = bucketed if self.recipe.batching == "bucketed" else shuffled
        return cut(self.examples.lengths, self.recipe.batch, stream_key("order", self.recipe.seed, epoch))

    def _step(self, rows: Rows, batches: int) -> None:
        """One step on these rows, in an epoch of this many batches."""
        recipe, state = self.recipe, self.state
        steps = recipe.epochs * batches
        factor = state.factor * cooled(recipe, state.epoch + state.position / batches)
        rate = learning_rate(recipe, state.step, steps, factor)
        value, _ = self._learn(rows, rate, recipe.clip, recipe.weight_decay)
        self._report(len(rows), value, steps, (recipe.epochs - state.epoch) * batches - state.position - 1)

    def _learn(self, rows: Rows, rate: float, clip: float, weight_decay: float) -> tuple[float, int]:
        """One step on these rows: its loss and how many answers were right."""
        state = self.state
        batch = self.examples.batch(rows, self.device)
        random = torch.Generator(self.device)
        random.manual_seed(int(stream_key("step", self.recipe.seed, state.step)) >> 1)
        self.module.train()
        output = self.module(batch, random)
        loss = _loss(output, batch.targets)
        self.adam.zero_grad(set_to_none=True)
        (loss if output.penalty is None else loss + output.penalty).backward()
        value = self._checked(loss, nn.utils.clip_grad_norm_(self.weights, clip))
        self._update(rate, weight_decay)
        equal = output.logits.detach().argmax(-1) == batch.targets
        right = int(_right(equal if output.asked is None else equal | (output.asked < 0)).sum())
        state.step += 1
        state.loss += value * len(rows)
        state.right += right
        state.seen += len(rows)
        return value, right

    def _report(self, rows: int, loss: float, steps: int, left: int) -> None:
        """Tell the caller of a step; `left` steps are still to be done."""
        if self.progress:
            self.speed.add(rows)
            seconds = self.speed.seconds_for(left)
            self.progress(Progress(self.state.epoch, self.state.step, steps, loss, self.speed.rate, seconds))

    def _checked(self, loss: Tensor, norm: Tensor) -> float:
        """The loss as a number; an error if it or the gradient is not finite."""
        value = float(loss.detach())
        if not (math.isfinite(value) and math.isfinite(float(norm))):
            raise RunError(
                f"{self.run.folder}: the loss is {value} and the gradient's norm {float(norm)} at step "
                f"{self.state.step} of epoch {self.state.epoch}; the last good state is kept. Start again with a lower "
                "rate."
            )
        return value

    def _update(self, rate: float, weight_decay: float) -> None:
        """Move the weights along the gradient."""
        self.adam.param_groups[0]["lr"] = rate
        if weight_decay:
            with torch.no_grad():
                torch._foreach_mul_(self.moving, 1 - rate * weight_decay)
        self.adam.step()

    def _end_epoch(self) -> None:
        """Look at dev, and lower the rate if it is time."""
        recipe, state = self.recipe, self.state
        self._look({})
        if recipe.schedule == "plateau" and state.waited >= recipe.patience:
            state.factor, state.waited = state.factor * recipe.decay, 0
        state.position = 0

    def _look(self, more: dict[str, Any]) -> None:
        """Measure on dev, and keep the weights if they are the best."""
        state = self.state
        logits, _ = answer(self.module, self.dev_batches)
        accuracy = float(_right(logits.argmax(-1) == self.dev.targets).mean())
        self._count_seconds()
        entry = {
            "epoch": state.epoch,
            "loss": state.loss / state.seen,
            "train": state.right / state.seen,
            "dev": accuracy,
            "dev_loss": _cross_entropy(logits, self.dev.targets),
            "rate": self.adam.param_groups[0]["lr"],
            "step": state.step,
            "core_seconds": round(state.seconds, 3),
            **more,
        }
        if self.dev.targets.ndim == 2:
            entry["dev_by_nesting"] = self._by_nesting(logits.argmax(-1) == self.dev.targets)
        state.curve.append(entry)
        state.stale, state.waited = state.stale + 1, state.waited + 1
        better = accuracy > state.best
        if better:
            state.stale = state.waited = 0
        # A small dev set may be answered without an error early; then the loss decides.
        if better or (accuracy == state.best and entry["dev_loss"] < state.best_loss):
            state.best, state.best_loss, state.best_epoch = accuracy, entry["dev_loss"], state.epoch
            save_weights(self.run, "best", self.module, self._about())
        state.epoch, state.loss, state.right, state.seen = state.epoch + 1, 0.0, 0, 0
        self.run.write_curve(state.curve)

    def _by_nesting(self, right: npt.NDArray[np.bool_]) -> dict[str, list[int]]:
        """For each depth of dev how many rows answer each question right, how many all, and how many there are."""
        counts = np.concatenate([right, right.all(1, keepdims=True), np.ones_like(right[:, :1])], 1)
        return {str(depth): counts[self.nesting == depth].sum(0).tolist() for depth in np.unique(self.nesting).tolist()}

    def _finish(self) -> None:
        """Write the last weights and the summary, which marks the run as finished."""
        state = self.state
        save_weights(self.run, "last", self.module, self._about())
        summary = {
            "best_epoch": state.best_epoch,
            "dev": state.best,
            "epochs": state.epoch,
            "steps": state.step,
            "core_seconds": round(state.seconds, 2),
            "parameters": sum(weight.numel() for weight in self.weights),
            "train_rows": len(self.examples),
        }
        self.run.write("summary.json", summary)
        (self.run.folder / STATE).unlink(missing_ok=True)

    def save(self) -> None:
        """Write all that is needed to resume from here."""
        self._count_seconds()
        save_state(self.run, self.module, self.adam, self.state, self._about())
        self.saved = time.monotonic()

    def _about(self) -> dict[str, Any]:
        return {
            "vocabulary": self.vocabulary,
            "outcomes": self.outcomes,
            "answers": self.answers,
            "recipe": self.recipe.plain,
        }

    def _count_seconds(self) -> None:
        now = time.process_time()
        self.state.seconds, self.clock = self.state.seconds + now - self.clock, now


def _loss(output: Output, targets: Tensor) -> Tensor:
    """The module's own loss, or the cross entropy of its logits."""
    if output.loss is not None:
        return output.loss
    return nn.functional.cross_entropy(output.logits.flatten(0, -2), targets.flatten(), ignore_index=-1)


def _right(equal: Any) -> Any:
    """The rows whose answers, one or several, are all right."""
    return equal if equal.ndim == 1 else equal.all(1)


def _cross_entropy(logits: Floats, targets: npt.NDArray[np.int64]) -> float:
    """The mean over all answers that are known."""
    known = targets >= 0
    logits, targets = logits[known], targets[known]
    shifted = logits - logits.max(1, keepdims=True)
    chosen = shifted[np.arange(len(shifted)), targets]
    return float((np.log(np.exp(shifted).sum(1)) - chosen).mean())
