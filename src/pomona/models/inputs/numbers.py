"""From the words and outcomes of a corpus to the numbers of a model, which knows words and outcomes of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base.errors import RunError
from pomona.data.corpus import Corpus
from pomona.trees.values import renumber


def numbers_of(values: Sequence[Any], known: Sequence[Any], missing: int = -1) -> npt.NDArray[np.int64]:
    """The position of each value among those that the model knows; `missing` where it does not know the value."""
    numbers = renumber(np.arange(len(values)), values, known)
    return np.where(numbers < 0, missing, numbers)


def answer_numbers(corpus: Corpus, outcomes: Sequence[Any]) -> npt.NDArray[np.int64]:
    """The number of each outcome of the corpus, and -1 behind them: a target of -1 (not known) stays -1."""
    return np.append(numbers_of(corpus.outcomes, outcomes), -1)


def refuse_empty(corpus: Corpus) -> None:
    if not len(corpus):
        raise RunError(f"{corpus!r} is empty: there is nothing to train on or to answer")
