"""Local rules: what an operator makes of its arguments, and which arguments its answer rests on.

    >>> OPERATORS["MED"].rule([1, 2, 3, 9])          # the mean of the middle two, truncated
    2
    >>> denote(brackets.read("[MAX 2 9 [MIN 4 7 ] 0 ]")).tolist()
    [2, 9, 4, 7, 4, 0, 9]

`denote` gives the value of every node, `steps` every local fact (operator, inputs, output) that a tree uses, and
`dependency` how many operators lie on the way to the digits that decide the answer (the *dependency depth* of Csordás
et al. 2022): MIN and MAX rest on one argument, SM on all. Gold labels, the memorising baseline, fairness and the
shortcut ladders all rest on these three. A user's own operator is one `Operator(name, rule)`; built-in ones carry the
number of a compiled rule as well, and the tests prove that the two agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Ints
from pomona.base.compiled import compiled, inlined
from pomona.base.errors import SpecError, TreeError, did_you_mean
from pomona.trees.forest import Forest

MIN, MAX, MED, SM, FIRST, LAST = range(6)
VALUE_LIMIT = 1 << 15  # values are 16-bit
INTERPRETED = -1  # the number of an operator that has no compiled rule


@dataclass(frozen=True)
class Operator:
    """A local rule. `deciding(arguments)` gives the sets of argument positions of which any one fixes the answer."""

    name: str
    rule: Callable[[Sequence[int]], int]
    deciding: Callable[[Sequence[int]], list[tuple[int, ...]]] | None = None
    number: int = INTERPRETED

    def __post_init__(self) -> None:
        if not self.name or any(character in self.name for character in " \t\n[]()") or self.name.isdigit():
            raise SpecError(f"an operator's name is one word without brackets and not a number; got {self.name!r}")


def _holders(arguments: Sequence[int], value: int) -> list[tuple[int, ...]]:
    return [(place,) for place, argument in enumerate(arguments) if argument == value]


def _middle(arguments: Sequence[int]) -> tuple[int, int]:
    """The middle two in rank, which are one and the same where the number is odd."""
    ranked = sorted(arguments)
    return ranked[(len(ranked) - 1) // 2], ranked[len(ranked) // 2]


def _median_holders(arguments: Sequence[int]) -> list[tuple[int, ...]]:
    low, high = _middle(arguments)
    if len(arguments) % 2:
        return _holders(arguments, low)
    return [
        (first, second)
        for first, one in enumerate(arguments)
        for second, other in enumerate(arguments)
        if one == low and other == high and first != second
    ]


_DEFINED: dict[str, Operator] = {
    operator.name: operator
    for operator in (
        Operator("MIN", min, lambda xs: _holders(xs, min(xs)), MIN),
        Operator("MAX", max, lambda xs: _holders(xs, max(xs)), MAX),
        Operator("MED", lambda xs: sum(_middle(xs)) // 2, _median_holders, MED),
        Operator("SM", lambda xs: sum(xs) % 10, None, SM),
        Operator("FIRST", lambda xs: xs[0], lambda xs: [(0,)], FIRST),
        Operator("LAST", lambda xs: xs[-1], lambda xs: [(len(xs) - 1,)], LAST),
    )
}
OPERATORS: Mapping[str, Operator] = MappingProxyType(_DEFINED)  # a view: `define_operator` adds to it


def define_operator(operator: Operator) -> Operator:
    """Make a user's own operator known to every task, reader and check under its name."""
    known = _DEFINED.get(operator.name)
    if known is not None and known != operator:
        raise SpecError(f"an operator called {operator.name!r} is defined already; choose another name")
    return _DEFINED.setdefault(operator.name, operator)


def operators_named(names: Sequence[str], known: Mapping[str, Operator] = OPERATORS) -> tuple[Operator, ...]:
    """The operators of these names, or an error that suggests the nearest."""
    for name in names:
        if name not in known:
            raise SpecError(f"no operator is called {name!r}. {did_you_mean(name, known)}")
    return tuple(known[name] for name in names)


def denote(forest: Forest, operators: Mapping[str, Operator] = OPERATORS) -> npt.NDArray[np.int16]:
    """The value of every node: leaves are numbers, a node that quotes another has that one's value."""
    numbers, constants = _tables(forest, operators)
    if all(numbers[symbol] != INTERPRETED for symbol in np.unique(forest.symbol[~forest.leaf]).tolist()):
        return _denote(forest.symbol, forest.arity, forest.links, numbers, constants)
    values = np.empty(len(forest.symbol), np.int16)
    offsets, children = forest.children
    links = forest.links
    for node, symbol in enumerate(forest.symbol.tolist()):
        if links[node]:
            values[node] = values[node - links[node]]
        elif offsets[node] == offsets[node + 1]:
            values[node] = constants[symbol]
        else:
            arguments = values[children[offsets[node] : offsets[node + 1]]].tolist()
            values[node] = _checked_value(operators[forest.names[symbol]], arguments)
    return values


