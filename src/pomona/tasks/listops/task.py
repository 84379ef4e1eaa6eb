"""ListOps (Nangia and Bowman 2018): nested lists of digits under MIN, MAX, MED and SM, answered by one digit.

    [MAX 2 9 [MIN 4 7 ] 0 ]   ->   9

An argument is a list with probability `branching`, else a digit 0-9. A list has 2 to `arguments` arguments and any of
the `operators`. It may open while fewer than `depth` - 1 lists are open. This is the recursion of the paper's script,
which calls the branching probability VALUE_P. Distinct expressions are collected until there are enough. Short ones run
out first, so the number of rows is part of the distribution: the paper's 90k + 10k are 100,000 distinct expressions.

Further presets follow Long Range Arena, Havrylov et al. 2019, Csordás et al. 2022 and Ray Chowdhury and Caragea 2023.
Each has a dev split. A preset whose test differs in distribution from train also has `iid`, the test set of `d20s`; so
one trained model serves them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pomona.base.arrays import Ints
from pomona.base.errors import SpecError
from pomona.data.corpus import Corpus, Outcome, codes
from pomona.data.pool import Scan
from pomona.data.remembered import Remembered, Rows
from pomona.data.task import TASKS, Task
from pomona.tasks.listops.draws import ENDLESS, Grammar, draw, draw_again
from pomona.tasks.listops.growth import grow
from pomona.trees.forest import Forest
from pomona.trees.operators import OPERATORS, denote, operators_named
from pomona.trees.rules import INTERPRETED, MIN, MOST_COUNTED, SM, ways

Window = tuple[int, int | None]  # from .. to, both included; None for no end
DIGITS = tuple(str(digit) for digit in range(10))
MOST_KEPT = 1 << 25  # tokens of a scan


def _shifted(**splits: Mapping[str, Any]) -> tuple[tuple[str, str, Any], ...]:
    return tuple((split, setting, value) for split, changes in splits.items() for setting, value in changes.items())


def _longer(low: int) -> dict[str, Any]:
    """Train on d20s, test on one bin of lengths (Havrylov et al. 2019)."""
    return {"test": 2_000, "iid": 10_000, "shift": _shifted(test={"length": (low, low + 100)})}


def _wider(arguments: int) -> dict[str, Any]:
    """Train on d20s, test on lists of up to `arguments` arguments (Ray Chowdhury and Caragea 2023)."""
    test = {"arguments": arguments, "depth": 9, "length": (100, 1000)}
    return {"test": 2_000, "iid": 10_000, "shift": _shifted(test=test)}


LARGEST = 1_000_000  # depth and number of arguments


PRESETS: dict[str, dict[str, Any]] = {
    "d20s": {},
    **{f"d20s-{train // 1000}k": {"train": train, "pool": 110_000} for train in (240_000, 540_000, 990_000)},
    "lra": {"depth": 10, "arguments": 10, "length": (501, 1999), "train": 96_000, "dev": 2_000, "test": 2_000},
    **{f"length-{low}-{low + 100}": _longer(low) for low in range(200, 1000, 100)},
    **{f"arguments-{arguments}": _wider(arguments) for arguments in (5, 10, 15)},
    "depth-generalisation": {
        "depth": 6, "length": (20, 100), "train": 100_000, "dev": 2_000, "test": 2_000, "iid": 2_000,
        "shift": _shifted(
            dev={"branching": 0.3, "depth": 10, "nesting": (7, 7), "length": (20, 500)},
            test={"branching": 0.3, "depth": 20, "nesting": (8, None), "length": (20, 100)},
        ),
    },
    "depth-generalisation-50": {
        "branching": 0.3, "nesting": (1, 5), "length": (50, 50), "train": 1_000_000, "dev": 2_000, "test": 2_000,
        "iid": 2_000, "shift": _shifted(dev={"nesting": (6, 6)}, test={"nesting": (7, 8)}),
    },
    "depth-generalisation-100": {
        "branching": 0.3, "nesting": (1, 5), "length": (20, 100), "train": 1_000_000, "dev": 2_000, "test": 2_000,
        "iid": 2_000, "shift": _shifted(dev={"nesting": (6, 6)}, test={"nesting": (7, 8)}),
    },
    "dependency-balanced": {
        "branching": 0.3, "length": (4, 50), "dependency": (1, 6), "balanced": True,
        "train": 100_000, "dev": 2_000, "test": 2_000, "iid": 2_000,
        "shift": _shifted(dev={"dependency": (7, 7)}, test={"dependency": (8, 9)}),
    },
}  # fmt: skip


@TASKS.add("listops", presets=PRESETS)
@dataclass(frozen=True)
class ListOps(Task):
    """Nested lists of digits, answered by one digit (Nangia and Bowman 2018)."""

    train: int = 90_000
    dev: int = 10_000
    test: int = 10_000
    branching: float = 0.25  # chance that an argument is a list and not a digit
    depth: int = 20  # how deep lists may be nested
    arguments: int = 5  # most arguments of a list; the fewest are 2
    operators: tuple[str, ...] = ("MIN", "MAX", "MED", "SM")  # of the lists
    length: Window = (1, None)  # tokens of an example, from .. to
    nesting: Window = (0, None)  # depth of its lists, from .. to
    dependency: Window = (0, None)  # how many operators its answer hangs on, one below the other, from .. to
    balanced: bool = False  # as many examples of each dependency depth

    def __post_init__(self) -> None:
        if not 0 < self.branching < 1:
            raise SpecError(f"branching = {self.branching}: the probability of a list lies between 0 and 1")
        if not 1 <= self.depth <= LARGEST or not 2 <= self.arguments <= LARGEST:
            raise SpecError(
                f"depth = {self.depth}, arguments = {self.arguments}: at least 1 and 2 are needed, and {LARGEST:,} are "
                "the most"
            )
        operators_named(self.operators)
        if not self.operators or len(set(self.operators)) < len(self.operators):
            raise SpecError(f"operators = {self.operators}: name at least one, each once")
        for name in ("length", "nesting", "dependency"):
            low, high = getattr(self, name)
            if low < 0 or (high is not None and high < low):
                raise SpecError(f"{name} = ({low}, {high}): a window runs from a lower number to a higher one or None")
        if self.balanced and self.dependency[1] is None:
            raise SpecError("balanced rows need a window of dependency depths with an end, for example (1, 6)")
        if self._depends_on_values and self._interpreted:
            raise SpecError("the window of dependency depths works with built-in operators only")
        if self.length[1] is None and self._nodes_on_average > 1e5:
            raise SpecError(
                f"branching = {self.branching} with {self.arguments} arguments and depth {self.depth} grows "
                "trees of more than 100,000 nodes on average; set a length window, for example length=(1, 1000)"
            )
        super().__post_init__()

    @property
    def _nodes_on_average(self) -> float:
        """How many nodes the trees have on average, or a number above 100,000."""
        nodes, level, mean = 0.0, 1.0, self.branching * (self.arguments + 2) / 2
        for _ in range(self.depth):
            nodes += level
            level *= mean
            if nodes > 1e5 or level < 1e-6:
                break
        return nodes

    @property
    def _depends_on_values(self) -> bool:
        """Whether the dependency depth decides if a draw is accepted."""
        return self.balanced or self.dependency != (0, None)

    @property
    def _interpreted(self) -> bool:
        """Whether an operator is defined by the user, so that compiled loops cannot evaluate it."""
        return any(OPERATORS[name].number == INTERPRETED for name in self.operators)

    @property
    def _no_digit(self) -> bool:
        """Whether a single digit would be rejected. Draws then begin with a list, which saves three draws in four."""
        return self.depth > 1 and (self.length[0] > 1 or self.nesting[0] > 0 or self.dependency[0] > 0)

    def disjoint_from(self, other: Task) -> bool:
        """Distributions with disjoint windows cannot share an expression."""
        return isinstance(other, ListOps) and any(
            _before(getattr(self, name), getattr(other, name)) or _before(getattr(other, name), getattr(self, name))
            for name in ("length", "nesting", "dependency")
        )

    @property
    def vocabulary(self) -> tuple[str, ...]:
        return (*DIGITS, *(f"[{name}" for name in self.operators), "]")

    def words(self) -> tuple[str, ...]:
        """The digits, the operators with their brackets, and the closing bracket."""
        return self.vocabulary

    def outcomes(self) -> tuple[Outcome, ...] | None:
        """The digits; None with operators defined by the user, which may give other values."""
        return None if self._interpreted else tuple(range(10))

    def bins(self) -> int:
        return (self.dependency[1] or 0) - self.dependency[0] + 1 if self.balanced else 0

    def _grammar(self) -> Grammar:
        """The settings as the compiled loops take them."""
        branching = np.uint64(min(2**32 - 1, round(self.branching * 2**32)))
        root = np.uint64(2**32) if self._no_digit else branching if self.depth > 1 else np.uint64(0)
        (short, long), (shallow, deep) = self.length, self.nesting
        length = short, ENDLESS if long is None else long
        nesting = shallow, ENDLESS if deep is None else deep
        operators = len(self.operators)
        return Grammar(root, branching, self.depth, self.arguments, operators, length, nesting, codes(self.vocabulary))

    def scan(self, key: np.uint64, first: int, count: int) -> Scan:
        numbers, keys, rows = draw(key, np.arange(first, first + count), self._grammar(), most=MOST_KEPT)
        if self._depends_on_values:
            low, high = self.dependency
            rests = self._of_rows(draw_again(key, numbers, self._grammar()) if rows is None else rows).dependency
            fits = (rests >= low) & (rests <= (ENDLESS if high is None else high))
            numbers, keys, rows = numbers[fits], keys[fits], None if rows is None else rows.chosen(np.flatnonzero(fits))
            bins = (rests[fits] - low).astype(np.int64) if self.balanced else None
        else:
            bins = None
        builds = type(self).build is ListOps.build
        return Scan(numbers, keys, bins, rows=rows if builds else None)

    def build(self, key: np.uint64, numbers: Ints) -> Corpus:
        return self._of_rows(draw_again(key, np.asarray(numbers, np.int64), self._grammar()))

    def assemble(self, trees: Remembered) -> Corpus:
        return self._of_rows(trees) if isinstance(trees, Rows) else super().assemble(trees)

    def _of_rows(self, rows: Rows) -> Corpus:
        rules = [operator.number for operator in operators_named(self.operators)]
        counted = self.arguments <= MOST_COUNTED and all(MIN <= rule <= SM for rule in rules)
        start = np.zeros(len(rows.nodes) + 1, np.int64)
        np.cumsum(rows.nodes, out=start[1:])
        nodes = int(start[-1])
        symbol, values = np.empty(nodes, np.int16), np.empty(nodes + 1, np.int16)
        parent = np.empty(nodes + 1, np.int32)
        choices = ways(rules if counted else [])
        grow(rows.tokens, rows.start, start, len(self.operators), choices, symbol, parent, values)
        forest = Forest(symbol, parent[1:], start, (*DIGITS, *self.operators))
        known = values[1:] if counted else denote(forest)
        outcomes = tuple(range(max(10, int(known.max(initial=0)) + 1)))
        return Corpus(rows.tokens, rows.start, self.vocabulary, forest, known, outcomes, known[forest.root][:, None])


def _before(window: Window, later: Window) -> bool:
    return window[1] is not None and window[1] < later[0]
