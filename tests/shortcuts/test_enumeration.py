"""Truncated evaluators for operators and values of any kind: they equal a slow twin and the exact ones for digits."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pomona as pm
from pomona.base.errors import MeasureError
from pomona.data.corpus import Corpus
from pomona.shortcuts import enumeration, truncation
from pomona.shortcuts.effective_depth import effective_depth
from pomona.shortcuts.ladder import ladder
from pomona.shortcuts.lessons import FromCorpus
from pomona.shortcuts.lookups import root_list
from pomona.trees.forest import Forest
from pomona.trees.operators import OPERATORS, Operator, define_operator
from strategies import trees, values_of_any_kind

Chances = dict[str, tuple[Any, float]]  # by repr: a value and its chance


def half(arguments: Any) -> Any:
    """Not defined where the last argument is longer to write than the first."""
    if len(repr(arguments[-1])) > len(repr(arguments[0])) + 6:
        raise ValueError("not defined")
    return arguments[0]


def mixed(arguments: Any) -> Any:
    code = sum((3 * place + 1) * len(repr(argument)) for place, argument in enumerate(arguments))
    return arguments[code % len(arguments)] if code % 2 else (len(arguments), code % 3 == 0)


RULES = {
    "HALF": half,
    "MIX": mixed,
    "COUNT": lambda arguments: sum(len(repr(argument)) for argument in arguments) % 4,
}
OWN = {name: Operator(name, rule) for name, rule in RULES.items()}


def corpus_of(grove: list[Any], leaves: list[Any]) -> Corpus | None:
    table = {f"x{number}": leaves[number % len(leaves)] for number in range(4)}
    try:
        return Corpus.of_trees(Forest.from_nested(grove), table, operators=OWN)
    except pm.PomonaError:  # HALF is not defined for all of these trees
        return None


def twin(tree: Any, levels: int, prior: dict[str, Chances], leaves: dict[str, Any]) -> Chances:
    """The distribution of a tree's value from its top levels, by recursion over all tuples."""
    if isinstance(tree, str):
        return {repr(leaves[tree]): (leaves[tree], 1.0)}
    if not levels:
        return prior[tree[0]]
    below = [twin(child, levels - 1, prior, leaves).values() for child in tree[1:]]
    sums: dict[str, list[Any]] = defaultdict(lambda: [None, 0.0])
    for chosen in itertools.product(*below):
        try:
            value = RULES[tree[0]]([value for value, _ in chosen])
        except ValueError:
            continue
        sums[repr(value)][0] = value
        sums[repr(value)][1] += float(np.prod([chance for _, chance in chosen]))
    total = sum(chance for _, chance in sums.values())
    return {key: (value, chance / total) for key, (value, chance) in sums.items()} if total else prior[tree[0]]


grown = trees(st.sampled_from(["x0", "x1", "x2", "x3"]), st.sampled_from(list(RULES)), arity=(1, 3), most=8)


@given(
    st.lists(grown, min_size=1, max_size=4),
    st.lists(grown, min_size=2, max_size=6),
    st.lists(values_of_any_kind, min_size=1, max_size=4),
)
@settings(max_examples=120, deadline=None)
def test_truncated_evaluators_equal_the_slow_twin(grove: list[Any], shown: list[Any], leaves: list[Any]) -> None:
    corpus, train = corpus_of(grove, leaves), corpus_of([*shown, *((name, "x0") for name in RULES)], leaves)
    if corpus is None or train is None:
        return
    prior = FromCorpus(train, {}).prior(digits=False)
    table = {f"x{number}": leaves[number % len(leaves)] for number in range(4)}
    slow_prior = {
        name: {repr(value): (value, float(chance)) for value, chance in zip(values, chances, strict=True)}
        for name, (values, chances) in prior.items()
    }
    answers = enumeration.truncated(corpus, 4, prior, OWN)
    order = {repr(outcome): position for position, outcome in enumerate(corpus.outcomes)}
    for row, tree in enumerate(grove):
        for levels in range(5):
            expected = twin(tree, levels, slow_prior, table)
            best = max(chance for _, chance in expected.values())
            likely = {key for key, (_, chance) in expected.items() if chance > best - 1e-9}
            known = [order[key] for key in likely if key in order]
            assert answers[row, levels] == (min(known) if known else -1), (tree, levels, expected)
    assert (answers[:, 4] == corpus.targets[:, 0])[corpus.nesting <= 4].all()


@pytest.mark.parametrize("name", ["listops", "orchard"])
def test_digits_have_the_same_answers_either_way(name: str) -> None:
    """The exact evaluators of built-in operators and the enumeration agree, through COPYs as well."""
    sizes = {"train": 400, "dev": 0, "test": 150}
    if name == "listops":
        sources = [("listops/d20s", "train"), ("listops/d20s", "test")]
        chosen: dict[str, Any] = {"arguments": 3, **sizes}
    else:
        sources = [("orchard", "train"), ("orchard", "test-4")]
        chosen = {"operators": ("MIN", "LAST"), "branching": 0.3, "copying": 0.5, "iid": 0, **sizes}
    train, test = (pm.generate(task, split=split, **chosen) for task, split in sources)
    exact = truncation.truncated(test, 4, FromCorpus(train, {}).prior(digits=True))
    found = enumeration.truncated(test, 4, FromCorpus(train, {}).prior(digits=False))
    assert (exact[:, 2] != exact[:, 4]).any()
    np.testing.assert_array_equal(np.array([*test.outcomes, -1])[found], exact)


