"""ORCHARD's draws in one go against drawing node by node: the same trees, keys and arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pomona.data.task import TASKS
from pomona.tasks.orchard import draws
from pomona.tasks.orchard import task as orchard
from pomona.trees import growing


@pytest.mark.parametrize(("cap", "unary"), [(1, True), (2, False), (6, True), (13, False)])
def test_the_guide_leads_to_the_pair_that_a_search_finds(cap: int, unary: bool) -> None:
    table = growing.heights(cap, 0.4, unary)
    words = np.random.default_rng(0).integers(0, 2**32, 40).astype(np.uint64)
    edges = (table.upto[:200] * 2**32).astype(np.uint64)
    for levels in range(1, cap + 1):
        for height in range(1, levels + 1):
            for half in (*words, *edges[edges < 2**32][:20], np.uint64(0), np.uint64(2**32 - 1)):
                low, high = table.first[levels, height, :2].tolist()
                wanted = next((p for p in range(low, high - 1) if table.upto[p] > float(half) / 2**32), high - 1)
                assert growing.any_pair(table, levels, height, half) == wanted


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"copying": 0.0},
        {"copying": 0.5, "copies": "digits", "operators": ("MIN", "MAX")},
        {"trees": 3, "references": "previous", "operators": ("MED", "SM", "MAX"), "integers": 4},
        {"trees": 4, "references": "first", "shape": "binary", "copying": 0.7},
        {"trees": 1, "operators": ("PM", "MIN"), "integers": 9, "branching": 0.3},
        {"cap": 14, "pairing": "uniform", "branching": 0.6, "copies": "digits"},
    ],
)
def test_trees_of_any_dependency_depth_are_drawn_alike_in_one_go_and_node_by_node(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    task = TASKS.build("orchard", {**settings, "train": 60, "dev": 0, "test": 60, "iid": 0})
    for split in ("train", "test-9"):
        distribution = task.distribution(split)
        numbers = np.array([3, 0, 299, *range(20, 200)])

        def drawn(distribution: Any = distribution, numbers: Any = numbers) -> tuple[Any, ...]:
            scan, corpus = distribution.scan(np.uint64(5), 7, 300), distribution.build(np.uint64(5), numbers)
            bins = None if scan.bins is None else scan.bins.tolist()
            arrays = (scan.numbers, scan.keys, corpus.tokens, corpus.token_start, corpus.values, corpus.targets)
            forest = corpus.forest
            arrays += (forest.symbol, forest.parent, forest.start, forest.links)
            return bins, corpus.vocabulary, forest.names, [(str(array.dtype), array.tolist()) for array in arrays]

        fast = drawn()
        with monkeypatch.context() as patched:
            patched.setattr(orchard, "scan_natural", draws.scan)
            patched.setattr(orchard, "build_natural", draws.build)
            assert fast == drawn()
