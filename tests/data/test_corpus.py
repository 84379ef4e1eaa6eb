"""Corpora: parts of them are what a list of rows would give, and the fingerprint knows content and nothing else."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
import pomona as pm
from pomona.base.errors import FormatError
from pomona.data.corpus import FIELDS, Corpus, Fingerprint, codes
from pomona.data.task import corpus_of_trees
from pomona.trees.forest import Forest
from pomona.trees.operators import Operator
from strategies import corpora, listops_corpora

Row = tuple[Any, ...]


def rows_of(corpus: Corpus) -> list[Row]:
    """Each row, read off the columns one by one: the slow twin of every way to cut a corpus.

    `repr` tells 1 from True.
    """
    found = []
    for row in range(len(corpus)):
        tokens = corpus.tokens[corpus.token_start[row] : corpus.token_start[row + 1]]
        first, last = corpus.forest.start[row * corpus.width], corpus.forest.start[(row + 1) * corpus.width]
        nodes = range(int(first), int(last))
        found.append(
            (
                [corpus.vocabulary[token] for token in tokens],
                [corpus.forest.names[corpus.forest.symbol[node]] for node in nodes],
                [int(corpus.forest.parent[node]) for node in nodes],
                [int(corpus.forest.links[node]) for node in nodes],
                [None if corpus.values[node] < 0 else repr(corpus.outcomes[corpus.values[node]]) for node in nodes],
                [None if value < 0 else repr(corpus.outcomes[value]) for value in corpus.targets[row]],
                None if corpus.ids is None else corpus.ids[row],
                {name: column[row].tolist() for name, column in corpus.columns.items()},
            )
        )
    return found


def shuffled(corpus: Corpus, seed: int) -> Corpus:
    """The same rows under other tables: vocabulary, names and outcomes in another order, with words never used."""
    random = np.random.default_rng(seed)

    def table(words: tuple[Any, ...], spare: Any) -> tuple[tuple[Any, ...], np.ndarray[Any, Any]]:
        longer = [*words, spare] if spare not in words else list(words)
        order = random.permutation(len(longer))
        new = tuple(longer[place] for place in order)
        shown = [repr(word) for word in new]
        return new, np.array([*(shown.index(repr(word)) for word in words), -1])  # unknown, -1, reads the last one

    vocabulary, token = table(corpus.vocabulary, "never")
    names, symbol = table(corpus.forest.names, "NEVER")
    outcomes, value = table(corpus.outcomes, "no outcome")
    forest = dataclasses.replace(corpus.forest, symbol=symbol[corpus.forest.symbol].astype(np.int16), names=names)
    return dataclasses.replace(
        corpus,
        tokens=token[corpus.tokens].astype(np.uint16),
        vocabulary=vocabulary,
        forest=forest,
        values=value[corpus.values].astype(np.int16),
        outcomes=outcomes,
        targets=value[corpus.targets].astype(np.int16),
    )


# -- parts -----------------------------------------------------------------------------------------------------------


@given(corpora(), st.data())
@settings(max_examples=50)
def test_every_way_of_cutting_gives_those_rows(corpus: Corpus, data: st.DataObject) -> None:
    rows = rows_of(corpus)
    piece = data.draw(st.slices(len(corpus)))
    assert rows_of(corpus[piece]) == rows[piece]
    numbers = data.draw(st.lists(st.integers(-len(rows), len(rows) - 1), max_size=5))
    assert rows_of(corpus[numbers]) == [rows[number] for number in numbers]
    assert rows_of(corpus.take(np.array(numbers, np.int64))) == [rows[number] for number in numbers]
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))), bool)
    assert rows_of(corpus[mask]) == [row for row, kept in zip(rows, mask, strict=True) if kept]


@given(corpora())
@settings(max_examples=50)
def test_examples_hold_what_the_columns_hold(corpus: Corpus) -> None:
    rows = rows_of(corpus)
    examples = list(corpus)
    assert len(examples) == len(corpus) == len(rows)
    for number, (one, row) in enumerate(zip(examples, rows, strict=True)):
        assert list(one.tokens) == row[0]
        assert [one.trees.names[symbol] for symbol in one.trees.symbol] == row[1]
        assert one.trees.parent.tolist() == row[2]
        assert [None if value is None else repr(value) for value in one.values] == row[4]
        assert list(map(repr, one.target)) == [value for value in row[5] if value is not None]
        assert one.id == (one.key if row[6] is None else row[6])
        assert one.length == len(row[0]) == corpus.lengths[number]
        assert one.text == corpus.texts[number] == " ".join(row[0])
        assert corpus[number].key == corpus[number - len(corpus)].key == one.key


@given(listops_corpora)
@settings(max_examples=50)
def test_the_depths_of_an_example_are_those_of_its_tree(corpus: Corpus) -> None:
    for one, tree in zip(corpus, corpus.forest.nested(), strict=True):
        assert one.text == oracles.to_text(tree)
        assert one.target == (oracles.evaluate(tree),)
        assert list(one.values) == [oracles.evaluate(part) for part in oracles.subtrees(tree)]
        assert one.nesting == oracles.height(tree)
        assert one.dependency == oracles.dependency(tree)


@given(listops_corpora, st.data())
@settings(max_examples=50)
def test_without_values_every_argument_counts(corpus: Corpus, data: st.DataObject) -> None:
    """What decides is not known then, so the dependency depth is the nesting depth, never a number from nowhere."""
    values = corpus.values.copy()
    values[data.draw(st.integers(0, len(values) - 1))] = -1
    blinded = dataclasses.replace(corpus, values=values)
    touched = corpus.forest.tree[np.flatnonzero(values < 0)[0]]
    expected = np.where(np.arange(len(corpus)) == touched, corpus.nesting, corpus.dependency)
    assert blinded.dependency.tolist() == expected.tolist()


def test_wrong_values_do_not_give_absurd_depths() -> None:
    corpus = corpus_of_trees(Forest.from_nested([("MAX", "1", "2")]))
    assert dataclasses.replace(corpus, values=np.array([1, 2, 7], np.int16)).dependency.tolist() == [1]


def test_the_repr_of_an_example_shows_the_question_the_answer_and_the_tree() -> None:
    shown = repr(corpus_of_trees(Forest.from_nested([("MAX", "2", "9", ("MIN", "4", "7"))]))[0])
    assert shown.startswith("[MAX 2 9 [MIN 4 7 ] ]  ->  9\n")
    assert "MIN" in shown.split("\n", 1)[1]


def test_the_repr_of_a_corpus_says_where_it_is_from() -> None:
    corpus = pm.generate("listops/d20s", split="dev", seed=1, train=5, dev=5, test=5)
    assert repr(corpus) == f"Corpus(listops, dev: 5 examples, {len(corpus.tokens):,} tokens)"
    assert repr(dataclasses.replace(corpus, origin={})).startswith("Corpus(corpus: 5 examples")


def test_rows_that_are_not_there() -> None:
    corpus = corpus_of_trees(Forest.from_nested(["1", "2"]))
    with pytest.raises(IndexError, match="row 2 of a corpus of 2"):
        corpus[2]
    with pytest.raises(IndexError, match="row -3 of a corpus of 2"):
        corpus[-3]
    with pytest.raises(IndexError, match="row 2 of 2"):
        corpus[[0, 2]]
    with pytest.raises(IndexError, match="a mask of 3 rows for a corpus of 2"):
        corpus[np.ones(3, bool)]


def test_columns_that_do_not_fit() -> None:
    corpus = corpus_of_trees(Forest.from_nested(["1", "2"]))
    with pytest.raises(FormatError, match="2 examples of 1 trees need as many targets and trees; got 1 targets and 2"):
        dataclasses.replace(corpus, targets=corpus.targets[:1])
    with pytest.raises(FormatError, match="2 nodes need as many values; got 1"):
        dataclasses.replace(corpus, values=corpus.values[:1])
    with pytest.raises(FormatError, match="'score' cannot be a column of this corpus: it has 3 rows of 2"):
        dataclasses.replace(corpus, columns={"score": np.zeros(3)})
    for name in FIELDS:
        with pytest.raises(FormatError, match=f"'{name}' cannot be a column of this corpus: that name has another"):
            dataclasses.replace(corpus, columns={name: np.zeros(2)})


# -- joining ---------------------------------------------------------------------------------------------------------


@given(corpora(), st.integers(0, 2**32), st.data())
@settings(max_examples=50)
def test_joining_undoes_cutting_whatever_the_tables(corpus: Corpus, seed: int, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(corpus)))
    joined = Corpus.concatenate([corpus[:cut], shuffled(corpus[cut:], seed)])
    assert rows_of(joined) == rows_of(corpus)
    assert joined.fingerprint == corpus.fingerprint
    assert joined.keys.tolist() == corpus.keys.tolist()


def test_joining_many_words_keeps_them_apart() -> None:
    """More words than a byte, or two, can number: each step to a wider number is crossed."""
    parts = []
    for part in range(3):
        grove = [str(number) for number in range(part * 30_000, part * 30_000 + 30_000)]
        forest = Forest.from_nested(["0"] * len(grove))
        words = np.arange(len(grove), dtype=np.uint16)
        start = np.arange(len(grove) + 1)
        nothing = np.full(len(grove), -1, np.int16)
        parts.append(Corpus(words, start, tuple(grove), forest, nothing, (), nothing[:, None]))
    for some in ([parts[0][:200], parts[0][200:400]], parts):
        joined = Corpus.concatenate(some)
        assert joined.texts == [text for part in some for text in part.texts]


def test_what_cannot_be_joined() -> None:
    one = corpus_of_trees(Forest.from_nested(["1", "2"]))
    two = dataclasses.replace(one, width=2, token_start=np.array([0, 2]), targets=one.targets.reshape(1, 2))
    with pytest.raises(FormatError, match=r"corpora with \[1, 2\] trees an example cannot be joined"):
        Corpus.concatenate([one, two])
    with pytest.raises(FormatError, match=r"corpora with \[1, 2\] targets an example cannot be joined"):
        Corpus.concatenate([one, dataclasses.replace(one, targets=np.zeros((2, 2), np.int16))])
    with pytest.raises(FormatError, match="there are no corpora to join"):
        Corpus.concatenate([])


def test_joining_keeps_what_all_parts_have() -> None:
    part = corpus_of_trees(Forest.from_nested(["1", "2"]))
    with_more = dataclasses.replace(
        part, ids=("a", "b"), lines=np.array([4, 5]), columns={"x": np.arange(2), "y": np.arange(2)}
    )
    joined = Corpus.concatenate([with_more, dataclasses.replace(with_more, columns={"x": np.arange(2)})])
    assert joined.ids == ("a", "b", "a", "b")
    assert joined.lines is not None
    assert joined.lines.tolist() == [4, 5, 4, 5]
    assert {name: column.tolist() for name, column in joined.columns.items()} == {"x": [0, 1, 0, 1]}
    assert Corpus.concatenate([with_more, part]).ids is None
    assert Corpus.concatenate([with_more, part]).lines is None


# -- keys and fingerprint --------------------------------------------------------------------------------------------


@given(corpora(), st.integers(0, 2**32))
@settings(max_examples=50)
def test_keys_and_fingerprint_do_not_see_the_tables(corpus: Corpus, seed: int) -> None:
    other = shuffled(corpus, seed)
    assert other.keys.tolist() == corpus.keys.tolist()
    assert other.fingerprint == corpus.fingerprint


@given(corpora(), st.data())
@settings(max_examples=50)
def test_the_fingerprint_does_not_see_chunks_ids_lines_columns_or_origin(corpus: Corpus, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(corpus)), max_size=3)))
    grown = Fingerprint()
    for low, high in zip([0, *cuts], [*cuts, len(corpus)], strict=True):
        part = corpus[low:high]
        if data.draw(st.booleans()) and not part.forest.links.any():  # no links, said by a column or by none
            part = dataclasses.replace(part, forest=dataclasses.replace(part.forest, link=None))
        grown.update(part)
    assert grown.hexdigest() == corpus.fingerprint
    bare = dataclasses.replace(corpus, ids=None, lines=None, columns={}, origin={"task": "another"})
    assert bare.fingerprint == corpus.fingerprint


@given(corpora(), st.data())
@settings(max_examples=120)
def test_the_fingerprint_sees_every_change_of_content(corpus: Corpus, data: st.DataObject) -> None:
    """Two corpora have the same fingerprint exactly if their rows are the same, changed in one place or not."""
    table = {
        "tokens": (len(corpus.tokens), len(corpus.vocabulary), 0),
        "values": (len(corpus.values), len(corpus.outcomes), -1),
        "targets": (corpus.targets.size, len(corpus.outcomes), -1),
        "symbol": (len(corpus.forest.symbol), len(corpus.forest.names), 0),
        "link": (len(corpus.forest.symbol), 3, 0),
    }
    name = data.draw(st.sampled_from([name for name, (size, _, _) in table.items() if size]))
    size, most, least = table[name]
    place, new = data.draw(st.integers(0, size - 1)), data.draw(st.integers(least, most - 1))
    inside = name in ("symbol", "link")
    column = np.array(corpus.forest.links if name == "link" else getattr(corpus.forest if inside else corpus, name))
    column.reshape(-1)[place] = new
    changed = (
        dataclasses.replace(corpus, forest=dataclasses.replace(corpus.forest, **{name: column}))
        if inside
        else dataclasses.replace(corpus, **{name: column})
    )
    same = [row[:6] for row in rows_of(changed)] == [row[:6] for row in rows_of(corpus)]
    assert (changed.fingerprint == corpus.fingerprint) == same


def test_the_fingerprint_sees_shape_order_and_where_rows_end() -> None:
    def mark(grove: list[Any]) -> str:
        return corpus_of_trees(Forest.from_nested(grove)).fingerprint

    groves = [
        [("SM", "1", "1", "1")],
        [("SM", ("SM", "1", "1"), "1")],
        [("SM", "1", ("SM", "1", "1"))],
        ["1", "2"],
        ["2", "1"],
        ["1"],
        ["1", "2", "2"],
    ]
    assert len({mark(grove) for grove in groves}) == len(groves)
    two = corpus_of_trees(Forest.from_nested(["1", "2"]))
    moved = [dataclasses.replace(two, token_start=np.array([0, cut, 2])).fingerprint for cut in range(3)]
    assert len(set(moved)) == 3


def test_numbers_and_strings_that_look_alike_differ() -> None:
    corpus = corpus_of_trees(Forest.from_nested(["1"]))
    assert dataclasses.replace(corpus, outcomes=tuple("0123456789")).fingerprint != corpus.fingerprint


def test_words_run_together_have_other_keys() -> None:
    """A key rests on the tokens, not on their letters in a row."""
    corpus = corpus_of_trees(Forest.from_nested(["1", "2"]))
    words = [("a", "bc"), ("ab", "c"), ("a b", "c"), ("abc",)]
    keys = set()
    for tokens in words:
        number = np.arange(len(tokens), dtype=np.uint8)
        row = dataclasses.replace(corpus[:1], tokens=number, token_start=np.array([0, len(tokens)]), vocabulary=tokens)
        keys.add(row[0].key)
    assert len(keys) == len(words)
    assert len(set(codes(tuple(map(str, range(10_000)))).tolist())) == 10_000


@given(st.lists(st.sampled_from(["1", "2", ("SM", "1", "2"), ("SM", "2", "1")]), min_size=1, max_size=8))
def test_duplicates_are_the_rows_seen_before(grove: list[Any]) -> None:
    corpus = corpus_of_trees(Forest.from_nested(grove))
    assert corpus.duplicates().tolist() == [row for row, tree in enumerate(grove) if tree in grove[:row]]


@given(listops_corpora)
@settings(max_examples=50)
def test_labels_count_the_targets(corpus: Corpus) -> None:
    answers = [one.target[0] for one in corpus]
    assert corpus.labels() == {str(digit): answers.count(digit) for digit in range(10)}
    assert dataclasses.replace(corpus, targets=np.full_like(corpus.targets, -1)).labels() == dict.fromkeys(
        map(str, range(10)), 0
    )


# -- corpora of trees --------------------------------------------------------------------------------------------------


def test_a_corpus_of_trees_has_the_values_that_its_operators_give() -> None:
    both = Operator(
        "BOTH", all, lambda xs: [(place,) for place, x in enumerate(xs) if not x] or [tuple(range(len(xs)))]
    )
    forest = Forest.from_nested([("BOTH", "yes", ("BOTH", "yes", "no")), "yes", ("BOTH", "no", ("BOTH", "yes", "no"))])
    leaves = {"yes": True, "no": False}
    corpus = Corpus.of_trees(forest, leaves, operators={"BOTH": both}, origin={"task": "both"})
    assert corpus.texts == ["[BOTH yes [BOTH yes no ] ]", "yes", "[BOTH no [BOTH yes no ] ]"]
    assert [example.target for example in corpus] == [(False,), (True,), (False,)]
    assert corpus.outcomes == (False, True)
    assert corpus.origin == {"task": "both"}
    declared = Corpus.of_trees(forest, leaves.__getitem__, operators={"BOTH": both}, outcomes=("unused", True, 1))
    assert list(map(repr, declared.outcomes)) == ["'unused'", "True", "1", "False"]
    assert declared.fingerprint == corpus.fingerprint


def test_the_table_of_values_does_not_depend_on_which_example_came_first() -> None:
    grove = ["b", "a", "10", "9", "c"]
    tables = [Corpus.of_trees(Forest.from_nested(order)).outcomes for order in (grove, grove[::-1], sorted(grove))]
    assert tables == [(9, 10, "a", "b", "c")] * 3
    assert Corpus.of_trees(Forest.from_nested(["7"])).outcomes == tuple(range(10))