def test_the_cost_is_bounded() -> None:
    """A call tries no more tuples than it may, and those it tries are the most probable ones."""
    tried = []

    def rule(arguments: Any) -> Any:
        tried.append(tuple(arguments))
        return sum(arguments) % 7

    own = {"SUM7": Operator("SUM7", rule)}
    leaf = [str(digit) for digit in range(10)]
    random = np.random.default_rng(0)

    def inner() -> Any:
        return ("SUM7", *random.choice(leaf, 2))

    train = Corpus.of_trees(Forest.from_nested([inner() for _ in range(500)]), operators=own)
    test = Corpus.of_trees(Forest.from_nested([("SUM7", *(inner() for _ in range(6)))]), operators=own)
    tried.clear()
    prior = FromCorpus(train, {}).prior(digits=False)
    enumeration.truncated(test, 1, prior, own)
    *_, (values, chances) = prior.values()
    chance = dict(zip(values, chances, strict=True))
    _, *guessed = (arguments for arguments in tried if len(arguments) == 6)  # the first is the check of the data
    assert len(set(guessed)) == len(guessed) == enumeration.COMBINATIONS < 7**6
    every = sorted((np.prod(one) for one in itertools.product(chances, repeat=6)), reverse=True)
    least = min(np.prod([chance[value] for value in arguments]) for arguments in guessed)
    assert least == pytest.approx(every[enumeration.COMBINATIONS - 1])


def test_what_cannot_be_evaluated() -> None:
    forest = Forest.from_nested([("MAX", "1", "2")])
    corpus = Corpus.of_trees(forest)
    own = {"MAX": Operator("MAX", min)}
    with pytest.raises(MeasureError, match=r"needs values that the rules give; MAX of \[1, 2\] is not 2"):
        enumeration.check_evaluable(corpus, own)
    with pytest.raises(MeasureError, match="needs a rule for every operator; 'MAX' has none"):
        enumeration.check_evaluable(corpus, {})
    with pytest.raises(MeasureError, match="needs the value of every node"):
        enumeration.check_evaluable(replace(corpus, values=np.full(3, -1, np.int16)))
    with pytest.raises(MeasureError, match="no tree has an operator"):
        enumeration.check_evaluable(Corpus.of_trees(Forest.from_nested(["a"])))
    enumeration.check_evaluable(corpus, OPERATORS)


def test_the_root_list_is_the_same_information_for_values_of_any_kind() -> None:
    """Equal keys where and only where operator, value of the own leaves, their number and the lists are equal."""
    grove = [("FIRST", "T", "F"), ("FIRST", "T", "T"), ("FIRST", "F", "T"), ("FIRST", ("FIRST", "T"), "T"),
             ("FIRST", ("FIRST", "F"), "T"), ("FIRST", ("FIRST", "F"), ("FIRST", "T"))]  # fmt: skip
    own = {"FIRST": Operator("FIRST", lambda xs: xs[0])}
    corpus = Corpus.of_trees(Forest.from_nested(grove), operators=own)
    keys = enumeration.own_leaves(corpus, own)
    assert keys[:, 1].tolist() == [2, 2, 2, 1, 1, 0]
    assert keys[0, 0] == keys[1, 0] == keys[3, 0] == keys[4, 0] != keys[2, 0]
    assert keys[5, 0] == -1
    digits = Corpus.of_trees(Forest.from_nested([("MAX", "1", ("MIN", "2", "3")), ("MAX", ("MIN", "2"), "1")]))
    np.testing.assert_array_equal(enumeration.own_leaves(digits), root_list(digits)[:, 0, 1:3])


def test_answers_that_training_never_shows_are_computed_from_the_trees() -> None:
    """Sequences: no whole answer of the test occurs in training, so look-ups know none and evaluators all."""
    define_operator(Operator("SPELL", lambda parts: tuple(symbol for part in parts for symbol in part)))
    train, test = (
        Corpus.of_trees(Forest.from_nested(grove), lambda text: (text,))
        for grove in (
            [("SPELL", "a", ("SPELL", "b", "c")), ("SPELL", "c", ("SPELL", "a", "a"))],
            [("SPELL", "d", ("SPELL", "e", "f")), ("SPELL", ("SPELL", "f", "e"), "d")],
        )
    )
    found = ladder(test, train, levels=2)
    assert found["most frequent answer"].accuracy == found["surface counts"].accuracy == 0.0
    assert found["top 2 levels"].accuracy == 1.0
    right = [test[row].target[0] for row in range(2)]
    assert effective_depth(test, right, train=train).depth == float("inf")
    silent = effective_depth(test, [None, None], train=train)
    assert silent.margin == 0.0
    assert "gives more of the answers" not in str(silent)
