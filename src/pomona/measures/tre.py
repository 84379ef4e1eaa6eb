"""Tree reconstruction error."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal

from pomona.evaluation.measure import MEASURES, ItemMeasure


@MEASURES.add("tre")
@dataclass(frozen=True)
class TreeReconstructionError(ItemMeasure):
    """Tree reconstruction error (TRE): how well vectors are composed from parts of their derivations; 0 is perfect."""

    reads = ("vectors", "derivations")
    compose: str = "add"  # how parts combine: add, weighted, position, diagonal, linear, bilinear or mlp
    distance: Literal["cosine", "l1", "l2", "sql2"] = "cosine"  # what is minimised
    shuffles: int = 0  # of derivations, for a p-value and a normalised score; 0 for none
    seed: int = 0  # of starts and shuffles

    def of_items(self, *items: Any) -> dict[str, Any]:
        from pomona.representations.tre import tre

        vectors, derivations = items
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = tre(vectors, derivations, self.compose, self.distance, self.seed, uncomposed="allow")
        values = {"value": fit.score, "lower_bound": fit.bound.lower_bound, "items": len(fit.per_item)}
        if self.shuffles:
            test = fit.shuffle_test(self.shuffles, self.seed)
            values |= {"p_value": test.p_value, "shuffled": test.mean}
        return {**values, "notes": list(fit.notes)}
