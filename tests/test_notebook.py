"""The notebook of the docs: it is made from its script, and every cell runs and shows something."""

from __future__ import annotations

import ast
import json
import warnings
from pathlib import Path
from typing import Any

import pytest

import notebook


def run_cell(source: str, names: dict[str, Any]) -> Any:
    """What a cell ends with, as a notebook would show it; None if it does not end with a value."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "first_hour.ipynb", "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), "first_hour.ipynb", "eval"), names)


def test_the_notebook_is_that_of_its_script() -> None:
    assert notebook.NOTEBOOK.read_text(encoding="utf-8") == notebook.built()


def test_every_cell_of_the_notebook_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = json.loads(notebook.NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    shown = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for cell in cells:
            assert "".join(cell["source"]).strip()
            if cell["cell_type"] == "code":
                shown.append(run_cell("".join(cell["source"]), names))
    kinds = [type(value).__name__ for value in shown if value is not None]
    assert kinds == ["Example", "Corpus", "Certificate", "Ladder", "Evaluation", "Comparison", "TreFit"]
    for value in shown:
        assert value is None or 100 < len(value._repr_html_()) < 100_000
    assert "node = 1" in capsys.readouterr().out
