"""A certificate from shards is that of the whole, for any cut and any number of workers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pomona as pm
from pomona.base.errors import FairnessError
from pomona.base.files import write_json
from pomona.base.workers import HERE, workers
from pomona.data.shards.folder import Shards
from pomona.fairness import fold
from pomona.fairness.copies import addresses
from pomona.fairness.evidence import gather
from pomona.fairness.facts import FactTable
from pomona.fairness.learner import told


class Several:
    """One process that says it is several workers, and answers in another order."""

    size = 3

    def run(self, task: Any, orders: Any) -> Iterator[tuple[int, Any]]:
        answers = [(number, task(**order)) for number, order in enumerate(orders)]
        return iter(answers[1::2] + answers[::2])


def shards_of(corpus: pm.Corpus, folder: Path, cuts: list[int]) -> Shards:
    """A corpus as shards, cut before these rows, in row groups of five."""
    bounds = [0, *sorted({cut for cut in cuts if 0 < cut < len(corpus)}), len(corpus)]
    listed = []
    for number, (low, high) in enumerate(pairwise(bounds)):
        path = folder / f"train-{number}.parquet"
        pm.write([corpus[at : min(at + 5, high)] for at in range(low, high, 5)], path)
        listed.append({"file": path.name, "rows": high - low, "fingerprint": pm.read(path).fingerprint})
    about = {"rows": len(corpus), "fingerprint": corpus.fingerprint, "shards": listed}
    write_json(folder / "manifest.json", {"name": "x", "seed": 0, "settings": {}, "splits": {"train": about}})
    return Shards.read(folder)


def with_noise(corpus: pm.Corpus, seed: int) -> pm.Corpus:
    """Some values of inner nodes are wrong, so that facts contradict each other."""
    random = np.random.default_rng(seed)
    values = corpus.values.copy()
    inner = np.flatnonzero(~corpus.forest.leaf)
    wrong = random.choice(inner, len(inner) // 6, replace=False)
    values[wrong] = random.integers(0, 10, len(wrong))
    return dataclasses.replace(corpus, values=values)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 5),
    cuts=st.lists(st.integers(1, 59), max_size=6),
    noise=st.booleans(),
    folded=st.booleans(),
    alone=st.booleans(),
)
def test_the_certificate_of_shards_is_that_of_the_whole(
    tmp_path_factory: pytest.TempPathFactory, seed: int, cuts: list[int], noise: bool, folded: bool, alone: bool
) -> None:
    corpus = pm.generate("listops/d20s", size=80, seed=seed, branching=0.2, progress=False)
    train, test = corpus[:60], corpus[60:]
    if noise and not folded:
        train, test = with_noise(train, seed), with_noise(test, seed + 1)
    folder = tmp_path_factory.mktemp("certified")
    shards = shards_of(train, folder, cuts)
    if folded:
        train, test, shards = fold(train), fold(test), fold(shards)
    whole = pm.certify(train, None if alone else test)
    for crew in (HERE, Several()):
        assert pm.certify(shards, None if alone else test, crew=crew) == whole
    if noise and whole.conflicts and not alone and not folded:
        assert told(whole.conflicts[0], {"train": train, "test": test}).split(" is ")[0] in told(
            whole.conflicts[0], {"train": shards, "test": test}
        )


@pytest.mark.parametrize("copies", ["word", "digits"])
def test_copies_too(copies: str, tmp_path: Path) -> None:
    """Parts whose numbers all have one digit do not tell how numbers are written; the whole does."""
    train = pm.generate("orchard/hard/min-max", size=300, progress=False, copies=copies)
    short = np.argsort(train.lengths, kind="stable")
    train = train.take(short[:60])
    test = pm.generate("orchard/hard/min-max", "test", size=40, progress=False, copies=copies)
    found = [addresses(train[at : at + 5]) for at in range(0, 60, 5)]
    assert {part.spelling for part in found if part is not None} > {None}
    whole = pm.certify(train, test)
    (tmp_path / "test").mkdir()
    (tmp_path / "train").mkdir()
    shards = shards_of(train, tmp_path / "train", [7, 30, 31])
    asked = shards_of(test, tmp_path / "test", [11])
    assert whole.copies
    table = FactTable()
    table.add(train)
    for crew in (HERE, Several()):
        assert pm.certify(shards, asked, crew=crew) == whole
        facts = FactTable()
        gather(facts, shards, crew)
        assert list(facts.rows(range(len(facts)))) == list(table.rows(range(len(table))))
        assert facts.spelling == table.spelling


def test_by_node_and_given_and_real_processes(tmp_path: Path) -> None:
    train = pm.generate("fair_nli", size=90, progress=False)
    test = pm.generate("fair_nli", "test", size=40, progress=False)
    shards = shards_of(train, tmp_path, [20, 50, 70])
    for by, known in (("node", ()), ("type", ("REL*",))):
        whole = pm.certify(train, test, by=by, given=known)  # type: ignore[arg-type]
        assert pm.certify(shards, test, by=by, given=known, crew=Several()) == whole  # type: ignore[arg-type]
    with workers("local", 2) as crew:
        assert pm.certify(shards, test, crew=crew) == pm.certify(train, test)


def test_trees_of_another_shape_are_noticed_across_shards(tmp_path: Path) -> None:
    corpus = pm.generate("listops/d20s", size=400, progress=False)
    flat = np.flatnonzero(corpus.forest.size[corpus.forest.root] == 4)
    deep = np.flatnonzero(corpus.forest.size[corpus.forest.root] == 5)
    deep = deep[corpus.nesting[deep] == 1]
    assert min(len(flat), len(deep)) >= 4
    train = corpus.take(np.concatenate([flat[:4], deep[:4]]))
    shards = shards_of(train, tmp_path, [4])
    with pytest.raises(FairnessError, match=r"train-1\.parquet: this tree does not have the shape of those before it"):
        pm.certify(shards, by="node", crew=Several())
