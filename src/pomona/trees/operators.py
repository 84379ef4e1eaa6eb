"""Operators: what each makes of its arguments, and which arguments decide its answer.

    >>> OPERATORS["MED"].rule([1, 2, 3, 9])          # the mean of the middle two, rounded down
    2
    >>> denote(brackets.read("[MAX 2 9 [MIN 4 7 ] 0 ]")).tolist()
    [2, 9, 4, 7, 4, 0, 9]

    >>> xor = Operator("XOR", lambda xs: "T" if xs.count("T") % 2 else "F")
    >>> denote(brackets.read("[XOR T [XOR T F ] ]"), {"XOR": xor}).tolist()
    ['T', 'T', 'F', 'T', 'F']

`evaluate` works out every node; `denote` gives the values as an array. `steps` lists every local fact (operator,
inputs, output) that a tree uses, and `dependency` counts the operators on the way to the leaves that decide the answer
(the *dependency depth* of Csordás et al. 2022): MIN and MAX depend on one argument, SM on all, PM (the
product modulo 10) on all unless it is 0. Gold labels, the
memorising baseline, fairness and the ladders of shortcuts all depend on these.

An operator of your own is one `Operator(name, rule)` over values of any plain type (`trees.values`). Its rule is called
once for each distinct tuple of arguments, however many nodes there are. Built-in operators carry the number of a
compiled rule as well (`trees.rules`).
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Ints
from pomona.base.compiled import compiled
from pomona.base.errors import SpecError, TreeError, did_you_mean
from pomona.trees import rules
from pomona.trees.calls import Calls
from pomona.trees.forest import Forest
from pomona.trees.rules import FIRST, INTERPRETED, LAST, MAX, MED, MIN, PM, SM
from pomona.trees.values import (
    ALLOWED,
    Interner,
    Value,
    exact_key,
    natural_order,
    plain_value,
    position_type,
    renumber,
    value_of_text,
)

NUMERAL = 9999  # the largest number of the built-in leaves
LeafValues: TypeAlias = "Callable[[str], Value] | Mapping[str, Value]"  # the value of a leaf, from its text


@dataclass(frozen=True)
class Operator:
    """A rule from argument values to a value.

    `deciding(arguments)` gives sets of argument positions, each of which fixes the answer by itself; without it, all
    arguments decide. A rule may raise an error for arguments that it is not defined for.
    """

    name: str
    rule: Callable[[Sequence[Any]], Any]
    deciding: Callable[[Sequence[Any]], list[tuple[int, ...]]] | None = None
    number: int = INTERPRETED

    def __post_init__(self) -> None:
        if not self.name or any(character in self.name for character in " \t\n[]()") or self.name.isdigit():
            raise SpecError(f"an operator's name is one word without brackets and not a number; got {self.name!r}")

    def value(self, arguments: Sequence[Value]) -> Value:
        """The rule's result for these arguments; an error if it is not a value."""
        if self.number != INTERPRETED and any(type(argument) is not int for argument in arguments):
            raise TreeError(f"{self.name} takes whole numbers; got {_shown(arguments)}")
        try:
            result = self.rule(list(arguments))
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            raise SpecError(f"the rule of {self.name!r} failed on {_shown(arguments)}: {why}") from error
        try:
            return plain_value(result)
        except ValueError:
            hint = "; return a tuple instead of a list" if isinstance(result, list) else ""
            message = f"the rule of {self.name!r} made {reprlib.repr(result)} of {_shown(arguments)}"
            raise SpecError(f"{message}; a value is {ALLOWED}{hint}") from None


def _shown(arguments: Sequence[Value]) -> str:
    return reprlib.repr(list(arguments))


def _holders(arguments: Sequence[int], value: int) -> list[tuple[int, ...]]:
    return [(position,) for position, argument in enumerate(arguments) if argument == value]


