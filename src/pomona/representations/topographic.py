"""Topographic similarity: do items with similar meanings have similar messages?

(Brighton & Kirby 2006; section 6 of the TRE paper.)

    topographic_similarity(meanings, messages).value      # Spearman correlation of two sets of pairwise distances

A distance is a name (`hamming`, `edit`, `cosine`, `euclidean`, `l1`) or a callable of two items; precomputed distances
are given as a condensed vector of all pairs. Up to `limit` items every pair is used. Beyond that, pairs are sampled,
and the result has a confidence interval for the value over all pairs. If all distances of one side are equal, the
value is NaN with a reason. `rsa` asks the same question of two vector spaces.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Floats, Ints
from pomona.base.compiled import compiled
from pomona.base.errors import MeasureError, SpecError, did_you_mean

FloatArray = npt.NDArray[np.float64]
PairDistance = Callable[[Ints, Ints], FloatArray]  # two arrays of row numbers -> their distances

NAMES = ("hamming", "edit", "cosine", "euclidean", "l1")
BATCHES = 20  # of the sampled pairs, for the confidence interval


@dataclass(frozen=True)
class Similarity:
    """A correlation between two sets of pairwise distances."""

    value: float
    items: int
    pairs: int
    exact: bool  # all pairs were used
    low: float | None = None  # confidence interval for the value over all pairs, where pairs were sampled
    high: float | None = None
    p_value: float | None = None  # by permuting items (Mantel test), if asked for
    reason: str | None = None  # why the value is NaN, if it is


@dataclass(frozen=True)
class Sampling:
    """Which pairs of items are compared, and how often items are permuted for a p-value."""

    limit: int = 5000  # up to this many items all pairs are used
    draws: int = 1_000_000  # how many pairs are sampled beyond that
    permutations: int = 0
    seed: int = 0


def topographic_similarity(
    meanings: Any,
    messages: Any,
    meaning_distance: str | Callable[..., float] = "hamming",
    message_distance: str | Callable[..., float] = "edit",
    *,
    method: str = "spearman",
    **sampling: int,
) -> Similarity:
    """The correlation between the distances of meanings and the distances of messages.

    >>> topographic_similarity([[0, 0], [0, 1], [1, 0], [1, 1]], ["aa", "ab", "ba", "bb"]).value
    1.0

    Args:
        meanings, messages: one of each for every item.
        meaning_distance, message_distance: a name, a callable of two items, or "condensed" for precomputed distances.
        method: spearman, pearson or kendall.
        limit, draws: up to `limit` items (5000) all pairs are used, else `draws` sampled pairs (1,000,000).
        permutations: permutations of the items for a p-value, where all pairs are used (0: none).
        seed: of the sampled pairs and the permutations.
    """
    first, second = _space(meanings, meaning_distance), _space(messages, message_distance)
    items = first.items or second.items or 0
    for space in (first, second):
        if space.items not in (None, items):
            raise MeasureError(
                f"{first.items} meanings but {second.items} messages: there must be one of each for every item."
            )
    if items < 3:
        raise MeasureError(f"{items} items have too few pairs to correlate; at least 3 are needed.")
    if method not in CORRELATIONS:
        raise SpecError(f"method is one of {', '.join(CORRELATIONS)}, got {method!r}.")
    chosen = Sampling(**sampling)
    compare = _over_all_pairs if items <= chosen.limit else _over_sampled_pairs
    return compare(first, second, items, CORRELATIONS[method], chosen)


def _over_all_pairs(
    first: _Space, second: _Space, items: int, correlate: Callable[..., float], sampling: Sampling
) -> Similarity:
    left, right = np.triu_indices(items, 1)
    a, b = first.between(left, right), second.between(left, right)
    value, reason = _correlated(a, b, correlate)
    p_value = None
    if sampling.permutations and reason is None:
        rng, other = np.random.default_rng(sampling.seed), _condensed(b)
        scores = [
            _permuted(a, other, (left, right), correlate, rng.permutation(items)) for _ in range(sampling.permutations)
        ]
        p_value = (1 + sum(score >= value - 1e-12 for score in scores)) / (1 + sampling.permutations)
    return Similarity(value, items, len(a), True, p_value=p_value, reason=reason)


def _over_sampled_pairs(
    first: _Space, second: _Space, items: int, correlate: Callable[..., float], sampling: Sampling
) -> Similarity:
    rng = np.random.default_rng(sampling.seed)
    left = rng.integers(items, size=sampling.draws)
    right = (left + rng.integers(1, items, size=sampling.draws)) % items
    a, b = first.between(left, right), second.between(left, right)
    value, reason = _correlated(a, b, correlate)
    if reason is not None:
        return Similarity(value, items, sampling.draws, False, reason=reason)
    # The sampled pairs are independent, and so are batches of them: their spread gives the error of the whole.
    parts = [
        _correlated(x, y, correlate)[0]
        for x, y in zip(np.array_split(a, BATCHES), np.array_split(b, BATCHES), strict=True)
    ]
    half = 2.093 * float(np.nanstd(parts, ddof=1)) / np.sqrt(BATCHES)  # Student's t, 19 degrees of freedom, 95 %
    return Similarity(value, items, sampling.draws, False, max(value - half, -1.0), min(value + half, 1.0))


def rsa(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    first_distance: str = "cosine",
    second_distance: str = "cosine",
    *,
    method: str = "spearman",
    **options: Any,
) -> Similarity:
    """Representational similarity analysis: the same correlation between two vector spaces over the same items."""
    return topographic_similarity(first, second, first_distance, second_distance, method=method, **options)


@dataclass(frozen=True)
class _Space:
    """Items with a distance between them."""

    items: int | None
    between: PairDistance


def _space(values: Any, distance: str | Callable[..., float]) -> _Space:
    if isinstance(distance, np.ndarray):
        raise SpecError("give precomputed distances as the values, with distance='condensed'.")
    if callable(distance):
        objects = list(values)
        call = distance

        def by_call(left: Ints, right: Ints) -> FloatArray:
            return np.array([call(objects[i], objects[j]) for i, j in zip(left, right, strict=True)], np.float64)

        return _Space(len(objects), by_call)
    if distance == "condensed":
        return _condensed(np.asarray(values, np.float64))
    if distance not in NAMES:
        raise SpecError(f"no distance is called {distance!r}. {did_you_mean(distance, (*NAMES, 'condensed'))}")
    if distance in ("hamming", "edit"):
        codes, length = _symbols(values)
        if distance == "hamming" and (length != length[0]).any():
            row = int(np.argmax(length != length[0]))
            raise MeasureError(
                f"row {row}: Hamming distance needs equal lengths, {length[row]} here and {length[0]} in row 0."
            )
        kernel = _hamming if distance == "hamming" else _edit
        return _Space(len(codes), lambda left, right: kernel(codes, length, left, right))
    return _vectors(values, distance)


def _vectors(values: Any, distance: str) -> _Space:
    array = np.asarray(values, np.float64)
    array = array.reshape(len(array), -1) if array.ndim else array
    if array.ndim != 2 or array.size == 0:
        raise MeasureError(f"distance {distance!r} needs one vector for each item, got shape {list(np.shape(values))}.")
    bad = ~np.isfinite(array).all(axis=1)
    if bad.any():
        raise MeasureError(f"row {int(np.argmax(bad))}: the vector holds NaN or infinity.")
    if distance == "cosine":
        size = np.linalg.norm(array, axis=1)
        if not size.all():
            raise MeasureError(
                f"row {int(np.argmin(size))}: a vector of all zeros has no direction for distance 'cosine'."
            )
        array = array / size[:, None]
    kinds = {"cosine": 0, "euclidean": 1, "l1": 2}
    return _Space(len(array), lambda left, right: _vector_distance(array, left, right, kinds[distance]))


def _condensed(values: FloatArray) -> _Space:
    """A precomputed vector over all pairs, in the order of `numpy.triu_indices`."""
    items = round((1 + float(np.sqrt(1 + 8 * values.size))) / 2)
    if values.ndim != 1 or items * (items - 1) // 2 != values.size:
        raise MeasureError(f"a condensed distance vector has n(n-1)/2 entries; {values.size} fits no number of items.")

    def between(left: Ints, right: Ints) -> FloatArray:
        low, high = np.minimum(left, right), np.maximum(left, right)
        return np.asarray(values[low * items - low * (low + 1) // 2 + high - low - 1])

    return _Space(items, between)


def _symbols(values: Any) -> tuple[Any, Any]:
    """Sequences of hashable symbols as a padded table of numbers, with their lengths."""
    if isinstance(values, np.ndarray) and values.ndim == 2:
        _, codes = np.unique(values, return_inverse=True)
        return codes.reshape(values.shape).astype(np.int64), np.full(len(values), values.shape[1])
    sequences = [_sequence(row, value) for row, value in enumerate(values)]
    index: dict[Any, int] = {}
    length = np.array([len(sequence) for sequence in sequences], np.int64)
    if not len(length):
        raise MeasureError("no items to compare.")
    codes = np.full((len(sequences), max(int(length.max()), 1)), -1, np.int64)
    for row, sequence in enumerate(sequences):
        codes[row, : len(sequence)] = [index.setdefault(symbol, len(index)) for symbol in sequence]
    return codes, length


def _sequence(row: int, value: Any) -> tuple[Any, ...]:
    """The symbols of one item: a text's letters, the parts of a list, or one symbol."""
    sequence = (value,) if np.isscalar(value) and not isinstance(value, str) else value
    try:
        symbols = tuple(sequence)
        hash(symbols)
    except TypeError:
        message = f"row {row}: an item is a text or a list of symbols (texts, numbers); got {str(value)[:60]!r}"
        raise MeasureError(message) from None
    return symbols


