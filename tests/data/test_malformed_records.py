"""Bad JSON lines and bad Parquet: one clear error with file and place."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_corpus import rows_of

import oracles
import pomona as pm
from malformed_material import DEEP, GROVE, place, refused
from pomona.base.errors import FormatError
from pomona.data.corpus import Corpus, Fingerprint
from pomona.data.formats import parquet
from pomona.data.task import corpus_of_trees
from pomona.trees.forest import Forest

# -- JSON ------------------------------------------------------------------------------------------------------------

A = '"tree": {"type": "a"}'


@pytest.mark.parametrize(
    ("line", "column", "words"),
    [
        ('{"tree": {"type": "a"}', 23, "this is not JSON: Expecting ',' delimiter"),
        (f"{{{A}}} x", 25, "this is not JSON: Extra data"),
        (f'{{{A}, "score": NaN}}', None, "this JSON cannot be read: NaN is not a number"),
        (f'{{{A}, "score": -Infinity}}', None, "-Infinity is not a number"),
        (f"{{{A}}} x\r", 25, "this is not JSON: Extra data"),
        ("", 1, "the line is empty"),
        ("[]", None, 'a line is an object with "tree": NODE or "trees": [NODE, ...]'),
        ("{}", None, 'a line is an object with "tree": NODE or "trees": [NODE, ...]'),
        (f'{{{A}, "trees": []}}', None, 'a line is an object with "tree": NODE or "trees": [NODE, ...]'),
        ('{"trees": []}', None, '"trees" is a list of at least one NODE'),
        ('{"trees": [{"type": "a"}, {"type": "b"}]}', None, "this line has 2 trees, the lines before it 1"),
        ('{"tree": 5}', None, 'tree: a node is an object with a "type" that is a string; got 5'),
        ('{"tree": {"type": 5}}', None, "tree: a node is an object with a \"type\" that is a string; got {'type': 5}"),
        ('{"tree": {"type": ""}}', None, 'tree: a node is an object with a "type" that is a string'),
        ('{"tree": {"type": ["a"]}}', None, 'tree: a node is an object with a "type" that is a string'),
        ('{"tree": {"type": "a", "children": [{"type": "b"}, {}]}}', None, 'tree.children[1]: a leaf has a "value" or'),
        (
            '{"tree": {"type": "a", "children": []}}',
            None,
            'tree: "children" is a list of nodes; leave it out at a leaf',
        ),
        ('{"tree": {"type": "a", "children": "b"}}', None, 'tree: "children" is a list of nodes'),
        ('{"tree": {"type": "a", "children": {"type": "b"}}}', None, 'tree: "children" is a list of nodes'),
        (
            '{"tree": {"type": "a", "value": {"b": 1}}}',
            None,
            "tree: a value is true, false, a whole number of 64 bits, a finite number, a string, a list of such values",
        ),
        ('{"tree": {"type": "a", "value": 1e999}}', None, "a list of such values, or null; got inf"),
        ('{"tree": {"type": "a", "value": [1, null]}}', None, "a list of such values, or null; got [1, None]"),
        ('{"tree": {"type": "a", "value": ' + "[" * 60 + "]" * 60 + "}}", None, "or null; got [[[[[["),
        ('{"tree": {"type": "a", "value": ' + "[" * DEEP + "]" * DEEP + "}}", None, "or null; got [[[[[["),
        ('{"tree": {"type": "a", "value": 9223372036854775808}}', None, "or null; got 9223372036854775808"),
        (
            '{"tree": {"type": "a", "value": 1' + "0" * 5000 + "}}",
            None,
            "this JSON cannot be read: Exceeds the limit",
        ),
        ('{"tree": {"type": "a", "link": 1}}', None, 'tree: "link" counts nodes back inside the example; got 1'),
        ('{"tree": {"type": "a", "children": [{"type": "b", "link": -1}]}}', None, 'tree.children[0]: "link" counts'),
        ('{"tree": {"type": "a", "link": true}}', None, 'tree: "link" counts nodes back inside the example; got True'),
        ('{"tree": {"type": "a", "li\\u006ek": 3}}', None, 'tree: "link" counts nodes back inside the example; got 3'),
        (f'{{{A}, "target": [1, 2]}}', None, "this line has 2 targets, the first 1"),
        (
            f'{{{A}, "target": [{{}}]}}',
            None,
            "target: a value is true, false, a whole number of 64 bits, a finite number, a string, a list of such",
        ),
        (f'{{{A}, "tokens": "a b"}}', None, '"tokens" is a list of strings'),
        (f'{{{A}, "tokens": ["a", 1]}}', None, '"tokens" is a list of strings'),
        (f'{{{A}, "text": 7}}', None, '"text" is a string; got 7'),
        (f'{{{A}, "id": true}}', None, '"id" is a string; got True'),
        (f'{{{A}, "id": [1]}}', None, '"id" is a string; got [1]'),
        ('{"tree": {"type": "\\ud800"}}', 20, r"\ud800 is half a character, which UTF-8 cannot hold"),
        ('{"tree": {"type": "\\\\\\ud83d\\ude00\\udE00"}}', 34, r"\udE00 is half a character"),
        (
            '{"tree": {"type": "a", "children": [{"type": "c", "link": 1, "children": [{"value": 1}]}]}}',
            None,
            'there are no "tokens", and a node with arguments quotes another',
        ),
        ('{"tree": {"type": "a", "children": [{}]}}', None, 'tree.children[0]: a leaf has a "value" or a "type"'),
        ('{"tree": {"value": null}}', None, 'tree: a leaf has a "value" or a "type" that is a string; got'),
        ('{"tree": {"value": ""}}', None, 'tree: a leaf has a "value" or a "type" that is a string; got'),
        ('{"tree": {"type": null, "value": 1}}', None, 'a node is an object with a "type" that is a string; got'),
        ('{"tree": {"value": 1, "children": [{"value": 1}]}}', None, 'a node is an object with a "type" that is a'),
    ],
)
def test_faults_of_json(folder: Path, line: str, column: int | None, words: str) -> None:
    error = refused(folder / "fault.jsonl", f"{{{A}}}\n{line}\n{{{A}}}\n")
    assert place(error) == (2, column)
    assert words in str(error)


def test_escapes_that_are_whole_are_read(folder: Path) -> None:
    (folder / "whole.jsonl").write_text('{"tree": {"type": "\\ud83d\\ude00\\\\ud800"}}\n')
    assert pm.read(folder / "whole.jsonl")[0].tokens == ("😀\\ud800",)


def test_bytes_that_are_not_utf8_have_a_column(folder: Path) -> None:
    error = refused(folder / "latin.jsonl", b'{"tree": {"type": "a"}}\n{"tree": {"type": "\xe9"}}\n')
    assert place(error) == (2, 20)
    assert "this is not UTF-8" in str(error)


@pytest.mark.parametrize(
    ("first", "second", "line", "words"),
    [
        (f'{A}, "id": "x"', f'{A}, "id": "x"', 2, "the id 'x' is already on line 1"),
        (f'{A}, "id": 1', f'{A}, "id": "1"', 2, "the id '1' is already on line 1"),
        (f'{A}, "id": "x"', A, None, "1 of 2 lines have an id; give one to all or to none"),
        (f'{A}, "score": 1', A, 2, "the field 'score' is missing here but not on other lines"),
        (A, f'{A}, "score": 1', 1, "the field 'score' is missing here but not on other lines"),
        (f'{A}, "score": 1', f'{A}, "score": "1"', None, "the field 'score' is not the same kind on every line"),
        (f'{A}, "score": [1]', f'{A}, "score": [1, 2]', None, "the field 'score' is not the same kind on every line"),
        (f'{A}, "score": 1', f'{A}, "score": null', 2, "the field 'score' is null, which a column cannot keep"),
        (f'{A}, "score": {{}}', f'{A}, "score": {{}}', 1, "the field 'score' is an object, which a column cannot"),
        (f'{A}, "score": 1e999', f'{A}, "score": 1', None, "the field 'score' is not the same kind on every line"),
        (f'{A}, "score": "a\\u0000"', f'{A}, "score": ""', None, "the field 'score' is not the same kind"),
        (f'{A}, "symbols": 1', f'{A}, "symbols": 1', None, "the field 'symbols' has another meaning in Parquet files"),
    ],
)
def test_faults_between_lines_of_json(folder: Path, first: str, second: str, line: int | None, words: str) -> None:
    error = refused(folder / "lines.jsonl", f"{{{first}}}\n{{{second}}}\n")
    assert error.line == line
    assert words in str(error)


# -- Parquet ---------------------------------------------------------------------------------------------------------


def forged(path: Path, change: Callable[[dict[str, Any], dict[str, Any]], None], *, old: bool = True) -> bytes:
    """A Parquet file of ours with columns or metadata changed by somebody else's tool, fingerprint and all."""
    pm.write(corpus_of_trees(Forest.from_nested(GROVE)), path, "parquet")
    table = pq.read_table(path)
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    about = json.loads(pq.read_metadata(path).metadata[b"pomona"])
    if old:  # format 1 had the parents themselves
        steps = columns.pop("to_parent")
        columns["parents"] = [[node + step if step else -1 for node, step in enumerate(row)] for row in steps]
        about["format"] = 1
    change(columns, about)
    rebuilt = pa.table(columns)
    pq.write_table(rebuilt.replace_schema_metadata({b"pomona": json.dumps(about).encode()}), path)
    return path.read_bytes()


