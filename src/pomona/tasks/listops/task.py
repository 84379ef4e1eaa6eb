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
import numpy.typing as npt

from pomona.base.arrays import Bytes, Ints
from pomona.base.compiled import compiled
from pomona.base.errors import SpecError
from pomona.base.letters import Place
from pomona.base.randomness import below, mix, open_stream
from pomona.data.corpus import KEY_SEED, Corpus, Outcome, absorb, codes
from pomona.data.pool import Scan
from pomona.data.task import TASKS, Task
from pomona.trees.forest import Forest
from pomona.trees.operators import OPERATORS, denote, operators_named
from pomona.trees.rules import INTERPRETED, MIN, MOST_COUNTED, SM, close, settled

Window = tuple[int, int | None]  # from .. to, both included; None for no end
DIGITS = tuple(str(digit) for digit in range(10))
ENDLESS = 1 << 40
LOW = np.uint64(0xFFFFFFFF)  # the low half of a random word
_1, _32 = Place(1), np.uint64(32)


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

    def _grammar(self) -> tuple[Any, ...]:
        """The settings as the compiled loops take them."""
        windows = [
            bound for low, high in (self.length, self.nesting, self.dependency)
            for bound in (low, ENDLESS if high is None else high)
        ]  # fmt: skip
        return (
            np.uint64(min(2**32 - 1, round(self.branching * 2**32))),
            self.depth,
            self.arguments,
            np.array([operator.number for operator in operators_named(self.operators)], np.int64),
            self._no_digit,
            np.array(windows, np.int64),
            codes(self.vocabulary),
            self._depends_on_values,
        )

    def scan(self, key: np.uint64, first: int, count: int) -> Scan:
        numbers, keys, bins = _scan(key, first, count, *self._grammar())
        return Scan(numbers, keys, bins - self.dependency[0] if self.balanced else None)

    def build(self, key: np.uint64, numbers: Ints) -> Corpus:
        numbers = np.asarray(numbers, np.int64)
        token_start, start = np.zeros(len(numbers) + 1, np.int64), np.zeros(len(numbers) + 1, np.int64)
        tokens = np.empty(48 * len(numbers) + 1024, np.uint8)
        done = 0
        branching, depth, arguments, rules, no_digit = self._grammar()[:5]
        while True:
            done = _tokens(
                key, numbers, done, tokens, token_start, start, branching, depth, arguments, len(rules), no_digit
            )
            if done == len(numbers):
                break
            tokens = np.resize(tokens, 2 * len(tokens))
        tokens = tokens[: token_start[-1]]
        symbol, parent = np.empty(start[-1], np.int16), np.empty(start[-1] + 1, np.int32)
        _trees(tokens, token_start, start, len(self.operators), self.depth, symbol, parent)
        forest = Forest(symbol, parent[1:], start, (*DIGITS, *self.operators))
        known = self._values(forest)
        outcomes = tuple(range(max(10, int(known.max(initial=0)) + 1)))
        return Corpus(tokens, token_start, self.vocabulary, forest, known, outcomes, known[forest.root][:, None])

    def _values(self, forest: Forest) -> npt.NDArray[Any]:
        """The value of every node."""
        rules = np.array([*range(10), *(operator.number for operator in operators_named(self.operators))], np.int64)
        counted = self.arguments <= MOST_COUNTED and all(MIN <= rule <= SM for rule in rules[10:])
        if not counted:
            return denote(forest)
        values = np.empty(len(forest.symbol), np.int16)
        settled(forest.start, forest.symbol, forest.parent, rules, values)
        return values


def _before(window: Window, later: Window) -> bool:
    return window[1] is not None and window[1] < later[0]


