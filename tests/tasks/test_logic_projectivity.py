"""Joint projectivity: equal to the verified tables, to slow models, and lawful."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles_logic as oracle
from pomona.base.errors import SpecError
from pomona.tasks.fair_nli.logic.projectivity import (
    CONNECTIVES,
    EVERY,
    MODIFIER_PATTERNS,
    QUANTIFIERS,
    SOME,
    connective_tables,
    modifier_signature,
    modifier_tables,
    negation_tables,
    project_quantifiers,
    quantifier_tables,
)
from pomona.tasks.fair_nli.logic.relations import Relation, join

PHRASE = [Relation.EQ, Relation.FWD, Relation.REV, Relation.IND]
GOLDEN = Path(__file__).parents[1] / "golden" / "natural_logic.txt"

quantifiers = st.integers(0, 3)
relations = st.sampled_from(Relation)


def golden(kind: str) -> dict[str, list[str]]:
    lines = [line.split() for line in GOLDEN.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return {line[1]: line[2:] for line in lines if line[0] == kind}


def signs(row: np.ndarray) -> str:
    return "".join(Relation(r).symbol for r in row)


def test_784_quantifier_entries():
    expected = golden("quantifier")
    table = quantifier_tables()
    assert table.shape == (4, 4, 7, 7)
    for p, premise in enumerate(QUANTIFIERS):
        for h, hypothesis in enumerate(QUANTIFIERS):
            assert [signs(row) for row in table[p, h]] == expected[f"{premise}/{hypothesis}"]
    assert table[:, :, PHRASE].size == 448
    assert len(expected) == 16


def test_28_negation_entries():
    expected = golden("negation")
    words = ("ε", "not")
    got = {f"{words[p]}/{words[h]}": [signs(negation_tables()[p, h])] for p in (0, 1) for h in (0, 1)}
    assert got == expected
    assert negation_tables().size == 28


def test_modifier_entries_and_the_four_signatures_of_the_paper():
    expected = golden("modifier")
    assert {pattern: [signs(modifier_tables()[i])] for i, pattern in enumerate(MODIFIER_PATTERNS)} == expected
    on_paper_domain = modifier_tables()[:, [Relation.EQ, Relation.IND]]
    assert on_paper_domain.size == 10
    assert len(np.unique(on_paper_domain, axis=0)) == 4
    assert [modifier_signature(p).symbol for p in MODIFIER_PATTERNS] == ["≡", "≡", "⊐", "⊏", "#"]


def test_441_connective_entries_and_49_joins():
    expected = golden("connective")
    for p, premise in enumerate(CONNECTIVES):
        for h, hypothesis in enumerate(CONNECTIVES):
            assert [signs(row) for row in connective_tables()[p, h]] == expected[f"{premise}/{hypothesis}"]
    assert connective_tables().size == 441
    assert [signs(row) for row in join()] == golden("join")["∘"]


def test_the_example_of_figure_2():
    assert quantifier_tables()[EVERY, SOME, Relation.REV, Relation.EQ] == Relation.FWD
    assert quantifier_tables()[SOME, EVERY, Relation.REV, Relation.EQ] == Relation.REV


@settings(max_examples=60, deadline=None)
@given(quantifiers, quantifiers, relations, relations)
def test_against_explicit_models(p: int, h: int, r: Relation, s: Relation):
    slow = oracle.quantifier_relation(QUANTIFIERS[p], QUANTIFIERS[h], r.symbol, s.symbol)
    assert Relation(quantifier_tables()[p, h, r, s]).symbol == slow


@settings(max_examples=25, deadline=None)
@given(quantifiers, quantifiers, st.sampled_from(PHRASE), relations)
def test_non_universal_restrictors_and_proper_scopes_change_nothing(p: int, h: int, r: Relation, s: Relation):
    slow = oracle.quantifier_relation(QUANTIFIERS[p], QUANTIFIERS[h], r.symbol, s.symbol, size=3, proper=True)
    assert Relation(quantifier_tables()[p, h, r, s]).symbol == slow


def test_two_entities_are_enough_and_one_is_not():
    for entities in (2, 4, 5):
        assert (quantifier_tables(entities=entities) == quantifier_tables()).all()
    with pytest.raises(SpecError):
        quantifier_tables(entities=1)


def test_dropping_existential_import_changes_96_of_448_entries():
    without = quantifier_tables(existential_import=False)
    assert (without != quantifier_tables())[:, :, PHRASE].sum() == 96


def test_all_sixteen_signatures_differ_already_on_the_object_domain():
    on_object_domain = quantifier_tables()[:, :, PHRASE][..., PHRASE].reshape(16, 16)
    assert len(np.unique(on_object_domain, axis=0)) == 16


@given(quantifiers, quantifiers, relations, relations)
def test_turning_the_pair_round_gives_the_converse(p: int, h: int, r: Relation, s: Relation):
    table = quantifier_tables()
    assert table[h, p, r.converse, s.converse] == Relation(table[p, h, r, s]).converse


@given(quantifiers, quantifiers, relations, relations, st.booleans(), st.booleans())
def test_no_is_not_some_and_notevery_is_not_every(p: int, h: int, r: Relation, s: Relation, np_: bool, nh: bool):
    table = quantifier_tables()
    flipped = table[p ^ int(np_), h ^ int(nh), r, s]
    assert flipped == Relation(table[p, h, r, s]).negated(premise=np_, hypothesis=nh)
    assert flipped == negation_tables()[int(np_), int(nh), table[p, h, r, s]]


def test_independence_anywhere_gives_independence():
    assert (quantifier_tables()[:, :, Relation.IND, :] == Relation.IND).all()
    assert (quantifier_tables()[:, :, PHRASE][..., Relation.IND] == Relation.IND).all()
    assert (negation_tables()[:, :, Relation.IND] == Relation.IND).all()


def test_a_quantifier_of_ones_own():
    meanings = (lambda inside, outside: inside > outside, lambda inside, outside: inside > 0)
    most = project_quantifiers(meanings, entities=4)
    assert most[0, 1, Relation.EQ, Relation.EQ] == Relation.FWD  # most entails some
    assert most[0, 0, Relation.EQ, Relation.FWD] == Relation.FWD  # upward in its scope
    assert most[0, 0, Relation.FWD, Relation.EQ] == Relation.IND  # neither way in its restrictor
