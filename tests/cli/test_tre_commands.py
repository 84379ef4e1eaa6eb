"""`pomona tre` and `pomona measure`: files in, tables and JSON out, four exit statuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from oracles_tre import noisy_sums
from pomona.base.errors import FormatError, MeasureError
from pomona.cli.main import main
from pomona.representations.tre.readers import Vectors, match_rows, read_derivations, read_items, read_representations


def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: object
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["pomona", *map(str, arguments)])
    status = 0
    try:
        main()
    except SystemExit as leaving:
        status = int(leaving.code or 0)
    seen = capsys.readouterr()
    return status, seen.out, seen.err


@pytest.fixture
def files(tmp_path: Path) -> Path:
    trees, rows = noisy_sums(60, 6, 5, seed=0, noise=0.3)
    np.save(tmp_path / "reps.npy", rows)
    (tmp_path / "derivations.jsonl").write_text("".join(json.dumps(tree) + "\n" for tree in trees))
    return tmp_path


def test_tre_prints_writes_and_draws(files: Path, monkeypatch, capsys) -> None:  # type: ignore[no-untyped-def]
    status, out, _ = run(
        monkeypatch, capsys, "tre", files / "reps.npy", files / "derivations.jsonl", "--shuffle", 50, "--heldout", 4,
        "--bootstrap", 20, "--out", files / "result.json", "--plot", files / "plot.png",
    )  # fmt: skip
    assert status == 0
    assert out.startswith("TRE 0.")
    assert out.splitlines()[2].split()[:3] == ["chance", "yes,", "it"]  # the verdict, before any table
    for words in ("TRE", "best found", "50 shuffles", "held-out TRE", "95 % interval", "worst reconstructed"):
        assert words in out
    result = json.loads((files / "result.json").read_text())
    assert result["shuffle"]["p_value"] == pytest.approx(1 / 51)
    assert len(result["per_item"]) == 60
    assert result["worst"][0]["tre"] == max(result["per_item"])
    assert (files / "plot.png").read_bytes()[:4] == b"\x89PNG"
    assert sorted(path.name for path in files.iterdir()) == ["derivations.jsonl", "plot.png", "reps.npy", "result.json"]


def test_json_is_the_only_thing_on_standard_output(files: Path, monkeypatch, capsys) -> None:  # type: ignore[no-untyped-def]
    status, out, _ = run(
        monkeypatch, capsys, "tre", files / "reps.npy", files / "derivations.jsonl", "--distance", "sql2", "--json"
    )
    assert status == 0
    assert json.loads(out)["certificate"]["status"] == "optimal"


def test_files_are_replaced_whole_or_left_alone(files: Path, monkeypatch, capsys) -> None:  # type: ignore[no-untyped-def]
    """An output that cannot be written leaves the old file and no temporary one, and says why."""
    (files / "plot.doc").write_text("old")
    inputs = (files / "reps.npy", files / "derivations.jsonl", "--distance", "sql2")
    status, _, err = run(monkeypatch, capsys, "tre", *inputs, "--plot", files / "plot.doc", "--out", files / "a.json")
    assert status == 3
    assert "a plot ends in .png, .svg or .pdf" in " ".join(err.split())
    assert (files / "plot.doc").read_text() == "old"
    (files / "plot.png").mkdir()
    status, _, err = run(monkeypatch, capsys, "tre", *inputs, "--plot", files / "plot.png")
    assert status == 3
    assert "this is a folder" in " ".join(err.split())
    (files / "plot.png").rmdir()
    status, _, err = run(monkeypatch, capsys, "tre", *inputs, "--out", files)
    assert status == 3
    assert "this is a folder" in " ".join(err.split())
    assert sorted(path.name for path in files.iterdir()) == ["derivations.jsonl", "plot.doc", "reps.npy"]
    status, _, _ = run(monkeypatch, capsys, "tre", *inputs, "--out", files / "new" / "result.json")
    assert status == 0
    assert json.loads((files / "new" / "result.json").read_text())["certificate"]["bound"] == "exact"


def test_constant_representations_give_null_with_a_reason(files: Path, monkeypatch, capsys) -> None:  # type: ignore[no-untyped-def]
    np.save(files / "reps.npy", np.ones((60, 3)))
    status, out, _ = run(
        monkeypatch, capsys, "tre", files / "reps.npy", files / "derivations.jsonl", "--shuffle", 5, "--json"
    )
    assert status == 0
    assert json.loads(out)["shuffle"]["p_value"] is None
    assert "all representations are equal" in json.loads(out)["shuffle"]["reason"]


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["reps.npy", "derivations.jsonl", "--max-gap", "0"], 1, "is larger than 0"),
        (["reps.npy", "derivations.jsonl", "--distance", "cosin"], 2, "is not one of cosine"),
        (["reps.npy", "missing.jsonl"], 3, "FormatError"),
        (["bad.npy", "derivations.jsonl"], 3, "row 7: the representation holds nan"),
        (["reps.npy", "broken.jsonl"], 3, "broken.jsonl, line 2, column 6: this is not JSON"),
    ],
)
def test_exit_statuses(files: Path, monkeypatch, capsys, arguments: list[str], status: int, words: str) -> None:  # type: ignore[no-untyped-def]
    rows = np.load(files / "reps.npy")
    rows[7, 0] = np.nan
    np.save(files / "bad.npy", rows)
    (files / "broken.jsonl").write_text('["a", "b"]\n["a",}\n')
    paths = [files / name if "." in name and not name.startswith("-") else name for name in arguments]
    found, _, err = run(monkeypatch, capsys, "tre", *paths)
    assert found == status
    assert words in " ".join(err.split())


def test_text_from_outside_is_printed_as_text(tmp_path: Path, monkeypatch, capsys) -> None:  # type: ignore[no-untyped-def]
    np.save(tmp_path / "reps.npy", np.random.default_rng(0).normal(size=(4, 2)))
    odd = [["[red]", "\x1b[31m"], ["[red]", "b"], ["c", "\x1b[31m"], ["c", "b"]]
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(tree) + "\n" for tree in odd))
    status, out, _ = run(monkeypatch, capsys, "tre", tmp_path / "reps.npy", tmp_path / "d.jsonl", "--distance", "sql2")
    assert status == 0
    assert "[red]" in out
    assert "\x1b[31m" not in out


def test_lines_to_type_instead_stand_on_lines_of_their_own(files: Path, monkeypatch, capsys) -> None:  # type: ignore[no-untyped-def]
    np.save(files / "ids.npy", np.arange(300).reshape(60, 5))
    status, _, err = run(monkeypatch, capsys, "tre", files / "ids.npy", files / "derivations.jsonl")
    assert status == 3
    assert "may be symbols" in err
    assert [line.split("(")[0] for line in err.splitlines()[1:]] == ["    pm.tre", "    pm.tre"]


def test_derivations_are_read_from_lines_of_words(files: Path) -> None:
    (files / "words.txt").write_text("dark red square\nsmall (blue disc)\n")
    trees, names = read_derivations(files / "words.txt")
    assert [trees.tree(row) for row in range(2)] == [("dark", "red", "square"), ("small", ("blue", "disc"))]
    assert names is None
    (files / "words.txt").write_text("dark red square\nsmall (blue disc\n")
    with pytest.raises(FormatError, match=r"words.txt: row 1: 'small \(blue disc' is not a"):
        read_derivations(files / "words.txt")


def test_measures_from_files(tmp_path: Path, monkeypatch, capsys) -> None:  # type: ignore[no-untyped-def]
    meanings = [[i, j] for i in range(3) for j in range(3)]
    (tmp_path / "meanings.jsonl").write_text("".join(json.dumps(row) + "\n" for row in meanings))
    (tmp_path / "messages.txt").write_text("".join(f"{'abc'[i]}{'xyz'[j]}\n" for i, j in meanings))
    np.save(tmp_path / "vectors.npy", np.random.default_rng(0).normal(size=(9, 3)))
    for name, key, value in (
        ("topsim", "value", 1.0),
        ("posdis", "value", 1.0),
        ("bosdis", "value", 1.0),
        ("context-independence", "value", 1.0),
        ("conditional-entropy", "meaning_given_message", 0.0),
    ):
        status, out, _ = run(
            monkeypatch, capsys, "measure", name, tmp_path / "meanings.jsonl", tmp_path / "messages.txt", "--json"
        )
        assert status == 0
        assert json.loads(out)[key] == pytest.approx(value, abs=1e-9)
    status, out, _ = run(
        monkeypatch, capsys, "measure", "topsim", tmp_path / "meanings.jsonl", tmp_path / "messages.txt",
        "--meaning-distance", "tree",
    )  # fmt: skip
    assert status == 0
    assert "value  1" in out
    assert run(monkeypatch, capsys, "measure", "binned-entropy", tmp_path / "vectors.npy")[0] == 0
    assert run(monkeypatch, capsys, "measure", "rsa", tmp_path / "vectors.npy", tmp_path / "vectors.npy")[0] == 0
    status, out, _ = run(
        monkeypatch, capsys, "measure", "tree-edit", tmp_path / "meanings.jsonl", tmp_path / "meanings.jsonl", "--json"
    )
    assert json.loads(out)["distances"] == [0] * 9
    (tmp_path / "derivations.jsonl").write_text("".join(f'["a{i}", "b{j}"]\n' for i, j in meanings))
    status, out, _ = run(
        monkeypatch,
        capsys,
        "measure",
        "proposition-1",
        tmp_path / "vectors.npy",
        tmp_path / "derivations.jsonl",
        "--json",
    )
    assert status == 0
    assert json.loads(out)["violations"] == 0
    assert run(monkeypatch, capsys, "measure", "topsin", tmp_path / "vectors.npy")[0] == 3
    assert run(monkeypatch, capsys, "measure", "topsim", tmp_path / "vectors.npy")[0] == 2


def test_readers_agree(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = np.random.default_rng(1).normal(size=(3, 4))
    names = ["gravy", "train", "gravy_train"]
    np.save(tmp_path / "a.npy", rows)
    np.savez(tmp_path / "a.npz", layer=rows, other=rows * 2)
    pq.write_table(pa.table({"word": names, "vector": rows.tolist()}), tmp_path / "lists.parquet")
    pq.write_table(pa.table({f"x{k}": rows[:, k] for k in range(4)}), tmp_path / "columns.parquet")
    lines = [f"{name} {' '.join(map(repr, map(float, row)))}" for name, row in zip(names, rows, strict=True)]
    (tmp_path / "a.vec").write_text("3 4\n" + "\n".join(lines) + "\n")
    (tmp_path / "b.txt").write_text("\n".join(lines))
    for path, key in (
        ("a.npy", None),
        ("a.npz", "layer"),
        ("lists.parquet", None),
        ("columns.parquet", None),
        ("a.vec", None),
        ("b.txt", None),
    ):
        np.testing.assert_allclose(read_representations(tmp_path / path, key).values, rows)
    assert read_representations(tmp_path / "a.vec").names == tuple(names)
    assert read_representations(tmp_path / "lists.parquet").names == tuple(names)
    (tmp_path / "d.jsonl").write_text(
        '{"item": "gravy_train", "derivation": ["gravy", "train"]}\n{"item": "gravy", "derivation": "gravy"}\n'
    )
    derivations, items = read_derivations(tmp_path / "d.jsonl")
    assert [derivations.tree(0), derivations.tree(1)] == [("gravy", "train"), "gravy"]
    np.testing.assert_allclose(match_rows(read_representations(tmp_path / "a.vec"), items), rows[[2, 0]])
    (tmp_path / "e.jsonl").write_text('{"shape": "square", "colour": "red"}\n')
    assert read_derivations(tmp_path / "e.jsonl")[0].tree(0) == ("shape=square", "colour=red")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", b"1,2", "representations are read from"),
        ("a.npy", b"junk", "not a NumPy array"),
        ("a.parquet", b"junk", "not a Parquet file"),
        ("a.vec", b"a 1.0 2.0\nb 1.0\n", "line 2: 1 numbers where the lines before have 2"),
        ("b.vec", b"a 1.0 x\n", "line 1: expected a word and its numbers"),
        ("c.vec", b"\xff\xfe", "not UTF-8"),
    ],
)
def test_files_that_are_not_what_they_say(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FormatError, match=words):
        read_representations(tmp_path / name)


def test_pickles_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(FormatError, match="not a NumPy array of numbers"):
        read_representations(tmp_path / "a.npy")


def test_names_must_be_found() -> None:
    with pytest.raises(MeasureError, match="row 1: no representation is named 'z'"):
        match_rows(Vectors(np.eye(2), ("x", "y")), ("x", "z"))
    with pytest.raises(MeasureError, match="the representations have no names"):
        match_rows(Vectors(np.eye(2)), ("x", "z"))


def test_the_additive_path_imports_no_torch() -> None:
    code = (
        "import sys, numpy as np; from pomona.representations.tre import tre; "
        "f = tre(np.eye(3) + 1, [('a', 'b'), ('b', 'c'), ('a', 'c')], restarts=2); f.shuffle_test(3); "
        "tre(np.eye(3)[:, None] + 1, [('a', 'b'), ('b', 'c'), ('a', 'c')], 'position', 'l1', restarts=1); "
        "sys.exit('torch' in sys.modules)"
    )
    source = str(Path(__file__).parents[2] / "src")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], env={"PYTHONPATH": source, "PATH": ""}, check=False
    )
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("name", "text", "tree", "item"),
    [
        ("d.csv", "shape,colour\nsquare,red\n", ("shape=square", "colour=red"), ("shape=square", "colour=red")),
        ("d.ptb", "(NP (JJ red) (NN square))\n", ("red", "square"), ("NP", ("JJ", "red"), ("NN", "square"))),
        ("d.txt", "(NP (JJ red)\n  (NN square))\n", ("red", "square"), ("NP", ("JJ", "red"), ("NN", "square"))),
        (
            "d.jsonl",
            '{"tree": {"type": "NP", "children": [{"type": "JJ", "value": "red"}, {"value": "square"}]}}\n',
            ("red", "square"),
            ("NP", "red", "square"),
        ),
        ("e.jsonl", '{"tree": "oak", "leaf": "red"}\n', ("tree=oak", "leaf=red"), ["oak", "red"]),  # attributes
    ],
)
def test_derivations_and_items_are_read_from_any_file_of_trees(tmp_path, name, text, tree, item):
    (tmp_path / name).write_text(text)
    derivations, items = read_derivations(tmp_path / name)
    assert derivations.tree(0) == tree
    assert items is None
    assert read_items(tmp_path / name) == [item]


@pytest.mark.parametrize("line", ['[["x"]]', "null", '[{"x": 1}]'])
def test_an_item_that_is_none_is_an_error_with_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    paths = tmp_path / "meanings.jsonl", tmp_path / "messages.txt"
    paths[0].write_text(f"{line}\n" * 3)
    paths[1].write_text("a\nb\nc\n")
    status, _, said = run(monkeypatch, capsys, "measure", "topsim", *paths)
    words = " ".join(said.split())
    assert status == 3
    assert "row 0: an item is a text or a list of symbols" in words
    assert all(path.name in words for path in paths)
