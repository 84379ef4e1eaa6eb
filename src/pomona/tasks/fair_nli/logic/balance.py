"""Balanced pairs: the exact distribution that the paper samples encodings from, and the best accuracies on it.

    distribution = BalancedPairs(train)        # of a space of encodings, as `redundancy_split` gives
    distribution.probabilities()               # [524288]; each of the three labels has a third
    ladder(BalancedPairs(held_out(train)))     # best accuracy from parity alone, from phrase relations alone, ...

Section 4.2 of Geiger et al. 2019 balances twice: every phrase pair is equally likely to be ≡, ⊏, ⊐ or #, then the three
labels are made equally frequent. A cell is one choice of relations for the object, verb and subject phrases. If a cell
has k encodings of the space, each of them has weight 1/k, so the 64 cells have equal weight. The weights are then
scaled so that each label has probability 1/3. `draw` samples this distribution with integers only: it draws a random
cell and a random member of it, until the label fits. The ladder lists Bayes-optimal accuracies: no model with the same
information can do better on this distribution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Bools, Floats, Ints
from pomona.base.errors import SplitError
from pomona.tasks.fair_nli.logic.fragment import ENCODINGS, Codes, classes, labels, unpack
from pomona.tasks.fair_nli.logic.projectivity import NO, NOT_EVERY
from pomona.tasks.fair_nli.logic.relations import Label

CELLS: Final = 64


@dataclass(frozen=True, eq=False)
class BalancedPairs:
    """The balanced distribution on a space of encodings, [524288] booleans."""

    space: Bools

    def __post_init__(self) -> None:
        if self.space.shape != (ENCODINGS,):
            raise SplitError(f"a space is an array of {ENCODINGS} booleans; this one has shape {self.space.shape}.")
        missing = [label.text for label in Label if not self.sizes[:, label].any()]
        if missing:
            raise SplitError(f"the space has no encoding labelled {' or '.join(missing)}, so it cannot be balanced.")

    @cached_property
    def members(self) -> Codes:
        """The encodings of the space, by cell, then by label."""
        codes = np.flatnonzero(self.space).astype(np.int32)
        return codes[np.argsort(self._cell_and_label(codes), kind="stable")]

    @cached_property
    def sizes(self) -> npt.NDArray[np.int64]:
        """[64, 3]: how many encodings of the space have each cell and label."""
        counts = np.bincount(self._cell_and_label(np.flatnonzero(self.space)), minlength=CELLS * len(Label))
        return counts.reshape(CELLS, len(Label))

    @cached_property
    def starts(self) -> npt.NDArray[np.int64]:
        """[64, 3]: the position in `members` at which each cell and label begins."""
        return (np.cumsum(self.sizes) - self.sizes.ravel()).reshape(self.sizes.shape)

    def probabilities(self) -> Floats:
        """[524288]: the probability of each encoding."""
        chances = np.zeros(ENCODINGS)
        codes = self.members
        weight = 1 / self.sizes.sum(axis=1)[classes(codes) & CELLS - 1]
        label = labels(codes)
        chances[codes] = weight / (len(Label) * np.bincount(label, weights=weight))[label]
        return chances

    @staticmethod
    def _cell_and_label(codes: Ints) -> Ints:
        return (classes(codes) & CELLS - 1).astype(np.int64) * len(Label) + labels(codes)


def best_accuracy(distribution: BalancedPairs, features: Sequence[Ints]) -> float:
    """The accuracy of the best guess at the label from features alone; each is an array over all encodings."""
    chances = distribution.probabilities()
    codes = distribution.members
    key = np.zeros(len(codes), np.int64)
    for feature in features:
        known = np.unique(feature[codes], return_inverse=True)[1]
        key = np.unique(key * (known.max() + 1) + known, return_inverse=True)[1]
    size = (int(key.max()) + 1) * len(Label)
    table = np.bincount(key * len(Label) + labels(codes), weights=chances[codes], minlength=size)
    return min(1.0, float(table.reshape(-1, len(Label)).max(axis=1).sum()))  # rounding may push the sum above 1


def ladder(distribution: BalancedPairs) -> dict[str, float]:
    """Best accuracies from less to more information, as fractions."""
    codes = np.arange(ENCODINGS, dtype=np.int32)
    fields = unpack(codes).astype(np.int64)
    phrases = classes(codes) & CELLS - 1
    words = codes >> 9
    quantifiers = fields[:, [1, 2, 4, 5]]
    negative = fields[:, 0] + fields[:, 3] + np.isin(quantifiers, (NO, NOT_EVERY)).sum(axis=1)
    parity = negative % 2
    # A bag of function words does not tell which of a sentence's two quantifiers came first.
    sides = [np.sort(quantifiers[:, side : side + 2], axis=1) for side in (0, 2)]
    bags = [side[:, 0] * 4 + side[:, 1] for side in sides]
    return {
        "nothing": best_accuracy(distribution, []),
        "parity of negative words": best_accuracy(distribution, [parity]),
        "phrase relations": best_accuracy(distribution, [phrases]),
        "function words": best_accuracy(distribution, [words]),
        "phrase relations and parity": best_accuracy(distribution, [phrases, parity]),
        "phrase relations and bags of function words": best_accuracy(
            distribution, [phrases, fields[:, 0], fields[:, 3], bags[0], bags[1]]
        ),
        "phrase relations and function words": best_accuracy(distribution, [phrases, words]),
    }
