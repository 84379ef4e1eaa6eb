"""How fast the models train, against slow twins that compute the same thing, and against the machine.

    python -m benchmarks models
    python -m benchmarks.models --lengths all --batches 12 --only treelstm

Both sides see the same bucketed batches of 64, take turns batch by batch, and are timed by processor time on one
thread: forward, backward and a step of Adam. Building the batch is counted for ours and not for the twin. A twin is the
code that a reader of the paper would write (tests/oracles_models.py): for TreeLSTM and RL-SPINN a Python stack for each
sentence and one call of the cell a step, for ST-Gumbel every candidate of every round over the padded batch,
for the chart the full cell for every cut. For the
TreeLSTM products a second are given too, to be held against those of a 1024 x 1024 product on this machine; subtrees
that were shared are counted as if computed.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from pomona.batch import Batch, Sentences, bucketed
from pomona.modelling import MODELS, Shape, seeded
from pomona.randomness import stream_key
from pomona.sampling import generate

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))  # the slow twins live beside the tests
import oracles_models as twins

BATCH = 64
Loss = Callable[[torch.nn.Module, Batch], torch.Tensor]


def cross_entropy(logits: torch.Tensor, batch: Batch) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(logits, batch.targets)


def ours(module: torch.nn.Module, batch: Batch) -> torch.Tensor:
    output = module(batch, torch.Generator().manual_seed(0))
    loss = cross_entropy(output.logits, batch)
    return loss if output.penalty is None else loss + output.penalty


def tokens_of(batch: Batch) -> list[list[int]]:
    return [batch.tokens[row, :length].tolist() for row, length in enumerate(batch.lengths.tolist())]


def treelstm_twin(module: torch.nn.Module, batch: Batch) -> torch.Tensor:
    steps = np.split((batch.gold.arity == 2).astype(int), batch.gold.start[1:-1])
    root = twins.treelstm_by_stack(module, tokens_of(batch), [one.tolist() for one in steps])
    return cross_entropy(module.classifier(root), batch)


def rl_spinn_twin(module: torch.nn.Module, batch: Batch) -> torch.Tensor:
    uniform = torch.rand(2 * len(batch.flat) - len(batch), generator=torch.Generator().manual_seed(0))
    pieces = list(uniform.split((2 * batch.lengths - 1).tolist()))
    root, _, chosen = twins.rl_spinn_by_lists(module, tokens_of(batch), pieces)
    logits = module.classifier(root)
    reward = (logits.argmax(1) == batch.targets).float()
    expected, penalty = module._baseline(batch, reward)
    advantage = reward - expected
    rows = torch.tensor([row for row, _ in chosen])
    policy = (advantage[rows] * torch.stack([log_pi for _, log_pi in chosen])).mean()
    return cross_entropy(logits, batch) + penalty - policy


def st_gumbel_twin(module: torch.nn.Module, batch: Batch) -> torch.Tensor:
    root = twins.st_gumbel_padded(
        module.cell, *module.leaf[batch.tokens].chunk(2, 2), module.query / len(module.query) ** 0.5, batch.lengths,
        torch.Generator().manual_seed(0),
    )  # fmt: skip
    return cross_entropy(module.classifier(root), batch)


def chart_twin(module: torch.nn.Module, batch: Batch) -> torch.Tensor:
    h, c = module.leaf[batch.tokens].chunk(2, 2)  # the twin does as if all were as long as the longest
    root = twins.chart_naive(module.cell, h, c, module.query, module.temperature)
    return cross_entropy(module.classifier(root), batch)


TWINS: dict[str, tuple[dict[str, object], Loss | None, tuple[int, ...]]] = {
    "treelstm": ({}, treelstm_twin, (64, 128)),
    "rl_spinn": ({"baseline": "moving_average"}, rl_spinn_twin, (64, 128)),
    "st_gumbel": ({}, st_gumbel_twin, (64, 128)),
    "chart": ({}, chart_twin, (64,)),
    "lstm": ({}, None, (128,)),
}


def sgemm_peak() -> float:
    """Products and sums a second, in thousands of millions, of the best of some 1024 x 1024 products."""
    one, two = torch.randn(1024, 1024), torch.randn(1024, 1024)
    best = float("inf")
    for _ in range(8):
        begin = time.process_time()
        one @ two
        best = min(best, time.process_time() - begin)
    return 2 * 1024**3 / best / 1e9


def fitting(name: str, width: int, sentences: Sentences, batches: list[np.ndarray]) -> list[np.ndarray]:
    """The batches whose naive twin stays below 4 GB: autograd keeps some 20 numbers a unit for each cell."""
    cells = {"st_gumbel": lambda n: n**2 / 2, "chart": lambda n: n**3 / 6}.get(name, lambda n: 0)
    return [rows for rows in batches if 80 * width * len(rows) * cells(float(sentences.lengths[rows].max())) < 4e9]


def race(name: str, width: int, sentences: Sentences, batches: list[np.ndarray]) -> dict[str, object]:
    settings, twin, _ = TWINS[name]
    asked, batches = len(batches), fitting(name, width, sentences, batches)
    seconds = [0.0, 0.0]
    sides = []
    for loss in (ours, twin):
        with seeded(1):
            module = MODELS.build(name, {"width": width, **settings}).build(Shape(len(sentences.vocabulary), 10))
        sides.append((module.train(), loss, torch.optim.Adam(module.parameters(), 1e-3, fused=True)))
    prepared = [Batch.of(sentences, rows) for rows in batches]
    for batch in prepared:  # what the twin is not charged for
        _ = batch.gold, batch.flat, batch.start
    for number, rows in enumerate([batches[0], *batches]):  # the first time round is not counted
        for side, (module, loss, adam) in enumerate(sides):
            if loss is None:
                continue
            begin = time.process_time()
            batch = Batch.of(sentences, rows) if side == 0 else prepared[max(0, number - 1)]
            adam.zero_grad()
            loss(module, batch).backward()
            adam.step()
            seconds[side] += (time.process_time() - begin) if number else 0.0
    examples = sum(map(len, batches))
    found: dict[str, object] = {"model": name, "width": width, "examples_per_second": round(examples / seconds[0], 1)}
    if len(batches) < asked:
        found["batches_too_long_for_the_twin"] = asked - len(batches)
    if twin is not None:
        found |= {"twin": round(examples / seconds[1], 1), "ratio": round(seconds[1] / seconds[0], 2)}
    if name == "treelstm":  # forth, and back to states and to weights: ten products of H x H a node each
        nodes = sum(int((sentences.lengths[rows] - 1).sum()) for rows in batches)
        found["gigaflops_nominal"] = round(3 * 20 * width**2 * nodes / seconds[0] / 1e9, 1)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", choices=["50", "all"], default="50")
    parser.add_argument("--batches", type=int, default=12)
    parser.add_argument("--only", action="append")
    chosen = parser.parse_args(sys.argv[1:] if sys.argv[0].endswith("models.py") else [])
    torch.set_num_threads(1)
    corpus = generate("listops/d20s", "train", 0)[:20_000]
    if chosen.lengths == "50":
        corpus = corpus[corpus.lengths <= 50]
    sentences = Sentences.of(corpus, corpus.vocabulary, corpus.outcomes)
    made = sorted(
        bucketed(sentences.lengths, BATCH, stream_key("benchmark")), key=lambda b: sentences.lengths[b].mean()
    )
    quantiles = (np.arange(chosen.batches) + 0.5) / chosen.batches * len(made)
    batches = [made[int(place)] for place in quantiles]
    print(json.dumps({"sgemm_peak_gigaflops": round(sgemm_peak(), 1), "lengths": chosen.lengths}))
    for name, (_, _, widths) in TWINS.items():
        for width in widths if not chosen.only or name in chosen.only else ():
            print(json.dumps(race(name, width, sentences, batches)), flush=True)
    print(json.dumps({"peak_memory_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}))


if __name__ == "__main__":
    main()
