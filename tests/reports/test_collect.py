"""What a report is made of: inputs, examples, numbers, and how they are packed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pomona as pm
from pomona.base.errors import FormatError, PomonaError, SpecError
from pomona.data.corpus import Corpus
from pomona.data.formats import write
from pomona.reports.collect import collect, distinct
from pomona.reports.inputs import gather
from pomona.reports.packing import answers_block, corpus_block, narrow, pack, unpack
from pomona.reports.page import report
from pomona.reports.plots import all_plots
from pomona.tasks.propositional import every_sentence
from pomona.training.recipe import Recipe
from pomona.training.run import Run
from pomona.trees.binary import random_trees
from report_material import (
    CELLS,
    SMALL,
    add_run,
    blocks,
    fit,
    said,
    small_test,
)


class TestInputs:
    def test_a_folder_is_searched_and_everything_is_told_apart(self, material: Path) -> None:
        found = gather([material / "runs", material / "paper.json", material / "fit.json", material / "unfair.json"])
        assert [run.folder.name for run in found.runs] == ["good", "latent"]
        assert [len(part) for part in (found.results, found.fits, found.certificates)] == [1, 1, 1]

    def test_each_thing_is_taken_once(self, material: Path) -> None:
        assert len(gather([material / "runs", material / "runs" / "good", material / "runs"]).runs) == 2

    @pytest.mark.parametrize(
        ("name", "content", "words"),
        [
            ("a.json", "{", "not JSON"),
            ("a.json", '{"x": 1}', "this is no run"),
            ("a.json", '{"cells": 3}', "cells is 3, not a list"),
            ("a.json", '{"cells": [{"where": "T"}]}', "cells[0].row is missing"),
            ("a.json", json.dumps({"cells": [{**CELLS[0], "measured": "<b>"}]}), '[0].measured is "<b>", not'),
            ("a.json", '{"cells": [{"where": "a", "row": "b", "column": "c", "printed": NaN}]}', "printed is NaN"),
            ("a.json", json.dumps({**fit(), "per_item": ["x"]}), 'per_item[0] is "x", not a number'),
            ("a.json", json.dumps({**fit(), "best": 3}), ".best is 3, not a list"),
            ("a.json", '{"witnesses": [], "coverage": []}', "not a certificate"),
        ],
    )
    def test_a_named_file_that_is_none_of_ours_is_an_error(
        self, tmp_path: Path, name: str, content: str, words: str
    ) -> None:
        (tmp_path / name).write_text(content)
        with pytest.raises(PomonaError, match=re.escape(words)) as error:
            gather([tmp_path / name])
        assert name in str(error.value)

    def test_nothing_there_is_said(self, tmp_path: Path) -> None:
        with pytest.raises(FormatError, match="no such file or folder"):
            gather([tmp_path / "gone"])
        with pytest.raises(FormatError, match="no run, and no file of ours"):
            gather([tmp_path])

    @given(st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=4), min_size=1, max_size=6, unique_by=tuple))
    def test_names_are_distinct_and_end_their_paths(self, parts: list[list[str]]) -> None:
        paths = [Path("/", *one) for one in parts]
        names = distinct(paths)
        assert len(set(names)) == len(names)
        assert all(str(path).endswith(name.lstrip("/")) for path, name in zip(paths, names, strict=True))


class TestTheExamples:
    def test_they_are_found_by_fingerprint_from_the_recipe(self, material: Path) -> None:
        found = collect(gather([material / "runs"]))
        (test,) = found.tests
        assert test.corpus is not None
        assert test.corpus.fingerprint == test.fingerprint == small_test().fingerprint
        assert test.ladder is not None
        assert "train: 400 examples" in test.ladder.learnt_from
        assert not test.notes

    def test_a_run_of_other_examples_shows_its_scores_and_says_what_is_missing(self, tmp_path: Path) -> None:
        corpus = pm.generate("listops/d20s", "test", 77, **SMALL)
        add_run(tmp_path / "run", Recipe("lstm", data_settings=SMALL), corpus, said(corpus, 0.7, 1))
        (test,) = collect(gather([tmp_path / "run"])).tests
        assert test.corpus is None
        assert "--data" in test.notes[0]
        plots = all_plots(collect(gather([tmp_path / "run"])))
        assert any(plot.key.startswith("accuracy-nesting") for plot in plots)  # from scores.json
        write(corpus, tmp_path / "test.parquet")
        (test,) = collect(gather([tmp_path / "run"]), [str(tmp_path / "test.parquet")]).tests
        assert test.corpus is not None

    def test_sources_are_files_or_tasks_with_split_and_seed(self, tmp_path: Path) -> None:
        corpus = pm.generate("listops/d20s", "dev", 3)
        add_run(tmp_path / "run", Recipe("lstm", data_settings=SMALL), corpus, said(corpus, 0.7, 1), "strange")
        (test,) = collect(gather([tmp_path / "run"]), ["listops/d20s:dev:3"]).tests
        assert test.corpus is not None
        with pytest.raises(SpecError, match="the seed 'x' is not a number"):
            collect(gather([tmp_path / "run"]), ["listops/d20s:dev:x"])
        with pytest.raises(SpecError, match="there is no file"):
            collect(gather([tmp_path / "run"]), ["listopps"])

    def test_the_first_rows_of_a_split_are_found_as_well(self, tmp_path: Path) -> None:
        corpus = small_test()[:70]
        add_run(tmp_path / "run", Recipe("lstm", data_settings=SMALL), corpus, said(corpus, 0.7, 1))
        (test,) = collect(gather([tmp_path / "run"])).tests
        assert test.corpus is not None
        assert len(test.corpus) == 70

    def test_a_run_that_was_never_evaluated_is_named(self, tmp_path: Path) -> None:
        Run.open(tmp_path / "new", Recipe("lstm"))
        assert "new was never evaluated" in collect(gather([tmp_path / "new"])).notes[0]

    def test_other_corpora_under_one_name_are_told_apart(self, tmp_path: Path) -> None:
        for seed in (0, 1):
            corpus = pm.generate("listops/d20s", "test", seed, **SMALL)
            recipe = Recipe("lstm", data_settings=SMALL, data_seed=seed)
            add_run(tmp_path / f"run-{seed}", recipe, corpus, said(corpus, 0.7, 1))
        names = [test.name for test in collect(gather([tmp_path])).tests]
        assert len(set(names)) == 2
        assert all(name.startswith("test (") for name in names)


class TestTheNumbers:
    def test_the_plotted_shares_are_those_of_the_answers(self, material: Path) -> None:
        found = collect(gather([material / "runs"]))
        corpus = small_test()
        plot = next(plot for plot in all_plots(found) if plot.key == "accuracy-nesting-1")
        rows = [row for row in plot.spec["layer"][-1]["data"]["values"] if row["run"] == "latent"]
        predictions = Run.read(material / "runs" / "latent").predictions("test")
        assert predictions is not None
        assert rows
        for row in rows:  # one by one, without arrays
            at = [i for i in range(len(corpus)) if str(corpus[i].nesting) == row["group"]]
            right = [predictions.outcomes[predictions.answers[i]] == corpus[i].target[0] for i in at]
            if at:
                assert row["examples"] == len(at)
                assert row["share"] == pytest.approx(sum(right) / len(at))
                assert row["low"] <= row["share"] <= row["high"]
        rungs = {row["rung"] for row in plot.spec["layer"][0]["data"]["values"]}
        assert {"most frequent answer", "top 1 level"} <= rungs

    def test_without_the_examples_the_kept_groups_are_plotted(self, tmp_path: Path) -> None:
        """What scores.json keeps is what the examples themselves would show."""
        corpus = pm.generate("listops/d20s", "test", 77, **SMALL)
        add_run(tmp_path / "run", Recipe("lstm", data_settings=SMALL), corpus, said(corpus, 0.7, 1))
        write(corpus, tmp_path / "test.parquet")
        kept, direct = (
            {plot.key: plot for plot in all_plots(collect(gather([tmp_path / "run"]), data))}
            for data in ([], [str(tmp_path / "test.parquet")])
        )
        for key in ("accuracy-nesting-1", "accuracy-chain-1", "accuracy-length-1"):
            rows, others = (plots[key].spec["layer"][-1]["data"]["values"] for plots in (kept, direct))
            assert rows == others
            assert rows

    def test_baselines_are_grouped_as_runs_are(self, material: Path) -> None:
        (test,) = collect(gather([material / "runs"])).tests
        plot = next(plot for plot in all_plots(collect(gather([material / "runs"]))) if plot.key == "accuracy-length-1")
        rows = [row for row in plot.spec["layer"][0]["data"]["values"] if row["rung"] == "top 1 level"]
        runs = [row for row in plot.spec["layer"][-1]["data"]["values"] if row["run"] == "good"]
        assert [row["group"] for row in rows] == [row["group"] for row in runs]
        right = test.ladder["top 1 level"].right[:, 0]
        for row in rows:
            low, high = map(int, row["group"].removeprefix("<").split("-")) if "-" in row["group"] else (0, 9)
            inside = (test.corpus.lengths >= low) & (test.corpus.lengths <= high)
            assert row["share"] == pytest.approx(right[inside].mean())

    def test_unmeasured_cells_are_dashes_and_no_points(self, page: str, material: Path) -> None:
        found = collect(gather([material / "paper.json"]))
        (plot,) = all_plots(found)
        assert {row["cell"] for row in plot.spec["data"]["values"]} == {"Table 1, LSTM, accuracy"}
        assert "71.5<small>3 runs, 71 to 72</small>" in page
        assert '<td class="number ours none">–</td>' in page

    def test_many_runs_are_coloured_by_model(self, tmp_path: Path) -> None:
        corpus = small_test()
        for at in range(12):
            recipe = Recipe(("lstm", "treelstm")[at % 2], data_settings=SMALL, seed=at)
            add_run(tmp_path / f"run-{at}", recipe, corpus, said(corpus, 0.7, at))
        plot = next(plot for plot in all_plots(collect(gather([tmp_path]))) if plot.key == "learning-dev")
        assert plot.spec["encoding"]["color"]["scale"]["domain"] == ["lstm", "treelstm"]
        assert len({row["run"] for row in plot.spec["data"]["values"]}) == 12

    def test_an_evaluation_without_a_run_is_shown_beside_the_runs(self, material: Path, tmp_path: Path) -> None:
        """What `evaluate --json` prints of a model that was never a run here."""
        corpus = small_test()
        rights = dict(zip(corpus.texts, corpus.targets[:, 0].tolist(), strict=True))
        found = pm.evaluate(
            lambda texts: [rights[text] if len(text) < 60 else "?" for text in texts], corpus, measures=["accuracy"]
        )
        (tmp_path / "mine.json").write_text(json.dumps(found.as_dict()))
        alone = collect(gather([tmp_path / "mine.json"]))
        assert (alone.names, len(alone.runs), alone.tests[0].corpus) == (("mine",), 0, None)
        together = collect(gather([material / "runs", tmp_path / "mine.json"]))
        (test,) = together.tests
        assert together.names == ("good", "latent", "mine")
        assert [entry.scores["accuracy"] for entry in test.entries][2] == found.accuracy.value
        for inputs in ([tmp_path / "mine.json"], [material / "runs", tmp_path / "mine.json"]):
            page = report(inputs, tmp_path / f"out-{len(inputs)}", with_figures=False).page.read_text(encoding="utf-8")
            assert f'<td class="number">{found.accuracy.value:.2%}<small>' in page
            assert "<td>accuracy</td><td>value " in page
        plot = next(plot for plot in all_plots(together) if plot.key == "accuracy-nesting-1")
        rows = [row for row in plot.spec["layer"][-1]["data"]["values"] if row["run"] == "mine"]
        groups = {group.name: group for group in found.by("nesting")}
        assert rows
        assert all(row["share"] == pytest.approx(groups[row["group"]].accuracy) for row in rows)


class TestPacking:
    @given(st.lists(st.integers(-1, 70_000), max_size=40), st.lists(st.integers(-1, 254), max_size=9))
    def test_columns_come_back(self, one: list[int], two: list[int]) -> None:
        block = json.loads(json.dumps(pack({"one": np.array(one, np.int64), "two": np.array(two, np.int16)})))
        back = unpack(block)
        for name, column in (("one", one), ("two", two)):
            nothing = np.iinfo(back[name].dtype).max
            assert [-1 if value == nothing else int(value) for value in back[name]] == column
            assert block["arrays"][name][1] % 8 == 0

    def test_a_corpus_comes_back(self) -> None:
        corpus = small_test()
        block = corpus_block(corpus, 100)
        back = unpack(block)
        assert (block["rows"], block["total"], block["bracketed"]) == (100, 240, True)
        token = node = 0
        for row in range(100):
            example = corpus[row]
            count, nodes = int(back["lengths"][row]), int(back["nodes"][row])
            assert tuple(block["vocabulary"][t] for t in back["tokens"][token : token + count]) == example.tokens
            assert [block["outcomes"][v] for v in back["values"][node : node + nodes]] == list(map(str, example.values))
            assert back["arities"][node : node + nodes].tolist() == example.trees.arity.tolist()
            assert block["answers"][back["targets"][row]] == str(example.target[0])
            token, node = token + count, node + nodes

    @pytest.mark.parametrize(
        "corpus",
        [
            pm.generate("orchard/easy/min-max", "test", 0, 20, train=20, dev=20, test=20),
            every_sentence(),
        ],
        ids=["orchard", "propositional"],
    )
    def test_other_tasks_fit_in(self, corpus: Corpus) -> None:
        block = corpus_block(corpus, 50)
        back = unpack(block)
        assert len(back["nodes"]) == block["rows"] * corpus.width
        assert back["nodes"].sum() == len(corpus.forest.symbol)
        assert not block["bracketed"]

    def test_narrow_has_room_for_nothing(self) -> None:
        assert narrow(np.array([254, -1])).tolist() == [254, 255]
        assert narrow(np.array([255, -1])).tolist() == [255, 65535]

    def test_too_many_examples_become_fewer(
        self, material: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        from pomona.reports import page as module

        monkeypatch.setattr(module, "ROOM", 3_000)
        made = module.report([material / "runs"], tmp_path / "out", with_figures=False)
        (test,) = blocks(made.page.read_text(encoding="utf-8"))
        assert 1 <= test["corpus"]["rows"] < test["corpus"]["total"] == 240
        assert sum(len(block["bytes"]) for block in (test["corpus"], *test["runs"])) <= 3_000

    def test_trees_and_answers_come_back(self, material: Path) -> None:
        (test,) = collect(gather([material / "runs"])).tests
        entry = test.entries[1]
        assert entry.evaluation is not None
        back = unpack(answers_block(entry, "latent", 240))
        trees = random_trees(small_test().lengths, seed=5)
        assert back["arities"].tolist() == trees.arity.tolist()
        assert back["right"].tolist() == entry.evaluation.right.astype(int).tolist()
