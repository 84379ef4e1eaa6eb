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
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Floats
from pomona.base.errors import MeasureError, SpecError
from pomona.representations.tre.additive import fit_layers, fit_linear
from pomona.representations.tre.checks import as_rows, canonical_order, check_composed, is_constant, within_reach
from pomona.representations.tre.compositions import Add, Composition, Parameters, compose, composition_of
from pomona.representations.tre.cosine import unit_sum
from pomona.representations.tre.derivations import Derivations
from pomona.representations.tre.design import Design, FloatArray
from pomona.representations.tre.distances import Cosine, CrossEntropy, Distance, distance_of
from pomona.representations.tre.learned import fit_learned

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
        targets, _ = as_rows(representations, len(given))
        if targets.shape[1] != self.vectors.shape[1]:
            raise MeasureError(
                f"the fit is of items with shape {list(self.shape)}; these have {targets.shape[1]} numbers each."
            )
        return self.distance.per_item(self._predict(given), targets)

    # What makes the number mean something lives in `meaning`; these are the same functions, within reach.

    def shuffle_test(self, shuffles: int = 1000, seed: int = 0) -> Any:
        from pomona.representations.tre.significance import shuffle_test

        return shuffle_test(self, shuffles=shuffles, seed=seed)

    def normalized(self, baseline: str = "shuffle", shuffles: int = 1000, seed: int = 0) -> Any:
        from pomona.representations.tre.significance import normalized

        return normalized(self, baseline=baseline, shuffles=shuffles, seed=seed)

    def heldout(self, folds: int = 10, seed: int = 0) -> Any:
        from pomona.representations.tre.significance import heldout

        return heldout(self, folds=folds, seed=seed)

    def bootstrap(self, samples: int = 1000, seed: int = 0, level: float = 0.95) -> Any:
        from pomona.representations.tre.significance import bootstrap

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
    task = Task.of(given, compose, restarts, uncomposed)
    layer = task.check(representations, distance, center)
    (found,) = fit_together([layer], task, seed=seed)
    warn(found.notes)
    return found


@dataclass(frozen=True, eq=False)
class Layer:
    """Representations that passed the checks: flat rows, the shape of one, and the distance for that shape."""

    targets: Floats
    shape: tuple[int, ...]
    distance: Distance


@dataclass(frozen=True, eq=False)
class Task:
    """What all the layers of one call share."""

    derivations: Derivations
    composition: Composition
    restarts: int | None

    @staticmethod
    def of(derivations: Derivations, compose: Any, restarts: int | None, uncomposed: str) -> Task:
        if restarts is not None and restarts < 1:
            raise SpecError(f"restarts must be 1 or more, got {restarts}.")
        if uncomposed not in ("error", "allow"):
            raise SpecError(f"uncomposed is 'error' or 'allow', got {uncomposed!r}.")
        if uncomposed == "error":
            check_composed(derivations)
        return Task(derivations, composition_of(compose), restarts)

    def check(self, representations: npt.ArrayLike, distance: Any, center: bool) -> Layer:
        targets, shape = as_rows(representations, len(self.derivations))
        if center:
            targets = np.asarray(targets, np.float64) - np.asarray(targets, np.float64).mean(axis=0)
        measured = distance_of(distance, shape)
        measured.check(targets, shape)
        if isinstance(measured, Cosine):
            targets = within_reach(targets)
        return Layer(targets, shape, measured)


def warn(notes: tuple[str, ...], stacklevel: int = 3) -> None:
    for note in notes:
        warnings.warn(note, ReconstructionWarning, stacklevel=stacklevel)


def fit(
    targets: Floats,
    derivations: Derivations,
    composition: Composition,
    distance: Distance,
    shape: tuple[int, ...],
    *,
    restarts: int | None = None,
    **options: Any,
) -> TreFit:
    """`tre` after the checks, without warnings: targets are flat, [items, numbers]."""
    task = Task(derivations, composition, restarts)
    return fit_together([Layer(targets, shape, distance)], task, **options)[0]


def fit_together(
    layers: Sequence[Layer], task: Task, *, seed: int = 0, bounded: bool = True, limit: int = 400
) -> list[TreFit]:
    """Fit layers over the same derivations. Without `bounded` no time goes into lower bounds.

    `limit` is how many iterations each start of a learned composition is given; the best is given five times that more.
    """
    if isinstance(task.composition, Add):
        solved = _fit_additive(layers, task, seed)
    else:
        solved = [_fit_learned(layer, task, seed, limit) for layer in layers]
    return [_certified(layer, task, one, seed, bounded) for layer, one in zip(layers, solved, strict=True)]


