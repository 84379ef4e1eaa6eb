"""What the tests of training share: a small recipe, runs that are killed, runs compared to the bit."""

from __future__ import annotations

import torch

from pomona.training.checkpoints import read_torch
from pomona.training.recipe import Recipe

SMALL = Recipe(
    "treelstm",
    {"width": 8},
    data_settings={"train": 400, "dev": 50, "test": 50},
    longest=30,
    epochs=3,
    batch=16,
    rate=3e-3,
    l2=1e-5,
    weight_decay=0.01,
    dev_rows=50,
)


WHICH = ("best", "last")


def weights(run, which):
    return read_torch(run.folder / f"{which}.safetensors")[0]


def assert_same_bits(one, two):
    for which in WHICH:
        mine, theirs = weights(one, which), weights(two, which)
        assert mine.keys() == theirs.keys()
        assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    clock = {"core_seconds"}
    for mine, theirs in zip(one.curve, two.curve, strict=True):
        assert {k: v for k, v in mine.items() if k not in clock} == {k: v for k, v in theirs.items() if k not in clock}


class Killed(BaseException):
    pass


def kill_at(step):
    """For `progress`: the run is killed after this step."""

    def kill(now):
        if now.step == step:
            raise Killed

    return kill
