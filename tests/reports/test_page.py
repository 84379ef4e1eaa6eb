"""Reports: what they are made of, that their numbers are right, and that nothing from outside becomes markup."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import pomona as pm
from pomona.base.errors import FormatError, PomonaError, SpecError
from pomona.cli import main as cli
from pomona.data.corpus import Corpus
from pomona.data.formats import write
from pomona.reports.collect import collect, distinct
from pomona.reports.inputs import gather
from pomona.reports.packing import answers_block, corpus_block, narrow, pack, unpack
from pomona.reports.page import MARK, embedded, report
from pomona.reports.plots import all_plots
from pomona.tasks.propositional import every_sentence
from pomona.training.predictions import Predictions
from pomona.training.recipe import Recipe
from pomona.training.run import Run
from pomona.trees.binary import random_trees
from report_material import (
    CELLS,
    CLOSING,
    HOSTILE,
    SMALL,
    add_run,
    documents,
    fit,
    hostile_run,
    said,
    small_test,
    two_runs,
)


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of everything that a report can show."""
    folder = tmp_path_factory.mktemp("material")
    two_runs(folder / "runs")
    return documents(folder)


@pytest.fixture(scope="module")
def page(material: Path) -> str:
    """The whole report, hostile run and all."""
    hostile = hostile_run(material)
    made = report(
        [material / "runs", hostile, *(material / f"{name}.json" for name in ("unfair", "paper", "fit"))],
        material / "out",
    )
    return made.page.read_text(encoding="utf-8")


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
            ("a.json", '{"cells": 3}', '"cells" is not a list'),
            ("a.json", '{"cells": [{"where": "T"}]}', "cell 0 lacks"),
            ("a.json", json.dumps({"cells": [{**CELLS[0], "measured": "<b>"}]}), "measured = '<b>' is neither"),
            ("a.json", '{"cells": [{"where": "a", "row": "b", "column": "c", "printed": NaN}]}', "neither a number"),
            ("a.json", json.dumps({**fit(), "per_item": ["x"]}), "a score is no number"),
            ("a.json", json.dumps({**fit(), "best": 3}), "'best' is missing"),
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
        with pytest.raises(SpecError, match="the seed 'x' is no number"):
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
        for key in ("accuracy-nesting-1", "accuracy-dependency-1", "accuracy-length-1"):
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


def blocks(page: str) -> Any:
    found = re.search(r'<script type="application/json" id="tests">(.*?)</script>', page, re.S)
    assert found is not None
    return json.loads(found.group(1))


