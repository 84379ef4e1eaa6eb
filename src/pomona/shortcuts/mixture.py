"""What no single depth does: a model's answers as a mixture of evaluators, a shortcut and noise, by maximum likelihood.

    >>> print(mixture(answers, given, "look-up table", chance=0.1))       # answers: [examples, components]
    74 % full evaluator, or at least 6 levels (71 to 77), 14 % top 2 levels (12 to 16), 12 % noise (11 to 13)

Each answer is taken to come from one component, drawn with the component's share: an evaluator that opens the top k
levels, the full evaluator, the best shortcut (a look-up), or noise, which gives every possible answer with the same
chance. With a[i, j] the probability that component j gives the answer of example i (0 or 1, and `chance` for noise),
the log-likelihood of the shares s is

    sum over i of log(sum over j of s[j] * a[i, j])

It is concave in the shares. They are found by a few EM steps, then Newton steps on the simplex; the Frank-Wolfe gap,
which bounds how far the log-likelihood is from its maximum, says when to stop. Intervals are by profile likelihood: a
share is inside unless the best fit with that share is worse by more than the 95 % point of chi-square. Nothing is
random. An answer that nobody gives, or that cannot be read, is noise.

Components that give the same answers to all examples cannot be told apart, so they are one component. Evaluators that
differ on few examples (2 %, or fewer than 10) are fitted one by one, but only their sum is given, under a name that
says so: "full evaluator, or at least 5 levels". A shortcut that nearly is an evaluator is joined with it as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Bools, Floats, Ints

POINT = 3.841458820694124  # 95 % of chi-square with one degree of freedom
ALL = "everything"
SHOWN = 0.01  # smaller shares are not listed in a line of text
ALIKE = 0.02  # evaluators that differ on no more than this share of the examples are given as one
FEW = 10  # or on fewer examples than this
_Shares = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Share:
    """One component: its share of the answers with a 95 % interval. `levels` are those of the evaluators in it."""

    name: str
    kind: str  # "levels", "shortcut" or "noise"
    levels: tuple[int | str, ...]
    share: float
    low: float
    high: float

    def as_dict(self) -> dict[str, Any]:
        numbers = {key: round(getattr(self, key), 6) for key in ("share", "low", "high")}
        return {"name": self.name, "kind": self.kind, "levels": list(self.levels), **numbers}


@dataclass(frozen=True)
class Mixture:
    """The shares of all components, which sum to 1, and the log-likelihood of the answers."""

    shares: tuple[Share, ...]
    log_likelihood: float
    examples: int

    def __str__(self) -> str:
        return in_words([share.as_dict() for share in self.shares])

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        shares = [share.as_dict() for share in self.shares]
        return {"shares": shares, "log_likelihood": round(self.log_likelihood, 6), "examples": self.examples}


def in_words(shares: Sequence[dict[str, Any]]) -> str:
    """The shares of at least 1 %, the largest first, with their intervals in per cent."""
    shown = sorted((one for one in shares if one["share"] >= SHOWN), key=lambda one: -float(one["share"]))
    words = [
        f"{100 * one['share']:.0f} % {one['name']} ({100 * one['low']:.0f} to {100 * one['high']:.0f})" for one in shown
    ]
    return ", ".join(words)


def mixture(answers: Ints, given: Ints, shortcut: str, chance: float) -> Mixture:
    """The mixture that explains the given answers best.

    `answers[i, j]` is what component j answers to example i: the evaluators of 0, 1 .. levels, the full one, and last
    the shortcut. Negative answers are unknown and agree with nothing. `chance` is the probability of an answer under
    noise.
    """
    groups = _groups(answers, shortcut)
    columns = [column for group in groups for column in group.columns]
    follows = (answers[:, columns] == given[:, None]) & (given[:, None] >= 0)
    patterns, counts = np.unique(np.packbits(follows, axis=1), axis=0, return_counts=True)
    gives = np.unpackbits(patterns, axis=1, count=len(columns))
    chances = np.column_stack([gives.astype(np.float64), np.full(len(gives), chance)])
    weights = counts.astype(np.float64)
    shares, value = best_shares(chances, weights)
    parts, first = [], 0
    for group in [*groups, _Group("noise", "noise", (), (0,))]:
        members = range(first, first + len(group.columns))
        first = members.stop
        bounds = interval(chances, weights, shares, members)
        parts.append(Share(group.name, group.kind, group.levels, float(shares[members].sum()), *bounds))
    return Mixture(tuple(parts), value, len(given))


class _Group(NamedTuple):
    """Components that are given as one: name, kind, levels, and those of their columns that differ at all."""

    name: str
    kind: str
    levels: tuple[int | str, ...]
    columns: tuple[int, ...]


def _groups(answers: Ints, shortcut: str) -> list[_Group]:
    """Evaluators, each with the shallower ones that differ from it on few examples, and the shortcut."""
    most = max(ALIKE * len(answers), FEW - 1)
    full, last = answers.shape[1] - 2, answers.shape[1] - 1
    alike: list[list[int]] = []
    for column in range(full, -1, -1):
        if alike and (answers[:, column] != answers[:, alike[-1][-1]]).sum() <= most:
            alike[-1].insert(0, column)
        else:
            alike.append([column])
    groups, joined = [], False
    for members in alike[::-1]:
        name = _name(members, full)
        levels = tuple(ALL if column == full else column for column in members)
        differ = min((answers[:, last] != answers[:, column]).sum() for column in members)
        if not joined and differ <= most:
            name, members, joined = f"{name}, which here is {shortcut}", [*members, last], True
        distinct = {answers[:, column].tobytes(): column for column in members}
        groups.append(_Group(name, "levels", levels, tuple(distinct.values())))
    return groups if joined else [*groups, _Group(shortcut, "shortcut", (), (last,))]


def _name(members: Sequence[int], full: int) -> str:
    """The name of evaluators that are given as one; `full` is the column of the full evaluator."""
    first, last = members[0], members[-1]
    if last == full:
        return "full evaluator" if first == full else f"full evaluator, or at least {first} level{'s' * (first != 1)}"
    return f"top {first} level{'s' * (first != 1)}" if first == last else f"top {first} to {last} levels"


# -- maximum likelihood ------------------------------------------------------------------------------------------------


def best_shares(chances: Floats, weights: Floats) -> tuple[_Shares, float]:
    """The shares with the greatest likelihood, and its logarithm; rows of `chances` occur `weights` times."""
    start = np.full(chances.shape[1], 1.0 / chances.shape[1])
    everything = np.ones(chances.shape[1], np.bool_)
    return _climb(chances, weights, start, [everything], 1e-9 * max(1.0, float(weights.sum())))


def interval(chances: Floats, weights: Floats, shares: Floats, group: Sequence[int]) -> tuple[float, float]:
    """The 95 % interval of the sum of some shares by profile likelihood; `shares` are the best ones."""
    best = _value(chances, weights, shares)
    inside = np.isin(np.arange(len(shares)), group)
    blocks = [block for block in (inside, ~inside) if block.any()]

    def excess(share: float) -> float:
        """How much too bad the best fit with this sum is, on a scale on which it is nearly linear."""
        start = 0.9 * shares + 0.1 / len(shares)
        start[inside] *= share / start[inside].sum()
        start[~inside] *= (1.0 - share) / start[~inside].sum()
        _, value = _climb(chances, weights, start, blocks, 1e-3, best - POINT)
        return float(np.sqrt(max(0.0, 2.0 * (best - value))) - np.sqrt(POINT)) if np.isfinite(value) else np.inf

    middle = float(shares[inside].sum())
    return _crossing(excess, middle, 0.0), _crossing(excess, middle, 1.0)


def _crossing(excess: Callable[[float], float], middle: float, end: float) -> float:
    """Where `excess` turns from negative, at the middle, to positive; the end itself if it never does."""
    if abs(end - middle) < 1e-9:
        return end
    inside, outside = middle, end
    low, high = -float(np.sqrt(POINT)), excess(end)
    if high <= 0:
        return end
    for step in range(60):
        if abs(outside - inside) < 1e-4:
            break
        part = -low / (high - low) if np.isfinite(high) and step % 3 != 2 else 0.5
        here = inside + min(0.95, max(0.05, part)) * (outside - inside)
        value = excess(here)
        if abs(value) < 2e-3:
            return here
        if value <= 0:
            inside, low = here, value
        else:
            outside, high = here, value
    return outside


def _value(chances: Floats, weights: Floats, shares: Floats) -> float:
    total = chances @ shares
    return float(weights @ np.log(total)) if total.min() > 0 else -np.inf


def _climb(
    chances: Floats, weights: Floats, start: Floats, blocks: Sequence[Bools], enough: float, least: float = -np.inf
) -> tuple[_Shares, float]:
    """Shares of the greatest likelihood, where each block keeps its sum, to within `enough` of the maximum.

    It stops as soon as it is certain that the maximum is less than `least`.
    """
    shares: _Shares = np.array(start, np.float64)
    value = _value(chances, weights, start)
    if not np.isfinite(value):
        return shares, value
    sums = [float(start[block].sum()) for block in blocks]
    for step in range(500):
        pull = weights / (chances @ shares)
        slope = chances.T @ pull
        highest = sum(total * slope[block].max() for total, block in zip(sums, blocks, strict=True))
        gap = highest - float(shares @ slope)  # the maximum is at most value + gap
        if gap <= enough or value + gap < least:
            break
        better = _kept(shares * slope, blocks, sums)  # a step of EM
        height = _value(chances, weights, better)
        if step >= 5:
            target = _newton(chances * (pull / np.sqrt(weights))[:, None], slope, blocks, sums)
            for length in (1.0, 0.5, 0.1):
                tried = shares + length * (target - shares)
                reached = _value(chances, weights, tried)
                if reached > height:
                    better, height = tried, reached
                    break
        gained = height - value
        shares, value = better, height
        if step >= 8 and gained < 1e-9:  # as near as rounding lets it come
            break
    return shares, value


def _kept(shares: Floats, blocks: Sequence[Bools], sums: Sequence[float]) -> _Shares:
    """The shares, scaled so that each block has its sum."""
    scaled = np.array(shares, np.float64)
    for block, total in zip(blocks, sums, strict=True):
        here = float(scaled[block].sum())
        scaled[block] = scaled[block] * (total / here) if here > 0 else total / block.sum()
    return scaled


def _newton(scaled: Floats, slope: Floats, blocks: Sequence[Bools], sums: Sequence[float]) -> _Shares:
    """The maximum of the second-order approximation where blocks keep their sums, by non-negative least squares.

    `scaled` are the chances divided by each row's likelihood, times the root of its weight, so that scaled.T @ scaled
    is minus the matrix of second derivatives, and this matrix times the shares is the slope.
    """
    from scipy import optimize

    curve = scaled.T @ scaled
    scale = float(np.trace(curve)) / len(curve)
    root = np.linalg.cholesky(curve + 1e-9 * scale * np.eye(len(curve))).T
    heavy = 1e3 * np.sqrt(scale)  # rows that keep the sums
    left = np.vstack([root, *(heavy * block for block in blocks)])
    right = np.concatenate([np.linalg.solve(root.T, 2.0 * slope), heavy * np.array(sums)])
    return _kept(optimize.nnls(left, right)[0], blocks, sums)
