"""The commands connect: from an empty folder to a report, each step taking the files of the one before."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import pomona as pm
from pomona.evaluation.records import kept_evaluations

from command_line import Ran, Run  # isort: skip

SIZES = ["--set", "train=120", "--set", "dev=20", "--set", "test=40"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def good(ran: Ran) -> Ran:
    assert ran.status == 0, ran.err
    return ran


def words(ran: Ran) -> str:
    """What was said to standard error, without the box around errors of usage."""
    return " ".join(ran.err.replace("│", " ").split())


def quick() -> list[str]:
    return ["--model-set", "width=8", "--recipe", "epochs=1", "--quiet"]


def test_from_nothing_to_a_report_of_a_run(run: Run, here: Path) -> None:
    good(run("generate", "listops/d20s", "--out", "data", "-f", "parquet,tsv", *SIZES))
    assert "All holds" in good(run("verify", "data")).out
    assert run("certify", "data", "--fold", "--out", "certificate.json").status in (0, 1)
    good(run("ladder", "data", "--levels", 1))
    for model in ("treelstm", "lstm"):
        files = ["--data", "data/train.tsv", "--dev", "data/dev.tsv", "--out", f"runs/{model}"]
        good(run("train", model, *files, *quick()))
        told = good(run("evaluate", f"runs/{model}", "--data", "data")).out
        assert f"Kept as 'test' in runs/{model}/scores.json" in told
    good(run("represent", "runs/treelstm", "--data", "data", "--longest", 12, "--out", "vectors.npz"))
    good(run("tre", "vectors.npz", "--out", "tre.json"))
    Path("comparison.json").write_text(
        good(run("compare", "runs/treelstm", "runs/lstm", "--data", "data", "--json")).out
    )
    told = good(run("report", "runs", "tre.json", "comparison.json", "certificate.json", "--no-figures"))
    assert "note" not in told.err, told.err  # the examples were found, and every run has its scores
    page = Path("report/index.html").read_text(encoding="utf-8")
    scores = [kept_evaluations(pm.Run.read(f"runs/{model}"))["test"] for model in ("treelstm", "lstm")]
    assert all(f"{entry['accuracy']:.2%}" in page for entry in scores)
    difference = scores[0]["accuracy"] - scores[1]["accuracy"]
    assert f"{difference:+.2%}" in page
    for section in ("comparisons", "certificates", "tre", "explorer"):
        assert f'<section id="{section}"' in page


def test_from_nothing_to_a_report_of_answers_that_were_brought(run: Run, here: Path) -> None:
    good(run("generate", "listops/d20s", "--out", "data", *SIZES))
    good(run("verify", "data"))
    good(run("ladder", "data", "--levels", 1))
    good(run("export", "data", "--answers", "--out", "inputs.jsonl"))
    rows = [json.loads(line) for line in Path("inputs.jsonl").read_text().splitlines()]
    for name, every in (("mine", 4), ("theirs", 2)):
        said = [{"id": row["id"], "prediction": 0 if at % every else row["answer"]} for at, row in enumerate(rows)]
        Path(f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in said))
    asked = good(run("evaluate", "mine.jsonl", "--data", "data", "--json"))
    assert asked.err == "Kept in mine.jsonl.evaluation.json\n"
    Path("as-json.json").write_text(asked.out)
    good(run("evaluate", "theirs.jsonl", "--data", "data"))
    good(run("compare", "mine.jsonl", "theirs.jsonl", "--data", "data", "--out", "comparison.json"))
    good(run("report", "mine.jsonl", "theirs.jsonl", "as-json.json", "comparison.json", "--no-figures"))
    page = Path("report/index.html").read_text(encoding="utf-8")
    for name in ("mine", "theirs"):
        record = json.loads(Path(f"{name}.jsonl.evaluation.json").read_text())
        assert f"{record['accuracy']:.2%}" in page
        assert f">{name}<" in page
    assert '<section id="explorer"' in page  # the examples were found by what was said to evaluate
    assert '<section id="comparisons"' in page


def test_evaluating_again_replaces_and_other_examples_get_a_name_of_their_own(run: Run, here: Path) -> None:
    good(run("generate", "listops/d20s", "--out", "data", *SIZES))
    good(run("train", "lstm", "--data", "data", "--out", "run", *quick()))
    for _ in range(2):
        good(run("evaluate", "run", "--data", "data", "--no-ladder"))
    assert list(pm.Run.read("run").scores) == ["test"]
    other = good(run("evaluate", "run", "--data", "data", "--size", 10, "--no-ladder", "--json")).json
    good(run("evaluate", "run", "--data", "data/dev.parquet", "--no-ladder"))
    good(run("evaluate", "run", "--data", "data", "--no-ladder", "--name", "mine"))
    scores = pm.Run.read("run").scores
    assert list(scores) == ["test", f"test-{other['fingerprint'][:6]}", "dev", "mine"]
    assert scores["mine"] == scores["test"]
    assert scores["test"]["data"] == {"source": "data"}


def test_answers_that_were_never_evaluated_or_changed_since_are_said_so(run: Run, here: Path) -> None:
    good(run("generate", "listops/d20s", "--out", "data", *SIZES))
    good(run("export", "data", "--answers", "--out", "inputs.jsonl"))
    rows = [json.loads(line) for line in Path("inputs.jsonl").read_text().splitlines()]
    Path("a.jsonl").write_text("".join(json.dumps({"id": row["id"], "prediction": 0}) + "\n" for row in rows))
    refused = run("report", "a.jsonl")
    assert refused.status == 3
    assert "these answers were not evaluated yet; run `pomona evaluate a.jsonl --data ...`" in refused.err
    good(run("evaluate", "a.jsonl", "--data", "data", "--no-ladder"))
    Path("a.jsonl").write_text(Path("a.jsonl").read_text().replace(" 0}", " 1}"))
    told = good(run("report", "a.jsonl", "--no-figures"))
    assert "a.jsonl was changed after it was evaluated" in told.err
    assert "were not found" not in good(run("report", "a.jsonl", "--data", "data", "--no-figures")).err
    Path("a.jsonl.evaluation.json").unlink()
    Path("a.jsonl.evaluation.json").mkdir()  # where nothing can be written the scores are shown all the same
    told = good(run("evaluate", "a.jsonl", "--data", "data", "--no-ladder"))
    assert "Not kept: a.jsonl.evaluation.json: this is a folder" in told.out
    Path("comparison.json").write_text('{"sides": [{}], "pairs": [], "fingerprint": ""}')
    assert "a comparison of `pomona compare --json`.sides[0].name is missing" in run("report", "comparison.json").err


# -- what was trained on -----------------------------------------------------------------------------------------------


def test_a_test_that_was_trained_on_is_refused(run: Run, here: Path) -> None:
    short = ["--set", "length=[1,9]"]  # few expressions are so short that two draws share some
    good(run("train", "lstm", "--data", "listops/d20s", *SIZES, *short, "--out", "run", *quick()))
    task = ["--data", "listops/d20s", *SIZES, *short]
    good(run("evaluate", "run", *task, "--no-ladder"))  # another split of the same draw is held out
    shared = (pm.Run.read("run"), pm.generate("listops/d20s", "test", 7, train=120, dev=20, test=40, length=[1, 9]))
    train = pm.generate("listops/d20s", "train", 0, train=120, dev=20, test=40, length=[1, 9])
    rows = [at for at, key in enumerate(shared[1].keys.tolist()) if key in set(train.keys.tolist())]
    assert rows
    for verb in ("evaluate", "compare"):
        models = ["run"] if verb == "evaluate" else ["run", "run"]
        refused = run(verb, *models, *task, "--data-seed", 7)
        assert refused.status == 3
        named = f"{len(rows)} of the 40 examples of listops (test, data seed 7) are among the 120 that run was"
        assert named in refused.err
        assert f"rows {rows[0] + 1}" in refused.err
        assert "--allow-overlap" in refused.err
    assert list(pm.Run.read("run").scores) == ["test"]
    with pytest.raises(pm.PomonaError, match="allow_overlap=True"):
        pm.evaluate(shared[0], shared[1])
    assert "were in the training data" in pm.evaluate(*shared, allow_overlap=True, ladders=False).notes[-1]
    allowed = good(run("evaluate", "run", *task, "--data-seed", 7, "--allow-overlap", "--no-ladder", "--json")).json
    assert f"{len(rows)} of 40 examples were in the training data; without them" in allowed["notes"][-1]
    whole = run("evaluate", "run", *task, "--split", "train", "--no-ladder")
    assert "120 of the 120 examples" in whole.err


def test_where_it_cannot_be_told_what_was_trained_on_a_note_says_so(run: Run, here: Path) -> None:
    good(run("generate", "listops/d20s", "--out", "data", *SIZES))
    good(run("train", "lstm", "--data", "data/train.parquet", "--dev", "data/dev.parquet", "--out", "run", *quick()))
    pm.write(pm.read("data/train.parquet")[:3], "leak.tsv")
    refused = run("evaluate", "run", "--data", "leak.tsv")
    assert (refused.status, "3 of the 3 examples of leak.tsv" in refused.err) == (3, True)
    assert "lines 1, 2, 3 (the first is" in refused.err
    Path("data/train.parquet").rename("elsewhere.parquet")
    told = good(run("evaluate", "run", "--data", "data/test.parquet", "--no-ladder")).out
    assert "Not checked whether the test was trained on: the training examples are not there any more" in told


# -- what does not apply -----------------------------------------------------------------------------------------------


def test_a_measure_that_does_not_apply_is_a_note_and_a_wrong_one_an_error(run: Run, here: Path) -> None:
    good(run("generate", "listops/d20s", "--out", "data", *SIZES))
    good(run("export", "data", "--answers", "--out", "inputs.jsonl"))
    rows = [json.loads(line) for line in Path("inputs.jsonl").read_text().splitlines()]
    Path("a.jsonl").write_text("".join(json.dumps({"id": row["id"], "prediction": 0}) + "\n" for row in rows))
    asked = ["--measure", "topsim", "--measure", "accuracy:by=operator", "--measure", "rsa"]
    found = good(run("evaluate", "a.jsonl", "--data", "data", "--no-ladder", *asked, "--json")).json
    assert list(found["measures"]) == ["accuracy:by=operator"]
    assert found["notes"][0].startswith("No topsim: a.jsonl has no sentence vectors")
    assert found["notes"][1].startswith("No rsa: ")
    wrong = run("evaluate", "a.jsonl", "--data", "data", "--measure", "topsin")
    assert (wrong.status, "Did you mean 'topsim'" in wrong.err) == (3, True)


def test_rungs_that_do_not_apply_are_named(run: Run, here: Path) -> None:
    trees = [{"type": "S", "value": f"{at % 2}", "children": [{"value": f"{at}"}, {"value": "x"}]} for at in range(8)]
    Path("own.jsonl").write_text("".join(json.dumps({"tree": tree}) + "\n" for tree in trees))
    told = good(run("ladder", "own.jsonl")).out
    assert "Left out are the look-up table and the top k levels" in told
    assert "'S' has none" in told
    assert "'S' has none" in good(run("ladder", "own.jsonl", "--json")).json["notes"][0]
    shown = run("verify", "own.jsonl").out
    assert "Answers worked out by nothing" not in shown
    assert "its operators have no rules here" in shown


# -- code of one's own -------------------------------------------------------------------------------------------------


def test_a_task_of_ones_own_goes_through_every_command(
    run: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--import comes before anything is read, also where the name of the task comes first."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("somebodys_task.py").write_text(
        "import dataclasses\nimport pomona as pm\nfrom pomona.tasks.listops.task import ListOps\n\n"
        "@pm.task('somebodys')\n@dataclasses.dataclass(frozen=True)\nclass Somebodys(ListOps):\n"
        '    "A task of their own."\n'
    )
    own, name = ["--import", "somebodys_task"], "somebodys"
    try:
        assert run("show", name, *SIZES).status == 3
        good(run("show", name, *SIZES, *own))
        good(run("generate", name, *SIZES, *own, "--out", "data"))
        for verb in ("stats", "ladder"):
            good(run(verb, name, *SIZES, *own))
        good(run("verify", "data", *own))
        good(run("export", name, *SIZES, *own))
        good(run("train", "lstm", "--data", name, *SIZES, *own, "--out", "run", *quick()))
        good(run("evaluate", "run", "--data", name, *SIZES, *own, "--no-ladder"))
        assert "A task of their own" in good(run("ls", name, *own)).out
        assert ("somebodys" in good(run("ls", *own)).out, "somebodys" in good(run("ls")).out) == (True, False)
    finally:
        pm.TASKS._entries.pop(name, None)
    Path("somebodys_slip.py").write_text("1 / 0\n")
    slip = run("show", "listops/d20s", "--import", "somebodys_slip")
    assert (slip.status, "somebodys_slip could not be imported: ZeroDivisionError" in slip.err) == (3, True)


# -- commands that were printed once -----------------------------------------------------------------------------------


def test_commands_of_the_first_readme_still_do_what_they_said(run: Run, here: Path) -> None:
    assert good(run("show", "listops/d20s", "--seed", 1, "-n", 3, *SIZES)).out == good(
        run("show", "listops/d20s", "--data-seed", 1, "-n", 3, *SIZES)
    ).out
    made = good(run("generate", "listops/d20s", "--seed", 7, "--out", "data", "-f", "parquet,tsv", *SIZES, "--json"))
    assert made.json["seed"] == 7
    old = ["--set", "width=8", "--with", "epochs=1", *(word.replace("--set", "--data-set") for word in SIZES)]
    found = good(run("train", "lstm", "--out", "run", *old, "--quiet", "--json")).json["recipe"]
    assert (found["settings"], found["data_settings"]["train"], found["epochs"]) == ({"width": 8}, 120, 1)
    refused = run("train", "lstm", "--set", "width=8", "--out", "new")
    assert (refused.status, "--model-set width=8" in words(refused)) == (2, True)
    refused = run("train", "lstm", "--data", "data/train.tsv", "--set", "width=8", "--out", "new")
    assert (refused.status, "--model-set width=8" in words(refused)) == (2, True)
    refused = run("evaluate", "run", "--data", "listops/d20s", "--seed", 7)
    assert (refused.status, "--data-seed" in refused.err) == (2, True)
    refused = run("measure", "parse-f1", "run", "--data", "data", "--set", "root=false")
    assert (refused.status, "--measure-set root=false" in words(refused)) == (2, True)
    assert not Path("new").exists()
