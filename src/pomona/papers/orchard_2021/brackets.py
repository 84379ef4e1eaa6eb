"""What stops the LSTM on deep trees: the operators that decide, the length, or the brackets that are open at once?

At depth 12 all three grow together. These sets of FIRST-LAST examples pull them apart. T(k) is a first tree of depth k;
every first tree below is decided by one operator, the root, whatever stands inside:

    before k       [LAST T(k) a b ]                     the answer is read after k + 1 brackets were open at once
    after k        [FIRST a b T(k) ]                    the same tokens, but the answer is read before them
    wide           [LAST four T(3), in pairs, a b ]     as long as with 9 open, and 6 open, as in training
                   [LAST eight T(3), in pairs, a b ]    as long as with 13 open, and 7 open

If the operators that decide were the limit, all sets would be answered. If a model loses count of brackets, `before k`
or `after k` falls with k, according to what it does then. If length is a limit, `wide` falls as well.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from pomona.base.randomness import stream_key
from pomona.data.answers import asked
from pomona.data.corpus import Corpus
from pomona.data.task import generate
from pomona.evaluation.accuracy import answers_from
from pomona.papers.orchard_2021.trends import DEPTHS
from pomona.tasks.orchard import text as orchard_text
from pomona.training.recipe import Recipe
from pomona.training.run import Run

ROWS = 200  # of each set
FEW: dict[str, Any] = {"train": 10, "dev": 10, "test": ROWS, "iid": 0}
WIDE = {"wide, 6 open": 4, "wide, 7 open": 8}  # trees side by side
SETS = [*(f"{place} {depth + 1} open" for place in ("before", "after") for depth in DEPTHS), *WIDE]
NAME = "open-brackets"  # under which a run keeps its answers
SEED = 77  # no test set of a run is drawn with it


def corpus(recipe: Recipe) -> Corpus:
    """All sets, one after the other, of the difficulty of a recipe."""
    return _corpus(recipe.data)


@cache
def _corpus(data: str) -> Corpus:
    pairs = {depth: _trees(data, depth) for depth in DEPTHS}
    random = np.random.Generator(np.random.Philox(key=int(stream_key("open brackets", SEED))))
    lines = []
    second = [pair[1] for pair in pairs[DEPTHS[0]]]
    for place in ("before", "after"):
        for depth in DEPTHS:
            for row, (tree, _) in enumerate(pairs[depth]):
                a, b = random.integers(10, size=2)
                first = f"[LAST {tree} {a} {b} ]" if place == "before" else f"[FIRST {a} {b} {tree} ]"
                lines.append(f"{first} X {second[row]}")
    small = [pair[0] for pair in pairs[DEPTHS[0]]]
    for row, many in [(row, many) for many in WIDE.values() for row in range(ROWS)]:
        trees = [small[number] for number in random.integers(ROWS, size=many)]
        while len(trees) > 1:
            operators = random.choice(["FIRST", "LAST"], len(trees) // 2)
            trees = [f"[{name} {' '.join(trees[2 * k : 2 * k + 2])} ]" for k, name in enumerate(operators)]
        a, b = random.integers(10, size=2)
        lines.append(f"[LAST {trees[0]} {a} {b} ] X {second[row]}")
    return orchard_text.parse("".join(f"{line}\n" for line in lines).encode(), path="open brackets")


def _trees(data: str, depth: int) -> list[list[str]]:
    return [text.split(" X ") for text in generate(data, f"test-{depth}", SEED, **FEW).texts]


def scores(run: Run) -> dict[str, float] | None:
    """The share of first trees answered right in each set, in percent; None if the run has not been asked."""
    predictions = run.predictions(NAME)
    if predictions is None:
        return None
    whole = corpus(run.recipe)
    right = answers_from(predictions, whole).given[:, 0] == asked(whole)[:, 0]
    shares: Any = 100 * right.reshape(len(SETS), ROWS).mean(1)
    return {name: round(float(share), 1) for name, share in zip(SETS, shares, strict=True)}
