"""Does each symbol of a message stand for one attribute?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pomona.evaluation.measure import MEASURES, ItemMeasure


@MEASURES.add("posdis")
@dataclass(frozen=True)
class PositionalDisentanglement(ItemMeasure):
    """Positional disentanglement: how far each position of a message tells of one attribute only."""

    reads = ("attributes", "symbols")

    def of_items(self, *items: Any) -> Any:
        from pomona.representations.disentanglement import posdis

        return posdis(*items)


@MEASURES.add("bosdis")
@dataclass(frozen=True)
class BagOfSymbolsDisentanglement(ItemMeasure):
    """Bag-of-symbols disentanglement: how far the count of each symbol tells of one attribute only."""

    reads = ("attributes", "symbols")

    def of_items(self, *items: Any) -> Any:
        from pomona.representations.disentanglement import bosdis

        return bosdis(*items)
