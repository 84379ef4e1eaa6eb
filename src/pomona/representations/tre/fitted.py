"""`FittedModel`: the lexicon and the parameters of a fit, with its score, its bound and its predictions."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Floats
from pomona.base.errors import MeasureError
from pomona.representations.tre.bounds import Bound
from pomona.representations.tre.checks import as_rows
from pomona.representations.tre.compositions import predict
from pomona.representations.tre.derivations import Derivations
from pomona.representations.tre.design import FloatArray
from pomona.representations.tre.distances import Distance
from pomona.representations.tre.recursion import Composition, Parameters


@dataclass(frozen=True, eq=False)
class FittedModel:
    """A compositional model of a set of representations, with its error and what is known about that error."""

    score: float  # TRE: the mean distance (equation 4)
    per_item: FloatArray  # the distance of each item (equation 3)
    bound: Bound
    compose: Composition
    distance: Distance
    derivations: Derivations = field(repr=False)
    representations: Floats = field(repr=False)  # [items, *shape], as they were fitted (centred if asked)
    vectors: FloatArray = field(repr=False)  # [primitives, numbers]
    parameters: Parameters = field(repr=False)
    seed: int
    restarts: int | None = None
    notes: tuple[str, ...] = ()
    alphabet: tuple[Hashable, ...] | None = None  # of messages that were given as symbols

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one representation."""
        return tuple(self.representations.shape[1:])

    @property
    def rows(self) -> FloatArray:
        """The representations as flat rows, [items, numbers]."""
        return np.asarray(self.representations, np.float64).reshape(len(self.representations), -1)

    @property
    def lexicon(self) -> dict[Hashable, FloatArray]:
        """The fitted vector of each primitive: the eta of equation 2."""
        grid = self.vectors.reshape(len(self.vectors), *self.shape)
        return dict(zip(self.derivations.names, grid, strict=True))

    def predict(self, derivations: Any) -> FloatArray:
        """What the model composes for these derivations, [items, *shape]; logits if the distance is cross-entropy."""
        trees = Derivations.of(derivations, self.derivations.names).align(self.derivations.names)
        return self._composed(trees).reshape(len(trees), *self.shape)

    def distances(self, representations: npt.ArrayLike, derivations: Any) -> FloatArray:
        """The distances of other items from what the model predicts for them."""
        trees = Derivations.of(derivations, self.derivations.names).align(self.derivations.names)
        targets, *_ = as_rows(representations, len(trees))
        if targets.shape[1] != self.vectors.shape[1]:
            raise MeasureError(
                f"the fit is of items with shape {list(self.shape)}; these have {targets.shape[1]} numbers each."
            )
        return self.distance.per_item(self._composed(trees), targets)

    def _composed(self, trees: Derivations) -> FloatArray:
        return predict(self.compose, trees, self.parameters, self.vectors)
