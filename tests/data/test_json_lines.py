"""The compiled loops of JSONL against the reader of single lines and the standard library's writer."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_corpus import rows_of

import oracles_json
import pomona as pm
from pomona.base.errors import FormatError
from pomona.base.files import line_blocks, read_lines
from pomona.data import json_rows, json_text
from pomona.data.corpus import Corpus
from pomona.data.formats import jsonl
from strategies import corpora

A = '"tree": {"type": "a"}'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lines")


def outcome_of(reader: Any, path: Path) -> Any:
    """Everything that a reader makes of a file: the corpus with its tables and types, or the error."""
    try:
        corpus: Corpus = reader(path)
    except FormatError as error:
        return str(error), error.line, error.column
    arrays = (corpus.tokens, corpus.values, corpus.targets, corpus.forest.symbol, corpus.forest.parent, corpus.lines)
    return (
        rows_of(corpus), corpus.fingerprint, corpus.vocabulary, corpus.forest.names, repr(corpus.outcomes), corpus.ids,
        corpus.width, corpus.forest.link is None, [(str(array.dtype), array.tolist()) for array in arrays],
        {name: (str(column.dtype), column.tolist()) for name, column in corpus.columns.items()},
    )  # fmt: skip


def alike(path: Path, data: bytes) -> Any:
    path.write_bytes(data)
    fast = outcome_of(jsonl.read, path)
    assert fast == outcome_of(oracles_json.read, path)
    return fast


# -- writing -----------------------------------------------------------------------------------------------------------


@given(corpus=corpora())
@settings(max_examples=60)
def test_lines_are_those_of_the_standard_library(folder: Path, corpus: Corpus) -> None:
    path = pm.write(corpus, folder / "standard", "jsonl")
    assert path.read_bytes().decode() == oracles_json.lines(corpus)


@pytest.mark.parametrize("task", ["orchard/medium/min-max", "propositional/deep"])
def test_several_trees_and_quotations(folder: Path, task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = pm.generate(task, split="test", test=30)
    path = pm.write(corpus, folder / "trees", "jsonl")
    assert path.read_bytes().decode() == oracles_json.lines(corpus)
    monkeypatch.setattr(json_text, "_MOST_ROWS", 7)
    assert pm.write(corpus, folder / "blocks", "jsonl").read_bytes() == path.read_bytes()
    monkeypatch.setattr(json_text, "_MOST_ENTRIES", 1)
    assert pm.write(corpus, folder / "blocks", "jsonl").read_bytes() == path.read_bytes()
    alike(folder / "again", path.read_bytes())


# -- reading -----------------------------------------------------------------------------------------------------------


def respelled(random_: random.Random, value: Any) -> Any:
    """The same JSON value with the members of objects in another order."""
    if isinstance(value, list):
        return [respelled(random_, part) for part in value]
    if isinstance(value, dict):
        members = [(name, respelled(random_, part)) for name, part in value.items()]
        random_.shuffle(members)
        return dict(members)
    return value


@given(corpus=corpora(), seed=st.integers(0, 2**32), ascii_only=st.booleans(), indent=st.booleans())
@settings(max_examples=60)
def test_other_spellings_of_the_same_lines(
    folder: Path, corpus: Corpus, seed: int, ascii_only: bool, indent: bool
) -> None:
    random_ = random.Random(seed)
    text = ""
    for line in oracles_json.lines(corpus).removesuffix("\n").split("\n"):
        row = respelled(random_, json.loads(line))
        for name in ("id", "tokens", "target", "length"):
            if random_.random() < 0.1:
                del row[name]
        separators = random_.choice([(",", ":"), (" , ", " : "), ("\t,", ":\r")]) if indent else None
        text += json.dumps(row, ensure_ascii=ascii_only, separators=separators) + random_.choice(["\n", "\r\n", " \n"])
    alike(folder / "spelt.jsonl", text.encode())


@given(
    corpus=corpora(), changes=st.lists(st.tuples(st.integers(0, 10**6), st.sampled_from(list(range(256)))), max_size=3)
)
@settings(max_examples=150)
def test_damaged_lines_are_refused_alike(folder: Path, corpus: Corpus, changes: list[tuple[int, int]]) -> None:
    data = bytearray(oracles_json.lines(corpus).encode())
    for place, byte in changes:
        data[place % len(data)] = byte
    alike(folder / "damaged.jsonl", bytes(data))


PIECES = [
    "{", "}", "[", "]", ",", ":", '"', " ", "\\", "null", "true", "1", "-1", "1.5", "1e3", "NaN", "007", '""', '"a"',
    '"\\u0061"', '"\\ud800"', '"type"', '"type": "a"', '"value": 1', '"value": [1, "x"]', '"children": [', '"link": 1',
    '"link": 0', '"tree": ', '"trees": [', '"tokens": ["a"]', '"text": "a b"', '"target": [1]', '"target": null',
    '"id": 3',
    '"id": "0123456789abcdef"', '"score": 2', '"score": [1, {}]', '"length": 01', '{"type": "a"}', '{"value": 2}', "\n",
]  # fmt: skip


@given(pieces=st.lists(st.sampled_from(PIECES), max_size=25), around=st.booleans())
@settings(max_examples=300)
def test_any_text_is_read_or_refused_alike(folder: Path, pieces: list[str], around: bool) -> None:
    text = "".join(pieces)
    alike(folder / "any.jsonl", (f"{{{A}}}\n{{{A}, {text}}}\n" if around else f"{text}\n").encode())


@pytest.mark.parametrize(
    "line",
    [
        f'{{{A}, "score": 1, "score": 2}}',
        '{"tree": {"type": "a", "type": "b", "value": 1, "value": 2}}',
        '{"tree": {"type": "a", "children": [{"value": 1}], "children": [{"value": 2}, {"value": 3}]}}',
        f'{{"tree": {{"type": "b"}}, {A}}}',
        f'{{{A}, "tokens": ["x"], "tokens": ["y"]}}',
        f'{{{A}, "tokens": null}}',
        f'{{{A}, "text": "x  y"}}',
        f'{{{A}, "target": null}}',
        f'{{{A}, "target": "x"}}',
        f'{{{A}, "target": [[1, 2]]}}',
        f'{{{A}, "id": null}}',
        '{"tree": {"type": "a", "children": null}}',
        '{"tree": {"type": "a", "span": [0, 1]}}',
        '{"tree": {"type": "a", "value": 12345678901234567}}',
        '{"tree": {"type": "a", "value": -0}}',
        '{"tree": {"type": "a", "value": 9223372036854775808}}',
        '{"tree": {"value": 1.0}}',
        '{"tree": {"value": true}}',
        '{"tree": {"value": "\\u0061"}}',
        '{"tr\\u0065e": {"type": "a"}}',
        '{"tree": {"type": "c", "children": [{"type": "b", "value": 1}, {"type": "b", "link": 1}]}}',
        '{"tree": {"type": "c", "children": [{"type": "b", "value": 1}, {"type": "b", "link": 2}]}}',
    ],
)
def test_unusual_lines_between_usual_ones(folder: Path, line: str) -> None:
    """Read or refused as by the reader of single lines, with the order of names and words that it gives."""
    before, after = '{"tree": {"type": "z", "value": 4}, "score": 1}', '{"tree": {"type": "y", "value": 5}, "score": 3}'
    for first, last in ((before, after), (f"{{{A}}}", '{"tree": {"value": 7}}')):
        alike(folder / "unusual.jsonl", f"{first}\n{line}\n{last}\n{line}\n".encode())


def test_our_own_files_need_no_reader_of_single_lines(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = pm.generate("orchard/medium/min-max", split="test", test=50)
    path = pm.write(corpus, folder / "own", "jsonl")

    def never(*_: Any) -> None:
        raise AssertionError("a line that we wrote is unusual")

    monkeypatch.setattr(json_rows.Lines, "add", never)
    assert rows_of(pm.read(path)) == rows_of(corpus)


def test_more_spellings_than_there_was_room_for(folder: Path) -> None:
    rows = 3_000
    text = "".join(
        f'{{"tree": {{"type": "t{row}", "value": {row / 8}, "children": [{{"value": "{"x" * (row % 90)}{row}"}}]}}, '
        f'"id": "n{row}", "score": {row}}}\n'
        for row in range(rows)
    )  # fmt: skip
    seen = alike(folder / "many.jsonl", text.encode())
    assert len(seen[3]) == 2 * rows
    assert len(seen[5]) == rows


def test_trees_of_any_depth_are_read_by_the_compiled_loop(folder: Path) -> None:
    deep = 30_000
    text = '{"tree": ' + '{"type": "a", "children": [' * deep + '{"value": 1}' + "]}" * deep + "}\n"
    (folder / "deep.jsonl").write_text(text)
    corpus = pm.read(folder / "deep.jsonl")
    assert int(corpus.nesting[0]) == deep
    pm.write(corpus, folder / "deep2.jsonl")
    assert pm.read(folder / "deep2.jsonl").fingerprint == corpus.fingerprint


# -- blocks of lines ---------------------------------------------------------------------------------------------------


@given(
    data=st.lists(st.sampled_from([b"\xef\xbb\xbf", b"a", b"bc", b"\n", b"\r", b"\r\n"]), max_size=12).map(b"".join),
    size=st.integers(1, 9),
)
@settings(max_examples=200)
def test_blocks_are_the_lines_of_the_file(folder: Path, data: bytes, size: int) -> None:
    (folder / "blocks.txt").write_bytes(data)
    blocks = list(line_blocks(folder / "blocks.txt", size))
    whole = read_lines(folder / "blocks.txt")
    assert b"".join(blocks) == whole + (b"" if whole.endswith(b"\n") else b"\n")
    assert all(block.endswith(b"\n") for block in blocks)


def test_a_file_that_is_not_there(folder: Path) -> None:
    with pytest.raises(FormatError, match="cannot be read: No such file"):
        list(line_blocks(folder / "nothing"))


def test_small_blocks_change_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = pm.generate("listops/d20s", split="test", test=60, train=0, dev=0)
    path = pm.write(corpus, folder / "small", "jsonl")
    monkeypatch.setattr(jsonl, "line_blocks", lambda file: line_blocks(file, 100))
    again = pm.read(path)
    assert rows_of(again) == rows_of(corpus)
    assert np.array_equal(again.lines, np.arange(1, 61))
