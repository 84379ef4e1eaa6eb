"""The reference game: trained together as alone, the held-out third unseen, killed and gone on with."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from oracles_game import PlainPair
from pomona.errors import SpecError
from pomona.experiments.pairs import Pairs
from pomona.experiments.reference_game import (
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


def weights_of(pairs: Pairs, row: int) -> dict[str, np.ndarray]:
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
    """Every update of every weight, in double precision: so gradients, sharing of rows and optimisers are right."""
    game = SMALL[reading]
    together = Pairs.fresh(game, 3, [0, 5, 2], dtype=torch.float64)
    alone = PlainPair(game, 3, 5)
    for _ in range(6):
        referent, chance = together.draw()
        rewards = together.step()
        assert rewards[1].item() == pytest.approx(alone.step(referent[1].numpy(), chance[1].numpy()), abs=1e-12)
        for name, value in weights_of(together, 1).items():
            np.testing.assert_allclose(value.T, alone.place(name).detach().numpy(), rtol=1e-7, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("reading", READINGS)
def test_company_changes_nothing(reading: str) -> None:
    many, one = (Pairs.fresh(SMALL[reading], 1, rows, dtype=torch.float64) for rows in ([4, 0, 9], [9]))
    for _ in range(5):
        many.step()
        one.step()
    np.testing.assert_array_equal(many.languages().messages[2], one.languages().messages[0])
    for name, value in weights_of(many, 2).items():
        np.testing.assert_allclose(value, weights_of(one, 0)[name], rtol=1e-9, atol=1e-11)


@given(st.integers(0, 2**40), st.integers(0, 10_000))
def test_the_held_out_third_is_never_drawn(seed: int, number: int) -> None:
    game = Game(hidden=1, batch=256)
    pairs = Pairs.fresh(game, seed, [number])
    drawn: set[int] = set()
    for step in range(4):
        pairs.done = step
        drawn |= set(pairs.draw()[0].ravel().tolist())
    seen = set(trained_on(seed, [number])[0].tolist())
    assert len(seen) == TRAINED
    assert drawn <= seen
    assert len(drawn) > 28  # and nearly all of the rest is


def test_held_out_referents_do_not_touch_training() -> None:
    """Other answers for referents that a pair never sees leave its weights as they are, to the bit."""
    before = Pairs.fresh(SMALL["code"], 0, [0], dtype=torch.float64)
    for _ in range(3):
        before.step()
    unseen = ~before.languages().trained[0]
    kept = {name: table.copy() for name, table in TARGETS.items()}
    features = FEATURES.copy()
    try:
        for name in TARGETS:
            TARGETS[name][unseen] = 0
        FEATURES[unseen] = 7.0
        after = Pairs.fresh(SMALL["code"], 0, [0], dtype=torch.float64)
        for _ in range(3):
            after.step()
    finally:
        FEATURES[:] = features
        for name, table in kept.items():
            TARGETS[name][:] = table
    assert all(torch.equal(before.weights[name], after.weights[name]) for name in before.weights)


def test_seeds_and_pairs_differ() -> None:
    rows = Pairs.fresh(SMALL["code"], 0, [0, 1])
    other = Pairs.fresh(SMALL["code"], 1, [0, 1])
    weight = rows.weights["speaker.state.weight"]
    assert not torch.equal(weight[0], weight[1])
    assert not torch.equal(weight, other.weights["speaker.state.weight"])
    assert set(trained_on(0, [0])[0]) != set(trained_on(0, [1])[0])


def test_a_trained_pair_is_understood() -> None:
    pairs = Pairs.fresh(dataclasses.replace(READINGS["code"], hidden=32, batch=64, rate=1e-2), 0, range(3))
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
