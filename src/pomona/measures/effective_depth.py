"""The effective depth of a model's answers."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pomona.evaluation.measure import MEASURES, Measure

if TYPE_CHECKING:
    from pomona.evaluation.evaluation import Evaluation


@MEASURES.add("effective-depth")
@dataclass(frozen=True)
class EffectiveDepth(Measure):
    """How many levels of the trees a model uses: the k whose truncated evaluator explains its answers best."""

    train_depth: int | None = None  # the deepest trees that the model was trained on
    question: int = 0  # which answer, where an example asks for several

    def of_evaluation(self, evaluation: Evaluation) -> dict[str, Any]:
        from pomona.base.errors import MeasureError
        from pomona.evaluation.baselines import Baselines, learning_examples

        baselines = evaluation.baselines
        if baselines is None:
            baselines = Baselines(evaluation.corpus, learning_examples(evaluation.corpus))
        depths = evaluation.depths
        if not depths or (self.train_depth is not None and self.train_depth != baselines.train_depth):
            depths = dataclasses.replace(baselines, train_depth=self.train_depth).depths(evaluation.given)
        if not 0 <= self.question < len(depths):
            raise MeasureError(f"question = {self.question}: an example here asks questions 0 to {len(depths) - 1}")
        return depths[self.question].as_dict()
