"""The tree edit distance of the TRE paper (appendix B), and Proposition 1, which depends on it.

Definition 2 compares two derivations by matching their parts in order, or by dropping a whole part at the cost of its
leaves:

    D(i, j)         = [i != j]                                            two primitives
    D(<..>, <..>)   = sum of D over the parts, in order                   equally many parts
    D(d, <a, b>)    = min of D(d, a) + |b| and D(d, b) + |a|              and the same with the arguments exchanged

The paper prints [i = j] in the first line, but its own base case needs 0 for equal primitives, so this is a misprint.
Two trees are compared over a table of node pairs, filled from the leaves up: no recursion, |d| |d'| entries.

Proposition 1: if every item is reconstructed within eps, then f(x) and f(x') are at most D(d, d') + 2 eps apart, under
conditions that `check_proposition_1` measures instead of assuming them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Ints
from pomona.base.compiled import compiled
from pomona.base.errors import MeasureError
from pomona.representations.tre.derivations import Derivations
from pomona.representations.tre.fitted import FittedModel

FloatArray = npt.NDArray[np.float64]


def tree_edit_distance(first: Any, second: Any) -> int:
    """The distance of Definition 2 between two nested tuples.

    >>> tree_edit_distance(("red", "square"), ("red", ("big", "square")))
    1
    """
    return int(tree_edit_distances([first, second])[0])


def tree_edit_distances(
    derivations: Any, left: npt.ArrayLike | None = None, right: npt.ArrayLike | None = None
) -> FloatArray:
    """The distances of these pairs of rows; by default of all pairs, in the order of `numpy.triu_indices`."""
    trees = Derivations.of(derivations)
    if left is None or right is None:
        left, right = np.triu_indices(len(trees), 1)
    first, part, size = _children(trees)
    inside_first, inside = _inside(trees, first, part)
    return np.asarray(
        _distances(
            first, part, size, inside_first, inside, trees.root, np.asarray(left, np.int64), np.asarray(right, np.int64)
        ),
        np.float64,
    )


def _children(trees: Derivations) -> tuple[Any, Any, Any]:
    """The parts of every distinct subtree, in compressed rows, and its number of leaves (Definition 1)."""
    width = [np.zeros(len(trees.names), np.int64)] + [
        np.full(len(step.parts), step.parts.shape[1]) for step in trees.steps
    ]
    first = np.concatenate([[0], np.cumsum(np.concatenate(width))]).astype(np.int64)
    part = np.concatenate([np.zeros(0, np.int64)] + [step.parts.ravel() for step in trees.steps]).astype(np.int64)
    size = np.ones(trees.subtrees, np.int64)
    for step in trees.steps:
        size[step.first : step.first + len(step.parts)] = size[step.parts].sum(axis=1)
    return first, part, size


def _inside(trees: Derivations, first: Ints, part: Ints) -> tuple[Any, Any]:
    """For each row the distinct subtrees inside it, smallest first: the row and column labels of its table."""
    starts, lists = [0], []
    known: dict[int, Any] = {}
    for root in trees.root.tolist():
        if root not in known:
            seen, stack = {root}, [root]
            while stack:
                node = stack.pop()
                for below in part[first[node] : first[node + 1]].tolist():
                    if below not in seen:
                        seen.add(below)
                        stack.append(below)
            known[root] = np.array(sorted(seen), np.int64)
        lists.append(known[root])
        starts.append(starts[-1] + len(known[root]))
    return np.array(starts, np.int64), np.concatenate(lists)


@compiled
def _distances(
    first: Ints, part: Ints, size: Ints, inside_first: Ints, inside: Ints, root: Ints, left: Ints, right: Ints
) -> Ints:
    out = np.empty(len(left), np.int64)
    place_a = np.zeros(len(size), np.int64)
    place_b = np.zeros(len(size), np.int64)
    widest = 0
    for row in range(len(inside_first) - 1):
        widest = max(widest, inside_first[row + 1] - inside_first[row])
    table = np.zeros((widest, widest), np.int64)
    for pair in range(len(left)):
        i, j = left[pair], right[pair]
        if root[i] == root[j]:
            out[pair] = 0
            continue
        nodes_a = inside[inside_first[i] : inside_first[i + 1]]
        nodes_b = inside[inside_first[j] : inside_first[j + 1]]
        for p in range(len(nodes_a)):
            place_a[nodes_a[p]] = p
        for q in range(len(nodes_b)):
            place_b[nodes_b[q]] = q
        for p in range(len(nodes_a)):
            a = nodes_a[p]
            wide_a = first[a + 1] - first[a]
            for q in range(len(nodes_b)):
                b = nodes_b[q]
                wide_b = first[b + 1] - first[b]
                if wide_a == 0 and wide_b == 0:
                    table[p, q] = 0 if a == b else 1
                    continue
                best = 1 << 60
                if wide_a == wide_b:
                    total = 0
                    for k in range(wide_a):
                        total += table[place_a[part[first[a] + k]], place_b[part[first[b] + k]]]
                    best = total
                for k in range(wide_b):
                    below = part[first[b] + k]
                    best = min(best, table[p, place_b[below]] + size[b] - size[below])
                for k in range(wide_a):
                    below = part[first[a] + k]
                    best = min(best, table[place_a[below], q] + size[a] - size[below])
                table[p, q] = best
        out[pair] = table[place_a[root[i]], place_b[root[j]]]
    return out


@dataclass(frozen=True)
class Proposition1:
    """Whether the conditions of Proposition 1 hold for some data, and whether its bound does."""

    epsilon: float  # the largest TRE(x)
    primitives_within_one: bool  # condition 1
    primitives_near_identity: bool  # condition 2
    subadditive: bool  # condition 3, known for addition under a translation-invariant metric
    metric: bool  # the triangle inequality, which the last step of the proof uses without saying so
    scale: float  # distances were divided by this number, so that conditions 1 and 2 can hold
    pairs: int
    violations: int
    worst: float  # the largest of distance - (edit distance + 2 eps); the bound holds if it is 0 or less

    @property
    def applies(self) -> bool:
        """All conditions hold, so the bound must hold too."""
        return self.primitives_within_one and self.primitives_near_identity and self.subadditive and self.metric

    @property
    def holds(self) -> bool:
        return self.violations == 0


def check_proposition_1(
    fitted: FittedModel, *, rescale: bool = False, draws: int = 500_000, seed: int = 0
) -> Proposition1:
    """Test equation 5 and its conditions on every pair of items (or on `draws` sampled pairs).

    Conditions 1 and 2 fix a scale: primitives lie within 1 of each other and of zero. With `rescale`, distances are
    divided by the smallest number that makes this true; the bound is then about the rescaled distance.
    """
    name = fitted.distance.name
    if name == "crossentropy":
        raise MeasureError(
            "Proposition 1 compares representations with each other; cross-entropy compares them with logits."
        )
    rows = fitted.rows
    vectors = fitted.vectors
    a, b = np.triu_indices(len(vectors), 1)
    between = fitted.distance.per_item(vectors[a], vectors[b]) if len(a) else np.zeros(1)
    from_zero = fitted.distance.per_item(np.zeros_like(vectors), vectors)
    scale = max(float(between.max()), float(from_zero.max()), 1e-300) if rescale else 1.0
    items = len(rows)
    if items * (items - 1) // 2 <= draws:
        left, right = np.triu_indices(items, 1)
    else:
        rng = np.random.default_rng(seed)
        left = rng.integers(items, size=draws)
        right = (left + rng.integers(1, items, size=draws)) % items
    apart = np.concatenate(
        [
            fitted.distance.per_item(rows[left[k : k + 50_000]], rows[right[k : k + 50_000]])
            for k in range(0, len(left), 50_000)
        ]
    )
    epsilon = float(fitted.per_item.max())
    excess = (apart - 2.0 * epsilon) / scale - tree_edit_distances(fitted.derivations, left, right)
    return Proposition1(
        epsilon=epsilon / scale,
        primitives_within_one=bool(between.max() <= scale * (1 + 1e-9)),
        primitives_near_identity=bool(from_zero.max() <= scale * (1 + 1e-9)),
        subadditive=fitted.compose.name == "add" and name in ("l1", "l2"),
        metric=name in ("l1", "l2"),
        scale=scale,
        pairs=len(left),
        violations=int((excess > 1e-9).sum()),
        worst=float(excess.max()),
    )
