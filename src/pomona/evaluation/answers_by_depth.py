"""How often each of several answers is right, by depth: ORCHARD's first, second and both.

    found = answers_by_depth(corpus, predictions)
    found["12"]                {"rows": 500, "first": [0.8, 0.763, 0.833], "second": [...], "both": [...]}
    unknown_copies(corpus, predictions.vocabulary)     share of COPY arguments that the model has no word for

Three numbers are the share and Wilson's 95 % interval. Depth is that of the deepest tree; in ORCHARD's test bins both
have it. An answer that was none ("malformed") is wrong, and counted.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from pomona.data.corpus import Corpus
from pomona.evaluation.accuracy import right_answers, wilson
from pomona.training.predictions import Predictions

ORDINALS = ("first", "second", "third", "fourth")
MALFORMED = "malformed"
COPY = "[COPY"


def answers_by_depth(corpus: Corpus, predictions: Predictions) -> dict[str, dict[str, Any]]:
    """For each depth: rows, and the share right of each answer and of both (all of them), with interval."""
    right = right_answers(corpus, predictions)
    found: dict[str, dict[str, Any]] = {}
    for depth in np.unique(corpus.nesting).tolist():
        inside = right[corpus.nesting == depth]
        columns = dict(zip(ORDINALS, inside.T, strict=False)) | {"both": inside.all(1)}
        found[str(depth)] = {"rows": len(inside), **{name: _share(column) for name, column in columns.items()}}
    return found


def malformed(predictions: Predictions) -> float:
    """The share of examples whose answer was none."""
    if MALFORMED not in predictions.outcomes:
        return 0.0
    answers = predictions.answers.reshape(len(predictions.answers), -1)
    return float((answers == predictions.outcomes.index(MALFORMED)).any(1).mean())


def unknown_copies(corpus: Corpus, vocabulary: Collection[str]) -> float | None:
    """The share of COPYs whose argument is `<unk>` to a model that knows these words; None if it reads no COPY."""
    if COPY not in vocabulary or COPY not in corpus.vocabulary:
        return None
    known = np.array([word in vocabulary for word in corpus.vocabulary])
    copies = np.flatnonzero(corpus.tokens == corpus.vocabulary.index(COPY))
    # An argument of several tokens is spelled in digits, and who knows one digit of ten knows all.
    return float(1 - known[corpus.tokens[copies + 1]].mean()) if len(copies) else 0.0


def _share(right: Any) -> list[float]:
    low, high = wilson(int(right.sum()), len(right))
    return [round(float(share), 5) for share in (right.mean(), low, high)]
