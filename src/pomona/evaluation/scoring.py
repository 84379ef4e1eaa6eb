"""Everything that is measured of one run on one corpus: answers, and trees where the model has any.

    scores_of(corpus, predictions)["accuracy"], ["by_length"], ["f1_gold"]

Shares are between 0 and 1. F1 counts all constituents with the whole sentence, averaged over sentences, as the ListOps
paper does; `f1_gold_without_root` leaves out the one that no tree can miss. Where an example has several answers
(ORCHARD), each is scored by depth, and beside it stand the shares of outputs that were no answers and of COPY arguments
that the model has no word for.
"""

from __future__ import annotations

from typing import Any

from pomona.data.corpus import Corpus
from pomona.evaluation.accuracy import accuracy, grouped
from pomona.evaluation.answers_by_depth import answers_by_depth, malformed, unknown_copies
from pomona.evaluation.parse_f1 import average_depth, list_recall, parse_f1
from pomona.training.predictions import Predictions
from pomona.trees.binary import binarise, branching

LENGTHS = (20, 50, 100, 200)  # the buckets of the specification
NESTING = (*range(1, 9), 10, 15)


def scores_of(corpus: Corpus, predictions: Predictions) -> dict[str, Any]:
    """Plain numbers, ready for scores.json."""
    score = accuracy(corpus, predictions)
    found: dict[str, Any] = {
        "rows": len(corpus),
        "fingerprint": predictions.corpus,
        "accuracy": score.value,
        "interval": list(score.interval),
        "by_length": grouped(score, corpus.lengths, LENGTHS),
        "by_nesting": grouped(score, corpus.nesting, NESTING),
    }
    if corpus.targets.shape[1] > 1:
        found["by_depth"] = answers_by_depth(corpus, predictions)
        found["malformed"] = malformed(predictions)
        found["unknown_copies"] = unknown_copies(corpus, predictions.vocabulary)
    if predictions.trees is not None:
        found |= tree_scores(corpus, predictions)
    return found


def tree_scores(corpus: Corpus, predictions: Predictions) -> dict[str, float]:
    """How the trees of a model compare with the gold ones, and with trees that ask nothing of the sentence."""
    trees = predictions.trees
    assert trees is not None
    gold = binarise(corpus.forest)
    return {
        "f1_left": parse_f1(trees, branching(corpus.lengths, "left"), resamples=1).value,
        "f1_right": parse_f1(trees, branching(corpus.lengths, "right"), resamples=1).value,
        "f1_gold": parse_f1(trees, gold, resamples=1).value,
        "f1_gold_without_root": parse_f1(trees, gold, root=False, resamples=1).value,
        "list_recall": list_recall(trees, corpus.forest, resamples=1).value,
        "depth": average_depth(trees, resamples=1).value,
    }
