"""The seven relations: which cell sets they are, and the laws of converse, negation and join."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracles_logic as oracle
from pomona.base.errors import SpecError
from pomona.tasks.fair_nli.logic.relations import (
    Label,
    Relation,
    cell,
    cells_text,
    join,
    labels,
    relation_of,
    relations_by_cells,
)

relations = st.sampled_from(Relation)


def test_the_seven_relations_are_the_cell_sets_without_empty_or_universal_sides():
    proper = set()
    for cells in range(16):
        for_p = {p for p, h in product((0, 1), repeat=2) if cells & cell(p, h)}
        for_h = {h for p, h in product((0, 1), repeat=2) if cells & cell(p, h)}
        if for_p == for_h == {0, 1}:
            proper.add(cells)
            assert relation_of(cells).cells == cells
        else:
            with pytest.raises(SpecError, match="empty or universal"):
                relation_of(cells)
    assert proper == {relation.cells for relation in Relation}
    assert len(proper) == 7


@pytest.mark.parametrize("relation", Relation)
def test_cells_agree_with_the_set_theoretic_definition(relation: Relation):
    expected = {cell(p, h) for p, h in oracle.CELLS[relation.symbol]}
    assert {1 << place for place in range(4) if relation.cells >> place & 1} == expected
    assert relations_by_cells()[relation.cells] == relation


def test_names_and_labels():
    assert [r.code for r in Relation] == ["eq", "fwd", "rev", "neg", "alt", "cov", "ind"]
    assert [r.title for r in Relation][3:6] == ["negation", "alternation", "cover"]
    e, n, c = Label
    assert [r.label for r in Relation] == [e, e, n, c, c, n, n] == list(labels())
    assert [label.text for label in Label] == ["entailment", "neutral", "contradiction"]
    assert cells_text(Relation.FWD.cells) == "11 01 00"


@given(relations)
def test_converse_is_an_involution_that_swaps_sides(r: Relation):
    assert r.converse.converse is r
    assert oracle.CELLS[r.converse.symbol] == {(h, p) for p, h in oracle.CELLS[r.symbol]}


@given(relations, st.booleans(), st.booleans())
def test_negation_is_an_involution_that_flips_a_side(r: Relation, premise: bool, hypothesis: bool):
    flipped = r.negated(premise=premise, hypothesis=hypothesis)
    assert flipped.negated(premise=premise, hypothesis=hypothesis) is r
    assert oracle.CELLS[flipped.symbol] == {(p != premise, h != hypothesis) for p, h in oracle.CELLS[r.symbol]}
    assert flipped.converse is r.converse.negated(premise=hypothesis, hypothesis=premise)


@given(relations, relations)
def test_join_has_a_neutral_element_and_turns_round_under_converse(r: Relation, s: Relation):
    table = join()
    assert table[Relation.EQ, r] == table[r, Relation.EQ] == r
    assert Relation(table[r, s]).converse == table[s.converse, r.converse]
    assert table[r, Relation.NEG] == r.negated(hypothesis=True)


@given(relations, relations, relations)
def test_join_never_claims_more_when_it_is_told_less(r: Relation, s: Relation, weaker: Relation):
    if r.cells & ~weaker.cells == 0:
        stronger, looser = Relation(join()[r, s]), Relation(join()[weaker, s])
        assert stronger.cells & ~looser.cells == 0


def test_tables_are_shared_and_therefore_read_only():
    with pytest.raises(ValueError, match="read-only"):
        join()[0, 0] = 1
