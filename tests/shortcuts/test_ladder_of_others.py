"""Ladders of corpora and answers that others bring, and the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_ladder import orchard
from typer.testing import CliRunner

import pomona as pm
from pomona.base.errors import MeasureError
from pomona.shortcuts import ladder as shortcuts
from pomona.shortcuts import lookups as guessing

# -- the command -------------------------------------------------------------------------------------------------------


def test_the_command(tmp_path: Path) -> None:
    from pomona.cli.main import app

    corpus = orchard("test-5")
    pm.write(corpus, tmp_path / "test.input")
    pm.write(orchard("train")[:600], tmp_path / "train.input")
    answers = tmp_path / "answers.txt"
    answers.write_text("".join(f"{one},{two}\n" for one, two in corpus.targets.tolist()))
    command = [
        "ladder", str(tmp_path / "test.input"), "--train", str(tmp_path / "train.input"), "--levels", "2",
        "--predictions", str(answers), "--plot", str(tmp_path / "ladder.svg"), "--train-depth", "3",
    ]  # fmt: skip
    shown = CliRunner().invoke(app, command, env={"COLUMNS": "200"})
    assert shown.exit_code == 0, shown.output
    assert "top 2 levels" in shown.output
    assert "█" in shown.output
    assert "On tree 2 the model acts" in shown.output
    assert (tmp_path / "ladder.svg").read_text().startswith("<svg")
    machine = json.loads(CliRunner().invoke(app, [*command, "--json"]).output)
    assert machine["rungs"][-1]["per_question"] == [1.0, 1.0]
    assert machine["effective_depth"][0]["beyond"]["exceeds"] is True


# -- what others bring -------------------------------------------------------------------------------------------------


def own(path: Path, rows: list[dict[str, Any]]) -> pm.Corpus:
    path.write_text("".join(json.dumps({"id": f"q{at}", **row}) + "\n" for at, row in enumerate(rows)))
    return pm.read(path)


def test_every_word_counts_however_many_there_are(tmp_path: Path) -> None:
    rows = [{"tree": {"type": "f", "value": at % 2}, "tokens": [f"w{at % 120}", f"z{at}"]} for at in range(720)]
    assert shortcuts.ladder(own(tmp_path / "a.jsonl", rows))["surface counts"].accuracy > 0.95


def test_sparse_counts_are_weighed_as_plain_ones_would_be() -> None:
    """Against logistic regression written down on the standardised features themselves."""
    from scipy import optimize, sparse

    draw = np.random.default_rng(3)
    features = draw.integers(0, 3, (80, 6)) * 1.0
    features[:, 4] = 2.0  # says nothing
    answers = (features[:, 0] + features[:, 1] > 2).astype(np.int64) + (features[:, 2] > 1)
    other = draw.integers(0, 6, (50, 6)) * 1.0
    middle, spread = features.mean(axis=0), features.std(axis=0) + 1e-9
    design = np.column_stack([(features - middle) / spread, np.ones(80)])

    def loss(flat: Any) -> float:
        scores = design @ flat.reshape(7, -1)
        chances = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
        return float(-chances[np.arange(80), answers].mean() + 5e-5 * (flat**2).sum())

    weights = optimize.minimize(loss, np.zeros(21), method="L-BFGS-B", options={"maxiter": 300}).x.reshape(7, 3)
    clipped = (np.clip(other, features.min(axis=0), features.max(axis=0)) - middle) / spread
    expected = np.argmax(np.column_stack([clipped, np.ones(50)]) @ weights, axis=1)
    found = guessing._Softmax(sparse.csr_array(features), answers).answers_to(sparse.csr_array(other))
    assert (found == expected).mean() >= 0.96  # both stop before the very end


def test_without_usable_answers_there_is_an_error_and_no_crash(tmp_path: Path) -> None:
    tree = {"type": "f", "children": [{"type": "1", "value": 1}]}
    rows = [{"tree": {**tree, "value": at % 2}, "tokens": [str(at)]} for at in range(8)]
    known, unknown = own(tmp_path / "a.jsonl", rows), own(tmp_path / "b.jsonl", [{"tree": tree}] * 3)
    other = own(tmp_path / "c.jsonl", [{"tree": {**tree, "value": "red"}}] * 3)
    two = own(tmp_path / "d.jsonl", [{"tree": tree, "target": [0, 1]}] * 3)
    with pytest.raises(MeasureError, match="3 of 3 examples have no known answer"):
        shortcuts.ladder(unknown)
    for train in (unknown, other):
        with pytest.raises(MeasureError, match="the training corpus has none of these answers"):
            shortcuts.ladder(known, train)
    with pytest.raises(MeasureError, match="asks 2 questions an example, this one 1"):
        shortcuts.ladder(known, two)
    found = pm.evaluate([0] * 8, known, train=other)
    assert found.ladder is None
    assert "none of these answers" in found.notes[0]


def test_one_question_about_two_trees_of_digits_has_no_evaluators(tmp_path: Path) -> None:
    digits = [{"type": str(at), "value": at} for at in range(4)]
    lists = [{"type": "MAX", "value": at, "children": digits[: at + 1]} for at in range(4)]
    rows = [{"trees": [lists[at % 4], lists[at // 4]], "target": "same" if at % 5 == 0 else "no"} for at in range(16)]
    corpus = own(tmp_path / "a.jsonl", rows)
    assert [rung.name for rung in shortcuts.ladder(corpus).rungs][-1] == "surface counts"
    left_out, no_depth = pm.evaluate(["no"] * 16, corpus).notes
    assert "an example asks 1 questions and has 2 trees" in left_out
    assert "No effective depth" in no_depth


@pytest.mark.parametrize(
    ("name", "content", "right"),
    [
        ("a.csv", "id,prediction\nq1,1\nq0,0\nq2,2\n", 1.0),
        ("a.jsonl", "\ufeff" + "".join(f'{{"id": "q{at}", "prediction": {at}}}\n' for at in (2, 0, 1)), 1.0),
        ("a.txt", "\ufeff0\r\n1\r\n2", 1.0),
        ("a.txt", "0\n1\n1\n", 2 / 3),
        ("a.txt", "0\n1\n2\n3\n", "4 lines for 3 examples"),
        ("a.txt", "0\n1\n", "2 lines for 3 examples"),
        ("a.txt", b"0\n\xff\n2\n", "line 2: this is not UTF-8"),
        ("a.txt", '[{"id": "q0", "prediction": 0}]', "a line is an object"),
    ],
)
def test_predictions_are_read_as_evaluate_reads_them(tmp_path: Path, name: str, content: Any, right: Any) -> None:
    from pomona.cli.main import app

    own(tmp_path / "data.jsonl", [{"tree": {"type": "f", "value": at}, "tokens": [str(at)]} for at in range(3)])
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    ran = CliRunner().invoke(
        app, ["ladder", str(tmp_path / "data.jsonl"), "--predictions", str(tmp_path / name), "--json"]
    )
    if isinstance(right, str):
        assert right in str(ran.exception)
    else:
        assert json.loads(ran.output)["rungs"][-1]["accuracy"] == pytest.approx(right, abs=1e-6)


def test_lines_for_the_whole_corpus_will_do_for_its_first_examples(tmp_path: Path) -> None:
    from pomona.cli.main import app

    own(tmp_path / "data.jsonl", [{"tree": {"type": "f", "value": one}, "tokens": [one]} for one in "abcd"])
    (tmp_path / "a.txt").write_text("a\nb\nc\nd\n")
    command = [
        "ladder",
        str(tmp_path / "data.jsonl"),
        "--predictions",
        str(tmp_path / "a.txt"),
        "--size",
        "3",
        "--json",
    ]
    found = json.loads(CliRunner().invoke(app, command).output)
    assert found["rungs"][-1]["accuracy"] == 1
    assert found["notes"][0].startswith("Left out are the look-up table and the top k levels")
    assert found["notes"][1].startswith("No effective depth: ")
