"""What all tests of sweeps compare with: the same runs, one after the other, in one process."""

from __future__ import annotations

import pytest

from pomona.sweeps.plan import Plan
from pomona.training.loop import train
from sweeps_material import PLAN, bits


@pytest.fixture(scope="session")
def one_by_one(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The weights of every run of the plan, trained in this process."""
    folder = tmp_path_factory.mktemp("alone")
    for job in Plan.of(PLAN).jobs():
        train(job.recipe, folder / job.name)
    return bits(folder)
