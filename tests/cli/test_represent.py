"""`pomona represent`: the vectors are those of the run, and the derivations those of the examples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pomona as pm
from pomona.data.answers import ids_of
from pomona.representations.tre.bundles import read_bundle

from command_line import Run  # isort: skip

SIZE: dict[str, Any] = {"train": 60, "dev": 10, "test": 30}


@pytest.fixture
def trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pm.Run:
    monkeypatch.chdir(tmp_path)
    pm.write(pm.generate("listops/d20s", "test", 0, **SIZE), "test.tsv")
    return pm.train(pm.Recipe("treelstm", {"width": 6}, data_settings=SIZE, epochs=1, dev_rows=10), "run")


def leaves(tree: Any) -> list[str]:
    return [tree] if isinstance(tree, str) else [leaf for part in tree for leaf in leaves(part)]


@pytest.mark.parametrize("name", ["v.npz", "v.parquet"])
def test_vectors_and_derivations_are_those_of_the_examples(trained: pm.Run, run: Run, name: str) -> None:
    test = pm.read("test.tsv")
    short = test[test.lengths <= 12]
    said = run("represent", "run", "--data", "test.tsv", "--longest", 12, "--size", 9, "--out", name, "--json")
    assert said.json == {"file": name, "items": 9, "width": 6, "examples": 9, "fingerprint": short[:9].fingerprint}
    bundle = read_bundle(name)
    assert np.array_equal(bundle.vectors, pm.represent(trained, short[:9]))
    assert list(bundle.names) == ids_of(short[:9])
    assert [bundle.derivations.tree(row) for row in range(9)] == short[:9].forest.nested()


def test_derivations_of_other_kinds(trained: pm.Run, run: Run) -> None:
    test = pm.read("test.tsv")
    for kind in ("tokens", "built"):
        assert run("represent", "run", "--data", "test.tsv", "--derivation", kind).status == 0
        bundle = read_bundle("vectors.npz")
        assert np.allclose(bundle.vectors, pm.represent(trained, test), atol=1e-6)
        built = [bundle.derivations.tree(row) for row in range(len(test))]
        assert [leaves(tree) for tree in built] == [text.split() for text in test.texts]
        several = [tree for tree in built if not isinstance(tree, str)]
        assert {len(tree) for tree in several} == ({2} if kind == "built" else {len(tree) for tree in several})
    assert run("represent", "run", "--data", "test.tsv", "--derivation", "trees").status == 2
    assert "written to .npz or .parquet" in run("represent", "run", "--data", "test.tsv", "--out", "v.csv").err


def test_every_inner_node_has_its_vector(trained: pm.Run, run: Run) -> None:
    test = pm.read("test.tsv")
    assert run("represent", "run", "--data", "test.tsv", "--nodes").status == 0
    bundle = read_bundle("vectors.npz")
    assert len(bundle.vectors) == int((test.lengths - 1).sum())  # binary trees over the tokens
    rows = {name: row for row, name in enumerate(bundle.names)}
    whole, names = pm.represent(trained, test), ids_of(test)
    for row, length in enumerate(test.lengths.tolist()):
        if length > 1:
            root = rows[f"{names[row]}/{2 * length - 2}"]
            assert np.allclose(bundle.vectors[root], whole[row], atol=1e-6)
            assert leaves(bundle.derivations.tree(root)) == test.texts[row].split()
    assert run("tre", "vectors.npz", "--compose", "add", "--distance", "sql2", "--json").status == 0


def test_a_model_without_trees_has_no_nodes(trained: pm.Run, run: Run) -> None:
    pm.train(pm.Recipe("lstm", {"width": 4}, data_settings=SIZE, epochs=1, dev_rows=10), "flat")
    refused = run("represent", "flat", "--data", "test.tsv", "--nodes")
    assert (refused.status, "lstm gives no vector for each node of a tree" in refused.err) == (3, True)
    Path("long.tsv").write_text("9\t( ( ( [MAX 2 ) 9 ) ] )\n")
    nothing = run("represent", "run", "--data", "long.tsv", "--longest", 1)
    assert (nothing.status, "no example of long.tsv is left (longest = 1)" in nothing.err) == (3, True)
