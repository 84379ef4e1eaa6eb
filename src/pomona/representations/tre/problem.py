"""What TRE minimises, after the input has been checked: `Problem` and `Layer`.

A *problem* is a set of derivations with a composition function. A *layer* is one set of representations, with the
distance that compares predictions with them. Several layers of a network can share one problem.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pomona.base.arrays import Floats
from pomona.base.errors import MeasureError, SpecError
from pomona.representations.tre.checks import Moments, as_rows, check_composed, check_reach, within_reach
from pomona.representations.tre.compositions import COMPOSITIONS, Position, composition_of
from pomona.representations.tre.derivations import Derivations
from pomona.representations.tre.distances import Cosine, Distance, distance_of
from pomona.representations.tre.inputs import Messages, are_texts, array_of, index_of, one_meaning, pooled
from pomona.representations.tre.recursion import Composition


@dataclass(frozen=True, eq=False)
class Layer:
    """Representations that passed the checks: flat rows, the shape of one item, and the distance for that shape."""

    targets: Floats  # [items, numbers]
    shape: tuple[int, ...]
    distance: Distance
    alphabet: tuple[Hashable, ...] | None = None  # of messages that were given as symbols
    moments: Moments | None = None  # of the rows, before cosine rescaled any


@dataclass(frozen=True, eq=False)
class Problem:
    """Derivations and a composition function: what all layers of one call share."""

    derivations: Derivations
    composition: Composition
    restarts: int | None = None  # how many starts; None leaves the choice to the solver
    center: bool = False  # subtract the mean representation first
    pool: str | None = None  # how hidden states of tokens become one vector
    mask: Any = None  # which tokens are no padding
    index: list[Any] | None = None  # the labels of the rows, if the derivations came with some

    @staticmethod
    def of(
        derivations: Any,
        compose: Any,
        *,
        restarts: int | None = None,
        center: bool = False,
        uncomposed: str = "error",
        pool: str | None = None,
        mask: Any = None,
    ) -> Problem:
        """Check what the user gave; the arguments are those of `tre`."""
        if restarts is not None and restarts < 1:
            raise SpecError(f"restarts must be 1 or more, got {restarts}.")
        if uncomposed not in ("error", "allow"):
            raise SpecError(f"uncomposed is 'error' or 'allow', got {uncomposed!r}.")
        if mask is not None and pool is None:
            raise SpecError("a mask needs pool='mean', 'last' or 'first', which says what becomes of the tokens.")
        if derivations is None:
            raise MeasureError("no derivations: pm.tre(vectors, derivations) needs one for each row of the vectors.")
        trees = Derivations.of(derivations)
        _check_names(trees)
        if uncomposed == "error":
            check_composed(trees)
        return Problem(trees, composition_of(compose), restarts, center, pool, mask, index_of(derivations))

    def layer(self, representations: Any, distance: Any) -> Layer:
        """Check one set of representations against the derivations and the distance."""
        own = index_of(representations)
        if own is not None and self.index is not None and own != self.index and len(own) == len(self.index):
            raise MeasureError(
                "the rows of the vectors and of the derivations have different labels. Put both in one order:\n"
                "    derivations = derivations.loc[vectors.index]      # if the labels name the items\n"
                "    vectors = vectors.reset_index(drop=True)      # on both, if rows belong together as they stand"
            )
        array, alphabet = self._array(representations, distance)
        targets, shape, moments = as_rows(array, len(self.derivations))
        if self.center:
            targets = np.asarray(targets, np.float64) - np.asarray(targets, np.float64).mean(axis=0)
            moments = Moments.of(targets)
        measured = distance_of(distance, shape)
        measured.check(targets, shape)
        reach = within_reach if isinstance(measured, Cosine) else check_reach
        return Layer(reach(targets, moments), shape, measured, alphabet, moments)

    def _array(self, representations: Any, distance: Any) -> tuple[Any, tuple[Hashable, ...] | None]:
        """The representations as one array, and the alphabet if they are messages; refuse what can mean two things."""
        if self.pool is not None:
            return pooled(representations, self.pool, self.mask), None
        if are_texts(representations):
            representations = Messages.of(representations)
        if isinstance(representations, Messages):
            return representations.one_hot, representations.alphabet
        _refuse_layers(representations, len(self.derivations))
        array = array_of(representations)
        own = not isinstance(self.composition, tuple(COMPOSITIONS.values()))  # type: ignore[arg-type]
        if array.size:
            one_meaning(array, messages=own or isinstance(self.composition, Position) or distance == "crossentropy")
        return array, None


def _check_names(trees: Derivations) -> None:
    """Refuse derivations whose parts are all fractions: vectors in the place of derivations."""
    values = [name[1] if isinstance(name, tuple) else name for name in trees.names]  # an attribute is (column, value)
    if values and all(isinstance(value, float) and not value.is_integer() for value in values):
        raise MeasureError(
            f"the derivations are made of fractions ({values[0]!r}, ...), as vectors are. The vectors come first: "
            f"pm.tre(vectors, derivations)."
        )


def _refuse_layers(representations: Any, items: int) -> None:
    """A tuple or list of tables is several layers, or one table of tokens for each item."""
    if not isinstance(representations, list | tuple) or not representations:
        return
    shapes = [tuple(getattr(table, "shape", ())) for table in representations]
    if not all(len(shape) in (2, 3) for shape in shapes):
        return
    if len(shapes) == items and all(len(shape) == 2 for shape in shapes) and len({shape[0] for shape in shapes}) > 1:
        raise MeasureError(
            "every row has its own number of tokens. Say what one vector is made of:",
            code=['pm.tre(hidden, derivations, pool="mean")      # or "last", "first"'],
        )
    if all(shape[0] == items for shape in shapes) and len(shapes) != items:
        raise MeasureError(
            f"these are {len(shapes)} layers. Choose one, or measure them all:",
            code=["pm.tre(layers[-1], derivations)", "pm.representations.tre_layers(layers, derivations)"],
        )
