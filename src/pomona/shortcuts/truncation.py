"""Evaluators that open only the top k levels of a tree: exact and fast, for the built-in operators on digits.

A list deeper than k is not opened. Only its operator is known, so its value has the distribution p(value | operator),
the prior. The lists above it are evaluated on distributions: MIN and MAX by products of P(X >= v) and P(X <= v), SM and
PM by convolution, FIRST and LAST by selection, MED by the joint distribution of the middle two. The answer is the most
probable value. Nothing is sampled. A COPY passes its remaining levels on to the node it quotes, so levels count along
the path to the answer, through all trees. `shortcuts.enumeration` does the same for other operators and values.

With k = 0 only the root operator is known, with k = infinity everything. `heuristic` replaces cut lists as one would by
hand. Under FIRST or LAST, a cut list counts as its outermost digit on that side; under any other operator it is left
out. A list of which nothing is left counts as 5. (The recorded curves of ORCHARD leave this last rule open. Of the
rules tried, only this one fits all 14 figures: chi-square 9.1, against 30 and more for a 5 at the root only, no answer,
or the operator's most frequent value.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Floats, Ints
from pomona.base.compiled import compiled
from pomona.base.errors import MeasureError
from pomona.data.corpus import Corpus
from pomona.trees.operators import OPERATORS, Operator
from pomona.trees.rules import FIRST, INTERPRETED, LAST, MAX, MIN, PM, SM, apply
from pomona.trees.values import Value

VALUES = 10
NOTHING = -1
MIDDLE = 5  # in `heuristic`: the value of a list of which nothing is left


def applies(corpus: Corpus, operators: Mapping[str, Operator] = OPERATORS) -> bool:
    """Whether all operators of a corpus are built-in and all values are digits."""
    try:
        digits(corpus)
        rule_numbers(corpus, operators)
    except MeasureError:
        return False
    return True


def prior_of(names: Sequence[str], outcomes: Sequence[Value], counts: Ints) -> dict[str, npt.NDArray[np.float64]]:
    """p(value | operator), by operator name, from how often each name has each outcome: [names, outcomes]."""
    by_digit = np.zeros((len(names), VALUES))
    for column, outcome in enumerate(outcomes):
        if type(outcome) is int and 0 <= outcome < VALUES:
            by_digit[:, outcome] += counts[:, column]
    used = np.flatnonzero(by_digit.sum(axis=1))
    return {names[symbol]: by_digit[symbol] / by_digit[symbol].sum() for symbol in used.tolist()}


def truncated(
    corpus: Corpus, levels: int, prior: Mapping[str, Floats], operators: Mapping[str, Operator] = OPERATORS
) -> npt.NDArray[np.int8]:
    """The answers from the top 0, 1 .. `levels` levels: [trees, levels + 1]."""
    forest = corpus.forest
    numbers = rule_numbers(corpus, operators)
    table = np.full((len(forest.names), VALUES), 1.0 / VALUES)
    for symbol, name in enumerate(forest.names):
        if name in prior:
            table[symbol] = prior[name]
    chances = np.zeros((0, VALUES))
    return _truncate(
        forest.symbol, forest.arity, forest.links, forest.depth, forest.start, corpus.width, digits(corpus), numbers,
        table, levels, forest.link is not None, np.full(len(forest.symbol), NOTHING, np.int64), chances,
    )[0]  # fmt: skip


def heuristic(
    corpus: Corpus, levels: int, prior: Mapping[str, Floats], operators: Mapping[str, Operator] = OPERATORS
) -> npt.NDArray[np.int8]:
    """The same by the heuristics above; with 0 levels, the operator's most frequent value."""
    forest = corpus.forest
    numbers = rule_numbers(corpus, operators)
    usual = np.array([int(np.argmax(prior[name])) if name in prior else 0 for name in forest.names], np.int64)
    return _heuristic(
        forest.symbol, forest.arity, forest.links, forest.start, corpus.width, digits(corpus), numbers, usual, levels
    )


