"""What random trees are expected to score by parse F1, exactly and without sampling.

    expected_f1(gold).value                 random trees against these
    expected_branching_f1(lengths)          against wholly left- or right-branching trees
    expected_self_f1(lengths)               two random trees against each other
    expected_depth(lengths)                 the mean depth of a token

A random tree (`binary.random_trees`) cuts a sentence at a uniformly drawn place, and each part again. A span of m of
the n tokens is then a constituent with probability 1 if m = n, 1/m if it touches one end of the sentence, and
2/(m(m+1)) inside it. The functions here sum these probabilities.
"""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Floats, Ints
from pomona.base.compiled import compiled
from pomona.base.errors import MeasureError
from pomona.evaluation.parse_f1 import Counting, CountingOptions, TreeScore, sentence_lengths
from pomona.trees.forest import Forest


def expected_f1(
    gold: Forest,
    *,
    root: bool = True,
    leaves: bool = False,
    **options: Unpack[CountingOptions],
) -> TreeScore:
    """The expected `parse_f1` of random trees against these, exactly: the mean of P(span) over their spans.

    The interval is that of the sentences; there is no sampling of trees.
    """
    counting = Counting(**options)
    lengths = sentence_lengths(gold)
    low, high = gold.span
    chance, spans = _expected_shared(low, high, gold.start, root, leaves)
    total = spans + lengths - 2 + root + leaves * lengths
    return TreeScore(**counting.fields(2 * chance[:, None], total[:, None], (lengths > 1) & (total > 0)))


def expected_branching_f1(lengths: Ints, *, root: bool = True, leaves: bool = False) -> npt.NDArray[np.float64]:
    """Random against wholly left- or right-branching trees over n tokens; NaN where there is nothing to compare.

    With the defaults (1 + 1/2 + ... + 1/(n-1)) / (n-1).
    """
    size = _sizes(lengths)
    harmonic = _sums(size, lambda width: 1 / width)
    inside = harmonic[np.maximum(size - 1, 0)] - 1  # widths 2 .. n-1, each touching one end
    return _share(size, inside, root, leaves)


def expected_self_f1(lengths: Ints, *, root: bool = True, leaves: bool = False) -> npt.NDArray[np.float64]:
    """Two random trees over n tokens against each other: the sum of P(span)² over all spans, over n-1."""
    size = _sizes(lengths)
    touching = _sums(size, lambda width: 2 / width**2)
    interior = _sums(size, lambda width: 4 / (width * (width + 1)) ** 2)
    weighted = _sums(size, lambda width: 4 / (width * (width + 1) ** 2))
    one, two = np.maximum(size - 1, 1), np.maximum(size - 2, 1)
    # A width m has n-m-1 places inside the sentence; the sums start at m = 2, so what m = 1 adds is taken off.
    inside = touching[one] - 2 + (size - 1) * (interior[two] - 1) - (weighted[two] - 1)
    return _share(size, inside, root, leaves)


def expected_depth(lengths: Ints) -> npt.NDArray[np.float64]:
    """The expected mean depth of a token in a random tree over n tokens: 2 (1/2 + 1/3 + ... + 1/n)."""
    size = _sizes(lengths)
    return 2 * (_sums(size, lambda width: 1 / width)[size] - 1)


def _sizes(lengths: Ints) -> npt.NDArray[np.int64]:
    size = np.asarray(lengths, np.int64)
    if size.size and size.min() < 1:
        raise MeasureError(f"a sentence has at least one token; got a length of {size.min()}")
    return size


def _sums(size: Ints, term: Any) -> npt.NDArray[np.float64]:
    """`sums[n]` = term(1) + ... + term(n), up to the longest sentence."""
    width = np.arange(1, int(size.max(initial=1)) + 1, dtype=np.float64)
    return np.concatenate([[0.0], np.cumsum(term(width))])


def _share(size: Ints, inside: Floats, root: bool, leaves: bool) -> npt.NDArray[np.float64]:
    """Expected shared spans over all spans, from those that are neither the sentence nor a token."""
    total = size - 2 + root + leaves * size
    counted = (size > 1) & (total > 0)
    share: npt.NDArray[np.float64] = np.where(
        counted, (inside * (size > 2) + root + leaves * size) / np.where(counted, total, 1), np.nan
    )
    return share


@compiled
def _expected_shared(
    low: Ints, high: Ints, start: Ints, root: bool, leaves: bool
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """For each tree, the sum of P(span) over its different spans, and their number."""
    chance = np.zeros(len(start) - 1)
    spans = np.zeros(len(start) - 1, np.int64)
    for tree in range(len(start) - 1):
        length = high[start[tree + 1] - 1]
        for node in range(start[tree], start[tree + 1]):
            if node > start[tree] and low[node] == low[node - 1] and high[node] == high[node - 1]:
                continue
            width = high[node] - low[node]
            if (width == length and not root) or (width == 1 and not leaves):
                continue
            spans[tree] += 1
            if width == length or width == 1:
                chance[tree] += 1.0
            elif low[node] == 0 or high[node] == length:
                chance[tree] += 1.0 / width
            else:
                chance[tree] += 2.0 / (width * (width + 1.0))
    return chance, spans
