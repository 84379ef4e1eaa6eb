"""Scores of a run and the cells of a paper: what is measured is right, what is not measured stays empty."""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
from itertools import chain

import numpy as np
import pytest
from typer.testing import CliRunner

from pomona.base.errors import FormatError, MeasureError, SpecError
from pomona.data import formats
from pomona.data.task import generate
from pomona.evaluation.accuracy import accuracy, wilson
from pomona.evaluation.subjects import evaluate
from pomona.papers.listops_2018.paper import best_on_dev
from pomona.papers.listops_2018.recipes import PRINTED
from pomona.papers.listops_2018.recipes import recipes as listops_recipes
from pomona.papers.records import joined, record, training
from pomona.papers.reproduce import PAPERS, Paper, reproduce
from pomona.training.predictions import Predictions
from pomona.training.recipe import Recipe
from pomona.training.run import Run
from pomona.trees.binary import binarise, branching


@pytest.fixture(scope="module")
def corpus():
    return generate("listops/d20s", split="test", train=60, dev=20, test=200)


def predictions_for(corpus, answers, trees=None):
    logits = np.eye(10, dtype=np.float32)[answers]
    return Predictions(corpus.fingerprint, corpus.outcomes, logits, trees)


def test_accuracy_counts_right_answers(corpus):
    answers = corpus.targets[:, 0].astype(int).copy()
    answers[:50] = (answers[:50] + 1) % 10
    score = accuracy(corpus, predictions_for(corpus, answers))
    assert score.value == 150 / 200
    assert score.per_example.tolist() == [0.0] * 50 + [1.0] * 150
    assert score.interval[0] < 0.75 < score.interval[1]


def test_wilson_is_the_root_of_its_equation():
    low, high = wilson(37, 50)
    for share in (low, high):  # |p - share| = z sqrt(share (1 - share) / n)
        assert abs(37 / 50 - share) == pytest.approx(1.959964 * math.sqrt(share * (1 - share) / 50))
    assert wilson(0, 10)[0] == pytest.approx(0)
    assert wilson(10, 10)[1] == pytest.approx(1)


def test_predictions_about_another_corpus_are_refused(corpus):
    with pytest.raises(MeasureError, match="another corpus"):
        accuracy(corpus, dataclasses.replace(predictions_for(corpus, [0] * 200), corpus="0" * 64))
    with pytest.raises(MeasureError, match="3 predictions for 200 examples"):
        accuracy(corpus, predictions_for(corpus, [0, 1, 2]))


def test_scores_of_known_trees(corpus):
    gold = binarise(corpus.forest)
    scores = trees_of(corpus, gold)
    assert scores["f1_gold"] == scores["list_recall"] == 1.0
    left = trees_of(corpus, branching(corpus.lengths, "left"))
    assert left["f1_left"] == 1.0
    assert left["f1_gold"] == pytest.approx(scores["f1_left"])
    assert trees_of(corpus, None) == {}


def trees_of(corpus, trees):
    found = evaluate(predictions_for(corpus, corpus.targets[:, 0], trees), corpus, ladders=False).as_dict()
    assert found["accuracy"] == 1.0
    return {name: score["value"] for name, score in json.loads(json.dumps(found, allow_nan=False))["trees"].items()}


def test_every_row_of_the_paper_has_recipes_or_needs_none():
    rows = {row for _, row, _, _ in PRINTED}
    assert rows - {"Random Trees", "Ground-Truth Trees", "training set"} == set(listops_recipes("cpu"))
    for budget in ("smoke", "cpu", "paper"):
        for recipes in listops_recipes(budget).values():
            assert len({recipe.key for recipe in recipes}) == len(recipes)
            for recipe in recipes:
                assert recipe.longest == 50  # the paper's filter
                assert recipe.select_on == "dev"
                assert Recipe.from_settings(json.loads(json.dumps(recipe.plain))) == recipe


def test_the_drawn_run_is_the_best_on_dev(tmp_path):
    runs = []
    for seed, dev in enumerate((0.5, 0.9, 0.7)):
        runs.append(Run.open(tmp_path / str(seed), Recipe("lstm", seed=seed)))
        runs[-1].write("summary.json", {"best_epoch": 0, "dev": dev})
    assert best_on_dev(runs) is runs[1]


