"""Tree Reconstruction Error (Andreas 2019): how well a compositional model can imitate a set of representations.

    fit = tre(representations, [("red", "square"), ("blue", "square"), ...], distance="cosine")
    fit.score         # the mean distance at the best lexicon found (equation 4); 0 is perfectly compositional
    fit.certificate   # how far from the true minimum that can be, and how we know

TRE is the value of a minimisation (equation 2), so a number means nothing unless it is near the minimum: the
released solver overstates it by 18 to 38 % in places and exceeds the trivial predictor on 14 of 100 published
languages. Every fit here carries a bound from below that does not depend on the solver, and says "optimal" only when
the two meet.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.compiled import Floats
from pomona.errors import MeasureError, SpecError
from pomona.reconstruction.additive import LinearFit, fit_linear
from pomona.reconstruction.compositions import Add, Composition, Parameters, compose, composition_of
from pomona.reconstruction.derivations import Derivations
from pomona.reconstruction.design import Design, FloatArray
from pomona.reconstruction.distances import Cosine, CrossEntropy, Distance, distance_of
from pomona.reconstruction.learned import fit_learned

CONVEX = ("sql2", "l2", "l1", "crossentropy")  # in the prediction, so additive fits have no other minima
REORDERED = 20_000  # up to so many items, fits that could depend on the order of the rows start from a canonical one
OPTIMAL = 1e-6  # a gap below this share of the trivial predictor's distance counts as closed


class ReconstructionWarning(UserWarning):
    """A fit whose number should not be read as it stands; the message says why."""


@dataclass(frozen=True)
class Certificate:
    """What is known about how good a fit is. All values are means over items, like the score."""

    status: str  # "optimal" or "best found"
    lower_bound: float  # no lexicon and no parameters of this composition can score less
    gap: float  # score minus lower bound
    bound: str  # where the bound comes from: "exact", "duality", "slot tables" or "equal derivations"
    gradient_norm: float | None  # largest entry, of the mean distance; None where the distance has corners
    restarts: int
    spread: float | None  # worst minus best score over restarts; None for a single start
    rank: int | None  # how many primitives' worth of vectors the derivations determine
    degrees_of_freedom: int  # numbers observed minus numbers fitted; 0 or less means a fit says nothing
    zero: float  # the score of predicting zero
    centroid: float  # the score of predicting the mean representation

    def __str__(self) -> str:
        return f"{self.status}, gap {self.gap:.3g} above the lower bound {self.lower_bound:.6g} ({self.bound})"


@dataclass(frozen=True, eq=False)
class TreFit:
    """A fitted compositional model of a set of representations, with its error and its certificate."""

    score: float  # equation 4
    per_item: FloatArray  # equation 3
    certificate: Certificate
    compose: Composition
    distance: Distance
    derivations: Derivations = field(repr=False)
    representations: Floats = field(repr=False)  # [items, *shape], as fitted (centred if asked)
    vectors: FloatArray = field(repr=False)  # [primitives, numbers]
    parameters: Parameters = field(repr=False)
    seed: int
    restarts: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one representation."""
        return tuple(self.representations.shape[1:])

    @property
    def lexicon(self) -> dict[Hashable, FloatArray]:
        """The fitted vector of each primitive: the eta of equation 2."""
        grid = self.vectors.reshape(len(self.vectors), *self.shape)
        return dict(zip(self.derivations.names, grid, strict=True))

    def predict(self, derivations: Any) -> FloatArray:
        """What the fitted model composes for these derivations (logits under cross-entropy); [items, *shape]."""
        given = Derivations.of(derivations).align(self.derivations.names)
        return self._predict(given).reshape(len(given), *self.shape)

    def _predict(self, given: Derivations) -> FloatArray:
        if isinstance(self.compose, Add):
            return given.counts.times(self.vectors)
        return np.asarray(compose(self.compose, given, self.parameters, self.vectors)[given.root])

    def distances(self, representations: npt.ArrayLike, derivations: Any) -> FloatArray:
        """The distance of other items from what this fit predicts for them."""
        given = Derivations.of(derivations).align(self.derivations.names)
        targets, _ = _as_rows(representations, len(given))
        if targets.shape[1] != self.vectors.shape[1]:
            raise MeasureError(
                f"the fit is of items with shape {list(self.shape)}; these have {targets.shape[1]} numbers each."
            )
        return self.distance.per_item(self._predict(given), targets)

    # What makes the number mean something lives in `meaning`; these are the same functions, within reach.

    def shuffle_test(self, shuffles: int = 1000, seed: int = 0) -> Any:
        from pomona.reconstruction.meaning import shuffle_test

        return shuffle_test(self, shuffles=shuffles, seed=seed)

    def normalized(self, baseline: str = "shuffle", shuffles: int = 1000, seed: int = 0) -> Any:
        from pomona.reconstruction.meaning import normalized

        return normalized(self, baseline=baseline, shuffles=shuffles, seed=seed)

    def heldout(self, folds: int = 10, seed: int = 0) -> Any:
        from pomona.reconstruction.meaning import heldout

        return heldout(self, folds=folds, seed=seed)

    def bootstrap(self, samples: int = 1000, seed: int = 0, level: float = 0.95) -> Any:
        from pomona.reconstruction.meaning import bootstrap

        return bootstrap(self, samples=samples, seed=seed, level=level)


