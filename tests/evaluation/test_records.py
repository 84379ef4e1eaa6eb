"""Evaluations in scores.json: what is kept is what was measured, and files of earlier versions are still read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pomona as pm
from pomona.base.errors import FormatError
from pomona.data.answers import Answers
from pomona.evaluation.evaluation import Evaluation
from pomona.evaluation.records import as_evaluation, kept_evaluations
from pomona.training.recipe import Recipe
from pomona.training.run import Run

# As version 0.1 wrote them: a run that builds trees on ListOps, and one of two answers on ORCHARD.
OLD = """{
 "test": {"rows": 200, "fingerprint": "af01", "accuracy": 0.58, "interval": [0.510666, 0.646268],
  "by_length": {"<20": [0.75, 80], "20-49": [0.5, 100], "50-99": [0.3, 20]},
  "by_nesting": {"<1": [1.0, 10], "1": [0.8, 50], "2": [0.5, 100], "10-14": [0.4, 40]},
  "f1_left": 0.52, "f1_right": 0.1, "f1_gold": 0.55, "f1_gold_without_root": 0.5, "list_recall": 0.6, "depth": 11.1},
 "bins": {"rows": 60, "fingerprint": "be02", "accuracy": 0.5, "interval": [0.377, 0.623],
  "by_length": {}, "by_nesting": {"3": [0.6, 30], "10-14": [0.4, 30]},
  "by_depth": {
   "3": {"rows": 30, "first": [0.9, 0.74, 0.97], "second": [0.66667, 0.49, 0.81], "both": [0.6, 0.42, 0.75]},
   "12": {"rows": 30, "first": [0.8, 0.63, 0.9], "second": [0.43333, 0.27, 0.61], "both": [0.4, 0.25, 0.58]}},
  "malformed": 0.05, "unknown_copies": 0.16},
 "nodes": {"ROOT": 0.5},
 "handed_up": {"phrase": [0.1, 0.9]}
}"""


@pytest.fixture
def old(tmp_path: Path) -> dict[str, dict[str, Any]]:
    run = Run.open(tmp_path / "run", Recipe("lstm"))
    (run.folder / "scores.json").write_text(OLD)
    return kept_evaluations(run)


def test_an_old_file_is_read_in_the_shape_of_today(old: dict[str, dict[str, Any]]) -> None:
    assert list(old) == ["test", "bins"]  # what else papers kept there is no evaluation
    corpus = pm.generate("listops/d20s", "test", 0, train=20, dev=5, test=20)
    today = Evaluation.of(corpus, Answers("now", corpus.targets.astype(np.int64))).as_dict()
    for entry in old.values():
        assert entry.keys() == today.keys()
        assert json.loads(json.dumps(entry, allow_nan=False)) == entry
        for groups in entry["by"].values():
            for group in groups.values():
                assert group.keys() == today["by"]["nesting"]["1"].keys()
    test = old["test"]
    assert (test["right"], test["wrong"], test["unparsed"]) == (116, 84, 0)
    assert test["by"]["length"]["20-49"]["right"] == 50
    assert test["by"]["nesting"]["10-14"]["rows"] == 40
    low, high = test["by"]["nesting"]["2"]["interval"]
    assert low < 0.5 < high
    assert {name: score["value"] for name, score in test["trees"].items()} == {
        "f1_gold": 0.55, "f1_left": 0.52, "f1_right": 0.1, "list_recall": 0.6, "depth": 11.1,
        "f1_gold_without_root": 0.5,
    }  # fmt: skip


def test_old_answers_by_depth_are_groups_by_nesting(old: dict[str, dict[str, Any]]) -> None:
    groups = old["bins"]["by"]["nesting"]
    assert list(groups) == ["3", "12"]  # exact depths, not the buckets that stood beside them
    assert [(group["right"], group["questions"]) for group in groups.values()] == [(18, [27, 20]), (12, [24, 13])]
    assert old["bins"]["unparsed"] == 3
    assert old["bins"]["measures"] == {"unknown-copies": {"value": 0.16}}


def test_entries_of_today_are_read_as_they_are() -> None:
    corpus = pm.generate("listops/d20s", "test", 0, train=20, dev=5, test=20)
    entry = Evaluation.of(corpus, Answers("now", corpus.targets.astype(np.int64))).as_dict()
    assert as_evaluation(json.loads(json.dumps(entry))) == entry


DEPTH = {
    "depth": 3, "interval": [3, 3], "fits": True, "unlike": [], "rival": "look-up table", "contested": 1,
    "explained": 1.0, "margin": 0.1, "agreement": [0.5, 1.0],
}  # fmt: skip


def test_an_effective_depth_of_an_earlier_version_is_read() -> None:
    entry = {"accuracy": 0.5, "rows": 4, "by": {}, "effective_depth": [DEPTH]}
    assert as_evaluation(entry) == entry


@pytest.mark.parametrize(
    "damage",
    [
        {"accuracy": "x"},
        {"interval": [0.1, None]},
        {"by": 3},
        {"by": {"length": {"<10": {"rows": 3}}}},
        {"by": {"length": {"<10": {"rows": 3, "right": "x", "accuracy": 0.1, "interval": [0, 1]}}}},
        {"trees": {"f1_gold": {"value": "high"}}},
        {"measures": {"topsim": 0.5}},
        {"effective_depth": [{"depth": 3}]},
        {"effective_depth": 3},
        {"effective_depth": [{**DEPTH, "mixture": {"shares": [{"name": "noise", "share": "much"}]}}]},
        {"effective_depth": [{**DEPTH, "chance": "x"}]},
        {"by_length": {"<20": [1]}},
        {"f1_gold": "x"},
        {"by_depth": {"3": [1, 2]}},
    ],
)
def test_a_damaged_entry_is_an_error_that_names_the_file(damage: dict[str, Any]) -> None:
    today = {"by": {}} if damage.keys() & {"trees", "measures", "effective_depth"} else {}
    entry = {"accuracy": 0.5, "rows": 4, **today, **damage}
    with pytest.raises(FormatError, match=r"scores\.json: the scores kept here cannot be used: .*; evaluate"):
        as_evaluation(entry, "scores.json")


def test_groups_in_the_dictionary_are_counted_one_by_one() -> None:
    corpus = pm.generate("orchard/hard/min-max", "train", 3, train=150, dev=5, test=5, iid=5)
    given = corpus.targets.astype(np.int64).copy()
    given[::3, 1] = -1
    given[::4, 0] = (given[::4, 0] + 1) % 10
    found = Evaluation.of(corpus, Answers("mine", given)).as_dict()["by"]
    assert len(found["nesting"]) > 2
    for key in ("nesting", "dependency"):
        for name, group in found[key].items():
            rows = [row for row, example in enumerate(corpus) if str(getattr(example, key)) == name]
            assert group["rows"] == len(rows)
            right = [[given[row, question] == corpus.targets[row, question] for row in rows] for question in (0, 1)]
            assert group["questions"] == [sum(column) for column in right]
            assert group["right"] == sum(map(all, zip(*right, strict=True)))
            assert group["unparsed"] == sum(row % 3 == 0 for row in rows)
