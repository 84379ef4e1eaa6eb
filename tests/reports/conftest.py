"""A report and what it is made of, once for all tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from pomona.reports.page import report
from report_material import (
    documents,
    hostile_run,
    two_runs,
)


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of everything that a report can show."""
    folder = tmp_path_factory.mktemp("material")
    two_runs(folder / "runs")
    return documents(folder)


@pytest.fixture(scope="module")
def page(material: Path) -> str:
    """The whole report, hostile run and all."""
    hostile = hostile_run(material)
    made = report(
        [material / "runs", hostile, *(material / f"{name}.json" for name in ("unfair", "paper", "fit"))],
        material / "out",
    )
    return made.page.read_text(encoding="utf-8")
