"""Composition trees, covers and folded lists, each against a slow twin on random problems."""

from __future__ import annotations

import doctest
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles_fairness as oracle
from pomona.base.errors import FairnessError, SpecError, SplitError, TreeError
from pomona.data.corpus import Corpus
from pomona.data.task import TASKS, corpus_of_trees, generate
from pomona.fairness import certify, check, compose_values, fair_for, fold, learn, minimal, mirror
from pomona.fairness.covering import cover
from pomona.fairness.folding import demonstration
from pomona.fairness.tables import find
from pomona.trees import brackets
from pomona.trees.forest import Forest
from pomona.trees.operators import steps
from strategies import listops_groves

FUNCTIONS, VALUES = ["f", "g", "h"], ["a", "b", 1, 2]


def corpus_of(trees: list[oracle.Node]) -> Corpus:
    """A corpus of node-labelled trees."""
    outcomes: dict[Any, int] = {}
    values: list[int] = []

    def nested(node: oracle.Node) -> Any:
        made = (node[0], *(nested(child) for child in node[2:])) if len(node) > 2 else node[0]
        values.append(-1 if node[1] is None else outcomes.setdefault(node[1], len(outcomes)))
        return made

    forest = Forest.from_nested([nested(tree) for tree in trees])
    known = np.array(values, np.int16)
    start = np.arange(len(trees) + 1, dtype=np.int64)
    tokens = np.arange(len(trees), dtype=np.uint32)
    vocabulary = tuple(f"t{row}" for row in range(len(trees)))
    return Corpus(tokens, start, vocabulary, forest, known, tuple(outcomes), known[forest.root][:, None])


def random_function(function: str, inputs: tuple[Any, ...], salt: int) -> Any:
    """A function of its inputs and nothing else: the same in train and test."""
    return VALUES[hash_of((function, *map(str, inputs), salt)) % 3]


def hash_of(parts: tuple[Any, ...]) -> int:
    total = 7
    for character in "|".join(map(str, parts)):
        total = (total * 131 + ord(character)) % 1_000_003
    return total


leaves = st.tuples(st.sampled_from(["x", "y"]), st.sampled_from([None, "a", 1]))
shapes = st.recursive(
    leaves,
    lambda child: st.tuples(st.sampled_from(FUNCTIONS), st.lists(child, min_size=1, max_size=3)).map(
        lambda node: (node[0], *node[1])
    ),
    max_leaves=7,
)


def is_leaf(shape: Any) -> bool:
    return shape[0] in ("x", "y")


def labelled(shape: Any, salt: int) -> oracle.Node:
    """A shape with the values of a random function at every inner node."""
    if is_leaf(shape):
        return shape
    children = [labelled(child, salt) for child in shape[1:]]
    output = random_function(shape[0], tuple(oracle.value(child) for child in children), salt)
    return (shape[0], output, *children)


consistent = st.tuples(
    st.lists(shapes, min_size=1, max_size=8), st.lists(shapes, min_size=1, max_size=5), st.integers(0, 9)
).map(lambda drawn: ([labelled(s, drawn[2]) for s in drawn[0]], [labelled(s, drawn[2]) for s in drawn[1]]))


def contradicted(trees: list[oracle.Node], which: int) -> list[oracle.Node]:
    """The same trees, and one of them again with another value at its root."""
    tree = trees[which % len(trees)]
    return [*trees, (tree[0], "a" if tree[1] != "a" else "b", *tree[2:])] if len(tree) > 2 else trees


def spoilt(data: Any, which: int, where: str) -> tuple[list[oracle.Node], list[oracle.Node]]:
    """Train and test that share some trees, one of the two perhaps contradicting itself."""
    train, test = data
    test = [*test, *train[:2]]
    return contradicted(train, which) if where == "train" else train, contradicted(
        test, which
    ) if where == "test" else test


any_data = st.tuples(consistent, st.integers(0, 7), st.sampled_from(["none", "train", "test"])).map(
    lambda drawn: spoilt(*drawn)
)


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
        with pytest.raises(FairnessError, match="example 1: this tree is not shaped like those before it"):
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
        with pytest.raises(FairnessError, match="quotes another one but has a value of its own"):
            certify(corpus, corpus)

    def test_unknown_words_are_refused(self) -> None:
        corpus = corpus_of([("f", 1, ("x", "a"))])
        with pytest.raises(SpecError, match="by='tree'"):
            certify(corpus, by="tree")  # type: ignore[arg-type]
        with pytest.raises(SpecError, match="Did you mean"):
            learn(corpus_of([("first", 1, ("x", "a"))])).table("frst")


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
        with pytest.raises(FairnessError, match="a list of 64 arguments"):
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
