"""How often the answers are right, with Wilson's interval.

score = accuracy(corpus, predictions)     predictions of a run
score.value, score.interval               the share of examples whose answers are all right
share_of(right)                           the same for booleans of your own
Group                                     the same for some of the examples
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Bools
from pomona.base.errors import MeasureError
from pomona.data.answers import Answers, all_asked
from pomona.data.corpus import Corpus
from pomona.evaluation.score import Score
from pomona.training.predictions import Predictions
from pomona.trees.values import renumber


@dataclass(frozen=True)
class Group:
    """Some of the examples: how many there are, how many are answered right, and how many are unparsed."""

    name: str
    rows: int
    right: int
    unparsed: int
    questions: tuple[int, ...]  # right answers to each question by itself

    @property
    def accuracy(self) -> float:
        return self.right / self.rows

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the accuracy."""
        return wilson(self.right, self.rows)

    def as_dict(self) -> dict[str, Any]:
        low, high = self.interval
        return {
            "rows": self.rows, "right": self.right, "unparsed": self.unparsed, "questions": list(self.questions),
            "accuracy": round(self.accuracy, 6), "interval": [round(low, 6), round(high, 6)],
        }  # fmt: skip


def accuracy(corpus: Corpus, predictions: Predictions) -> Score:
    """The share of examples whose answers are all right; the predictions must be about this very corpus."""
    wanted = all_asked(corpus)
    answers = answers_from(predictions, corpus)
    check_shape(answers, wanted)
    return share_of((answers.given == wanted).all(axis=1))


def share_of(right: Bools) -> Score:
    """The share of True among booleans, one for each example."""
    values = np.asarray(right, np.float64)
    return Score(float(values.mean()), values, wilson(int(values.sum()), len(values)))


def answers_from(predictions: Predictions, corpus: Corpus, name: str = "predictions") -> Answers:
    """A run's predictions as answers to this corpus; an outcome that the corpus does not have is unparsed."""
    _check_same(corpus, predictions)
    answers = predictions.answers.reshape(len(corpus), -1)
    return Answers(name, positions(predictions.outcomes, corpus)[answers], predictions.trees)


def positions(outcomes: Sequence[Any], corpus: Corpus) -> npt.NDArray[np.int64]:
    """The position of each outcome among those of a corpus; -1 where the corpus has no such outcome."""
    return renumber(np.arange(len(outcomes)), outcomes, corpus.outcomes)


def check_shape(answers: Answers, wanted: npt.NDArray[np.int64]) -> None:
    """An error if there is not one answer for each question of each example."""
    if answers.given.shape != wanted.shape:
        raise MeasureError(f"answers of shape {answers.given.shape} to questions of shape {wanted.shape}")


def _check_same(corpus: Corpus, predictions: Predictions) -> None:
    if len(predictions.logits) != len(corpus):
        raise MeasureError(f"{len(predictions.logits)} predictions for {len(corpus)} examples")
    if predictions.corpus != corpus.fingerprint:
        raise MeasureError(
            f"these predictions are about another corpus ({predictions.corpus[:12]}, here {corpus.fingerprint[:12]})"
        )


def wilson(right: int, rows: int, z: float = 1.959964) -> tuple[float, float]:
    """Wilson's score interval of a share; it stays between 0 and 1 and keeps its coverage near both."""
    share = right / rows
    middle = (share + z * z / (2 * rows)) / (1 + z * z / rows)
    half = z * math.sqrt(share * (1 - share) / rows + z * z / (4 * rows * rows)) / (1 + z * z / rows)
    return max(0.0, middle - half), min(1.0, middle + half)
