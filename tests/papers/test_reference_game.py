"""The reference game: pairs train together as alone, never see the held-out third, and resume exactly."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from oracles_game import PlainPair
from pomona.base.errors import RunError, SpecError
from pomona.papers.tre_2019 import languages
from pomona.papers.tre_2019.agents import AgentPairs
from pomona.papers.tre_2019.game_rules import (
    COLOURS,
    FEATURES,
    PARTS,
    READINGS,
    REFERENTS,
    TARGETS,
    TRAINED,
    Game,
    trained_on,
)

SMALL = {name: dataclasses.replace(game, hidden=7, batch=24) for name, game in READINGS.items()}


def weights_of(pairs: AgentPairs, row: int) -> dict[str, np.ndarray]:
    return {name: weight[row].detach().numpy() for name, weight in pairs.weights.items()}


def test_the_referents_are_the_papers() -> None:
    assert len(set(REFERENTS)) == 48
    assert TRAINED == 32
    assert FEATURES.shape == (48, 12)
    assert (FEATURES.sum(1) == 2).all()
    for row, ((one, first), (two, second)) in enumerate(REFERENTS):
        assert (one, two) == tuple(PARTS[part] for part in TARGETS["parts"][row])
        assert (first, second) == tuple(COLOURS[colour] for colour in TARGETS["colours"][row])
        seen = FEATURES[row].reshape(3, 4)
        assert seen[PARTS.index(one), COLOURS.index(first)] == seen[PARTS.index(two), COLOURS.index(second)] == 1


@pytest.mark.parametrize("reading", READINGS)
def test_pairs_together_move_as_one_plain_pair_alone(reading: str) -> None:
    """Every update of every weight equals the plain program: gradients, sharing of rows and optimisers are right."""
    game = SMALL[reading]
    together = AgentPairs.fresh(game, 3, [0, 5, 2], dtype=torch.float64)
    alone = PlainPair(game, 3, 5)
    for _ in range(6):
        referent, chance = together.draw()
        rewards = together.step()
        assert rewards[1].item() == pytest.approx(alone.step(referent[1].numpy(), chance[1].numpy()), abs=1e-12)
        for name, value in weights_of(together, 1).items():
            np.testing.assert_allclose(value.T, alone.place(name).detach().numpy(), rtol=1e-7, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("reading", READINGS)
def test_company_changes_nothing(reading: str) -> None:
    many, one = (AgentPairs.fresh(SMALL[reading], 1, rows, dtype=torch.float64) for rows in ([4, 0, 9], [9]))
    for _ in range(5):
        many.step()
        one.step()
    np.testing.assert_array_equal(many.languages().messages[2], one.languages().messages[0])
    for name, value in weights_of(many, 2).items():
        np.testing.assert_allclose(value, weights_of(one, 0)[name], rtol=1e-9, atol=1e-11)


@given(st.integers(0, 2**40), st.integers(0, 10_000))
def test_the_held_out_third_is_never_drawn(seed: int, number: int) -> None:
    game = Game(hidden=1, batch=256)
    pairs = AgentPairs.fresh(game, seed, [number])
    drawn: set[int] = set()
    for step in range(4):
        pairs.done = step
        drawn |= set(pairs.draw()[0].ravel().tolist())
    seen = set(trained_on(seed, [number])[0].tolist())
    assert len(seen) == TRAINED
    assert drawn <= seen
    assert len(drawn) > 28  # and nearly all of the others are drawn


def test_held_out_referents_do_not_touch_training() -> None:
    """Changing the answers of referents that a pair never sees changes no bit of its weights."""
    before = AgentPairs.fresh(SMALL["code"], 0, [0], dtype=torch.float64)
    for _ in range(3):
        before.step()
    unseen = ~before.languages().trained[0]
    kept = {name: table.copy() for name, table in TARGETS.items()}
    features = FEATURES.copy()
    try:
        for name in TARGETS:
            TARGETS[name][unseen] = 0
        FEATURES[unseen] = 7.0
        after = AgentPairs.fresh(SMALL["code"], 0, [0], dtype=torch.float64)
        for _ in range(3):
            after.step()
    finally:
        FEATURES[:] = features
        for name, table in kept.items():
            TARGETS[name][:] = table
    assert all(torch.equal(before.weights[name], after.weights[name]) for name in before.weights)


def test_seeds_and_pairs_differ() -> None:
    rows = AgentPairs.fresh(SMALL["code"], 0, [0, 1])
    other = AgentPairs.fresh(SMALL["code"], 1, [0, 1])
    weight = rows.weights["speaker.state.weight"]
    assert not torch.equal(weight[0], weight[1])
    assert not torch.equal(weight, other.weights["speaker.state.weight"])
    assert set(trained_on(0, [0])[0]) != set(trained_on(0, [1])[0])


def test_a_trained_pair_is_understood() -> None:
    pairs = AgentPairs.fresh(dataclasses.replace(READINGS["code"], hidden=32, batch=64, rate=1e-2), 0, range(3))
    before = pairs.languages()
    for _ in range(60):
        pairs.step()
    after = pairs.languages()
    gained = [(found.rewards * found.trained).sum(1) / TRAINED for found in (before, after)]
    assert (gained[1] - gained[0] > 0.1).all()


def test_impossible_games_are_refused() -> None:
    with pytest.raises(SpecError, match="batch must be 1 or more, got 0"):
        Game(batch=0)
    with pytest.raises(SpecError, match="too many messages"):
        Game(length=20)


# -- the folder of a hundred games ----------------------------------------------------------------------------------


def test_killed_games_go_on_to_the_same_languages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    game = dataclasses.replace(SMALL["code"], steps=7)
    whole = languages.games_folder(tmp_path / "whole", game, pairs=2)
    languages.play(whole)
    monkeypatch.setattr(languages, "SAVE_EVERY", -1.0)
    broken = languages.games_folder(tmp_path / "broken", game, pairs=2)
    step = AgentPairs.step

    def die(pairs: AgentPairs) -> torch.Tensor:
        if pairs.done == 4:
            raise KeyboardInterrupt
        return step(pairs)

    with monkeypatch.context() as patch:
        patch.setattr(AgentPairs, "step", die)
        with pytest.raises(KeyboardInterrupt):
            languages.play(broken)
    assert (broken.path / "state.safetensors").exists()
    told: list[str] = []
    languages.play(broken, say=told.append)
    assert "resuming after step 4 of 7" in told[0]
    assert not (broken.path / "state.safetensors").exists()
    ours, theirs = (folder.read("languages.json", {})["pairs"] for folder in (broken, whole))
    assert ours == theirs
    for row in ours:
        assert len(row["messages"]) == 48
        assert len(row["trained"]) == 32
        assert all(set(message) <= set("abcdefghijklmnop") for message in row["messages"])


def test_a_folder_belongs_to_one_experiment(tmp_path: Path) -> None:
    languages.games_folder(tmp_path / "a", SMALL["code"], pairs=2)
    with pytest.raises(RunError, match=r"other settings \(pairs\): there pairs = 2, here 3. Nothing was changed"):
        languages.games_folder(tmp_path / "a", SMALL["code"], pairs=3)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "thesis.txt").write_text("mine")
    with pytest.raises(RunError, match="holds no experiment"):
        languages.games_folder(tmp_path / "b", SMALL["code"])


def test_a_language_that_says_nothing_is_not_called_perfect() -> None:
    row = {"pair": 0, "messages": ["aaaa"] * 48, "rewards": [0.25] * 48, "trained": list(range(32))}
    found = languages.scores_of(row)
    assert found["exact"] == pytest.approx(0, abs=1e-9)
    assert found["legacy"] > 0.1  # the published solver does not even find this
    assert found["normalised"] is None
    assert found["topsim"] is None
    assert found["information"] == 0.0
    assert found["error"] == 0.0


def test_the_recorded_runs_give_the_papers_correlations(data_folder: Path) -> None:
    """The correlations of Figure 5, computed from the 100 runs that the author recorded."""
    with (data_folder / "reference_game" / "recorded_runs.csv").open() as file:
        recorded = list(csv.DictReader(file))
    scores = [
        {
            "pair": int(row["run"]), "train": float(row["train_reward"]), "test": float(row["test_reward"]),
            "error": float(row["difference"]), "exact": float(row["tre"]), "legacy": float(row["tre"]),
            "bound": 0.0, "status": "best found", "normalised": None, "information": 1.0,
        }
        for row in recorded
    ]  # fmt: skip
    judged = languages.judge(scores)
    r = {(row["against"], row["runs"]): row for row in judged["correlations"] if row["tre"] == "exact"}
    assert r["generalisation error", "all runs"]["value"] == pytest.approx(0.496, abs=0.005)
    assert r["test reward", "all runs"]["value"] == pytest.approx(0.575, abs=0.005)
    assert r["train reward", "all runs"]["value"] == pytest.approx(0.789, abs=0.005)
    assert judged["successful"] == 28
    assert r["generalisation error", "successful runs"]["value"] == pytest.approx(0.60, abs=0.01)
    assert r["test reward", "successful runs"]["value"] == pytest.approx(0.38, abs=0.01)
    assert judged["above_zero"] == 14  # worse than predicting zero
    assert all(gap["value"] == 0.0 for gap in judged["gaps"])
    assert {row["value"] for row in judged["correlations"] if row["tre"] == "normalised"} == {None}


def test_figure_6_mines_good_languages_at_both_ends() -> None:
    rows = [(0.9, 0.2), (0.8, 3.0), (0.7, 1.0), (0.6, 9.0), (0.3, 0.0)]
    scores = [
        {"pair": pair, "train": 0.9, "test": test, "error": 0.9 - test, "exact": level, "bound": level,
         "legacy": level, "normalised": 1.0}
        for pair, (test, level) in enumerate(rows)
    ]  # fmt: skip
    found = languages.mined(scores, [{"messages": [f"m{pair}"]} for pair in range(5)], ["x"])
    assert [row["pair"] for row in found] == [0, 1]  # 2 and 3 generalise worse, 4 never succeeded
    assert found[1]["messages"] == {"x": "m1"}
    assert languages.mined(scores[4:], [], []) == []
