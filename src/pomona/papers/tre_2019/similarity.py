"""Compositionality and similarity (section 6): Proposition 1 on the representations of the other experiments.

    of_languages(scores)                # languages of the reference game, from the measurements made with their TRE
    of_classifiers(thetas, derivations) # classifiers of the learning dynamics, by an additive fit

Proposition 1 bounds the distance between two representations by the edit distance of their derivations, under
conditions. We report which conditions hold and whether the bound holds. Distances are rescaled so that conditions 1 and
2 can hold. Cosine is not a metric, so the classifiers are also measured with the l2 norm, for which all conditions hold
and the bound must hold. Messages are composed by maps A and B, which condition 3 does not cover, so the bound may fail.
Topographic similarity, and its correlation with TRE over languages, is reported too.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.papers.tre_2019.correlations import correlate
from pomona.representations.edit_distance import check_proposition_1, tree_edit_distances
from pomona.representations.topographic import topographic_similarity
from pomona.representations.tre import Derivations, ReconstructionWarning, tre


def of_classifiers(thetas: Sequence[npt.NDArray[np.float64]], derivations: Derivations) -> dict[str, Any]:
    """The final classifiers of each run: the proposition under l2 and cosine, and topographic similarity."""
    apart = tree_edit_distances(derivations)
    rows = []
    for run, theta in enumerate(thetas):
        similar = topographic_similarity(apart, theta, "condensed", "cosine")
        row: dict[str, Any] = {"run": run, "topsim": similar.value}
        for distance in ("l2", "cosine"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ReconstructionWarning)
                fit = tre(theta, derivations, distance=distance)
            check = check_proposition_1(fit, rescale=True)
            row[distance] = {"tre": fit.score, **dataclasses.asdict(check), "applies": check.applies}
        rows.append(row)
    return {"runs": rows}


def of_languages(scores: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """All languages of a reading: how often the bound fails, and how topographic similarity correlates with TRE."""
    checks = [row["proposition"] for row in scores]
    pairs, violations = (sum(check[name] for check in checks) for name in ("pairs", "violations"))
    columns = {
        name: [np.nan if row[name] is None else row[name] for row in scores]
        for name in ("topsim", "exact", "legacy", "normalised", "error")
    }
    return {
        "languages": len(scores),
        "conditions 1 and 2": sum(c["primitives_within_one"] and c["primitives_near_identity"] for c in checks),
        "condition 3": sum(check["subadditive"] for check in checks),
        "bound holds": sum(check["violations"] == 0 for check in checks),
        "pairs": pairs,
        "violations": violations,
        "topsim": float(np.nanmean(columns["topsim"])) if scores else None,
        "topsim and TRE": correlate(columns["topsim"], columns["exact"]).plain,
        "topsim and TRE as published": correlate(columns["topsim"], columns["legacy"]).plain,
        "topsim and normalised TRE": correlate(columns["topsim"], columns["normalised"]).plain,
        "topsim and generalisation error": correlate(columns["topsim"], columns["error"]).plain,
    }
