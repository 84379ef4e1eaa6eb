"""Verification: clean files hold, and every kind of planted problem is found, at its line, and nothing else is."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pomona as pm
from pomona.base.errors import FormatError
from pomona.data import formats
from pomona.data.corpus import Corpus
from pomona.data.task import corpus_of_trees
from pomona.trees.forest import Forest
from pomona.trees.operators import Operator, define_operator

ALL = ["jsonl", "lra", "parquet", "tsv"]
FULL = ["jsonl", "parquet"]
ROWS = 30


@pytest.fixture(scope="module")
def listops() -> Corpus:
    return pm.generate("listops/d20s", split="test", seed=5, train=100, dev=20, test=2 * ROWS, length=(4, 40))


def put(corpus: Corpus, folder: Path, stem: str, name: str) -> Path:
    return pm.write(corpus, folder / f"{stem}{formats.FORMATS.named(name).suffix}", name)


def found(*paths: Path) -> list[tuple[str, int | None, str]]:
    return [(Path(one.path).name, one.line, one.kind) for one in pm.verify(*paths).problems]


def line(name: str, row: int) -> int:
    return row + 1 + (name == "lra")  # below the header


# -- laws ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_clean_files_hold(tmp_path: Path, listops: Corpus, name: str) -> None:
    paths = [put(listops[:ROWS], tmp_path, "train", name), put(listops[ROWS:], tmp_path, "test", name)]
    result = pm.verify(*paths)
    assert result.holds
    assert result.problems == ()
    assert result.files == tuple(
        (str(path), name, ROWS, part.fingerprint)
        for path, part in zip(paths, (listops[:ROWS], listops[ROWS:]), strict=True)
    )
    assert "ListOps" in result.answers or "listops" in result.answers


@pytest.mark.parametrize("name", ALL)
@given(data=st.data())
@settings(max_examples=25)
def test_wrong_answers_are_found_at_their_lines(
    tmp_path_factory: pytest.TempPathFactory, listops: Corpus, name: str, data: st.DataObject
) -> None:
    rows = data.draw(st.sets(st.integers(0, ROWS - 1), max_size=4))
    targets = listops.targets[:ROWS].copy()
    for row in rows:
        targets[row, 0] = (targets[row, 0] + data.draw(st.integers(1, 9))) % 10
    path = put(dataclasses.replace(listops[:ROWS], targets=targets), tmp_path_factory.mktemp("wrong"), "test", name)
    result = pm.verify(path)
    assert [(one.line, one.kind) for one in result.problems] == [
        (line(name, row), "wrong answer") for row in sorted(rows)
    ]
    for one, row in zip(result.problems, sorted(rows), strict=True):
        assert one.message == f"the file says {targets[row, 0]}, the rules give {listops.targets[row, 0]}"
        assert str(one) == f"{path}:{one.line}: wrong answer: {one.message}"
    assert result.holds == (not rows)


@pytest.mark.parametrize("name", FULL)
@given(data=st.data())
@settings(max_examples=25)
def test_a_wrong_node_value_is_found_and_named(
    tmp_path_factory: pytest.TempPathFactory, listops: Corpus, name: str, data: st.DataObject
) -> None:
    values = listops.values[: listops.forest.start[ROWS]].copy()
    node = data.draw(st.integers(0, len(values) - 1))
    new = data.draw(st.sampled_from([value for value in range(-1, 10) if value != values[node]]))
    right, values[node] = values[node], new
    path = put(dataclasses.replace(listops[:ROWS], values=values), tmp_path_factory.mktemp("node"), "test", name)
    (problem,) = pm.verify(path).problems
    row = int(listops.forest.tree[node])
    inside = node - int(listops.forest.start[row])
    symbol = listops.forest.names[listops.forest.symbol[node]]
    given_as = "nothing" if new < 0 else new
    assert (problem.line, problem.kind) == (row + 1, "wrong node value")
    expected = f"the value of {symbol} (node {inside}) is recorded as {given_as}, the rules give {right}"
    assert problem.message == expected


@pytest.mark.parametrize("name", ALL)
@given(rows=st.lists(st.integers(0, 5), min_size=1, max_size=8))
@settings(max_examples=25)
def test_duplicates_are_found_and_name_the_first(
    tmp_path_factory: pytest.TempPathFactory, listops: Corpus, name: str, rows: list[int]
) -> None:
    path = put(listops[rows], tmp_path_factory.mktemp("twice"), "test", name)
    expected = [
        (line(name, place), f"the same example is on line {line(name, rows.index(row))}")
        for place, row in enumerate(rows)
        if row in rows[:place]
    ]
    problems = pm.verify(path).problems
    assert [(one.line, one.message) for one in problems] == expected
    assert {one.kind for one in problems} <= {"duplicate"}


@pytest.mark.parametrize("other", ALL)
@pytest.mark.parametrize("name", ["parquet", "lra"])
def test_leaks_are_counted_and_the_first_is_named(tmp_path: Path, listops: Corpus, name: str, other: str) -> None:
    train = put(listops[:ROWS], tmp_path, "train", other)
    test = put(listops[[40, 41, 20, 42, 3, 43]], tmp_path, "test", name)
    (problem,) = pm.verify(train, test).problems
    assert (problem.path, problem.line, problem.kind) == (str(test), line(name, 2), "leak")
    assert problem.message == f"2 of 6 examples are also in {train} (this one on line {line(other, 20)})"


# -- cases -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FULL)
@pytest.mark.parametrize("rows", [1, 5])
def test_a_lost_bracket_is_found(tmp_path: Path, listops: Corpus, name: str, rows: int) -> None:
    """The last `]` of the last row: also where it was the only one, so that no `]` is left in the file."""
    part = listops[[int(np.argmin(listops.nesting))]] if rows == 1 else listops[:rows]
    assert rows > 1 or part.nesting.tolist() == [1]
    start = part.token_start.copy()
    start[-1] -= 1
    path = put(dataclasses.replace(part, tokens=part.tokens[:-1], token_start=start), tmp_path, "test", name)
    (problem,) = pm.verify(path).problems
    assert (problem.line, problem.kind) == (rows, "wrong tokens")
    assert problem.message == f"the tokens are not those of the tree {part[rows - 1].text[:80]}"


@pytest.mark.parametrize("name", FULL)
def test_a_token_of_another_tree_is_found(tmp_path: Path, listops: Corpus, name: str) -> None:
    tokens = listops.tokens[: listops.token_start[5]].copy()
    place = int(np.flatnonzero(tokens < 10)[7])
    tokens[place] = (tokens[place] + 1) % 10
    path = put(dataclasses.replace(listops[:5], tokens=tokens), tmp_path, "test", name)
    row = int(np.searchsorted(listops.token_start, place, side="right"))
    assert found(path) == [(path.name, row, "wrong tokens")]


def test_tokens_without_brackets_are_not_compared(tmp_path: Path) -> None:
    """Somebody's sentences over somebody's trees: a different sequence is theirs to choose."""
    path = tmp_path / "theirs.jsonl"
    path.write_text('{"tokens": ["so", "so"], "tree": {"type": "S", "children": [{"type": "NP"}]}, "target": [1]}\n')
    result = pm.verify(path)
    assert result.holds
    assert result.answers == "nothing"
    assert result.unchecked == (str(path),)


@pytest.mark.parametrize("broken", ["3\t[MAX 3 4\n", "3\t3\n\n", "x\n"])
def test_unreadable_files_are_problems_with_a_line(tmp_path: Path, listops: Corpus, broken: str) -> None:
    fine = put(listops[:3], tmp_path, "train", "tsv")
    (tmp_path / "test.tsv").write_text("1\t1\n" + broken)
    result = pm.verify(tmp_path)
    (problem,) = result.problems
    line_of_fault = 3 if broken.startswith("3\t3") else 2
    assert (problem.path, problem.line, problem.kind) == (str(tmp_path / "test.tsv"), line_of_fault, "unreadable")
    assert str(tmp_path) not in problem.message  # the place is said once
    assert [path for path, *_ in result.files] == [str(fine)]


def test_a_lost_round_bracket_is_found(tmp_path: Path, listops: Corpus) -> None:
    path = put(listops[:5], tmp_path, "test", "tsv")
    lines = path.read_bytes().split(b"\n")
    lines[2] = lines[2].replace(b"( ", b"", 1)
    path.write_bytes(b"\n".join(lines))
    assert found(path) == [("test.tsv", 3, "unreadable")]


def test_the_same_split_in_two_formats_must_be_the_same(tmp_path: Path, listops: Corpus) -> None:
    put(listops[:5], tmp_path, "train", "parquet")
    for name in ("tsv", "lra", "jsonl"):
        put(listops[:5], tmp_path, "train", name)
    assert pm.verify(tmp_path).holds
    put(listops[:4], tmp_path, "train", "tsv")
    problems = pm.verify(tmp_path).problems
    assert {(Path(one.path).name, one.line, one.kind) for one in problems} == {("train.tsv", None, "different content")}
    assert problems[0].message == ("the content is not that of train.jsonl, though the names say it is the same split")


def test_names_with_dots_are_different_splits(tmp_path: Path, listops: Corpus) -> None:
    """listops.train and listops.test share a beginning, not a split: they are checked for leaks."""
    put(listops[:5], tmp_path, "listops.train", "tsv")
    test = put(listops[5:9], tmp_path, "listops.test", "tsv")
    assert pm.verify(tmp_path).holds
    put(listops[4:9], tmp_path, "listops.test", "tsv")
    assert found(tmp_path) == [("listops.train.tsv", 5, "leak")]
    assert test.exists()


def test_a_file_given_twice_is_no_leak(tmp_path: Path, listops: Corpus) -> None:
    path = put(listops[:5], tmp_path, "train", "tsv")
    assert pm.verify(path, path, tmp_path).holds


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"nowhere: there is no such file or folder"):
        pm.verify(tmp_path / "nowhere")
    with pytest.raises(FormatError, match=r"the folder holds no \.csv, \.input, \.jsonl, \.parquet, \.ptb or \.tsv"):
        pm.verify(tmp_path)


def test_progress_counts_every_file(tmp_path: Path, listops: Corpus) -> None:
    put(listops[:5], tmp_path, "train", "tsv")
    (tmp_path / "bad.tsv").write_text("?")
    done: list[int] = []
    pm.verify(tmp_path, progress=done.append)
    assert sum(done) == 2


def test_values_below_zero_are_worked_out_too(tmp_path: Path) -> None:
    """A user's operator may answer with any number; -1 is not the last outcome."""
    define_operator(Operator("LESS", _less))
    forest = Forest.from_nested([("LESS", "2", "3"), ("LESS", "3", "2")])
    corpus = corpus_of_trees(Forest.from_nested(["1", "2"]))
    values = np.array([2, 3, 0, 3, 2, 1], np.int16)
    outcomes = (-1, 1, 2, 3)
    made: dict[str, Any] = {"forest": forest, "values": values, "outcomes": outcomes}
    right = dataclasses.replace(corpus, **made, targets=np.array([[0], [1]], np.int16))
    assert pm.verify(put(right, tmp_path, "right", "jsonl")).holds
    wrong = dataclasses.replace(corpus, **made, targets=np.array([[1], [1]], np.int16))
    (problem,) = pm.verify(put(wrong, tmp_path, "wrong", "jsonl")).problems
    assert (problem.line, problem.message) == (1, "the file says 1, the rules give -1")


def _less(arguments: Any) -> int:
    return int(arguments[0]) - int(arguments[1])


def test_an_answer_that_is_missing_is_wrong(tmp_path: Path, listops: Corpus) -> None:
    targets = listops.targets[:2].copy()
    targets[1] = -1
    path = put(dataclasses.replace(listops[:2], targets=targets), tmp_path, "test", "parquet")
    (problem,) = pm.verify(path).problems
    assert problem.message == f"the file says nothing, the rules give {listops.targets[1, 0]}"


def test_targets_of_another_number_than_the_roots_are_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "test.jsonl"
    tree = '{"type": "MAX", "value": 2, "children": [{"type": "1", "value": 1}, {"type": "2", "value": 2}]}'
    path.write_text(f'{{"tree": {tree}, "target": [7, 7]}}\n')
    assert found(path) == [("test.jsonl", 1, "wrong answer")]
    path.write_text(f'{{"tree": {tree}}}\n')
    assert pm.verify(path).holds
    assert pm.verify(path).unchecked == ()
