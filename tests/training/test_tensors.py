"""Sealed files of arrays: any changed bit is noticed, and files of earlier versions are still read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from pomona.base.errors import RunError
from pomona.training import tensors
from pomona.training.predictions import Predictions

ARRAYS = {"weight": np.arange(6, dtype=np.float32).reshape(2, 3), "step": np.array(7.0, np.float32)}
ABOUT = {"vocabulary": ["[MAX", 'a "word"', '"sha256": "'], "outcomes": [0, [1, "x"]]}


def test_arrays_come_back_with_their_shapes_and_the_same_arrays_give_the_same_bytes(tmp_path: Path) -> None:
    content = tensors.to_bytes(ARRAYS, ABOUT)
    assert content == tensors.to_bytes(dict(reversed(ARRAYS.items())), ABOUT)
    (tmp_path / "a").write_bytes(content)
    arrays, about = tensors.read(tmp_path / "a")
    assert about == ABOUT
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert np.array_equal(arrays[name], array)
        assert arrays[name].shape == array.shape


def test_every_changed_bit_of_a_file_is_noticed(tmp_path: Path) -> None:
    """Before, two bits of weights, of a state or of predictions could change, and nothing was said."""
    content = tensors.to_bytes(ARRAYS, {"outcomes": [0]})
    path = tmp_path / "a.safetensors"
    for place in range(8 * len(content)):
        changed = bytearray(content)
        changed[place // 8] ^= 1 << place % 8
        path.write_bytes(changed)
        with pytest.raises(RunError, match=r"a\.safetensors cannot be read"):
            tensors.read(path)


def test_files_of_earlier_versions_have_no_digest_and_are_read(tmp_path: Path) -> None:
    logits = np.eye(3, 10, dtype=np.float32)
    about = {"corpus": "abc", "outcomes": list(range(10)), "vocabulary": []}
    (tmp_path / "old").write_bytes(save({"logits": logits}, {"about": json.dumps(about)}))
    assert Predictions.load(tmp_path / "old").answers.tolist() == [0, 1, 2]
    (tmp_path / "none").write_bytes(save({"logits": logits}, {"sealed": json.dumps(about)}))
    with pytest.raises(RunError, match="SHA-256"):
        Predictions.load(tmp_path / "none")


@pytest.mark.parametrize(
    ("arrays", "change", "words"),
    [
        ({"logits": np.zeros((3, 10), np.float32)}, {"outcomes": [1]}, "logits of shape 3 x 10"),
        ({"logits": np.zeros(3, np.float32)}, {}, "logits of shape 3"),
        ({"logits": np.zeros((3, 2), np.int64)}, {}, "int64"),
        ({"logits": np.full((3, 2), np.nan, np.float32)}, {}, "no numbers"),
        ({}, {}, "logits' is missing"),
        ({"logits": np.zeros((3, 2), np.float32)}, {"corpus": None}, "corpus is null, not a text"),
        ({"logits": np.zeros((3, 2), np.float32)}, {"outcomes": {}}, "outcomes is an object of 0, not a list"),
        ({"logits": np.zeros((3, 2), np.float32)}, {"outcomes": [0, {}]}, "dict is no type of value"),
        (
            {"logits": np.zeros((1, 2), np.float32), "steps": np.array([0, 0, 1]), "start": np.array([0, 3]),
             "leaves": np.array([1, 158])},
            {"names": ["a", "b"]}, "a token has the number 158; there are 2 names",
        ),
        (
            {"logits": np.zeros((3, 2), np.float32), "steps": np.array([0, 0, 1]), "start": np.array([0, 3]),
             "leaves": np.array([1, 0])},
            {"names": ["a", "b"]}, "1 trees and answers to 3 examples",
        ),
    ],
)  # fmt: skip
def test_tensors_that_are_no_predictions_are_refused(
    tmp_path: Path, arrays: tensors.Arrays, change: dict[str, object], words: str
) -> None:
    about = {"corpus": "abc", "outcomes": [0, 1], **change}
    (tmp_path / "p").write_bytes(tensors.to_bytes(arrays, about))
    with pytest.raises(RunError, match="holds no predictions of ours") as error:
        Predictions.load(tmp_path / "p")
    assert words in str(error.value)
