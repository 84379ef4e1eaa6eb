"""How often the answer is right, with the interval of so many examples, and by any grouping of them.

score = accuracy(corpus, predictions)
score.value, score.interval                       Wilson's 95 % interval of a share
grouped(score, corpus.lengths, (20, 50, 100))     {"<20": (share, rows), "20-49": ..., "100+": ...}
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Ints
from pomona.base.errors import MeasureError
from pomona.data.corpus import Corpus
from pomona.training.run import Predictions, Score
from pomona.trees.values import renumber


def accuracy(corpus: Corpus, predictions: Predictions) -> Score:
    """The share of examples whose answers are all right; the predictions must be about this very corpus."""
    right = np.asarray(right_answers(corpus, predictions).all(1), np.float64)
    return Score(float(right.mean()), right, wilson(int(right.sum()), len(right)))


def right_answers(corpus: Corpus, predictions: Predictions) -> npt.NDArray[np.bool_]:
    """[rows, answers]: which of the answers to each example are right."""
    check_same(corpus, predictions)
    answers = predictions.answers.reshape(len(corpus), -1)
    if answers.shape != corpus.targets.shape:
        raise MeasureError(f"{answers.shape[1]} answers to each example, which has {corpus.targets.shape[1]}")
    targets = renumber(corpus.targets, corpus.outcomes, predictions.outcomes)
    return np.asarray(answers == targets)


def check_same(corpus: Corpus, predictions: Predictions) -> None:
    """An error if the predictions are about another corpus."""
    if len(predictions.logits) != len(corpus):
        raise MeasureError(f"{len(predictions.logits)} predictions for {len(corpus)} examples")
    if predictions.corpus != corpus.fingerprint:
        raise MeasureError(
            f"these predictions are about another corpus ({predictions.corpus[:12]}, here {corpus.fingerprint[:12]})"
        )


def wilson(right: int, rows: int, z: float = 1.959964) -> tuple[float, float]:
    """Wilson's score interval of a share; it stays within 0 and 1 and is honest near them."""
    share = right / rows
    middle = (share + z * z / (2 * rows)) / (1 + z * z / rows)
    half = z * math.sqrt(share * (1 - share) / rows + z * z / (4 * rows * rows)) / (1 + z * z / rows)
    return max(0.0, middle - half), min(1.0, middle + half)


def grouped(score: Score, amount: Ints, bounds: Sequence[int]) -> dict[str, tuple[float, int]]:
    """The score and number of rows in each group: below the first bound, between bounds, from the last one on."""
    edges = [-math.inf, *bounds, math.inf]
    names = [f"<{bounds[0]}", *(_between(low, high) for low, high in pairwise(bounds))]
    names.append(f"{bounds[-1]}+")
    found: dict[str, tuple[float, int]] = {}
    for name, (low, high) in zip(names, pairwise(edges), strict=True):
        inside: npt.NDArray[np.bool_] = (amount >= low) & (amount < high)
        if inside.any():
            found[name] = (float(score.per_example[inside].mean()), int(inside.sum()))
    return found


def _between(low: int, high: int) -> str:
    return str(low) if high == low + 1 else f"{low}-{high - 1}"
