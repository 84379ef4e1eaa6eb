"""The built-in operators on digits and other small numbers, as compiled rules.

`operators.OPERATORS` has the same rules as Python functions; the tests check that the two agree. `apply` evaluates one
list of arguments. `settle` and `answer` do the same for digits that were counted as they were read, without a loop.
`values_of` and `dependencies` go over a whole forest. `close` gives both for one list, for tasks that draw trees.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Ints
from pomona.base.compiled import compiled, inlined

MIN, MAX, MED, SM, FIRST, LAST, PM = range(7)
INTERPRETED = -1  # the number of an operator that has no compiled rule


@compiled
def apply(number: int, arguments: Ints, low: int, high: int) -> int:
    """Apply the compiled rule of this number to `arguments[low:high]`, which MED sorts in place."""
    value = int(arguments[low])
    if number == MIN:
        for position in range(low + 1, high):
            value = min(value, arguments[position])
    elif number == MAX:
        for position in range(low + 1, high):
            value = max(value, arguments[position])
    elif number == SM:
        for position in range(low + 1, high):
            value += arguments[position]
        value %= 10
    elif number == PM:
        value %= 10
        for position in range(low + 1, high):
            value = value * arguments[position] % 10
    elif number == LAST:
        value = arguments[high - 1]
    elif number == MED:
        for position in range(low + 1, high):
            moved, hole = arguments[position], position
            while hole > low and arguments[hole - 1] > moved:
                arguments[hole] = arguments[hole - 1]
                hole -= 1
            arguments[hole] = moved
        value = (arguments[(low + high - 1) // 2] + arguments[(low + high) // 2]) // 2
    return value


# MIN, MAX and MED of digits without a loop: the arguments of a list are counted in one word, ten fields of six bits.
_ONES = np.uint64(0x0041041041041041)  # 1 in each field
_TOPS = np.uint64(0x0820820820820820)  # the highest bit of each field
_1, _6 = np.uint64(1), np.uint64(6)
MOST_COUNTED = 31  # arguments that a field can count with its highest bit free


_EVEN = np.uint64(0x03F03F03F03F03F)  # every other field: the even digits
_TIMES_EVEN = np.uint64(0x000002004006008)  # 8, 6, 4, 2 and 0: a field of the product is the sum of these digits
_TIMES_ODD = np.uint64(0x001003005007009)


@inlined
def counted(digit: int) -> np.uint64:
    """What to add to a list's tally for one more argument."""
    return np.uint64(1) << np.uint64(6 * digit)


@inlined
def _ranked(tally: np.uint64, rank: np.uint64) -> np.uint64:
    """The digit of this rank (0 the least): ten less the number of digits that exceed or equal more than `rank`."""
    upto = tally * _ONES  # each field: how many arguments are at most this digit
    above = (upto + (np.uint64(MOST_COUNTED) - rank) * _ONES) & _TOPS
    return np.uint64(10) - ((((above >> np.uint64(5)) * _ONES) >> np.uint64(54)) & np.uint64(63))


@inlined
def _summed(tally: np.uint64) -> np.uint64:
    """The sum of the digits."""
    even, odd = (tally & _EVEN) * _TIMES_EVEN, ((tally >> _6) & _EVEN) * _TIMES_ODD
    return ((even >> np.uint64(48)) & np.uint64(4095)) + ((odd >> np.uint64(48)) & np.uint64(4095))


def ways(numbers: Sequence[int]) -> npt.NDArray[np.uint64]:
    """How `answer` chooses by each of these rules, MIN, MAX, MED or SM: the rank in halves of the last one, whether the
    next rank counts too, and whether the sum does."""
    return np.array(
        [[0, 0, 0] if rule == MIN else [2, 0, 0] if rule == MAX else [1, rule == MED, rule == SM] for rule in numbers],
        np.uint64,
    ).reshape(-1, 3)


@inlined
def answer(tally: np.uint64, choice: Ints) -> np.uint64:
    """The value of a list, without branches: which rule it has is what no processor could predict."""
    last = (((tally * _ONES) >> np.uint64(54)) & np.uint64(63)) - np.uint64(1)
    rank = last * choice[0]
    middle = (_ranked(tally, rank >> _1) + _ranked(tally, (rank + choice[1]) >> _1)) >> _1
    return np.uint64(middle + (_summed(tally) % np.uint64(10) - middle) * choice[2])


@compiled
def settle(number: int, tally: np.uint64, total: int, arguments: Ints, low: int, high: int) -> int:
    """`apply` for digits whose tally and sum were kept on the way."""
    count = high - low
    if number <= MED and count <= MOST_COUNTED:
        lower = 0 if number == MIN else count - 1 if number == MAX else (count - 1) >> 1
        upper = 0 if number == MIN else count - 1 if number == MAX else count >> 1
        return int(np.int64((_ranked(tally, np.uint64(lower)) + _ranked(tally, np.uint64(upper))) >> _1))
    if number == SM:
        return total % 10
    return apply(number, arguments, low, high)


