"""Do items with similar meanings look similar?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from pomona.evaluation.measure import MEASURES, ItemMeasure

if TYPE_CHECKING:
    from pomona.evaluation.evaluation import Evaluation

Correlation = Literal["spearman", "pearson", "kendall"]
Distance = Literal["", "hamming", "edit", "tree", "cosine", "euclidean", "l1"]


@MEASURES.add("topsim")
@dataclass(frozen=True)
class TopographicSimilarity(ItemMeasure):
    """Topographic similarity: the correlation of distances between meanings and distances between messages.

    Without a distance, meanings are compared by hamming and messages by edit distance; in an evaluation, trees are
    compared by tree edit distance and vectors by cosine.
    """

    reads = ("meanings", "messages")
    meaning_distance: Distance = ""  # hamming by default; of trees tree
    message_distance: Distance = ""  # edit by default; of vectors cosine
    method: Correlation = "spearman"  # of correlation
    permutations: int = 0  # of items, for a p-value; 0 for none
    seed: int = 0  # of the permutations

    def of_items(self, *items: Any) -> Any:
        from pomona.representations.topographic import topographic_similarity

        (meanings, near), (messages, far) = (
            _with_tree_distances(values, distance)
            for values, distance in zip(
                items, (self.meaning_distance or "hamming", self.message_distance or "edit"), strict=True
            )
        )
        return topographic_similarity(
            meanings, messages, near, far, method=self.method, permutations=self.permutations, seed=self.seed
        )

    def of_evaluation(self, evaluation: Evaluation) -> Any:
        chosen = replace(
            self,
            meaning_distance=self.meaning_distance or "tree",
            message_distance=self.message_distance or "cosine",
        )
        return chosen.of_items(*chosen.items_from(evaluation))


@MEASURES.add("rsa")
@dataclass(frozen=True)
class RepresentationalSimilarity(ItemMeasure):
    """Representational similarity: the same correlation between two spaces of vectors, by cosine distance."""

    reads = ("vectors", "other vectors")
    method: Correlation = "spearman"  # of correlation
    permutations: int = 0  # of items, for a p-value; 0 for none
    seed: int = 0  # of the permutations

    def of_items(self, *items: Any) -> Any:
        from pomona.representations.topographic import topographic_similarity

        first, second = items
        return topographic_similarity(
            first, second, "cosine", "cosine", method=self.method, permutations=self.permutations, seed=self.seed
        )


def _with_tree_distances(values: Any, distance: str) -> tuple[Any, str]:
    """The distance called tree is computed for all pairs at once."""
    if distance != "tree":
        return values, distance
    from pomona.representations.edit_distance import tree_edit_distances

    return tree_edit_distances(list(values)), "condensed"
