"""Truth values of propositional sentences (section 3.4 of Geiger et al. 2019), at any depth and with any connectives.

    T ⇒ ¬ F        C2(T, ⇒, C1(¬, F))        ->   T

A sentence of depth 0 is a truth value. One of depth d is `left ⇒ ¬ right` with two sentences of depth d - 1. The node
C1 applies a unary operator (¬, or ε, which changes nothing) to the right sentence; C2 applies the connective to both.
At depth 1, with ⇒ alone, these are the eight sentences of the paper; of their 70 splits into halves exactly 4 are fair.

Every split generated here is fair. Train holds a core: a few sentences that show each function every input. A function
is a node type or, which takes more sentences, a position in the tree (`fair_by`). Dev and test have no sentence of the
core.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Bytes, Ints
from pomona.base.compiled import compiled
from pomona.base.errors import SpecError, SplitError, did_you_mean
from pomona.base.randomness import below, mix, open_stream, random_order, stream_key
from pomona.data.corpus import Corpus, content_keys
from pomona.data.pool import Scan
from pomona.data.task import TASKS, Task
from pomona.fairness.certificates import certify
from pomona.fairness.covering import minimal
from pomona.trees.forest import Forest

CONNECTIVES: Final[dict[str, Callable[[bool, bool], bool]]] = {
    "⇒": lambda left, right: not left or right,
    "∧": lambda left, right: left and right,
    "∨": lambda left, right: left or right,
    "⇔": lambda left, right: left == right,
    "⊕": lambda left, right: left != right,
    "⇐": lambda left, right: left or not right,
    "↑": lambda left, right: not (left and right),
    "↓": lambda left, right: not (left or right),
}
UNARY: Final[dict[str, Callable[[bool], bool]]] = {"¬": lambda value: not value, "ε": lambda value: value}
VALUES: Final = ("T", "F")  # in the order in which sentences are numbered
OUTCOMES: Final = ("F", "T")  # the position of a value is its truth
APPLY, JOIN = "C1", "C2"
LARGEST_SPACE = 1 << 20  # sentences that `every_sentence` writes out
_POOL = 1 << 12  # sentences from which a core is first chosen, if the space is larger

PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"train": 4, "dev": 0, "test": 4, "split_seed": 1},
    "deep": {"depth": 3, "connectives": tuple(CONNECTIVES), "train": 20_000, "dev": 2_000, "test": 2_000},
    "deep-by-node": {
        "depth": 3, "connectives": tuple(CONNECTIVES), "train": 20_000, "dev": 2_000, "test": 2_000, "fair_by": "node",
    },
}  # fmt: skip


@TASKS.add("propositional", presets=PRESETS)
@dataclass(frozen=True)
class Propositional(Task):
    """Truth values of propositional sentences, in fair splits (Geiger et al. 2019)."""

    depth: int = 1  # of the sentences
    connectives: tuple[str, ...] = ("⇒",)  # between two sentences
    unary: tuple[str, ...] = ("¬", "ε")  # before a sentence; ε changes nothing
    fair_by: str = "type"  # "type": the core shows each node type every input; "node": each position of the tree
    split_seed: int = 0  # which of the many cores
    part: str = ""  # the split that a distribution draws for; set by `distribution`

    def __post_init__(self) -> None:
        if not 1 <= self.depth <= 8:
            raise SpecError(f"depth = {self.depth}: sentences have depth 1 to 8")
        for names, known in ((self.connectives, CONNECTIVES), (self.unary, UNARY)):
            for name in names:
                if name not in known:
                    raise SpecError(
                        f"{name!r} is neither a connective nor a unary operator. {did_you_mean(name, known)}"
                    )
            if not names or len(set(names)) < len(names):
                raise SpecError(f"{names}: name at least one, each once")
        if self.fair_by not in ("type", "node"):
            raise SpecError(f"fair_by = {self.fair_by!r}: 'type' or 'node'")
        if self.iid:
            raise SpecError("iid = 0 here: test sentences are drawn like those of train")
        wanted = self.train + self.dev + self.test
        if wanted > self.space:
            raise SpecError(f"{wanted:,} sentences were asked for; depth {self.depth} has {self.space:,}")
        super().__post_init__()
        facts = 4 * len(self.connectives) + 2 * len(self.unary)
        # No core is larger than `most`, so with that many sentences the core need not be built here.
        most = facts * (1 if self.fair_by == "type" else 2**self.depth - 1)
        if not self.part and 0 < self.train < most and self.train < len(self.core()):
            raise SpecError(
                f"train = {self.train}: a fair training set holds the {len(self.core())} sentences of its core"
            )

    def distribution(self, split: str) -> Propositional:
        distribution = super().distribution(split)
        assert isinstance(distribution, Propositional)
        return dataclasses.replace(distribution, part=split)

    @property
    def choices(self) -> npt.NDArray[np.int64]:
        """How many words are possible at each leaf, from left to right."""
        size = {"value": 2, "connective": len(self.connectives), "unary": len(self.unary)}
        return np.array([size[kind] for kind in _leaf_kinds(self.depth)], np.int64)

    @property
    def space(self) -> int:
        """How many sentences there are."""
        total = 1
        for count in self.choices.tolist():
            total *= count
        return total

    def core(self) -> Bytes:
        """[sentences, leaves]: few sentences that show every function every input."""
        return _core(dataclasses.replace(self.distribution("train"), part="core"))

    def scan(self, key: np.uint64, first: int, count: int) -> Scan:
        numbers = np.arange(first, first + count)
        keys = self._keys(self._drawn_choices(key, numbers))
        if self.part != "train":
            fine = ~np.isin(keys, self._keys(self.core()))
            return Scan(numbers[fine], keys[fine])
        return Scan(numbers, keys)

    def build(self, key: np.uint64, numbers: Ints) -> Corpus:
        return self._corpus_of(self._drawn_choices(key, np.asarray(numbers, np.int64)))

    def _drawn_choices(self, key: np.uint64, numbers: npt.NDArray[np.int64]) -> Bytes:
        """The draws of these numbers; train begins with its core."""
        drawn = np.empty((len(numbers), len(self.choices)), np.uint8)
        _draw(key, numbers, self.choices, drawn)
        if self.part == "train":
            core = self.core()
            inside = numbers < len(core)
            drawn[inside] = core[numbers[inside]]
        return drawn

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The words of sentences."""
        return (*VALUES, *self.connectives, *self.unary)

    def _tokens(self, chosen: Bytes) -> Bytes:
        """The token at each leaf, from its number among the words of its kind."""
        base = {"value": 0, "connective": 2, "unary": 2 + len(self.connectives)}
        return chosen + np.array([base[kind] for kind in _leaf_kinds(self.depth)], np.uint8)

    def _keys(self, chosen: Bytes) -> npt.NDArray[np.uint64]:
        start = np.arange(len(chosen) + 1, dtype=np.int64) * chosen.shape[1]
        return content_keys(self._tokens(chosen).ravel(), start, self.vocabulary)

    def _corpus_of(self, chosen: Bytes) -> Corpus:
        """Sentences from the choice at each leaf."""
        kinds, parent, leaf_at = _template(self.depth)
        names = (*self.vocabulary, APPLY, JOIN)
        rows, nodes = len(chosen), len(kinds)
        tokens = self._tokens(chosen)
        symbol = np.empty((rows, nodes), np.int16)
        symbol[:, leaf_at] = tokens
        for node, kind in enumerate(kinds):
            if kind in (APPLY, JOIN):
                symbol[:, node] = names.index(kind)
        forest = Forest(
            symbol.ravel(), np.tile(parent, rows).astype(np.int32), np.arange(rows + 1, dtype=np.int64) * nodes, names
        )
        values = _truth(forest)
        return Corpus(
            tokens.ravel(),
            np.arange(rows + 1, dtype=np.int64) * len(leaf_at),
            self.vocabulary,
            forest,
            values,
            OUTCOMES,
            values[forest.root][:, None],
        )

    def words(self) -> tuple[str, ...]:
        """The truth values, the connectives and the unary operators."""
        return self.vocabulary

    def outcomes(self) -> tuple[str, ...]:
        """The truth values."""
        return OUTCOMES

    @classmethod
    def node_values(cls, corpus: Corpus) -> npt.NDArray[np.int16]:
        """The truth of every node."""
        position = {outcome: number for number, outcome in enumerate(corpus.outcomes)}
        table = np.array([*(position.get(outcome, -2) for outcome in OUTCOMES), -1], np.int16)
        return table[_truth(corpus.forest)]


