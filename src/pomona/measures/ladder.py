"""Baselines that see only part of the input, beside the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pomona.base.errors import MeasureError
from pomona.evaluation.measure import MEASURES, Measure

if TYPE_CHECKING:
    from pomona.evaluation.evaluation import Evaluation


@MEASURES.add("ladder")
@dataclass(frozen=True)
class LadderMeasure(Measure):
    """The accuracy of baselines that see only part of the input, from guessing to the top levels of the trees."""

    def of_evaluation(self, evaluation: Evaluation) -> dict[str, float]:
        from pomona.evaluation.baselines import Baselines, learning_examples

        baselines = evaluation.baselines
        if baselines is None:
            baselines = Baselines(evaluation.corpus, learning_examples(evaluation.corpus))
        if baselines.ladder is None:
            raise MeasureError(" ".join(baselines.notes))
        return {rung.name: rung.accuracy for rung in baselines.ladder.rungs} | {"model": evaluation.accuracy.value}
