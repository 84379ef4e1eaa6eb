"""The fragment: encodings, exact labels in bulk, node values, and the counts that the paper's space must have."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles_logic as oracle
from pomona.base.errors import SpecError
from pomona.tasks.fair_nli.logic import fragment
from pomona.tasks.fair_nli.logic.fragment import CLASSES, ENCODINGS, FIELDS, LEAVES, NODE, NODES, PLACES, TARGETS
from pomona.tasks.fair_nli.logic.projectivity import (
    NO,
    NOT_EVERY,
    QUANTIFIERS,
    modifier_tables,
    negation_tables,
    quantifier_tables,
)
from pomona.tasks.fair_nli.logic.relations import Label, Relation

ALL = np.arange(ENCODINGS, dtype=np.int32)
ONE_PER_CLASS = ALL[(ALL & 7) == 7]  # equal heads: # is then two different modifiers


@st.composite
def word_rows(draw: st.DrawFn) -> list[int]:
    def word(place: str) -> int:
        if place[0] == "Q":
            return draw(st.integers(0, 3))
        return draw(st.integers(0, 1)) if place == "Neg" else draw(st.integers(int(place in ("NS", "V", "NO")), 3))

    return [word(place) for _ in range(2) for place in PLACES]


def test_one_encoding_with_equal_heads_stands_for_each_class():
    assert (np.sort(fragment.classes(ONE_PER_CLASS)) == np.arange(CLASSES)).all()
    assert (np.unique(fragment.classes(ALL)) == np.arange(CLASSES)).all()


def test_root_relations_and_labels_over_the_65536_classes():
    counts = np.bincount(fragment.root_table(), minlength=7)
    assert {r.symbol: counts[r] for r in Relation} == {
        "≡": 128, "⊏": 3008, "⊐": 3008, "^": 128, "|": 3008, "⌣": 3008, "#": 53248
    }  # fmt: skip
    labels = np.bincount(fragment.labels(ONE_PER_CLASS))
    assert (labels[Label.NEUTRAL], labels[Label.ENTAILMENT], labels[Label.CONTRADICTION]) == (59264, 3136, 3136)


def test_object_and_negation_nodes():
    values = fragment.node_values(ONE_PER_CLASS)
    inputs = np.unique(values[:, [NODE[n] for n in ("PROJ_QO", "VP", "NP_O", "OBJ")]], axis=0)
    assert len(inputs) == 256
    assert np.bincount(inputs[:, 3]).tolist() == [4, 24, 24, 4, 24, 24, 152]
    inputs = np.unique(values[:, [NODE[n] for n in ("PROJ_Neg", "OBJ", "NEGVP")]], axis=0)
    assert len(inputs) == 28
    assert set(inputs[:, 2]) == set(Relation)
    assert len(np.unique(values[:, [NODE[n] for n in ("PROJ_QS", "NP_S", "NEGVP")]], axis=0)) == 448


def test_an_odd_number_of_negative_words_in_contradictions_an_even_one_in_entailments():
    fields = fragment.unpack(ONE_PER_CLASS).astype(int)
    negative = fields[:, [0, 3]].sum(axis=1) + np.isin(fields[:, [1, 2, 4, 5]], [NO, NOT_EVERY]).sum(axis=1)
    labels = fragment.labels(ONE_PER_CLASS)
    assert (negative[labels == Label.CONTRADICTION] % 2 == 1).all()
    assert (negative[labels == Label.ENTAILMENT] % 2 == 0).all()


def test_any_independent_phrase_makes_the_root_independent():
    values = fragment.node_values(ALL)
    some = (values[:, [NODE["NP_S"], NODE["NP_O"], NODE["VP"]]] == Relation.IND).any(axis=1)
    assert (values[some, NODE["ROOT"]] == Relation.IND).all()
    assert not (values[~some, NODE["ROOT"]] == Relation.IND).all()


def test_thirty_two_skeletons_collapse_to_eight_meanings():
    fields = fragment.unpack(ONE_PER_CLASS).astype(int)
    phrases_equal = (fields[:, 6:9] == 0).all(axis=1)
    left, right = fields[phrases_equal, :3], fields[phrases_equal, 3:6]
    equivalent = fragment.roots(ONE_PER_CLASS[phrases_equal]) == Relation.EQ
    number = left @ [16, 4, 1], right @ [16, 4, 1]
    classes = {n: frozenset(number[1][equivalent & (number[0] == n)]) for n in set(number[0])}
    assert len(classes) == 32
    assert len(set(classes.values())) == 8


@settings(max_examples=40, deadline=None)
@given(st.tuples(*[st.integers(0, size - 1) for _, size in FIELDS]))
def test_roots_against_models_with_two_subjects_and_three_objects(fields: tuple[int, ...]):
    code = fragment.pack(np.array([fields]))
    values = fragment.node_values(code)[0]
    np_s, vp, np_o = (Relation(values[NODE[name]]).symbol for name in ("NP_S", "VP", "NP_O"))
    slow = oracle.sentence_relation(
        (QUANTIFIERS[fields[1]], QUANTIFIERS[fields[4]]),
        (bool(fields[0]), bool(fields[3])),
        (QUANTIFIERS[fields[2]], QUANTIFIERS[fields[5]]),
        np_s, vp, np_o,
    )  # fmt: skip
    assert Relation(fragment.roots(code)[0]).symbol == slow


@given(word_rows())
def test_nodes_of_words_by_walking_the_tree(row: list[int]):
    values: dict[str, int] = {leaf: row[column] for leaf, column in LEAVES}
    for node in NODES:
        inputs = [values[child] for child in node.children]
        values[node.name] = evaluate(node, inputs)
    code = fragment.encode(np.array([row]))
    assert fragment.node_values(code)[0].tolist() == [values[node.name] for node in NODES]
    assert fragment.roots(code)[0] == values["ROOT"]
    assert fragment.labels(code)[0] == Relation(values["ROOT"]).label
    expected = [values[name] for name in TARGETS[:-1]] + [Relation(values["ROOT"]).label]
    assert fragment.targets(fragment.node_values(code))[0].tolist() == expected


def test_nodes_of_all_encodings_compose_by_the_tables():
    values = fragment.node_values(ALL)
    fields = fragment.unpack(ALL).astype(int)
    column = {node.name: values[:, NODE[node.name]] for node in NODES}
    assert (column["PROJ_QS"] == 4 * fields[:, 1] + fields[:, 4]).all()
    assert (column["PROJ_QO"] == 4 * fields[:, 2] + fields[:, 5]).all()
    assert (column["PROJ_Neg"] == 2 * fields[:, 0] + fields[:, 3]).all()
    signatures = np.array([Relation.EQ, Relation.REV, Relation.FWD, Relation.IND])
    for whole, modifier, head, how, equal in (
        ("NP_S", "PROJ_AdjS", "REL_NS", 6, 9),
        ("NP_O", "PROJ_AdjO", "REL_NO", 7, 11),
        ("VP", "PROJ_Adv", "REL_V", 8, 10),
    ):
        assert (column[modifier] == signatures[fields[:, how]]).all()
        assert (column[head] == np.where(fields[:, equal] == 1, Relation.EQ, Relation.IND)).all()
        assert (column[whole] == np.where(fields[:, equal] == 1, column[modifier], Relation.IND)).all()
    quantifier, negation = quantifier_tables().reshape(16, 7, 7), negation_tables().reshape(4, 7)
    assert (column["OBJ"] == quantifier[column["PROJ_QO"], column["NP_O"], column["VP"]]).all()
    assert (column["NEGVP"] == negation[column["PROJ_Neg"], column["OBJ"]]).all()
    assert (column["ROOT"] == quantifier[column["PROJ_QS"], column["NP_S"], column["NEGVP"]]).all()


def evaluate(node: fragment.Node, inputs: list[int]) -> int:
    """One node from its children, straight from the tables."""
    if node.name in ("PROJ_QS", "PROJ_QO"):
        return 4 * inputs[0] + inputs[1]
    if node.name == "PROJ_Neg":
        return 2 * inputs[0] + inputs[1]
    if node.kind == "REL":
        return Relation.EQ if inputs[0] == inputs[1] else Relation.IND
    if node.kind == "PROJ":
        p, h = inputs
        return Relation.EQ if p == h else Relation.REV if not p else Relation.FWD if not h else Relation.IND
    if node.name in ("NP_S", "VP", "NP_O"):
        pattern = {Relation.EQ: 1, Relation.REV: 2, Relation.FWD: 3, Relation.IND: 4}[Relation(inputs[0])]
        return int(modifier_tables()[pattern, inputs[1]])
    if node.name == "NEGVP":
        return int(negation_tables()[inputs[0] >> 1, inputs[0] & 1, inputs[1]])
    pair, one, other = inputs
    restrictor, scope = (other, one) if node.name == "OBJ" else (one, other)
    return int(quantifier_tables()[pair >> 2, pair & 3, restrictor, scope])


def test_the_tree_is_the_one_of_figure_3():
    inner = {node.name for node in NODES}
    children = [child for node in NODES for child in node.children]
    assert len(NODES) == 15
    assert len(LEAVES) == 18
    assert sorted(children) == sorted([*(inner - {"ROOT"}), *(leaf for leaf, _ in LEAVES)])
    order = [leaf for leaf, _ in LEAVES]
    assert [child for child in children if child not in inner] == order  # post-order meets the leaves from the left
    assert sorted(column for _, column in LEAVES) == list(range(18))


@given(st.lists(st.integers(0, ENCODINGS - 1), max_size=20))
def test_packing_undoes_unpacking(codes: list[int]):
    array = np.array(codes, np.int32)
    assert (fragment.pack(fragment.unpack(array)) == array).all()


def test_bad_input_is_named():
    row = [0, 0, 1, 0, 0, 1, 0, 0, 1] * 2
    assert len(fragment.encode(np.zeros((0, 18), int))) == 0
    with pytest.raises(SpecError, match="18 words"):
        fragment.encode(np.zeros((3, 9), int))
    for column, word, text in ((0, 4, "0 to 3"), (3, 2, "0 to 1"), (11, 0, "1 or more"), (1, -1, "0 or more")):
        wrong = row.copy()
        wrong[column] = word
        with pytest.raises(SpecError, match=rf"row 1, column {column} .*{text}"):
            fragment.encode(np.array([row, wrong]))
    with pytest.raises(SpecError, match="row 0: subject_modifier is 4; it must be 0 to 3"):
        fragment.pack(np.array([[0] * 6 + [4] + [0] * 5]))
    with pytest.raises(SpecError, match="row 1: 524288 is not an encoding"):
        fragment.labels(np.array([0, ENCODINGS]))
