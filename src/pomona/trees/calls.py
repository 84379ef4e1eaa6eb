"""Distinct calls of operators: the same operator with the same arguments is evaluated once, however many nodes hold it.

    calls = Calls()
    outcome = calls.run(forest, leaves, lambda symbol, arguments: ...)

A call is an operator (a symbol of the forest) and the positions of its argument values. `run` walks over the nodes in
one compiled loop from left to right, children before their parents. At a call that is not in the table it stops, Python
evaluates the call, and the loop resumes. So it stops once for each distinct call. `number` evaluates nothing: where the
values are already known, it tells which nodes hold the same call. Calls are compared exactly; the hash only tells where
to look.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Ints
from pomona.base.compiled import compiled, inlined
from pomona.trees.forest import Forest

_EMPTY = -1
_PRIME = np.uint64(0x9FB21C651E98DF25)


class _Table(NamedTuple):
    """The arrays of a table: slots of the hash table, then for each call its symbol, arguments and output."""

    slots: Ints  # 32-bit, as all but `start` and `size`
    symbol: Ints
    start: Ints  # where the arguments of each call begin
    arguments: Ints
    output: Ints
    size: Ints  # [1]: how many calls there are


class Calls:
    """Distinct calls, numbered in the order of their first occurrence."""

    def __init__(self) -> None:
        empty = np.empty(1 << 10, np.int32)
        self._table = _Table(
            np.full(1 << 12, _EMPTY, np.int32), empty, np.zeros((1 << 10) + 1, np.int64), np.empty(1 << 12, np.int32),
            empty.copy(), np.zeros(1, np.int64),
        )  # fmt: skip

    def __len__(self) -> int:
        return int(self._table.size[0])

    def call(self, number: int) -> tuple[int, tuple[int, ...]]:
        """Symbol and argument positions of a call."""
        low, high = self._table.start[number : number + 2].tolist()
        return int(self._table.symbol[number]), tuple(self._table.arguments[low:high].tolist())

    def run(
        self, forest: Forest, leaves: Ints, evaluate: Callable[[int, tuple[int, ...]], int]
    ) -> npt.NDArray[np.int32]:
        """The output of every node: at a leaf that of its symbol, at a node that quotes another the other's."""
        positions, stack = np.empty(len(forest.symbol), np.int32), np.empty(len(forest.symbol) + 1, np.int32)
        arity, links, state = forest.arity, forest.links, np.zeros(2, np.int64)
        leaves, widest = np.asarray(leaves, np.int32), int(arity.max(initial=0))
        while True:
            self._make_room(widest)
            if _run(forest.symbol, arity, links, leaves, positions, stack, state, *self._table):
                return positions
            number = len(self)  # the loop has stored the call, without its output
            self._table.output[number] = evaluate(*self.call(number))
            self._table.size[0] += 1

    def number(self, nodes: Ints, symbol: Ints, offsets: Ints, arguments: Ints) -> npt.NDArray[np.int32]:
        """The number of the call at each of these nodes, whose arguments are arguments[offsets[v] : offsets[v + 1]]."""
        numbers = np.empty(len(nodes), np.int32)
        largest, done = int(np.diff(offsets).max(initial=0)), 0
        while done < len(nodes):
            self._make_room(largest)
            done = _number(nodes, symbol, offsets, arguments, numbers, done, self._table)
        return numbers

    def _make_room(self, arity: int) -> None:
        """Make room for at least one more call of this arity; the hash table stays at most half full."""
        table, size = self._table, len(self)
        if 2 * (size + 1) > len(table.slots):
            slots = np.full(4 * len(table.slots), _EMPTY, np.int32)
            table = table._replace(slots=slots)
            _rehash(table)
        if size + 2 > len(table.symbol):
            table = table._replace(
                symbol=_longer(table.symbol, 4 * size), output=_longer(table.output, 4 * size),
                start=_longer(table.start, 4 * size + 1),
            )  # fmt: skip
        needed = int(table.start[size]) + arity + 1
        if needed > len(table.arguments):
            table = table._replace(arguments=_longer(table.arguments, 2 * needed))
        self._table = table


