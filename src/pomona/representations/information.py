"""Information in messages and representations: conditional entropies, context independence, mutual information.

Section 4 of the TRE paper plots a "mutual information I(theta; X)" which is in fact the mean, over dimensions, of the
entropy of a histogram. `binned_entropy` computes it. Its setting "andreas2019" is the binning of the released code: 30
bins of width 1/30 centred on 0, so that every |value| above 0.5 falls into the two end bins (saturation looks like
compression), and truncation makes the central bin twice as wide. `mutual_information` is a nearest-neighbour estimate
of I itself, for labels (Ross 2014) or between two continuous variables (Kraskov et al. 2004). All in nats.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base.errors import MeasureError, SpecError


@dataclass(frozen=True)
class ConditionalEntropy:
    """The uncertainty that remains about one side when the other is known, in nats."""

    message_given_attribute: tuple[float, ...]  # H(M | a_k): synonyms, and the other attributes
    attribute_given_message: tuple[float, ...]  # H(a_k | M): homonyms; 0 if the message determines the attribute
    message_given_meaning: float  # H(M | all attributes): free variation
    meaning_given_message: float  # H(all attributes | M): ambiguity


def conditional_entropies(attributes: Any, messages: Any) -> ConditionalEntropy:
    """H(M | a) and H(a | M) for each attribute and for whole meanings, from counts.

    >>> conditional_entropies([[0], [1]], ["a", "a"]).meaning_given_message  # ln 2: the message says nothing
    0.6931471805599453
    """
    table = _columns(attributes)
    message = _ids([_frozen(value) for value in messages])
    if len(message) != len(table):
        raise MeasureError(
            f"{len(table)} rows of attributes but {len(message)} messages: there must be one of each for every item."
        )
    whole = np.unique(table, axis=0, return_inverse=True)[1].ravel()
    h_message = _entropy(message)
    joint = [_entropy(_pair(table[:, k], message)) for k in range(table.shape[1])]
    alone = [_entropy(table[:, k]) for k in range(table.shape[1])]
    both = _entropy(_pair(whole, message))
    return ConditionalEntropy(
        tuple(max(h - a, 0.0) for h, a in zip(joint, alone, strict=True)),
        tuple(max(h - h_message, 0.0) for h in joint),
        max(both - _entropy(whole), 0.0),
        max(both - h_message, 0.0),
    )


@dataclass(frozen=True)
class ContextIndependence:
    """The mean over concepts, and the symbol that goes with each concept."""

    value: float
    word: dict[Any, Any]  # for each concept the symbol with the largest P(concept | symbol)
    reason: str | None = None


def context_independence(attributes: Any, messages: Any) -> ContextIndependence:
    """Bogin et al. (2018): the mean over concepts c of P(v | c) P(c | v), where v is the symbol with most P(c | v).

    A concept is an attribute's value; probabilities are counts of items in which concept and symbol occur together.
    """
    table = [tuple(row) for row in (attributes.tolist() if isinstance(attributes, np.ndarray) else attributes)]
    rows = [set(row) for row in (messages.tolist() if isinstance(messages, np.ndarray) else messages)]
    if not table or len(table) != len(rows):
        raise MeasureError(
            f"{len(table)} rows of attributes but {len(rows)} messages: there must be one of each for every item."
        )
    together: dict[Any, dict[Any, int]] = {}
    concept_count: dict[Any, int] = {}
    symbol_count: dict[Any, int] = {}
    for meaning, symbols in zip(table, rows, strict=True):
        for symbol in symbols:
            symbol_count[symbol] = symbol_count.get(symbol, 0) + 1
        for concept in set(enumerate(meaning)):
            concept_count[concept] = concept_count.get(concept, 0) + 1
            seen = together.setdefault(concept, {})
            for symbol in symbols:
                seen[symbol] = seen.get(symbol, 0) + 1
    if len(symbol_count) < 2:
        return ContextIndependence(float("nan"), {}, "the messages use a single symbol, which can stand for nothing")
    word, shares = {}, []
    for concept, seen in sorted(together.items(), key=repr):
        best = max(sorted(seen, key=repr), key=lambda symbol: (seen[symbol] / symbol_count[symbol], seen[symbol]))
        word[concept] = best
        shares.append(seen[best] / concept_count[concept] * seen[best] / symbol_count[best])
    return ContextIndependence(float(np.mean(shares)), word)


def binned_entropy(
    representations: npt.ArrayLike, bins: int = 30, binning: str = "andreas2019", smoothing: float = 1e-7
) -> float:
    """The mean over dimensions of a histogram's entropy: what Figure 3 of the TRE paper calls mutual information.

    `binning` is "andreas2019", as in the released code (see above), or "range": equal bins from minimum to maximum.
    """
    values = _matrix(representations)
    if binning == "andreas2019":
        cell = np.clip(bins // 2 + np.trunc(bins * values).astype(np.int64), 0, bins - 1)
    elif binning == "range":
        low, high = values.min(axis=0), values.max(axis=0)
        width = np.where(high > low, high - low, 1.0)
        cell = np.minimum((bins * (values - low) / width).astype(np.int64), bins - 1)
    else:
        raise SpecError(f"binning is 'andreas2019' or 'range', got {binning!r}.")
    entropies = []
    for column in cell.T:
        share = np.bincount(column, minlength=bins) / len(column) + smoothing
        share = share / share.sum()
        entropies.append(float(-(share * np.log(share)).sum()))
    return float(np.mean(entropies))


def mutual_information(representations: npt.ArrayLike, other: Any, neighbours: int = 3) -> float:
    """A nearest-neighbour estimate of I(theta; y) in nats, over all dimensions jointly.

    `other` is a sequence of labels (Ross 2014) or an array of floats, [items] or [items, numbers] (Kraskov 2004,
    estimator 1). Ties are not broken; add noise to rounded data yourself. The estimate is too low for strong dependence
    and few items, and can be negative for independent data; it is not clipped.
    """
    from scipy.spatial import cKDTree
    from scipy.special import digamma

    values = _matrix(representations)
    items = len(values)
    partner = np.asarray(other)
    if len(partner) != items:
        raise MeasureError(f"{items} representations but {len(partner)} other values: there must be one for each.")
    if partner.dtype.kind == "f":
        second = partner.reshape(items, -1).astype(np.float64)
        if items <= neighbours:
            raise MeasureError(f"{items} items are too few for {neighbours} neighbours.")
        joint = cKDTree(np.concatenate([values, second], axis=1))
        radius = np.nextafter(joint.query(joint.data, k=neighbours + 1, p=np.inf)[0][:, -1], 0)
        inner = sum(_near(cKDTree(side), side, radius) for side in (values, second))
        return float(digamma(neighbours) + digamma(items) - inner)
    label = _ids([_frozen(value) for value in partner.tolist()])
    counts = np.bincount(label)
    lonely = counts[label] <= neighbours
    if lonely.any():
        row = int(np.argmax(lonely))
        raise MeasureError(
            f"row {row}: its label occurs {counts[label[row]]} times; {neighbours} neighbours need more."
        )
    radius = np.empty(items)
    for same in range(len(counts)):
        rows = np.flatnonzero(label == same)
        within = cKDTree(values[rows])
        radius[rows] = within.query(values[rows], k=neighbours + 1, p=np.inf)[0][:, -1]
    everywhere = cKDTree(values)
    around = everywhere.query_ball_point(values, np.nextafter(radius, 0), p=np.inf, return_length=True)
    return float(
        digamma(items) + digamma(neighbours) - digamma(counts[label]).mean() - digamma(np.maximum(around, 1)).mean()
    )


def _near(tree: Any, points: Any, radius: Any) -> float:
    """The mean digamma of the number of neighbours within each point's radius."""
    from scipy.special import digamma

    return float(digamma(tree.query_ball_point(points, radius, p=np.inf, return_length=True)).mean())


