"""Tree Reconstruction Error (Andreas 2019): how well can a compositional model imitate a set of representations?

    fit = tre(representations, [("red", "square"), ("blue", "square"), ...], distance="cosine")
    print(fit)   # how much the parts explain, whether it beats chance, whether it holds for unseen combinations
    fit.score    # the mean distance at the best lexicon found (equation 4); 0 is perfectly compositional
    fit.bound    # how far this can be from the true minimum, and how we know

Terms: a *primitive* is an atomic part ("red"). A *derivation* says how an item is built from primitives, with brackets.
A *lexicon* gives each primitive a vector. A *composition function* combines the vectors of the parts of a bracket.

TRE is the value of a minimisation (equation 2), so a number means nothing unless it is near the minimum: the
released solver overstates it by 18 to 38 % in places and exceeds the trivial predictor on 14 of 100 published
languages. Every fit here carries a lower bound that does not depend on the solver, and is called "optimal" only when
the score meets it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np

from pomona.base.errors import MeasureError, SpecError, did_you_mean
from pomona.base.files import write_json
from pomona.base.plots import Drawing
from pomona.representations.tre import significance
from pomona.representations.tre import verdict as verdicts
from pomona.representations.tre.bounds import bound_of, notes_on
from pomona.representations.tre.checks import check_seed
from pomona.representations.tre.distances import DISTANCES
from pomona.representations.tre.fitted import FittedModel
from pomona.representations.tre.inputs import Messages
from pomona.representations.tre.pictures import as_plain, model_as_plain, picture, without_nan
from pomona.representations.tre.problem import Layer, Problem
from pomona.representations.tre.solver import Solution, solve
from pomona.representations.tre.verdict import Verdict


class ReconstructionWarning(UserWarning):
    """A fit whose number should not be read as it stands; the message says why."""


class TreFit(FittedModel):
    """The fit of a compositional model, with the tests that say whether its score means something."""

    shuffle_test = significance.shuffle_test
    normalized = significance.normalized
    heldout = significance.heldout
    bootstrap = significance.bootstrap
    verdict = verdicts.verdict

    @cached_property
    def summary(self) -> Verdict:
        """The verdict with the tests that are cheap; `verdict(shuffles, folds)` runs what is asked."""
        return self.verdict()

    def __str__(self) -> str:
        return str(self.summary)

    def __repr__(self) -> str:
        return (
            f"TreFit({self.compose.name}, {self.distance.name}: {self.score:.6g}, at least "
            f"{self.bound.lower_bound:.6g}; {len(self.per_item)} items, {len(self.derivations.names)} parts)"
        )

    def _repr_html_(self) -> str:
        return self.summary._repr_html_()

    def plot(self, path: str | Path | None = None) -> Drawing:
        """The score among its shuffles, and the items that fit best and worst; with a path also a file (.svg ...)."""
        drawing = picture(self, self.summary.chance)
        if path is not None:
            drawing.save(path)
        return drawing

    def to_dict(self) -> dict[str, Any]:
        """Scores, bound, verdict and the distance of each item, as plain values for JSON."""
        return dict(without_nan(as_plain(self) | {"verdict": self.summary.to_dict()}))

    def save(self, path: str | Path) -> Path:
        """Write `to_dict` with the lexicon and the parameters to a JSON file, completely or not at all."""
        write_json(path, without_nan(self.to_dict() | model_as_plain(self)))
        return Path(path)


class Options(TypedDict, total=False):
    """The rarer options of `tre` and `tre_layers`; see `tre` for what they mean."""

    restarts: int | None
    center: bool
    uncomposed: str
    pool: str | None
    mask: Any


class MessageOptions(Options, total=False):
    """The options of `tre`, which also takes messages."""

    messages: Any


def tre(
    representations: Any = None,
    derivations: Any = None,
    compose: Any = "add",
    distance: Any = "cosine",
    seed: int = 0,
    **options: Unpack[MessageOptions],
) -> TreFit:
    """Measure how compositional representations are: fit the best compositional model and return its error.

    >>> import numpy as np
    >>> vectors = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> round(tre(vectors, ["red", "square", ("red", "square")]).score, 9)
    0.0

    Args:
        representations: one row for each item: an array, a tensor (of any device, with or without gradient), a data
            frame, a sparse matrix; or strings, which are messages; or one-hot messages [items, positions, symbols].
        derivations: for each row a nested tuple of primitives, or its text: "(dark red) square", or "dark red square";
            or columns of attributes (a mapping, a data frame, or a 2-D array); or a Forest, of which leaves count.
        compose: add, weighted, position, diagonal, linear, bilinear, mlp, or a callable of one tensor for each part.
        distance: cosine, l1, l2, sql2, crossentropy, or a callable of (predictions, targets).
        seed: for the starts of learned compositions; additive fits use no randomness unless `restarts` asks for more.
        restarts: how many starts; by default one for additive fits and four to twelve otherwise.
        center: subtract the mean representation first, which removes a shared direction (anisotropy).
        uncomposed: "error" (the default), or "allow" to accept primitives that occur only alone. Such a row is fitted
            exactly by its own vector and lowers the score without meaning.
        messages: instead of representations: strings, or symbols [items, positions]; their one-hot vectors are made.
        pool: "mean", "last" or "first" for hidden states [items, tokens, width], or a list of [tokens, width].
        mask: with pool, [items, tokens]: 1 for a token and 0 for padding; "all" if nothing is padded.
    """
    check_options(options, MessageOptions)
    messages = options.pop("messages", None)
    if messages is not None:
        if representations is not None:
            raise MeasureError("give representations or messages, not both.")
        representations = Messages.of(messages)
    problem = Problem.of(derivations, compose, **options)  # type: ignore[misc]
    (fit,) = fit_layers([problem.layer(representations, distance)], problem, seed=seed)
    warn(fit.notes)
    return fit


def check_options(given: Iterable[str], known: type) -> None:
    """Refuse options that `tre` or `tre_layers` does not have."""
    names = {"compose", "distance", "seed", *known.__annotations__}
    for name in given:
        if name not in names:
            raise SpecError(f"TRE has no option {name!r}. {did_you_mean(name, names)}")


def fit_layers(layers: Sequence[Layer], problem: Problem, *, seed: int = 0) -> list[TreFit]:
    """Fit every layer to the same derivations, with bounds; the notes are not issued as warnings."""
    check_seed(seed)
    solutions = solve(layers, problem, seed=seed)
    return [_fit_of(layer, problem, solution, seed) for layer, solution in zip(layers, solutions, strict=True)]


def warn(notes: Sequence[str], stacklevel: int = 3) -> None:
    for note in notes:
        warnings.warn(note, ReconstructionWarning, stacklevel=stacklevel)


def _fit_of(layer: Layer, problem: Problem, solution: Solution, seed: int) -> TreFit:
    if not np.isfinite(solution.score):
        raise MeasureError(
            f"no start came to a finite score: the composition {problem.composition.name!r} or the distance "
            f"{layer.distance.name!r} gives {solution.score} for some vectors. Make it finite for all of them: "
            f"torch.log(x.clamp(min=1e-6)), for example, instead of torch.log(x)."
        )
    if layer.distance.name in DISTANCES:  # these are never negative, up to rounding
        solution = replace(solution, per_item=np.maximum(solution.per_item, 0.0))
    bound = bound_of(layer, problem, solution)
    return TreFit(
        score=solution.score,
        per_item=solution.per_item,
        bound=bound,
        compose=problem.composition,
        distance=layer.distance,
        derivations=problem.derivations,
        representations=layer.targets.reshape(-1, *layer.shape),
        vectors=solution.vectors,
        parameters=solution.parameters,
        seed=seed,
        restarts=problem.restarts,
        notes=notes_on(bound, solution.score, layer),
        alphabet=layer.alphabet,
    )
