"""Edit distances between trees, and the bound that the TRE paper derives from them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from pomona.base.errors import MeasureError
from pomona.evaluation.measure import MEASURES, ItemMeasure


@MEASURES.add("tree-edit")
@dataclass(frozen=True)
class TreeEdit(ItemMeasure):
    """The edit distance between two trees of each row: how many nodes are put in, taken out or renamed."""

    reads = ("trees", "other trees")

    def of_items(self, *items: Any) -> dict[str, Any]:
        from pomona.representations.edit_distance import tree_edit_distance

        first, second = items
        if len(first) != len(second):
            raise MeasureError(f"{len(first)} derivations but {len(second)} beside them: there must be one for each.")
        return {"distances": [tree_edit_distance(left, right) for left, right in zip(first, second, strict=True)]}


@MEASURES.add("proposition-1")
@dataclass(frozen=True)
class Proposition1(ItemMeasure):
    """The TRE paper's Proposition 1: are distances of vectors bounded by edit distances of derivations?"""

    reads = ("vectors", "derivations")
    seed: int = 0  # of the pairs that are compared

    def of_items(self, *items: Any) -> Any:
        """Fit with addition and l2, under which the conditions of the proposition can hold, and check its bound."""
        from pomona.representations.edit_distance import check_proposition_1
        from pomona.representations.tre import tre

        vectors, derivations = items
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = tre(vectors, derivations, distance="l2", uncomposed="allow", seed=self.seed)
        return check_proposition_1(fit, rescale=True, seed=self.seed)
