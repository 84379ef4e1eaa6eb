"""The compiled loops of `facts`: look up a fact, collect the facts of a corpus, compose values by look-up.

A table is a hash table with open addressing in `slots`. Fact number f is functions[f] with the inputs
pool[start[f]:start[f + 1]]. Inputs are always compared in full, never by hash alone. A quoting node with an address (a
COPY with its argument) has a fact too: the number written there is the input, the position that it means the output.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Bools, Ints
from pomona.base.compiled import compiled, inlined
from pomona.base.randomness import mix

UNKNOWN = -1  # in arrays of values: no table entry says
EMPTY = -1  # in the hash table
_MULTIPLIER = np.uint64(0x9FB21C651E98DF25)
_28 = np.uint64(28)


@inlined
def _hash(function: int, inputs: Ints, low: int, high: int) -> np.uint64:
    code = np.uint64(function + 1) * _MULTIPLIER
    for place in range(low, high):
        code = (code ^ np.uint64(inputs[place] + 1)) * _MULTIPLIER
        code ^= code >> _28
    return mix(code)


@compiled
def find(
    slots: Ints, functions: Ints, start: Ints, pool: Ints, function: int, inputs: Ints, low: int, high: int
) -> tuple[np.int64, np.int64]:
    """Slot and fact of (function, inputs[low:high]); the fact is EMPTY where there is none, the slot then is free."""
    mask = np.uint64(len(slots) - 1)
    slot = np.int64(_hash(function, inputs, low, high) & mask)
    while slots[slot] != EMPTY:
        fact = np.int64(slots[slot])
        if functions[fact] == function and start[fact + 1] - start[fact] == high - low:
            same = True
            for place in range(high - low):
                same &= pool[start[fact] + place] == inputs[low + place]
            if same:
                return slot, fact
        slot = (slot + 1) & np.int64(mask)
    return slot, np.int64(EMPTY)


@compiled
def rehash(slots: Ints, functions: Ints, start: Ints, pool: Ints, count: int) -> None:
    for fact in range(count):
        slot, _ = find(slots, functions, start, pool, functions[fact], pool, start[fact], start[fact + 1])
        slots[slot] = fact


@compiled
def join_facts(
    other_functions: Ints, other_start: Ints, other_pool: Ints, other_output: Ints, slots: Ints, functions: Ints,
    start: Ints, pool: Ints, output: Ints, count: int,
) -> tuple[npt.NDArray[np.int64], int]:  # fmt: skip
    """Add the facts of another table, for which there is room; their numbers in this one, and how many it has now."""
    numbers = np.empty(len(other_functions), np.int64)
    for other in range(len(other_functions)):
        low, high = other_start[other], other_start[other + 1]
        slot, fact = find(slots, functions, start, pool, other_functions[other], other_pool, low, high)
        if fact == EMPTY:
            fact = np.int64(count)
            slots[slot] = count
            functions[count], output[count] = other_functions[other], other_output[other]
            start[count + 1] = start[count] + high - low
            for place in range(low, high):
                pool[start[count] + place - low] = other_pool[place]
            count += 1
        numbers[other] = fact
    return numbers, count


@inlined
def _own_function(node: int, low: int, by_node: bool, number: int) -> int:
    """A function is a position in the one tree of all examples, or a type."""
    return node - low if by_node else number


@compiled
def collect(
    symbol: Ints, arity: Ints, link: Ints, values: Ints, start: Ints, leaf_value: Ints, value_of: Ints,
    function_of: Ints, given: Bools, by_node: bool, address: Ints, quote_start: Ints, done: int, stack: Ints,
    slots: Ints, functions: Ints, fact_start: Ints, pool: Ints, output: Ints, count: int, first: Ints, clash: Ints,
    fact_of: Ints,
) -> tuple[int, int, int]:  # fmt: skip
    """From example `done` on while there is room: examples done, facts in the table, a bad node or -1."""
    for row in range(done, len(start) - 1):
        low, high = start[row], start[row + 1]
        size = high - low
        if count + size > len(functions) or fact_start[count] + 2 * size > len(pool) or 2 * (count + size) > len(slots):
            return row, count, -1
        top, quote = 0, quote_start[row]
        for node in range(low, high):
            value = value_of[values[node]]
            made = value  # what the node's function makes of its inputs: its value or, at a COPY, a position
            bottom, upto = top, top  # its inputs on the stack
            if link[node]:
                quoted = node - link[node]
                while link[quoted]:
                    quoted -= link[quoted]
                from_there = value_of[values[quoted]]
                if from_there == UNKNOWN and arity[quoted] == 0:
                    from_there = leaf_value[symbol[quoted]]
                if arity[node] or (value != UNKNOWN and value != from_there):
                    return row, count, node
                value = from_there
                if len(address):
                    stack[top], made = address[quote, 0], address[quote, 1]
                    upto, quote = top + 1, quote + 1
            elif arity[node] == 0:
                if value == UNKNOWN:
                    value = leaf_value[symbol[node]]
            else:
                if value == UNKNOWN:
                    return row, count, node
                bottom = top - arity[node]
            function = _own_function(node, low, by_node, function_of[symbol[node]])
            if upto > bottom and not given[function]:
                slot, fact = find(slots, functions, fact_start, pool, function, stack, bottom, upto)
                if fact == EMPTY:
                    fact = np.int64(count)
                    slots[slot] = count
                    functions[count], output[count] = function, made
                    fact_start[count + 1] = fact_start[count] + upto - bottom
                    for place in range(bottom, upto):
                        pool[fact_start[count] + place - bottom] = stack[place]
                    count += 1
                elif output[fact] != made and clash[fact] < 0:
                    clash[fact] = node
                if first[fact] < 0:
                    first[fact] = node
                if len(fact_of):
                    fact_of[node] = fact
            stack[bottom] = value
            top = bottom + 1
    return len(start) - 1, count, -1


@compiled
def compose_nodes(
    symbol: Ints, arity: Ints, link: Ints, values: Ints, start: Ints, leaf_value: Ints, value_of: Ints,
    function_of: Ints, given: Bools, by_node: bool, address: Ints, quote_start: Ints, stack: Ints, slots: Ints,
    functions: Ints, fact_start: Ints, pool: Ints, output: Ints, composed: Ints, gold: Ints,
) -> int:  # fmt: skip
    """Algorithm 1 by look-up: composed and given values of every node; a bad node, or -1."""
    for row in range(len(start) - 1):
        low, top, quote = start[row], 0, quote_start[row]
        for node in range(low, start[row + 1]):
            own = value_of[values[node]]
            bottom = top
            function = _own_function(node, low, by_node, function_of[symbol[node]])
            if link[node]:
                quoted = node - link[node]
                value = composed[quoted]
                own = gold[quoted]
                if len(address):  # who cannot read the address does not find the node
                    if not given[function]:
                        stack[top] = address[quote, 0]
                        _, fact = find(slots, functions, fact_start, pool, function, stack, top, top + 1)
                        if fact == EMPTY or output[fact] != address[quote, 1]:
                            value = np.int32(UNKNOWN)
                    quote += 1
            elif arity[node] == 0:
                if own == UNKNOWN:
                    own = leaf_value[symbol[node]]
                value = own
            else:
                if own == UNKNOWN:
                    return node
                bottom = top - arity[node]
                value = np.int32(UNKNOWN)
                if given[function]:
                    value = own
                else:  # no table has an entry for an input that is itself unknown
                    _, fact = find(slots, functions, fact_start, pool, function, stack, bottom, top)
                    if fact != EMPTY:
                        value = output[fact]
            composed[node], gold[node] = value, own
            stack[bottom] = value
            top = bottom + 1
    return -1