def _matrix(values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    array = np.asarray(values, np.float64)
    if array.ndim < 2 or array.size == 0:
        raise MeasureError(f"representations must have shape [items, numbers], got {list(array.shape)}.")
    array = array.reshape(len(array), -1)
    wrong = ~np.isfinite(array).all(axis=1)
    if wrong.any():
        raise MeasureError(f"row {int(np.argmax(wrong))}: the representation holds NaN or infinity.")
    return array


def _columns(attributes: Any) -> npt.NDArray[np.int64]:
    rows = [tuple(row) for row in (attributes.tolist() if isinstance(attributes, np.ndarray) else attributes)]
    if not rows or any(len(row) != len(rows[0]) for row in rows):
        raise MeasureError("attributes must be a non-empty table: one row for each item, all equally long.")
    return np.stack([_ids([row[k] for row in rows]) for k in range(len(rows[0]))], axis=1)


def _frozen(value: Any) -> Any:
    return tuple(_frozen(part) for part in value) if isinstance(value, list | tuple | np.ndarray) else value


def _ids(values: list[Any]) -> npt.NDArray[np.int64]:
    index: dict[Any, int] = {}
    return np.array([index.setdefault(value, len(index)) for value in values], np.int64)


def _pair(left: Any, right: Any) -> Any:
    return left * (int(right.max()) + 1) + right


def _entropy(values: Any) -> float:
    share = np.unique(values, return_counts=True)[1] / len(values)
    return float(-(share * np.log(share)).sum())
