"""Statistics of a corpus: lengths, labels, operators, arities, nesting, dependency depth and binary trees.

These numbers compare a regenerated ListOps with the published files. Among them is the distribution of average tree
depth in Figure 3 of the paper, where the depth of a token is the number of groups around it in the binary tree.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Floats, Ints
from pomona.data.corpus import Corpus
from pomona.trees.binary import binarise
from pomona.trees.values import labels_of

PERCENTILES = (5.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 100.0)
SHARES = (50, 100, 130, 200, 500)
BUCKETS = (10, 20, 50, 100, 200, 500, 1000)


@dataclass(frozen=True)
class Spread:
    """Mean, standard deviation and percentiles of one quantity."""

    mean: float
    deviation: float
    percentiles: dict[str, float]

    @classmethod
    def of(cls, values: Ints | Floats) -> Spread:
        if not len(values):
            return cls(0.0, 0.0, {})
        marks = np.percentile(values, PERCENTILES)
        named = {f"{mark:g}": round(float(value), 3) for mark, value in zip(PERCENTILES, marks, strict=True)}
        return cls(float(np.mean(values)), float(np.std(values)), named)


@dataclass(frozen=True)
class Description:
    """The numbers of one corpus; `as_dict` is what `--json` prints."""

    rows: int
    distinct: int
    single_tokens: int
    tokens: int
    targets: list[dict[str, int]]
    majority: float
    operators: dict[str, int]
    arities: dict[str, int]
    length: Spread
    share_up_to: dict[str, float]
    length_buckets: dict[str, int]
    nesting: Spread
    nesting_counts: dict[str, int]
    dependency: Spread
    dependency_counts: dict[str, int]
    lists: Spread
    token_depth: Spread
    binary_depth: Spread
    fingerprint: str

    def __repr__(self) -> str:
        return (
            f"Description({self.rows:,} rows, {self.distinct:,} distinct, {self.tokens:,} tokens; mean length "
            f"{self.length.mean:.1f}, nesting {self.nesting.mean:.1f}; as_dict() has everything)"
        )

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def token_depths(corpus: Corpus) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """For each tree, the mean and the greatest depth of its tokens in the left-branching binary tree."""
    forest = binarise(corpus.forest)
    leaves = forest.leaf
    counts = np.add.reduceat(leaves.astype(np.int64), forest.start[:-1]) if len(forest) else np.zeros(0, np.int64)
    depths = np.where(leaves, forest.depth, 0)
    totals = np.add.reduceat(depths.astype(np.int64), forest.start[:-1]) if len(forest) else counts
    deepest = np.maximum.reduceat(depths, forest.start[:-1]).astype(np.int64) if len(forest) else counts
    return totals / np.maximum(counts, 1), deepest


def describe(corpus: Corpus) -> Description:
    """The numbers that describe a corpus."""
    forest = corpus.forest
    inner = ~forest.leaf
    mean_depth, deepest = token_depths(corpus)
    lists = np.bincount(forest.tree[inner] // corpus.width, minlength=len(corpus))
    buckets = np.digitize(corpus.lengths, BUCKETS)
    named = [f"<{bound}" for bound in BUCKETS] + [f">={BUCKETS[-1]}"]
    labels = labels_of(corpus.outcomes)
    targets = [{labels[value]: count for value, count in _counts(column)} for column in corpus.targets.T]
    return Description(
        rows=len(corpus),
        distinct=len(np.unique(corpus.keys)),
        single_tokens=int((corpus.lengths == 1).sum()),
        tokens=len(corpus.tokens),
        targets=targets,
        majority=max((max(counts.values(), default=0) for counts in targets), default=0) / max(len(corpus), 1),
        operators={forest.names[symbol]: count for symbol, count in _counts(forest.symbol[inner])},
        arities={str(arity): count for arity, count in _counts(forest.arity[inner])},
        length=Spread.of(corpus.lengths),
        share_up_to={str(bound): float((corpus.lengths <= bound).mean()) if len(corpus) else 0.0 for bound in SHARES},
        length_buckets={name: int((buckets == bucket).sum()) for bucket, name in enumerate(named)},
        nesting=Spread.of(corpus.nesting),
        nesting_counts={str(depth): count for depth, count in _counts(corpus.nesting)},
        dependency=Spread.of(corpus.dependency),
        dependency_counts={str(depth): count for depth, count in _counts(corpus.dependency)},
        lists=Spread.of(lists),
        token_depth=Spread.of(mean_depth),
        binary_depth=Spread.of(deepest),
        fingerprint=corpus.fingerprint,
    )


def _counts(values: Ints) -> list[tuple[int, int]]:
    kinds, counts = np.unique(values[values >= 0], return_counts=True)
    return list(zip(kinds.tolist(), counts.tolist(), strict=True))