def every_sentence(**settings: object) -> Corpus:
    """All sentences of some settings, in order: T before F, operators as listed, the leftmost leaf varies slowest.

    >>> every_sentence().texts[0]
    'T ⇒ ¬ T'
    """
    task = TASKS.build("propositional", {"train": 0, "dev": 0, "test": 0, **settings})
    assert isinstance(task, Propositional)
    return task._corpus_of(_all_choices(task))


def _all_choices(task: Propositional) -> Bytes:
    if task.space > LARGEST_SPACE:
        raise SpecError(f"depth {task.depth} has {task.space:,} sentences; at most {LARGEST_SPACE:,} are written out")
    axes = np.indices(tuple(task.choices.tolist()), np.uint8)
    return np.ascontiguousarray(axes.reshape(len(task.choices), -1).T)


@cache
def _core(task: Propositional) -> Bytes:
    """A greedy cover from a pool of random sentences; the pool grows until the cover is fair for all sentences."""
    key = stream_key("propositional", "core", task.depth, task.connectives, task.unary, task.fair_by, task.split_seed)
    size = _POOL
    while True:
        if task.space <= size:
            pool = _all_choices(task)
            pool = pool[random_order(key, len(pool))]
        else:
            pool = np.empty((size, len(task.choices)), np.uint8)
            _draw(key, np.arange(size), task.choices, pool)
        by = "node" if task.fair_by == "node" else "type"
        sentences = task._corpus_of(pool)
        core = pool[minimal(sentences, by=by, seconds=0).rows]  # type: ignore[arg-type]
        if certify(task._corpus_of(core), by=by).fair:  # type: ignore[arg-type]
            core.flags.writeable = False
            return core
        if task.space <= size:
            raise SplitError("not even all sentences show every combination of values; no fair split exists")
        size *= 2


