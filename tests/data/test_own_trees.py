"""A stranger's own data: trees in JSONL, brackets and attribute tables, with values of any type."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pomona as pm
from pomona.base.errors import FormatError
from pomona.data.corpus import Corpus
from pomona.data.task import corpus_of_trees
from pomona.trees import brackets
from pomona.trees.values import exact_key, value_of_text
from strategies import listops_corpora

LEAF_VALUES = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(codec="utf-8", exclude_characters="\r"), min_size=1, max_size=4),
    st.lists(st.integers(0, 9) | st.booleans(), max_size=3),
)


@given(values=st.lists(LEAF_VALUES, min_size=1, max_size=6))
@settings(max_examples=60)
def test_the_text_of_a_leaf_is_its_value_and_its_type_may_be_left_out(folder: Path, values: list[object]) -> None:
    """With a type, without one, or with one that says the same: the tokens are the values, whatever their type."""
    texts = [str(tuple(value) if isinstance(value, list) else value) for value in values]
    leaves = [
        [{"type": "lit", "value": value} for value in values],
        [{"value": value} for value in values],
        [{"type": text, "value": value} for text, value in zip(texts, values, strict=True)],
    ]
    path = folder / "leaves.jsonl"
    path.write_text("".join(json.dumps({"tree": {"type": "S", "children": here}}) + "\n" for here in leaves))
    corpus = pm.read(path)
    assert [example.tokens for example in corpus] == [("[S", *texts, "]")] * 3
    assert corpus.forest[1:2].nested() == corpus.forest[2:3].nested() == [("S", *texts)]
    assert corpus.forest[0:1].nested() == [("S", *["lit"] * len(values))]
    again = pm.read(pm.write(corpus, folder / "again.jsonl"))
    assert again.fingerprint == corpus.fingerprint
    assert [exact_key(value) for value in again[1].values] == [exact_key(value) for value in corpus[1].values]


def test_the_documented_format_has_no_false_duplicates(folder: Path) -> None:
    """The eight sentences of docs/fairness.md as it writes them: types of leaves are alike, values are not."""
    path = folder / "sentences.jsonl"
    rows = []
    for left, unary, right in itertools.product("TF", "¬ε", "TF"):
        inner = right if unary == "ε" else "TF"[right == "T"]
        outer = "F" if (left, inner) == ("T", "F") else "T"
        below = [{"type": "op", "value": unary}, {"type": "lit", "value": right}]
        c1 = {"type": "C1", "value": inner, "children": below}
        children = [{"type": "lit", "value": left}, {"type": "op", "value": "⇒"}, c1]
        rows.append({"tree": {"type": "C2", "value": outer, "children": children}})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert pm.verify(path).problems == ()
    assert pm.read(path)[1].text == "[C2 T ⇒ [C1 ¬ F ] ]"
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, rows[0]]))
    assert [(fault.line, fault.kind) for fault in pm.verify(path).problems] == [(9, "duplicate")]


# -- trees in brackets -----------------------------------------------------------------------------------------------


def read_as(folder: Path, text: str | bytes, name: str = "own.txt") -> Corpus:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return pm.read(path)


def test_penn_trees_are_read_from_one_line_or_several(folder: Path) -> None:
    one = read_as(folder, "(S (NP (DT the) (NN cat)) (VP sat))\n(FRAG ( well then ) -RRB-)\n")
    several = read_as(folder, "\n( (S\n (NP (DT the)\n       (NN cat))\n (VP sat)))\n\n(FRAG (\twell then )\n-RRB-\n)")
    assert one.fingerprint == several.fingerprint
    assert one.forest.nested() == [
        ("S", ("NP", ("DT", "the"), ("NN", "cat")), ("VP", "sat")),
        ("FRAG", ("node", "well", "then"), "-RRB-"),
    ]
    assert one.texts == ["the cat sat", "well then -RRB-"]
    assert one.outcomes == ()
    assert (one.targets == -1).all()
    assert several.lines is not None
    assert several.lines.tolist() == [2, 7]
    assert one[0].target == ()
    assert pm.verify(folder / "own.txt").problems == ()


def test_numbers_are_values_and_operators_are_computed(folder: Path) -> None:
    scored = read_as(folder, "(3 (2 very) (3 good))\n(1 (2 4) (0 bad))\n")
    assert scored[1].target == (1,)
    assert scored[0].values == (None, 2, None, 3, 3)
    assert scored.texts == ["very good", "4 bad"]
    assert scored.forest[0:1].nested() == [("node", ("node", "very"), ("node", "good"))]
    lists = read_as(folder, "(MAX 2 9 (MIN 4 7) 0)\n(5)\n")
    assert lists.texts == ["[MAX 2 9 [MIN 4 7 ] 0 ]", "5"]
    assert [example.target for example in lists] == [(9,), (5,)]
    assert lists.fingerprint == corpus_of_trees(brackets.read(["[MAX 2 9 [MIN 4 7 ] 0 ]", "5"])).fingerprint


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("(S a b)\n(S a\n  (NP b)", (2, 1), "the bracket '(S' is never closed"),
        ("(S a b)\n (S a)) (S b)", (2, 7), "')' closes a bracket that was never opened"),
        ("(S a b)\n(S (NP) b)", (2, 4), "the bracket '(NP' is empty"),
        ("( )", (1, 1), "the bracket '(' is empty"),
        ("(S a b)\n\nloose words", (3, 1), "'loose' stands outside of all brackets"),
    ],
)
def test_faults_of_brackets_have_a_place(folder: Path, text: str, place: tuple[int, int], words: str) -> None:
    with pytest.raises(FormatError) as caught:
        read_as(folder, text)
    assert (caught.value.line, caught.value.column) == place
    assert str(caught.value).startswith(str(folder / "own.txt"))
    assert words in str(caught.value)


@given(corpus=listops_corpora)
@settings(max_examples=30)
def test_lists_are_restored_from_round_brackets(folder: Path, corpus: Corpus) -> None:
    assert pm.read(pm.write(corpus, folder / "lists.ptb")).fingerprint == corpus.fingerprint


# -- attributes ------------------------------------------------------------------------------------------------------


def test_a_table_of_attributes_is_trees_of_two_levels(folder: Path) -> None:
    text = 'shape,colour,target,id\ncircle,red,yes,a\n"dark, ""big"" square",7,no,b\n'
    corpus = read_as(folder, text, "own.csv")
    assert corpus[0].tokens == ("circle", "red")
    assert corpus[1].tokens == ('dark, "big" square', "7")
    assert corpus[1].values == ('dark, "big" square', 7, "no")
    assert corpus.forest[0:1].nested() == [("row", "shape", "colour")]
    assert [example.target for example in corpus] == [("yes",), ("no",)]
    assert corpus.ids == ("a", "b")
    assert read_as(folder, text.replace("target", "text"), "own.csv")[0].tokens == ("yes",)
    assert read_as(folder, "shape,colour\ncircle,red\n")[0].target == ()


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("a,b\n1,2\n3\n", (3, 1), "this row has 1 cells, the header 2 (a, b)"),
        ("a,b\n1,2,3\n", (2, 3), "this row has 3 cells, the header 2 (a, b)"),
        ("a,b\n1,\n", (2, 3), "the cell of 'b' is empty"),
        ('a,b\n1,"2\n3,4\n', (2, 3), "a quotation mark opens this cell and none closes it"),
        ('a,b\n"x\ny",2\n1,2"3\n', (4, 4), "'\"' inside a cell"),
        ("a,a\n1,2\n", (1, 3), "column 2 of the header is called 'a'"),
        ("a,\n1,2\n", (1, 3), "column 2 of the header has no name"),
        ("a,b\n", (1, None), "there is a header and no row below it"),
        ("a,b\n\n1,2\n", (2, 1), "the line is empty"),
        ("id,target\n1,2\n", (1, None), "there is no column but id, target; a part is a column"),
        ("id,b\n1,2\n1,3\n", (3, 1), "the id '1' is already on line 2"),
    ],
)
def test_faults_of_tables_have_a_place(folder: Path, text: str, place: tuple[int, int | None], words: str) -> None:
    with pytest.raises(FormatError) as caught:
        read_as(folder, text, "own.csv")
    assert (caught.value.line, caught.value.column) == place
    assert str(caught.value).startswith(str(folder / "own.csv"))
    assert words in str(caught.value)


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\r"), min_size=1, max_size=5).filter(str.strip)


@given(data=st.data())
@settings(max_examples=60)
def test_a_table_is_restored_whatever_its_cells(folder: Path, data: st.DataObject) -> None:
    names = data.draw(st.lists(CELLS.map(str.strip), min_size=1, max_size=4, unique=True))
    table = [names, *data.draw(st.lists(st.lists(CELLS, min_size=len(names), max_size=len(names)), min_size=1))]
    text = "".join(",".join('"' + cell.replace('"', '""') + '"' for cell in row) + "\n" for row in table)
    try:
        corpus = read_as(folder, text, "table.csv")
    except FormatError as error:
        assert set(names) & {"id", "target", "text"}, error  # noqa: PT017 - ids that are twice, a table without parts
        return
    parts = [number for number, name in enumerate(names) if name not in ("id", "target", "text")]
    for row, example in zip(table[1:], corpus, strict=True):
        assert [str(value) for value in example.values[:-1]] == [str(value_of_text(row[number])) for number in parts]
    assert pm.read(pm.write(corpus, folder / "again.csv")).fingerprint == corpus.fingerprint
