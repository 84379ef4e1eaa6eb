"""How fast the models of sentence pairs train, all twelve questions asked: against slow twins, and against the machine.

    python -m benchmarks pairs
    python -m benchmarks.pairs --only comptreenn --batches 8

Processor time of one thread for reading a batch of 256 pairs, forward, backward and a step of Adam, the best of several
batches. The twin (tests/oracles_pairs.py) computes pair by pair and node by node; it has only a few pairs, and the two
alternate. `share_of_peak` compares the products and sums that must be computed with those of the best 1024 x 1024
product: each word pair of the batch once, each reading of an LSTM once, the symmetric half of a tensor. Neither
elementwise work nor that of Adam is counted. Memory is the largest that the process has used after the model has run.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from dataclasses import dataclass

import numpy as np
import torch

from benchmarks.models import sgemm_peak
from pomona.data.task import generate
from pomona.models.inputs.pairs import ASKED, CLASSES, PairBatch, SentencePairs
from pomona.models.layers.aligned_tree import KINDS
from pomona.models.model import MODELS, Shape, seeded
from pomona.models.pair_model import PairModel

import oracles_pairs as twins  # isort: skip  (found by benchmarks/__init__.py)

BATCH, TWIN = 256, 4  # pairs of a batch, and those of the twin's
TURNS = 3  # of the twin that count; the best of more would hardly differ, and some take minutes
NAMES = ("cbow", "treenn", "lstm_pair", "attention_lstm", "comptreenn", "comptreentn", "relation_bottleneck",
         "noisy_channel", "learned_tree")  # fmt: skip


@dataclass
class Side:
    """A model in training."""

    module: torch.nn.Module
    adam: torch.optim.Optimizer

    @classmethod
    def of(cls, model: PairModel, feed: SentencePairs) -> Side:
        with seeded(1):
            module = model.build(Shape(len(feed.vocabulary), 3)).train()
        return cls(module, torch.optim.Adam(module.parameters(), 1e-3, fused=True))

    def ours(self, feed: SentencePairs, rows: np.ndarray) -> float:
        begin = time.process_time()
        self.adam.zero_grad()
        self.module(feed.batch(rows), torch.Generator().manual_seed(0)).loss.backward()
        self.adam.step()
        return time.process_time() - begin

    def twin(self, name: str, feed: SentencePairs, rows: np.ndarray) -> float:
        begin = time.process_time()
        self.adam.zero_grad()
        logits = [twins.TWINS[name](self.module, feed.tokens[row].tolist()) for row in rows]
        twins.loss(logits, feed.classes[rows].tolist()).backward()
        self.adam.step()
        return time.process_time() - begin


def products(model: PairModel, batch: PairBatch) -> float:
    """The multiplications that the forward pass of a batch needs; the backward pass needs twice as many."""
    d, hidden, pairs = model.width, model.hidden, {kind: len(some.premise) for kind, some in batch.words.items()}
    rows = {kind: pairs.get(kind, slots * len(batch)) for kind, (_, slots) in KINDS.items()}
    asked = sum(rows[kind] for kind in ASKED)
    inputs = (
        d if model.name in ("comptreenn", "comptreentn", "noisy_channel", "attention_lstm", "learned_tree") else 2 * d
    )
    heads = asked * (inputs * hidden + hidden * hidden) + sum(rows[kind] * hidden * CLASSES[kind] for kind in ASKED)
    steps = 2 * len(batch) * (1 + 4 + 1 + 5 + 8)  # of an LSTM after its first word; parts with the same begin share
    vocabulary = 606 * d * 4 * d
    own = {
        "cbow": 0,
        "treenn": 2 * len(batch) * (4 * 2 + 2 * 3) * d * d,
        "lstm_pair": vocabulary + steps * 4 * d * d,
        "attention_lstm": 2 * vocabulary
        + len(batch) * 2 * (3 + 4 + 5 + 8) * 4 * d * d
        + _attention(len(batch), rows, d),
        "comptreenn": sum(rows[kind] * arity * d * d for kind, (arity, _) in KINDS.items()),
        "comptreentn": sum(
            rows[kind] * (arity * d * d + arity * d * (arity * d + 1) // 2 * d) for kind, (arity, _) in KINDS.items()
        ),
        "noisy_channel": sum(rows[kind] * (arity * d + d) * hidden for kind, (arity, _) in KINDS.items()),
        "learned_tree": len(batch) * (9 * (3 * d * hidden + 9 * d) + (44 * 2 + 36) * d * hidden),
    }
    if model.name == "relation_bottleneck":
        cells = sum(rows[kind] * (arity * d + d) * hidden for kind, (arity, _) in KINDS.items())
        return cells + sum(2 * rows[kind] * d * CLASSES[kind] for kind in ASKED)
    return heads + own[model.name]


def _attention(batch: int, rows: dict[str, int], d: int) -> int:
    """W_y Y, W_h H, W_r r, W_t r at every word of parts longer than one, and W_p, W_x at all."""
    words = batch * (3 * 2 + 5 + 6 + 9)
    return 4 * words * d * d + 2 * sum(rows[kind] for kind in ASKED) * d * d


def race(name: str, feed: SentencePairs, batches: int, peak: float) -> dict[str, object]:
    model = MODELS.build(name)
    ours, slow = Side.of(model, feed), Side.of(model, feed)
    best, twin = float("inf"), float("inf")
    for number in range(batches + 1):  # the first may compile
        rows = np.arange(number * BATCH, (number + 1) * BATCH)
        seconds = ours.ours(feed, rows)
        other = slow.twin(name, feed, rows[:TWIN]) if number <= TURNS else twin
        if number:
            best, twin = min(best, seconds), min(twin, other)
    flops = 6 * products(model, feed.batch(rows))
    return {
        "model": name,
        "pairs_per_second": round(BATCH / best),
        "twin": round(TWIN / twin, 1),
        "ratio": round(BATCH / best / (TWIN / twin), 1),
        "share_of_peak": round(flops / best / 1e9 / peak, 2),
        "peak_memory_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--only", action="append")
    chosen = parser.parse_args(sys.argv[1:] if sys.argv[0].endswith("pairs.py") else [])
    torch.set_num_threads(1)
    corpus = generate("fair_nli/hardest", "train", 0, (chosen.batches + 1) * BATCH)
    feed = SentencePairs.of(corpus, corpus.vocabulary, ("entailment", "neutral", "contradiction"))
    for name in chosen.only or NAMES:
        peak = sgemm_peak()
        print(
            json.dumps({**race(name, feed, chosen.batches, peak), "sgemm_peak_gigaflops": round(peak, 1)}), flush=True
        )


if __name__ == "__main__":
    main()
