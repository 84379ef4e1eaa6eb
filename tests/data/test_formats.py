"""Reading undoes writing, in every format, for everything the format can hold; the rest is refused, not bent."""

from __future__ import annotations

import dataclasses
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_corpus import rows_of

import oracles
import pomona as pm
from pomona.base import deep_json
from pomona.base.errors import FormatError
from pomona.data import formats
from pomona.data.corpus import Corpus
from pomona.data.task import corpus_of_trees
from pomona.tasks.listops import text as listops_text
from pomona.trees.forest import Forest
from pomona.trees.operators import Operator, define_operator
from strategies import corpora, listops_corpora

ALL = ["jsonl", "lra", "parquet", "tsv"]
FULL = ["jsonl", "parquet"]  # hold anything
LINES = ["lra", "tsv"]  # hold ListOps


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("formats")


@pytest.fixture(scope="module")
def listops() -> Corpus:
    return pm.generate("listops/d20s", split="test", seed=5, train=100, dev=20, test=40)


# -- round trips -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FULL)
@given(corpus=corpora())
@settings(max_examples=80)
def test_any_corpus_comes_back(folder: Path, name: str, corpus: Corpus) -> None:
    path = pm.write(corpus, folder / "any", name)
    again = pm.read(path)
    assert rows_of(again) == rows_of(corpus)
    assert again.fingerprint == corpus.fingerprint
    assert again.keys.tolist() == corpus.keys.tolist()
    assert [one.id for one in again] == [one.id for one in corpus]
    first = path.read_bytes()
    assert (
        pm.write(again, path, name).read_bytes() == first or name == "parquet"
    )  # there tables may be in another order


@pytest.mark.parametrize("name", ALL)
@given(corpus=listops_corpora)
@settings(max_examples=50)
def test_listops_comes_back_with_everything_worked_out(folder: Path, name: str, corpus: Corpus) -> None:
    again = pm.read(pm.write(corpus, folder / "listops", name))
    assert rows_of(again) == rows_of(corpus)
    assert again.fingerprint == corpus.fingerprint
    assert again.dependency.tolist() == corpus.dependency.tolist()
    assert again.outcomes == tuple(range(10))


@given(corpus=listops_corpora)
@settings(max_examples=30)
def test_lines_are_the_binary_tree_in_round_brackets(corpus: Corpus) -> None:
    """Against the slow twin: binarise to the left, operator first and `]` last, every token a leaf."""
    written = b"".join(map(bytes, listops_text.lines(corpus, source_first=False, path="x"))).decode()
    trees = corpus.forest.nested()
    slow = [f"{oracles.evaluate(tree)}\t{oracles.to_text(oracles.binarise(tree, 'left', True))}\n" for tree in trees]
    assert written == "".join(slow)
    bare = b"".join(map(bytes, listops_text.lines(corpus, source_first=True, path="x", grouped=False))).decode()
    assert bare == "".join(f"{oracles.to_text(tree)}\t{oracles.evaluate(tree)}\n" for tree in trees)
    again = listops_text.parse(bare.encode(), source_first=True, path="x")
    assert again.fingerprint == corpus.fingerprint


@pytest.mark.parametrize(("first", "second"), list(itertools.permutations(ALL, 2)))
def test_from_format_to_format_the_fingerprint_stays(folder: Path, listops: Corpus, first: str, second: str) -> None:
    middle = pm.read(pm.write(listops, folder / "one", first))
    end = pm.read(pm.write(middle, folder / "two", second))
    assert end.fingerprint == middle.fingerprint == listops.fingerprint
    assert rows_of(end) == rows_of(listops)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("cut", [1, 7, 40])
def test_chunks_do_not_show(folder: Path, listops: Corpus, name: str, cut: int) -> None:
    whole = pm.read(pm.write(listops, folder / "whole", name))
    parts = (listops[low : low + cut] for low in range(0, len(listops), cut))
    assert rows_of(pm.read(pm.write(parts, folder / "parts", name))) == rows_of(whole)


def test_the_published_file_comes_back_byte_by_byte(folder: Path, data_folder: Path) -> None:
    original = data_folder / "listops" / "test_d20s.tsv"
    corpus = pm.read(original)
    assert len(corpus) == 10_000
    assert pm.write(corpus, folder / "again.tsv").read_bytes() == original.read_bytes()
    through = pm.read(pm.write(corpus, folder / "through.parquet"))
    assert pm.write(through, folder / "through.tsv").read_bytes() == original.read_bytes()