def set_to(name: str, row: int, value: Any) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    def change(columns: dict[str, Any], about: dict[str, Any]) -> None:
        columns[name][row] = value

    return change


def about_is(**parts: Any) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    return lambda columns, about: about.update(parts)


def test_somebody_elses_tool_may_write_our_files(folder: Path) -> None:
    """The forging itself changes nothing: strings without dictionaries, other row groups, other compression."""
    for old in (True, False):
        forged(folder / "forged", lambda columns, about: None, old=old)
        assert rows_of(pm.read(folder / "forged")) == rows_of(corpus_of_trees(Forest.from_nested(GROVE)))


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([5, 4, 2, 1, -1, 0], "the trees from row 1 on are invalid: tree 0, node 4"),
        ([5, 4, 2, 0, 1, 0], "the trees from row 1 on are invalid: tree 0, node 3"),
        ([5, 4, 2, 99, 1, 0], "the trees from row 1 on are invalid: tree 0, node 3"),
        ([5, 4, 2, 1, 1, -6], "the trees from row 1 on are invalid: tree 0, node 5"),
        ([5, 4, 2, 2**31 - 1, 1, 0], "the trees from row 1 on are invalid: tree 0, node 3"),
        ([5, 3, 2, 1, 1, 0], "the rows are not those that were written"),
        ([5, 4, 2, 1, 1], "the trees from row 1 on are invalid: a forest of"),
    ],
)
def test_forged_differences_are_refused(folder: Path, steps: list[int], words: str) -> None:
    data = forged(folder / "forged", set_to("to_parent", 0, steps), old=False)
    assert words in str(refused(folder / "forged.parquet", data))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            set_to("parents", 0, [4, 4, 2, 3, 2, -1]),
            "the trees from row 1 on are invalid: tree 0, node 2: symbol, parent or",
        ),
        (set_to("parents", 0, [5, 5, 4, 4, 5, 5]), "the trees from row 1 on are invalid: tree 0, node 5"),
        (set_to("parents", 0, [5, 5, 4, 99, 5, -1]), "the trees from row 1 on are invalid: tree 0, node 3"),
        (set_to("parents", 1, [-1, -1]), "the trees from row 1 on are invalid: a forest of"),
        (set_to("symbols", 0, ["2", "9", "4", "7", "MIN", "SM"]), "the rows are not those that were written"),
        (set_to("symbols", 0, ["2", "9", "4", None, "MIN", "MAX"]), "tree 0, node 3: symbol, parent or link"),
        (set_to("symbols", 0, ["2", "9", "4", "new", "MIN", "MAX"]), "not a whole Parquet file of ours: 'new'"),
        (set_to("tokens", 0, None), "the column 'tokens' has rows without a list"),
        (set_to("tokens", 0, ["[MAX", None]), "a token is missing"),
        (set_to("tokens", 1, ["9"]), "the rows are not those that were written: their fingerprint is"),
        (set_to("values", 1, [10]), "a value or target is not among the outcomes"),
        (set_to("values", 1, [-2]), "a value or target is not among the outcomes"),
        (set_to("values", 1, [9]), "the rows are not those that were written"),
        (set_to("values", 1, []), "nodes need as many values"),
        (set_to("target", 1, [5, 5]), "not a whole Parquet file of ours: cannot reshape"),
        (set_to("target", 1, [None]), "the rows are not those that were written"),
        (lambda columns, about: columns.pop("parents"), "not a whole Parquet file of ours"),
        (lambda columns, about: columns.update(tokens=[1, 2, 3]), "not a whole Parquet file of ours"),
        (about_is(width=2), "not a whole Parquet file of ours"),
        (about_is(width="two"), "not a whole Parquet file of ours: invalid literal for int()"),
        (about_is(names=["MAX", "MAX"]), "not a whole Parquet file of ours"),
        (about_is(vocabulary=[]), "not a whole Parquet file of ours"),
        (about_is(format=3), "this Parquet file was not written by Pomona (no metadata 'pomona')"),
        (about_is(fingerprint=None), "the file says None"),
        (lambda columns, about: about.clear(), "this Parquet file was not written by Pomona"),
    ],
)
def test_forged_parquet_is_refused(folder: Path, change: Any, words: str) -> None:
    assert words in str(refused(folder / "forged.parquet", forged(folder / "forged", change)))


