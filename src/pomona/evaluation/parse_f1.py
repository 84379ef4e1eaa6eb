"""How far two trees over the same sentence agree: unlabelled constituents, as the ListOps paper counts them.

    >>> gold = brackets.read("( ( ( [MAX 2 ) 9 ) ] )")
    >>> parse_f1(branching([4], "right"), gold).value            # of three constituents only the sentence is shared
    0.3333333333333333

C(t) is the set of spans (first token, one past the last) of the inner nodes of t, and for one sentence

    F1 = 2 |C(predicted) ∩ C(gold)| / (|C(predicted)| + |C(gold)|)

Of two binary trees both have n-1 spans, so precision, recall and F1 are one number; for n-ary trees they differ. Nangia
and Bowman (2018, Tables 2 and 3) count the span of the whole sentence, which no tree can miss, leave out single tokens
as spans, skip sentences of one token, and average over sentences (macro): that is the default here. `root=False` drops
the free span, `leaves=True` adds the free tokens, `average="micro"` pools all constituents before dividing.

What random trees score by these measures is in `random_trees`, exactly and without sampling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Bools, Floats, Ints
from pomona.base.compiled import compiled
from pomona.base.errors import MeasureError, SpecError, did_you_mean
from pomona.base.randomness import below, mix, open_stream, stream_key
from pomona.trees.forest import Forest

Average = Literal["macro", "micro"]


@dataclass(frozen=True, eq=False)
class TreeScore:
    """A number about many sentences: `value`, its bootstrap `interval`, and the sentences it came from.

    `per_sentence` is NaN at the sentences that were skipped because they have nothing to count; `skipped` lists them.
    """

    value: float
    interval: tuple[float, float]
    per_sentence: npt.NDArray[np.float64]
    skipped: npt.NDArray[np.int64]

    def __repr__(self) -> str:
        low, high = self.interval
        kept = len(self.per_sentence) - len(self.skipped)
        return f"{type(self).__name__}({self.value:.4f}, {low:.4f} to {high:.4f}, {kept:,} sentences)"


@dataclass(frozen=True, eq=False, repr=False)
class ParseF1(TreeScore):
    """The F1 of two forests with the counts behind it: constituents shared, predicted and gold in each sentence."""

    average: Average
    shared: npt.NDArray[np.int64]
    predicted: npt.NDArray[np.int64]
    gold: npt.NDArray[np.int64]

    @property
    def precision(self) -> float:
        """Share of predicted constituents that are gold, averaged as the F1 is; NaN if none was predicted."""
        return self._ratio(self.predicted)

    @property
    def recall(self) -> float:
        """Share of gold constituents that were predicted, averaged as the F1 is; NaN if there are none."""
        return self._ratio(self.gold)

    def _ratio(self, under: Ints) -> float:
        counted = (under > 0) & np.isfinite(self.per_sentence)
        if not counted.any():
            return float("nan")
        shared, total = self.shared[counted], under[counted]
        return float(shared.sum() / total.sum() if self.average == "micro" else (shared / total).mean())


class CountingOptions(TypedDict, total=False):
    """The keyword arguments that all measures of trees share, with the defaults of Counting."""

    average: Average
    confidence: float
    resamples: int
    seed: int


@dataclass(frozen=True)
class Counting:
    """How counts of each sentence become one number and its interval: a percentile bootstrap over sentences."""

    average: Average = "macro"
    confidence: float = 0.95
    resamples: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.average not in ("macro", "micro"):
            raise SpecError(f"no average is called {self.average!r}. {did_you_mean(self.average, ['macro', 'micro'])}")
        if not 0 < self.confidence < 1:
            raise SpecError(f"confidence is a share between 0 and 1, such as 0.95; got {self.confidence}")
        if self.resamples < 1:
            raise SpecError(f"a bootstrap needs at least one resample; got {self.resamples}")

    def fields(self, hits: Floats | Ints, total: Floats | Ints, kept: Bools) -> dict[str, Any]:
        """Value, interval, per-sentence ratios and skipped rows of `hits / total`, each [sentences, comparisons]."""
        if not kept.any():
            raise MeasureError(
                f"none of the {len(kept)} sentences has a constituent to compare: "
                "all have one token, or what is counted leaves nothing of them"
            )
        ratio = (hits[kept] / total[kept]).mean(axis=1)
        per_sentence = np.full(len(kept), np.nan)
        per_sentence[kept] = ratio
        above, under = hits[kept].astype(np.float64), total[kept].astype(np.float64)
        if self.average == "macro":
            above, under = ratio[:, None], np.ones((len(ratio), 1))
        value = float((above.sum(axis=0) / under.sum(axis=0)).mean())
        drawn = _resampled(above, under, self.resamples, stream_key("parse_f1 bootstrap", int(self.seed)))
        low, high = np.quantile(drawn, [(1 - self.confidence) / 2, (1 + self.confidence) / 2]).tolist()
        return {
            "value": value,
            "interval": (low, high),
            "per_sentence": per_sentence,
            "skipped": np.flatnonzero(~kept),
        }


# -- comparing trees -------------------------------------------------------------------------------------------------


def parse_f1(
    predicted: Forest,
    gold: Forest,
    *,
    root: bool = True,
    leaves: bool = False,
    **options: Unpack[CountingOptions],
) -> ParseF1:
    """Agreement of two forests over the same sentences; the defaults give the ListOps paper's numbers.

    >>> parse_f1(left, gold).value, parse_f1(left, gold, root=False).value       # on the paper's test set
    (0.416, 0.386)
    """
    counting = Counting(**options)
    shared, mine, theirs, kept = _compare(predicted, gold, root, leaves)
    fields = counting.fields(2 * shared[:, None], (mine + theirs)[:, None], kept)
    return ParseF1(**fields, average=counting.average, shared=shared, predicted=mine, gold=theirs)


def self_f1(
    runs: Sequence[Forest],
    *,
    root: bool = True,
    leaves: bool = False,
    **options: Unpack[CountingOptions],
) -> TreeScore:
    """How far several runs agree with one another: the mean F1 over all unordered pairs of them."""
    if len(runs) < 2:
        raise MeasureError(f"self-F1 compares runs with one another and needs at least two; got {len(runs)}")
    counting = Counting(**options)
    pairs = [_compare(one, other, root, leaves) for one, other in combinations(runs, 2)]
    shared = np.stack([2 * pair[0] for pair in pairs], axis=1)
    total = np.stack([pair[1] + pair[2] for pair in pairs], axis=1)
    return TreeScore(**counting.fields(shared, total, np.all([pair[3] for pair in pairs], axis=0)))


def average_depth(forest: Forest, *, confidence: float = 0.95, resamples: int = 1000, seed: int = 0) -> TreeScore:
    """Constituents around a token, the mean over the tokens of a sentence, then over sentences.

    Sentences of one token count, with depth 0.
    """
    counting = Counting("macro", confidence, resamples, seed)
    if not len(forest):
        raise MeasureError("there are no sentences to measure the depth of")
    lengths = sentence_lengths(forest)
    depth = np.add.reduceat(np.where(forest.leaf, forest.depth, 0), forest.start[:-1], dtype=np.int64)
    everything = np.ones(len(lengths), bool)
    return TreeScore(**counting.fields(depth[:, None], lengths[:, None], everything))


def list_recall(
    predicted: Forest,
    gold: Forest,
    *,
    tokens: bool = True,
    root: bool = True,
    **options: Unpack[CountingOptions],
) -> TreeScore:
    """Was each list closed as a unit? The share of lists of the n-ary `gold` that are constituents of `predicted`.

    With `tokens`, `[OP` and `]` are tokens of the sentence, as in ListOps; without, only the leaves of `gold` are.
    Unlike F1 this does not ask how the inside of a list was put together. `root=False` leaves out the outermost list.
    """
    counting = Counting(**options)
    low, high = _list_spans(gold) if tokens else gold.span
    _check_same(sentence_lengths(predicted), high[gold.root].astype(np.int64))
    inner = ~gold.leaf
    start = np.concatenate([[0], np.cumsum(inner)])[gold.start]
    shared, _, lists = _count(*predicted.span, predicted.start, low[inner], high[inner], start, root, False).T
    return TreeScore(**counting.fields(shared[:, None], lists[:, None], lists > 0))


# -- spans and counts ------------------------------------------------------------------------------------------------


def sentence_lengths(forest: Forest) -> npt.NDArray[np.int64]:
    return forest.span[1][forest.root].astype(np.int64)


def _check_same(predicted: Ints, gold: Ints) -> None:
    if len(predicted) != len(gold):
        raise MeasureError(f"{len(predicted)} predicted trees for {len(gold)} gold trees")
    if not len(gold):
        raise MeasureError("there are no sentences to compare")
    if np.any(predicted != gold):
        row = int(np.argmax(predicted != gold))
        raise MeasureError(
            f"sentence {row}: the predicted tree has {predicted[row]} tokens, the gold tree {gold[row]}; "
            "both must stand over the same sentence"
        )


def _compare(
    predicted: Forest, gold: Forest, root: bool, leaves: bool
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64], Bools]:
    """Shared, predicted and gold constituents of each sentence, and which sentences have something to compare."""
    lengths = sentence_lengths(gold)
    _check_same(sentence_lengths(predicted), lengths)
    shared, mine, theirs = _count(*predicted.span, predicted.start, *gold.span, gold.start, root, leaves).T
    return shared, mine, theirs, (lengths > 1) & (mine + theirs > 0)


def _list_spans(forest: Forest) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Token spans when lists have a token at either end.

    When a node is closed, the tokens read are the nodes of the tree so far, plus one opening for each list among them
    and for each list still open, of which there are as many as the node is deep.
    """
    lists = np.concatenate([[0], np.cumsum(~forest.leaf)])
    node = np.arange(len(forest.symbol))
    first = forest.start[forest.tree]
    high = node + 1 - first + lists[node + 1] - lists[first] + forest.depth
    width = forest.size + lists[node + 1] - lists[node + 1 - forest.size]
    return high - width, high


