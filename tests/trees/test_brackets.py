"""Text and trees: reading undoes writing, writing undoes reading, and an error points at the character."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracles
from pomona.base.errors import TreeError
from pomona.trees import brackets
from pomona.trees.forest import Forest
from strategies import binary_trees, groves, trees, words

tokens = st.one_of(words, st.just("]"), words.map(lambda word: f"[{word}"))
grouped_trees = trees(tokens, st.just("")).filter(lambda tree: not isinstance(tree, str))


@given(groves)
def test_reading_undoes_writing(nested: list[Any]) -> None:
    forest = Forest.from_nested(nested)
    assert brackets.write(forest) == [oracles.to_text(tree) for tree in nested]
    assert brackets.read(brackets.write(forest)) == forest


@given(st.lists(st.one_of(grouped_trees, binary_trees()), max_size=4))
def test_reading_undoes_writing_of_groups(nested: list[Any]) -> None:
    texts = brackets.write(Forest.from_nested(nested))
    assert texts == [oracles.to_text(tree) for tree in nested]
    assert brackets.read(texts).checked().nested() == nested == [oracles.parse(text) for text in texts]


@given(groves.map(lambda nested: [oracles.to_text(tree) for tree in nested]))
def test_writing_undoes_reading_however_it_was_spaced(texts: list[str]) -> None:
    assert brackets.read(texts).checked().nested() == [oracles.parse(text) for text in texts]
    assert brackets.write(brackets.read(texts)) == texts
    for spaced in (lambda text: text.replace(" ]", "]"), lambda text: "\t" + text.replace(" ", " \n ") + "  "):
        assert brackets.write(brackets.read(map(spaced, texts))) == texts


@given(st.text("[]() MA19\t", max_size=30))
def test_any_text_is_a_tree_or_an_error_with_a_column(text: str) -> None:
    error = None
    try:
        forest = brackets.read(text)
    except TreeError as caught:
        error = caught
    if error is None:
        assert brackets.read(brackets.write(forest.checked())) == forest
    else:
        assert error.column is not None
        assert 1 <= error.column <= len(text) + 1
        assert str(error).startswith(f"column {error.column}: ")


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("", 1, "there is no tree in an empty text"),
        (" \t ", 1, "there is no tree in an empty text"),
        ("]", 1, "']' closes a list that was never opened"),
        (")", 1, "')' in a text of square brackets"),
        ("[MAX 1 2 ] ]", 12, "']' comes after the end of the tree"),
        ("[MAX 1 2 ] 7", 12, "'7' comes after the end of the tree"),
        ("1 2", 3, "'2' comes after the end of the tree"),
        ("[MAX 1 [MIN 2 ]", 16, "the text ends before the list opened at column 1 is closed"),
        ("[MAX 1 [MIN 2", 14, "the text ends before the list opened at column 8 is closed"),
        ("[MAX 1 [MIN ] ]", 13, "the list opened at column 8 is empty"),
        ("[MAX 1 [ 2 ] ]", 8, "'[' without an operator: write [MAX 2 9 ]"),
        ("[MAX 1 ( 2 ) ]", 8, "'(' in a text of square brackets"),
        ("[MAX 1 2 )", 10, "')' in a text of square brackets"),
        ("( a ( ) )", 7, "the list opened at column 5 is empty"),
        ("( a b ) )", 9, "')' comes after the end of the tree"),
        ("  ( a ( b )", 12, "the text ends before the list opened at column 3 is closed"),
    ],
)
def test_errors_point_at_the_character(text: str, column: int, message: str) -> None:
    with pytest.raises(TreeError) as caught:
        brackets.read(text)
    assert str(caught.value) == f"column {column}: {message}"
    assert caught.value.column == column


def test_of_several_texts_the_error_names_the_one() -> None:
    with pytest.raises(TreeError) as caught:
        brackets.read(["1", "[MAX 1 2 ]", "[MAX ]"])
    assert str(caught.value) == "text 2, column 6: the list opened at column 1 is empty"
    assert caught.value.column == 6


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (("A", "b c"), "tree 1 cannot be written as lists: a leaf is called 'b c'"),
        (("A", ""), "tree 1 cannot be written as lists: a leaf is called ''"),
        (("A", "]"), "tree 1 cannot be written as lists: a leaf is called ']'"),
        (("A", ("", "b")), "tree 1 cannot be written as lists: a list is called ''"),
        (("A(", "b"), "tree 1 cannot be written as lists: a list is called 'A('"),
        (("", ("A", "b")), "tree 1 cannot be written as groups: a list is called 'A'"),
        (("", "(", "b"), "tree 1 cannot be written as groups: a leaf is called '('"),
        ("[MAX", "tree 1 cannot be written as lists: a leaf is called '[MAX'"),
    ],
)
def test_what_could_not_be_read_back_is_not_written(tree: Any, message: str) -> None:
    with pytest.raises(TreeError) as caught:
        brackets.write(Forest.from_nested(["fine", tree]))
    assert str(caught.value) == message


@pytest.mark.parametrize(("opening", "closing"), [("[MIN", "]"), ("(", ")")])
def test_a_hundred_thousand_deep(opening: str, closing: str) -> None:
    deep = " ".join([opening] * 100_000 + ["1"] + [closing] * 100_000)
    forest = brackets.read(deep).checked()
    assert int(forest.height.max()) == 100_000
    assert brackets.write(forest) == [deep]
    with pytest.raises(TreeError, match=r"^column \d+: the text ends before the list opened at column \d+ is closed$"):
        brackets.read(deep[:-1])


def test_names_given_first_keep_their_numbers() -> None:
    forest = brackets.read("[MAX 2 9 ]", names=["9", "MAX"])
    assert forest.names == ("9", "MAX", "2")
    assert forest.symbol.tolist() == [2, 0, 1]


@given(groves)
def test_the_walk_is_the_text(nested: list[Any]) -> None:
    forest = Forest.from_nested(nested)
    symbol, kind, start = brackets.walk(forest)
    for number, tree in enumerate(nested):
        expected = [
            (token.lstrip("["), brackets.OPEN) if token.startswith("[") else (token, brackets.LEAF)
            for token in oracles.to_text(tree).split()
        ]
        got = zip(symbol[start[number] : start[number + 1]], kind[start[number] : start[number + 1]], strict=True)
        for (name, what), (token, action) in zip(expected, got, strict=True):
            if name == "]":
                assert action == brackets.CLOSE
            else:
                assert (forest.names[forest.symbol[token]], action) == (name, what)