def _longer(array: npt.NDArray[Any], length: int) -> npt.NDArray[Any]:
    longer = np.zeros(length, array.dtype)
    longer[: len(array)] = array
    return longer


@inlined
def _absorb(code: np.uint64, number: int) -> np.uint64:
    code = (code ^ np.uint64(number + 1)) * _PRIME
    return code ^ (code >> np.uint64(29))


@compiled
def _slot(symbol: int, arguments: Ints, low: int, high: int, table: _Table) -> int:
    """The slot that holds a call, or the empty slot where it belongs."""
    code = _absorb(np.uint64(0x6A09E667F3BCC909), symbol)
    for position in range(low, high):
        code = _absorb(code, arguments[position])
    mask = np.uint64(len(table.slots) - 1)
    slot = code & mask
    while table.slots[slot] != _EMPTY:
        call = table.slots[slot]
        first = table.start[call]
        if table.symbol[call] == symbol and table.start[call + 1] - first == high - low:
            same = True
            for step in range(high - low):
                if table.arguments[first + step] != arguments[low + step]:
                    same = False
                    break
            if same:
                break
        slot = (slot + np.uint64(1)) & mask
    return int(slot)


@compiled
def _put(slot: int, symbol: int, arguments: Ints, low: int, high: int, table: _Table) -> None:
    """Append a new call; the caller increments the count."""
    call = table.size[0]
    table.slots[slot], table.symbol[call] = call, symbol
    first = table.start[call]
    for step in range(high - low):
        table.arguments[first + step] = arguments[low + step]
    table.start[call + 1] = first + high - low


@compiled
def _rehash(table: _Table) -> None:
    for call in range(table.size[0]):
        slot = _slot(table.symbol[call], table.arguments, table.start[call], table.start[call + 1], table)
        table.slots[slot] = call


@compiled
def _run(
    symbol: Ints, arity: Ints, link: Ints, leaves: Ints, positions: Ints, stack: Ints, state: Ints, slots: Ints,
    call_symbol: Ints, start: Ints, arguments: Ints, output: Ints, size: Ints,
) -> bool:  # fmt: skip
    """Outputs from node state[0] on; False where a call without an output was put down.

    The table comes as single arrays: Numba takes 100 times as long to accept a tuple, and there are many stops.
    """
    table = _Table(slots, call_symbol, start, arguments, output, size)
    node, high = state[0], state[1]
    while node < len(symbol):
        low = high - arity[node]
        if link[node]:
            position = positions[node - link[node]]
        elif arity[node] == 0:
            position = leaves[symbol[node]]
        else:
            slot = _slot(symbol[node], stack, low, high, table)
            if table.slots[slot] == _EMPTY:
                _put(slot, symbol[node], stack, low, high, table)
                state[0], state[1] = node, high
                return False
            position = table.output[table.slots[slot]]
        positions[node], stack[low] = position, position
        high = low + 1
        node += 1
    return True


@compiled
def _number(nodes: Ints, symbol: Ints, offsets: Ints, arguments: Ints, numbers: Ints, done: int, table: _Table) -> int:
    """Number the calls from nodes[done] on. Returns how many nodes are done when the table is full."""
    for position in range(done, len(nodes)):
        node = nodes[position]
        low, high = offsets[node], offsets[node + 1]
        slot = _slot(symbol[node], arguments, low, high, table)
        if table.slots[slot] == _EMPTY:
            size = table.size[0]
            full = 2 * (size + 1) > len(table.slots) or size + 2 > len(table.symbol)
            if full or table.start[size] + high - low > len(table.arguments):
                return position
            _put(slot, symbol[node], arguments, low, high, table)
            table.size[0] += 1
        numbers[position] = table.slots[slot]
    return len(nodes)
