"""Vectors and derivations in one file: what was written is read, and what is no such file is an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pomona.base.errors import FormatError, MeasureError
from pomona.representations.tre.bundles import read_bundle, write_bundle
from pomona.representations.tre.derivations import Derivations
from pomona.representations.tre.readers import read_representations

WORDS = st.text(st.characters(blacklist_categories=["Cs"]), min_size=1, max_size=5)
TREES = st.recursive(WORDS, lambda part: st.lists(part, min_size=2, max_size=3), max_leaves=6)


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
@settings(max_examples=25, deadline=None)
@given(trees=st.lists(TREES, min_size=1, max_size=5), names=st.lists(WORDS, min_size=5, max_size=5))
def test_what_was_written_is_read(
    suffix: str, trees: list[Any], names: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("bundle") / f"vectors{suffix}"
    vectors = np.arange(3 * len(trees), dtype=np.float32).reshape(-1, 3)
    write_bundle(path, vectors, names[: len(trees)], trees)
    bundle = read_bundle(path)
    assert np.array_equal(bundle.vectors, vectors)
    assert bundle.names == tuple(names[: len(trees)])
    expected = Derivations.from_trees(json.loads(json.dumps(trees)))
    assert [bundle.derivations.tree(row) for row in range(len(trees))] == [
        expected.tree(row) for row in range(len(trees))
    ]
    key = "vectors" if suffix == ".npz" else None
    assert np.array_equal(read_representations(path, key).values, vectors)  # also a plain file of vectors


def test_a_file_without_derivations_says_so(tmp_path: Path) -> None:
    np.savez(tmp_path / "only.npz", vectors=np.eye(2))
    np.save(tmp_path / "only.npy", np.eye(2))
    (tmp_path / "text.npz").write_text("no zip")
    (tmp_path / "text.parquet").write_text("no parquet")
    for name, words in (
        ("only.npz", "has no derivations beside the vectors; name a second file"),
        ("only.npy", "holds no derivations"),
        ("text.npz", "not a NumPy array of numbers"),
        ("text.parquet", "not a Parquet file"),
        ("nowhere.npz", "No such file"),
    ):
        with pytest.raises(FormatError, match=words):
            read_bundle(tmp_path / name)


def test_what_does_not_fit_together_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MeasureError, match="3 vectors need as many names and derivations; got 2, 3"):
        write_bundle(tmp_path / "x.npz", np.eye(3), ["a", "b"], ["a", "b", "c"])
    with pytest.raises(FormatError, match=r"written to \.npz or \.parquet; got '\.csv'"):
        write_bundle(tmp_path / "x.csv", np.eye(1), ["a"], ["a"])
    lines = np.frombuffer(b'"a"\n"b"', np.uint8)
    np.savez(tmp_path / "short.npz", vectors=np.eye(3), ids=lines, derivations=lines)
    with pytest.raises(FormatError, match="3 vectors, 2 names and 2 derivations are not as many"):
        read_bundle(tmp_path / "short.npz")
    np.savez(tmp_path / "bad.npz", vectors=np.eye(2), ids=lines, derivations=np.frombuffer(b'"a"\n{', np.uint8))
    with pytest.raises(FormatError, match="line 2, column 2: this is not JSON"):
        read_bundle(tmp_path / "bad.npz")
