"""How fast models that find their trees train, against slow twins, and the memory that training adds.

    python -m benchmarks latent

Both sides train on the same batches of 128 sentences of at most 50 tokens, in turns, in processor time
on one thread: forward, backward and a step of Adam. `shift_reduce` composes the greedy tree of a policy that has learnt
nothing yet, as in its last stage. It has two twins (tests/oracles_latent.py): the exact one of the tests takes one
sentence and one step at a time; the other keeps a Python stack for each sentence and calls scorer and cell once for
each step of the whole batch.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch

from benchmarks import memory
from pomona.base.randomness import stream_key
from pomona.data.task import generate
from pomona.models.inputs.batches import shuffled
from pomona.models.inputs.sentences import Batch, Sentences
from pomona.models.sentence.shift_reduce import Learning
from pomona.training.checkpoints import build
from pomona.training.recipe import Recipe

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))  # the slow twins live beside the tests
import oracles_latent as twins

BATCH, BATCHES = 128, 8
LAST_STAGE = Learning(sampled=0, policy=0.0, prior_weight=0.0, own=0.1)


def made(sentences: Sentences) -> torch.nn.Module:
    module = build(Recipe("shift_reduce", {"width": 64}), sentences.vocabulary, tuple(range(10)))
    module.begin_stage(LAST_STAGE)  # type: ignore[operator]
    return module.train()


def ours(module: torch.nn.Module, batch: Batch) -> torch.Tensor:
    output = module(batch, torch.Generator().manual_seed(0))
    loss: torch.Tensor = output.loss + output.penalty
    return loss


def tokens_of(batch: Batch) -> list[list[int]]:
    return [batch.tokens[row, :length].tolist() for row, length in enumerate(batch.lengths.tolist())]


def by_steps(module: torch.nn.Module, batch: Batch) -> torch.Tensor:
    loss, penalty = twins.shift_reduce_by_steps(module, tokens_of(batch), batch.targets)
    return loss + penalty


def by_sentences(module: torch.nn.Module, batch: Batch) -> torch.Tensor:
    greedy: list[list[list[float] | None]] = [[None] * len(batch)]
    loss, penalty, _ = twins.shift_reduce_loss(module, tokens_of(batch), batch.targets.tolist(), greedy)
    return loss + penalty


SIDES = {"shift_reduce": ours, "twin_by_steps": by_steps, "twin_by_sentences": by_sentences}


def training(sentences: Sentences, batches: list[np.ndarray]) -> None:
    module = made(sentences)
    adam = torch.optim.Adam(module.parameters(), 1e-3, fused=True)
    for rows in batches:
        adam.zero_grad()
        ours(module, Batch.of(sentences, rows)).backward()
        adam.step()


def main() -> None:
    torch.set_num_threads(1)
    corpus = generate("listops/d20s", "train", 0, 20_000)
    corpus = corpus[corpus.lengths <= 50]
    sentences = Sentences.of(corpus, corpus.vocabulary, corpus.outcomes)
    batches = shuffled(sentences.lengths, BATCH, stream_key("benchmark"))[:BATCHES]
    megabytes = memory(lambda: training(sentences, batches))
    seconds, seen = dict.fromkeys(SIDES, 0.0), dict.fromkeys(SIDES, 0)
    sides = {name: made(sentences) for name in SIDES}
    optimisers = {name: torch.optim.Adam(module.parameters(), 1e-3, fused=True) for name, module in sides.items()}
    for number, rows in enumerate([batches[0], *batches]):  # the first is not counted
        for name, loss in SIDES.items():
            if name == "twin_by_sentences" and number > 2:
                continue  # two batches are enough of it
            begin = time.process_time()
            optimisers[name].zero_grad()
            loss(sides[name], Batch.of(sentences, rows)).backward()
            optimisers[name].step()
            seconds[name] += (time.process_time() - begin) if number else 0.0
            seen[name] += len(rows) if number else 0
    speed = {name: seen[name] / seconds[name] for name in SIDES}
    found = {
        "model": "shift_reduce",
        "width": 64,
        "examples_per_second": round(speed["shift_reduce"], 1),
        **{name: round(speed[name], 1) for name in list(SIDES)[1:]},
        **{f"ratio_{name}": round(speed["shift_reduce"] / speed[name], 2) for name in list(SIDES)[1:]},
        "memory_megabytes": round(megabytes),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