@cache
def _leaf_kinds(depth: int) -> tuple[str, ...]:
    """What stands at each leaf, from left to right."""
    if depth == 0:
        return ("value",)
    inner = _leaf_kinds(depth - 1)
    return (*inner, "connective", "unary", *inner)


@cache
def _template(depth: int) -> tuple[tuple[str, ...], npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """The tree of a depth in post-order: kind and parent of each node, and the nodes that are leaves."""
    if depth == 0:
        return ("value",), np.array([-1], np.int32), np.array([0])
    kinds, parent, _ = _template(depth - 1)
    size = len(kinds)
    # left sentence, connective, unary operator, right sentence, C1, C2
    whole = (*kinds, "connective", "unary", *kinds, APPLY, JOIN)
    up = np.full(len(whole), -1, np.int32)
    up[: size - 1], up[size + 2 : 2 * size + 1] = parent[:-1], parent[:-1] + size + 2
    apply, join = 2 * size + 2, 2 * size + 3
    up[size - 1] = up[size] = up[apply] = join
    up[size + 1] = up[2 * size + 1] = apply
    return whole, up, np.flatnonzero([kind not in (APPLY, JOIN) for kind in whole])


def _truth(forest: Forest) -> npt.NDArray[np.int16]:
    """The truth of every node of any trees of this kind; -1 at operators, which have none."""
    names = {name: symbol for symbol, name in enumerate(forest.names)}
    values = np.full(len(forest.symbol), -1, np.int16)
    for truth, name in enumerate(OUTCOMES):
        values[forest.symbol == names.get(name, -1)] = truth
    unary, binary = np.full((len(names), 2), -1, np.int16), np.full((len(names), 2, 2), -1, np.int16)
    for name, symbol in names.items():
        for left in (False, True):
            if name in UNARY:
                unary[symbol, int(left)] = UNARY[name](left)
            if name in CONNECTIVES:
                binary[symbol, int(left)] = [CONNECTIVES[name](left, right) for right in (False, True)]
    offsets, children = forest.children
    levels, order = forest.levels
    for low, high in zip(levels[1:-1].tolist(), levels[2:].tolist(), strict=True):
        level = order[low:high]
        apply, join = (level[forest.symbol[level] == names.get(name, -1)] for name in (APPLY, JOIN))
        operator, argument = (children[offsets[apply] + child] for child in range(2))
        values[apply] = unary[forest.symbol[operator], values[argument]]
        left, connective, right = (children[offsets[join] + child] for child in range(3))
        values[join] = binary[forest.symbol[connective], values[left], values[right]]
    return values


@compiled
def _draw(key: np.uint64, numbers: Ints, choices: Ints, drawn: Bytes) -> None:
    for row in range(len(numbers)):
        state, gamma = open_stream(key, numbers[row])
        for place in range(len(choices)):
            state += gamma
            drawn[row, place] = below(mix(state) >> np.uint64(32), choices[place])