@compiled
def _scan(
    key: np.uint64, first: int, count: int, branching: np.uint64, depth: int, arguments: int, operators: Ints,
    no_digit: bool, windows: Ints, code: Ints, valued: bool,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64], npt.NDArray[np.int64]]:  # fmt: skip
    """Number, content key and (if `valued`) dependency depth of each accepted draw among first .. first+count-1.

    Of equal digits only the first is kept: three draws in four are digits, and an example is never accepted twice.
    """
    numbers = np.empty(count, np.int64)
    keys = np.empty(count, np.uint64)
    rests = np.empty(count if valued else 0, np.int64)
    choices = np.uint64(arguments - 1)
    left = np.empty(depth + 1, np.int64)
    operator = np.empty(depth + 1, np.int64)
    arity = np.empty(depth + 1, np.int64)
    room = depth * arguments + arguments + 1 if valued else 1
    value = np.empty(room, np.int64)
    ranked = np.empty(room, np.int64)
    rest = np.empty(room, np.int64)
    seen = np.zeros(10, np.bool_)
    closing = code[10 + len(operators)]
    kept = 0
    for number in range(first, first + count):
        state, gamma = open_stream(key, number)
        content = KEY_SEED
        length, level, deepest, high, digit = 0, 0, 0, 0, 0
        while True:
            state += gamma
            word = mix(state)
            length += 1
            if level + 1 < depth and ((word >> np.uint64(32)) < branching or (no_digit and level == 0)):
                product = (word & LOW) * choices  # the high half chooses the arity, the low half the operator
                here, which = Place(level), below(product & LOW, len(operators))
                size = 2 + np.int64(product >> np.uint64(32))
                arity[here], left[here], operator[here] = size, size, which
                content = absorb(content, code[Place(10 + which)])
                level += 1
                deepest = max(deepest, level)
                if length + size > windows[1]:
                    break
                continue
            digit = below(word & LOW, 10)
            content = absorb(content, code[Place(digit)])
            if valued:
                value[high], rest[high] = digit, 0
                high += 1
            while level:
                here = Place(level - 1)
                left[here] -= 1
                if left[here]:
                    break
                level -= 1
                length += 1
                content = absorb(content, closing)
                if valued:
                    low = high - arity[level]
                    value[low], rest[low] = close(operators[operator[level]], value, rest, ranked, low, high)
                    high = low + 1
            if level == 0 or length > windows[1]:
                break
        if (
            level == 0
            and windows[0] <= length <= windows[1]
            and windows[2] <= deepest <= windows[3]
            and (not valued or windows[4] <= rest[0] <= windows[5])
        ):
            if length == 1:
                if seen[digit]:
                    continue
                seen[digit] = True
            numbers[kept], keys[kept] = number, mix(content)
            if valued:
                rests[kept] = rest[0]
            kept += 1
    return numbers[:kept].copy(), keys[:kept].copy(), rests[:kept].copy() if valued else rests


@compiled
def _tokens(
    key: np.uint64, numbers: Ints, first: int, tokens: Bytes, token_start: Ints, start: Ints, branching: np.uint64,
    depth: int, arguments: int, operators: int, no_digit: bool,
) -> int:  # fmt: skip
    """Write the tokens of these draws, and where rows and trees begin, from row `first` on; how many rows fit.

    A token a step and no branches, which no processor could predict: all that the next token may be is computed, then
    one is chosen. A list closes where its last argument was, and takes no word.
    """
    left = np.empty(depth + 1, np.int64)  # of each open list: how many arguments are still to come
    closing = 10 + operators
    for row in range(first, len(numbers)):
        state, gamma = open_stream(key, numbers[row])
        state += gamma
        word = mix(state)
        end, node, level = Place(token_start[row]), start[row], 0
        left[0] = rest = 1
        while level or rest:
            if end == Place(len(tokens)):
                return row
            following = mix(state + gamma)  # before it is known to be needed: nothing waits for it
            closes = rest == 0
            opens = (not closes) & (level + 1 < depth) & (((word >> _32) < branching) | (no_digit & (level == 0)))
            product = (word & LOW) * np.uint64(arguments - 1)  # the high half: the arity, the low half: the operator
            opening, digit = 10 + below(product & LOW, operators), below(word & LOW, 10)
            token = opening if opens else digit
            tokens[end] = closing if closes else token
            end += _1
            node += not opens
            level += int(opens) - int(closes)
            outer = left[Place(level)]
            rest = (outer if closes else rest) - 1
            rest = 2 + int(np.int64(product >> _32)) if opens else rest
            left[Place(level)] = rest
            state = state if closes else state + gamma
            word = word if closes else following
        token_start[row + 1], start[row + 1] = end, node
    return len(numbers)


@compiled
def _trees(
    tokens: Bytes, token_start: Ints, start: Ints, operators: int, depth: int, symbol: Ints, parent: Ints
) -> None:
    """Write the symbol of every node and its parent inside its tree, reading backwards: a list is met before its
    arguments, and its operator last. Without branches.

    `parent` has one place before the first node, since an operator writes where the next node will.
    """
    above = np.empty(depth + 2, np.int64)  # the lists that are open
    closing = 10 + operators
    node = start[-1]
    for row in range(len(token_start) - 2, -1, -1):
        base, level = start[row] + 1, Place(0)
        above[0] = base - 1
        for position in range(token_start[row + 1] - 1, token_start[row] - 1, -1):
            token = tokens[Place(position)]
            closes = token == closing
            opens = (token >= 10) & (not closes)
            up = above[level]
            symbol[Place((up if opens else node) - 1)] = token
            parent[Place(node)] = up - base
            above[level + _1] = node
            level = level + Place(closes) - Place(opens)
            node -= not opens