@pytest.mark.parametrize("name", FULL)
def test_lists_of_one_row_are_not_mixed_up_with_none(folder: Path, name: str) -> None:
    """Numbers and strings that look alike, -1 as an outcome beside unknown ones, and numbers beyond 16 bits."""
    forest = Forest.from_nested(["a", "b", "c", "d"])
    for outcomes in [(1, "1", '"1"'), (-1, 0, 5), (0, 2**40, -(2**40)), ("", "null", "-1"), ()]:
        values = np.array([-1, *range(len(outcomes)), -1, -1, -1][:4], np.int16)
        words, start = np.arange(4, dtype=np.uint8), np.arange(5)
        corpus = Corpus(words, start, ("a", "b", "c", "d"), forest, values, outcomes, values[:, None])
        assert rows_of(pm.read(pm.write(corpus, folder / "alike", name))) == rows_of(corpus)


@pytest.mark.parametrize("name", FULL)
def test_large_vocabularies_come_back(folder: Path, name: str) -> None:
    words = tuple(f"w{number}" for number in range(200_000))
    forest = Forest.from_nested(["0"])
    start = np.array([0, len(words)])
    corpus = Corpus(
        np.arange(len(words), dtype=np.uint32),
        start,
        words,
        forest,
        np.array([0], np.int16),
        (0,),
        np.zeros((1, 1), np.int16),
    )
    assert pm.read(pm.write(corpus, folder / "words", name)).texts == corpus.texts


@pytest.mark.parametrize("name", ALL)
def test_equal_rows_come_back_as_equal_rows(folder: Path, name: str) -> None:
    """A content key stands twice where a row does: that is for `verify` to find, not a file that cannot be read."""
    corpus = corpus_of_trees(Forest.from_nested(["1", ("SM", "1", "2"), "1"]))
    again = pm.read(pm.write(corpus, folder / "twice", name))
    assert again.ids is None
    assert again.duplicates().tolist() == [2]


# -- what stands in the files ----------------------------------------------------------------------------------------


def test_jsonl_is_what_its_table_says(folder: Path) -> None:
    corpus = corpus_of_trees(Forest.from_nested([("MAX", "2", "9")]))
    corpus = dataclasses.replace(corpus, ids=("mine",), columns={"score": np.array([0.5])})
    assert json.loads(pm.write(corpus, folder / "one.jsonl").read_text()) == {
        "id": "mine",
        "tokens": ["[MAX", "2", "9", "]"],
        "target": [9],
        "tree": {"type": "MAX", "value": 9, "children": [{"type": "2", "value": 2}, {"type": "9", "value": 9}]},
        "length": 4,
        "nesting": 1,
        "dependency": 1,
        "score": 0.5,
    }


def test_anybodys_jsonl_needs_only_a_tree(folder: Path) -> None:
    path = folder / "theirs.jsonl"
    path.write_text(
        '{"tree": {"type": "S", "value": "pos", "children": [{"type": "very"}, {"type": "good", "value": "pos"}]}}\n'
        '{"text": "so so", "target": null, "tree": {"type": "so", "value": 0, "children": null}}\n'
    )
    corpus = pm.read(path)
    assert [one.tokens for one in corpus] == [("[S", "very", "pos", "]"), ("so", "so")]
    assert [one.values for one in corpus] == [(None, "pos", "pos"), (0,)]
    assert [one.target for one in corpus] == [("pos",), (0,)]
    assert corpus.lines is not None
    assert corpus.lines.tolist() == [1, 2]
    assert corpus[0].id == corpus[0].key


def test_parquet_is_plain_lists_for_other_readers(folder: Path, listops: Corpus) -> None:
    path = pm.write(listops, folder / "plain.parquet")
    table = pq.read_table(path)
    row, one = table.slice(3, 1).to_pylist()[0], listops[3]
    assert (row["tokens"], row["target"], row["values"]) == (list(one.tokens), list(one.target), list(one.values))
    assert (row["id"], row["length"], row["nesting"]) == (one.key, one.length, one.nesting)
    about = json.loads(pq.read_metadata(path).metadata[b"pomona"])
    assert about["fingerprint"] == listops.fingerprint
    assert about["rows"] == len(listops)
    assert about["origin"]["task"] == "listops"
    assert about["origin"]["seed"] == 5
    column = pq.ParquetFile(path).metadata.row_group(0).column(0)
    assert column.compression == "ZSTD"


def test_parquet_remembers_where_the_rows_came_from(folder: Path, listops: Corpus) -> None:
    path = pm.write(listops, folder / "origin.parquet")
    assert pm.read(path).origin == {**listops.origin, "path": str(path)}
    again = pm.read(pm.write(pm.read(path), folder / "moved.parquet"))
    assert again.origin["path"] == str(folder / "moved.parquet")