def _checked_value(operator: Operator, arguments: list[int]) -> int:
    value = operator.rule(arguments)
    if not isinstance(value, (int, np.integer)) or not -VALUE_LIMIT <= value < VALUE_LIMIT:
        raise SpecError(
            f"the rule of {operator.name!r} made {value!r} of {arguments}; "
            f"a value is a whole number from {-VALUE_LIMIT} to {VALUE_LIMIT - 1}"
        )
    return int(value)


def _tables(forest: Forest, operators: Mapping[str, Operator]) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int16]]:
    """For each symbol the number of its compiled rule and, for numerals, its value; other names in use are errors."""
    used_inner = set(np.unique(forest.symbol[~forest.leaf]).tolist())
    used_leaf = set(np.unique(forest.symbol[forest.leaf & (forest.links == 0)]).tolist())
    numbers = np.full(len(forest.names), INTERPRETED, np.int8)
    constants = np.full(len(forest.names), -1, np.int16)
    for symbol, name in enumerate(forest.names):
        if name in operators:
            numbers[symbol] = operators[name].number
        elif symbol in used_inner:
            raise TreeError(f"{name!r} has arguments but is no operator. {did_you_mean(name, operators)}")
        if name.isascii() and name.isdigit() and len(name) <= 4:
            constants[symbol] = int(name)
        elif symbol in used_leaf:
            raise TreeError(f"{name!r} is a leaf but not a number of at most four digits")
    return numbers, constants


