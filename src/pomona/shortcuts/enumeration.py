"""Evaluators that open only the top k levels of a tree, for operators and values of any kind.

`shortcuts.truncation` does this exactly and fast for the built-in operators on digits. Here a rule is any Python
function, so distributions are combined by enumeration. A list that is not opened has the distribution
p(value | operator) of training. The distribution of a list above it sums over all tuples of argument values, each
weighted with the product of its chances. The answer is the most probable value; of equally probable values, the first
among the corpus's outcomes.

The cost is bounded. A call of an operator on the same distributions is evaluated once for all nodes, and only the
COMBINATIONS most probable tuples are tried. Up to ten arguments of two values each, or three digits, these are all
tuples and the result is exact. Beyond that, the least probable tuples are left out and the result is an approximation.
Tuples for which the rule raises an error are left out as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Floats, Ints
from pomona.base.errors import MeasureError, SpecError, TreeError
from pomona.data.corpus import Corpus, codes
from pomona.trees.calls import Calls
from pomona.trees.operators import OPERATORS, Operator, facts_of
from pomona.trees.values import Interner, Value, exact_key

COMBINATIONS = 1024  # tuples of argument values tried for a call
NOTHING = -1
_TIE = 1e-12  # chances that differ by less are equal


class Distribution(NamedTuple):
    """Values, as increasing positions in a table, and their chances, which sum to 1."""

    positions: npt.NDArray[np.int64]
    chances: npt.NDArray[np.float64]


Prior: TypeAlias = "Mapping[str, tuple[Sequence[Value], Floats]]"  # of each operator: values and their chances


def prior_of(
    names: Sequence[str], outcomes: Sequence[Value], counts: Ints
) -> dict[str, tuple[list[Value], npt.NDArray[np.float64]]]:
    """p(value | operator), by operator name, from how often each name has each outcome: [names, outcomes].

    Of each operator, the most frequent COMBINATIONS values.
    """
    prior = {}
    for symbol in np.flatnonzero(counts.sum(axis=1)).tolist():
        values = np.flatnonzero(counts[symbol])
        most = values[np.argsort(-counts[symbol, values], kind="stable")[:COMBINATIONS]]
        chances = counts[symbol, most] / counts[symbol, most].sum()
        prior[names[symbol]] = [outcomes[value] for value in most.tolist()], chances
    return prior


def check_evaluable(corpus: Corpus, operators: Mapping[str, Operator] = OPERATORS) -> None:
    """Raise an error unless there are operators, all have rules, and the rules give every value."""
    if corpus.forest.leaf.all():
        raise MeasureError("there is nothing to evaluate: no tree has an operator")
    _check_values(corpus, operators)


def _check_values(corpus: Corpus, operators: Mapping[str, Operator]) -> None:
    forest = corpus.forest
    if corpus.values.min(initial=0) < 0:
        raise MeasureError("truncated evaluation needs the value of every node")
    inner = np.flatnonzero(~forest.leaf & (forest.links == 0))
    for symbol in np.unique(forest.symbol[inner]).tolist():
        name = forest.names[symbol]
        if name not in operators:
            raise MeasureError(f"truncated evaluation needs a rule for every operator; {name!r} has none")
    calls = Calls()
    calls.number(inner, forest.symbol, *facts_of(forest, corpus.values))
    for number in range(len(calls)):
        symbol, fact = calls.call(number)
        *arguments, output = (corpus.outcomes[position] for position in fact)
        result = _defined(operators[forest.names[symbol]], arguments)
        if result is None or exact_key(result) != exact_key(output):
            shown = f"{forest.names[symbol]} of {arguments}"
            raise MeasureError(f"truncated evaluation needs values that the rules give; {shown[:80]} is not {output!r}")


def _defined(operator: Operator, arguments: Sequence[Value]) -> Value | None:
    """The operator's value for these arguments; None where it is not defined."""
    try:
        return operator.value(arguments)
    except (SpecError, TreeError):
        return None


def truncated(
    corpus: Corpus, levels: int, prior: Prior, operators: Mapping[str, Operator] = OPERATORS
) -> npt.NDArray[np.int64]:
    """The answers from the top 0, 1 .. `levels` levels: [trees, levels + 1].

    Answers are positions in the corpus's outcomes, -1 for any other value.
    """
    _check_values(corpus, operators)
    evaluator = _Evaluator(corpus, prior, operators)
    answers = np.empty((len(corpus.forest), levels + 1), np.int64)
    nodes = evaluator.cut()
    for opened in range(levels + 1):
        if opened:
            nodes = evaluator.opened(nodes, None if corpus.forest.link is not None else levels - opened)
        answers[:, opened] = evaluator.best(nodes[corpus.forest.root])
    return np.where(answers < len(corpus.outcomes), answers, NOTHING)


