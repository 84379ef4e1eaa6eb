"""The composition functions that Pomona provides, each with its gradient (equations 1 and 6 of Andreas 2019).

    add        x + y
    weighted   a x + b y                      one number for each part
    diagonal   a * x + b * y                  one vector for each part
    position   A x + a + B y + b              A, B act on the position axis of [positions, symbols] (equation 6)
    linear     A x + a + B y + b              full matrices
    bilinear   A x + B y + b + x T y          with a third-order tensor T
    mlp        W tanh(A x + B y + b) + c

Compositions of more than two parts have one map for each part; `bilinear` multiplies each part with the one before it.

A composition function is a frozen description without state. Its parameters are drawn anew for each fit from that
fit's random generator, so one fit cannot influence the next (in the released code one module served a hundred runs
in sequence). `recursion` applies a function to whole derivations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from pomona.base.arrays import Floats
from pomona.base.errors import MeasureError, SpecError, did_you_mean
from pomona.representations.tre.derivations import Derivations
from pomona.representations.tre.design import FloatArray
from pomona.representations.tre.recursion import Composition, Parameters, Parts, compose_subtrees


@dataclass(frozen=True)
class Add:
    """x + y. It ignores order and brackets, so a derivation counts only as a bag of primitives."""

    name: ClassVar[str] = "add"
    linear: ClassVar[bool] = True

    def initial(self, shape: tuple[int, ...], arity: int, rng: np.random.Generator) -> Parameters:
        return {}

    def forward(self, parameters: Parameters, parts: Parts) -> FloatArray:
        total = parts.vectors[0].copy()
        for part in parts.vectors[1:]:
            total += part
        return total

    def backward(self, parameters: Parameters, parts: Parts, grad: FloatArray, into: Parameters) -> list[FloatArray]:
        return [grad] * len(parts.vectors)


@dataclass(frozen=True)
class PartMaps:
    """One matrix for each part. It acts on the first axis of an item seen as [rows, columns], alike in every column.

    With `absorbed`, the lexicon holds each primitive already mapped: x = A eta instead of eta. Where a primitive
    always stands on the same side of its compositions, the two describe the same models (A can be inverted), and the
    problem is of one degree less.
    """

    bias: bool = True
    absorbed: bool = False
    linear: ClassVar[bool] = True

    def rows(self, shape: tuple[int, ...]) -> int:
        raise NotImplementedError

    def initial(self, shape: tuple[int, ...], arity: int, rng: np.random.Generator) -> Parameters:
        rows = self.rows(shape)
        parameters: Parameters = {"maps": rng.normal(size=(arity, rows, rows)) / np.sqrt(rows)}
        if self.bias:
            parameters["bias"] = np.zeros((arity, rows))  # only the sum over parts is identifiable, as in the original
        return parameters

    def forward(self, parameters: Parameters, parts: Parts) -> FloatArray:
        maps = parameters["maps"]
        rows = maps.shape[1]
        total = np.zeros((len(parts.vectors[0]), rows, parts.vectors[0].shape[1] // rows))
        for slot, part in enumerate(parts.vectors):
            grid = part.reshape(total.shape)
            total += grid if self.absorbed and parts.leaf[slot] else _apply(maps[slot], grid)
        if "bias" in parameters:
            total += parameters["bias"][: len(parts.vectors)].sum(axis=0)[:, None]
        return total.reshape(len(total), -1)

    def backward(self, parameters: Parameters, parts: Parts, grad: FloatArray, into: Parameters) -> list[FloatArray]:
        maps = parameters["maps"]
        grid = grad.reshape(len(grad), maps.shape[1], -1)
        below = []
        for slot, part in enumerate(parts.vectors):
            if self.absorbed and parts.leaf[slot]:
                below.append(grad)
                continue
            below.append(_apply(maps[slot].T, grid).reshape(len(grad), -1))
            into["maps"][slot] += _outer(grid, part.reshape(grid.shape))
        if "bias" in parameters:
            into["bias"][: len(parts.vectors)] += grid.sum(axis=(0, 2))
        return below


@dataclass(frozen=True)
class Weighted(PartMaps):
    """a x + b y with one number for each part."""

    bias: bool = False
    name: ClassVar[str] = "weighted"

    def rows(self, shape: tuple[int, ...]) -> int:
        return 1

    def initial(self, shape: tuple[int, ...], arity: int, rng: np.random.Generator) -> Parameters:
        return super().initial(shape, arity, rng) | {"maps": 1.0 + 0.5 * rng.normal(size=(arity, 1, 1))}


@dataclass(frozen=True)
class Position(PartMaps):
    """Equation 6 as in the released code: A and B move symbols between positions and never change the symbol."""

    name: ClassVar[str] = "position"

    def rows(self, shape: tuple[int, ...]) -> int:
        if len(shape) != 2:
            raise MeasureError(
                f"compose='position' needs messages of shape [items, positions, symbols]; each item here has shape "
                f"{list(shape)}. Use compose='linear' for plain vectors."
            )
        return shape[0]


@dataclass(frozen=True)
class Linear(PartMaps):
    """A x + a + B y + b with full matrices."""

    name: ClassVar[str] = "linear"

    def rows(self, shape: tuple[int, ...]) -> int:
        return int(np.prod(shape))


@dataclass(frozen=True)
class Diagonal:
    """a * x + b * y with one number for each part and coordinate."""

    name: ClassVar[str] = "diagonal"
    linear: ClassVar[bool] = True

    def initial(self, shape: tuple[int, ...], arity: int, rng: np.random.Generator) -> Parameters:
        return {"scale": 1.0 + 0.5 * rng.normal(size=(arity, int(np.prod(shape))))}

    def forward(self, parameters: Parameters, parts: Parts) -> FloatArray:
        total = np.zeros_like(parts.vectors[0])
        for part, scale in zip(parts.vectors, parameters["scale"], strict=False):
            total += part * scale
        return total

    def backward(self, parameters: Parameters, parts: Parts, grad: FloatArray, into: Parameters) -> list[FloatArray]:
        for slot, part in enumerate(parts.vectors):
            into["scale"][slot] += np.einsum("gd,gd->d", grad, part)
        return [grad * scale for _, scale in zip(parts.vectors, parameters["scale"], strict=False)]


@dataclass(frozen=True)
class Bilinear:
    """A x + B y + b, plus the product x T y of neighbouring parts, one matrix of T for each output."""

    name: ClassVar[str] = "bilinear"
    linear: ClassVar[bool] = False

    def initial(self, shape: tuple[int, ...], arity: int, rng: np.random.Generator) -> Parameters:
        size = int(np.prod(shape))
        if size > 256:
            raise MeasureError(
                f"compose='bilinear' has size^3 numbers; items of {size} numbers are too wide (at most 256)."
            )
        return {
            "maps": np.eye(size) + rng.normal(size=(arity, size, size)) * 0.3 / np.sqrt(size),
            "bias": np.zeros((arity, size)),
            "tensor": rng.normal(size=(size, size, size)) * 0.1 / size,
        }

    def forward(self, parameters: Parameters, parts: Parts) -> FloatArray:
        total: FloatArray = Linear().forward({key: parameters[key] for key in ("maps", "bias")}, parts)
        size = len(parameters["tensor"])
        for left, right in pairwise(parts.vectors):
            total += _products(left, right) @ parameters["tensor"].reshape(size, -1).T
        return total

    def backward(self, parameters: Parameters, parts: Parts, grad: FloatArray, into: Parameters) -> list[FloatArray]:
        below = Linear().backward(parameters, parts, grad, into)
        tensor = parameters["tensor"]
        size = len(tensor)
        for slot, (left, right) in enumerate(pairwise(parts.vectors)):
            against = (grad @ tensor.reshape(size, -1)).reshape(-1, size, size)  # [subtrees, left, right]
            below[slot] = below[slot] + np.einsum("gij,gj->gi", against, right)
            below[slot + 1] = below[slot + 1] + np.einsum("gij,gi->gj", against, left)
            into["tensor"] += (grad.T @ _products(left, right)).reshape(tensor.shape)
        return below


@dataclass(frozen=True)
class Mlp:
    """W tanh(sum_k A_k x_k + b) + c. It is flexible enough to memorise (Remark 2), so read its held-out score."""

    hidden: int | None = None  # by default as wide as an item
    name: ClassVar[str] = "mlp"
    linear: ClassVar[bool] = False

    def initial(self, shape: tuple[int, ...], arity: int, rng: np.random.Generator) -> Parameters:
        size = int(np.prod(shape))
        hidden = self.hidden or size
        return {
            "inner": rng.normal(size=(arity, hidden, size)) * 0.7 / np.sqrt(size),
            "shift": np.zeros(hidden),
            "outer": rng.normal(size=(size, hidden)) / np.sqrt(hidden),
            "bias": np.zeros(size),
        }

    def _hidden(self, parameters: Parameters, parts: Parts) -> FloatArray:
        inside = np.tile(parameters["shift"], (len(parts.vectors[0]), 1))
        for part, matrix in zip(parts.vectors, parameters["inner"], strict=False):
            inside += part @ matrix.T
        return np.tanh(inside)

    def forward(self, parameters: Parameters, parts: Parts) -> FloatArray:
        return np.asarray(self._hidden(parameters, parts) @ parameters["outer"].T + parameters["bias"])

    def backward(self, parameters: Parameters, parts: Parts, grad: FloatArray, into: Parameters) -> list[FloatArray]:
        active = self._hidden(parameters, parts)
        into["outer"] += grad.T @ active
        into["bias"] += grad.sum(axis=0)
        inside = (grad @ parameters["outer"]) * (1.0 - active**2)
        into["shift"] += inside.sum(axis=0)
        for slot, part in enumerate(parts.vectors):
            into["inner"][slot] += inside.T @ part
        return [inside @ matrix for _, matrix in zip(parts.vectors, parameters["inner"], strict=False)]


COMPOSITIONS: dict[str, Callable[[], Composition]] = {
    "add": Add,
    "weighted": Weighted,
    "position": Position,
    "diagonal": Diagonal,
    "linear": Linear,
    "bilinear": Bilinear,
    "mlp": Mlp,
}


def composition_of(choice: Any) -> Composition:
    """A composition function from its name, from a `Composition`, or from the user's own callable (through torch)."""
    if isinstance(choice, str):
        if choice not in COMPOSITIONS:
            raise SpecError(f"no composition is called {choice!r}. {did_you_mean(choice, COMPOSITIONS)}")
        return COMPOSITIONS[choice]()
    if isinstance(choice, type):
        raise SpecError(f"compose is the class {choice.__name__}; give a made one: compose={choice.__name__}(...).")
    if all(hasattr(choice, field) for field in ("initial", "forward", "backward", "linear", "name")):
        composition: Composition = choice
        return composition
    if callable(choice):
        from pomona.representations.tre.autograd import TorchComposition

        return TorchComposition(choice)
    raise SpecError(f"compose is a name ({', '.join(COMPOSITIONS)}) or a callable, got {type(choice).__name__}.")


