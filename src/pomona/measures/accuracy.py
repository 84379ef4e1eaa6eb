"""The share of right answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pomona.evaluation.measure import MEASURES, Measure

if TYPE_CHECKING:
    from pomona.evaluation.evaluation import Evaluation


@MEASURES.add("accuracy")
@dataclass(frozen=True)
class Accuracy(Measure):
    """The share of right answers with Wilson's interval, overall or by a grouping of the examples."""

    by: str = ""  # length, nesting, dependency, operator, arity, derivation, answer, or a column of the data

    def of_evaluation(self, evaluation: Evaluation) -> dict[str, Any]:
        low, high = evaluation.accuracy.interval
        overall = {"value": evaluation.accuracy.value, "low": low, "high": high, "rows": len(evaluation)}
        if not self.by:
            return overall
        return {**overall, "groups": {group.name: group.accuracy for group in evaluation.by(self.by)}}