def tre(
    representations: npt.ArrayLike,
    derivations: Any,
    compose: Any = "add",
    distance: Any = "cosine",
    seed: int = 0,
    *,
    restarts: int | None = None,
    center: bool = False,
    uncomposed: str = "error",
) -> TreFit:
    """Measure how compositional representations are: fit the best compositional model and return its error.

    >>> import numpy as np
    >>> vectors = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> round(tre(vectors, ["red", "square", ("red", "square")]).score, 9)
    0.0

    Args:
        representations: one row for each item, [items, numbers], or [items, positions, symbols] for messages.
        derivations: for each row a nested tuple of primitives; or columns of attributes (a mapping, or a 2-D array);
            or a Forest.
        compose: add, weighted, position, diagonal, linear, bilinear, mlp, or a callable of one tensor for each part.
        distance: cosine, l1, l2, sql2, crossentropy, or a callable of (predictions, targets).
        seed: for the starts of learned compositions; additive fits use no randomness unless `restarts` asks for more.
        restarts: how many starts; by default one for additive fits and four to twelve otherwise.
        center: subtract the mean representation first, which removes a shared direction (anisotropy).
        uncomposed: "error", or "allow" to accept primitives that occur only alone. Such a row is fitted exactly by its
            own vector and lowers the score without meaning.
    """
    given = Derivations.of(derivations)
    targets, shape = _as_rows(representations, len(given))
    if center:
        targets = np.asarray(targets, np.float64) - np.asarray(targets, np.float64).mean(axis=0)
    composition = composition_of(compose)
    measured = distance_of(distance, shape)
    measured.check(targets, shape)
    if isinstance(measured, Cosine):
        targets = _within_reach(targets)
    if restarts is not None and restarts < 1:
        raise SpecError(f"restarts must be 1 or more, got {restarts}.")
    if uncomposed not in ("error", "allow"):
        raise SpecError(f"uncomposed is 'error' or 'allow', got {uncomposed!r}.")
    if uncomposed == "error":
        _check_composed(given)
    return fit(targets, given, composition, measured, shape, seed=seed, restarts=restarts)


def fit(
    targets: Floats,
    derivations: Derivations,
    composition: Composition,
    distance: Distance,
    shape: tuple[int, ...],
    *,
    seed: int = 0,
    restarts: int | None = None,
    bounded: bool = True,
    quiet: bool = False,
    limit: int = 400,
) -> TreFit:
    """`tre` after the checks: targets are flat, [items, numbers]. Without `bounded` no time goes into lower bounds.

    `limit` is how many iterations each start of a learned composition is given; the best is given five times that more.
    """
    if isinstance(composition, Add):
        convex = distance.name in CONVEX or len(targets) > REORDERED
        order = None if convex else _canonical_order(targets, derivations)
        if order is None:
            linear, scores = _fit_additive(targets, derivations, distance, seed, restarts)
            per_item = linear.per_item
        else:
            linear, scores = _fit_additive(targets[order], derivations.canonical, distance, seed, restarts)
            per_item = np.empty(len(order))
            per_item[order] = linear.per_item
        vectors, parameters = linear.lexicon, Parameters()
        slope, own = linear.gradient_norm, linear.lower_bound
        fitted = (derivations.counts.rank or derivations.counts.columns) * targets.shape[1]
    else:
        order = _canonical_order(targets, derivations)
        found = fit_learned(
            composition, derivations.canonical, targets[order], distance, shape,
            seed=seed, restarts=restarts, limit=limit,
        )  # fmt: skip
        vectors, parameters = found.lexicon, found.parameters
        per_item = np.empty(len(order))
        per_item[order] = found.per_item
        slope, own, scores = found.gradient_norm, None, list(found.starts)
        fitted = vectors.size + sum(value.size for value in parameters.values())
    score = float(per_item.mean())
    bound, source = _lower_bound(targets, derivations, composition, distance, own) if bounded else (0.0, "none")
    zero, centroid = _trivial(targets, distance)
    gap = max(score - bound, 0.0)
    closed = gap <= OPTIMAL * max(abs(score), zero if np.isfinite(zero) else 0.0)
    certificate = Certificate(
        status="optimal" if closed else "best found",
        lower_bound=min(bound, score),
        gap=gap,
        bound=source,
        gradient_norm=slope,
        restarts=len(scores),
        spread=max(scores) - min(scores) if len(scores) > 1 else None,
        rank=derivations.counts.rank,
        degrees_of_freedom=targets.size - fitted,
        zero=zero,
        centroid=centroid,
    )
    notes = _notes(certificate, score, targets, distance)
    if not quiet:
        for note in notes:
            warnings.warn(note, ReconstructionWarning, stacklevel=3)
    return TreFit(
        score=score,
        per_item=per_item,
        certificate=certificate,
        compose=composition,
        distance=distance,
        derivations=derivations,
        representations=targets.reshape(-1, *shape),
        vectors=vectors,
        parameters=parameters,
        seed=seed,
        restarts=restarts,
        notes=notes,
    )


