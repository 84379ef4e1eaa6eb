"""What all tests share: where the papers' data lie, and Hypothesis without a clock."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers

# Compiled loops take seconds the first time, so no deadline; derandomised, so that a red run is red again.
settings.register_profile("pomona", deadline=None, derandomize=True)
settings.load_profile("pomona")

# Derandomised draws still contain numbers from the source of every module that happens to be loaded, so the examples of
# a test depend on the tests that ran before it. There is no setting against that: we say that no module is ours.
providers._get_local_constants = lambda: providers.Constants()  # type: ignore[assignment]


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder with the papers' data: the variable POMONA_DATA, else ../shared/data beside the repository."""
    folder = Path(os.environ.get("POMONA_DATA") or Path(__file__).parents[2] / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no data at {folder}: set POMONA_DATA to the folder that holds listops/test_d20s.tsv")
    return folder
