"""Positional and bag-of-symbols disentanglement (Chaabouni et al. 2020), with EGG's definitions.

In a disentangled language each position of a message (or each symbol's count) tells about one attribute and no other.
For each position, take the gap between the two attributes that it tells most about, as a share of its entropy; average
over the positions that vary at all.

    posdis = mean over positions j with H(m_j) > 0 of (I(m_j; a_first) - I(m_j; a_second)) / H(m_j)

`bosdis` uses the count of each symbol in the message instead, without symbol 0, EGG's end of message.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base.errors import MeasureError


@dataclass(frozen=True)
class Disentanglement:
    """The mean gap, and the gap of each position or symbol."""

    value: float
    per_unit: tuple[float, ...]  # the gap of each position or symbol; NaN where it never varies
    reason: str | None = None


def posdis(attributes: Any, messages: Any) -> Disentanglement:
    """Positional disentanglement: does each position of the message tell about one attribute?

    >>> posdis([[0, 0], [0, 1], [1, 0], [1, 1]], ["ax", "ay", "bx", "by"]).value
    1.0
    """
    meanings, tokens = _tables(attributes, messages)
    return _gaps(meanings, tokens, "position")


def bosdis(attributes: Any, messages: Any, drop: Hashable | None = 0) -> Disentanglement:
    """Bag-of-symbols disentanglement: does the count of each symbol tell about one attribute, whatever the order?

    `drop` is a symbol to leave out, as EGG leaves out 0; None keeps all.
    """
    rows = _sequences(messages)
    symbols = sorted({symbol for row in rows for symbol in row if drop is None or symbol != drop}, key=repr)
    counts = np.array([[row.count(symbol) for symbol in symbols] for row in rows], np.int64).reshape(
        len(rows), len(symbols)
    )
    meanings, _ = _tables(attributes, counts)
    return _gaps(meanings, counts, "symbol count")


def _gaps(meanings: Any, units: Any, name: str) -> Disentanglement:
    gaps = []
    for unit in range(units.shape[1]):
        entropy = _entropy(units[:, unit])
        shared = sorted((_mutual(meanings[:, k], units[:, unit]) for k in range(meanings.shape[1])), reverse=True)
        gaps.append((shared[0] - shared[1]) / entropy if entropy > 0 else float("nan"))
    varying = [gap for gap in gaps if gap == gap]
    if not varying:
        return Disentanglement(
            float("nan"), tuple(gaps), f"no {name} ever varies, so no message informs about anything"
        )
    return Disentanglement(float(np.mean(varying)), tuple(gaps))


def _tables(attributes: Any, messages: Any) -> tuple[Any, Any]:
    meanings, tokens = _codes(_sequences(attributes), "attributes"), _codes(_sequences(messages), "messages")
    if len(meanings) != len(tokens):
        raise MeasureError(
            f"{len(meanings)} rows of attributes but {len(tokens)} messages: there must be one of each for every item."
        )
    if meanings.shape[1] < 2:
        raise MeasureError(f"disentanglement compares attributes; {meanings.shape[1]} given, at least 2 are needed.")
    return meanings, tokens


def _sequences(values: Any) -> list[tuple[Any, ...]]:
    if isinstance(values, np.ndarray):
        values = values.tolist()
    rows = [tuple(value) for value in values]
    if not rows:
        raise MeasureError("no items: disentanglement needs attributes and messages.")
    return rows


def _codes(rows: list[tuple[Any, ...]], name: str) -> npt.NDArray[np.int64]:
    """A number for each symbol; shorter messages are padded with -1."""
    width = max(len(row) for row in rows)
    if name == "attributes" and any(len(row) != width for row in rows):
        short = next(number for number, row in enumerate(rows) if len(row) != width)
        raise MeasureError(f"row {short}: {len(rows[short])} attributes where others have {width}.")
    index: dict[Any, int] = {}
    table = np.full((len(rows), width), -1, np.int64)
    for number, row in enumerate(rows):
        table[number, : len(row)] = [index.setdefault(symbol, len(index)) for symbol in row]
    return table


def _entropy(values: Any) -> float:
    share = np.unique(values, return_counts=True)[1] / len(values)
    return max(float(-(share * np.log(share)).sum()), 0.0) if len(share) > 1 else 0.0


def _mutual(left: Any, right: Any) -> float:
    both = np.unique(np.stack([left, right], axis=1), axis=0, return_counts=True)[1] / len(left)
    return _entropy(left) + _entropy(right) + float((both * np.log(both)).sum())
