"""ORCHARD (Pung and Chan 2021): two trees, the second of which quotes nodes of the first. The answer has two values.

    [MAX 2 6 0 1 ] X [COPY 1 ]   ->   6, 2

A tree is an operator with two children. Each child is an operator with probability `branching`, else a terminal of one
or two integers 0-9. In the second tree a terminal is, with probability `copying`, a COPY n instead: the value of node n
of the first tree in level order, counted from 0, operators and integers alike. The difficulties easy, medium and hard
are copying = 0, 0.5 and 1; the variants are FIRST-LAST and MIN-MAX.

A COPY is one leaf named COPY whose `link` leads back to the quoted node. Its argument, the position of that node, is a
token but not a node. With more than two `trees`, each may quote earlier ones (`references`), and positions count
through all earlier trees.

Splits: train, dev and test hold trees of the `depths` 3 to 6 in equal shares; in test-3 .. test-12 both trees have
exactly that depth. Each split is sampled independently. The paper's text and its code differ in four places:

    shape      code: an operator on the last level has one child; binary: two, as everywhere
    pairing    how the depths of the two trees go together in train, dev and test. code: trees are drawn until both
               fit into the bins of their depths, so the depths are dependent; uniform: all pairs; equal: d1 = d2
    copies     word: COPY's argument is one token, so training lacks large ones; digits: one token a digit
    target     two: a tuple of answers; pair: one outcome "6,2" of 100, as in the code

The splits test-3 to test-5 also differ from train in shape: their trees have that many levels to grow in, those of
train have 6. The splits iid-3 .. iid-6 are grown like train. `cap` gives all trees the same number of levels, so that
only the depth differs. With `dependency` = full, an answer depends on as many operators as its tree is deep; with
balanced, on any number of them in equal shares (see `pomona.trees.growing`).
"""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Ints
from pomona.base.errors import SpecError
from pomona.base.randomness import stream_key
from pomona.data.corpus import Corpus, Outcome, codes
from pomona.data.pool import Scan
from pomona.data.task import TASKS, Task
from pomona.tasks.orchard.draws import build, build_natural, scan, scan_natural
from pomona.trees.forest import Forest
from pomona.trees.growing import DEPENDENCIES, SHAPES, VALUES, Grammar, fill_bins, height_distribution, heights
from pomona.trees.operators import OPERATORS, denote, operators_named
from pomona.trees.rules import INTERPRETED, PM, SM

Range = tuple[int, int]  # from .. to, both included
DIGITS = tuple(str(digit) for digit in range(10))
REFERENCES = ("earlier", "previous", "first")
LARGEST = 60_000  # numbers that a vocabulary of 16-bit tokens has room for

_DIFFICULTIES = {"easy": 0.0, "medium": 0.5, "hard": 1.0}
_VARIANTS = {"first-last": ("FIRST", "LAST"), "min-max": ("MIN", "MAX")}
_README: dict[str, Any] = {"train": 50_000, "dev": 5_000, "test": 5_000, "iid": 5_000}
_KINDS: dict[str, dict[str, Any]] = {
    "": {},
    "/readme": _README,
    "/fair": {**_README, "copies": "digits", "cap": 13},
    "/full": {**_README, "copies": "digits", "dependency": "full"},
    "/balanced": {**_README, "copies": "digits", "dependency": "balanced", "cap": 13},
}

PRESETS: dict[str, dict[str, Any]] = {
    f"{difficulty}/{variant}{kind}": {"copying": copying, "operators": operators, **more}
    for kind, more in _KINDS.items()
    for difficulty, copying in _DIFFICULTIES.items()
    for variant, operators in _VARIANTS.items()
}


