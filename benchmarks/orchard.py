"""ORCHARD data and shortcut ladders on one core: growing trees of a given depth, and the CPU seconds of a ladder.

Generation is compared with rejection sampling in `oracles_orchard`: draw, keep what fits into its bin, evaluate both
trees and write them as text.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import oracles_orchard as slow
from benchmarks import seconds
from pomona.data.answers import asked
from pomona.data.task import generate
from pomona.shortcuts.effective_depth import effective_depth
from pomona.shortcuts.ladder import ladder

MM = ["MIN", "MAX"]
PRESET = "orchard/medium/min-max"


def once(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def finished(pairs: list[tuple[slow.Tree, slow.Tree]]) -> list[tuple[str, list[int]]]:
    return [
        (f"{slow.text_of(first)} X {slow.text_of(second)}", slow.answers([first, second])) for first, second in pairs
    ]


def line(what: str, ours: float, theirs: float, goal: float) -> None:
    """Microseconds for each example, and how many times faster that is than the plain program."""
    verdict = "met" if theirs / ours >= goal else "NOT met"
    ratio = f"{theirs / ours:6.0f} x  (goal {goal:g} x: {verdict})"
    print(f"{what:58s} {1e6 * ours:8.2f} us  plain {1e6 * theirs:9.1f} us  {ratio}")


def main() -> None:
    rng = random.Random(0)
    rows = 2_000
    twin = once(lambda: finished(slow.draw_mixed(rng, MM, rows, 3, 6, 0.5))) / rows
    alone = {"train": 50_000, "dev": 0, "test": 0, "iid": 0}
    line("train mix, depths 3-6", seconds(lambda: generate(PRESET, seed=1, **alone), 3) / 50_000, twin, 100)
    whole = {"train": 50_000, "dev": 5_000, "test": 5_000, "iid": 5_000}
    line(
        "the same, disjoint from dev, test and iid sets",
        seconds(lambda: generate(PRESET, seed=1, **whole), 3) / 50_000,
        twin,
        100,
    )
    rows = 400
    twin = once(lambda: finished([slow.draw_bin(rng, MM, 12, 12, 0.5) for _ in range(rows)])) / rows
    line("depth-12 bin", seconds(lambda: generate(PRESET, split="test-12", seed=1, **whole), 3) / 5_000, twin, 150)

    for name, corpus, train in (
        (
            "orchard/hard/min-max, depth 12",
            generate("orchard/hard/min-max/readme", split="test-12", test=10_000),
            generate("orchard/hard/min-max/readme"),
        ),
        ("listops/d20s", generate("listops/d20s", split="test"), generate("listops/d20s")),
    ):
        spent = seconds(lambda corpus=corpus, train=train: ladder(corpus, train), 1)
        verdict = "met" if spent < 10 else "NOT met"
        print(f"{'full ladder, 10,000 examples of ' + name:58s} {spent:8.2f} s CPU (goal 10 s: {verdict})")
        spent = seconds(lambda corpus=corpus, train=train: effective_depth(corpus, asked(corpus), train=train), 1)
        print(f"{'effective depth, 10,000 predictions of ' + name:58s} {spent:8.2f} s CPU")


if __name__ == "__main__":
    main()
