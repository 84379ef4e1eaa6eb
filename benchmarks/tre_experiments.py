"""The reference game of the TRE paper: the speed of training a hundred pairs together, and of their exact TRE.

    OMP_NUM_THREADS=1 python -m benchmarks tre_experiments

Times are CPU seconds of one thread. Training together is compared with the plain program of `tests/oracles_game.py`,
which trains one pair with torch's GRU and first samples, then computes the loss, like the paper's code but without its
loops over symbols in Python. Both take the same steps on the same batches, alternating; the best of several counts.
"""

from __future__ import annotations

import dataclasses
import json
import time
import warnings
from functools import partial
from pathlib import Path

import torch

from oracles_game import PlainPair
from pomona.papers.tre_2019 import languages
from pomona.papers.tre_2019.agents import AgentPairs
from pomona.papers.tre_2019.game_rules import READINGS, REFERENTS
from pomona.representations.tre import ReconstructionWarning, tre

PAIRS, STEPS = 100, 6
RESULTS = Path(__file__).parent.parent / "results" / "tre_2019.json"


def main() -> None:
    torch.set_num_threads(1)
    for reading in READINGS:
        together(reading)
    exact()


def together(reading: str) -> None:
    """One step of a hundred pairs together, compared with the plain program and with ours for a single pair."""
    game = READINGS[reading]
    many, alone = AgentPairs.fresh(game, 0, range(PAIRS)), AgentPairs.fresh(game, 0, [0])
    plain = PlainPair(game, 0, 0, torch.float32)
    best = {"together": float("inf"), "plain": float("inf"), "ours alone": float("inf")}
    for _ in range(STEPS):
        referent, chance = many.draw()
        batch = referent[0].numpy(), chance[0].numpy()
        for name, work in (
            ("together", many.step),
            ("plain", partial(plain.step, *batch)),
            ("ours alone", alone.step),
        ):
            started = time.process_time()
            work()
            best[name] = min(best[name], time.process_time() - started)
    each = best["together"] / PAIRS
    print(
        f"{reading:<6} a step of {PAIRS} pairs together {best['together']:.2f} s, {1e3 * each:.1f} ms a pair; "
        f"one after another {1e3 * best['plain']:.1f} ms: {best['plain'] / each:.1f} times (goal 10); "
        f"our own program one by one {1e3 * best['ours alone']:.1f} ms: {best['ours alone'] / each:.1f} times",
        flush=True,
    )


def exact() -> None:
    """The exact TRE of a hundred languages: those of the results file, else of briefly trained pairs."""
    results = json.loads(RESULTS.read_text()).get("game", {}).get("code", {}) if RESULTS.exists() else {}
    messages = [rows.split() for rows in results.get("messages", [])]
    if not messages:
        small = AgentPairs.fresh(dataclasses.replace(READINGS["code"], hidden=64, batch=64), 0, range(PAIRS))
        for _ in range(60):
            small.step()
        messages = [[languages.spelt(message) for message in rows] for rows in small.languages().messages]
    warnings.simplefilter("ignore", ReconstructionWarning)
    tre(languages.one_hot(messages[0]), list(REFERENTS), compose="position", distance="l1")  # compiles
    started = time.process_time()
    fits = [tre(languages.one_hot(rows), list(REFERENTS), compose="position", distance="l1") for rows in messages]
    seconds = time.process_time() - started
    gap = max(fit.bound.gap for fit in fits)
    print(f"exact TRE of {len(fits)} languages: {seconds:.0f} CPU s (goal 900), widest bracket {gap:.4f}", flush=True)