# -- recognition -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_files_are_known_by_content_not_by_name(folder: Path, listops: Corpus, name: str) -> None:
    path = pm.write(listops, folder / "called.something", name)
    assert formats.recognise(path).name == name
    assert pm.read(path).fingerprint == listops.fingerprint


@pytest.mark.parametrize(("path", "name"), [("a.tsv", "tsv"), ("a.lra.tsv", "lra"), ("a.parquet", "parquet")])
def test_the_suffix_chooses_the_format(folder: Path, listops: Corpus, path: str, name: str) -> None:
    assert formats.recognise(pm.write(listops[:2], folder / path)).name == name


def test_names_that_tell_no_format(folder: Path, listops: Corpus) -> None:
    with pytest.raises(FormatError, match=r"rows\.txt: the name does not tell the format; end it in one of \.csv"):
        pm.write(listops, folder / "rows.txt")
    with pytest.raises(FormatError, match=r"no format is called 'parket'\. Did you mean 'parquet'\?"):
        pm.write(listops, folder / "rows.txt", "parket")
    assert not (folder / "rows.txt").exists()


# -- what is refused -------------------------------------------------------------------------------------------------

define_operator(Operator("TWICE", lambda xs: xs[0]))


def changed(**parts: Any) -> Corpus:
    return dataclasses.replace(corpus_of_trees(Forest.from_nested(["1", ("MAX", "2", "9")])), **parts)


NOT_LISTOPS = {
    "no answer": changed(targets=np.array([[1], [-1]], np.int16)),
    "an answer that is no digit": changed(outcomes=tuple(range(1, 11))),
    "a string for an answer": changed(outcomes=tuple("0123456789")),
    "a truth value for an answer": changed(outcomes=(0, True, 2, 3, 4, 5, 6, 7, 8, 9)),
    "a decimal for an answer": changed(outcomes=(0, 1.0, *range(2, 10))),
    "the tokens of another tree": changed(tokens=np.array([1, 0, 3, 2, 4], np.uint8)),
    "a bracket lost": changed(token_start=np.array([0, 1, 4]), tokens=np.array([0, 3, 1, 2], np.uint8)),
    "a bracket too many": changed(token_start=np.array([0, 1, 6]), tokens=np.array([0, 3, 1, 2, 4, 4], np.uint8)),
    "a bracket alone": changed(tokens=np.array([4, 3, 1, 2, 4], np.uint8)),
    "no tokens": changed(token_start=np.array([0, 0, 4]), tokens=np.array([3, 1, 2, 4], np.uint8)),
    "a list without arguments": changed(
        forest=Forest.from_nested(["1", "MAX"]), tokens=np.array([0, 3, 4], np.uint8), token_start=np.array([0, 1, 3]),
        values=np.array([1, 2], np.int16),
    ),
    "a tree of another shape": dataclasses.replace(
        corpus_of_trees(Forest.from_nested(["1", ("MAX", "2", ("MAX", "3", "9"))])),
        forest=Forest.from_nested(["1", ("MAX", "2", "3", ("MAX", "9"))], ("1", "2", "3", "9", "MAX")),
    ),
    "a user's operator": corpus_of_trees(Forest.from_nested(["1", ("TWICE", "2", "9")])),
    "a number of two digits": corpus_of_trees(Forest.from_nested(["1", ("MAX", "2", "12")])),
}  # fmt: skip


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("what", NOT_LISTOPS)
def test_lines_refuse_what_would_not_read_back(folder: Path, name: str, what: str) -> None:
    path = folder / "refused"
    with pytest.raises(FormatError, match=r"refused: these lines hold lists of digits .*; row [12] is not: ") as caught:
        pm.write(NOT_LISTOPS[what], path, name)
    assert "parquet and jsonl hold anything" in str(caught.value)
    assert not path.exists()
    assert rows_of(pm.read(pm.write(NOT_LISTOPS[what], folder / "held.jsonl"))) == rows_of(NOT_LISTOPS[what])


@pytest.mark.parametrize("name", LINES)
@given(corpus=corpora(extras=False))
@settings(max_examples=50)
def test_lines_hold_a_corpus_exactly_or_not_at_all(folder: Path, name: str, corpus: Corpus) -> None:
    try:
        path = pm.write(corpus, folder / "exactly", name)
    except FormatError:
        return
    again = pm.read(path)
    assert [row[:4] + row[5:] for row in rows_of(again)] == [row[:4] + row[5:] for row in rows_of(corpus)]


