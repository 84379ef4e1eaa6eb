"""Composition trees, covers and folded lists, each against a slow twin on random problems."""

from __future__ import annotations

import doctest
import itertools
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles_fairness as oracle
import pomona as pm
from fairness_material import (
    any_data,
    consistent,
    corpus_of,
    labelled,
)
from pomona.base.errors import FairnessError, SpecError, TreeError
from pomona.data.corpus import Corpus
from pomona.data.task import corpus_of_trees
from pomona.fairness import certify, check, compose_values, learn
from pomona.fairness.tables import find
from pomona.trees import brackets
from pomona.trees.forest import Forest


class TestTheProperty:
    """A split is fair if and only if the learned composition tree answers the whole test set."""

    @settings(max_examples=400)
    @given(any_data)
    def test_fair_iff_the_learner_answers_everything(self, data: Any) -> None:
        train, test = data
        certificate = certify(corpus_of(train), corpus_of(test))
        assert certificate.fair == oracle.answers_everything(train, test)
        learned = learn(corpus_of(train), conflicts="record")
        answers = compose_values(learned, corpus_of(test))
        assert certificate.fair == (not learned.conflicts and bool(answers.right_throughout.all()))
        assert certificate.answered == int(answers.right_throughout.sum())

    @settings(max_examples=300)
    @given(consistent)
    def test_where_labels_agree_the_root_alone_decides(self, data: Any) -> None:
        train, test = data
        answers = compose_values(learn(corpus_of(train)), corpus_of(test))
        assert certify(corpus_of(train), corpus_of(test)).fair == bool(answers.right.all())
        assert (answers.right == ~answers.undefined).all()

    @settings(max_examples=200)
    @given(any_data)
    def test_definition_2_without_a_test_set(self, data: Any) -> None:
        train, _ = data
        assert certify(corpus_of(train)).fair == oracle.fair_for_its_domains(train)

    @settings(max_examples=200)
    @given(any_data)
    def test_every_certificate_passes_the_checker(self, data: Any) -> None:
        train, test = (corpus_of(part) for part in data)
        assert check(certify(train, test), train, test)
        assert check(certify(train), train)

    @settings(max_examples=100)
    @given(consistent)
    def test_tables_are_those_of_algorithm_2(self, data: Any) -> None:
        train, test = data
        table, _ = oracle.learn(train)
        learned = learn(corpus_of(train))
        assert {(f, i): o for f in learned.functions for i, o in learned.table(f).items()} == table
        wanted = [oracle.compose(table, tree) for tree in test]
        assert compose_values(learned, corpus_of(test)).outputs == [
            None if v is oracle.UNDEFINED else v for v in wanted
        ]

    @settings(max_examples=60)
    @given(st.lists(st.integers(0, 127), min_size=1, max_size=20), st.integers(0, 3))
    def test_on_a_fixed_tree_definition_2_is_fairness_on_the_whole_input_space(
        self, rows: list[int], salt: int
    ) -> None:
        def tree(bits: int) -> oracle.Node:
            leaf = [("x", "ab"[bits >> place & 1]) for place in range(7)]
            shape = ("f", leaf[0], ("g", leaf[1], ("h", leaf[2])), ("f2", leaf[3], leaf[4]), leaf[5])
            return labelled(shape, salt)

        train = [tree(bits) for bits in rows]
        domains = [sorted({bits >> place & 1 for bits in rows}) for place in range(7)]
        space = [tree(sum(bit << place for place, bit in enumerate(bits))) for bits in itertools.product(*domains)]
        by_node = certify(corpus_of(train), by="node")
        assert by_node.fair == bool(compose_values(learn(corpus_of(train), by="node"), corpus_of(space)).right.all())


def test_the_concept_page_runs() -> None:
    done = doctest.testfile("../../docs/fairness.md", encoding="utf-8")
    assert done.attempted > 10
    assert done.failed == 0


