"""COPY arguments that a model has no word for (ORCHARD)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pomona.evaluation.measure import MEASURES, Measure

if TYPE_CHECKING:
    from pomona.data.corpus import Corpus
    from pomona.evaluation.evaluation import Evaluation

COPY = "[COPY"


@MEASURES.add("unknown-copies")
@dataclass(frozen=True)
class UnknownCopies(Measure):
    """The share of COPY arguments in ORCHARD that a run has no word for; none if it reads no COPY."""

    def of_evaluation(self, evaluation: Evaluation) -> dict[str, float | None]:
        return {"value": unknown_copies(evaluation.corpus, evaluation.inside.vocabulary)}


def unknown_copies(corpus: Corpus, vocabulary: Collection[str]) -> float | None:
    """The share of COPY arguments that are not in the vocabulary of a model; None if it or the corpus has no COPY."""
    words = set(vocabulary)
    if COPY not in words or COPY not in corpus.vocabulary:
        return None
    known = np.array([word in words for word in corpus.vocabulary])
    copies = np.flatnonzero(corpus.tokens == corpus.vocabulary.index(COPY))
    # An argument of several tokens is spelled in digits, and a model that knows one digit of ten knows all.
    return float(1 - known[corpus.tokens[copies + 1]].mean()) if len(copies) else 0.0
