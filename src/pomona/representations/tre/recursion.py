"""Running a composition function over whole derivations: from the primitives up, and back down for gradients.

A *composition function* combines the vectors of the parts into the vector of the whole. A derivation applies it at
every bracket, so the vector of a tree is found by recursion (the approximation f_eta of section 3). Trees share
subtrees; each distinct subtree is computed once, and all subtrees of one height are computed in one batched call.

`Composition` is what a composition function must provide. The functions themselves are in `compositions`; those that
a user writes in torch are wrapped by `autograd`.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from pomona.base.arrays import Floats, Ints
from pomona.base.compiled import compiled
from pomona.representations.tre.derivations import Derivations, Step
from pomona.representations.tre.design import FloatArray

Parameters = dict[str, FloatArray]


class Parts(NamedTuple):
    """The parts of many wholes: part k of every whole is one row of `vectors[k]`."""

    vectors: list[FloatArray]  # one array [wholes, numbers] for each part
    leaf: tuple[bool, ...]  # which parts are primitives


class Composition(Protocol):
    """What a solver needs from a composition function. Vectors are flat, [subtrees, numbers]."""

    @property
    def name(self) -> str: ...

    @property
    def linear(self) -> bool:
        """Whether the prediction is linear (affine) in the lexicon when the parameters are fixed."""
        ...

    def initial(self, shape: tuple[int, ...], arity: int, rng: np.random.Generator) -> Parameters:
        """Random parameters for items of this shape and compositions of up to `arity` parts."""
        ...

    def forward(self, parameters: Parameters, parts: Parts) -> FloatArray:
        """The vectors of the wholes, one row for each."""
        ...

    def backward(self, parameters: Parameters, parts: Parts, grad: FloatArray, into: Parameters) -> list[FloatArray]:
        """The gradients of the parts, from those of the wholes; the parameters' gradients are added to `into`."""
        ...


def compose_subtrees(
    composition: Composition, derivations: Derivations, parameters: Parameters, lexicon: Floats
) -> FloatArray:
    """The vector of every distinct subtree, [subtrees, numbers]; row `derivations.root[i]` belongs to item i."""
    values = np.empty((derivations.subtrees, lexicon.shape[1]))
    values[: len(lexicon)] = lexicon
    for step in derivations.steps:
        values[_span(step)] = composition.forward(parameters, _parts(step, values))
    return values


def gradients(
    composition: Composition, derivations: Derivations, parameters: Parameters, values: FloatArray, grad: FloatArray
) -> tuple[FloatArray, Parameters]:
    """Back through `compose_subtrees`: from the gradient at each item to those of the lexicon and the parameters."""
    into: Parameters = {key: np.zeros_like(value) for key, value in parameters.items()}
    at = np.zeros_like(values)
    _add_rows(at, derivations.root, np.ascontiguousarray(grad))
    for step in reversed(derivations.steps):
        below = composition.backward(parameters, _parts(step, values), at[_span(step)], into)
        for slot, part in enumerate(below):
            _add_rows(at, np.ascontiguousarray(step.parts[:, slot]), np.ascontiguousarray(part))
    return at[: len(derivations.names)], into


def _span(step: Step) -> slice:
    """The rows of the subtrees that a step computes."""
    return slice(step.first, step.first + len(step.parts))


def _parts(step: Step, values: FloatArray) -> Parts:
    return Parts([values[step.parts[:, slot]] for slot in range(step.parts.shape[1])], step.leaf)


@compiled
def _add_rows(into: Floats, index: Ints, rows: Floats) -> None:
    """into[index[i]] += rows[i]. Subtrees are shared, so an index may occur several times."""
    for i in range(len(index)):
        for j in range(rows.shape[1]):
            into[index[i], j] += rows[i, j]
