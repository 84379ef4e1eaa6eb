"""A lower bound on cosine TRE from the rank of the model.

A linear composition with few primitives predicts within few dimensions: all predictions lie in some r-dimensional
subspace L, where r is the rank of the matrix that maps vectors to predictions. Items that share a derivation share a
prediction; let s_g be the sum of the unit vectors of group g. Whatever the lexicon,

    sum of cosines  <=  sum_g |P_L s_g|  <=  sqrt(sum_g w_g  *  sum_g |P_L s_g|^2 / w_g)        for any weights w > 0

by Cauchy-Schwarz, and the last sum is at most the sum of the r largest eigenvalues of sum_g s_g s_g' / w_g (Ky Fan).
The best weights are |P_L s_g| for the best L, so weights and eigenvectors are computed in turn. Every turn gives a true
bound; the best is kept. It says nothing unless r is below the number of coordinates.
"""

from __future__ import annotations

import numpy as np

from pomona.representations.tre.design import FloatArray

TURNS = 30  # of weights and eigenvectors, on small data
WORK = 8e9  # groups x numbers x numbers x turns: large data get fewer turns, or none


def spectral_bound(sums: FloatArray, items: int, rank: int) -> float:
    """A lower bound on the summed cosine distance of predictions of this rank, from the sums of each group."""
    size = np.linalg.norm(sums, axis=1)
    kept = size > 1e-12
    sums, size = sums[kept], size[kept]
    turns = int(min(TURNS, WORK / max(sums.size * sums.shape[1], 1)))
    if rank >= min(sums.shape) or turns == 0:
        return 0.0
    most, weight = float(items), size
    for _ in range(turns):
        values, vectors = np.linalg.eigh((sums / weight[:, None]).T @ sums)
        before, most = most, min(most, float(np.sqrt(weight.sum() * np.maximum(values[-rank:], 0.0).sum())))
        if before - most < 1e-6 * before:
            break
        weight = np.maximum(np.linalg.norm(sums @ vectors[:, -rank:], axis=1), 1e-6 * size)
    return max(items - most * (1.0 + 1e-13), 0.0)
