"""The ORCHARD models: the gain of buckets of like length, the time of decoding, the memory of long input.

    python -m benchmarks orchard_models
    python -m benchmarks.orchard_models --rows 1000 --only seq2seq_lstm
    python -m benchmarks.orchard_models --gains --only looped_transformer data_router

Gains, in one run and in turn: examples a core-second of today's recipes for the LSTM (one direction, batches of 64,
flat attention) and the Transformer (batches of 64, asked at the roots, without padding) against the recipes, the padded
computation and the products of before; the Transformer in batches of 16 in both ways, too; and the time to answer
depth 12 of the looped models, flat against padded, with the largest difference of the answers.

Training: batches of depths 3 to 6, bucketed and unsorted in turn, forward and backward, processor time on one thread;
batches of 64 examples, and of the paper's 512. An unsorted batch is as long as its longest example, so the larger it
is, the more of it is padding. The possible gain follows from the lengths alone and is printed first: the factor of the
positions, and that of the pairs of positions. A model can gain more than the first factor only as far as attention
dominates its cost. The LSTM stores sequences end to end and has nothing to gain.
Decoding: depth 12, greedy, all of `predict` but reading the weights. Memory: one sequence of 3,999 tokens, the longest
that is allowed, in a new process.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from contextlib import nullcontext
from itertools import islice
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from benchmarks import memory
from pomona.base.randomness import stream_key
from pomona.data.task import generate
from pomona.models.inputs.batches import bucketed, shuffled
from pomona.models.inputs.sequences import SequenceBatch
from pomona.models.layers import products
from pomona.models.model import MODELS, Feed, Model, Shape, seeded
from pomona.models.sequence.seq2seq_lstm import attend
from pomona.training.predict import answer, answer_batches

TASK = "orchard/hard/min-max"
SMALL = {
    "seq2seq_lstm": {"width": 96},
    "seq2seq_transformer": {"width": 64, "layers": 3, "inner": 128},
    "looped_transformer": {"width": 64, "inner": 128},
    "data_router": {"width": 64, "inner": 128},
    "quoting_treelstm": {"width": 64},
}
LONG = 3_999


ROWS = 40_000  # to train on: buckets are the tighter, the more there are


def built(name: str, settings: dict[str, Any] | None = None) -> tuple[Model, torch.nn.Module, Feed]:
    model = MODELS.build(name, settings or SMALL[name])
    corpus = generate(TASK, "train", 1, train=ROWS, dev=10, test=10, iid=0)
    vocabulary, outcomes = model.words(corpus)
    with seeded(0):
        return model, model.build(Shape(len(vocabulary), len(outcomes))), model.read(corpus, vocabulary, outcomes)


def training(name: str, size: int, batches: int) -> tuple[float, float]:
    """Examples a second, bucketed and unsorted, in batches of this size."""
    _, module, feed = built(name)
    module.train()
    spent, seen = [0.0, 0.0], [0, 0]
    kinds = [
        list(islice(make(feed.lengths, size, stream_key("benchmark", 1)), batches + 1)) for make in (bucketed, shuffled)
    ]
    for place, pair in enumerate(zip(*kinds, strict=True)):
        for kind, rows in enumerate(pair):
            begin = time.process_time()
            batch = feed.batch(rows)
            output = module(batch, torch.Generator().manual_seed(0))
            logits = output.logits.flatten(0, 1)
            torch.nn.functional.cross_entropy(logits, batch.targets.flatten()).backward()
            if place:  # the first may compile
                spent[kind] += time.process_time() - begin
                seen[kind] += len(rows)
    return seen[0] / spent[0], seen[1] / spent[1]


BEFORE: dict[str, tuple[dict[str, Any], int]] = {  # the recipes of before: settings, and examples in a batch
    "seq2seq_lstm": ({"width": 96}, 16),
    "seq2seq_transformer": ({"width": 64, "layers": 3, "inner": 128}, 16),
}
TODAY: dict[str, tuple[dict[str, Any], int]] = {
    "seq2seq_lstm": ({"width": 128, "bidirectional": False}, 64),
    "seq2seq_transformer": ({"width": 64, "layers": 3, "inner": 128}, 64),
}


def padded_logits(name: str, module: Any, batch: SequenceBatch) -> torch.Tensor:
    """The answers as they were computed before: padded reads, and every token through the last layer."""
    if name == "seq2seq_transformer":
        logits: torch.Tensor = module.heads(module.encode(batch), batch).logits  # never flat
        return logits
    states, last, _ = module.encode(batch)
    beside = batch.beside(states)
    reads = [attend(query(last), beside, batch.inside) for query in module.heads.query]
    pairs = zip(module.heads.head, reads, strict=True)
    return torch.stack([head(torch.cat([read, last], 1)) for head, read in pairs], 1)


WARM = 10  # batches of 64 that are not counted: loops are compiled, and products of most shapes


def training_gain(name: str, batches: int, *, alike: bool = False) -> str:
    """Examples a second of the recipe of before, computed as before, and of today's; or of before, computed as today
    (`alike`)."""
    spent, seen, parts = [0.0, 0.0], [0, 0], []
    for settings, size in (BEFORE[name], BEFORE[name] if alike else TODAY[name]):
        _, module, feed = built(name, settings)
        rows = list(islice(bucketed(feed.lengths, size, stream_key("benchmark", 1)), (batches + WARM) * 64 // size))
        parts.append((module.train(), feed, rows, 64 // size))
    for place in range(batches + WARM):
        for kind, (module, feed, rows, times) in enumerate(parts):
            begin = time.process_time()
            for some in rows[place * times : (place + 1) * times]:
                batch = feed.batch(some)
                with nullcontext() if kind else patch.object(products, "wide_amd", lambda: False):
                    logits = module(batch).logits if kind else padded_logits(name, module, batch)
                    torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch.targets.flatten()).backward()
                seen[kind] += len(some) * (place >= WARM)
            spent[kind] += (time.process_time() - begin) * (place >= WARM)
    before, now = (number / seconds for number, seconds in zip(seen, spent, strict=True))
    which = f"batches of {BEFORE[name][1]}, then {(BEFORE if alike else TODAY)[name][1]}"
    return f"{name:20}  {which}: before {before:.0f} ex/s, today {now:.0f} ex/s, ratio {now / before:.2f}"


def answering_gain(name: str, rows: int) -> str:
    """Seconds to answer 10,000 examples of depth 12, flat and padded, from so many of them."""
    model, module, _ = built(name)
    train = generate(TASK, "train", 1, train=ROWS, dev=10, test=10, iid=0)
    feed = model.read(generate(TASK, "test-12", 1, train=ROWS, dev=10, test=rows, iid=0), *model.words(train))
    batches, spent, apart = answer_batches(feed, "cpu"), [0.0, 0.0], 0.0
    module.eval().requires_grad_(False)
    for place, batch in enumerate([batches[0], *batches]):
        logits = []
        for kind, gradients in enumerate((True, False)):  # with gradients switched on, the padded way is taken
            begin = time.process_time()
            with torch.set_grad_enabled(gradients):
                logits.append(module(batch).logits)
            spent[kind] += (time.process_time() - begin) * (place > 0)
        apart = max(apart, float((logits[0] - logits[1]).abs().max()))
    before, now = (seconds * 10_000 / rows for seconds in spent)
    text = f"{name:20}  10,000 examples of depth 12: before {before:.0f} s, today {now:.0f} s, ratio {before / now:.2f}"
    return f"{text}; answers differ by at most {apart:.1e}"


def to_save(size: int) -> tuple[float, float]:
    """How many times fewer positions, and pairs of positions, bucketed batches have than unsorted ones."""
    lengths = generate(TASK, "train", 1, train=ROWS, dev=10, test=10, iid=0).lengths + 1
    totals = []
    for make in (bucketed, shuffled):
        longest = [(lengths[rows].max(), len(rows)) for rows in make(lengths, size, stream_key("benchmark", 1))]
        totals.append([sum(long**power * rows for long, rows in longest) for power in (1, 2)])
    return totals[1][0] / totals[0][0], totals[1][1] / totals[0][1]


def decoding(name: str, rows: int) -> float:
    """Seconds to answer so many examples of depth 12."""
    model, module, _ = built(name)
    train = generate(TASK, "train", 1, train=ROWS, dev=10, test=10, iid=0)
    corpus = generate(TASK, "test-12", 1, train=ROWS, dev=10, test=rows, iid=0)
    begin = time.process_time()
    feed = model.read(corpus, *model.words(train))
    answer(module, answer_batches(feed, "cpu"))
    return time.process_time() - begin


def longest(name: str) -> float:
    """The most memory, in MB, that one sequence of LONG tokens takes beyond what the process had."""
    _, module, feed = built(name)
    flat, start = np.full(LONG, 5, np.int64), np.array([0, LONG])
    tokens, ones, heads = torch.full((1, LONG), 5), torch.full((1,), LONG), torch.tensor([[0, 10]])
    batch = SequenceBatch(
        np.zeros(1, np.int64), flat, start, tokens, ones, heads * 0, heads, ones * 0 + 12, heads[:0], ones[:0]
    )
    with torch.no_grad():
        module.eval()(feed.batch(np.arange(2)))
        return memory(lambda: module(batch))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--only", choices=list(SMALL), nargs="*", default=list(SMALL))
    parser.add_argument("--gains", action="store_true", help="only today's speed against that of before")
    parser.add_argument("--memory", choices=list(SMALL), help="only this, for a process of its own")
    options = parser.parse_args([] if arguments is None else arguments)
    torch.set_num_threads(1)
    if options.gains:
        for name in (name for name in BEFORE if name in options.only):
            print(training_gain(name, options.batches), flush=True)
        if "seq2seq_transformer" in options.only:
            print(training_gain("seq2seq_transformer", options.batches, alike=True), flush=True)
        for name in (name for name in ("looped_transformer", "data_router") if name in options.only):
            print(answering_gain(name, min(options.rows, 300)), flush=True)
        return
    if options.memory:
        print(f"{longest(options.memory):.0f}")
        return
    for size in (64, 512):
        once, squared = to_save(size)
        print(f"batches of {size}: {once:.2f} times fewer positions, {squared:.2f} times fewer pairs of positions")
    for name in options.only:
        line = f"{name:20}"
        for size, batches in ((64, options.batches), (512, max(2, options.batches // 3))):
            fast, slow = training(name, size, batches)
            line += f"  batches of {size}: bucketed {fast:.0f} ex/s, unsorted {slow:.0f} ex/s, ratio {fast / slow:.2f};"
        spent = decoding(name, options.rows)
        line += f"  {options.rows:,} examples of depth 12 answered in {spent:6.1f} s"
        if name != "quoting_treelstm":
            command = [sys.executable, "-m", "benchmarks.orchard_models", "--memory", name]
            found = subprocess.run(command, capture_output=True, text=True, check=True)
            line += f";  {LONG:,} tokens take {found.stdout.strip()} MB"
        print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
