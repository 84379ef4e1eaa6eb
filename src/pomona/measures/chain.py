"""Accuracy by the number of operators that decide the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pomona.base.errors import MeasureError
from pomona.evaluation.measure import MEASURES, Measure

if TYPE_CHECKING:
    from pomona.evaluation.evaluation import Evaluation


@MEASURES.add("chain")
@dataclass(frozen=True)
class Chain(Measure):
    """Whether accuracy falls with the number of operators that decide the answer: does a model open too few levels?"""

    question: int = 0  # which answer, where an example asks for several

    def of_evaluation(self, evaluation: Evaluation) -> dict[str, Any]:
        chains = evaluation.chains
        if not chains:
            raise MeasureError("the operators that decide an answer need one question for each tree, and its values")
        if not 0 <= self.question < len(chains):
            raise MeasureError(f"question = {self.question}: an example here asks questions 0 to {len(chains) - 1}")
        found = chains[self.question]
        low, high = found.interval or (None, None)
        numbers = {"trend": found.trend, "slope": found.slope, "low": low, "high": high}
        return {"sentence": found.sentence, **numbers, "groups": {one.name: one.accuracy for one in found.groups}}
