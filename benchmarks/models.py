"""How fast the models train, against slow twins that compute the same thing, and against the machine.

    python -m benchmarks models
    python -m benchmarks.models --lengths all --batches 12 --only treelstm

Both sides compute the same bucketed batches of 64, alternating batch by batch, and are measured in processor time on
one thread: forward, backward and a step of Adam. Building the batch is counted for ours and not for the twin. A twin is
the code that a reader of the paper would write (tests/oracles_models.py): for TreeLSTM and RL-SPINN a Python stack for
each sentence and one call of the cell for each step, for ST-Gumbel every candidate of every round over the padded
batch, for the chart the full cell for every cut. Sentences have at most 50 tokens, then any length; the chart is run at
50 tokens exactly. `share_of_peak` compares the multiplications that the method needs, each cell once in the forward and
twice in the backward pass, with those of a 1024 x 1024 product on this machine; what is shared is counted as if it were
computed. `memory_megabytes` is what training adds to the memory of a new process.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import torch

from benchmarks import memory
from pomona.base.randomness import stream_key
from pomona.data.task import generate
from pomona.models.inputs.batches import bucketed
from pomona.models.inputs.sentences import Batch, Sentences
from pomona.models.model import MODELS, Shape, seeded

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
    expected, penalty = module.expected_reward(batch, reward)
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
    torch.set_num_threads(1)
    best = float("inf")
    for _ in range(8):
        begin = time.process_time()
        one @ two
        best = min(best, time.process_time() - begin)
    return 2 * 1024**3 / best / 1e9


def fitting(name: str, width: int, sentences: Sentences, batches: list[np.ndarray]) -> list[np.ndarray]:
    """The batches whose naive twin stays below 8 GB: autograd keeps some 20 numbers a unit for each cell."""
    cells = {"st_gumbel": lambda n: n**2 / 2, "chart": lambda n: n**3 / 6}.get(name, lambda n: 0)
    return [rows for rows in batches if 80 * width * len(rows) * cells(float(sentences.lengths[rows].max())) < 8e9]


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
    for batch in prepared:  # not counted for the twin
        _ = batch.gold, batch.flat, batch.start
    for number, rows in enumerate([batches[0], *batches]):  # the first is not counted
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
    found["share_of_peak"] = round(work(name, width, sentences, batches) / seconds[0] / 1e9 / sgemm_peak(), 3)
    return found


def work(name: str, width: int, sentences: Sentences, batches: list[np.ndarray]) -> float:
    """The operations of the matrix products that a model needs, forward, and backward to states and to weights."""
    lengths = np.concatenate([sentences.lengths[rows] for rows in batches]).astype(float)
    cells = {
        "treelstm": lengths - 1,
        "rl_spinn": lengths - 1,
        "st_gumbel": np.maximum(3 * lengths - 5, 1),  # those that change from round to round
        "chart": lengths * (lengths - 1) / 2,  # one projection a span
        "lstm": 0.4 * lengths,  # four gates of one input against five of two
    }[name]
    return float(3 * 20 * width**2 * cells.sum())


def training(name: str, width: int, sentences: Sentences, batches: list[np.ndarray]) -> None:
    with seeded(1):
        module = MODELS.build(name, {"width": width, **TWINS[name][0]}).build(Shape(len(sentences.vocabulary), 10))
    adam = torch.optim.Adam(module.train().parameters(), 1e-3, fused=True)
    for rows in batches:
        adam.zero_grad()
        ours(module, Batch.of(sentences, rows)).backward()
        adam.step()


def measured(name: str, width: int, lengths: str, count: int) -> dict[str, object]:
    """Everything about one model, in this process: memory first, then the race."""
    torch.set_num_threads(1)
    corpus = generate("listops/d20s", "train", 0)
    wanted = corpus.lengths == 50 if name == "chart" else corpus.lengths <= (50 if lengths == "50" else 10_000)
    corpus = corpus[wanted][:20_000]
    sentences = Sentences.of(corpus, corpus.vocabulary, corpus.outcomes)
    made = [rows for rows in bucketed(sentences.lengths, BATCH, stream_key("benchmark")) if len(rows) == BATCH]
    made.sort(key=lambda rows: float(sentences.lengths[rows].mean()))
    count = min(count, len(made))
    batches = [made[int(place)] for place in (np.arange(count) + 0.5) / count * len(made)]
    megabytes = memory(lambda: training(name, width, sentences, batches))
    return {**race(name, width, sentences, batches), "memory_megabytes": round(megabytes)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", choices=["50", "all"], action="append")
    parser.add_argument("--batches", type=int, default=12)
    parser.add_argument("--only", action="append")
    chosen = parser.parse_args(sys.argv[1:] if sys.argv[0].endswith("models.py") else [])
    print(json.dumps({"sgemm_peak_gigaflops": round(sgemm_peak(), 1)}))
    apart = multiprocessing.get_context("spawn")
    for lengths in chosen.lengths or ["50", "all"]:
        for name, (_, _, widths) in TWINS.items():
            if (chosen.only and name not in chosen.only) or (name == "chart" and lengths == "all"):
                continue
            for width in widths:
                with ProcessPoolExecutor(1, mp_context=apart) as pool:
                    found = pool.submit(measured, name, width, lengths, chosen.batches).result()
                print(json.dumps({"lengths": "50" if name == "chart" else f"<= {lengths}", **found}), flush=True)


if __name__ == "__main__":
    main()
