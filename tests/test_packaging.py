"""What the package says of itself: one version everywhere, the Pythons it is for, and how to cite it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pomona

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CITATION = (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_one_version_everywhere() -> None:
    (cited,) = re.findall(r"^version: (.*)$", CITATION, re.MULTILINE)
    assert PROJECT["version"] == pomona.__version__ == cited


def test_the_pythons_that_are_declared() -> None:
    declared = {name.rpartition(" :: ")[2] for name in PROJECT["classifiers"] if "Python :: 3." in name}
    assert declared == {"3.11", "3.12", "3.13"}
    assert PROJECT["requires-python"] == ">=3.11"


def test_every_paper_is_cited_and_linked() -> None:
    links = set(PROJECT["urls"].values())
    assert set(re.findall(r"^ +url: (.*)$", CITATION, re.MULTILINE)) == links
    titles = re.findall(r'^    title: "?([^"\n]*)"?$', CITATION, re.MULTILINE)
    ours = {entry.kind.title for entry in pomona.PAPERS.entries() if entry.kind.__module__.startswith("pomona.")}
    assert {title.casefold() for title in ours} == {title.casefold() for title in titles}
    assert PROJECT["license"] in CITATION
