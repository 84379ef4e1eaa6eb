"""TRE without given derivations: the open question named in the paper's conclusion.

Only the sequence of primitives of each item is known, so equation 2 is minimised over bracketings as well. The search
alternates. With lexicon and parameters fixed, every item takes the bracketing that reconstructs it best; with the
trees fixed, the model is fitted further. Both steps lower the score, so the search ends. It starts from left-branching,
right-branching and random trees, each of which is also a baseline. One more start learns from the shortest sequences
first, which have few bracketings or one, and brackets longer ones with what it has learned.

The result says what cannot be known:

* Addition ignores brackets: all bracketings tie, and no trees are found.
* The best of k bracketings beats a fixed one even on noise. `chance` is the same search on shuffled representations.
* Where several bracketings of an item tie, `ties` counts them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base.errors import MeasureError, SpecError
from pomona.representations.tre.bracketings import (
    EXHAUSTIVE,
    Bracketing,
    all_bracketings,
    alternatives,
    branching,
    fill,
    random_bracketing,
)
from pomona.representations.tre.checks import as_rows
from pomona.representations.tre.compositions import Add, composition_of
from pomona.representations.tre.derivations import Derivations
from pomona.representations.tre.design import FloatArray
from pomona.representations.tre.distances import Distance, distance_of
from pomona.representations.tre.fit import TreFit, fit_layers
from pomona.representations.tre.learned import JointProblem, Point
from pomona.representations.tre.problem import Layer, Problem
from pomona.representations.tre.recursion import Composition, compose_subtrees
from pomona.representations.tre.solver import Solution, solve

START_LIMIT = 100  # iterations of each start's first fit; the search refines it further


@dataclass(frozen=True, eq=False)
class LatentFit:
    """The best trees found and the fit on them, with the scores of trees that were not searched for."""

    fit: TreFit
    trees: tuple[Any, ...] = field(repr=False)  # nested tuples of primitives, one for each item
    score: float
    left: float  # the score with left-branching trees
    right: float
    random: tuple[float, ...]  # with random trees, one for each draw
    chance: tuple[float, ...]  # the score of the same search on shuffled representations
    ties: npt.NDArray[np.int64] = field(repr=False)  # how many bracketings of each item do as well as its tree
    identifiable: bool
    statement: str


@dataclass(frozen=True)
class LatentSettings:
    """Limits of the search over bracketings."""

    random_trees: int = 3  # how many draws of random trees serve as starts and baselines
    shuffles: int = 1  # how often the search is repeated on shuffled representations
    rounds: int = 12  # at most this many alternations from each start
    restarts: int = 3  # starts of each fit on fixed trees

    def __post_init__(self) -> None:
        if self.random_trees < 1:
            raise SpecError(f"random_trees must be 1 or more, got {self.random_trees}.")


def latent_tre(
    representations: npt.ArrayLike,
    sequences: Sequence[Sequence[Hashable]],
    compose: Any = "linear",
    distance: Any = "sql2",
    seed: int = 0,
    **settings: int,
) -> LatentFit:
    """Fit lexicon, composition and bracketings together.

    Args:
        representations: one row for each sequence.
        sequences: the primitives of each item, in order.
        compose, distance, seed: as for `tre`.
        random_trees: how many draws of random trees serve as starts and baselines (3).
        shuffles: how many times the search is repeated on shuffled representations, for `chance` (1).
        rounds: at most this many alternations from each start (12).
        restarts: starts of each fit on fixed trees (3).
    """
    words = [tuple(sequence) if not isinstance(sequence, str) else tuple(sequence.split()) for sequence in sequences]
    for row, sequence in enumerate(words):
        if not sequence:
            raise MeasureError(f"row {row}: an empty sequence has no derivation.")
    targets, shape, _ = as_rows(representations, len(words))
    targets = np.asarray(targets, np.float64)
    composition, measured = composition_of(compose), distance_of(distance, shape)
    measured.check(targets, shape)
    search = Search(words, composition, measured, shape, seed, LatentSettings(**settings))
    if isinstance(composition, Add) or max(len(sequence) for sequence in words) < 3:
        return _nothing_to_search(search, targets)
    return _searched(search, targets)


def _searched(search: Search, targets: FloatArray) -> LatentFit:
    """Search from every start, and on shuffled representations for comparison."""
    words, settings = search.words, search.settings
    rng = np.random.default_rng(search.seed)
    flat = search.branching(left=True)
    starts = {"left": flat, "right": search.branching(left=False)}
    for draw in range(settings.random_trees):
        starts[f"random {draw}"] = [random_bracketing(len(sequence), rng) for sequence in words]
    ends = {name: search.run(targets, brackets) for name, brackets in starts.items()}
    ends["short first"] = search.run(targets, search.from_short(targets, flat))
    best = min(ends.values(), key=lambda end: end.score)
    chance = []
    for _ in range(settings.shuffles):
        moved = targets[_permuted_within_lengths(words, rng)]
        scores = [search.run(moved, starts[name]).score for name in ("left", "right")]
        chance.append(min(*scores, search.run(moved, search.from_short(moved, flat)).score))
    ties = search.ties(targets, best.point)
    trees = tuple(fill(bracket, sequence) for bracket, sequence in zip(best.brackets, words, strict=True))
    fit = search.finish(targets, trees, best.point)
    choices = np.array([len(sequence) > 2 for sequence in words])
    share = float((ties[choices] > 1).mean())
    return LatentFit(
        fit=fit,
        trees=trees,
        score=fit.score,
        left=ends["left"].baseline,
        right=ends["right"].baseline,
        random=tuple(end.baseline for name, end in ends.items() if name.startswith("random")),
        chance=tuple(chance),
        ties=ties,
        identifiable=share < 0.5,
        statement=(
            f"Trees were chosen for {int(choices.sum())} of {len(words)} items (the others have one bracketing); "
            f"{share:.0%} of these have another bracketing that does as well. The search is not exhaustive over all "
            f"items jointly: the score is the best found. Judge it against chance, not against a fixed tree."
        ),
    )


@dataclass(frozen=True, eq=False)
class End:
    """Where a search from given trees arrived."""

    baseline: float  # the score with the trees that it started from
    score: float
    brackets: list[Bracketing]
    point: Point


@dataclass(frozen=True, eq=False)
class Search:
    """The alternation between trees and model, for one set of sequences."""

    words: list[tuple[Hashable, ...]]
    composition: Composition
    distance: Distance
    shape: tuple[int, ...]
    seed: int
    settings: LatentSettings

    def branching(self, left: bool) -> list[Bracketing]:
        return [branching(len(word), left=left) for word in self.words]

    def derivations(self, brackets: list[Bracketing]) -> Derivations:
        return Derivations.from_trees(fill(bracket, word) for bracket, word in zip(brackets, self.words, strict=True))

    def problem(self, derivations: Derivations, restarts: int | None) -> Problem:
        return Problem(derivations, self.composition, restarts)

    def layer(self, targets: FloatArray) -> Layer:
        return Layer(targets, self.shape, self.distance)

    def solve(self, targets: FloatArray, derivations: Derivations) -> Solution:
        """A first, short fit on fixed trees."""
        problem = self.problem(derivations, self.settings.restarts)
        return solve([self.layer(targets)], problem, seed=self.seed, limit=START_LIMIT)[0]

    def run(self, targets: FloatArray, brackets: list[Bracketing]) -> End:
        """Fit on these trees, then alternate until nothing changes."""
        first = self.solve(targets, self.derivations(brackets))
        point: Point = (first.vectors, first.parameters)
        score = first.score
        for _ in range(self.settings.rounds):
            chosen, _ = self.choose(targets, brackets, point)
            if chosen == brackets:
                break
            joint = JointProblem(self.composition, self.derivations(chosen), targets, self.distance)
            moved, _ = joint.descend(point, 1e-3 if self.distance.name in ("l1", "l2") else 0.0, 200)
            point = min(point, moved, key=joint.score)
            before, score, brackets = score, joint.score(point), chosen
            if before - score < 1e-10 * max(before, 1e-300):
                break
        return End(first.score, score, brackets, point)

    def from_short(self, targets: FloatArray, brackets: list[Bracketing]) -> list[Bracketing]:
        """Learn from the shortest items, bracket the next longer ones with that, learn again, and so on."""
        length = np.array([len(word) for word in self.words])
        for longest in range(2, int(length.max())):
            known = length <= longest
            if not known.any():
                continue
            short = self.solve(targets[known], self.derivations(brackets).take(known))
            brackets, _ = self.choose(targets, brackets, (short.vectors, short.parameters))
        return brackets

    def choose(
        self, targets: FloatArray, brackets: list[Bracketing], point: Point
    ) -> tuple[list[Bracketing], list[FloatArray]]:
        """For each item the bracketing nearest to its representation, and the distances of all that were tried.

        The present bracketing wins ties.
        """
        options = [alternatives(bracket, len(word)) for bracket, word in zip(brackets, self.words, strict=True)]
        owner = np.repeat(np.arange(len(options)), [len(option) for option in options])
        trees = (fill(option, word) for choices, word in zip(options, self.words, strict=True) for option in choices)
        tried = Derivations.from_trees(trees)
        predictions = compose_subtrees(self.composition, tried, point[1], point[0])[tried.root]
        distances = self.distance.per_item(predictions, targets[owner])
        each = np.split(distances, np.cumsum([len(option) for option in options])[:-1])
        chosen = []
        for bracket, option, values in zip(brackets, options, each, strict=True):
            here = values[option.index(bracket)]
            best = int(np.argmin(values))
            chosen.append(option[best] if values[best] < here - 1e-12 * max(1.0, abs(here)) else bracket)
        return chosen, each

    def ties(self, targets: FloatArray, point: Point) -> npt.NDArray[np.int64]:
        """How many bracketings of each item are as near as the nearest."""
        _, each = self.choose(targets, self.branching(left=True), point)
        return np.array(
            [(values <= values.min() + 1e-9 * max(1.0, abs(values.min()))).sum() for values in each], np.int64
        )

    def finish(self, targets: FloatArray, trees: tuple[Any, ...], point: Point) -> TreFit:
        """A fit on the chosen trees: a new one, or the model that the search ended with where that is better."""
        derivations = Derivations.from_trees(trees)
        problem = self.problem(derivations, self.settings.restarts)
        (fit,) = fit_layers([self.layer(targets)], problem, seed=self.seed)
        per_item = JointProblem(self.composition, derivations, targets, self.distance).per_item(point)
        score = float(per_item.mean())
        if score >= fit.score:
            return fit
        gap = max(score - fit.bound.lower_bound, 0.0)
        bound = replace(fit.bound, status="best found", gap=gap, gradient_norm=None)
        return replace(fit, score=score, per_item=per_item, vectors=point[0], parameters=point[1], bound=bound)


def _nothing_to_search(search: Search, targets: FloatArray) -> LatentFit:
    """Under addition all bracketings tie; sequences of one or two primitives have one bracketing."""
    flat = search.branching(left=True)
    (fit,) = fit_layers([search.layer(targets)], search.problem(search.derivations(flat), None), seed=search.seed)
    additive = isinstance(search.composition, Add)
    counts = np.array([len(all_bracketings(min(len(word), EXHAUSTIVE))) for word in search.words], np.int64)
    reason = (
        "Addition gives every bracketing of a sequence the same vector, so trees are not identifiable; the "
        "left-branching ones returned stand for all. The lexicon is identified as in any additive fit."
        if additive
        else "No sequence is longer than two, so each has one bracketing and there is nothing to search."
    )
    trees = tuple(fill(bracket, word) for bracket, word in zip(flat, search.words, strict=True))
    ties = counts if additive else np.ones(len(counts), np.int64)
    return LatentFit(fit, trees, fit.score, fit.score, fit.score, (fit.score,), (), ties, not additive, reason)


def _permuted_within_lengths(words: list[tuple[Hashable, ...]], rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """A random order that exchanges only items of equal length."""
    order = np.arange(len(words))
    length = np.array([len(word) for word in words])
    for same in np.unique(length):
        rows = np.flatnonzero(length == same)
        order[rows] = rows[rng.permutation(len(rows))]
    return order