def root_distributions(
    corpus: Corpus, leaves: Ints, chances: Floats, operators: Mapping[str, Operator] = OPERATORS
) -> npt.NDArray[np.float64]:
    """The distribution of each tree's answer when some leaves are random: [trees, 10].

    `leaves[node]` is the row of `chances` with the distribution of a leaf, or -1 where its value is known. Leaves are
    independent.
    """
    forest = corpus.forest
    numbers = rule_numbers(corpus, operators)
    table = np.full((len(forest.names), VALUES), 1.0 / VALUES)
    levels = corpus.width * int(forest.height.max(initial=0)) + 1  # enough for every path through every COPY
    return _truncate(
        forest.symbol, forest.arity, forest.links, forest.depth, forest.start, corpus.width, digits(corpus), numbers,
        table, levels, forest.link is not None, np.asarray(leaves, np.int64), np.asarray(chances, np.float64),
    )[1]  # fmt: skip


def digits(corpus: Corpus) -> npt.NDArray[np.int64]:
    """The values of the nodes as digits; an error if one is unknown or not a digit."""
    numbers = np.array([out if type(out) is int else NOTHING for out in corpus.outcomes] + [NOTHING], np.int64)
    values: npt.NDArray[np.int64] = numbers[corpus.values]
    if len(values) and (values.min() < 0 or values.max() >= VALUES):
        raise MeasureError("truncated evaluation needs the value of every node, a digit 0-9")
    return values


def rule_numbers(corpus: Corpus, operators: Mapping[str, Operator] = OPERATORS) -> npt.NDArray[np.int64]:
    """The number of each name's compiled rule; an operator without one is an error."""
    names = corpus.forest.names
    inner = np.unique(corpus.forest.symbol[~corpus.forest.leaf]).tolist()
    for symbol in inner:
        if names[symbol] not in operators or operators[names[symbol]].number == INTERPRETED:
            raise MeasureError(f"evaluation by hand knows the built-in operators only, not {names[symbol]!r}")
    return np.array([operators[name].number if name in operators else INTERPRETED for name in names], np.int64)


def own_digits(corpus: Corpus) -> npt.NDArray[np.int64]:
    """For each tree: the root operator's value for the digits directly under it (-1: none), and their number."""
    forest = corpus.forest
    return _own_digits(
        forest.symbol, forest.arity, forest.links, forest.depth, forest.start, digits(corpus), rule_numbers(corpus)
    )


# -- compiled --------------------------------------------------------------------------------------------------------