@pytest.mark.parametrize("name", ALL)
def test_no_rows_are_not_written(folder: Path, listops: Corpus, name: str) -> None:
    for nothing in (listops[:0], iter(()), iter([listops[:0]])):
        with pytest.raises(FormatError, match="nothing: there are no rows to write"):
            pm.write(nothing, folder / "nothing", name)
        assert not (folder / "nothing").exists()
    first = pm.write(iter([listops[:0], listops[:2]]), folder / "something", name)
    assert pm.read(first).fingerprint == listops[:2].fingerprint


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_json_refuses_numbers_it_cannot_hold(folder: Path, value: float) -> None:
    corpus = changed(columns={"score": np.array([0.0, value])})
    with pytest.raises(FormatError, match=r"nan\.jsonl: JSON cannot hold this: .*; leave it out or write parquet"):
        pm.write(corpus, folder / "nan.jsonl")
    again = pm.read(pm.write(corpus, folder / "nan.parquet"))
    np.testing.assert_array_equal(again.columns["score"], [0.0, value])


def test_parquet_chunks_must_be_alike(folder: Path) -> None:
    with pytest.raises(FormatError, match=r"mixed\.parquet: the chunks of one file must have the same columns"):
        pm.write([changed(), changed(columns={"score": np.array([0.0, 1.0])})], folder / "mixed.parquet")


TABLES: list[tuple[Any, ...]] = [
    (), tuple(range(10)), (-5, 2**40), tuple("0123456789"), (1, "1", 1.0, True, (1,), (True,)), ((), ((("a",),),), "a"),
]  # fmt: skip


@pytest.mark.parametrize("name", FULL)
@pytest.mark.parametrize("tables", list(itertools.permutations(range(len(TABLES)), 2)))
def test_chunks_may_have_outcomes_of_other_kinds(folder: Path, name: str, tables: tuple[int, ...]) -> None:
    """A task whose values are numbers in one chunk and tuples in the next is one file all the same."""
    forest = Forest.from_nested(["a"] * 8)
    parts = []
    for outcomes in (TABLES[number] for number in (*tables, tables[0])):
        values = (np.arange(8) % (len(outcomes) + 1) - 1).astype(np.int16)
        parts.append(
            Corpus(np.zeros(8, np.uint8), np.arange(9), ("a",), forest, values, outcomes, values[::-1, None].copy())
        )
    path = pm.write(parts, folder / "kinds", name)
    assert rows_of(pm.read(path)) == rows_of(Corpus.concatenate(parts))
    assert list(folder.glob("*.before")) == []


@pytest.mark.parametrize("name", FULL)
def test_more_values_than_16_bits_can_number(folder: Path, name: str) -> None:
    count = 41_000
    forest = Forest.from_nested([f"word{number}" for number in range(count)])
    corpus = Corpus.of_trees(forest, lambda text: (text, True))
    assert corpus.values.dtype == np.int32
    again = pm.read(pm.write(corpus, folder / "many", name))
    assert again.fingerprint == corpus.fingerprint
    assert again[40_999].target == (("word40999", True),)
    assert rows_of(again[::1000]) == rows_of(corpus[::1000])


# -- JSON of any depth -----------------------------------------------------------------------------------------------

json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=3), inner, max_size=4)),
    max_leaves=12,
)


@given(value=json_values, indent=st.sampled_from([None, 1]), ascii_only=st.booleans())
@settings(max_examples=80)
def test_deep_json_reads_what_the_standard_reader_reads(value: Any, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert deep_json.loads(text) == value == json.loads(text)


@given(value=json_values, data=st.data())
@settings(max_examples=150)
def test_deep_json_refuses_what_the_standard_reader_refuses(value: Any, data: st.DataObject) -> None:
    text = json.dumps(value)
    place = data.draw(st.integers(0, len(text)))
    text = text[:place] + data.draw(st.sampled_from([*'"{}[],:1-\\', ""])) + text[place + 1 :]
    (found, here), (expected, there) = _read(deep_json.loads, text), _read(json.loads, text)
    assert found == expected
    assert abs(here - there) <= 1  # the standard reader names the comma or what follows it


def _read(loads: Any, text: str) -> tuple[Any, int]:
    """The value, or where it ends to be one."""
    try:
        return loads(text), -1
    except json.JSONDecodeError as error:
        return None, error.pos


def test_deep_json_has_no_bottom() -> None:
    value, depth = deep_json.loads("[" * 100_000 + "]" * 100_000), 0
    while value:
        value, depth = value[0], depth + 1
    assert depth == 99_999
