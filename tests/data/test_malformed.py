"""Bad files: whatever the bytes, reading gives the rows that are there or one clear error with file and place."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_corpus import rows_of

import oracles
import pomona as pm
from malformed_material import ALL, DEEP, GROVE, place, refused
from pomona.base.errors import FormatError, PomonaError
from pomona.data import formats
from pomona.data.task import corpus_of_trees
from pomona.trees.forest import Forest
from strategies import listops_trees


@pytest.fixture(scope="module")
def good(folder: Path) -> dict[str, bytes]:
    """A small file of each format."""
    corpus = corpus_of_trees(Forest.from_nested(GROVE))
    return {name: pm.write(corpus, folder / "good", name).read_bytes() for name in ALL}


# -- the law: any bytes ----------------------------------------------------------------------------------------------


def read_or_refuse(path: Path) -> list[Any] | None:
    """The rows, each of them touched, or None for an error that names the file. Anything else fails the test."""
    try:
        corpus = pm.read(path)
    except PomonaError as error:
        named = str(path) in str(error)
        assert named, error  # noqa: PT017 - any bytes may be fine, so no error is expected
        return None
    assert len(list(corpus)) == len(corpus) > 0
    pm.describe(corpus)
    return rows_of(corpus)


@pytest.mark.parametrize("name", ALL)
def test_a_file_cut_at_any_byte_gives_the_rows_before_the_cut_or_an_error(
    folder: Path, good: dict[str, bytes], name: str
) -> None:
    path, data = folder / "cut", good[name]
    path.write_bytes(data)
    rows = read_or_refuse(path)
    assert rows is not None
    for cut in range(0, len(data), 97 if name == "parquet" else 1):
        path.write_bytes(data[:cut])
        left = read_or_refuse(path)
        assert left is None or left == rows[: len(left)]
        if name == "parquet" or cut == 0:
            assert left is None
        elif data[cut - 1 : cut] == b"\n" and not data[:cut].endswith(b"Target\n"):
            assert left == rows[: data[:cut].count(b"\n") - (name == "lra")]


@pytest.mark.parametrize("name", ALL)
@given(data=st.data())
@settings(max_examples=120)
def test_changed_bytes_never_do_worse_than_an_error(
    folder: Path, good: dict[str, bytes], name: str, data: st.DataObject
) -> None:
    changed = bytearray(good[name])
    usual = b' \t\r\n()[]{}":,-0123456789\\uMAXINSDEtru\xef\xbb\xbf\xff\x00'
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, max(len(changed) - 1, 0)))
        new = data.draw(st.one_of(st.sampled_from(usual).map(lambda byte: bytes([byte])), st.binary(max_size=3)))
        changed[at : at + data.draw(st.integers(0, 2))] = new
    path = folder / "changed"
    path.write_bytes(changed)
    read_or_refuse(path)


@pytest.mark.parametrize("suffix", ["", ".tsv", ".jsonl", ".parquet"])
@given(data=st.binary(max_size=60))
@settings(max_examples=50)
def test_noise_is_refused(folder: Path, suffix: str, data: bytes) -> None:
    path = folder / f"noise{suffix}"
    path.write_bytes(data)
    read_or_refuse(path)


# -- lines of ListOps: the place of the first fault, against a slow twin ---------------------------------------------

UNKNOWN, NEVER_OPENED, EMPTY, NEVER_CLOSED, NO_ANSWER, AFTER, CR, ROUND, NO_LINE, NOTHING = (
    "is not a ListOps token; there are the digits 0-9, [MIN [MAX [MED [SM [FIRST [LAST [PM and ']'",
    "']' closes a list that was never opened",
    "this list is empty; a list has at least one argument",
    "the line ends inside a list that was never closed",
    "a line is an answer 0-9, a tab and an expression; the answer is missing or not one digit",
    "comes after the end of the expression",
    "a carriage return (CR) stands inside the line; lines end in LF or CR LF",
    "the round brackets are not those of the left-branching tree of this list; one was lost, added or moved",
    "the line is empty",
    "the expression is missing",
)


def first_fault(line: str) -> tuple[int, str] | None:
    """Column and words of what is wrong with `answer<TAB>expression`, found token by token."""
    line = line.removesuffix("\r")
    if not line:
        return 1, NO_LINE
    if not re.match(r"[0-9]\t", line):
        return 1, NO_ANSWER
    grouped = line[2:3] == "("
    pieces = [(match.start() + 1, match.group()) for match in re.finditer(r"[()]|[\x00-\x1f]|[^\x00-\x20]+", line[2:])]
    waiting = [(column + 2, piece) for column, piece in pieces] + [(len(line) + 1, "")]
    lists: list[tuple[int, int]] = []  # of each open list: round brackets before it, arguments so far
    opened, done = 0, False
    while True:
        column, piece = waiting.pop(0)
        if not piece:
            break
        if piece == "\r":
            return column, CR
        if done:
            return column, ROUND if piece in "()" else AFTER
        if piece == "(" and grouped:
            opened += 1
            continue
        if piece.startswith("["):
            if piece[1:] not in oracles.RULES:
                return column, UNKNOWN
            lists.append((opened, 0))
            opened = 0
            continue
        if piece in "()":
            return column, ROUND
        if len(piece.encode()) > 1:
            return column, UNKNOWN
        if opened:
            return column, ROUND
        closing = 0
        if piece == "]":
            if not lists:
                return column, NEVER_OPENED
            rounds, arguments = lists.pop()
            if not arguments:
                return column, EMPTY
            if grouped and rounds != arguments + 1:
                return column, ROUND
            closing = 1
        elif piece not in "0123456789":
            return column, UNKNOWN
        if lists:
            lists[-1] = (lists[-1][0], lists[-1][1] + 1)
        done = not lists
        for _ in range((closing + bool(lists)) if grouped else 0):
            column, piece = waiting.pop(0)
            if piece != ")":
                return column, ROUND
    if lists:
        return column, NEVER_CLOSED
    return None if done else (column, NOTHING)


@given(
    tree=listops_trees,
    grouped=st.booleans(),
    edits=st.lists(
        st.tuples(st.floats(0, 1), st.sampled_from([*" ()[]59M\t\rx", "é", " ]", "[SM ", ""]), st.booleans())
    ),
    before=st.integers(0, 2),
)
@example(tree=("MIN", ("MIN", "0")), grouped=True, edits=[(0.46875, "\t", False)], before=0)
@settings(max_examples=300)
def test_the_first_fault_has_its_line_and_column(
    folder: Path, tree: Any, grouped: bool, edits: list[tuple[float, str, bool]], before: int
) -> None:
    shape = oracles.binarise(tree, "left", True) if grouped else tree
    line = f"{oracles.evaluate(tree)}\t{oracles.to_text(shape)}"
    for where, new, drop in edits[:2]:
        at = round(where * len(line))
        line = line[:at] + new + line[at + drop :]
    path = folder / "edited.tsv"
    data = "1\t1\n" * before + line + "\n3\t3\n"
    expected = first_fault(line)
    if expected is None:
        path.write_bytes(data.encode())
        corpus = pm.read(path)
        assert list(corpus[before].tokens) == re.sub(r"[()]", " ", line[2:]).split()
        assert corpus[before].target == (int(line[0]),)
        return
    column, words = expected
    error = refused(path, data)
    assert place(error) == (before + 1, len(line[: column - 1].encode()) + 1)
    assert words in str(error)


@pytest.mark.parametrize(
    ("line", "column", "words"),
    [
        ("3\t[MAX 2 9", 11, "the line ends inside a list that was never closed"),
        ("3\t[MAX 2 ] ]", 12, "']' comes after the end of the expression"),
        ("3\t]", 3, "']' closes a list that was never opened"),
        ("3\t[MAX ]", 8, "this list is empty; a list has at least one argument"),
        ("3\t[MOX 2 ]", 3, "'[MOX' is not a ListOps token; there are the digits 0-9, [MIN [MAX"),
        ("3\t[MAX 12 ]", 8, "'12' is not a ListOps token"),
        ("3\t[MAX\t2 ]", 7, r"'\t' is not a ListOps token"),
        ("3\t[MAX é ]", 8, "'é' is not a ListOps token"),
        ("3\t", 3, "the expression is missing"),
        ("[MAX 2 9 ]", 1, "the answer is missing or not one digit"),
        ("12\t[MAX 2 9 ]", 1, "the answer is missing or not one digit"),
        ("", 1, "the line is empty"),
        ("3\t[MAX 2 9 ]\r\r", 13, "a carriage return (CR) stands inside the line; lines end in LF or CR LF"),
        ("3\t[MAX 2\r9 ]", 9, "a carriage return (CR) stands inside the line; lines end in LF or CR LF"),
        ("3\t[MAX 2 \r9 ]", 10, "a carriage return (CR) stands inside the line; lines end in LF or CR LF"),
        ("9\t( ( ( [MAX 2 ) 9 ) ] ", 24, "one was lost, added or moved"),
        ("9\t( ( [MAX 2 ) 9 ) ] )", 20, "one was lost, added or moved"),
        ("9\t( ( ( [MAX 2 9 ) ) ] )", 16, "one was lost, added or moved"),
    ],
)
def test_words_of_the_faults(folder: Path, line: str, column: int, words: str) -> None:
    for before in ("", "1\t1\n"):
        error = refused(folder / "fault.tsv", before + line + "\n")
        assert place(error) == (1 + bool(before), column)
        assert words in str(error)
    slow = first_fault(line)
    assert slow is not None
    assert slow[0] == len(line.encode()[: column - 1].decode()) + 1  # the twin counts letters, the file bytes


@pytest.mark.parametrize(
    ("body", "line", "column", "words"),
    [
        ("Source\tTarget\r\n[MAX 1 ]\t1\r\n[MAX 1 ]\r\n", 3, 9, "the answer is missing or not one digit"),
        ("Source\tTarget\n[MAX 1 ]\t1\r\r\n", 2, 11, "a carriage return (CR) stands inside the line"),
        ("Source\tTargets\n[MAX 1 ]\t1\n", 1, 1, "the first line must be Source, a tab and Target, nothing else"),
        ("Source\tTarget", 1, 1, "the first line must be Source, a tab and Target, nothing else"),
        ("\ufeffSource\tTargets\n1\t1\n", 1, 1, "the first line must be Source, a tab and Target, nothing else"),
        ("Source\tTarget\n[MAX 1 ]\n", 2, 9, "the answer is missing or not one digit"),
        ("Source\tTarget\n[MAX 1 ]\t\n", 2, 10, "the answer is missing or not one digit"),
        ("Source\tTarget\n[MAX 1 ]\t12\n", 2, 10, "the answer is missing or not one digit"),
        ("Source\tTarget\n1\t1\n\n", 3, 1, "the line is empty"),
        ("Source\tTarget\n1\t1\t1\n", 2, 4, "comes after the end of the expression"),
        ("Source\tTarget\n", None, None, "the file holds no rows"),
    ],
)
def test_faults_of_long_range_arena(folder: Path, body: str, line: int, column: int, words: str) -> None:
    error = refused(folder / "fault.lra.tsv", body)
    assert place(error) == (line, column)
    assert words in str(error)


@pytest.mark.parametrize("name", ALL)
def test_empty_files_and_folders(folder: Path, name: str) -> None:
    assert "the file is empty" in str(refused(folder / f"empty.{name}", b""))
    with pytest.raises(FormatError, match="this folder is no dataset"):
        pm.read(folder)
    with pytest.raises(FormatError, match=r"nowhere\.tsv: cannot be read: No such file or directory"):
        pm.read(folder / "nowhere.tsv")


@pytest.mark.parametrize("name", ["tsv", "jsonl", "lra"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_marks_and_line_ends_of_windows_change_nothing(
    folder: Path, good: dict[str, bytes], name: str, mark: bytes
) -> None:
    path = folder / "windows"
    path.write_bytes(good[name])
    rows = rows_of(pm.read(path))
    path.write_bytes(mark + good[name].replace(b"\n", b"\r\n"))
    assert rows_of(pm.read(path)) == rows
    assert "the file is empty" in str(refused(folder / "mark", b"\xef\xbb\xbf"))


def test_unknown_files_say_what_they_begin_with(folder: Path) -> None:
    error = refused(folder / "text", "Once upon a time\n")
    known = ", ".join(formats.FORMATS.entries())
    assert f"not a format we know ({known}); the file begins with b'Once upon a time" in str(error)


def test_a_tsv_that_is_no_listops_is_refused_with_a_place(folder: Path) -> None:
    """Also where a tab stands on a later line only, or where the source comes first but no header tells."""
    for body in ("sentence\tlabel\nfine\t1\n", "[MAX 1 ]\n1\t1\n", "( ( [MAX 1 ) ] )\t1\n"):
        error = refused(folder / "other.tsv", body)
        assert place(error) == (1, 1)
        assert "the answer is missing" in str(error)


# -- deep and long ---------------------------------------------------------------------------------------------------


def test_deep_lists_are_read(folder: Path) -> None:
    text = "[MAX " * DEEP + "7" + " ]" * DEEP
    (folder / "deep.tsv").write_text(f"7\t{text}\n")
    corpus = pm.read(folder / "deep.tsv")
    assert corpus.nesting.tolist() == corpus.dependency.tolist() == [DEEP]
    assert corpus.values.min() == corpus.values.max() == 7
    for name in ("parquet", "jsonl", "lra"):
        assert pm.read(pm.write(corpus, folder / "deep", name)).fingerprint == corpus.fingerprint
    assert pm.verify(folder / "deep.tsv").holds


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("[MAX " * DEEP + "7" + " ]" * (DEEP - 1), 3 + 5 * DEEP + 1 + 2 * (DEEP - 1), "never closed"),
        ("[MAX " * DEEP + "]", 3 + 5 * DEEP, "this list is empty"),
        ("( " * DEEP, 3 + 2 * DEEP, "the expression is missing"),
        ("x" * 5_000_000, 3, "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' is not a ListOps token"),
        ("[SM" + " 1" * 2_000_000, 6 + 4_000_000, "never closed"),
    ],
)
def test_deep_and_long_lines_are_refused_where_they_go_wrong(folder: Path, text: str, column: int, words: str) -> None:
    error = refused(folder / "deep.tsv", f"7\t{text}\n")
    assert place(error) == (1, column)
    assert words in str(error)


def test_a_gigantic_list_is_read(folder: Path) -> None:
    (folder / "long.tsv").write_text("0\t[SM" + " 1" * 1_000_000 + " ]\n")
    corpus = pm.read(folder / "long.tsv")
    assert corpus.lengths.tolist() == [1_000_002]
    assert corpus[0].target == (1_000_000 % 10,)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("[" * DEEP, "this is not JSON: Expecting value"),
        ('{"tree": ' + "[" * DEEP + "]" * DEEP + "}", "tree: a node is an object"),
        ('{"tree": {"type": "a"}, "id": ' + "[" * DEEP + "]" * DEEP + "}", '"id" is a string; got [[[[[['),
        ('{"tree": {"type": "a"}, "x": ' + "[" * DEEP + "]" * DEEP + "}", "the field 'x' is not the same kind"),
        ('{"tree": ' + '{"type": "a", "children": [' * DEEP + "1" + "]}" * DEEP + "}", "a node 100000 levels deep"),
    ],
)
def test_deep_json_is_refused_not_a_crash(folder: Path, body: str, words: str) -> None:
    body = body if body.startswith("{") else '{"tree": ' + body
    assert words in str(refused(folder / "deep.jsonl", body + "\n"))
