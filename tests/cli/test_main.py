"""The command: every verb, for people and for programs, its exit statuses, and text that is not taken for markup."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

import pomona as pm
from pomona.cli import commands, terminal
from pomona.cli import main as cli
from pomona.cli.commands import reproduce

from command_line import SMALL, Run  # isort: skip

# -- every verb ------------------------------------------------------------------------------------------------------


def verbs() -> list[str]:
    return sorted(path.stem for path in Path(commands.__path__[0]).glob("*.py") if path.stem != "__init__")


@pytest.mark.parametrize("verb", verbs())
def test_every_verb_explains_itself(verb: str) -> None:
    result = CliRunner().invoke(cli.app, [verb.removesuffix("_").replace("_", "-"), "--help"])
    assert result.exit_code == 0
    assert "--json" in result.output


def test_the_version(run: Run) -> None:
    assert run("--version").out == f"pomona {pm.__version__}\n"


def test_help_lists_every_verb() -> None:
    result = CliRunner().invoke(cli.app, ["--help"])
    assert result.exit_code == 0
    assert re.findall(r"^(Start|Data|Proofs|Models|Measures|Papers) *$", result.output, re.M) == [
        "Start", "Data", "Proofs", "Models", "Measures", "Papers"
    ]  # fmt: skip
    for verb in verbs():
        assert verb.removesuffix("_").replace("_", "-") in result.output


def test_ls(run: Run) -> None:
    shown = run("ls")
    assert shown.status == 0
    assert "listops/d20s" in shown.out
    assert "train 90,000  dev 10,000  test 10,000" in shown.out
    found = run("ls", "--json").json
    assert found["listops/d20s"]["splits"] == {"train": 90_000, "dev": 10_000, "test": 10_000}
    assert found["listops/d20s"]["settings"]["branching"] == 0.25
    assert found["listops/d20s"]["about"].startswith("Nested lists of digits")


@pytest.mark.parametrize(
    ("name", "kind", "setting", "default", "words"),
    [
        ("listops", "task", "branching", 0.25, "chance that an argument is a list"),
        ("listops/lra", "task", "depth", 10, "how deep lists may be nested"),
        ("treelstm", "model", "leaf_deviation", 0.1, "of the first leaf vectors"),
        ("topsim", "measure", "method", "spearman", "spearman | pearson | kendall"),
        ("recipe", "recipe", "epochs", 20, "passes over the training examples"),
    ],
)
def test_ls_describes_one_of_anything(
    run: Run, name: str, kind: str, setting: str, default: object, words: str
) -> None:
    found = run("ls", name, "--json").json
    assert (found["kind"], found["name"]) == (kind, name)
    assert found["settings"][setting]["default"] == default
    assert words in " ".join(found["settings"][setting][part] for part in ("type", "help"))
    shown = run("ls", name).out
    assert words in " ".join(shown.split())
    assert all(key in shown for key in found["settings"])


def test_ls_describes_a_paper_and_suggests_near_names(run: Run) -> None:
    assert "Table 3" in run("ls", "fair_nli_2019", "--json").json["places"]
    assert "CBoW fails on the hardest task" in run("ls", "fair_nli_2019").out
    slips = {"treelst": "treelstm", "topsin": "topsim", "listops_2019": "listops_2018", "taks": "tasks"}
    for wrong, near in slips.items():
        assert f"nothing is called '{wrong}'. Did you mean '{near}'" in run("ls", wrong).err


@pytest.mark.parametrize(
    ("kind", "name", "about"),
    [
        ("models", "treelstm", "A TreeLSTM that is given the gold trees."),
        ("measures", "parse-f1", "How far the trees that a model built agree with the gold trees"),
        ("papers", "listops_2018", "ListOps: A Diagnostic Dataset"),
    ],
)
def test_ls_of_the_other_kinds(run: Run, kind: str, name: str, about: str) -> None:
    shown = run("ls", kind)
    assert shown.status == 0
    assert name in shown.out
    assert about in shown.out
    assert run("ls", kind, "--json").json[name]["about"].startswith(about)


def test_show(run: Run, tmp_path: Path) -> None:
    arguments = ["show", "listops/d20s", "--data-seed", 1, "-n", 2, *SMALL]
    examples = list(pm.generate("listops/d20s", split="test", seed=1, size=2, train=60, dev=10, test=20))
    shown = run(*arguments, "--svg", tmp_path / "tree.svg")
    assert shown.status == 0
    assert (tmp_path / "tree.svg").read_text().startswith("<svg")
    found = run(*arguments, "--json").json
    for one, row in zip(examples, found, strict=True):
        assert f"{one.text}  ->  {one.target[0]}" in shown.out
        assert (
            f"{one.length} tokens, nesting {one.nesting}, dependency depth {one.dependency}, id {one.id}" in shown.out
        )
        assert row == {
            "id": one.id,
            "tokens": list(one.tokens),
            "target": list(one.target),
            "symbols": [one.trees.names[symbol] for symbol in one.trees.symbol],
            "parents": one.trees.parent.tolist(),
            "values": list(one.values),
            "length": one.length,
            "nesting": one.nesting,
            "dependency": one.dependency,
        }


def test_generate_writes_what_it_says(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    arguments = ["generate", "listops/d20s", "--data-seed", 7, "--out", folder, *SMALL]
    made = run(*arguments, "-f", "parquet,jsonl,tsv,lra", "--json")
    assert made.status == 0
    assert made.err == ""
    manifest = made.json
    assert manifest == json.loads((folder / "manifest.json").read_text())
    assert (manifest["name"], manifest["seed"], manifest["settings"]["train"]) == ("listops/d20s", 7, 60)
    assert list(manifest["splits"]) == ["train", "dev", "test"]
    for split, about in manifest["splits"].items():
        corpus = pm.generate("listops/d20s", split=split, seed=7, train=60, dev=10, test=20)
        assert about["rows"] == len(corpus)
        assert about["fingerprint"] == corpus.fingerprint
        assert about["labels"] == corpus.labels()
        assert about["files"] == [
            f"{split}{suffix}" for suffix in (".parquet", ".jsonl", ".tsv", ".lra.tsv")
        ]
        for path in about["files"]:
            assert pm.read(folder / path).fingerprint == corpus.fingerprint
    shown = run(*arguments, "--split", "dev", "--workers", 2)
    assert manifest["splits"]["dev"]["fingerprint"][:16] in shown.out
    assert "Next: pomona verify" in shown.out
    assert sorted(path.name for path in folder.iterdir() if path.name.startswith(".")) == []


def test_generate_sizes(run: Run, tmp_path: Path) -> None:
    found = run("generate", "listops/d20s", "-o", tmp_path, *SMALL, "--size", 15, "--json").json["splits"]
    assert {split: about["rows"] for split, about in found.items()} == {"train": 15, "dev": 10, "test": 15}


def test_verify(run: Run, data: Path) -> None:
    shown = run("verify", data)
    assert shown.status == 0
    assert "All holds: every answer recomputes, no duplicates, no leaks." in shown.out
    assert f"The files are those that {data / 'manifest.json'} lists." in shown.out
    found = run("verify", data, "--json").json
    assert found["holds"] is True
    assert found["unchecked"] == []
    assert found["problems"] == []
    assert [(Path(one["path"]).name, one["format"], one["rows"]) for one in found["files"]] == [
        ("dev.parquet", "parquet", 10), ("dev.tsv", "tsv", 10), ("test.parquet", "parquet", 20),
        ("test.tsv", "tsv", 20), ("train.parquet", "parquet", 60), ("train.tsv", "tsv", 60),
    ]  # fmt: skip


def test_verify_prints_file_and_line_and_fails(run: Run, data: Path) -> None:
    path = data / "test.tsv"
    lines = path.read_text().splitlines()
    lines[3] = f"{(int(lines[3][0]) + 1) % 10}{lines[3][1:]}"
    path.write_text("\n".join([*lines, lines[0]]) + "\n")
    shown = run("verify", path)
    assert shown.status == 1
    assert f"{path}:4: wrong answer: the file says {lines[3][0]}, the rules give " in shown.out
    assert f"{path}:21: duplicate: the same example is on line 1" in shown.out
    assert "2 problems." in shown.out
    assert "... and 1 more (--most 0 prints all)" in run("verify", path, "--most", 1).out
    found = run("verify", path, "--json")
    assert found.status == 1
    assert [(one["line"], one["kind"]) for one in found.json["problems"]] == [(4, "wrong answer"), (21, "duplicate")]


def test_stats(run: Run, data: Path, tmp_path: Path) -> None:
    corpus = pm.read(data / "test.parquet")
    found = run("stats", data / "test.parquet", "--json")
    assert found.status == 0
    assert found.json == json.loads(json.dumps(pm.describe(corpus).as_dict()))
    shown = run("stats", data / "test.parquet", "--plot", tmp_path / "depths.svg")
    assert corpus.fingerprint in shown.out
    assert "average token depth" in shown.out
    assert (tmp_path / "depths.svg").read_text().startswith("<svg")
    wrong = run("stats", data / "test.parquet", "--plot", tmp_path / "depths.doc")
    assert wrong.status == 3
    assert "a plot ends in .png, .svg or .pdf" in wrong.err


# -- exit statuses ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["frobnicate"],
        ["show"],
        ["show", "listops/d20s", "-n", "none"],
        ["show", "listops/d20s", "-n", "0"],
        ["ls", "-x"],
    ],
)
def test_wrong_usage_is_2(run: Run, arguments: list[str]) -> None:
    ran = run(*arguments)
    assert ran.status == 2
    assert ran.out == ""
    assert "Usage: " in ran.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["show", "listops/d20"],
            "SpecError: there is no file or folder 'listops/d20', and listops has no preset 'd20'. Did you",
        ),
        (["show", "nowhere.tsv"], "FormatError: nowhere.tsv: there is no such file"),
        (["show", "."], "FormatError: .: this folder is no dataset: it has no manifest.json, and no files called"),
        (["show", "bad.tsv"], "FormatError: bad.tsv, line 1, column 10: the line ends inside a list that was never"),
        (["show", "bad.tsv", "--set", "a=1"], "SpecError: bad.tsv is a file; settings (--set) go with a task's name"),
        (["stats", "bad.tsv"], "FormatError: bad.tsv, line 1, column 10"),
        (["verify", "nowhere"], "FormatError: nowhere: there is no such file or folder"),
        (["ls", "listop"], "SpecError: nothing is called 'listop'. Did you mean 'listops'?"),
        (
            ["generate", "listops/d20s", "--set", "braching=1"],
            "SpecError: listops has no setting 'braching'. Did you mean",
        ),
        (
            ["generate", "listops/d20s", "--set", "branching"],
            "SpecError: a setting is written name=value; got 'branching'",
        ),
        (
            ["generate", "listops/d20s", "-f", "parket"],
            "FormatError: no format is called 'parket'. Did you mean 'parquet'?",
        ),
        (["generate", "listops/d20s", "--split", "tset"], "SpecError: listops/d20s has no split 'tset'. Did you mean"),
        (
            ["generate", "listops/d20s", "-o", "bad.tsv", *SMALL],
            "FormatError: bad.tsv/manifest.json: cannot be written: ",
        ),
    ],
)
def test_bad_input_is_3_in_one_line(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.tsv").write_text("3\t[MAX 3 \n")
    for extra in ([], ["--json"]):
        ran = run(*arguments, *extra)
        assert ran.status == 3
        assert ran.out == ""
        assert ran.err.startswith(words)
        assert ran.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["bad.tsv"]


def test_a_folder_called_like_a_task_does_not_hide_it(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("listops").mkdir()
    assert run("show", "listops", "-n", 1, *SMALL).status == 0


# -- hostile text ----------------------------------------------------------------------------------------------------

HOSTILE = [
    "[bold red]x[/]",
    "\x1b[31mred\x1b[0m",
    ":heart:",
    "a\nAll holds",
    "\u202egnip",
    "\x9b2J",
    "[/nothing]",
]


@pytest.mark.parametrize("word", HOSTILE)
def test_words_from_a_file_are_shown_as_text(run: Run, tmp_path: Path, word: str) -> None:
    path = tmp_path / "hostile.jsonl"
    tree = {"type": word, "value": word, "children": [{"type": word, "value": word}]}
    path.write_text(json.dumps({"id": word, "tokens": [word, "end"], "target": [word], "tree": tree}) + "\n")
    for arguments in (["show", path], ["stats", path], ["verify", path]):
        ran = run(*arguments)
        assert ran.status == 0 or (arguments[0] == "verify" and word.startswith("["))  # a bracket that no tree has
        assert not set(ran.out) & {"\x1b", "\x9b", "\u202e", "❤"}
        assert "\nAll holds end" not in ran.out
    shown = run("show", path).out
    safe = word.encode("unicode_escape").decode() if not word.isprintable() else word
    assert f"{safe} end  ->  {safe}" in shown
    assert f"id {safe}" in shown
    ran = run("show", path, "--json")
    assert ran.json[0]["tokens"] == [word, "end"]
    assert ran.out.isascii()


def test_names_of_files_are_shown_as_text(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "[bold]\x1b[31m.tsv"
    path.write_text("3\t[MAX 3 \n")
    ran = run("show", path)
    assert "[bold]\\x1b[31m.tsv, line 1, column 10" in ran.err
    ran = run("verify", path)
    assert "[bold]\\x1b[31m.tsv:1: unreadable: column 10: the line ends" in ran.out


def test_plain_text_comes_through_markup_as_it_was() -> None:
    console = Console(width=200, emoji=False)
    for word in [*HOSTILE, "[", "]", "[[", "[MAX 1 2 ]", "[link=x]y[/link]", "\\[bold]", "\\\\"]:
        with console.capture() as caught:
            console.print(terminal.plain(word) + " .", highlight=False)
        if word.isprintable():
            assert caught.get() == f"{word} .\n"
        else:
            assert caught.get().removesuffix("\n").isprintable()


def test_verify_says_what_it_could_not_check(run: Run, tmp_path: Path) -> None:
    (tmp_path / "own.jsonl").write_text('{"tree": {"type": "S", "children": [{"type": "NP"}]}, "target": [1]}\n')
    shown = run("verify", tmp_path / "own.jsonl")
    assert shown.status == 0
    assert "All holds" not in shown.out
    assert "every answer" not in shown.out
    assert "Not checked: the values and answers of" in shown.out
    assert run("verify", tmp_path / "own.jsonl", "--json").json["unchecked"] == [str(tmp_path / "own.jsonl")]


@pytest.mark.parametrize(
    "arguments",
    [
        ["stats", "x" * 5000],
        ["ladder", "x" * 5000],
        ["compare", "x" * 5000, "y" * 5000, "--data", "listops/d20s", *SMALL],
        ["evaluate", "x" * 5000, "--data", "listops/d20s", *SMALL],
    ],
)
def test_a_name_too_long_for_a_file_is_bad_input(run: Run, arguments: list[str]) -> None:
    ran = run(*arguments)
    assert ran.status == 3, ran
    assert "File name too long" not in ran.err


def test_column_names_are_shown_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.out.print(terminal.table(None, ["[/red]bad"], [["x"]]))
    assert "[/red]bad" in capsys.readouterr().out


def test_cells_of_a_paper_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    numbers = {"printed": "[high]", "measured": 97.25, "deviation": None, "low": 1.0, "high": 99.0, "runs": 4}
    cells = [{"where": place, "row": "LSTM [base]", "column": "right", **numbers} for place in ("Table 1", "Table 2")]
    reproduce._print({"paper": "A [title]", "cells": cells, "answer": "Yes [1]."}, "A [title]", ["Table 1"], [])
    title, _, *rows = capsys.readouterr().out.splitlines()
    assert title.strip() == "A [title]"
    assert [row.split() for row in rows] == [
        ["Table", "1", "LSTM", "[base]", "right", "[high]", "97.2", "-", "1.00", "99.0", "4"],
        ["Yes", "[1]."],
    ]


def test_export_says_where_there_are_no_answers(run: Run, tmp_path: Path) -> None:
    (tmp_path / "own.jsonl").write_text('{"tree": {"type": "S", "children": [{"type": "NP"}]}}\n')
    shown = run("export", tmp_path / "own.jsonl", "--out", tmp_path / "inputs.jsonl").out
    assert "There are no answers in this corpus" in shown
    assert "0, 1" not in shown


def test_two_answers_about_one_tree_are_called_answers(run: Run, tmp_path: Path) -> None:
    rows = [{"id": str(at), "tree": {"type": "a", "value": "x"}, "target": ["x", "y"]} for at in range(4)]
    (tmp_path / "own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    said = [{"id": str(at), "prediction": ["x", "y"]} for at in range(4)]
    (tmp_path / "said.jsonl").write_text("".join(json.dumps(row) + "\n" for row in said))
    files = (tmp_path / "own.jsonl", tmp_path / "said.jsonl")
    for shown in (run("evaluate", files[1], "--data", files[0]), run("ladder", files[0], "--predictions", files[1])):
        assert shown.status == 0, shown
        assert "answer 2" in shown.out
        assert "tree 2" not in shown.out
