"""Predictions: what a model answered on one corpus, kept as a safetensors file. Nothing here imports torch.

predictions = Predictions.load(run.predictions_at("test"))
predictions.answers                      # [rows]: positions in predictions.outcomes
predictions.trees                        # the binary trees that the model built, or None
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base.errors import FormatError, RunError, TreeError
from pomona.base.files import write_bytes
from pomona.base.shapes import ANYTHING, TEXT, check
from pomona.training import tensors
from pomona.trees.binary import from_transitions, transitions
from pomona.trees.forest import Forest
from pomona.trees.values import from_json

_ABOUT = {"corpus": TEXT, "outcomes": [ANYTHING], "vocabulary?": [TEXT], "names?": [TEXT]}

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
        arrays: tensors.Arrays = {"logits": self.logits}
        about = {"corpus": self.corpus, "outcomes": list(self.outcomes), "vocabulary": list(self.vocabulary)}
        if self.trees is not None:
            steps, start = transitions(self.trees)
            leaf = self.trees.leaf
            arrays |= {"steps": steps, "start": start, "leaves": self.trees.symbol[leaf]}
            about["names"] = list(self.trees.names)
        write_bytes(path, tensors.to_bytes(arrays, about))

    @classmethod
    def load(cls, path: Path) -> Predictions:
        arrays, about = tensors.read(path)
        try:
            check(about, _ABOUT)
            outcomes, logits = tuple(map(from_json, about["outcomes"])), arrays["logits"]
            _check_logits(logits, len(outcomes))
            trees = None
            if "steps" in arrays:
                leaves, names = arrays["leaves"], tuple(about["names"])
                trees = from_transitions(arrays["steps"], arrays["start"], leaves, names)
                if len(trees) != len(logits):
                    raise ValueError(f"{len(trees)} trees and answers to {len(logits)} examples")
            return cls(about["corpus"], outcomes, logits, trees, tuple(about.get("vocabulary", ())))
        except (KeyError, ValueError, FormatError, TreeError) as error:
            why = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            raise RunError(f"{path} holds no predictions of ours: {why}") from None


def _check_logits(logits: npt.NDArray[Any], outcomes: int) -> None:
    """An error unless there is a finite number for each outcome of each question."""
    if logits.dtype.kind != "f" or logits.ndim not in (2, 3) or not logits.size or logits.shape[-1] != outcomes:
        shape = " x ".join(map(str, logits.shape))
        raise ValueError(f"logits of shape {shape} ({logits.dtype}) for {outcomes} outcomes")
    if np.isnan(logits).any():
        raise ValueError("some logits are no numbers")
