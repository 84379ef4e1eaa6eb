"""The speed of the natural-logic labels of fair NLI: `python -m benchmarks logic`, in CPU seconds of one core.

Goals: labels for more than a million pairs a second; 500,000 examples with all 12 targets in under 10 s.
"""

from __future__ import annotations

import numpy as np

from benchmarks import cpu
from pomona.base.errors import SpecError
from pomona.base.randomness import stream_key
from pomona.tasks.fair_nli.logic.balance import BalancedPairs, ladder
from pomona.tasks.fair_nli.logic.fragment import encode, labels, node_values, root_table
from pomona.tasks.fair_nli.logic.pairs import draw
from pomona.tasks.fair_nli.logic.projectivity import (
    connective_tables,
    modifier_tables,
    negation_tables,
    quantifier_tables,
)
from pomona.tasks.fair_nli.logic.provers import labeller
from pomona.tasks.fair_nli.logic.redundancy import RATIOS, held_out, redundancy_split
from pomona.tasks.fair_nli.logic.sentences import exemplar, pair_of_words
from pomona.tasks.fair_nli.logic.strict_core import strict_core


def main() -> None:
    """Print every figure."""
    tables = (quantifier_tables, negation_tables, modifier_tables, connective_tables, root_table)
    seconds, _ = cpu(lambda: [table() for table in tables])
    print(f"all tables from finite models           {1000 * seconds:8.1f} ms")
    redundancy_split(0, 0)  # loads compiled code and columns
    seconds, _ = cpu(lambda: [redundancy_split(rho, 1) for rho in RATIOS])
    print(f"nine training spaces                    {1000 * seconds:8.1f} ms")
    seconds, _ = cpu(lambda: strict_core(100, 1))
    print(f"strict core of 10,375 pairs             {1000 * seconds:8.1f} ms")

    train = redundancy_split(0, 1)
    distribution, test = BalancedPairs(train), BalancedPairs(held_out(train))
    draw(distribution, 1, key=stream_key("warm"))
    key, count = stream_key("benchmark"), 500_000
    seconds, pairs = cpu(lambda: draw(distribution, count, key=key))
    more, _ = cpu(lambda: pairs.targets)
    print(f"500,000 pairs with 15 nodes, 12 targets {seconds + more:8.3f} s   (goal 10 s)")
    seconds, _ = cpu(lambda: draw(test, count, key=key))
    print(f"500,000 pairs of the test space         {seconds:8.3f} s")
    words = np.tile(pairs.words, (4, 1))
    seconds, codes = cpu(lambda: encode(words))
    more, _ = cpu(lambda: labels(codes))
    millions = len(words) / 1e6
    print(f"labels from words                       {millions / (seconds + more):8.1f} million pairs/s   (goal 1)")
    print(f"labels from encodings                   {millions / more:8.1f} million pairs/s")
    seconds, _ = cpu(lambda: node_values(codes))
    print(f"15 node values from encodings           {millions / seconds:8.1f} million pairs/s")
    seconds, _ = cpu(lambda: ladder(test))
    print(f"shortcut ladder, exact                  {seconds:8.2f} s")

    sentences = [pair_of_words(row) for row in pairs.words[:20_000]]
    table = labeller("table")
    seconds, _ = cpu(lambda: table.label_all(sentences))
    print(f"table labeller on sentences             {len(sentences) / seconds:8.0f} pairs/s")
    for name, size in (("z3", 400), ("eprover", 100)):
        try:
            prover = labeller(name)
        except SpecError as missing:
            print(f"{name:<40}{missing}")
            continue
        some = [exemplar(int(code)) for code in pairs.codes[:size]]
        seconds, _ = cpu(lambda prover=prover, some=some: prover.label_all(some))  # type: ignore[misc]
        print(f"{name:<40}{size / seconds:8.0f} pairs/s")


if __name__ == "__main__":
    main()