@compiled
def values_of(symbol: Ints, arity: Ints, link: Ints, numbers: Ints, constants: Ints) -> npt.NDArray[np.int16]:
    """The value of every node; `numbers` and `constants` give the rule, or the value of a leaf, of each symbol."""
    values = np.empty(len(symbol), np.int16)
    stack = np.empty(len(symbol) + 1, np.int64)
    high = 0
    for node in range(len(symbol)):
        if link[node]:
            value = int(values[node - link[node]])
        elif arity[node] == 0:
            value = int(constants[symbol[node]])
        else:
            value = apply(numbers[symbol[node]], stack, high - arity[node], high)
        high -= arity[node]
        values[node] = value
        stack[high] = value
        high += 1
    return values


@compiled
def dependencies(symbol: Ints, arity: Ints, link: Ints, values: Ints, numbers: Ints) -> npt.NDArray[np.int32]:
    """The dependency depth of every node, as `operators.dependency` defines it."""
    result = np.zeros(len(symbol), np.int32)
    stack = np.empty(len(symbol) + 1, np.int64)  # open nodes, then their values sorted for MED
    ranked = np.empty(len(symbol) + 1, np.int64)
    high = 0
    for node in range(len(symbol)):
        count = arity[node]
        low = high - count
        if link[node]:
            result[node] = result[node - link[node]]
        elif count:
            number = numbers[symbol[node]]
            deepest = 0
            if number == FIRST:
                deepest = int(result[stack[low]])
            elif number == LAST:
                deepest = int(result[stack[high - 1]])
            elif number == SM or (number == PM and values[node] != 0):
                for position in range(low, high):
                    deepest = max(deepest, int(result[stack[position]]))
            elif number == PM:  # 0 is decided by a multiple of five and an even number, which may be one argument
                fives, evens = 1 << 30, 1 << 30
                for position in range(low, high):
                    if values[stack[position]] % 5 == 0:
                        fives = min(fives, int(result[stack[position]]))
                    if values[stack[position]] % 2 == 0:
                        evens = min(evens, int(result[stack[position]]))
                deepest = max(fives, evens)
            elif number == MED and count % 2 == 0:
                for position in range(low, high):
                    ranked[position] = values[stack[position]]
                apply(MED, ranked, low, high)
                first, second = ranked[(low + high - 1) // 2], ranked[(low + high) // 2]
                # Shallowest holder of each middle value; the two shallowest when the middle values are equal.
                lower, upper = 1 << 30, 1 << 30
                for position in range(low, high):
                    here = int(result[stack[position]])
                    if first == second and values[stack[position]] == first:
                        if here < lower:
                            lower, upper = here, lower
                        else:
                            upper = min(upper, here)
                    elif values[stack[position]] == first:
                        lower = min(lower, here)
                    elif values[stack[position]] == second:
                        upper = min(upper, here)
                deepest = max(lower, upper)
            else:  # MIN, MAX and MED of an odd number: any argument that holds the answer
                deepest = 1 << 30
                for position in range(low, high):
                    if values[stack[position]] == values[node]:
                        deepest = min(deepest, int(result[stack[position]]))
            result[node] = deepest + 1
        stack[low] = node
        high = low + 1
    return result


@compiled
def close(number: int, value: Ints, rest: Ints, ranked: Ints, low: int, high: int) -> tuple[int, int]:
    """Value and dependency depth of a list, from those of its arguments at low .. high-1; `ranked` is a buffer."""
    for position in range(low, high):
        ranked[position] = value[position]
    answer = apply(number, ranked, low, high)
    deepest = 0
    if number == FIRST:
        deepest = rest[low]
    elif number == LAST:
        deepest = rest[high - 1]
    elif number == SM or (number == PM and answer != 0):
        for position in range(low, high):
            deepest = max(deepest, rest[position])
    elif number == PM:
        fives, evens = 1 << 30, 1 << 30
        for position in range(low, high):
            if value[position] % 5 == 0:
                fives = min(fives, rest[position])
            if value[position] % 2 == 0:
                evens = min(evens, rest[position])
        deepest = max(fives, evens)
    elif number == MED and (high - low) % 2 == 0:
        first, second = ranked[(low + high - 1) // 2], ranked[(low + high) // 2]
        lower, upper = 1 << 30, 1 << 30
        for position in range(low, high):
            if first == second and value[position] == first:
                if rest[position] < lower:
                    lower, upper = rest[position], lower
                else:
                    upper = min(upper, rest[position])
            elif value[position] == first:
                lower = min(lower, rest[position])
            elif value[position] == second:
                upper = min(upper, rest[position])
        deepest = max(lower, upper)
    elif number in (MIN, MAX, MED):
        deepest = 1 << 30
        for position in range(low, high):
            if value[position] == answer:
                deepest = min(deepest, rest[position])
    return answer, deepest + 1
