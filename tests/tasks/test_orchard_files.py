"""ORCHARD as text and in files: every place of a fault, round trips in all formats, verification."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracles_orchard as oracle
import pomona as pm
from pomona.base.errors import FormatError, TreeError
from pomona.data import formats
from pomona.data.task import TASKS
from pomona.tasks.orchard import text as orchard_text
from pomona.trees import links

KINDS: list[dict[str, Any]] = [
    {"operators": ("MIN", "MAX")},
    {"operators": ("FIRST", "LAST"), "copying": 0.5, "copies": "digits"},
    {"operators": ("MIN", "MAX"), "copying": 0.0},
    {"operators": ("FIRST", "LAST", "MED", "SM"), "trees": 3},
]


def corpus(settings: dict[str, Any], split: str = "test-7", **more: Any) -> pm.Corpus:
    task = TASKS.build("orchard", {"train": 400, "dev": 50, "test": 150, "iid": 50, **settings, **more})
    return pm.generate(task, split=split, seed=8)


# -- text ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", KINDS)
def test_text_round_trip(settings: dict[str, Any]) -> None:
    made = corpus(settings)
    read = orchard_text.parse("".join(text + "\n" for text in made.texts).encode(), path="text")
    assert read.fingerprint == made.fingerprint
    assert set(read.vocabulary) == set(made.vocabulary)  # operators may stand in another order
    assert links.texts(made.forest, made.width, digits=settings.get("copies") == "digits") == made.texts
    glued = [text.replace(" ]", "]") for text in made.texts]
    assert orchard_text.parse("\n".join(glued).encode(), path="text").fingerprint == made.fingerprint


def test_positions_are_level_order() -> None:
    made = corpus(KINDS[3])
    for row in range(20):
        first = oracle.parse(made.texts[row])[0]
        forest = made[row].trees
        position = links.positions(forest, made.width)[: int(forest.start[1])]
        names = [forest.names[forest.symbol[node]] for node in np.argsort(position)]
        assert names == [node if isinstance(node, str) else node[0] for node in oracle.level_order(first)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[MAX 2 6 0 1", "column 13: the line ends before a list is closed"),
        ("[MAX 2 ] X", "column 11: a tree is missing here"),
        ("[MAX ] X [MIN 1 ]", "column 6: this list is empty"),
        ("[MAX 2 ] X [COPY 9 ]", "column 20: COPY points beyond the nodes of the earlier trees"),
        ("[COPY 0 ]", "column 9: COPY points beyond the nodes of the earlier trees"),
        ("[MAX 12 ]", "column 6: '12': integers outside COPY have one digit"),
        ("[MAX 2 ] [MIN 2 ]", "column 10: '[MIN' comes after the end of a tree; write X between trees"),
        ("[MOX 2 ]", "column 1: '[MOX' is not an ORCHARD token"),
        ("[MAX 2 ] X [COPY 0 1 ]", "column 20: COPY has one argument"),
        ("[MAX 2 ] X [COPY 01 ]", "column 18: COPY has one argument"),
        ("[MAX 2 ] X [COPY ]", "column 18: COPY has one argument"),
        ("[MAX 2 ] X [COPY [MAX 1 ] ]", "column 18: COPY has one argument"),
        ("]", "column 1: ']' closes a list that was never opened"),
        ("[MAX 2 ] X 3 4", "column 14: '4' comes after the end of a tree"),
        ("[MAX 2 ]\r\r\n", "column 9: a carriage return (CR) stands inside the line; lines end in LF or CR LF"),
    ],
)
def test_faults_have_a_place(text: str, words: str) -> None:
    with pytest.raises(TreeError) as caught:
        orchard_text.read(text)
    assert str(caught.value).startswith(words)


def test_faults_have_a_line(tmp_path: Path) -> None:
    path = tmp_path / "train.input"
    path.write_text("[MAX 2 ] X [MIN 1 ]\n[MAX 2 ]\n")
    with pytest.raises(FormatError, match=r"train.input, line 2, column 9: this line does not have as many trees"):
        pm.read(path)
    path.write_text("[MAX 2 ] X [MIN 1 ]\n\n[MAX 2 ] X [MIN 1 ]\n")
    with pytest.raises(FormatError, match="line 2, column 1: the line is empty"):
        pm.read(path)


@given(st.binary(max_size=60) | st.text("[]MAXCOPYIN 0123456789\n", max_size=60).map(str.encode))
def test_no_bytes_break_the_parser(data: bytes) -> None:
    """Anything is a corpus that is written as it was read, or an error of ours."""
    try:
        found = orchard_text.parse(data, path="bytes")
    except FormatError:
        return
    found.forest.checked()
    assert found.fingerprint == orchard_text.parse("\n".join(found.texts).encode(), path="again").fingerprint


# -- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [*KINDS, {"operators": ("MIN", "MAX"), "target": "pair"}])
@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".input"])
def test_files_round_trip(settings: dict[str, Any], suffix: str, tmp_path: Path) -> None:
    made = corpus(settings, "test-5")
    path = pm.write(made, tmp_path / f"test-5{suffix}")
    read = pm.read(path)
    assert read.width == made.width
    assert read.texts == made.texts
    assert read.forest == made.forest
    np.testing.assert_array_equal(read.forest.links, made.forest.links)
    if suffix != ".input" or settings.get("target") != "pair":  # the original's files do not tell a pair from two
        assert read.fingerprint == made.fingerprint
        assert [one.target for one in read] == [one.target for one in made]
    result = pm.verify(path)
    assert result.holds, result.problems
    assert "operators" in result.answers or "orchard" in result.answers


def test_the_originals_two_files(tmp_path: Path) -> None:
    made = corpus(KINDS[0])
    pm.write(made, tmp_path / "train.input")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train.input", "train.label"]
    lines = (tmp_path / "train.input").read_text().splitlines()
    labels = (tmp_path / "train.label").read_text().splitlines()
    assert lines == made.texts
    assert [list(map(int, label.split(","))) for label in labels] == [oracle.stack_answers(line) for line in lines]
    assert formats.recognise(tmp_path / "train.label").name == "orchard"
    assert pm.read(tmp_path / "train.label").fingerprint == made.fingerprint
    (tmp_path / "train.label").unlink()
    alone = pm.read(tmp_path / "train.input")
    assert alone.fingerprint == made.fingerprint
    assert "worked out" in alone.origin["answers"]


def test_a_wrong_label_is_found(tmp_path: Path) -> None:
    pm.write(corpus(KINDS[0]), tmp_path / "test.input")
    labels = (tmp_path / "test.label").read_text().splitlines()
    labels[4] = f"{(int(labels[4][0]) + 1) % 10},{labels[4][2]}"
    (tmp_path / "test.label").write_text("\n".join(labels) + "\n")
    problems = pm.verify(tmp_path / "test.input").problems
    assert [(problem.line, problem.kind) for problem in problems] == [(5, "wrong answer")]
    (tmp_path / "test.label").write_text("\n".join(labels[:-1]) + "\n")
    with pytest.raises(FormatError, match=r"149 labels for the 150 examples of test\.input"):
        pm.read(tmp_path / "test.input")
    (tmp_path / "test.label").write_text("1;2\n")
    with pytest.raises(FormatError, match=r"line 1: a label is 2 digits with commas between, for example 6"):
        pm.read(tmp_path / "test.input")


def test_a_moved_link_and_a_wrong_pair_are_found(tmp_path: Path) -> None:
    pm.write(corpus(KINDS[0], "test-3"), tmp_path / "a.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]

    def first_link(node: dict[str, Any]) -> dict[str, Any]:
        return (
            node
            if "link" in node
            else next(found for child in node.get("children", []) if (found := first_link(child)))
        )

    first_link(rows[2]["trees"][1])["link"] += 1
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    problems = pm.verify(tmp_path / "a.jsonl").problems
    assert {problem.line for problem in problems} == {3}
    assert "wrong tokens" in {problem.kind for problem in problems}
    pm.write(corpus({"operators": ("MIN", "MAX"), "target": "pair"}, "test-3"), tmp_path / "b.jsonl")
    text = (tmp_path / "b.jsonl").read_text().splitlines()
    row = json.loads(text[0])
    row["target"] = ["0,0"] if row["target"] != ["0,0"] else ["1,1"]
    (tmp_path / "b.jsonl").write_text("\n".join([json.dumps(row), *text[1:]]) + "\n")
    assert [problem.kind for problem in pm.verify(tmp_path / "b.jsonl").problems] == ["wrong answer"]


def test_trees_without_tokens_are_spelled(tmp_path: Path) -> None:
    made = corpus(KINDS[0], "test-3")
    pm.write(made, tmp_path / "a.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    for row in rows:
        del row["tokens"], row["id"]
    (tmp_path / "b.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert pm.read(tmp_path / "b.jsonl").texts == made.texts


def test_long_sources_are_reported_and_never_cut(tmp_path: Path) -> None:
    task = TASKS.build("orchard", {"test": 30, "tested": (24, 24), "depths": (3, 4), "dev": 0, "iid": 0})
    made = pm.generate(task, split="test-24")
    longest = int(made.lengths.max())
    assert longest > 1024
    with pytest.warns(UserWarning, match=f"longer than fairseq's 1,024 tokens .the longest has {longest:,}.; none was"):
        pm.write(made, tmp_path / "deep.input")
    assert pm.read(tmp_path / "deep.input").fingerprint == made.fingerprint


def test_a_writer_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def stop() -> None:
        with formats.writing(tmp_path / "a.input") as writer:
            writer.write(corpus(KINDS[0], "test-3"))
            raise RuntimeError("the power failed")

    with pytest.raises(RuntimeError, match="the power failed"):
        stop()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("killed", [1, 2, 3])
def test_a_pair_is_never_of_two_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: int) -> None:
    """Killed before the first rename, between the two, and after them: sources never stand beside others' labels."""
    old, new = corpus(KINDS[0], "test-3"), corpus(KINDS[1], "test-3")
    pm.write(old, tmp_path / "a.input")
    child = os.fork()
    if not child:
        done = 0

        def replace(self: Path, target: Path) -> None:
            nonlocal done
            done += 1
            if done == killed:
                os._exit(9)
            os.rename(self, target)  # noqa: PTH104 - `Path.replace` is what is replaced here

        monkeypatch.setattr(Path, "replace", replace)
        pm.write(new, tmp_path / "a.input")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    read = pm.read(tmp_path / "a.input")
    assert read.fingerprint in (old.fingerprint, new.fingerprint)
    assert (tmp_path / "a.label").exists() == (killed == 1)
    pm.write(new, tmp_path / "a.input")
    assert pm.read(tmp_path / "a.input").fingerprint == new.fingerprint
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.input", "a.label"]


def test_an_error_between_the_two_renames_leaves_the_old_pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pm.write(corpus(KINDS[0], "test-3"), tmp_path / "a.input")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def replace(self: Path, target: Path) -> None:
        if target.name == "a.input":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        os.rename(self, target)  # noqa: PTH104 - as above

    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(FormatError, match="cannot be written"):
        pm.write(corpus(KINDS[1], "test-3"), tmp_path / "a.input")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_only_orchard_is_written_as_orchard(tmp_path: Path) -> None:
    source = tmp_path / "a.jsonl"
    source.write_text('{"tree": {"type": "S", "value": "yes", "children": [{"type": "no", "value": "no"}]}}\n')
    with pytest.raises(FormatError, match="this corpus is not ORCHARD"):
        pm.write(pm.read(source), tmp_path / "a.input")
    assert list(tmp_path.iterdir()) == [source]
