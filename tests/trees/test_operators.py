"""Local rules: compiled equals interpreted equals the slow twin, for values, facts and dependency depth."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import oracles
from pomona.base.errors import SpecError, TreeError
from pomona.trees import brackets
from pomona.trees.forest import Forest
from pomona.trees.operators import (
    OPERATORS,
    Operator,
    Step,
    denote,
    dependency,
    operators_named,
    steps,
)
from pomona.trees.rules import INTERPRETED, MOST_COUNTED, answer, apply, ways
from pomona.trees.values import exact_key
from strategies import OPERATORS as NAMES
from strategies import listops_groves

INTERPRETED_ONLY = {name: replace(operator, number=INTERPRETED) for name, operator in OPERATORS.items()}


@given(st.sampled_from(NAMES), st.lists(st.integers(0, 9), min_size=1, max_size=12))
def test_compiled_rules_equal_the_python_rules(name: str, arguments: list[int]) -> None:
    expected = oracles.RULES[name](arguments)
    assert OPERATORS[name].rule(arguments) == expected
    padded = np.array([5, *arguments, 7], np.int64)
    assert apply(OPERATORS[name].number, padded, 1, len(arguments) + 1) == expected
    assert (padded[0], padded[-1]) == (5, 7)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=MOST_COUNTED))
@example([9] * MOST_COUNTED)
@example([0] * MOST_COUNTED)
def test_answers_from_counted_digits_equal_the_python_rules(digits: list[int]) -> None:
    """Up to as many digits as a tally can hold."""
    names = ("MIN", "MAX", "MED", "SM")
    tally = np.uint64(sum(1 << 6 * digit for digit in digits))
    found = [answer(tally, choice) for choice in ways([OPERATORS[name].number for name in names])]
    assert found == [oracles.RULES[name](digits) for name in names]


@given(listops_groves)
def test_values_equal_the_slow_twin(nested: list[Any]) -> None:
    forest = Forest.from_nested(nested)
    expected = [oracles.evaluate(node) for tree in nested for node in oracles.subtrees(tree)]
    assert denote(forest).tolist() == denote(forest, INTERPRETED_ONLY).tolist() == expected


@given(listops_groves)
def test_dependency_depth_equals_brute_force(nested: list[Any]) -> None:
    forest = Forest.from_nested(nested)
    expected = [oracles.dependency(node) for tree in nested for node in oracles.subtrees(tree)]
    values = denote(forest)
    assert dependency(forest, values).tolist() == dependency(forest, values, INTERPRETED_ONLY).tolist() == expected


@given(st.sampled_from(NAMES), st.lists(st.integers(0, 9), min_size=1, max_size=6))
def test_deciding_sets_decide(name: str, arguments: list[int]) -> None:
    deciding = OPERATORS[name].deciding
    for chosen in deciding(arguments) if deciding else [tuple(range(len(arguments)))]:
        assert oracles.decides(name, arguments, tuple(sorted(chosen)))


@given(listops_groves)
def test_steps_are_the_local_facts(nested: list[Any]) -> None:
    forest = Forest.from_nested(nested)
    expected = [
        Step(number, place, node[0], tuple(map(oracles.evaluate, node[1:])), oracles.evaluate(node))
        for number, tree in enumerate(nested)
        for place, node in enumerate(oracles.subtrees(tree))
        if not isinstance(node, str)
    ]
    assert list(steps(forest, denote(forest))) == expected


@pytest.mark.parametrize(
    ("text", "value", "depth"),
    [
        ("[MED 1 2 3 9 ]", 2, 1),
        ("[SM 9 9 9 ]", 7, 1),
        ("[MAX [MIN 1 2 ] 9 ]", 9, 1),
        ("[MAX [MIN 9 9 ] 9 ]", 9, 1),
        ("[MAX [MIN 9 9 ] 8 ]", 9, 2),
        ("[MED [MIN 5 5 ] 5 5 [MAX 5 5 ] ]", 5, 1),
        ("[MED [MIN 4 4 ] 5 ]", 4, 2),
        ("[SM 1 [SM 1 [SM 1 1 ] ] ]", 4, 3),
        ("[PM 9 1 3 2 9 ]", 6, 1),
        ("[PM 9 [PM 1 3 ] 2 9 ]", 6, 2),
        ("[PM 5 [MAX 1 3 ] 2 ]", 0, 1),
        ("[PM 5 [MAX 1 2 ] 3 ]", 0, 2),
        ("[PM [MAX 1 3 ] 0 [MIN 5 5 ] ]", 0, 1),
        ("7", 7, 0),
    ],
)
def test_known_cases(text: str, value: int, depth: int) -> None:
    forest = brackets.read(text)
    values = denote(forest)
    assert int(values[-1]) == value
    assert int(dependency(forest, values)[-1]) == depth


@pytest.mark.parametrize("known", [OPERATORS, INTERPRETED_ONLY], ids=["compiled", "interpreted"])
def test_a_quoting_node_takes_value_and_dependency(known: Any) -> None:
    plain = Forest.from_nested([("SM", "3", ("MAX", "4", "2")), ("MIN", "COPY", "9")])
    link = np.zeros(8, np.int32)
    link[5] = 1
    forest = Forest(plain.symbol, plain.parent, plain.start, plain.names, link).checked()
    values = denote(forest, known)
    assert values.tolist() == [3, 4, 2, 4, 7, 7, 9, 7]
    assert dependency(forest, values, known).tolist() == [0, 0, 0, 1, 2, 2, 0, 3]


def test_a_users_own_operator() -> None:
    span = Operator("SPAN", lambda xs: max(xs) - min(xs))
    forest = brackets.read("[SPAN 2 9 [MIN 4 7 ] ]")
    values = denote(forest, {**OPERATORS, "SPAN": span})
    assert values.tolist() == [2, 9, 4, 7, 4, 7]
    assert dependency(forest, values, {**OPERATORS, "SPAN": span})[-1] == 2
    for rule, made in ((lambda xs: sum(xs) / 2, 7.5), (lambda xs: 40_000, 40_000), (tuple, (2, 9, 4))):
        assert exact_key(denote(forest, {**OPERATORS, "SPAN": Operator("SPAN", rule)}).tolist()[-1]) == exact_key(made)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda xs: None, "the rule of 'SPAN' made None of [2, 9, 4]; a value is True, False, a whole number of 64"),
        (lambda xs: {1}, "the rule of 'SPAN' made {1} of [2, 9, 4]; a value is"),
        (lambda xs: 2**63, "the rule of 'SPAN' made 9223372036854775808 of [2, 9, 4]; a value is"),
        (lambda xs: float("nan"), "the rule of 'SPAN' made nan of [2, 9, 4]; a value is"),
        (lambda xs: (1, [2]), "the rule of 'SPAN' made (1, [2]) of [2, 9, 4]; a value is"),
        (lambda xs: xs, "or a tuple of such values; return a tuple instead of a list"),
        (lambda xs: xs[7], "the rule of 'SPAN' failed on [2, 9, 4]: IndexError: list index out of range"),
    ],
)
def test_rules_that_give_no_value(rule: Any, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        denote(brackets.read("[SPAN 2 9 [MIN 4 7 ] ]"), {**OPERATORS, "SPAN": Operator("SPAN", rule)})
    assert message in str(caught.value)


def test_errors() -> None:
    with pytest.raises(TreeError, match=r"^'MAXX' has arguments but is no operator. Did you mean 'MAX'\?$"):
        denote(brackets.read("[MAXX 1 2 ]"))
    with pytest.raises(TreeError, match=r"^'MAX' is a leaf but not a number of at most four digits$"):
        denote(brackets.read("[MAX 1 MAX ]"))
    with pytest.raises(TreeError, match=r"^'²' is a leaf but not a number of at most four digits$"):
        denote(brackets.read("[MAX 1 ² ]"))
    with pytest.raises(SpecError, match=r"^no operator is called 'MIX'. Did you mean 'M(IN|AX)'\?$"):
        operators_named(["MIX"])
    assert [operator.name for operator in operators_named(["SM", "MIN"])] == ["SM", "MIN"]
    for name in ("", "A B", "[A", "7"):
        with pytest.raises(SpecError, match=r"^an operator's name is one word without brackets and not a number; got"):
            Operator(name, min)


def test_names_that_are_not_used_do_no_harm() -> None:
    forest = Forest.from_nested([("MAX", "1", "2")], names=["nonsense", "12345"])
    assert denote(forest).tolist() == [1, 2, 2]