def _fit_additive(
    targets: Floats, derivations: Derivations, distance: Distance, seed: int, restarts: int | None
) -> tuple[LinearFit, list[float]]:
    """From least squares, and from random lexicons where more starts are asked for and could matter."""
    best = fit_linear(derivations.counts, targets, distance)
    scores = [float(best.per_item.mean())]
    for start in range(1, 1 if distance.name in CONVEX else (restarts or 1)):
        rng = np.random.default_rng([seed, start])
        lexicon = rng.normal(size=(len(derivations.names), targets.shape[1]))
        other = fit_linear(derivations.counts, targets, distance, start=lexicon)
        scores.append(float(other.per_item.mean()))
        if scores[-1] < float(best.per_item.mean()):
            best = other
    return best, scores


def _lower_bound(
    targets: Floats, derivations: Derivations, composition: Composition, distance: Distance, own: float | None
) -> tuple[float, str]:
    """The best bound we can prove on the mean distance, whatever the lexicon and the parameters."""
    items = len(derivations)
    if own is not None:
        return own / items, "exact" if distance.name == "sql2" else "duality"
    group = np.unique(derivations.root, return_inverse=True)[1].ravel()
    candidates = [(0.0, "equal derivations")]
    if len(derivations.root) > group.max() + 1:
        within = distance.bound_within(targets, group)
        if distance.name == "l2" and group.max() < 2000:  # a geometric median for each derivation, by its own fit
            each = Design.from_entries(np.arange(items), group, items, int(group.max()) + 1)
            within = max(within, fit_linear(each, targets, distance).lower_bound or 0.0)
        candidates.append((within / items, "equal derivations"))
    if composition.linear and not isinstance(composition, Add) and distance.name in CONVEX:
        # Every A, B and bias is a special case of a free table for each leaf position of each tree shape (spec 2b).
        relaxed = fit_linear(derivations.slots, np.asarray(targets, np.float64), distance).lower_bound
        if relaxed is not None:
            candidates.append((relaxed / items, "slot tables"))
    return max(candidates, key=lambda found: found[0])


def _trivial(targets: Floats, distance: Distance) -> tuple[float, float]:
    """The scores of predicting zero and of predicting the mean."""
    zeros = np.broadcast_to(np.zeros(1), targets.shape)
    if isinstance(distance, Cosine):
        inverse = 1.0 / np.sqrt(np.einsum("nd,nd->n", targets, targets, dtype=np.float64))
        total = np.zeros(targets.shape[1])
        for low in range(0, len(targets), 20_000):  # in pieces: a product with single precision would copy it all
            total += inverse[low : low + 20_000] @ targets[low : low + 20_000]
        resultant = float(np.linalg.norm(total))
        return 1.0, 1.0 - resultant / len(targets)
    if distance.name == "sql2":
        power = float(np.einsum("nd,nd->", targets, targets, dtype=np.float64)) / len(targets)
        mean = targets.mean(axis=0, dtype=np.float64)
        return power, max(power - float(mean @ mean), 0.0)
    mean = targets.mean(axis=0, dtype=np.float64)
    if isinstance(distance, CrossEntropy):
        mean = np.log(np.maximum(mean, 1e-30))
    centroid = np.broadcast_to(mean, targets.shape)
    return float(distance.per_item(zeros, targets).mean()), float(distance.per_item(centroid, targets).mean())


