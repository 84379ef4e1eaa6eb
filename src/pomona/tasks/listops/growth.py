"""The trees that the tokens of ListOps write, with the value of every node."""

from __future__ import annotations

import numpy as np

from pomona.base.arrays import Bytes, Ints
from pomona.base.compiled import compiled
from pomona.base.letters import Place
from pomona.trees.rules import answer

_1, _6 = Place(1), np.uint64(6)


@compiled
def grow(
    tokens: Bytes, token_start: Ints, start: Ints, operators: int, choices: Ints, symbol: Ints, parent: Ints,
    values: Ints,
) -> None:  # fmt: skip
    """Write the symbol of every node, its parent inside its tree and its value.

    Each row is read backwards: a list is met before its arguments, and its operator last. What comes next is what no
    processor could predict, so nothing branches on it: first the digits are counted at their lists, then, the other
    way, the values of the lists. `choices` has none if values do not follow from counting; they are not written then.
    `parent` and `values` have one place before the first node, since an operator writes where the next node will.
    """
    longest = 0
    for row in range(len(start) - 1):
        longest = max(longest, start[row + 1] - start[row])
    above = np.empty(longest + 2, np.int64)  # the lists that are open
    tally = np.zeros(longest + 1, np.uint64)  # of each node, after one for the root's
    lists = np.empty(longest + 1, np.int64)
    closing = 10 + operators
    node = start[-1]
    for row in range(len(token_start) - 2, -1, -1):
        base, level, many = start[row] + 1, Place(0), Place(0)
        above[0] = base - 1
        for position in range(token_start[row + 1] - 1, token_start[row] - 1, -1):
            token = np.uint64(tokens[Place(position)])
            closes = token == np.uint64(closing)
            digits = token < np.uint64(10)
            opens = not (digits | closes)
            up = above[level]
            symbol[Place((up if opens else node) - 1)] = token
            parent[Place(node)] = up - base
            digit = token if digits else np.uint64(0)
            values[Place(node)] = digit
            tally[Place(up - base + 1)] += np.uint64(digits) << (_6 * digit)
            lists[many] = node
            many += Place(closes)
            above[level + _1] = node
            level = level + Place(closes) - Place(opens)
            node -= int(not opens)
        if len(choices):
            for which in range(many):
                here = lists[many - which - _1]
                own, up = Place(here - base + 1), Place(parent[Place(here)] + 1)
                value = answer(tally[own], choices[Place(symbol[Place(here - 1)]) - Place(10)])
                tally[own] = 0
                values[Place(here)] = value
                tally[up] += _1 << (_6 * value)
        tally[0] = 0