@compiled
def _count(
    low: Ints, high: Ints, start: Ints, gold_low: Ints, gold_high: Ints, gold_start: Ints, root: bool, leaves: bool
) -> npt.NDArray[np.int64]:
    """Spans shared, in the first and in the second forest, for each tree.

    Post-order sorts spans by their end, and those with one end from short to long, so one merge finds the common ones.
    Equal spans (a node with one child) stand side by side and count once.
    """
    counts = np.zeros((len(start) - 1, 3), np.int64)
    for tree in range(len(start) - 1):
        length = high[start[tree + 1] - 1]
        mine, theirs = start[tree], gold_start[tree]
        while mine < start[tree + 1] or theirs < gold_start[tree + 1]:
            if mine == start[tree + 1]:
                order = 1
            elif theirs == gold_start[tree + 1]:
                order = -1
            elif high[mine] != gold_high[theirs]:
                order = -1 if high[mine] < gold_high[theirs] else 1
            elif low[mine] != gold_low[theirs]:
                order = -1 if low[mine] > gold_low[theirs] else 1
            else:
                order = 0
            one, end = (low[mine], high[mine]) if order <= 0 else (gold_low[theirs], gold_high[theirs])
            counted = (root or end - one < length) and (leaves or end - one > 1)
            if order <= 0:
                counts[tree, 1] += counted
                while mine < start[tree + 1] and low[mine] == one and high[mine] == end:
                    mine += 1
            if order >= 0:
                counts[tree, 2] += counted
                while theirs < gold_start[tree + 1] and gold_low[theirs] == one and gold_high[theirs] == end:
                    theirs += 1
            if order == 0:
                counts[tree, 0] += counted
    return counts


@compiled
def _resampled(above: Floats, under: Floats, resamples: int, key: np.uint64) -> npt.NDArray[np.float64]:
    """The value on sentences drawn with replacement, once for each resample."""
    sentences, comparisons = above.shape
    values = np.empty(resamples)
    for resample in range(resamples):
        state, gamma = open_stream(key, resample)
        hits, total = np.zeros(comparisons), np.zeros(comparisons)
        for _ in range(sentences):
            state += gamma
            row = below(mix(state) >> np.uint64(32), sentences)
            for comparison in range(comparisons):
                hits[comparison] += above[row, comparison]
                total[comparison] += under[row, comparison]
        values[resample] = (hits / total).mean()
    return values
