"""Values of any plain type: equality is exact, tables are small, and random operators equal a slow recursive twin."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pomona.base.errors import SpecError, TreeError
from pomona.trees import brackets
from pomona.trees.forest import Forest
from pomona.trees.operators import OPERATORS, Operator, denote, dependency, evaluate, steps
from pomona.trees.values import (
    Interner,
    distinct,
    exact_key,
    from_json,
    labels_of,
    natural_order,
    plain_value,
    renumber,
    to_json,
    value_of_text,
)
from strategies import trees, values_of_any_kind

ALIKE = [1, True, 1.0, "1", (1,), (True,), (1.0,), ("1",), ((1,),), 0, False, 0.0, -0.0, "", (), "True"]


def key(value: Any) -> Any:
    """Type and content, all the way down, by other means than the code: what makes two values the same."""
    return (type(value), [key(part) for part in value]) if isinstance(value, tuple) else (type(value), str(value))


def test_values_that_look_alike_are_different() -> None:
    assert len(Interner([*ALIKE, *ALIKE])) == len(ALIKE)
    assert [key(value) for value in distinct([*ALIKE, *ALIKE])] == [key(value) for value in ALIKE]
    assert len(set(labels_of(ALIKE))) == len(ALIKE)
    moved = renumber(np.arange(len(ALIKE)), ALIKE, ALIKE[::-1])
    assert moved.tolist() == list(range(len(ALIKE)))[::-1]


@given(st.lists(values_of_any_kind), st.lists(values_of_any_kind), st.randoms())
def test_renumbering_finds_the_same_value(old: list[Any], new: list[Any], random: Any) -> None:
    old, new = list(distinct(old)), list(distinct([*new, *old[::2]]))
    positions = np.array([-1, *range(len(old))], np.int16)
    for position, moved in zip(positions.tolist(), renumber(positions, old, new).tolist(), strict=True):
        if moved >= 0:
            assert key(old[position]) == key(new[moved])
        else:
            assert position < 0 or key(old[position]) not in [key(value) for value in new]
    shuffled = random.sample(old, len(old))
    assert list(map(key, natural_order(old))) == list(map(key, natural_order(shuffled)))


@given(values_of_any_kind)
def test_json_gives_a_value_back_exactly(value: Any) -> None:
    assert key(from_json(json.loads(to_json(value)))) == key(value)


def test_numpy_numbers_are_plain_values() -> None:
    for number, plain in ((np.int8(3), 3), (np.float32(0.5), 0.5), (np.bool_(True), True), (np.str_("a"), "a")):
        assert key(plain_value((number,))) == key((plain,))
    deep: Any = ()
    for _ in range(60):
        deep = (deep,)
    for wrong in (None, [1], {}, b"a", float("inf"), -(2**63) - 1, (1, None), deep):
        with pytest.raises(ValueError, match=r"is no type of value|out of range"):
            plain_value(wrong)


# -- operators ---------------------------------------------------------------------------------------------------------

Table = dict[tuple[Any, ...], Any]


@st.composite
def random_operators(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Operator], dict[str, Callable[..., Any]]]:
    """Leaves with values of any kind, and operators that pick an argument or a constant by what they are given."""
    values = draw(st.lists(values_of_any_kind, min_size=1, max_size=6))
    leaves = {f"leaf{number}": value for number, value in enumerate(values)}
    rules: dict[str, Callable[..., Any]] = {}
    for name in ("F", "G"):
        chosen = draw(st.lists(values_of_any_kind, min_size=1, max_size=5))
        salt = draw(st.integers(0, 1000))

        def rule(arguments: Any, chosen: list[Any] = chosen, salt: int = salt) -> Any:
            code = sum((1 + place) * len(repr(argument)) for place, argument in enumerate(arguments)) + salt
            return arguments[code % len(arguments)] if code % 3 == 0 else chosen[code % len(chosen)]

        rules[name] = rule
    rules["WRAP"] = lambda arguments: tuple(arguments)[:2] if len(repr(arguments)) < 60 else "long"
    return leaves, {name: Operator(name, rule) for name, rule in rules.items()}, rules


def slow(tree: Any, leaves: dict[str, Any], rules: dict[str, Callable[..., Any]]) -> list[Any]:
    """Values of all nodes in post-order, by recursion."""
    if isinstance(tree, str):
        return [leaves[tree]]
    below = [slow(child, leaves, rules) for child in tree[1:]]
    return [*(value for part in below for value in part), rules[tree[0]]([part[-1] for part in below])]


leaf_names = st.sampled_from([f"leaf{number}" for number in range(6)])
groves = st.lists(trees(leaf_names, st.sampled_from(["F", "G", "WRAP"]), arity=(1, 4)), max_size=5)


@given(random_operators(), groves)
@settings(max_examples=200)
def test_values_and_facts_equal_the_slow_twin(parts: Any, grove: list[Any]) -> None:
    leaves, operators, rules = parts
    leaves = {f"leaf{number}": list(leaves.values())[number % len(leaves)] for number in range(6)}
    forest = Forest.from_nested(grove)
    expected = [value for tree in grove for value in slow(tree, leaves, rules)]
    found = evaluate(forest, operators, leaves)
    assert [key(found.table[position]) for position in found.positions.tolist()] == list(map(key, expected))
    assert len(found.table) == len({repr(key(value)) for value in found.table})
    assert list(map(key, denote(forest, operators, leaves).tolist())) == list(map(key, expected))
    offsets, children = forest.children
    facts = []
    for node in np.flatnonzero(~forest.leaf).tolist():
        below = children[offsets[node] : offsets[node + 1]].tolist()
        name = forest.names[forest.symbol[node]]
        facts.append((name, [key(expected[child]) for child in below], key(expected[node])))
    shown = steps(forest, denote(forest, operators, leaves))
    assert [(step.operator, list(map(key, step.inputs)), key(step.output)) for step in shown] == facts


def test_a_rule_is_called_once_for_each_distinct_tuple_of_arguments() -> None:
    seen: list[tuple[Any, ...]] = []

    def rule(arguments: Any) -> Any:
        seen.append(tuple(map(exact_key, arguments)))
        return "T" if arguments.count("T") % 2 else "F"

    random = np.random.default_rng(0)
    tree: Any = "T"
    for _ in range(3000):
        tree = ("XOR", *(str(random.choice(["T", "F"])) for _ in range(3)), tree)
    values = denote(Forest.from_nested([tree, tree]), {"XOR": Operator("XOR", rule)})
    assert len(seen) == len(set(seen)) == 16
    leaves = values[: len(values) // 2][Forest.from_nested([tree]).leaf]
    assert values[-1] == ("T" if (leaves == "T").sum() % 2 else "F")


def test_more_than_forty_thousand_distinct_values() -> None:
    count = 45_000
    forest = Forest.from_nested([("PAIR", f"w{number}", "x") for number in range(count)])
    assert forest.symbol.dtype == np.int32
    found = evaluate(forest, {"PAIR": Operator("PAIR", tuple)})
    assert len(found.table) == 2 * count + 1
    assert found.positions.dtype == np.int32
    roots = [found.table[position] for position in found.positions[forest.root].tolist()]
    assert roots == [(f"w{number}", "x") for number in range(count)]


def test_arguments_that_decide_values_of_any_kind() -> None:
    def first_true(arguments: Any) -> list[tuple[int, ...]]:
        true = [(place,) for place, argument in enumerate(arguments) if argument is True]
        return true or [tuple(range(len(arguments)))]

    operators = {"OR": Operator("OR", any, first_true)}
    leaves = {"T": True, "F": False}
    forest = brackets.read(["[OR F [OR F [OR T F ] ] ]", "[OR T [OR F [OR T F ] ] ]", "[OR F [OR F F ] ]", "T"])
    values = denote(forest, operators, leaves)
    assert values[forest.root].tolist() == [True, True, False, True]
    assert dependency(forest, values, operators)[forest.root].tolist() == [3, 1, 2, 0]
    wrong = {"OR": Operator("OR", any, lambda arguments: [(9,)])}
    with pytest.raises(SpecError, match=r"'OR' says that \[\(9,\)\] decide its answer .*positions from 0 to 1"):
        dependency(forest, values, wrong)


def test_leaves_and_their_values() -> None:
    assert [value_of_text(text) for text in ("7", "007", "T", "²", "-1", "9" * 19)] == [7, 7, "T", "²", "-1", "9" * 19]
    forest = brackets.read("[MAX 1 T ]")
    with pytest.raises(TreeError, match=r"^MAX takes whole numbers; got \[1, 'T'\]$"):
        evaluate(forest, OPERATORS, value_of_text)
    with pytest.raises(TreeError, match=r"^the leaf 'T' has no value. Known: 1, t.$"):
        evaluate(forest, OPERATORS, {"1": 1, "t": 2})
    with pytest.raises(SpecError, match=r"^the value of the leaf '1' is \['1'\]; a value is True, False"):
        evaluate(forest, OPERATORS, lambda text: [text])  # type: ignore[arg-type, return-value]
    assert evaluate(brackets.read("[MAX 12345 1 ]"), OPERATORS, value_of_text).table == (1, 12345)
