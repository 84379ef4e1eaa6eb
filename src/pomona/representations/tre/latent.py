"""TRE without oracle derivations: the open question that the paper's conclusion names.

Given only the sequence of primitives of each item, equation 2 is minimised over bracketings as well. We alternate: at
fixed lexicon and parameters every item takes the bracketing that reconstructs it best; at fixed trees the model is
refitted from where it stands. Both steps lower the score, so the loop ends. It starts from left-branching,
right-branching and random trees, each of which is also a baseline, and from the trees that a model of the items with
one bracketing only would choose for the others: short sequences teach what long ones need.

What can be known is limited, and the result says so:

* Addition cannot see brackets: all of them tie, and no trees are returned as found.
* The best of k bracketings beats a fixed one even on noise. `chance` is the same search on shuffled representations.
* Where several bracketings of an item tie, `ties` counts them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base.errors import MeasureError, SpecError
from pomona.representations.tre.checks import as_rows
from pomona.representations.tre.compositions import Add, Composition, compose, composition_of
from pomona.representations.tre.derivations import Derivations
from pomona.representations.tre.design import FloatArray
from pomona.representations.tre.distances import Distance, distance_of
from pomona.representations.tre.fit import TreFit, fit
from pomona.representations.tre.learned import Point, _Problem

EXHAUSTIVE = 7  # sequences up to this long try all bracketings (132); longer ones climb by rotations
Brackets = Any  # nested pairs of positions: ((0, 1), 2)


@dataclass(frozen=True, eq=False)
class LatentFit:
    """The best trees found and the fit on them, beside fits on trees that were not searched."""

    fit: TreFit
    trees: tuple[Any, ...] = field(repr=False)  # nested tuples of primitives, one for each item
    score: float
    left: float  # the score with left-branching trees
    right: float
    random: tuple[float, ...]  # with random trees, one for each draw
    chance: tuple[float, ...]  # the search on shuffled representations
    ties: npt.NDArray[np.int64] = field(repr=False)  # how many bracketings of each item do as well as its tree
    identifiable: bool
    statement: str


def latent_tre(
    representations: npt.ArrayLike,
    sequences: Sequence[Sequence[Hashable]],
    compose: Any = "linear",
    distance: Any = "sql2",
    seed: int = 0,
    *,
    random_trees: int = 3,
    shuffles: int = 1,
    rounds: int = 12,
    restarts: int = 3,
) -> LatentFit:
    """Fit lexicon, composition and bracketings together.

    Args:
        representations: one row for each sequence.
        sequences: the primitives of each item, in order.
        random_trees: how many draws of random trees serve as starts and baselines.
        shuffles: how many times the search is repeated on shuffled representations, for `chance`.
    """
    words = [tuple(sequence) if not isinstance(sequence, str) else tuple(sequence.split()) for sequence in sequences]
    for row, sequence in enumerate(words):
        if not sequence:
            raise MeasureError(f"row {row}: an empty sequence has no derivation.")
    targets, shape = as_rows(representations, len(words))
    targets = np.asarray(targets, np.float64)
    composition, measured = composition_of(compose), distance_of(distance, shape)
    measured.check(targets, shape)
    if random_trees < 1:
        raise SpecError(f"random_trees must be 1 or more, got {random_trees}.")
    search = _Search(words, composition, measured, shape, seed, rounds, restarts)
    flat = [_branching(len(sequence), left=True) for sequence in words]
    if isinstance(composition, Add) or max(len(sequence) for sequence in words) < 3:
        return _unidentifiable(search, targets, flat, isinstance(composition, Add))
    rng = np.random.default_rng(seed)
    starts = {"left": flat, "right": [_branching(len(sequence), left=False) for sequence in words]}
    for draw in range(random_trees):
        starts[f"random {draw}"] = [_random(len(sequence), rng) for sequence in words]
    baselines: dict[str, float] = {}
    found: list[Any] = []
    for name, brackets in starts.items():
        baselines[name], *end = search.run(targets, brackets)
        found.append(tuple(end))
    found.append(search.run(targets, search.from_short(targets, flat))[1:])
    _, brackets, point = min(found, key=lambda one: one[0])
    chance = []
    for _ in range(shuffles):
        moved = targets[_permuted_within_lengths(words, rng)]
        ends = [search.run(moved, starts[name])[1] for name in ("left", "right")]
        chance.append(min(*ends, search.run(moved, search.from_short(moved, flat))[1]))
    ties = search.ties(targets, point)
    trees = tuple(_fill(bracket, sequence) for bracket, sequence in zip(brackets, words, strict=True))
    final = search.finish(targets, trees, point)
    open_items = np.array([len(sequence) > 2 for sequence in words])
    share = float((ties[open_items] > 1).mean())
    return LatentFit(
        fit=final,
        trees=trees,
        score=final.score,
        left=baselines["left"],
        right=baselines["right"],
        random=tuple(value for name, value in baselines.items() if name.startswith("random")),
        chance=tuple(chance),
        ties=ties,
        identifiable=share < 0.5,
        statement=(
            f"Trees were chosen for {int(open_items.sum())} of {len(words)} items (the others have one bracketing); "
            f"{share:.0%} of these have another bracketing that does as well. The search is not exhaustive over all "
            f"items jointly: the score is the best found. Judge it against chance, not against a fixed tree."
        ),
    )


@dataclass(eq=False)
class _Search:
    words: list[tuple[Hashable, ...]]
    composition: Composition
    distance: Distance
    shape: tuple[int, ...]
    seed: int
    rounds: int
    restarts: int

    def derivations(self, brackets: list[Brackets]) -> Derivations:
        return Derivations.from_trees(_fill(bracket, word) for bracket, word in zip(brackets, self.words, strict=True))

    def run(self, targets: FloatArray, brackets: list[Brackets]) -> tuple[float, float, list[Brackets], Point]:
        """From these trees: the score with them as they are, then the end of the alternation."""
        given = self.derivations(brackets)
        begun = fit(
            targets, given, self.composition, self.distance, self.shape,
            seed=self.seed, restarts=self.restarts, bounded=False, limit=100,
        )  # fmt: skip
        baseline = begun.score
        point: Point = (begun.vectors, begun.parameters)
        score = baseline
        for _ in range(self.rounds):
            chosen, _ = self.choose(targets, brackets, point)
            if chosen == brackets:
                break
            problem = _Problem(self.composition, self.derivations(chosen), targets, self.distance)
            moved, _ = problem.descend(point, 1e-3 if self.distance.name in ("l1", "l2") else 0.0, 200)
            point = min(point, moved, key=problem.score)
            before, score, brackets = score, problem.score(point), chosen
            if before - score < 1e-10 * max(before, 1e-300):
                break
        return baseline, score, brackets, point

    def from_short(self, targets: FloatArray, brackets: list[Brackets]) -> list[Brackets]:
        """Learn from the shortest items, bracket the next longer ones with that, learn again, and so on."""
        length = np.array([len(word) for word in self.words])
        for longest in range(2, int(length.max())):
            known = length <= longest
            if not known.any():
                continue
            given = self.derivations(brackets).take(known)
            begun = fit(
                targets[known], given, self.composition, self.distance, self.shape,
                seed=self.seed, restarts=self.restarts, bounded=False, limit=100,
            )  # fmt: skip
            brackets, _ = self.choose(targets, brackets, (begun.vectors, begun.parameters))
        return brackets

    def choose(
        self, targets: FloatArray, brackets: list[Brackets], point: Point
    ) -> tuple[list[Brackets], list[FloatArray]]:
        """For each item the bracketing nearest to its representation; the present one wins ties."""
        options = [_options(bracket, len(word)) for bracket, word in zip(brackets, self.words, strict=True)]
        owner = np.repeat(np.arange(len(options)), [len(option) for option in options])
        trees = (_fill(option, word) for choices, word in zip(options, self.words, strict=True) for option in choices)
        given = Derivations.from_trees(trees)
        predictions = compose(self.composition, given, point[1], point[0])[given.root]
        distances = self.distance.per_item(predictions, targets[owner])
        each = np.split(distances, np.cumsum([len(option) for option in options])[:-1])
        chosen = []
        for bracket, option, values in zip(brackets, options, each, strict=True):
            here = values[option.index(bracket)]
            best = int(np.argmin(values))
            chosen.append(option[best] if values[best] < here - 1e-12 * max(1.0, abs(here)) else bracket)
        return chosen, each

    def ties(self, targets: FloatArray, point: Point) -> npt.NDArray[np.int64]:
        flat = [_branching(len(word), left=True) for word in self.words]
        _, each = self.choose(targets, flat, point)
        return np.array(
            [(values <= values.min() + 1e-9 * max(1.0, abs(values.min()))).sum() for values in each], np.int64
        )

    def finish(self, targets: FloatArray, trees: tuple[Any, ...], point: Point) -> TreFit:
        """A TreFit on the chosen trees: a fresh one, or the alternation's own point where that is better."""
        from dataclasses import replace

        given = Derivations.from_trees(trees)
        fresh = fit(
            targets,
            given,
            self.composition,
            self.distance,
            self.shape,
            seed=self.seed,
            restarts=self.restarts,
        )
        per_item = _Problem(self.composition, given, targets, self.distance).per_item(point)
        if float(per_item.mean()) >= fresh.score:
            return fresh
        score = float(per_item.mean())
        certificate = replace(
            fresh.certificate,
            status="best found",
            gap=max(score - fresh.certificate.lower_bound, 0.0),
            gradient_norm=None,
        )
        return replace(
            fresh, score=score, per_item=per_item, vectors=point[0], parameters=point[1], certificate=certificate
        )