def _correlated(a: FloatArray, b: FloatArray, correlate: Callable[..., float]) -> tuple[float, str | None]:
    for side, values in (("meanings", a), ("messages", b)):
        if not np.isfinite(values).all():
            raise MeasureError(f"the distances between {side} hold NaN or infinity.")
        if values.min() == values.max():
            return float("nan"), f"all {side} are equally far apart, so there is nothing to correlate"
    return float(np.clip(correlate(a, b), -1.0, 1.0)), None


def _permuted(
    a: FloatArray, other: _Space, pairs: tuple[Ints, Ints], correlate: Callable[..., float], order: Ints
) -> float:
    """The correlation when the items of one side are permuted (Mantel): pairs are not independent, items are."""
    return correlate(a, other.between(order[pairs[0]], order[pairs[1]]))


def pearson(a: Floats, b: Floats) -> float:
    x, y = a - a.mean(), b - b.mean()
    return float(x @ y / np.sqrt((x @ x) * (y @ y)))


def spearman(a: Floats, b: Floats) -> float:
    return pearson(_ranks(a), _ranks(b))


def kendall(a: Floats, b: Floats) -> float:
    from scipy.stats import kendalltau

    return float(kendalltau(a, b).statistic)


CORRELATIONS: dict[str, Callable[[Floats, Floats], float]] = {
    "spearman": spearman,
    "pearson": pearson,
    "kendall": kendall,
}


