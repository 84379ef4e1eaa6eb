"""How fast models that find their trees train: against each other, against slow twins, and the memory that they add.

    python -m benchmarks latent

All train on the same batches of 128 sentences of at most 50 tokens, in turns, in processor time on one thread: forward,
backward and a step of Adam, with first weights. `shift_reduce` composes the greedy tree of its policy, as in its last
stage. Figures:

- `shift_reduce` at width 64 is to train at least 10 times as many examples a second as `ordered_memory` at the width of
  its paper, 128, with 21 slots (its own fast implementation: no cell is computed where the attention is 0). Attention
  becomes sharp in training, and sharp attention needs fewer cells: `ordered_memory_sharp` is the same with the weights
  of the attention multiplied by 200. `beam_tree` at width 128 with 5 beams is there for comparison.
- `shift_reduce` is to be at least 5 times as fast as its slow twin. The twin that counts is `twin_by_sentences`: the
  tests prove it equal in trees, losses and gradients in every stage; it takes one sentence and one step at a time. A
  second one, `twin_by_steps`, knows greedy trees only. It is what one would write to be quick without sharing equal
  pairs and nodes: a Python stack for each sentence, and one call of scorer and cell for each step of the whole batch.
"""

from __future__ import annotations

import ctypes
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import oracles_latent as twins
from benchmarks import memory
from pomona.base.randomness import stream_key
from pomona.data.task import generate
from pomona.models.inputs.batches import shuffled
from pomona.models.inputs.sentences import Batch, Sentences
from pomona.models.sentence.shift_reduce import Learning
from pomona.training.checkpoints import build
from pomona.training.recipe import Recipe

BATCH, BATCHES = 128, 8
LAST_STAGE = Learning(sampled=0, policy=0.0, prior_weight=0.0, own=0.1)
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "shift_reduce": ("shift_reduce", {"width": 64}),
    "ordered_memory": ("ordered_memory", {"width": 128, "slots": 21}),
    "ordered_memory_sharp": ("ordered_memory", {"width": 128, "slots": 21}),
    "beam_tree": ("beam_tree", {"width": 128, "beam": 5}),
}


def made(name: str, sentences: Sentences) -> nn.Module:
    """A module with its first weights; a twin has those of shift_reduce."""
    model, settings = MODELS.get(name, MODELS["shift_reduce"])
    module = build(Recipe(model, settings), sentences.vocabulary, tuple(range(10)))
    if model == "shift_reduce":
        module.begin_stage(LAST_STAGE)  # type: ignore[operator]
    if name == "ordered_memory_sharp":
        with torch.no_grad():
            module.attention.weight.mul_(200)  # type: ignore[operator, union-attr]
    return module.train()


def fast(module: nn.Module, batch: Batch) -> Tensor:
    """The loss as in training."""
    output = module(batch, torch.Generator().manual_seed(0))
    loss: Tensor = output.loss if output.loss is not None else nn.functional.cross_entropy(output.logits, batch.targets)
    return loss if output.penalty is None else loss + output.penalty


def tokens_of(batch: Batch) -> list[list[int]]:
    return [batch.tokens[row, :length].tolist() for row, length in enumerate(batch.lengths.tolist())]


def by_steps(module: nn.Module, batch: Batch) -> Tensor:
    loss, penalty = twins.shift_reduce_by_steps(module, tokens_of(batch), batch.targets)
    return loss + penalty


def by_sentences(module: nn.Module, batch: Batch) -> Tensor:
    greedy: list[list[list[float] | None]] = [[None] * len(batch)]
    loss, penalty, _ = twins.shift_reduce_loss(module, tokens_of(batch), batch.targets.tolist(), greedy)
    return loss + penalty


Loss = Callable[[nn.Module, Batch], Tensor]
SIDES: dict[str, Loss] = {**dict.fromkeys(MODELS, fast), "twin_by_steps": by_steps, "twin_by_sentences": by_sentences}
FEWER = {"twin_by_sentences": 2, "ordered_memory": 3, "ordered_memory_sharp": 3}  # batches that are enough


class Side:
    """A module in training, its examples and its seconds."""

    def __init__(self, name: str, sentences: Sentences) -> None:
        self.name, self.sentences, self.module = name, sentences, made(name, sentences)
        self.adam = torch.optim.Adam(self.module.parameters(), 1e-3, fused=True)
        self.seconds, self.seen = 0.0, 0

    def step(self, rows: np.ndarray, *, counted: bool = True) -> None:
        begin = time.process_time()
        self.adam.zero_grad()
        SIDES[self.name](self.module, Batch.of(self.sentences, rows)).backward()
        self.adam.step()
        if counted:
            self.seconds, self.seen = self.seconds + time.process_time() - begin, self.seen + len(rows)

    def megabytes(self, rows: np.ndarray) -> int:
        """The peak memory of a step, beyond that of the weights."""
        ctypes.CDLL(None).malloc_trim(0)  # what earlier steps have freed is not held any more (glibc)
        return round(memory(lambda: self.step(rows, counted=False)))

    @property
    def speed(self) -> float:
        return self.seen / self.seconds


def main() -> None:
    torch.set_num_threads(1)
    corpus = generate("listops/d20s", "train", 0, 20_000)
    corpus = corpus[corpus.lengths <= 50]
    sentences = Sentences.of(corpus, corpus.vocabulary, corpus.outcomes)
    batches = shuffled(sentences.lengths, BATCH, stream_key("benchmark"))[:BATCHES]
    sides = {name: Side(name, sentences) for name in SIDES}
    for side in sides.values():
        if side.name in MODELS:
            side.step(batches[0], counted=False)  # compiles
    megabytes = {name: side.megabytes(batches[0]) for name, side in sides.items() if name in MODELS}
    for number, rows in enumerate(batches):
        for name, side in sides.items():
            if number < FEWER.get(name, BATCHES):
                side.step(rows)
    speed = {name: side.speed for name, side in sides.items()}
    print(json.dumps({"examples_per_second": {name: round(value, 1) for name, value in speed.items()}}))
    ratios = {name: round(speed["shift_reduce"] / value, 2) for name, value in speed.items() if name != "shift_reduce"}
    print(json.dumps({"shift_reduce_is_faster_by": ratios}))
    print(json.dumps({"memory_megabytes": megabytes}))


if __name__ == "__main__":
    main()