class TestEdgeCases:
    def test_a_tree_of_one_leaf_is_a_projection_and_always_fair(self) -> None:
        nothing = corpus_of([])
        leaf = corpus_of([("x", "a"), ("y", None)])
        certificate = certify(nothing, leaf)
        assert certificate.fair
        assert (certificate.answered, certificate.witnesses) == (2, ())
        assert check(certificate, nothing, leaf)

    def test_no_data_is_fair_only_without_inner_nodes(self) -> None:
        nothing, something = corpus_of([]), corpus_of([("f", 1, ("x", "a"))])
        certificate = certify(nothing, something)
        assert [tuple(one) for one in certificate.violations] == [("f", ("a",), 0, 1)]
        with pytest.raises(FairnessError, match="no training examples and no test set"):
            certify(nothing)

    def test_a_type_that_training_never_had_is_a_violation(self) -> None:
        certificate = certify(corpus_of([("f", 1, ("x", "a"))]), corpus_of([("new", 1, ("x", "a"))]))
        assert certificate.coverage[0] == ("new", 1, 0)

    def test_a_number_is_not_the_word_for_it(self) -> None:
        train = corpus_of([("f", "a", ("x", 1))])
        assert not certify(train, corpus_of([("f", "a", ("1", None))])).fair
        assert certify(train, corpus_of([("f", "a", ("y", 1))])).fair

    def test_a_leaf_without_value_gives_its_type(self) -> None:
        train = corpus_of([("f", "a", ("b", None))])
        assert certify(train, corpus_of([("f", "a", ("x", "b"))])).fair
        assert learn(train).table("f") == {("b",): "a"}

    def test_unary_and_wide_nodes_have_tables_by_arity(self) -> None:
        wide = ("f", 1, *[("x", "a")] * 300)
        train = corpus_of([wide, ("f", 2, ("x", "a"))])
        assert [len(inputs) for inputs in learn(train).table("f")] == [300, 1]
        assert certify(train).fair

    def test_a_tree_100000_deep(self) -> None:
        deep = "[MAX " * 100_000 + "3" + " ]" * 100_000
        corpus = corpus_of_trees(brackets.read(deep))
        certificate = certify(corpus, corpus)
        assert certificate.fair
        assert len(certificate.witnesses) == 1

    def test_the_table_compares_inputs_and_not_hashes(self) -> None:
        # One fact, f(1, 2), in every slot but the last: whatever the hash, the look-up meets it first.
        slots = np.array([0] * 15 + [-1], np.int32)
        functions, start, pool = np.array([4], np.int32), np.array([0, 2]), np.array([1, 2, 1], np.int32)
        for function, inputs, found in (
            (4, [1, 2], 0),
            (4, [1], -1),
            (4, [1, 2, 1], -1),
            (4, [2, 1], -1),
            (5, [1, 2], -1),
        ):
            asked = np.array(inputs, np.int32)
            slot, fact = find(slots, functions, start, pool, function, asked, 0, len(asked))
            assert fact == found or slot == 15

    def test_given_functions_are_not_looked_up(self) -> None:
        train = corpus_of([("f", 1, ("g", 2, ("x", "a")))])
        test = corpus_of([("f", 1, ("g", 2, ("x", "b")))])
        assert not certify(train, test).fair
        known = certify(train, test, given=["g"])
        assert known.fair
        assert check(known, train, test)
        assert compose_values(learn(train, given=["g"]), test).right.all()
        assert certify(train, test, given=["*"]).coverage == ()
        with pytest.raises(SpecError, match=r"given: no function is called 'q\*'"):
            certify(train, test, given=["q*"])

    def test_quoting_nodes_take_the_value_they_quote(self) -> None:
        # COPY at node 1 quotes node 0, in the second of two trees of one example.
        forest = Forest(
            np.array([0, 1, 2], np.int16), np.array([-1, 2 - 1, -1], np.int32), np.array([0, 1, 3]),
            ("3", "COPY", "f"), np.array([0, 1, 0], np.int32),
        )  # fmt: skip
        values = np.array([0, -1, 1], np.int16)
        corpus = Corpus(
            np.zeros(1, np.uint8),
            np.array([0, 1]),
            ("w",),
            forest,
            values,
            (3, 4),
            np.array([[0, 1]], np.int16),
            width=2,
        )
        certificate = certify(corpus, corpus)
        assert certificate.witnesses == (("f", (3,), 4, 0, 2),)
        assert check(certificate, corpus, corpus)
        assert compose_values(learn(corpus), corpus).right.all()
        with pytest.raises(FairnessError, match="certify against a test set"):
            certify(corpus)


