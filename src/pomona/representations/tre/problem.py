"""What TRE minimises, after the input has been checked: `Problem` and `Layer`.

A *problem* is a set of derivations with a composition function. A *layer* is one set of representations, with the
distance that compares predictions with them. Several layers of a network can share one problem.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Floats
from pomona.base.errors import SpecError
from pomona.representations.tre.checks import as_rows, check_composed, within_reach
from pomona.representations.tre.compositions import composition_of
from pomona.representations.tre.derivations import Derivations
from pomona.representations.tre.distances import Cosine, Distance, distance_of
from pomona.representations.tre.recursion import Composition


@dataclass(frozen=True, eq=False)
class Layer:
    """Representations that passed the checks: flat rows, the shape of one item, and the distance for that shape."""

    targets: Floats  # [items, numbers]
    shape: tuple[int, ...]
    distance: Distance


@dataclass(frozen=True, eq=False)
class Problem:
    """Derivations and a composition function: what all layers of one call share."""

    derivations: Derivations
    composition: Composition
    restarts: int | None = None  # how many starts; None leaves the choice to the solver
    center: bool = False  # subtract the mean representation first

    @staticmethod
    def of(
        derivations: Any,
        compose: Any,
        *,
        restarts: int | None = None,
        center: bool = False,
        uncomposed: str = "error",
    ) -> Problem:
        """Check what the user gave; the arguments are those of `tre`."""
        if restarts is not None and restarts < 1:
            raise SpecError(f"restarts must be 1 or more, got {restarts}.")
        if uncomposed not in ("error", "allow"):
            raise SpecError(f"uncomposed is 'error' or 'allow', got {uncomposed!r}.")
        trees = Derivations.of(derivations)
        if uncomposed == "error":
            check_composed(trees)
        return Problem(trees, composition_of(compose), restarts, center)

    def layer(self, representations: npt.ArrayLike, distance: Any) -> Layer:
        """Check one set of representations against the derivations and the distance."""
        targets, shape = as_rows(representations, len(self.derivations))
        if self.center:
            targets = np.asarray(targets, np.float64) - np.asarray(targets, np.float64).mean(axis=0)
        measured = distance_of(distance, shape)
        measured.check(targets, shape)
        if isinstance(measured, Cosine):
            targets = within_reach(targets)
        return Layer(targets, shape, measured)