def test_foreign_parquet_is_refused(folder: Path) -> None:
    pq.write_table(pa.table({"text": ["a"]}), folder / "foreign")
    data = (folder / "foreign").read_bytes()
    assert "this Parquet file was not written by Pomona" in str(refused(folder / "foreign.parquet", data))
    assert "not a whole Parquet file of ours" in str(refused(folder / "foreign.parquet", b"PAR1" + b"\x00" * 100))


def test_no_tree_is_ever_read_with_a_parent_before_its_child(folder: Path) -> None:
    """Random parents: the file is refused, or the arrays are post-order trees by the slow definition."""
    random = np.random.default_rng(0)
    for _ in range(30):
        parents = [*random.integers(0, 6, 5).tolist(), -1]
        data = forged(folder / "random", set_to("parents", 0, parents))
        (folder / "random").write_bytes(data)
        try:
            corpus: Corpus | None = pm.read(folder / "random")
        except FormatError as error:
            fine = "fingerprint" in str(error)
            corpus = None
        else:
            fine = True
        assert fine == oracles.is_forest(parents, [0, 6])
        assert corpus is None or corpus.forest.parent[:6].tolist() == parents


def test_large_corpora_are_cut_into_row_groups(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row group is bounded by rows and by tokens or nodes; a row that is larger stands alone."""
    corpus = pm.generate("orchard/medium/min-max", split="test-7", test=40)
    entries = np.maximum(corpus.lengths, np.add.reduceat(np.diff(corpus.forest.start), np.arange(0, 80, 2)))
    for rows, most in ((7, 10**9), (40, int(2.5 * entries.mean())), (40, 1)):
        monkeypatch.setattr(parquet, "_MOST_ROWS", rows)
        monkeypatch.setattr(parquet, "_MOST_ENTRIES", most)
        path = pm.write(corpus, folder / "groups.parquet")
        groups = [len(part) for part in parquet.parts(path)]
        assert groups == [pq.ParquetFile(path).metadata.row_group(group).num_rows for group in range(len(groups))]
        starts = np.cumsum([0, *groups])
        for low, high in itertools.pairwise(starts):
            assert high - low <= rows
            assert high - low == 1 or entries[low:high].sum() <= most + entries.max()
        assert (max(groups) > 1) == (most > 1)
        assert rows_of(pm.read(path)) == rows_of(corpus)


def test_parts_are_row_groups_and_the_last_is_checked(folder: Path) -> None:
    corpus = pm.generate("orchard/medium/min-max", split="test-7", test=40)
    path = pm.write((corpus[low : low + 15] for low in range(0, 40, 15)), folder / "parts.parquet")
    pieces = list(parquet.parts(path))
    assert [len(piece) for piece in pieces] == [15, 15, 10]
    whole = pm.read(path)
    assert rows_of(Corpus.concatenate(pieces)) == rows_of(corpus) == rows_of(whole)
    assert whole.fingerprint == Fingerprint().update(whole).hexdigest() == corpus.fingerprint
    forged(folder / "forged", set_to("values", 1, [9]))
    reading = parquet.parts(folder / "forged")
    assert len(next(reading)) == len(GROVE)
    with pytest.raises(FormatError, match="the rows are not those that were written"):
        next(reading)