@TASKS.add("orchard", presets=PRESETS)
@dataclass(frozen=True)
class Orchard(Task):
    """Two trees of operators, the second quoting nodes of the first; both are answered (Pung and Chan 2021)."""

    train: int = 500_000
    dev: int = 50_000
    test: int = 50_000  # mixed depths, as train; and as many again of each depth of `tested`
    iid: int = 50_000  # of each depth of `depths`, grown like train
    operators: tuple[str, ...] = ("FIRST", "LAST")  # of the trees
    copying: float = 1.0  # chance that a terminal of a later tree is a COPY: 0 easy, 0.5 medium, 1 hard
    branching: float = 0.5  # chance that a child is an operator
    integers: int = 2  # most integers of a terminal
    depths: Range = (3, 6)  # of the trees in train, dev and test
    tested: Range = (3, 12)  # of the trees in test-3, test-4, ...
    trees: int = 2  # of an example; later ones may quote earlier ones
    references: Literal["earlier", "previous", "first"] = "earlier"  # which earlier trees a COPY may quote
    shape: Literal["code", "binary"] = "code"  # an operator on the last level has one child (code) or two
    pairing: Literal["code", "uniform", "equal"] = "code"  # how the depths of an example's trees go together
    copies: Literal["word", "digits"] = "word"  # a COPY's argument is one token (word) or one a digit
    target: Literal["two", "pair"] = "two"  # two answers, or one outcome such as 6,2
    cap: int | None = None  # levels that all trees may grow in; by default those of their depth
    dependency: Literal["natural", "full", "balanced"] = "natural"  # how many operators an answer depends on

    def __post_init__(self) -> None:
        operators = operators_named(self.operators)
        if not self.operators or len(set(self.operators)) < len(self.operators):
            raise SpecError(f"operators = {self.operators}: name at least one, each once")
        if not 0 < self.branching < 1 or not 0 <= self.copying <= 1:
            raise SpecError(
                f"branching = {self.branching}, copying = {self.copying}: the first lies between 0 and 1, the second "
                "from 0 to 1"
            )
        if not 1 <= self.integers <= 9 or not 1 <= self.trees <= 4:
            raise SpecError(f"integers = {self.integers}, trees = {self.trees}: 1 to 9 and 1 to 4 are possible")
        for name in ("depths", "tested"):
            low, high = getattr(self, name)
            if not 1 <= low <= high <= 40:
                raise SpecError(f"{name} = ({low}, {high}): depths run from a lower to a higher one, 1 to 40")
        deepest = max(self.depths[1], self.tested[1])
        if self.cap is not None and not deepest <= self.cap <= 60:
            raise SpecError(f"cap = {self.cap}: trees of depth {deepest} need as many levels, and 60 are the most")
        if self.pool:
            raise SpecError(f"pool = {self.pool}: the splits of orchard are sampled independently, without a pool")
        numbers = [operator.number for operator in operators]
        if self.dependency != "natural" and INTERPRETED in numbers:
            raise SpecError(f"dependency = {self.dependency!r} works with built-in operators only")
        for name in [operator.name for operator in operators if operator.number in (SM, PM)]:
            if self.dependency == "balanced":
                raise SpecError(f"dependency = 'balanced': {name} depends on all its arguments: nothing to balance")
        super().__post_init__()

    # -- splits and their distributions -----------------------------------------------------------------------------

    @property
    def every_split(self) -> dict[str, int]:
        return {
            "test": self.test,
            **{f"test-{depth}": self.test for depth in range(self.tested[0], self.tested[1] + 1)},
            **{f"iid-{depth}": self.iid for depth in range(self.depths[0], self.depths[1] + 1)},
            "dev": self.dev,
            "train": self.train,
        }

    def distribution(self, split: str) -> Task:
        """Each split is sampled independently, so its distribution keeps the number of its rows."""
        size, _, depth = split.partition("-")
        depths = (int(depth), int(depth)) if depth else self.depths
        cap = self.cap or (depths[1] if size == "test" and depth else self.depths[1])
        fixed = {"depths": depths, "tested": depths, "cap": cap, **dict.fromkeys(self.splits, 0)}
        fixed[size] = self.every_split[split]
        return dataclasses.replace(self, shift=(), **{**fixed, **self.shifted_settings(split)})

    def disjoint_from(self, other: Task) -> bool:
        """Distributions with disjoint depths cannot share an example."""
        return isinstance(other, Orchard) and (self.depths[0] > other.depths[1] or other.depths[0] > self.depths[1])

    @property
    def rows(self) -> int:
        """Of the distribution of a split: the rows of that split."""
        return self.train + self.dev + self.test + self.iid

    def bins(self) -> int:
        depths = self.depths[1] - self.depths[0] + 1
        if self.dependency != "balanced":
            return 0 if depths == 1 else depths if self.pairing == "equal" else int(depths**self.trees)
        each = range(self.depths[0], self.depths[1] + 1)
        return sum(depth**self.trees for depth in each) if self.pairing == "equal" else int(sum(each) ** self.trees)

    def room(self, key: np.uint64, count: int) -> npt.NDArray[np.int64] | None:
        return _classes(self, int(key))[1].copy() if self.bins() else None

    # -- draws -----------------------------------------------------------------------------------------------------

    @property
    def quoting(self) -> bool:
        return self.copying > 0 and self.trees > 1

    def vocabulary(self, numbers: int = 10) -> tuple[str, ...]:
        """All tokens, with the arguments of COPY below `numbers`."""
        words = (*DIGITS, *(f"[{name}" for name in self.operators), "X", "]")
        return (*words, "[COPY", *map(str, range(10, numbers))) if self.quoting else words

    def words(self) -> tuple[str, ...]:
        """Digits, operators, marks and, as arguments of COPY, every position that a tree of training can have.

        A position beyond every possible training tree is unknown to a model, as in the paper. A rare position is known,
        even if no training example has it.
        """
        train = self.distribution("train")
        assert isinstance(train, Orchard)
        return self.vocabulary(10 if self.copies == "digits" else min(LARGEST, train.positions))

    @property
    def positions(self) -> int:
        """Of the distribution of a split: the largest possible number of nodes that can be quoted."""
        depth = self.depths[1]
        arguments = 1 if self.shape == "code" and depth == self.cap else 2  # of the deepest operators
        operators, terminals = (1 << depth) - 1, arguments << (depth - 1)
        first = operators + terminals * self.integers
        later = first if self.copying < 1 else operators + terminals  # there, every terminal is one COPY
        return first + later * (self.trees - 2 if self.references != "first" else 0)

    def outcomes(self) -> tuple[Outcome, ...] | None:
        """The digits and, with one target for all trees, every row of digits; None with user-defined operators."""
        if self._interpreted:
            return None
        digits: tuple[Outcome, ...] = tuple(range(10))
        return answered(np.zeros((0, self.trees), np.int16), digits, self.target == "pair")[0]

    @property
    def _interpreted(self) -> bool:
        return any(OPERATORS[name].number == INTERPRETED for name in self.operators)

    def _grammar(self, worked_out: int) -> Grammar:
        assert self.cap is not None, "scan and build belong to the distribution of a split"
        unary = self.shape == "code"
        return Grammar(
            heights(self.cap, self.branching, unary),
            self.cap,
            unary,
            np.array([operator.number for operator in operators_named(self.operators)], np.int64),
            self.integers,
            np.uint64(round(self.copying * 2**32) if self.quoting else 0),
            worked_out if self.dependency == "natural" else DEPENDENCIES,
        )

    def scan(self, key: np.uint64, first: int, count: int) -> Scan:
        table, _, upto = _classes(self, int(key))
        scan_draws = scan_natural if self.dependency == "natural" else scan
        numbers = 256
        while True:
            arguments = (self._grammar(SHAPES), REFERENCES.index(self.references), self.copies == "digits")
            accepted, keys, bins, enough = scan_draws(
                key, first, count, table, upto, *arguments, codes(self.vocabulary(numbers))
            )
            if enough:
                return Scan(accepted, keys, bins if self.bins() else None)
            numbers *= 2
            if numbers > LARGEST:
                raise SpecError(f"trees of more than {LARGEST:,} nodes; set copies='digits', or grow smaller ones")

    def build(self, key: np.uint64, numbers: Ints) -> Corpus:
        numbers = np.asarray(numbers, np.int64)
        token_start = np.zeros(len(numbers) + 1, np.int64)
        start = np.zeros(len(numbers) * self.trees + 1, np.int64)
        # Sizes grow with the square of the depth. Unused memory costs nothing, a second attempt does.
        room = (32 + 3 * self.trees * self.depths[1] ** 2 // 2) * len(numbers) + 8192
        tokens, symbol, values = np.empty(room, np.uint16), np.empty(room, np.int16), np.empty(room, np.int16)
        parent, link = np.empty(room, np.int32), np.empty(room, np.int32)
        table, _, upto = _classes(self, int(key))
        arguments = (table, upto, self._grammar(VALUES), REFERENCES.index(self.references), self.copies == "digits")
        build_draws = build_natural if self.dependency == "natural" else build
        done = 0
        while True:
            done = build_draws(key, numbers, done, token_start, start, tokens, symbol, parent, link, values, *arguments)
            if done == len(numbers):
                break
            room *= 2
            tokens, symbol, values = np.resize(tokens, room), np.resize(symbol, room), np.resize(values, room)
            parent, link = np.resize(parent, room), np.resize(link, room)
        tokens, values, link = tokens[: token_start[-1]], values[: start[-1]], link[: start[-1]]
        names = (*DIGITS, *self.operators, *(("COPY",) if self.quoting else ()))
        forest = Forest(symbol[: start[-1]], parent[: start[-1]], start, names, link if self.quoting else None)
        if self._interpreted:
            values = denote(forest)
        plain = len(self.vocabulary())
        vocabulary = self.vocabulary(10 + max(0, int(tokens.max(initial=0)) + 1 - plain))
        digits: tuple[Outcome, ...] = tuple(range(max(10, int(values.max(initial=0)) + 1)))
        outcomes, targets = answered(values[forest.root].reshape(-1, self.trees), digits, self.target == "pair")
        return Corpus(tokens, token_start, vocabulary, forest, values, outcomes, targets, width=self.trees)


def answered(
    answers: npt.NDArray[np.int16], digits: tuple[Outcome, ...], paired: bool
) -> tuple[tuple[Outcome, ...], npt.NDArray[np.int16]]:
    """Outcomes and targets: the answers as they are or, `paired`, each row as one outcome such as "6,2"."""
    if not paired:
        return digits, answers
    rows = itertools.product(digits, repeat=answers.shape[1])
    row_number = np.zeros(len(answers), np.int64)
    for column in answers.T:
        row_number = row_number * len(digits) + column
    return (*digits, *(",".join(map(str, row)) for row in rows)), (len(digits) + row_number[:, None]).astype(np.int16)


@lru_cache(maxsize=64)
def _classes(split: Orchard, key: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """The kinds of example in a split (depths and dependency depths), their rows, and cumulative probabilities."""
    low, high = split.depths
    if low == high:
        depths, counts = np.full((1, split.trees), low), np.array([split.rows])
    elif split.pairing == "code":
        chance = height_distribution(split.cap or high, split.branching)[low : high + 1]
        seed = stream_key("orchard", "bins", key)
        bins = fill_bins(
            seed, split.rows, split.trees, np.cumsum(chance) / chance.sum(), split.rows // (high - low + 1) + 1
        )
        depths, counts = np.unique(low + bins, axis=0, return_counts=True)
    else:
        each = range(low, high + 1)
        kinds = (
            [(depth,) * split.trees for depth in each]
            if split.pairing == "equal"
            else itertools.product(each, repeat=split.trees)
        )
        depths = np.array(list(kinds), np.int64)
        counts = _shared(split.rows, len(depths))
    table, rows = [], []
    for kind, count in zip(depths.tolist(), counts.tolist(), strict=True):
        if split.dependency == "balanced":
            rests = list(itertools.product(*(range(1, depth + 1) for depth in kind)))
        else:
            rests = [tuple(kind) if split.dependency == "full" else (0,) * split.trees]
        table += [(*kind, *rest) for rest in rests]
        rows.append(_shared(count, len(rests)))
    filled = np.concatenate(rows)
    chance = filled / max(1, filled.sum())
    return np.array(table, np.int64), filled, np.cumsum(chance)


def _shared(rows: int, among: int) -> npt.NDArray[np.int64]:
    """Rows divided evenly; the remainder is spread at even distances."""
    return np.diff(np.arange(among + 1) * rows // among)