@compiled
def apply(number: int, arguments: Ints, low: int, high: int) -> int:
    """The compiled rules, on `arguments[low:high]`, which MED sorts in place."""
    value = int(arguments[low])
    if number == MIN:
        for place in range(low + 1, high):
            value = min(value, arguments[place])
    elif number == MAX:
        for place in range(low + 1, high):
            value = max(value, arguments[place])
    elif number == SM:
        for place in range(low + 1, high):
            value += arguments[place]
        value %= 10
    elif number == LAST:
        value = arguments[high - 1]
    elif number == MED:
        for place in range(low + 1, high):
            moved, hole = arguments[place], place
            while hole > low and arguments[hole - 1] > moved:
                arguments[hole] = arguments[hole - 1]
                hole -= 1
            arguments[hole] = moved
        value = (arguments[(low + high - 1) // 2] + arguments[(low + high) // 2]) // 2
    return value


# MIN, MAX and MED of digits without a loop: the arguments of a list are counted in one word, ten fields of six bits.
_ONES = np.uint64(0x0041041041041041)  # 1 in each field
_TOPS = np.uint64(0x0820820820820820)  # the highest bit of each field
_MOST = 31  # arguments that a field can count with its highest bit free


@inlined
def counted(digit: int) -> np.uint64:
    """What to add to a list's tally for one more argument."""
    return np.uint64(1) << np.uint64(6 * digit)


@inlined
def _ranked(tally: np.uint64, rank: int) -> int:
    """The digit of this rank (0 the least): ten less the number of digits that exceed or equal more than `rank`."""
    upto = tally * _ONES  # each field: how many arguments are at most this digit
    above = (upto + np.uint64(_MOST - rank) * _ONES) & _TOPS
    return 10 - int((((above >> np.uint64(5)) * _ONES) >> np.uint64(54)) & np.uint64(63))


@compiled
def settle(number: int, tally: np.uint64, total: int, arguments: Ints, low: int, high: int) -> int:
    """`apply` for digits whose tally and sum were kept on the way."""
    count = high - low
    if number <= MED and count <= _MOST:
        lower = 0 if number == MIN else count - 1 if number == MAX else (count - 1) >> 1
        upper = 0 if number == MIN else count - 1 if number == MAX else count >> 1
        return (_ranked(tally, lower) + _ranked(tally, upper)) >> 1
    if number == SM:
        return total % 10
    return apply(number, arguments, low, high)


@compiled
def _denote(symbol: Ints, arity: Ints, link: Ints, numbers: Ints, constants: Ints) -> npt.NDArray[np.int16]:
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


class Step(NamedTuple):
    """One local fact: at this node of this tree, the operator made this output of these inputs."""

    tree: int
    node: int
    operator: str
    inputs: tuple[int, ...]
    output: int


def steps(forest: Forest, values: Ints) -> Iterator[Step]:
    """Every local fact that the trees use, in order; `values` as `denote` gives them."""
    offsets, children = forest.children
    for node in np.flatnonzero(~forest.leaf).tolist():
        tree = int(forest.tree[node])
        inputs = tuple(values[children[offsets[node] : offsets[node + 1]]].tolist())
        yield Step(tree, node - int(forest.start[tree]), forest.names[forest.symbol[node]], inputs, int(values[node]))


def dependency(forest: Forest, values: Ints, operators: Mapping[str, Operator] = OPERATORS) -> npt.NDArray[np.int32]:
    """For every node, the operators on the longest way down through arguments that decide; the shallowest proof counts.

    0 at a digit. Where several sets of arguments would each fix the answer (two equal minima), the one that needs
    fewest operators is taken. An operator without `deciding`, or unknown, rests on all its arguments. A node that
    quotes another rests on what that one rests on.
    """
    numbers = np.full(len(forest.names), SM, np.int8)  # SM: everything decides
    interpreted: dict[int, Operator] = {}
    for symbol, name in enumerate(forest.names):
        operator = operators.get(name)
        if operator is not None and operator.number != INTERPRETED:
            numbers[symbol] = operator.number
        elif operator is not None and operator.deciding is not None:
            interpreted[symbol] = operator
    used = set(np.unique(forest.symbol).tolist())
    if not used & interpreted.keys():
        return _dependency(forest.symbol, forest.arity, forest.links, np.asarray(values, np.int64), numbers)
    result = np.zeros(len(forest.symbol), np.int32)
    offsets, children = forest.children
    links = forest.links
    for node, symbol in enumerate(forest.symbol.tolist()):
        below = children[offsets[node] : offsets[node + 1]]
        if links[node]:
            result[node] = result[node - links[node]]
        elif len(below):
            name = forest.names[symbol]
            deciding = operators[name].deciding if name in operators else None
            sets = deciding(values[below].tolist()) if deciding else [tuple(range(len(below)))]
            result[node] = 1 + min(max((int(result[below[place]]) for place in one), default=0) for one in sets)
    return result


@compiled
def _dependency(symbol: Ints, arity: Ints, link: Ints, values: Ints, numbers: Ints) -> npt.NDArray[np.int32]:
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
            elif number == SM:
                for place in range(low, high):
                    deepest = max(deepest, int(result[stack[place]]))
            elif number == MED and count % 2 == 0:
                for place in range(low, high):
                    ranked[place] = values[stack[place]]
                apply(MED, ranked, low, high)
                first, second = ranked[(low + high - 1) // 2], ranked[(low + high) // 2]
                # Shallowest holder of each middle value; the two shallowest when the middle values are equal.
                one, two = 1 << 30, 1 << 30
                for place in range(low, high):
                    here = int(result[stack[place]])
                    if first == second and values[stack[place]] == first:
                        if here < one:
                            one, two = here, one
                        else:
                            two = min(two, here)
                    elif values[stack[place]] == first:
                        one = min(one, here)
                    elif values[stack[place]] == second:
                        two = min(two, here)
                deepest = max(one, two)
            else:  # MIN, MAX and MED of an odd number: any argument that holds the answer
                deepest = 1 << 30
                for place in range(low, high):
                    if values[stack[place]] == values[node]:
                        deepest = min(deepest, int(result[stack[place]]))
            result[node] = deepest + 1
        stack[low] = node
        high = low + 1
    return result


@compiled
def close(number: int, value: Ints, rest: Ints, ranked: Ints, low: int, high: int) -> tuple[int, int]:
    """Value and dependency depth of a list whose arguments' stand at low .. high-1; `ranked` is room to work in."""
    for place in range(low, high):
        ranked[place] = value[place]
    answer = apply(number, ranked, low, high)
    deepest = 0
    if number == FIRST:
        deepest = rest[low]
    elif number == LAST:
        deepest = rest[high - 1]
    elif number == SM:
        for place in range(low, high):
            deepest = max(deepest, rest[place])
    elif number == MED and (high - low) % 2 == 0:
        first, second = ranked[(low + high - 1) // 2], ranked[(low + high) // 2]
        one, two = 1 << 30, 1 << 30
        for place in range(low, high):
            if first == second and value[place] == first:
                if rest[place] < one:
                    one, two = rest[place], one
                else:
                    two = min(two, rest[place])
            elif value[place] == first:
                one = min(one, rest[place])
            elif value[place] == second:
                two = min(two, rest[place])
        deepest = max(one, two)
    elif number in (MIN, MAX, MED):
        deepest = 1 << 30
        for place in range(low, high):
            if value[place] == answer:
                deepest = min(deepest, rest[place])
    return answer, deepest + 1
