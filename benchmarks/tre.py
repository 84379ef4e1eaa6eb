"""The speed and memory of TRE, compared with the published procedure (rewritten by us) and with the goals.

    OMP_NUM_THREADS=1 python -m benchmarks tre            # every figure, each in its own process
    OMP_NUM_THREADS=1 python benchmarks/tre.py small      # one figure; `small full` runs the published way in full

Times are CPU seconds of one process with one thread. Compiled code is loaded on a small problem first, and the data are
generated before the clock starts. Reading derivations from nested tuples is timed wherever it is part of the call.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path[:0] = [str(Path(__file__).parents[1] / "src"), str(Path(__file__).parents[1] / "tests")]

import numpy as np  # noqa: E402

from oracles_tre import andreas_item_by_item, noisy_sums, perfect_language, read_language  # noqa: E402
from pomona.representations.topographic import topographic_similarity  # noqa: E402
from pomona.representations.tre import Derivations, tre, tre_layers  # noqa: E402
from pomona.representations.tre.legacy import andreas2019  # noqa: E402

warnings.simplefilter("ignore")


def cpu(call: Callable[[], Any], repeats: int = 1) -> tuple[float, Any]:
    """The median CPU time of some calls, and the result of the last."""
    times, result = [], None
    for _ in range(repeats):
        started = time.process_time()
        result = call()
        times.append(time.process_time() - started)
    return float(np.median(times)), result


def say(figure: str, measured: str, target: str, met: bool) -> None:
    print(f"{'ok ' if met else 'NOT'}  {figure:<58} {measured:<42} goal {target}", flush=True)


def warm() -> None:
    trees, rows = noisy_sums(40, 6, 4, seed=99)
    for distance in ("cosine", "sql2", "l2", "l1"):
        tre(rows, trees, distance=distance)
        tre(rows.astype(np.float32), trees, distance=distance)


def small(*options: str) -> None:
    """550 x 64, one or two primitives of 26, tanh of noisy sums: additive cosine."""
    trees, rows = noisy_sums(550, 26, 64, seed=0)
    seconds, fit = cpu(lambda: tre(rows, trees), repeats=9)
    steps = 400 if "full" in options else 10
    start = np.random.default_rng(0).normal(size=(26, 64))
    names = list(Derivations.of(trees).names)
    andreas_item_by_item(rows[:5], trees[:5], start, names, steps=1)
    some, _ = cpu(lambda: andreas_item_by_item(rows, trees, start, names, steps=steps))
    published = some * 400 / steps
    random, frozen = (andreas2019(rows, trees, zero_init=zero).score for zero in (False, True))
    kind = "run in full" if steps == 400 else f"{steps} steps, scaled to 400"
    say("550 x 64 cosine", f"{seconds:.4f} s", "0.05 s", seconds <= 0.05)
    speedup = published / seconds
    say(f"  published, item by item ({kind})", f"{published:.1f} s, ratio {speedup:.0f}", "1000", speedup >= 1000)
    say(
        "  objective",
        f"{fit.score:.6f} (published {random:.6f}, from zero {frozen:.6f})",
        "not above",
        fit.score <= random,
    )
    slope = fit.bound.gradient_norm or 0.0
    say("  gradient (relative)", f"{slope:.1e}", "1e-8", slope < 1e-8)
    design = Derivations.of(trees).counts
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    vectors = fit.vectors / np.sqrt((design.times(fit.vectors) ** 2).sum(axis=1).mean())
    guess = design.times(vectors)
    size = np.linalg.norm(guess, axis=1, keepdims=True)
    cosine = (guess / size * unit).sum(axis=1, keepdims=True)
    plain = np.abs(design.transposed_times((cosine * guess / size - unit) / size)).max() / len(rows)
    say("  gradient (plain, mean |prediction| 1)", f"{plain:.1e}", "1e-8", plain < 1e-8)


def synthetic(items: int, width: int, primitives: int = 1000) -> tuple[Any, np.ndarray]:
    """Flat derivations of 4 to 16 primitives as the arrays of a Forest, and their noisy sums in single precision."""
    from types import SimpleNamespace

    rng = np.random.default_rng(0)
    sizes = rng.integers(4, 17, items)
    leaf = rng.integers(0, primitives, sizes.sum())
    start = np.concatenate([[0], np.cumsum(sizes + 1)])
    symbol = np.full(start[-1], primitives)
    parent = np.full(start[-1], -1)
    node = np.arange(sizes.sum()) + np.repeat(np.arange(items), sizes)
    symbol[node], parent[node] = leaf, np.repeat(sizes, sizes)
    forest = SimpleNamespace(symbol=symbol, parent=parent, start=start, names=[*range(primitives), "S"])
    derivations = Derivations.of(forest)
    lexicon = rng.normal(size=(primitives, width))
    rows = np.empty((items, width), np.float32)
    for low in range(0, items, 20_000):
        part = derivations.take(np.arange(low, min(low + 20_000, items))).counts.times(lexicon)
        rows[low : low + len(part)] = np.tanh(part / 3 + 0.5 * rng.normal(size=part.shape))
    return forest, rows


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def large(*options: str) -> None:
    """100,000 x 256 with 1,000 primitives."""
    forest, rows = synthetic(100_000, 256)
    for distance, target in (("sql2", 2.0), ("cosine", 5.0), ("l2", float("inf"))):
        seconds, fit = cpu(lambda distance=distance: tre(rows, forest, distance=distance))
        detail = f"{seconds:.2f} s, score {fit.score:.6f}, {fit.bound.status}"
        say(f"100,000 x 256, 1,000 primitives, {distance}", detail, f"{target} s", seconds <= target)
        say("  gradient, peak memory", f"{fit.bound.gradient_norm:.1e}, {peak():.2f} GB", "4 GB", peak() < 4)


def million(*options: str) -> None:
    """1,000,000 x 256 in single precision."""
    forest, rows = synthetic(1_000_000, 256)
    for distance in ("sql2", "cosine"):
        seconds, fit = cpu(lambda distance=distance: tre(rows, forest, distance=distance))
        say(f"1,000,000 x 256, {distance}", f"{seconds:.1f} s, score {fit.score:.6f}", "60 s", seconds <= 60)
        say("  peak memory, data included", f"{peak():.2f} GB", "4 GB", peak() < 4)


def languages(*options: str) -> None:
    """Two languages of the reference game and a perfect one, with maps A and B of positions under l1."""
    trees, messages = perfect_language()
    tre(messages[:8], trees[:8], compose="position", distance="l1", restarts=1)
    for number, most, bound in ((17, 2.51, 2.5), (63, 3.40, 3.375)):
        trees, messages = read_language(number)
        call = partial(tre, messages, trees, compose="position", distance="l1")
        seconds, fit = cpu(call)
        old = andreas2019(messages, trees, "l1", "position", steps=1000).score
        detail = f"{fit.score:.5f} in {seconds:.1f} s (published solver {old:.3f})"
        say(f"language {number}", detail, f"{most}, 10 s", fit.score <= most and seconds <= 10)
        lower = fit.bound.lower_bound
        say("  lower bound", f"{lower:.6f}, gap {fit.bound.gap:.1e}", f"{bound}", abs(lower - bound) < 1e-6)
    trees, messages = perfect_language()
    seconds, fit = cpu(lambda: tre(messages, trees, compose="position", distance="l1"))
    old = andreas2019(messages, trees, "l1", "position", steps=1000).score
    say(
        "perfect language", f"{fit.score:.1e} in {seconds:.1f} s (published solver {old:.3f})", "1e-6", fit.score < 1e-6
    )


def shuffles(*options: str) -> None:
    trees, rows = noisy_sums(550, 26, 64, seed=0)
    for distance, goal in (("sql2", 1.0), ("cosine", 1.0), ("l2", 5.0), ("l1", 10.0)):
        fit = tre(rows, trees, distance=distance)
        fit.shuffle_test(3)
        seconds, test = cpu(lambda fit=fit: fit.shuffle_test(1000))
        detail = f"{seconds:.2f} s, p {test.p_value:.4f}"
        say(f"1,000 shuffles, 550 x 64, {distance}", detail, f"{goal:g} s", seconds <= goal)


def twelve(rows: np.ndarray) -> dict[str, np.ndarray]:
    """Twelve different layers: each is a rotated, squashed and noisier copy of the first."""
    rng = np.random.default_rng(1)
    stack = {"layer 0": rows}
    for k in range(1, 12):
        moved = np.tanh(np.roll(rows, 5 * k, axis=1) * rows.dtype.type(1 + k / 6))
        for low in range(0, len(rows), 20_000):
            moved[low : low + 20_000] += 0.05 * k * rng.normal(size=moved[low : low + 20_000].shape)
        stack[f"layer {k}"] = moved
    return stack


def further(label: str, stack: dict[str, np.ndarray], derivations: Any, distance: str, goal: float) -> None:
    """What a further layer costs: `tre_layers` on twelve compared with one, alternating; the best of each."""
    single, many, fits = [], [], {}
    for _ in range(2):
        single.append(cpu(lambda: tre_layers({"one": stack["layer 0"]}, derivations, distance=distance))[0])
        seconds, fits = cpu(lambda: tre_layers(stack, derivations, distance=distance))
        many.append(seconds)
    each = (min(many) - min(single)) / 11
    detail = f"{each:.3f} s ({min(many):.2f} for twelve, {min(single):.2f} for one)"
    say(f"a further layer, {label}, {distance}", detail, f"{goal:g} s", each <= goal)
    slope = max(fit.bound.gradient_norm or 0.0 for fit in fits.values())
    say("  steepest gradient of the twelve", f"{slope:.1e}", "1e-8", slope < 1e-8)


def layers(*options: str) -> None:
    """What a further layer costs, and reading nested tuples."""
    trees, rows = noisy_sums(550, 26, 64, seed=0)
    for distance in ("sql2", "cosine"):
        further("550 x 64", twelve(rows), trees, distance, 0.01)
    forest, rows = synthetic(100_000, 256)
    derivations = Derivations.of(forest)
    nested = [derivations.tree(row) for row in range(len(derivations))]
    seconds, _ = cpu(lambda: Derivations.of(nested), repeats=3)
    say("reading 100,000 nested tuples, a million leaves", f"{seconds:.3f} s", "0.3 s", seconds <= 0.3)
    stack = twelve(rows)
    for distance, goal in (("sql2", 0.1), ("cosine", 0.35)):
        further("100,000 x 256, ready derivations", stack, derivations, distance, goal)


def topsim(*options: str) -> None:
    rng = np.random.default_rng(0)
    meanings, messages, vectors = (
        rng.integers(0, 5, (5000, 4)),
        rng.integers(0, 16, (5000, 6)),
        rng.normal(size=(5000, 64)),
    )
    for name, first, second, kinds in (
        ("attributes and messages", meanings, messages, ("hamming", "edit")),
        ("attributes and vectors", meanings, vectors, ("hamming", "cosine")),
        ("vectors and vectors", vectors, vectors + 1, ("cosine", "euclidean")),
    ):
        topographic_similarity(first[:10], second[:10], *kinds)
        seconds, similarity = cpu(
            lambda first=first, second=second, kinds=kinds: topographic_similarity(first, second, *kinds)
        )
        say(f"topsim, 5,000 items, {name}", f"{seconds:.1f} s, {similarity.pairs} pairs", "10 s", seconds <= 10)


FIGURES = (small, large, million, languages, shuffles, layers, topsim)


def main(*names: str) -> None:
    """Measure the named figures in this process; without names all of them, each in a separate process."""
    chosen = [figure for figure in FIGURES if figure.__name__ in names]
    if chosen:
        warm()
        for figure in chosen:
            figure(*names)
    else:
        for figure in FIGURES:
            subprocess.run([sys.executable, __file__, figure.__name__, *names], check=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
