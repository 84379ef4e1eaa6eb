"""Measuring Compositionality in Representation Learning (Andreas, ICLR 2019): its four experiments.

    pomona reproduce tre_2019 --experiment game --budget cpu

This module only declares the paper, so that listing papers does not load torch. The measurements are in `experiments`,
the printed numbers in `printed`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pomona.papers.reproduce import PAPERS, Paper, Plan
from pomona.papers.tre_2019.verdicts import CLAIMS


@PAPERS.add("tre_2019")
@dataclass(frozen=True)
class Tre2019(Paper):
    """Four experiments on Tree Reconstruction Error, measured with the exact solver and with the published one."""

    title = "Measuring Compositionality in Representation Learning"
    places = ("dynamics", "faster dynamics", "compounds", "similarity", "game")
    claims = CLAIMS

    def measure(self, plan: Plan) -> dict[str, Any]:
        from pomona.papers.tre_2019.experiments import measure

        return measure(plan)
