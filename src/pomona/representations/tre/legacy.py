"""The published solver, kept for comparison: `andreas2019` reproduces it with its faults.

It runs RMSprop (step 0.01, decay 0.99) on the full batch for 400 steps, from a lexicon of zeros unless told otherwise.
Two of its properties decide its numbers, and both are kept on purpose:

* Cosine from zero freezes. At the zero vector the slope of `normalize` is 1 / 1e-12. RMSprop squares it into its
  running average and divides every later step by about 1e11, so after one step of sign vectors nothing moves again.
* The errors returned are those before the last step; the lexicon returned is the one after it.

Here the steps are taken for all items at once, with the same arithmetic. The tests compare it with an item-by-item
loop.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base.errors import SpecError
from pomona.representations.tre.checks import as_rows
from pomona.representations.tre.compositions import Add, Position
from pomona.representations.tre.derivations import Derivations
from pomona.representations.tre.design import FloatArray
from pomona.representations.tre.fit import ReconstructionWarning
from pomona.representations.tre.recursion import Composition, Parameters, compose_subtrees, gradients

EPSILON = 1e-12  # of torch.nn.functional.normalize
RATE = 0.01  # the step of RMSprop


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
    trees = Derivations.of(derivations)
    rows, shape, _ = as_rows(representations, len(trees))
    targets: FloatArray = np.asarray(rows, np.float64)
    composition: Composition = Add() if compose_with == "add" else Position()
    values = _initial(trees, targets.shape[1], shape[0] if compose_with == "position" else None, zero_init, seed)
    memory = {key: np.zeros_like(value) for key, value in values.items()}
    losses = np.empty(steps)
    per_item = np.empty(len(targets))
    for step in range(steps):
        parameters = {key: value for key, value in values.items() if key != "lexicon"}
        nodes = compose_subtrees(composition, trees, parameters, values["lexicon"])
        per_item, slope = _errors(nodes[trees.root], targets, distance)
        losses[step] = per_item.sum()
        down, inner = gradients(composition, trees, parameters, nodes, slope)
        for key, grad in {"lexicon": down, **inner}.items():
            memory[key] = 0.99 * memory[key] + 0.01 * grad * grad
            values[key] = values[key] - RATE * grad / (np.sqrt(memory[key]) + 1e-8)
    vectors = values.pop("lexicon")
    return LegacyResult(float(per_item.mean()), per_item, losses, vectors, values)


def _initial(trees: Derivations, width: int, positions: int | None, zero_init: bool, seed: int) -> Parameters:
    """The lexicon at zero or normal; maps and biases as torch's Linear draws them, if there are positions."""
    rng = np.random.default_rng(seed)
    lexicon = np.zeros((len(trees.names), width))
    values: Parameters = {"lexicon": lexicon if zero_init else rng.normal(size=lexicon.shape)}
    if positions is not None:
        reach = 1.0 / np.sqrt(positions)  # uniform within 1 / sqrt(inputs)
        values["maps"] = rng.uniform(-reach, reach, (trees.arity, positions, positions))
        values["bias"] = rng.uniform(-reach, reach, (trees.arity, positions))
    return values


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