def _unidentifiable(search: _Search, targets: FloatArray, flat: list[Brackets], additive: bool) -> LatentFit:
    given = search.derivations(flat)
    only = fit(targets, given, search.composition, search.distance, search.shape, seed=search.seed)
    counts = np.array([len(_all_brackets(min(len(word), EXHAUSTIVE))) for word in search.words], np.int64)
    reason = (
        "Addition gives every bracketing of a sequence the same vector, so trees are not identifiable; the "
        "left-branching ones returned stand for all. The lexicon is identified as in any additive fit."
        if additive
        else "No sequence is longer than two, so each has one bracketing and there is nothing to search."
    )
    trees = tuple(_fill(bracket, word) for bracket, word in zip(flat, search.words, strict=True))
    ties = counts if additive else np.ones(len(counts), np.int64)
    return LatentFit(only, trees, only.score, only.score, only.score, (only.score,), (), ties, not additive, reason)


def _branching(length: int, left: bool) -> Brackets:
    tree: Brackets = 0 if left else length - 1
    for position in range(1, length):
        tree = (tree, position) if left else (length - 1 - position, tree)
    return tree


def _random(length: int, rng: np.random.Generator) -> Brackets:
    """Join random neighbours until one tree is left."""
    parts: list[Brackets] = list(range(length))
    while len(parts) > 1:
        at = int(rng.integers(len(parts) - 1))
        parts[at : at + 2] = [(parts[at], parts[at + 1])]
    return parts[0]