class TestBadData:
    def test_conflicting_labels_name_both_places(self) -> None:
        train = corpus_of([("f", 1, ("x", "a")), ("g", 1, ("f", 2, ("x", "a")))])
        with pytest.raises(
            FairnessError, match=r"f\(a\) is 1 at example 0, node 1 \(tree\), but 2 at example 1, node 1"
        ):
            learn(train)
        (conflict,) = certify(train).conflicts
        assert conflict.outputs == (1, 2)
        assert [place.example for place in conflict.places] == [0, 1]
        assert learn(train, conflicts="record").table("f") == {}

    def test_train_and_test_that_contradict(self) -> None:
        train, test = corpus_of([("f", 1, ("x", "a"))]), corpus_of([("f", 2, ("x", "a"))])
        (conflict,) = certify(train, test).conflicts
        assert [place.split for place in conflict.places] == ["train", "test"]
        assert not certify(train, test).fair

    def test_a_missing_value_names_the_node(self) -> None:
        with pytest.raises(
            FairnessError, match=r"example 1, node 1 \(tree\.children\[0\]\), 'g': an inner node without"
        ):
            certify(corpus_of([("f", 1, ("x", "a")), ("f", 1, ("g", None, ("x", "a")), ("x", "b"))]))

    def test_by_node_needs_one_tree(self) -> None:
        with pytest.raises(FairnessError, match="example 1: this tree does not have the shape of those before it"):
            certify(corpus_of([("f", 1, ("x", "a")), ("f", 1, ("x", "a"), ("x", "a"))]), by="node")

    def test_a_cycle_in_the_arrays_is_refused(self) -> None:
        good = corpus_of([("f", 1, ("g", 1, ("x", "a")))])
        forest = Forest(good.forest.symbol, np.array([1, 0, -1], np.int32), good.forest.start, good.forest.names)
        cyclic = Corpus(
            good.tokens, good.token_start, good.vocabulary, forest, good.values, good.outcomes, good.targets
        )
        with pytest.raises(TreeError, match="tree 0, node 1: symbol, parent or link is out of place"):
            certify(cyclic)

    def test_a_quotation_that_says_otherwise(self) -> None:
        forest = Forest(
            np.array([0, 1, 2], np.int16), np.array([2, 2, -1], np.int32), np.array([0, 3]), ("3", "COPY", "f"),
            np.array([0, 1, 0], np.int32),
        )  # fmt: skip
        corpus = Corpus(
            np.zeros(1, np.uint8), np.array([0, 1]), ("w",), forest, np.array([0, 1, 1], np.int16), (3, 4),
            np.array([[1]], np.int16),
        )  # fmt: skip
        with pytest.raises(FairnessError, match="quotes another one but has a different value"):
            certify(corpus, corpus)

    def test_unknown_words_are_refused(self) -> None:
        corpus = corpus_of([("f", 1, ("x", "a"))])
        with pytest.raises(SpecError, match="by='tree'"):
            certify(corpus, by="tree")  # type: ignore[arg-type]
        with pytest.raises(SpecError, match="Did you mean"):
            learn(corpus_of([("first", 1, ("x", "a"))])).table("frst")


def test_a_mirror_task_loses_the_fact_that_was_named_and_no_other_that_looks_like_it(tmp_path):
    """1, 1.0, True and "1" are four inputs: dropping one keeps the rows of the others."""
    inputs = [1, True, 1.0, "1"]
    trees = [{"type": "NEXT", "value": row, "children": [{"value": value}]} for row, value in enumerate(inputs)]
    path = tmp_path / "alike.jsonl"
    path.write_text("".join(json.dumps({"id": str(row), "tree": tree}) + "\n" for row, tree in enumerate(trees)))
    corpus = pm.read(path)
    for dropped, value in enumerate(inputs):
        left = pm.fairness.mirror(corpus, ("NEXT", (value,)))
        assert left.ids == tuple(str(row) for row in range(4) if row != dropped)
    with pytest.raises(FairnessError, match=r"no example shows NEXT\(0\)"):
        pm.fairness.mirror(corpus, ("NEXT", (0,)))
