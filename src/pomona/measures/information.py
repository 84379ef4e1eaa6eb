"""What messages and vectors tell about attributes and labels, in bits or nats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pomona.base.errors import MeasureError
from pomona.evaluation.measure import MEASURES, ItemMeasure


@MEASURES.add("context-independence")
@dataclass(frozen=True)
class ContextIndependence(ItemMeasure):
    """Context independence (Bogin et al. 2018): does each attribute have a symbol of its own?"""

    reads = ("attributes", "symbols")

    def of_items(self, *items: Any) -> Any:
        from pomona.representations.information import context_independence

        return context_independence(*items)


@MEASURES.add("conditional-entropy")
@dataclass(frozen=True)
class ConditionalEntropy(ItemMeasure):
    """The entropy of messages given attributes, and of attributes given messages."""

    reads = ("attributes", "symbols")

    def of_items(self, *items: Any) -> Any:
        from pomona.representations.information import conditional_entropies

        return conditional_entropies(*items)


@MEASURES.add("binned-entropy")
@dataclass(frozen=True)
class BinnedEntropy(ItemMeasure):
    """The entropy of vectors in bins, which the TRE paper calls mutual information."""

    reads = ("vectors",)
    binning: Literal["andreas2019", "range"] = "andreas2019"  # how bins are cut: as the paper's code does, or evenly

    def of_items(self, *items: Any) -> Any:
        from pomona.representations.information import binned_entropy

        (vectors,) = items
        return binned_entropy(vectors, binning=self.binning)


@MEASURES.add("mutual-information")
@dataclass(frozen=True)
class MutualInformation(ItemMeasure):
    """The mutual information of vectors and labels, estimated from nearest neighbours."""

    reads = ("vectors", "labels")
    neighbours: int = 3  # of each vector, for the estimate

    def of_items(self, *items: Any) -> Any:
        from pomona.representations.information import mutual_information

        vectors, labels = items
        if isinstance(labels, list) and any(isinstance(label, list) for label in labels):
            raise MeasureError("labels must be one name or number for each item, not lists.")
        return mutual_information(vectors, labels, self.neighbours)
