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
from pomona.base.errors import FormatError, PomonaError
from pomona.cli import main as cli
from pomona.data.corpus import Corpus
from pomona.reports.collect import collect
from pomona.reports.inputs import gather
from pomona.reports.packing import answers_block, corpus_block, unpack
from pomona.reports.page import MARK, embedded, report
from pomona.reports.style import series_name
from pomona.tasks.propositional import every_sentence
from pomona.training.predictions import Predictions
from pomona.training.recipe import Recipe
from pomona.training.run import Run
from report_material import (
    CELLS,
    CLOSING,
    HOSTILE,
    SMALL,
    add_run,
    blocks,
    documents,
    fit,
    said,
    small_test,
)


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
            ("curve.jsonl", "3\n", "line 1 is no epoch"),
            ("scores.json", "[1, 2]", "it holds no object"),
            ("scores.json", '{"test": {"accuracy": 0.5, "by_length": {"a": ["x", 1]}}}', "cannot be used"),
            ("scores.json", '{"test": {"accuracy": "x"}}', "cannot be used"),
            ("scores.json", '{"test": {"accuracy": 0.5, "interval": "ab"}}', "cannot be used"),
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
        with pytest.raises(PomonaError, match="its header is not ours"):
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


@pytest.mark.parametrize("name", ["__proto__", "constructor", "toString"])
def test_a_name_that_every_object_of_javascript_has_is_a_series_of_its_own(name: str) -> None:
    """Vega keeps series by name in plain objects: a run called __proto__ lost its chart."""
    assert series_name(name) == f"{name}\u00a0"
    assert series_name(f"my {name}") == f"my {name}"