@compiled
def combine(number: int, chances: Floats, low: int, high: int, out: Floats) -> None:
    """Write the distribution of an operator's value to `out`, for independent arguments with chances[low:high]."""
    count = high - low
    if number in (FIRST, LAST) or count == 1:
        chosen = high - 1 if number == LAST else low
        for value in range(VALUES):
            out[value] = chances[chosen, value]
        return
    if number in (SM, PM):
        held = np.zeros(VALUES)
        for value in range(VALUES):
            out[value] = chances[low, value]
        for argument in range(low + 1, high):
            for value in range(VALUES):
                held[value] = 0.0
            for left in range(VALUES):
                if out[left] > 0.0:
                    for right in range(VALUES):
                        made = left + right if number == SM else left * right
                        held[made % VALUES] += out[left] * chances[argument, right]
            for value in range(VALUES):
                out[value] = held[value]
        return
    upto = np.zeros((count, VALUES + 1))  # upto[., v + 1] = P(X <= v)
    for argument in range(count):
        for value in range(VALUES):
            upto[argument, value + 1] = upto[argument, value] + chances[low + argument, value]
    if number in (MIN, MAX):
        before = 0.0 if number == MAX else 1.0
        for value in range(VALUES):
            product = 1.0
            for argument in range(count):
                product *= upto[argument, value + 1] if number == MAX else 1.0 - upto[argument, value + 1]
            out[value] = max(0.0, product - before if number == MAX else before - product)
            before = product
        return
    # MED: F(i, j), i < j, is the chance that exactly `half` arguments are <= i and all others >= j. For an odd number
    # of arguments, the median is <= v if at least half + 1 of them are.
    half = count // 2
    ways = np.zeros(count + 1)
    below = 0.0
    if count % 2:
        for value in range(VALUES):
            _choose(upto, value, value + 1, ways)
            upto_here = 0.0
            for taken in range(half + 1, count + 1):
                upto_here += ways[taken]
            out[value] = max(0.0, upto_here - below)
            below = upto_here
        return
    split = np.zeros((VALUES + 1, VALUES + 1))  # split[i + 1, j] = F(i, j)
    for value in range(VALUES):
        out[value] = 0.0
        for other in range(value + 1, VALUES):
            _choose(upto, value, other, ways)
            split[value + 1, other] = ways[half]
    for value in range(VALUES):
        _choose(upto, value, value + 1, ways)
        upto_here = 0.0
        for taken in range(half, count + 1):
            upto_here += ways[taken]
        equal = upto_here - below  # the lower of the middle two is `value`
        below = upto_here
        for other in range(value + 1, VALUES):
            after = split[value + 1, other + 1] if other + 1 < VALUES else 0.0
            before_after = split[value, other + 1] if other + 1 < VALUES else 0.0
            chance = split[value + 1, other] - split[value, other] - after + before_after
            out[(value + other) // 2] += chance
            equal -= chance
        out[value] += equal
    for value in range(VALUES):
        out[value] = max(0.0, out[value])


@compiled
def _choose(upto: Floats, low: int, high: int, ways: Floats) -> None:
    """ways[m]: the chance that exactly m arguments are <= low and all the others >= high."""
    for taken in range(len(ways)):
        ways[taken] = 0.0
    ways[0] = 1.0
    for argument in range(len(upto)):
        small, large = upto[argument, low + 1], 1.0 - upto[argument, high]
        for taken in range(argument + 1, 0, -1):
            ways[taken] = ways[taken] * large + ways[taken - 1] * small
        ways[0] *= large


@compiled
def _truncate(
    symbol: Ints, arity: Ints, link: Ints, depth: Ints, start: Ints, width: int, value: Ints, numbers: Ints,
    prior: Floats, levels: int, linked: bool, leaves: Ints, chances: Floats,
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float64]]:  # fmt: skip
    """The answers from the top 0 .. `levels` levels, and the distribution of the answer from `levels` levels."""
    trees = len(start) - 1
    answers = np.empty((trees, levels + 1), np.int8)
    roots = np.empty((trees, VALUES))
    room = 256
    known = np.empty((room, levels + 1, VALUES))  # [node, levels left]: the distribution of its value
    need = np.empty(room, np.int64)  # with this many levels or more, the distribution stays the same
    sure = np.empty(room, np.bool_)  # and whether it is then the true value
    stack = np.empty(room, np.int64)
    operands = np.empty((64, VALUES))
    for row in range(trees // width):
        base, end = start[row * width], start[(row + 1) * width]
        if end - base > room:
            room = 2 * (end - base)
            known = np.empty((room, levels + 1, VALUES))
            need, sure = np.empty(room, np.int64), np.empty(room, np.bool_)
            stack = np.empty(room, np.int64)
        tree, high = row * width, 0
        for node in range(base, end):
            here = node - base
            count = arity[node]
            most = levels if linked else min(levels, max(0, levels - depth[node]))  # more are never needed
            sure[here] = True
            if leaves[node] >= 0:
                need[here], sure[here] = 0, False
                for left in range(most + 1):
                    for digit in range(VALUES):
                        known[here, left, digit] = chances[leaves[node], digit]
            elif link[node]:
                need[here], sure[here] = need[here - link[node]], sure[here - link[node]]
                if not sure[here] or need[here] > 0:
                    for left in range(most + 1):
                        for digit in range(VALUES):
                            known[here, left, digit] = known[here - link[node], left, digit]
            elif count == 0:
                need[here] = 0
            else:
                deepest = 0
                for argument in range(high - count, high):
                    deepest = max(deepest, need[stack[argument]])
                    sure[here] = sure[here] and sure[stack[argument]]
                need[here] = deepest + 1
                if count > len(operands):
                    operands = np.empty((2 * count, VALUES))
                for left in range(min(most, need[here] if not sure[here] else need[here] - 1) + 1):
                    if left == 0:
                        for digit in range(VALUES):
                            known[here, 0, digit] = prior[symbol[node], digit]
                        continue
                    for argument in range(count):
                        child = stack[high - count + argument]
                        settled = sure[child] and need[child] <= left - 1
                        for digit in range(VALUES):
                            operands[argument, digit] = known[child, left - 1, digit] if not settled else 0.0
                        if settled:
                            operands[argument, value[base + child]] = 1.0
                    combine(numbers[symbol[node]], operands, 0, count, known[here, left])
                if not sure[here]:
                    for left in range(need[here] + 1, most + 1):
                        for digit in range(VALUES):
                            known[here, left, digit] = known[here, need[here], digit]
            high -= count
            stack[high] = here
            high += 1
            if node == start[tree + 1] - 1:
                for left in range(levels + 1):
                    if sure[here] and need[here] <= left:
                        answers[tree, left] = value[node]
                        continue
                    best = 0
                    for digit in range(1, VALUES):
                        if known[here, left, digit] > known[here, left, best] + 1e-12:
                            best = digit
                    answers[tree, left] = best
                for digit in range(VALUES):
                    roots[tree, digit] = known[here, levels, digit]
                    if sure[here] and need[here] <= levels:
                        roots[tree, digit] = 1.0 if digit == value[node] else 0.0
                tree, high = tree + 1, 0
    return answers, roots


@compiled
def _heuristic(
    symbol: Ints, arity: Ints, link: Ints, start: Ints, width: int, value: Ints, numbers: Ints, usual: Ints, levels: int
) -> npt.NDArray[np.int8]:
    trees = len(start) - 1
    answers = np.empty((trees, levels + 1), np.int8)
    room = 256
    known = np.empty((room, levels + 1), np.int64)
    edges = np.empty((room, 2), np.int64)  # outermost digits, left and right
    plain = np.empty(room, np.bool_)  # a digit, or a COPY of one: seen without opening anything
    stack = np.empty(room, np.int64)
    operands = np.empty(64, np.int64)
    for row in range(trees // width):
        base, end = start[row * width], start[(row + 1) * width]
        if end - base > room:
            room = 2 * (end - base)
            known, edges = np.empty((room, levels + 1), np.int64), np.empty((room, 2), np.int64)
            plain, stack = np.empty(room, np.bool_), np.empty(room, np.int64)
        tree, high = row * width, 0
        for node in range(base, end):
            here, count = node - base, arity[node]
            if link[node]:
                edges[here] = edges[here - link[node]]
                known[here] = known[here - link[node]]
                plain[here] = plain[here - link[node]]
            elif count == 0:
                edges[here, 0] = edges[here, 1] = value[node]
                known[here] = value[node]
                plain[here] = True
            else:
                plain[here] = False
                edges[here, 0], edges[here, 1] = edges[stack[high - count], 0], edges[stack[high - 1], 1]
                number = numbers[symbol[node]]
                known[here, 0] = NOTHING
                if count > len(operands):
                    operands = np.empty(2 * count, np.int64)
                for left in range(1, levels + 1):
                    if number in (FIRST, LAST):
                        child = stack[high - 1 if number == LAST else high - count]
                        opened = known[child, left - 1]
                        known[here, left] = edges[child, 1 if number == LAST else 0] if opened < 0 else opened
                        continue
                    seen = 0
                    for argument in range(high - count, high):
                        if known[stack[argument], left - 1] >= 0:
                            operands[seen] = known[stack[argument], left - 1]
                            seen += 1
                    known[here, left] = apply(number, operands, 0, seen) if seen else MIDDLE
            high -= count
            stack[high] = here
            high += 1
            if node == start[tree + 1] - 1:
                for left in range(levels + 1):
                    answers[tree, left] = known[here, left] if known[here, left] >= 0 else usual[symbol[node]]
                tree, high = tree + 1, 0
    return answers


@compiled
def _own_digits(
    symbol: Ints, arity: Ints, link: Ints, depth: Ints, start: Ints, value: Ints, numbers: Ints
) -> npt.NDArray[np.int64]:
    results = np.full((len(start) - 1, 2), NOTHING, np.int64)
    operands = np.empty(64, np.int64)
    for tree in range(len(start) - 1):
        seen = 0
        root = start[tree + 1] - 1
        if arity[root] > len(operands):
            operands = np.empty(2 * arity[root], np.int64)
        for node in range(start[tree], root):
            if depth[node] == 1 and arity[node] == 0 and link[node] == 0:
                operands[seen] = value[node]
                seen += 1
        if seen:
            results[tree, 0] = apply(numbers[symbol[root]], operands, 0, seen)
        results[tree, 1] = seen
    return results