def predict(composition: Composition, derivations: Derivations, parameters: Parameters, lexicon: Floats) -> FloatArray:
    """The composed vector of each item, [items, numbers]."""
    if isinstance(composition, Add):
        return derivations.counts.times(lexicon)
    return np.asarray(compose_subtrees(composition, derivations, parameters, lexicon)[derivations.root])


def _apply(matrix: FloatArray, grid: FloatArray) -> FloatArray:
    """matrix @ grid[g] for every g; a single product when items are plain vectors."""
    if grid.shape[2] == 1:
        return np.asarray((grid[:, :, 0] @ matrix.T)[:, :, None])
    if matrix.shape == (1, 1):
        return np.asarray(matrix[0, 0] * grid)
    return np.asarray(np.matmul(matrix, grid))


def _outer(grad: FloatArray, grid: FloatArray) -> FloatArray:
    """The gradient of a map: grad x grid, summed over subtrees and columns."""
    if grad.shape[2] == 1:
        return np.asarray(grad[:, :, 0].T @ grid[:, :, 0])
    return np.asarray(np.tensordot(grad, grid, axes=((0, 2), (0, 2))))


def _products(left: FloatArray, right: FloatArray) -> FloatArray:
    """Every product x_i y_j, [subtrees, size * size]."""
    return np.asarray((left[:, :, None] * right[:, None, :]).reshape(len(left), -1))
