"""ListOps as lines of text: many arguments, and pieces of any size."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

import oracles
import pomona as pm
from pomona.base.errors import FormatError
from pomona.data.task import corpus_of_trees
from pomona.tasks.listops import text as listops_text
from pomona.trees.forest import Forest


@pytest.mark.parametrize("arguments", [3, 7, 8, 9, 30])
def test_lines_have_as_many_round_brackets_as_arguments(tmp_path: Path, arguments: int) -> None:
    digits = [str(number % 10) for number in range(arguments)]
    corpus = corpus_of_trees(Forest.from_nested([("MIN", *digits, ("MAX", "3", *digits))]))
    path = pm.write(corpus, tmp_path / "wide.tsv")
    tree = oracles.binarise(corpus.forest.nested()[0], "left", True)
    assert path.read_text() == f"0\t{oracles.to_text(tree)}\n"
    assert pm.read(path).fingerprint == corpus.fingerprint


@pytest.mark.parametrize("piece", [1, 100, 1000])
def test_lines_do_not_depend_on_how_many_are_written_at_a_time(
    tmp_path: Path, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    listops = pm.generate("listops/d20s", "test", 5, train=0, dev=0, test=60, progress=False)
    whole = pm.write(listops, tmp_path / "whole.tsv").read_bytes()
    monkeypatch.setattr(listops_text, "_PIECE", piece)
    assert pm.write(listops, tmp_path / "pieces.tsv").read_bytes() == whole
    wrong = dataclasses.replace(listops, targets=np.append(listops.targets[:-1], [[-1]], axis=0))
    with pytest.raises(FormatError, match=f"row {len(listops)} is not"):
        pm.write(wrong, tmp_path / "wrong.tsv")