def _middle(arguments: Sequence[int]) -> tuple[int, int]:
    """The two middle arguments by rank; for an odd number of arguments, the middle one twice."""
    ranked = sorted(arguments)
    return ranked[(len(ranked) - 1) // 2], ranked[len(ranked) // 2]


def _median_holders(arguments: Sequence[int]) -> list[tuple[int, ...]]:
    low, high = _middle(arguments)
    if len(arguments) % 2:
        return _holders(arguments, low)
    return [
        (first, second)
        for first, lower in enumerate(arguments)
        for second, upper in enumerate(arguments)
        if lower == low and upper == high and first != second
    ]


def _zero_makers(arguments: Sequence[int]) -> list[tuple[int, ...]]:
    """What makes a product end in 0 whatever the rest is: a multiple of five and an even number, or one that is both.
    Any other answer depends on every argument."""
    fives, evens = (_multiples(arguments, factor) for factor in (5, 2))
    sets: list[tuple[int, ...]] = [(five, even) if five != even else (five,) for five in fives for even in evens]
    return sets or [tuple(range(len(arguments)))]


def _multiples(arguments: Sequence[int], factor: int) -> list[int]:
    return [position for position, argument in enumerate(arguments) if argument % factor == 0]


_DEFINED: dict[str, Operator] = {
    operator.name: operator
    for operator in (
        Operator("MIN", min, lambda xs: _holders(xs, min(xs)), MIN),
        Operator("MAX", max, lambda xs: _holders(xs, max(xs)), MAX),
        Operator("MED", lambda xs: sum(_middle(xs)) // 2, _median_holders, MED),
        Operator("SM", lambda xs: sum(xs) % 10, None, SM),
        Operator("FIRST", lambda xs: xs[0], lambda xs: [(0,)], FIRST),
        Operator("LAST", lambda xs: xs[-1], lambda xs: [(len(xs) - 1,)], LAST),
        Operator("PM", lambda xs: prod(xs) % 10, _zero_makers, PM),
    )
}
OPERATORS: Mapping[str, Operator] = MappingProxyType(_DEFINED)  # a view: `define_operator` adds to it


def define_operator(operator: Operator) -> Operator:
    """Make an operator known to every task, reader and check under its name."""
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


# -- values of all nodes -----------------------------------------------------------------------------------------------


class Denotation(NamedTuple):
    """The value of every node, as a position in a table of distinct values."""

    positions: npt.NDArray[np.signedinteger[Any]]
    table: tuple[Value, ...]

    @property
    def values(self) -> npt.NDArray[Any]:
        """The values themselves: an array of integers where all are whole numbers, else of Python objects."""
        if all(type(value) is int for value in self.table):
            numbers = np.array(self.table, np.int64)
            small = not len(numbers) or (numbers.min() >= -(1 << 15) and numbers.max() < 1 << 15)
            return np.asarray(numbers.astype(np.int16 if small else np.int64)[self.positions])
        objects = np.empty(len(self.table), object)
        for position, value in enumerate(self.table):
            objects[position] = value
        return np.asarray(objects[self.positions])


def evaluate(
    forest: Forest, operators: Mapping[str, Operator] = OPERATORS, leaf_values: LeafValues | None = None
) -> Denotation:
    """The value of every node. `leaf_values` maps a leaf's text to its value; a quoting node has the quoted value.

    By default leaves are numbers. In trees with operators of your own, a leaf that is not a number is a word, and its
    value is its text.
    """
    numbers = _rule_numbers(forest, operators)
    leaves = _leaf_table(forest, leaf_values or _usual_leaves(forest, operators))
    inner = np.unique(forest.symbol[~forest.leaf])
    plain = all(type(value) is int and 0 <= value <= NUMERAL for value in leaves.values())
    if plain and (numbers[inner] != INTERPRETED).all():
        constants = np.zeros(len(forest.names), np.int16)
        constants[list(leaves)] = list(leaves.values())
        return _numbered(rules.values_of(forest.symbol, forest.arity, forest.links, numbers, constants))
    known = Interner()
    positions = np.zeros(len(forest.names), np.int32)
    for symbol, value in leaves.items():
        positions[symbol] = known.add(value)

    def called(symbol: int, arguments: tuple[int, ...]) -> int:
        return known.add(operators[forest.names[symbol]].value([known.table[position] for position in arguments]))

    outputs = Calls().run(forest, positions, called)
    table = natural_order(known.table)
    return Denotation(renumber(outputs, known.table, table, position_type(len(table))), table)


def _numbered(values: npt.NDArray[np.int16]) -> Denotation:
    """Positions and table of whole numbers; the position of a small number is the number itself."""
    used = np.flatnonzero(np.bincount(values)).tolist()
    table = natural_order(used)
    return Denotation(values if table == tuple(range(len(table))) else renumber(values, range(10_000), table), table)


def _rule_numbers(forest: Forest, operators: Mapping[str, Operator]) -> npt.NDArray[np.int8]:
    """The number of each symbol's compiled rule; an inner node that is no operator is an error."""
    numbers = np.full(len(forest.names), INTERPRETED, np.int8)
    for symbol in np.unique(forest.symbol[~forest.leaf & (forest.links == 0)]).tolist():
        name = forest.names[symbol]
        if name not in operators:
            raise TreeError(f"{name!r} has arguments but is no operator. {did_you_mean(name, operators)}")
        numbers[symbol] = operators[name].number
    return numbers


def _leaf_table(forest: Forest, leaf_values: LeafValues) -> dict[int, Value]:
    """The value of each symbol that is a leaf somewhere."""
    table: dict[int, Value] = {}
    for symbol in np.unique(forest.symbol[forest.leaf & (forest.links == 0)]).tolist():
        text = forest.names[symbol]
        if isinstance(leaf_values, Mapping) and text not in leaf_values:
            raise TreeError(f"the leaf {text!r} has no value. {did_you_mean(text, leaf_values)}")
        value = leaf_values[text] if isinstance(leaf_values, Mapping) else leaf_values(text)
        try:
            table[symbol] = plain_value(value)
        except ValueError:
            raise SpecError(f"the value of the leaf {text!r} is {reprlib.repr(value)}; a value is {ALLOWED}") from None
    return table


def denote(
    forest: Forest, operators: Mapping[str, Operator] = OPERATORS, leaf_values: LeafValues | None = None
) -> npt.NDArray[Any]:
    """The values that `evaluate` finds: integers where all are whole numbers, else Python objects."""
    return evaluate(forest, operators, leaf_values).values


def _usual_leaves(forest: Forest, operators: Mapping[str, Operator]) -> LeafValues:
    added = any(operator.number == INTERPRETED for operator in _operators_in(forest, operators))
    return value_of_text if added else _numeral


def _numeral(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= 4:
        return int(text)
    raise TreeError(f"{text!r} is a leaf but not a number of at most four digits")


class Step(NamedTuple):
    """One local fact: at this node of this tree, the operator gives this output for these inputs."""

    tree: int
    node: int
    operator: str
    inputs: tuple[Value, ...]
    output: Value


def steps(forest: Forest, values: npt.NDArray[Any]) -> Iterator[Step]:
    """Every local fact that the trees use, in order; `values` as `denote` gives them."""
    offsets, children = forest.children
    outputs = values.tolist()
    for node in np.flatnonzero(~forest.leaf).tolist():
        tree = int(forest.tree[node])
        inputs = tuple(outputs[child] for child in children[offsets[node] : offsets[node + 1]].tolist())
        yield Step(tree, node - int(forest.start[tree]), forest.names[forest.symbol[node]], inputs, outputs[node])


# -- dependency depth --------------------------------------------------------------------------------------------------


def dependency(
    forest: Forest, values: npt.NDArray[Any], operators: Mapping[str, Operator] = OPERATORS
) -> npt.NDArray[np.int32]:
    """For every node, the operators on the longest way down through arguments that decide; the shallowest proof counts.

    0 at a leaf. Where several sets of arguments would each fix the answer (two equal minima), the one that needs the
    fewest operators is taken. An operator without `deciding`, or unknown, depends on all its arguments. A node that
    quotes another depends on what that one depends on. `values` are those of `denote`.
    """
    if values.dtype != object and not needs_values(forest, operators):
        numbers = np.array([_builtin(operators.get(name)) for name in forest.names], np.int8)
        return rules.dependencies(forest.symbol, forest.arity, forest.links, np.asarray(values), numbers)
    known = Interner()
    positions = np.array([known.add(value) for value in values.tolist()], np.int32)
    return dependency_of(forest, positions, known.table, operators)


def needs_values(forest: Forest, operators: Mapping[str, Operator] = OPERATORS) -> bool:
    """Whether an operator in use says in Python which arguments decide, so that it must see the values themselves."""
    asking = {
        name for name in forest.names
        if name in operators and operators[name].number == INTERPRETED and operators[name].deciding is not None
    }  # fmt: skip
    return bool(asking) and any(operator.name in asking for operator in _operators_in(forest, operators))


def _operators_in(forest: Forest, operators: Mapping[str, Operator]) -> list[Operator]:
    """The operators that these trees use; names that are none are left out."""
    names = (forest.names[symbol] for symbol in np.unique(forest.symbol[~forest.leaf]).tolist())
    return [operators[name] for name in names if name in operators]


def _builtin(operator: Operator | None) -> int:
    """The number of a compiled rule; that of SM, on which everything decides, where there is none."""
    return SM if operator is None or operator.number == INTERPRETED else operator.number


def dependency_of(
    forest: Forest, positions: Ints, table: Sequence[Value], operators: Mapping[str, Operator] = OPERATORS
) -> npt.NDArray[np.int32]:
    """`dependency` for values given as positions in a table of distinct values, -1 where nothing is known.

    `deciding` is called once for each distinct fact. Where values are unknown or are not what the rule gives, nothing
    shows what decides: all arguments count.
    """
    offsets, _ = forest.children
    inner = np.flatnonzero(~forest.leaf & (forest.links == 0))
    calls = Calls()
    numbers = np.full(len(forest.symbol), -1, np.int32)
    facts_start, facts = facts_of(forest, positions)
    numbers[inner] = calls.number(inner, forest.symbol, facts_start, facts)
    set_start, member_start, members = [0], [0], list[int]()
    for number in range(len(calls)):
        symbol, fact = calls.call(number)
        for chosen in _deciding(operators.get(forest.names[symbol]), fact, table):
            members += chosen
            member_start.append(len(members))
        set_start.append(len(member_start) - 1)
    sets = (np.array(part, np.int64) for part in (set_start, member_start, members))
    return _by_sets(forest.links, numbers, offsets, forest.children[1], *sets)


def facts_of(forest: Forest, positions: Ints) -> tuple[Ints, Ints]:
    """For every node the positions of its arguments and then its own, one after the other; and where each begins."""
    offsets, children = forest.children
    nodes = len(forest.symbol)
    start = offsets + np.arange(nodes + 1)
    facts = np.empty(len(children) + nodes, np.int32)
    facts[np.arange(len(children)) + np.repeat(np.arange(nodes), forest.arity)] = positions[children]
    facts[start[1:] - 1] = positions
    return start, facts


def _deciding(operator: Operator | None, fact: tuple[int, ...], table: Sequence[Value]) -> list[tuple[int, ...]]:
    """The sets of arguments of which each decides this fact."""
    everything = [tuple(range(len(fact) - 1))]
    if operator is None or operator.deciding is None or min(fact) < 0:
        return everything
    *arguments, output = (table[position] for position in fact)
    try:
        if exact_key(operator.value(arguments)) != exact_key(output):
            return everything
    except (SpecError, TreeError):
        return everything
    sets = [tuple(chosen) for chosen in operator.deciding(arguments)]
    if not sets or any(not 0 <= position < len(arguments) for chosen in sets for position in chosen):
        message = f"{operator.name!r} says that {sets} decide its answer to {_shown(arguments)}"
        raise SpecError(f"{message}; give at least one set of positions from 0 to {len(arguments) - 1}")
    return sets


@compiled
def _by_sets(
    link: Ints, call: Ints, offsets: Ints, children: Ints, set_start: Ints, member_start: Ints, members: Ints
) -> npt.NDArray[np.int32]:
    depth = np.zeros(len(call), np.int32)
    for node in range(len(call)):
        if link[node]:
            depth[node] = depth[node - link[node]]
        elif call[node] >= 0:
            shallowest = np.int32(1 << 30)
            for chosen in range(set_start[call[node]], set_start[call[node] + 1]):
                deepest = np.int32(0)
                for member in range(member_start[chosen], member_start[chosen + 1]):
                    deepest = max(deepest, depth[children[offsets[node] + members[member]]])
                shallowest = min(shallowest, deepest)
            depth[node] = shallowest + 1
    return depth
