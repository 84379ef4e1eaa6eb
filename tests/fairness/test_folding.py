"""Smallest fair sets, and lists of digits as steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import oracles_fairness as oracle
from fairness_material import (
    consistent,
    corpus_of,
)
from pomona.base.errors import FairnessError, SplitError
from pomona.data.task import TASKS, corpus_of_trees, generate
from pomona.fairness import certify, check, compose_values, fair_for, fold, learn, minimal, mirror
from pomona.fairness.covering import cover
from pomona.fairness.folding import demonstration
from pomona.trees import brackets
from pomona.trees.forest import Forest
from pomona.trees.operators import steps
from strategies import listops_groves


class TestCovering:
    @settings(max_examples=100)
    @given(consistent)
    def test_minimal_sets_are_fair_and_no_larger_than_needed(self, data: Any) -> None:
        trees, _ = data
        corpus = corpus_of(trees)
        chosen = minimal(corpus, seconds=5)
        sets = [frozenset((f, i) for f, i, _ in oracle.local_facts(tree)) for tree in trees]
        assert certify(corpus[chosen.rows], corpus).fair
        assert chosen.exact
        assert len(chosen.rows) == oracle.smallest_cover(sets, frozenset().union(*sets))

    @settings(max_examples=100)
    @given(consistent)
    def test_bounds_hold_without_the_solver(self, data: Any) -> None:
        trees, _ = data
        quick = minimal(corpus_of(trees), seconds=0)
        sets = [frozenset((f, i) for f, i, _ in oracle.local_facts(tree)) for tree in trees]
        best = oracle.smallest_cover(sets, frozenset().union(*sets))
        assert quick.lower_bound == len(quick.apart) <= best <= len(quick.rows)
        assert all(len(one & set(quick.apart)) <= 1 for one in sets)

    def test_the_solver_improves_on_greed(self) -> None:
        # The classic trap: two rows of seven do, greed takes rows of eight, four and two.
        sets = [range(7), range(7, 14), [0, 1, 2, 3, 7, 8, 9, 10], [4, 5, 11, 12], [6, 13]]
        start, members = np.cumsum([0, *map(len, sets)]), np.array([fact for one in sets for fact in one])
        assert cover(start, members, 14, 0)[0].tolist() == [2, 3, 4]
        rows, _, bound = cover(start, members, 14, 5)
        assert (rows.tolist(), bound) == ([0, 1], 2)

    def test_for_a_test_set(self) -> None:
        pool = corpus_of([("f", 1, ("x", "a")), ("f", 2, ("x", "b")), ("g", 1, ("f", 1, ("x", "a")))])
        assert minimal(pool, pool[[0]]).rows.tolist() == [0]
        with pytest.raises(FairnessError, match=r"no row shows g\(1\), which the test set needs; 1 facts"):
            minimal(pool[[0, 1]], pool)

    def test_mirrors_lack_exactly_one_fact(self) -> None:
        train = generate("listops/d20s", size=3000, operators=["MIN", "MAX"], arguments=2, seed=5)
        everything = {one[:2] for one in certify(train).witnesses}
        without = mirror(train, ("MAX", (3, 7)))
        assert everything - {one[:2] for one in certify(without).witnesses} == {("MAX", (3, 7))}
        missing = certify(without, train).violations
        assert [one[:2] for one in missing] == [("MAX", (3, 7))]

    def test_a_mirror_that_would_lose_more_says_so_or_takes_from_a_pool(self) -> None:
        train = corpus_of([("g", 1, ("f", 1, ("x", "a"))), ("f", 2, ("x", "b"))])
        with pytest.raises(FairnessError, match=r"without f\(a\) training would lose g\(1\) as well"):
            mirror(train, ("f", ("a",)))
        pool = corpus_of([("g", 1, ("x", 1))])
        restored = mirror(train, ("f", ("a",)), pool)
        assert sorted(one[:2] for one in certify(restored).witnesses) == [("f", ("b",)), ("g", (1,))]
        with pytest.raises(FairnessError, match=r"no example shows h\(a\)"):
            mirror(train, ("h", ("a",)))


class TestFolding:
    @settings(max_examples=150)
    @given(listops_groves.filter(len))
    def test_transitions_are_those_of_the_oracle(self, grove: Any) -> None:
        corpus = corpus_of_trees(Forest.from_nested(grove))
        folded = fold(corpus)
        folded.forest.checked()
        facts = {}
        for step in steps(corpus.forest, corpus.values):
            for function, inputs, output in oracle.folded(step.operator, list(step.inputs)):
                facts[function, inputs] = output
        assert {one[:2]: one.output for one in certify(folded, folded).witnesses} == facts
        assert [e.values[-1] for e in folded] == [e.values[-1] for e in corpus]
        assert folded.keys.tolist() == corpus.keys.tolist()

    def test_ten_first_and_hundred_next_inputs_each(self) -> None:
        lists = [
            f"[{operator} {a} {b} ]"
            for operator in ("MIN", "MAX", "SM", "FIRST", "LAST")
            for a in range(10)
            for b in range(10)
        ]
        certificate = certify(fold(corpus_of_trees(brackets.read(lists))))
        assert certificate.fair
        assert {one.needed for one in certificate.coverage if one.function.endswith("next")} == {100}
        assert {one.needed for one in certificate.coverage if one.function.endswith("first")} == {10}

    def test_depth_generalisation_made_fair(self) -> None:
        task = TASKS.build("listops/depth-generalisation", {"train": 3000, "test": 300, "dev": 0, "iid": 0})
        train, test = generate(task, "train"), generate(task, "test")
        assert not certify(fold(train), fold(test)).fair
        whole, certificate = fair_for(train, test)
        assert certificate.fair
        assert check(certificate, fold(whole), fold(test))
        assert whole.nesting.max() < test.nesting.min()
        assert compose_values(learn(fold(whole)), fold(test)).right.all()
        assert fair_for(whole, test)[0] is whole
        lists, of_lists = fair_for(train, test, folded=False)
        assert of_lists.fair
        assert len(lists) > len(whole)

    def test_demonstrations_show_what_they_claim(self) -> None:
        for function, inputs in (("MED·next", ("{2,4}", 9)), ("MED·last", ("{1,1,5}",)), ("SM·first", (3,))):
            corpus = fold(corpus_of_trees(brackets.read(demonstration(function, inputs))))
            assert (function, inputs) in {one[:2] for one in certify(corpus).witnesses}

    def test_a_test_example_is_never_shown(self) -> None:
        train, test = (corpus_of_trees(brackets.read([text])) for text in ("[MAX 1 2 ]", "[MAX 3 4 ]"))
        with pytest.raises(SplitError, match=r"themselves test examples \(first: \[MAX 3 4 \]\)"):
            fair_for(train, test)

    def test_what_cannot_be_folded(self) -> None:
        with pytest.raises(FairnessError, match="'f' has no folded form; certify whole lists instead"):
            fold(corpus_of([("f", 1, ("1", 1))]))
        with pytest.raises(FairnessError, match="tree 0, node 0: not a digit"):
            fold(corpus_of([("MAX", 1, ("1", "one"))]))
        with pytest.raises(FairnessError, match="a list has 64 arguments"):
            fold(corpus_of_trees(brackets.read(f"[MED {'1 ' * 64}]")))


class TestListOpsAsPublished:
    """A sample of `listops/d20s`; the figures of the full data stand in docs/fairness.md."""

    def test_whole_lists_leave_much_open_and_transitions_little(self) -> None:
        train = generate("listops/d20s", "train", size=60_000)  # of 20,000, transitions answer nine tenths and no more
        test = generate("listops/d20s", "test", size=1_000)
        whole, folded = certify(train, test), certify(fold(train), fold(test))
        assert not whole.fair
        assert whole.answered is not None
        assert folded.answered is not None
        assert whole.answered < 0.5 * len(test) < 0.9 * len(test) < folded.answered
        assert {one.function for one in folded.violations} <= {"MED·next", "MED·last"}
        assert [one.needed for one in certify(train).coverage] == [111_100] * 4
