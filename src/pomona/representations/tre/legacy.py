"""The solver that was published, kept to show what it does: `andreas2019` reproduces it, faults included.

RMSprop (step 0.01, decay 0.99) over the full batch, 400 steps, the lexicon started at zero unless told otherwise. Two
habits decide its numbers, and both are kept here on purpose:

* Cosine from zero. At the zero vector `normalize` has slope 1 / 1e-12. RMSprop squares that into its running average
  and divides every later step by about 1e11: after one step of sign vectors nothing moves again.
* Errors are those before the last step, the lexicon returned is the one after it.

The steps are taken for all items at once, with the same arithmetic; the item-by-item loop is in the tests as its twin.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base.errors import SpecError
from pomona.representations.tre.checks import as_rows
from pomona.representations.tre.compositions import Add, Composition, Parameters, Position, compose, gradients
from pomona.representations.tre.derivations import Derivations
from pomona.representations.tre.design import FloatArray
from pomona.representations.tre.fit import ReconstructionWarning

EPSILON = 1e-12  # of torch.nn.functional.normalize


@dataclass(frozen=True, eq=False)
class LegacyResult:
    """What the released code returns: the errors before its last step and the lexicon after it."""

    score: float
    per_item: FloatArray
    losses: FloatArray = field(repr=False)  # the summed error before every step
    vectors: FloatArray = field(repr=False)
    parameters: Parameters = field(repr=False)


def andreas2019(
    representations: npt.ArrayLike,
    derivations: Any,
    distance: str = "cosine",
    compose_with: str = "add",
    *,
    steps: int = 400,
    zero_init: bool = True,
    rate: float = 0.01,
    seed: int = 0,
) -> LegacyResult:
    """The released procedure of Andreas (2019). Use `tre` to measure; this is for comparison with published numbers."""
    if distance not in ("cosine", "l1", "sql2"):
        raise SpecError(f"the released code has 'cosine' and 'l1' (and 'sql2' was studied with it); got {distance!r}.")
    if compose_with not in ("add", "position"):
        raise SpecError(f"the released code has 'add' and 'position'; got {compose_with!r}.")
    frozen = zero_init and distance == "cosine"
    warnings.warn(
        "andreas2019 repeats the published solver, which does not reach the minimum"
        + (": cosine from a zero start freezes after one step." if frozen else "."),
        ReconstructionWarning,
        stacklevel=2,
    )
    given = Derivations.of(derivations)
    targets, shape = as_rows(representations, len(given))
    targets = np.asarray(targets, np.float64)
    rng = np.random.default_rng(seed)
    composition: Composition = Add() if compose_with == "add" else Position()
    lexicon = np.zeros((len(given.names), targets.shape[1]))
    if not zero_init:
        lexicon = rng.normal(size=lexicon.shape)
    parameters: Parameters = {}
    if compose_with == "position":
        reach = 1.0 / np.sqrt(shape[0])  # torch's Linear: uniform within 1 / sqrt(inputs), biases too
        parameters = {
            "maps": rng.uniform(-reach, reach, (given.arity, shape[0], shape[0])),
            "bias": rng.uniform(-reach, reach, (given.arity, shape[0])),
        }
    values: Parameters = {"lexicon": lexicon, **parameters}
    memory = {key: np.zeros_like(value) for key, value in values.items()}
    losses = np.empty(steps)
    per_item = np.empty(len(targets))
    for step in range(steps):
        own = {key: value for key, value in values.items() if key != "lexicon"}
        nodes = compose(composition, given, own, values["lexicon"])
        per_item, slope = _errors(nodes[given.root], targets, distance)
        losses[step] = per_item.sum()
        down, inner = gradients(composition, given, own, nodes, slope)
        for key, grad in {"lexicon": down, **inner}.items():
            memory[key] = 0.99 * memory[key] + 0.01 * grad * grad
            values[key] = values[key] - rate * grad / (np.sqrt(memory[key]) + 1e-8)
    vectors = values.pop("lexicon")
    return LegacyResult(float(per_item.mean()), per_item, losses, vectors, values)


def _errors(predictions: FloatArray, targets: FloatArray, distance: str) -> tuple[FloatArray, FloatArray]:
    """Each item's error and its gradient, with torch's conventions at zero."""
    residual = predictions - targets
    if distance == "l1":
        return np.abs(residual).sum(axis=1), np.sign(residual)
    if distance == "sql2":
        return (residual**2).sum(axis=1), 2.0 * residual
    size = np.linalg.norm(predictions, axis=1, keepdims=True)
    clipped = np.maximum(size, EPSILON)
    unit = targets / np.maximum(np.linalg.norm(targets, axis=1, keepdims=True), EPSILON)
    direction = predictions / clipped
    cosine = (direction * unit).sum(axis=1, keepdims=True)
    # Below EPSILON the clamp's own slope is zero, so only the 1 / EPSILON term remains.
    return 1.0 - cosine[:, 0], np.where(size >= EPSILON, cosine * direction - unit, -unit) / clipped