def _notes(certificate: Certificate, score: float, targets: Floats, distance: Distance) -> tuple[str, ...]:
    notes = []
    if isinstance(distance, Cosine) and (certificate.gradient_norm or 0.0) > 1e-4:
        notes.append(
            f"the cosine fit has not settled (gradient {certificate.gradient_norm:.2g}): some predictions are "
            f"shrinking towards zero, where they have no direction, so the minimum is approached and never reached."
        )
    slack = 1e-9 * max(abs(score), 1.0)
    for name, value in (("zero", certificate.zero), ("centroid", certificate.centroid)):
        if score > value + slack:
            notes.append(
                f"TRE {score:.6g} is worse than always predicting the {name} ({value:.6g}): this composition describes "
                f"these representations worse than no composition at all."
            )
    if certificate.degrees_of_freedom <= 0:
        notes.append(
            "the model has as many numbers as the representations, so a low TRE says nothing; read the held-out score."
        )
    if len(targets) > 1 and is_constant(targets):
        notes.append("all representations are equal: every score is trivially low, and normalised scores are NaN.")
    return tuple(notes)


def _within_reach(targets: Floats) -> Floats:
    """Cosine ignores scale, but squares overflow: rows of extreme size are brought back to where they do not."""
    top = np.maximum(targets.max(axis=1), -targets.min(axis=1))
    if float(top.min()) > 1e-15 and float(top.max()) < 1e15:
        return targets
    scaled: Floats = np.asarray(targets, np.float64) / top.astype(np.float64)[:, None]
    return scaled


def is_constant(targets: Floats) -> bool:
    """Whether all rows are equal; most data say no at the second row already."""
    return bool((targets[0] == targets[-1]).all()) and bool((targets == targets[0]).all())


def _canonical_order(targets: Floats, derivations: Derivations) -> Any:
    """The rows in the order of `derivations.canonical`, equal derivations by what they hold, not by how they came."""
    bits: Any = np.ascontiguousarray(targets).view(np.uint32 if targets.dtype == np.float32 else np.uint64)
    odd = np.random.default_rng(0).integers(2**63, size=bits.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    return np.lexsort(((bits * odd).sum(axis=1, dtype=np.uint64), derivations.root))


def _as_rows(representations: npt.ArrayLike, items: int) -> tuple[Any, tuple[int, ...]]:
    """Check representations and flatten each item; float32 stays as it is, so that large arrays are not copied."""
    try:
        array = np.asarray(representations)
    except ValueError:
        raise MeasureError("the representations are ragged: every row must have the same shape.") from None
    if array.dtype.kind not in "fiub":
        raise MeasureError(f"representations must be numbers, got an array of {array.dtype}.")
    if array.ndim < 2 or array.size == 0:
        raise MeasureError(
            f"representations must have shape [items, numbers] or [items, positions, symbols] with at least one item; "
            f"got {list(array.shape)}."
        )
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    if len(array) != items:
        fewer = min(len(array), items)
        missing = "a derivation but no representation" if len(array) < items else "a representation but no derivation"
        raise MeasureError(f"{len(array)} representations but {items} derivations: row {fewer} has {missing}.")
    rows = np.ascontiguousarray(array).reshape(len(array), -1)
    if not np.isfinite(rows.sum(dtype=np.float64)):  # one pass; a sum of finite numbers may overflow, so look again
        wrong = ~np.isfinite(rows).all(axis=1)
        if wrong.any():
            row = int(np.argmax(wrong))
            value = rows[row][~np.isfinite(rows[row])][0]
            raise MeasureError(
                f"row {row}: the representation holds {value} ({int(wrong.sum())} such rows). Drop or repair them."
            )
    return rows, tuple(array.shape[1:])


def _check_composed(derivations: Derivations) -> None:
    """A primitive that only ever stands alone is free to equal its row: an error of 0 that measures nothing."""
    leaf = derivations.primitive >= 0
    alone = leaf & (derivations.parent < 0)
    composed = np.zeros(len(derivations.names), np.bool_)
    composed[derivations.primitive[leaf & ~alone]] = True
    free = alone & ~composed[np.where(leaf, derivations.primitive, 0)]
    if free.any():
        node = int(np.argmax(free))
        row, name = int(derivations.row[node]), derivations.names[derivations.primitive[node]]
        raise MeasureError(
            f"row {row}: primitive {name!r} is never composed with another ({int(free.sum())} such rows), so its own "
            f"vector fits it exactly and the error means nothing. Drop the row, or pass uncomposed='allow'."
        )