@cache
def _all_brackets(length: int) -> tuple[Brackets, ...]:
    """Every binary bracketing of positions 0 to length - 1."""
    table: dict[tuple[int, int], list[Brackets]] = {(i, i + 1): [i] for i in range(length)}
    for width in range(2, length + 1):
        for i in range(length - width + 1):
            table[i, i + width] = [
                (a, b) for cut in range(i + 1, i + width) for a in table[i, cut] for b in table[cut, i + width]
            ]
    return tuple(table[0, length])


def _options(bracket: Brackets, length: int) -> list[Brackets]:
    if length <= EXHAUSTIVE:
        return list(_all_brackets(length))
    near = [bracket, *_rotations(bracket)]
    for left in (True, False):
        near.append(_branching(length, left))
    return list(dict.fromkeys(near))


def _rotations(bracket: Brackets) -> list[Brackets]:
    """Every tree that one rotation away turns this one into: ((a, b), c) <-> (a, (b, c)) at some node."""
    found: list[Brackets] = []
    stack: list[tuple[Brackets, tuple[tuple[Brackets, bool], ...]]] = [(bracket, ())]
    while stack:
        node, path = stack.pop()
        if not isinstance(node, tuple):
            continue
        left, right = node
        turned = []
        if isinstance(left, tuple):
            turned.append((left[0], (left[1], right)))
        if isinstance(right, tuple):
            turned.append(((left, right[0]), right[1]))
        for made in turned:
            for sibling, on_left in reversed(path):
                made = (made, sibling) if on_left else (sibling, made)
            found.append(made)
        stack.append((left, (*path, (right, True))))
        stack.append((right, (*path, (left, False))))
    return found


def _fill(bracket: Brackets, sequence: tuple[Hashable, ...]) -> Any:
    """Positions replaced by primitives, without recursion."""
    done: list[Any] = []
    stack: list[tuple[Brackets, bool]] = [(bracket, False)]
    while stack:
        node, ready = stack.pop()
        if not isinstance(node, tuple):
            done.append(sequence[node])
        elif ready:
            right, left = done.pop(), done.pop()
            done.append((left, right))
        else:
            stack += [(node, True), (node[1], False), (node[0], False)]
    return done[0]


def _permuted_within_lengths(words: list[tuple[Hashable, ...]], rng: np.random.Generator) -> npt.NDArray[np.int64]:
    order = np.arange(len(words))
    length = np.array([len(word) for word in words])
    for one in np.unique(length):
        rows = np.flatnonzero(length == one)
        order[rows] = rows[rng.permutation(len(rows))]
    return order