class Elements(HTMLParser):
    """The elements of a page with their attributes, and the content of its scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, dict[str, str | None], str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self.texts.append((tag, dict(attrs), ""))

    def handle_data(self, data: str) -> None:
        if self.cdata_elem:  # inside a script or a style
            tag, attributes, before = self.texts.pop()
            self.texts.append((tag, attributes, before + data))


class TestThePage:
    def test_the_policy_names_exactly_the_scripts_and_styles_there_are(self, page: str) -> None:
        parsed = Elements(page)
        (policy,) = [a["content"] for tag, a in parsed.elements if a.get("http-equiv") == "Content-Security-Policy"]
        assert policy is not None
        rules = dict(part.strip().split(" ", 1) for part in policy.split(";"))
        run = {"script-src": [], "style-src": []}  # type: dict[str, list[str]]
        for tag, attributes, text in parsed.texts:
            if attributes.get("type") != "application/json":
                digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
                run[f"{tag}-src"].append(f"'sha256-{digest}'")
        assert rules == {
            "default-src": "'none'", "base-uri": "'none'", "form-action": "'none'",
            **{name: " ".join(hashes) for name, hashes in run.items()},
        }  # fmt: skip

    def test_nothing_is_loaded_and_nothing_runs_from_attributes(self, page: str) -> None:
        parsed = Elements(page)
        for tag, attributes in parsed.elements:
            assert tag not in ("img", "iframe", "object", "embed", "link", "svg", "base", "form"), tag
            assert not any(name.startswith("on") or name in ("style", "src", "srcset") for name in attributes)
            assert re.match(r"#|figures/[a-z0-9-]+\.(svg|pdf)$", attributes.get("href") or "#")
        assert [a.get("type") for tag, a in parsed.elements if tag == "script"] == ["application/json"] * 2 + [
            "module"
        ] * 2

    def test_hostile_names_are_in_it_as_text(self, page: str) -> None:
        outside = re.sub(r"<(script|style).*?</\1>", "", page, flags=re.S)
        assert "<img" not in outside
        assert "&lt;/script&gt;&lt;script&gt;window.hacked" in outside
        assert "&lt;img src=x onerror=" in outside
        assert {word for test in blocks(page) for word in test["corpus"]["vocabulary"]} >= {HOSTILE, CLOSING}

    @given(
        st.recursive(
            st.text() | st.integers() | st.none(),
            lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=3),
            max_leaves=12,
        )
    )
    def test_embedded_values_cannot_end_their_element(self, value: Any) -> None:
        text = str(embedded(value))
        assert not set("<>&\u2028\u2029") & set(text)
        assert json.loads(text) == value

    def test_every_plot_is_there_as_svg_and_pdf(self, page: str, material: Path) -> None:
        keys = re.findall(r'data-plot="([^"]+)"', page)
        files = {path.name for path in (material / "out" / "figures").iterdir()}
        assert files == {f"{key}.{ending}" for key in keys for ending in ("svg", "pdf")}
        assert len(keys) == len(set(keys)) > 10
        for key in keys:
            svg = (material / "out" / "figures" / f"{key}.svg").read_text(encoding="utf-8")
            for element in ElementTree.fromstring(svg).iter():
                assert element.tag.rpartition("}")[2] in ("svg", "g", "path", "text", "tspan", "line", "rect", "title")
                assert not any(name.startswith("on") or name.endswith("href") for name in element.attrib)
                assert "currentColor" not in element.attrib.values()  # a paper has no colours of its own
            assert (material / "out" / "figures" / f"{key}.pdf").read_bytes().startswith(b"%PDF")

    def test_the_same_input_gives_the_same_page(self, material: Path, tmp_path: Path) -> None:
        one, two = (report([material / "runs"], tmp_path / name, with_figures=False) for name in ("one", "two"))
        assert one.page.read_bytes() == two.page.read_bytes()

    def test_a_new_report_takes_old_figures_away_and_leaves_other_files(self, material: Path, tmp_path: Path) -> None:
        report([material / "fit.json", material / "paper.json"], tmp_path)
        (tmp_path / "figures" / "mine.svg").write_text("mine")
        report([material / "paper.json"], tmp_path)
        assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == [
            "mine.svg",
            "paper-1-paper.pdf",
            "paper-1-paper.svg",
        ]

    def test_a_page_of_somebody_else_is_left_alone(self, material: Path, tmp_path: Path) -> None:
        (tmp_path / "index.html").write_text("my homepage")
        with pytest.raises(FormatError, match="not made by pomona"):
            report([material / "paper.json"], tmp_path)
        assert (tmp_path / "index.html").read_text() == "my homepage"
        assert MARK not in "my homepage"

    def test_nothing_to_report_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(FormatError, match="nothing to report"):
            report([], tmp_path)


class TestTheCommand:
    def test_for_people_and_for_machines(self, material: Path, tmp_path: Path) -> None:
        arguments = ["report", str(material / "paper.json"), "--out", str(tmp_path / "out")]
        shown = CliRunner().invoke(cli.app, arguments)
        assert shown.exit_code == 0, shown.output
        assert "index.html" in shown.output
        shown = CliRunner().invoke(cli.app, [*arguments, "--json", "--no-figures"])
        told = json.loads(shown.stdout)
        assert told["page"].endswith("out/index.html")
        assert told["figures"] == []
        assert told["bytes"] == (tmp_path / "out" / "index.html").stat().st_size


def test_hostile_predictions_outside_the_outcomes_are_wrong_answers(tmp_path: Path) -> None:
    corpus: Corpus = small_test()
    strange = tuple(HOSTILE if str(one) == "9" else one for one in corpus.outcomes)
    predictions = dataclasses.replace(said(corpus, 1.0, 1), outcomes=strange)
    add_run(tmp_path / "run", Recipe("lstm", data_settings=SMALL), corpus, predictions)
    (test,) = collect(gather([tmp_path / "run"])).tests
    (entry,) = test.entries
    assert entry.evaluation is not None
    nines = np.array([corpus[row].target[0] == 9 for row in range(len(corpus))])
    assert np.array_equal(~entry.evaluation.right, nines)
    assert HOSTILE in answers_block(entry, "run", 240)["texts"]


def test_two_questions_an_example_are_one_answer_in_the_explorer(tmp_path: Path) -> None:
    few = {"train": 60, "dev": 20, "test": 40}
    corpus = pm.generate("orchard/easy/min-max", "test", 0, **few)
    places = corpus.targets.astype(np.int64)
    places[::3, 1] = (places[::3, 1] + 1) % len(corpus.outcomes)
    predictions = Predictions(
        corpus.fingerprint, corpus.outcomes, np.eye(len(corpus.outcomes), dtype=np.float32)[places]
    )
    add_run(tmp_path / "run", Recipe("lstm", data="orchard/easy/min-max", data_settings=few), corpus, predictions)
    (test,) = collect(gather([tmp_path / "run"])).tests
    (entry,) = test.entries
    assert entry.evaluation is not None
    assert entry.evaluation.accuracy.value == pytest.approx(1 - len(range(0, len(corpus), 3)) / len(corpus))
    assert entry.depth is not None
    assert any("answers to the last one" in note for note in test.notes)
    block, gold = answers_block(entry, "run", 40), corpus_block(corpus, 40)
    for row, place in enumerate(unpack(block)["answers"][:40]):
        assert block["texts"][place] == ", ".join(str(corpus.outcomes[one]) for one in places[row])
        assert gold["answers"][unpack(gold)["targets"][row]] == ", ".join(map(str, corpus[row].target))


class TestWhatTrainingLeaves:
    """Runs of tasks with certificates, and folders that are damaged."""

    @pytest.fixture
    def run(self, tmp_path: Path) -> Run:
        corpus = small_test()
        return add_run(tmp_path / "run", Recipe("lstm", data_settings=SMALL), corpus, said(corpus, 0.7, 1))

    def test_the_certificate_that_training_wrote_is_shown(self, run: Run) -> None:
        from pomona.fairness import certify

        certificate = certify(every_sentence()[[0, 1, 2]], every_sentence()[[0, 2, 5, 7]])
        run.write("certificate.json", {"encodings": {"train": 3}, "certificate": certificate.plain()})
        found = gather([run.folder])
        assert [one for _, one in found.certificates] == [certificate]

    @pytest.mark.parametrize("kept", ["{", "[]", '{"x": 1}', '{"encodings": {}, "certificate": {"witnesses": 1}}'])
    def test_a_damaged_certificate_is_a_note_and_the_report_stays(self, run: Run, kept: str) -> None:
        (run.folder / "certificate.json").write_text(kept)
        found = collect(gather([run.folder]))
        assert "certificate.json" in found.notes[0]
        assert len(found.tests) == 1

    def test_only_what_has_an_accuracy_is_a_test(self, run: Run) -> None:
        run.add_scores("nodes", {"VP": 0.5})
        assert [test.name for test in collect(gather([run.folder])).tests] == ["test"]

    @pytest.mark.parametrize(
        ("name", "content", "words"),
        [
            ("curve.jsonl", '{"epoch": 0}\n{"epo', "curve.jsonl cannot be read"),
            ("curve.jsonl", "3\n", "a line is no object"),
            ("scores.json", "[1, 2]", "it holds no object"),
            ("scores.json", '{"test": {"accuracy": 0.5, "by_length": {"a": ["x", 1]}}}', "are not all numbers"),
            ("scores.json", '{"test": {"accuracy": "x"}}', "are not all numbers"),
            ("scores.json", '{"test": {"accuracy": 0.5, "interval": "ab"}}', "are not all numbers"),
            ("scores.json", '{"../test": {"accuracy": 0.5}}', "plain file name"),
            ("predictions/test.safetensors", "xx", "cannot be read as a safetensors file"),
        ],
    )
    def test_a_damaged_run_is_an_error_that_names_the_file(
        self, run: Run, tmp_path: Path, name: str, content: str, words: str
    ) -> None:
        (run.folder / name).write_text(content)
        with pytest.raises(PomonaError, match=re.escape(words)):
            report([run.folder], tmp_path / "out", with_figures=False)

    def test_tensors_that_are_no_predictions_are_an_error(self, run: Run) -> None:
        from safetensors.numpy import save_file

        save_file({"x": np.zeros(3)}, run.folder / "predictions" / "test.safetensors")
        with pytest.raises(PomonaError, match="holds no predictions of ours"):
            collect(gather([run.folder]))

    @pytest.mark.parametrize(
        "content",
        [
            {"cells": [{**CELLS[0], "interval": "ab"}]},
            {"cells": CELLS, "shortcuts": [1]},
            {"cells": CELLS, "shortcuts": {"a": {"top 1": {"3": [1, 2]}}}},
            {**fit(), "shuffle": [1]},
            {**fit(), "interval": [1]},
        ],
    )
    def test_a_damaged_document_is_an_error(self, tmp_path: Path, content: Any) -> None:
        (tmp_path / "a.json").write_text(json.dumps(content))
        with pytest.raises(FormatError, match="json: "):
            gather([tmp_path / "a.json"])

    def test_links_that_lead_in_circles_end(self, tmp_path: Path) -> None:
        for name in ("one", "two"):
            (tmp_path / name).symlink_to(".")
        with pytest.raises(FormatError, match="no run, and no file of ours"):
            gather([tmp_path])
        documents(tmp_path)
        assert len(gather([tmp_path]).results) == 1