def test_what_was_not_trained_is_not_filled_in(data_folder, tmp_path, monkeypatch):
    """Constants of Tables 2 and 3 come out as printed; rows without runs stay empty."""
    monkeypatch.setenv("POMONA_DATA", str(data_folder))
    found = reproduce(
        "listops_2018",
        budget="smoke",
        folder=tmp_path,
        rows=["TreeLSTM 128D", "Random Trees", "Ground-Truth Trees"],
        out=tmp_path / "results.json",
        train_missing=False,
    )
    assert json.loads((tmp_path / "results.json").read_text())["cells"] == found["cells"]
    assert found["ladder"]["top 1 level"] == pytest.approx(62.7, abs=1.0)  # the specification's oracle of depth 1
    for cell in found["cells"]:
        if cell["row"] not in ("Random Trees", "Ground-Truth Trees", "training set"):
            assert cell["measured"] is None
            assert cell["runs"] == 0
        elif cell["printed"] is not None:
            drawn = cell["row"] == "training set"  # ours is another draw of 90,000, with a standard error of 0.03
            assert cell["measured"] == pytest.approx(cell["printed"], abs=0.2 if drawn else 0.05)
    shares = [cell["measured"] for cell in found["cells"] if cell["where"] == "Figure 3" and cell["column"][:2] == "% "]
    assert sum(shares) == pytest.approx(100, abs=0.1)


def test_results_keep_what_cannot_be_measured_again(data_folder, tmp_path, monkeypatch):
    monkeypatch.setenv("POMONA_DATA", str(data_folder))
    out = tmp_path / "results.json"
    ask = {"budget": "smoke", "folder": tmp_path / "runs", "out": out, "train_missing": False}
    first = reproduce("listops_2018", **ask)
    place = next(n for n, cell in enumerate(first["cells"]) if cell["row"] == "LSTM 128D")
    first["cells"][place] |= {"measured": 71.0, "runs": 3}
    first["runs"] = [{"row": "LSTM 128D", "recipe": {"seed": seed}, "budget": budget}
                     for seed, budget in ((0, "smoke"), (1, "smoke"), (0, "paper"))]  # fmt: skip
    first["beside"] = {"one": {"told": 1}}
    out.write_text(json.dumps(first))
    again = reproduce("listops_2018", **ask)
    assert again["cells"] == first["cells"]
    assert again["runs"] == first["runs"]
    assert again["beside"] == first["beside"]
    with pytest.raises(FormatError, match="holds results of 'ListOps"):
        reproduce("fair_nli_2019", **ask)
    for damaged in ("{", '{"cells": [{}]}', '{"cells": null}', "[1]", '{"runs": [{}]}'):
        out.write_text(damaged)
        with pytest.raises(FormatError, match=r"cannot be read as results|is no file of results"):
            reproduce("listops_2018", **ask)
        assert out.read_text() == damaged


def test_unknown_papers_are_named():
    with pytest.raises(SpecError, match="listops_2018"):
        reproduce("listops_2019")
    with pytest.raises(SpecError, match="Table 3"):
        reproduce("listops_2018", where=["Table 4"], train_missing=False)
    with pytest.raises(SpecError, match="smoke"):
        reproduce("listops_2018", budget="smok")


def test_the_commands_train_evaluate_and_parse(tmp_path):
    from pomona.cli.main import app

    command, folder, data = CliRunner(), tmp_path / "run", tmp_path / "test.tsv"
    formats.write(generate("listops/d20s", split="test", train=60, dev=20, test=20), data)
    small = [("--recipe", text) for text in ("epochs=1", "longest=20", "dev_rows=20")] + [("--model-set", "width=8")]
    small += [("--set", f"{split}={rows}") for split, rows in (("train", 60), ("dev", 20), ("test", 20))]
    order = ["train", "st_gumbel", "--out", str(folder), *chain(*small)]
    for _ in range(2):  # the second time it is finished already
        done = command.invoke(app, [*order, "--json"], catch_exceptions=False)
        assert done.exit_code == 0
        assert json.loads(done.stdout)["epochs"] == 1
    assert "Best dev" in command.invoke(app, order, catch_exceptions=False).stdout
    told = command.invoke(app, ["evaluate", str(folder), "--data", str(data), "--name", "test", "--json"])
    assert json.loads(told.stdout)["rows"] == 20
    assert Run.read(folder).scores["test"] == json.loads(told.stdout)
    assert "F1 with gold" in command.invoke(app, ["evaluate", str(folder), "--data", str(data)]).stdout
    text = "[MAX 2 9 [MIN 4 7 ] 0 ]"
    parsed = json.loads(command.invoke(app, ["parse", str(folder), text, "--json"]).stdout)
    assert parsed["truth"] == 9
    assert [word for word in parsed["tree"].split() if word not in "()"] == text.split()
    assert parsed["tree"].count("(") == len(text.split()) - 1  # binary
    assert parsed["gold"].startswith("( ( ( ( ( [MAX 2 ) 9 )")
    assert not parsed["given"]
    assert "chosen" in command.invoke(app, ["parse", str(folder), text]).stdout
    told = {"treelstm": "treelstm is given the gold tree; it chooses none", "lstm": "lstm builds no tree"}
    for model, words in told.items():
        trained = command.invoke(app, ["train", model, "--out", str(tmp_path / model), *chain(*small)])
        assert trained.exit_code == 0
        drawn = command.invoke(app, ["parse", str(tmp_path / model), text]).stdout
        assert words in drawn
        assert "chosen" not in drawn
        assert "\\n" not in drawn
        assert len(drawn.splitlines()) > 10  # the tree is drawn over several lines


