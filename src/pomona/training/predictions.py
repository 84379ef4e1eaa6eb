"""Predictions: what a model answered on one corpus, kept as a safetensors file. Nothing here imports torch.

predictions = Predictions.load(run.predictions_at("test"))
predictions.answers                      # [rows]: positions in predictions.outcomes
predictions.trees                        # the binary trees that the model built, or None
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base.errors import RunError, TreeError
from pomona.base.files import write_bytes
from pomona.trees.binary import from_transitions, transitions
from pomona.trees.forest import Forest
from pomona.trees.values import from_json


@dataclass(frozen=True, eq=False)
class Predictions:
    """Logits and answers for every row of a corpus, and the trees that the model built, if it builds any."""

    corpus: str  # its fingerprint
    outcomes: tuple[Any, ...]
    logits: npt.NDArray[np.float32]  # [rows, outcomes] or [rows, answers, outcomes]
    trees: Forest | None = None
    vocabulary: tuple[str, ...] = ()  # the words that the model knows, where they were recorded

    def __repr__(self) -> str:
        trees = ", with trees" if self.trees is not None else ""
        return f"Predictions({len(self.logits):,} examples, {len(self.outcomes):,} possible answers{trees})"

    @cached_property
    def answers(self) -> npt.NDArray[np.int64]:
        """Positions in `outcomes`, [rows] or [rows, answers]."""
        return np.asarray(self.logits.argmax(axis=-1), np.int64)

    def save(self, path: Path) -> None:
        from safetensors.numpy import save

        arrays: dict[str, npt.NDArray[Any]] = {"logits": np.ascontiguousarray(self.logits)}
        about = {"corpus": self.corpus, "outcomes": list(self.outcomes), "vocabulary": list(self.vocabulary)}
        if self.trees is not None:
            steps, start = transitions(self.trees)
            leaf = self.trees.leaf
            arrays |= {"steps": steps, "start": start, "leaves": self.trees.symbol[leaf]}
            about["names"] = list(self.trees.names)
        write_bytes(path, save(arrays, {"about": json.dumps(about)}))

    @classmethod
    def load(cls, path: Path) -> Predictions:
        arrays, about = read_tensors(path)
        try:
            trees = None
            if "steps" in arrays:
                trees = from_transitions(arrays["steps"], arrays["start"], arrays["leaves"], tuple(about["names"]))
            words = tuple(about.get("vocabulary", ()))
            return cls(str(about["corpus"]), tuple(map(from_json, about["outcomes"])), arrays["logits"], trees, words)
        except (KeyError, TypeError, AttributeError, TreeError) as error:
            raise RunError(f"{path} holds no predictions of ours: {type(error).__name__} {error}") from None


def read_tensors(path: Path) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """The arrays of a safetensors file, and the JSON that its header holds under `about`."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "np") as file:
            about = json.loads((file.metadata() or {}).get("about", "{}"))
            return {name: file.get_tensor(name) for name in file.keys()}, about  # noqa: SIM118 - not a mapping
    except (OSError, SafetensorError, ValueError) as error:
        raise RunError(f"{path} cannot be read as a safetensors file: {error}") from None