def _ranks(values: Floats) -> FloatArray:
    """Mid-ranks: tied values share the mean of their ranks."""
    return _mid_ranks(values, np.argsort(values))


@compiled
def _mid_ranks(values: Floats, order: Ints) -> FloatArray:
    ranks = np.empty(len(values))
    first = 0
    while first < len(order):
        last = first
        while last + 1 < len(order) and values[order[last + 1]] == values[order[first]]:
            last += 1
        for rank in range(first, last + 1):
            ranks[order[rank]] = (first + last) / 2.0
        first = last + 1
    return ranks


@compiled
def _hamming(codes: Ints, length: Ints, left: Ints, right: Ints) -> FloatArray:
    out = np.empty(len(left))
    for pair in range(len(left)):
        i, j = left[pair], right[pair]
        differ = 0
        for position in range(codes.shape[1]):
            differ += codes[i, position] != codes[j, position]
        out[pair] = differ / codes.shape[1]
    return out


@compiled
def _edit(codes: Ints, length: Ints, left: Ints, right: Ints) -> FloatArray:
    """Levenshtein distance divided by the mean length, as in EGG."""
    out = np.empty(len(left))
    row = np.empty(codes.shape[1] + 1, np.int64)
    for pair in range(len(left)):
        i, j = left[pair], right[pair]
        m, n = length[i], length[j]
        for q in range(n + 1):
            row[q] = q
        for p in range(1, m + 1):
            diagonal = row[0]
            row[0] = p
            for q in range(1, n + 1):
                above = row[q]
                change = diagonal + (codes[i, p - 1] != codes[j, q - 1])
                row[q] = min(change, above + 1, row[q - 1] + 1)
                diagonal = above
        out[pair] = row[n] / ((m + n) / 2.0) if m + n > 0 else 0.0
    return out


@compiled
def _vector_distance(array: Floats, left: Ints, right: Ints, kind: int) -> FloatArray:
    out = np.empty(len(left))
    width = array.shape[1]
    for pair in range(len(left)):
        i, j = left[pair], right[pair]
        total = 0.0
        if kind == 0:
            total = 1.0 - np.dot(array[i], array[j])
        elif kind == 1:
            for k in range(width):
                total += (array[i, k] - array[j, k]) ** 2
            total = np.sqrt(total)
        else:
            for k in range(width):
                total += abs(array[i, k] - array[j, k])
        out[pair] = total
    return out


def pairwise(values: Any, distance: str | Callable[..., float]) -> FloatArray:
    """All pairwise distances as a condensed vector, to be computed once and shared by several measures."""
    space = _space(values, distance)
    assert space.items is not None
    left, right = np.triu_indices(space.items, 1)
    return space.between(left, right)
