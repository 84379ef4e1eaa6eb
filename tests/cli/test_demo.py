"""The first minute: the demo goes from data to page, and what it prints is what it measured."""

from __future__ import annotations

import json

import numpy as np
from typer.testing import CliRunner

from pomona.data import formats
from pomona.fairness import Certificate
from pomona.training.predict import represent
from pomona.training.run import Run

STEPS = ("Data", "Fairness", "Models", "Baselines", "Vectors", "Report")


def test_the_demo_goes_from_data_to_page_and_does_not_train_twice(tmp_path):
    from pomona.cli.main import app

    order = ["demo", "--out", str(tmp_path / "demo"), "--rows", "900", "--epochs", "1", "--json"]
    told = CliRunner().invoke(app, order, catch_exceptions=False)
    assert told.exit_code == 0
    facts = json.loads(told.stdout)
    out = tmp_path / "demo"
    assert (out / "report" / "index.html").stat().st_size > 100_000
    assert Certificate.load(out / "fair.certificate.json").fair
    assert Certificate.load(out / "unfair.certificate.json").missing == 1
    test = formats.read(out / "data" / "test.parquet")
    for name, accuracy in facts["accuracy"].items():
        run = Run.read(out / "runs" / name.lower())
        assert run.finished
        right = run.predictions("test").answers == test.targets[:, 0]
        assert accuracy == right.mean() == run.scores["test"]["accuracy"]
    vectors = np.load(out / "vectors.npy")
    derivations = [json.loads(line) for line in (out / "derivations.jsonl").read_text().splitlines()]
    assert len(vectors) == len(derivations) == (json.loads((out / "tre.json").read_text()))["items"]
    before = (out / "runs" / "lstm" / "best.safetensors").stat().st_mtime_ns
    assert CliRunner().invoke(app, order, catch_exceptions=False).exit_code == 0
    assert (out / "runs" / "lstm" / "best.safetensors").stat().st_mtime_ns == before
    shown = CliRunner().invoke(app, order[:-1], catch_exceptions=False).stdout.rstrip().splitlines()
    assert len(shown) <= 24, "one screen"
    steps = [line.split()[:2] for line in shown if line[:1].isdigit()]
    assert steps == [[str(number + 1), name] for number, name in enumerate(STEPS)]
    assert shown[-1] == str(out / "report" / "index.html")
    told = CliRunner().invoke(app, [*order[:-1], "--verbose"], catch_exceptions=False).stdout.splitlines()
    assert len(told) > len(shown) + 20
    assert [line for line in told if line in shown[:3]] == shown[:3]
    flat = test[(test.nesting == 1) & (test.lengths <= 8)]
    run = Run.read(out / "runs" / "treelstm")
    assert np.array_equal(represent(run, flat), vectors)
    assert np.allclose(represent(run, flat[::-1]), vectors[::-1], atol=1e-6)
