"""Verdicts in a report: sentences on every run, mixtures with intervals, accuracy by operators that decide."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pomona as pm
from pomona.base.plots import Drawing
from pomona.data.answers import Answers, asked
from pomona.evaluation.baselines import Baselines
from pomona.evaluation.evaluation import Evaluation
from pomona.reports.collect import collect
from pomona.reports.inputs import gather
from pomona.reports.page import report
from pomona.reports.plots import all_plots
from pomona.reports.tables import run_rows, verdict_rows
from pomona.shortcuts import ladder as shortcuts

SIZES = {"train": 300, "dev": 20, "test": 300, "iid": 20}


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    """A model of ORCHARD that is right on the first tree, and opens two levels of the second."""
    test, train = (pm.generate("orchard/hard/first-last", split, 0, **SIZES) for split in ("test-12", "train"))
    given = asked(test).copy()
    given[:, 1] = shortcuts.evaluations(test, train, 2)[:, 1, 2]
    given[::5] = (given[::5] + 1) % 10
    return Evaluation.of(test, Answers("mine", given), Baselines(test, train))


@pytest.fixture(scope="module")
def folder(evaluation: Evaluation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The evaluation as it is written today, and as an earlier version wrote it."""
    folder = tmp_path_factory.mktemp("verdicts")
    today = json.loads(json.dumps(evaluation.as_dict()))
    (folder / "today.json").write_text(json.dumps(today))
    old = {key: value for key, value in today.items() if key != "chains"}
    old["by"] = {key: value for key, value in today["by"].items() if key != "chain"}
    new = {"sentence", "mixture", "rows", "unparsed", "chance", "constant"}
    old["effective_depth"] = [
        {key: value for key, value in depth.items() if key not in new} for depth in today["effective_depth"]
    ]
    (folder / "old.json").write_text(json.dumps(old))
    return folder


def plots(folder: Path, *names: str) -> dict[str, Any]:
    return {plot.key: plot for plot in all_plots(collect(gather([folder / name for name in names])))}


def test_the_bars_are_the_shares_of_the_mixture(folder: Path, evaluation: Evaluation) -> None:
    found = plots(folder, "today.json")
    for question in (0, 1):
        plot = found[f"mixture-1-{question + 1}"]
        rows = plot.spec["data"]["values"]
        shares = [share for share in evaluation.depths[question].mixture.shares if share.share >= 0.005]
        assert [(row["share"], row["low"], row["high"]) for row in rows] == [
            tuple(pytest.approx(number, abs=1e-6) for number in (share.share, share.low, share.high))
            for share in shares
        ]
        ends = [(row["place"]["start"], row["place"]["end"]) for row in rows]
        np.testing.assert_allclose(np.cumsum([row["share"] for row in rows]), [end for _, end in ends], atol=1e-6)
        assert [start for start, _ in ends[1:]] == pytest.approx([end for _, end in ends[:-1]], abs=1e-6)
        assert len({row["place"]["lane"] for row in rows}) == len(rows)
        assert [row["place"]["label"] for row in rows] == ["today", *[""] * (len(rows) - 1)]
        assert Drawing(plot.spec).svg().count("today:") == len(rows)  # said to those who listen
    assert "2 levels" in {row["part"] for row in found["mixture-1-2"].spec["data"]["values"]}


def test_each_question_is_drawn_by_its_own_chain(folder: Path, evaluation: Evaluation) -> None:
    found = plots(folder, "today.json")
    for question in (0, 1):
        rows = found[f"accuracy-chain-1-{question + 1}"].spec["layer"][-1]["data"]["values"]
        groups = [group for group in evaluation.by("chain", question) if group.rows >= 10]
        assert [(row["group"], row["examples"]) for row in rows] == [(group.name, group.rows) for group in groups]
        assert [row["share"] for row in rows] == pytest.approx([group.accuracy for group in groups], abs=1e-6)


def test_sentences_today_and_of_earlier_versions(folder: Path, evaluation: Evaluation, tmp_path: Path) -> None:
    found = collect(gather([folder / "today.json", folder / "old.json"]))
    rows = [row for test in found.tests for row in verdict_rows(found, test)]
    words = {row["name"]: row["words"] for row in rows}
    depths, chains = evaluation.depths, evaluation.chains
    assert words["today"] == [
        f"Question 1: it {depths[0].sentence}.", f"{chains[0].sentence}.",
        f"Question 2: it {depths[1].sentence}.", f"{chains[1].sentence}.",
    ]  # fmt: skip
    assert words["old"] == [words["today"][0], words["today"][2]]
    cells = [cell for row in run_rows(found) for cell in row["tests"] if cell["fits"]]
    assert {cell["fits"] for cell in cells} == {"80 % of answers"}
    assert "mixture-1-1" not in plots(folder, "old.json")
    assert "accuracy-chain-1" in plots(folder, "old.json")  # from the groups by dependency
    page = report([folder / "today.json"], tmp_path / "out", with_figures=False).page.read_text(encoding="utf-8")
    assert "<p>Question 2: it acts like an evaluator that opens 2 levels: 80 % of its answers; " in page
    assert "<summary>The numbers behind it</summary><p>The evaluator that opens everything gives 80.0% of" in page