@dataclass(frozen=True, eq=False)
class Solved:
    """What a solver found, in the order of the caller's rows."""

    vectors: FloatArray
    parameters: Parameters
    per_item: FloatArray
    scores: list[float]  # of every start
    slope: float | None
    own_bound: float | None  # on the sum over items


def _fit_additive(layers: Sequence[Layer], task: Task, seed: int) -> list[Solved]:
    """From least squares, and from random lexicons where more starts are asked for and could matter."""
    distance, derivations = layers[0].distance, task.derivations
    convex = distance.name in CONVEX
    design, targets = derivations.counts, [layer.targets for layer in layers]
    orders = [None] * len(layers)
    if not convex and len(derivations) <= REORDERED:
        orders = [canonical_order(layer, derivations) for layer in targets]
        design = derivations.canonical.counts
        targets = [layer[order] for layer, order in zip(targets, orders, strict=True)]
    best = fit_layers(design, targets, distance)
    scores = [[float(found.per_item.mean())] for found in best]
    for start in range(1, 1 if convex else (task.restarts or 1)):
        for which, layer in enumerate(targets):
            lexicon = np.random.default_rng([seed, start]).normal(size=(design.columns, layer.shape[1]))
            other = fit_linear(design, layer, distance, start=lexicon)
            scores[which].append(float(other.per_item.mean()))
            if scores[which][-1] < float(best[which].per_item.mean()):
                best[which] = other
    return [
        Solved(found.lexicon, Parameters(), _put_back(found.per_item, order), each, found.gradient_norm,
               found.lower_bound)
        for found, order, each in zip(best, orders, scores, strict=True)
    ]  # fmt: skip


def _fit_learned(layer: Layer, task: Task, seed: int, limit: int) -> Solved:
    order = canonical_order(layer.targets, task.derivations)
    found = fit_learned(
        task.composition, task.derivations.canonical, layer.targets[order], layer.distance, layer.shape,
        seed=seed, restarts=task.restarts, limit=limit,
    )  # fmt: skip
    per_item = _put_back(found.per_item, order)
    return Solved(found.lexicon, found.parameters, per_item, list(found.starts), found.gradient_norm, None)


def _put_back(per_item: FloatArray, order: Any) -> FloatArray:
    if order is None:
        return per_item
    back = np.empty(len(order))
    back[order] = per_item
    return back


def _certified(layer: Layer, task: Task, solved: Solved, seed: int, bounded: bool) -> TreFit:
    """The fit with what is known about how good it is."""
    targets, distance, derivations = layer.targets, layer.distance, task.derivations
    score = float(solved.per_item.mean())
    bound, source = (0.0, "none")
    if bounded:
        bound, source = _lower_bound(targets, derivations, task.composition, distance, solved.own_bound)
    zero, centroid = _trivial(targets, distance)
    gap = max(score - bound, 0.0)
    closed = gap <= OPTIMAL * max(abs(score), zero if np.isfinite(zero) else 0.0)
    fitted = solved.vectors.size + sum(value.size for value in solved.parameters.values())
    if isinstance(task.composition, Add):
        fitted = (derivations.counts.rank or derivations.counts.columns) * targets.shape[1]
    certificate = Certificate(
        status="optimal" if closed else "best found",
        lower_bound=min(bound, score),
        gap=gap,
        bound=source,
        gradient_norm=solved.slope,
        restarts=len(solved.scores),
        spread=max(solved.scores) - min(solved.scores) if len(solved.scores) > 1 else None,
        rank=derivations.counts.rank,
        degrees_of_freedom=targets.size - fitted,
        zero=zero,
        centroid=centroid,
    )
    return TreFit(
        score=score,
        per_item=solved.per_item,
        certificate=certificate,
        compose=task.composition,
        distance=distance,
        derivations=derivations,
        representations=targets.reshape(-1, *layer.shape),
        vectors=solved.vectors,
        parameters=solved.parameters,
        seed=seed,
        restarts=task.restarts,
        notes=_notes(certificate, score, targets, distance),
    )


def _lower_bound(
    targets: Floats, derivations: Derivations, composition: Composition, distance: Distance, own: float | None
) -> tuple[float, str]:
    """The best bound we can prove on the mean distance, whatever the lexicon and the parameters."""
    items = len(derivations)
    if own is not None:
        return own / items, {"sql2": "exact", "cosine": "equal derivations"}.get(distance.name, "duality")
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
        return 1.0, 1.0 - float(np.linalg.norm(unit_sum(targets)[1])) / len(targets)
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