@pytest.fixture
def small_paper(monkeypatch, tmp_path):
    """A paper that needs one file, and trains nothing."""

    @PAPERS.add("small_2026")
    @dataclasses.dataclass(frozen=True)
    class Small(Paper):
        """A paper for these tests."""

        title = "Small"
        places = ("Table 1",)
        files = {"small/test.tsv": "its three test sentences"}  # noqa: RUF012

        def measure(self, plan):
            plan.say("training")
            return {"cells": [plan.cell("Table 1", "Row", "accuracy", 50.0, [10.0])]}

    monkeypatch.setenv("POMONA_DATA", str(tmp_path / "data"))
    yield "small_2026"
    PAPERS._entries.pop("small_2026", None)


@pytest.fixture
def seeded_paper():
    """A paper of one row, whose runs are told apart by their seeds and kept as records."""
    sizes = {"train": 60, "dev": 20, "test": 20}

    @PAPERS.add("seeded_2026")
    @dataclasses.dataclass(frozen=True)
    class Seeded(Paper):
        """A paper for these tests."""

        title = "Seeded"
        places = ("Table 1",)
        seeds = 1

        def measure(self, plan):
            shared = Recipe("lstm", {"width": 4}, data_settings=sizes, epochs=1, dev_rows=20)
            recipes = [dataclasses.replace(shared, seed=seed) for seed in range(type(self).seeds)]
            runs = [plan.run(recipe, f"row-{recipe.seed}", {}) for recipe in recipes]
            now = [record(run, "Row") for run in runs if run is not None]
            found = joined(plan.known.get("Row", []), recipes, now)
            cell = plan.cell("Table 1", "Row", "dev", None, [entry["dev"] for entry in found])
            return {"cells": [{**cell, **training(recipes[0], found)}], "runs": now}

    yield Seeded
    PAPERS._entries.pop("seeded_2026", None)


def test_a_row_is_completed_where_the_folders_of_its_runs_are_gone(seeded_paper, tmp_path):
    ask = {"out": tmp_path / "results.json", "folder": tmp_path / "runs"}
    first = reproduce("seeded_2026", **ask)
    shutil.rmtree(tmp_path / "runs")
    seeded_paper.seeds = 2
    both = reproduce("seeded_2026", **ask, skip_recorded=True)
    assert [path.name for path in (tmp_path / "runs").rglob("row-*")] == ["row-1"]
    assert both["cells"][0]["runs"] == len(both["runs"]) == 2
    assert first["runs"][0] in both["runs"]
    reproduce("seeded_2026", **ask)  # without it, what has a record but no folder is trained anew
    assert sorted(path.name for path in (tmp_path / "runs").rglob("row-*")) == ["row-0", "row-1"]


def test_a_missing_file_is_named_before_anything_is_trained(small_paper, tmp_path):
    said, out = [], tmp_path / "results.json"
    results = reproduce(small_paper, out=out, say=said.append)
    assert said[0].startswith("small/test.tsv is not here: its three test sentences. Put it at ")
    assert str(tmp_path / "data" / "small" / "test.tsv") in said[0]
    assert said[1:] == ["training"]
    assert results["cells"][0]["measured"] == 10.0
    assert not out.exists()  # numbers of another test set are not kept
    (tmp_path / "data" / "small").mkdir(parents=True)
    (tmp_path / "data" / "small" / "test.tsv").write_text("")
    said.clear()
    reproduce(small_paper, out=out, say=said.append)
    assert said == ["training"]
    assert out.exists()


def test_without_training_the_environment_stays_as_it_was(small_paper, tmp_path):
    (tmp_path / "data" / "small").mkdir(parents=True)
    (tmp_path / "data" / "small" / "test.tsv").write_text("")
    out = tmp_path / "results.json"
    reproduce(small_paper, out=out)
    elsewhere = {**json.loads(out.read_text()), "environment": {"python": "9.9", "machine": "another"}}
    out.write_text(json.dumps(elsewhere))
    reproduce(small_paper, out=out, train_missing=False)
    assert json.loads(out.read_text())["environment"] == elsewhere["environment"]
    reproduce(small_paper, out=out)
    assert json.loads(out.read_text())["environment"] != elsewhere["environment"]


def test_a_smoke_table_says_that_it_is_one(small_paper, tmp_path, monkeypatch):
    from pomona.cli.main import app

    monkeypatch.chdir(tmp_path)
    shown = CliRunner().invoke(app, ["reproduce", small_paper, "--budget", "smoke"]).stdout
    assert "SMOKE TEST" in shown
    assert "SMOKE" not in CliRunner().invoke(app, ["reproduce", small_paper]).stdout