class _Evaluator:
    """Numbered distributions and the calls of operators on them; each is computed once."""

    def __init__(self, corpus: Corpus, prior: Prior, operators: Mapping[str, Operator]) -> None:
        self.corpus, self.forest = corpus, corpus.forest
        self.rules = [operators.get(name) for name in self.forest.names]
        self.values = Interner(corpus.outcomes)  # values that the corpus lacks come after its outcomes
        self.distributions: list[Distribution] = []
        self.most: list[int] = []  # the most probable value of each
        self.numbers: dict[bytes, int] = {}
        self.calls, self.outputs = Calls(), list[int]()
        self.made: dict[tuple[int, tuple[int, ...]], int] = {}
        self.prior = self._priors(prior)
        self.source = _sources(self.forest.links)
        offsets, children = self.forest.children
        self.offsets, self.arguments = offsets, self.source[children]

    def _priors(self, prior: Prior) -> npt.NDArray[np.int64]:
        """The prior of each symbol; an operator that training lacks has the mean of all others."""
        known = {
            name: self._distribution([self.values.add(value) for value in values], chances)
            for name, (values, chances) in prior.items()
        }
        every = [self.distributions[number] for number in known.values()]
        if every:
            positions = np.concatenate([each.positions for each in every])
            mean = self._distribution(positions.tolist(), np.concatenate([each.chances for each in every]))
        else:
            count = max(1, len(self.corpus.outcomes))
            mean = self._distribution(list(range(count)), np.ones(count))
        return np.array([known.get(name, mean) for name in self.forest.names], np.int64)

    def _distribution(self, positions: Sequence[int], chances: Floats) -> int:
        """The number of a distribution; weights of repeated positions are added."""
        used, inverse = np.unique(np.asarray(positions, np.int64), return_inverse=True)
        sums = np.bincount(inverse, chances, len(used))
        sums = np.round(sums / sums.sum(), 14)
        key = used.tobytes() + sums.tobytes()
        if key not in self.numbers:
            self.numbers[key] = len(self.distributions)
            self.distributions.append(Distribution(used, sums))
        return self.numbers[key]

    def cut(self) -> npt.NDArray[np.int64]:
        """The distribution of every node when no list is opened."""
        forest = self.forest
        used, inverse = np.unique(self.corpus.values, return_inverse=True)
        points = np.array([self._distribution([value], np.ones(1)) for value in used.tolist()], np.int64)
        nodes = np.where(forest.leaf, points[inverse], self.prior[forest.symbol])
        return np.asarray(nodes[self.source])

    def opened(self, before: Ints, deepest: int | None) -> npt.NDArray[np.int64]:
        """The distribution of every node with one more level opened than in `before`, down to the depth `deepest`."""
        forest = self.forest
        wanted = ~forest.leaf & (forest.links == 0)
        nodes = np.flatnonzero(wanted if deepest is None else wanted & (forest.depth <= deepest))
        calls = self.calls.number(nodes, forest.symbol, self.offsets, before[self.arguments].astype(np.int32))
        for number in range(len(self.outputs), len(self.calls)):
            self.outputs.append(self._combined(*self.calls.call(number)))
        after = np.array(before)
        after[nodes] = np.array(self.outputs, np.int64)[calls]
        return np.asarray(after[self.source])

    def best(self, nodes: Ints) -> npt.NDArray[np.int64]:
        """The most probable value of each distribution; of equally probable values, the first."""
        for distribution in self.distributions[len(self.most) :]:
            tied = distribution.chances >= distribution.chances.max() - _TIE
            self.most.append(int(distribution.positions[np.argmax(tied)]))
        return np.array(self.most, np.int64)[nodes]

    def _combined(self, symbol: int, parts: tuple[int, ...]) -> int:
        """The distribution of an operator's value for independent arguments with these distributions."""
        tuples, chances = np.zeros((1, 0), np.int64), np.ones(1)
        for part in parts:
            positions, weights = self.distributions[part]
            chances = (chances[:, None] * weights).ravel()
            tuples = np.column_stack([np.repeat(tuples, len(positions), axis=0), np.tile(positions, len(tuples))])
            if len(chances) > COMBINATIONS:  # the best tuples extend the best shorter tuples
                kept = np.argsort(-chances, kind="stable")[:COMBINATIONS]
                tuples, chances = tuples[kept], chances[kept]
        outputs = np.array([self._made(symbol, tuple(arguments)) for arguments in tuples.tolist()], np.int64)
        defined = (outputs >= 0) & (chances > 0)
        if not defined.any():
            return int(self.prior[symbol])
        return self._distribution(outputs[defined].tolist(), chances[defined])

    def _made(self, symbol: int, arguments: tuple[int, ...]) -> int:
        """The position of an operator's value for these arguments, NOTHING where it is not defined."""
        if (symbol, arguments) not in self.made:
            rule = self.rules[symbol]
            value = None if rule is None else _defined(rule, [self.values.table[position] for position in arguments])
            self.made[symbol, arguments] = NOTHING if value is None else self.values.add(value)
        return self.made[symbol, arguments]


def _sources(links: Ints) -> npt.NDArray[np.int64]:
    """The node from which each node has its value: itself, or the node it quotes (followed through chains)."""
    source = np.arange(len(links)) - links
    while not np.array_equal(source[source], source):
        source = source[source]
    return np.asarray(source, np.int64)


def own_leaves(corpus: Corpus, operators: Mapping[str, Operator] = OPERATORS) -> npt.NDArray[np.int64]:
    """For each tree: a code of its operator's value for the leaves directly under the root, and their number.

    The code is NOTHING if there are no such leaves, or if the rule is not defined for them alone.
    """
    forest = corpus.forest
    leaves = np.flatnonzero((forest.depth == 1) & forest.leaf & (forest.links == 0))
    counts = np.bincount(forest.tree[leaves], minlength=len(forest))
    offsets = np.concatenate([[0], np.cumsum(counts)])
    calls = Calls()
    symbol = forest.symbol[forest.root]
    numbers = calls.number(np.arange(len(forest)), symbol, offsets, corpus.values[leaves].astype(np.int32))
    results = []
    for root, arguments in map(calls.call, range(len(calls))):
        operator = operators.get(forest.names[root])
        known = operator is not None and arguments and min(arguments) >= 0
        values = [corpus.outcomes[position] for position in arguments] if known else []
        value = _defined(operator, values) if operator and known else None
        results.append(NOTHING if value is None else value_code(value))
    return np.column_stack([np.array(results, np.int64)[numbers], counts])


def value_code(value: Value) -> int:
    """A number for a value that is the same in every corpus."""
    return int(codes((repr(value),)).astype(np.int64)[0])
