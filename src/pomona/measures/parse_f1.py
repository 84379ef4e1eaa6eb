"""Parse F1 of the trees that a model built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pomona.base.errors import MeasureError
from pomona.evaluation.measure import MEASURES, Measure

if TYPE_CHECKING:
    from pomona.evaluation.evaluation import Evaluation


@MEASURES.add("parse-f1")
@dataclass(frozen=True)
class ParseF1(Measure):
    """How far the trees that a model built agree with the gold trees: F1 of unlabelled constituents."""

    average: Literal["macro", "micro"] = "macro"  # of sentences, or over all constituents
    root: bool = True  # count the whole sentence, which no tree can miss
    leaves: bool = False  # count single tokens

    def of_evaluation(self, evaluation: Evaluation) -> dict[str, float]:
        from pomona.evaluation.evaluation import gold_trees
        from pomona.evaluation.parse_f1 import parse_f1

        trees = evaluation.answers.trees
        if trees is None:
            raise MeasureError(
                f'parse-f1 compares trees, and {evaluation.name} gives none; a file of answers has them as "tree"'
            )
        gold, _ = gold_trees(evaluation.corpus)
        score = parse_f1(trees, gold, average=self.average, root=self.root, leaves=self.leaves)
        low, high = score.interval
        return {"value": score.value, "low": low, "high": high, "precision": score.precision, "recall": score.recall}
