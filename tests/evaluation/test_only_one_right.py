"""Which of two models is right where the other is wrong: the counts of a comparison are not exchanged."""

from __future__ import annotations

import numpy as np

import pomona as pm
from pomona.data.answers import Answers
from pomona.evaluation.evaluation import Evaluation


def test_the_first_count_is_that_of_the_first_model() -> None:
    corpus = pm.generate("listops/d20s", split="test", seed=3, train=60, dev=10, test=50)
    right = corpus.targets.astype(np.int64)
    few, many = right.copy(), right.copy()
    few[:3], many[10:27] = (right[:3] + 1) % 10, (right[10:27] + 1) % 10
    first, second = (
        Evaluation.of(corpus, Answers(name, given)) for name, given in (("few", few), ("many", many))
    )
    (pair,) = pm.compare(first, second).pairs
    assert (pair.only_first, pair.only_second) == (17, 3)
    (turned,) = pm.compare(second, first).pairs
    assert (turned.only_first, turned.only_second) == (3, 17)
