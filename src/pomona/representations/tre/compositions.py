"""Composition functions: how the vectors of the parts become the vector of the whole (equations 1 and 6).

A composition is a frozen description. Its parameters are made fresh for each fit from that fit's generator, so
no fit can leak into the next (in the released code one module served a hundred runs in sequence). Each has its own
gradient written out; `compose` runs any of them over the distinct subtrees of a dataset, one batched call for each
height, and `gradients` runs back.

    add        x + y
    weighted   a x + b y                      a number for each part
    diagonal   a * x + b * y                  a vector for each part
    position   A x + a + B y + b              A, B act on the position axis of [positions, symbols] (equation 6)
    linear     A x + a + B y + b              full matrices
    bilinear   A x + B y + b + x T y          a third-order tensor on top
    mlp        W tanh(A x + B y + b) + c

Wider compositions have one map for each part; `bilinear` multiplies each part with the one before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Protocol

import numpy as np

from pomona.base.arrays import Floats, Ints
from pomona.base.compiled import compiled
from pomona.base.errors import MeasureError, SpecError, did_you_mean
from pomona.representations.tre.derivations import Derivations
from pomona.representations.tre.design import FloatArray

Parameters = dict[str, FloatArray]


class Composition(Protocol):
    """What a solver asks of a composition; vectors arrive flat, as [subtrees, numbers]."""

    @property
    def name(self) -> str: ...

    @property
    def linear(self) -> bool:
        """Whether, at fixed parameters, the prediction is linear (affine) in the lexicon."""
        ...

    def initial(self, shape: tuple[int, ...], arity: int, rng: np.random.Generator) -> Parameters: ...

    def forward(self, parameters: Parameters, parts: Sequence[FloatArray], leaf: Sequence[bool] = ()) -> FloatArray:
        """The wholes, one row for each; `leaf` says which parts are primitives."""
        ...

    def backward(
        self,
        parameters: Parameters,
        parts: Sequence[FloatArray],
        grad: FloatArray,
        into: Parameters,
        leaf: Sequence[bool] = (),
    ) -> list[FloatArray]:
        """The gradients for the parts; those for the parameters are added to `into`."""
        ...


@dataclass(frozen=True)
class Add:
    """x + y: order and bracketing are invisible, so a derivation is a bag of primitives."""

    name: ClassVar[str] = "add"
    linear: ClassVar[bool] = True

    def initial(self, shape: tuple[int, ...], arity: int, rng: np.random.Generator) -> Parameters:
        return {}

    def forward(self, parameters: Parameters, parts: Sequence[FloatArray], leaf: Sequence[bool] = ()) -> FloatArray:
        total = parts[0].copy()
        for part in parts[1:]:
            total += part
        return total

    def backward(
        self,
        parameters: Parameters,
        parts: Sequence[FloatArray],
        grad: FloatArray,
        into: Parameters,
        leaf: Sequence[bool] = (),
    ) -> list[FloatArray]:
        return [grad] * len(parts)


@dataclass(frozen=True)
class _PartMaps:
    """One matrix for each part, acting on the first axis of an item seen as [rows, columns], identically per column.

    With `absorbed`, the lexicon holds each primitive already mapped: x = A eta instead of eta. Where a primitive keeps
    to one side of its compositions the two say the same (A may be inverted), and the problem loses one degree.
    """

    bias: bool = True
    absorbed: bool = False
    linear: ClassVar[bool] = True

    def rows(self, shape: tuple[int, ...]) -> int:
        raise NotImplementedError

    def initial(self, shape: tuple[int, ...], arity: int, rng: np.random.Generator) -> Parameters:
        rows = self.rows(shape)
        made: Parameters = {"maps": rng.normal(size=(arity, rows, rows)) / np.sqrt(rows)}
        if self.bias:
            made["bias"] = np.zeros((arity, rows))  # only the sum over parts is identifiable, as in the original
        return made

    def forward(self, parameters: Parameters, parts: Sequence[FloatArray], leaf: Sequence[bool] = ()) -> FloatArray:
        maps = parameters["maps"]
        rows = maps.shape[1]
        total = np.zeros((len(parts[0]), rows, parts[0].shape[1] // rows))
        for slot, part in enumerate(parts):
            seen = part.reshape(total.shape)
            total += seen if self.absorbed and leaf[slot] else _apply(maps[slot], seen)
        if "bias" in parameters:
            total += parameters["bias"][: len(parts)].sum(axis=0)[:, None]
        return total.reshape(len(total), -1)

    def backward(
        self,
        parameters: Parameters,
        parts: Sequence[FloatArray],
        grad: FloatArray,
        into: Parameters,
        leaf: Sequence[bool] = (),
    ) -> list[FloatArray]:
        maps = parameters["maps"]
        rows = maps.shape[1]
        grid = grad.reshape(len(grad), rows, -1)
        below = []
        for slot, part in enumerate(parts):
            if self.absorbed and leaf[slot]:
                below.append(grad)
                continue
            below.append(_apply(maps[slot].T, grid).reshape(len(grad), -1))
            into["maps"][slot] += _outer(grid, part.reshape(grid.shape))
        if "bias" in parameters:
            into["bias"][: len(parts)] += grid.sum(axis=(0, 2))
        return below


@dataclass(frozen=True)
class Weighted(_PartMaps):
    """a x + b y, one number for each part."""

    bias: bool = False
    name: ClassVar[str] = "weighted"

    def rows(self, shape: tuple[int, ...]) -> int:
        return 1

    def initial(self, shape: tuple[int, ...], arity: int, rng: np.random.Generator) -> Parameters:
        return super().initial(shape, arity, rng) | {"maps": 1.0 + 0.5 * rng.normal(size=(arity, 1, 1))}


@dataclass(frozen=True)
class Position(_PartMaps):
    """Equation 6 as the released code has it: A and B move tokens between positions, never between symbols."""

    name: ClassVar[str] = "position"

    def rows(self, shape: tuple[int, ...]) -> int:
        if len(shape) != 2:
            raise MeasureError(
                f"compose='position' needs messages of shape [items, positions, symbols]; each item here has shape "
                f"{list(shape)}. Use compose='linear' for plain vectors."
            )
        return shape[0]


@dataclass(frozen=True)
class Linear(_PartMaps):
    """A x + a + B y + b with full matrices."""

    name: ClassVar[str] = "linear"

    def rows(self, shape: tuple[int, ...]) -> int:
        return int(np.prod(shape))


@dataclass(frozen=True)
class Diagonal:
    """a * x + b * y, one number for each part and coordinate."""

    name: ClassVar[str] = "diagonal"
    linear: ClassVar[bool] = True

    def initial(self, shape: tuple[int, ...], arity: int, rng: np.random.Generator) -> Parameters:
        return {"scale": 1.0 + 0.5 * rng.normal(size=(arity, int(np.prod(shape))))}

    def forward(self, parameters: Parameters, parts: Sequence[FloatArray], leaf: Sequence[bool] = ()) -> FloatArray:
        total = np.zeros_like(parts[0])
        for part, scale in zip(parts, parameters["scale"], strict=False):
            total += part * scale
        return total

    def backward(
        self,
        parameters: Parameters,
        parts: Sequence[FloatArray],
        grad: FloatArray,
        into: Parameters,
        leaf: Sequence[bool] = (),
    ) -> list[FloatArray]:
        for slot, part in enumerate(parts):
            into["scale"][slot] += np.einsum("gd,gd->d", grad, part)
        return [grad * scale for _, scale in zip(parts, parameters["scale"], strict=False)]


@dataclass(frozen=True)
class Bilinear:
    """A x + B y + b, and for each output the product x T y of neighbouring parts."""

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

    def forward(self, parameters: Parameters, parts: Sequence[FloatArray], leaf: Sequence[bool] = ()) -> FloatArray:
        total: FloatArray = Linear().forward({key: parameters[key] for key in ("maps", "bias")}, parts)
        for left, right in pairwise(parts):
            total += _bilinear(parameters["tensor"], left, right)
        return total

    def backward(
        self,
        parameters: Parameters,
        parts: Sequence[FloatArray],
        grad: FloatArray,
        into: Parameters,
        leaf: Sequence[bool] = (),
    ) -> list[FloatArray]:
        below = Linear().backward(parameters, parts, grad, into)
        tensor = parameters["tensor"]
        size = len(tensor)
        for slot, (left, right) in enumerate(pairwise(parts)):
            against = (grad @ tensor.reshape(size, -1)).reshape(-1, size, size)  # [subtrees, left, right]
            below[slot] = below[slot] + np.einsum("gij,gj->gi", against, right)
            below[slot + 1] = below[slot + 1] + np.einsum("gij,gi->gj", against, left)
            pairs = (left[:, :, None] * right[:, None, :]).reshape(len(left), -1)
            into["tensor"] += (grad.T @ pairs).reshape(tensor.shape)
        return below


@dataclass(frozen=True)
class Mlp:
    """W tanh(sum_k A_k x_k + b) + c. Flexible enough to memorise (Remark 2): read its held-out score."""

    hidden: int | None = None  # as wide as an item unless told
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

    def _hidden(self, parameters: Parameters, parts: Sequence[FloatArray]) -> FloatArray:
        inside = np.tile(parameters["shift"], (len(parts[0]), 1))
        for part, matrix in zip(parts, parameters["inner"], strict=False):
            inside += part @ matrix.T
        return np.tanh(inside)

    def forward(self, parameters: Parameters, parts: Sequence[FloatArray], leaf: Sequence[bool] = ()) -> FloatArray:
        return np.asarray(self._hidden(parameters, parts) @ parameters["outer"].T + parameters["bias"])

    def backward(
        self,
        parameters: Parameters,
        parts: Sequence[FloatArray],
        grad: FloatArray,
        into: Parameters,
        leaf: Sequence[bool] = (),
    ) -> list[FloatArray]:
        active = self._hidden(parameters, parts)
        into["outer"] += grad.T @ active
        into["bias"] += grad.sum(axis=0)
        inside = (grad @ parameters["outer"]) * (1.0 - active**2)
        into["shift"] += inside.sum(axis=0)
        for slot, part in enumerate(parts):
            into["inner"][slot] += inside.T @ part
        return [inside @ matrix for _, matrix in zip(parts, parameters["inner"], strict=False)]


COMPOSITIONS: dict[str, Callable[[], Composition]] = {
    "add": Add,
    "weighted": Weighted,
    "position": Position,
    "diagonal": Diagonal,
    "linear": Linear,
    "bilinear": Bilinear,
    "mlp": Mlp,
}


def composition_of(given: Any) -> Composition:
    """A composition from its name, from itself, or from the user's own callable (through torch)."""
    if isinstance(given, str):
        if given not in COMPOSITIONS:
            raise SpecError(f"no composition is called {given!r}. {did_you_mean(given, COMPOSITIONS)}")
        return COMPOSITIONS[given]()
    if all(hasattr(given, field) for field in ("initial", "forward", "backward", "linear", "name")):
        made: Composition = given
        return made
    if callable(given):
        from pomona.representations.tre.autograd import TorchComposition

        return TorchComposition(given)
    raise SpecError(f"compose is a name ({', '.join(COMPOSITIONS)}) or a callable, got {type(given).__name__}.")


def compose(composition: Composition, derivations: Derivations, parameters: Parameters, lexicon: Floats) -> FloatArray:
    """The vector of every distinct subtree, from the primitives up: the approximation f_eta of section 3."""
    values = np.empty((derivations.subtrees, lexicon.shape[1]))
    values[: len(lexicon)] = lexicon
    for step in derivations.steps:
        parts = [values[step.parts[:, slot]] for slot in range(step.parts.shape[1])]
        values[step.first : step.first + len(step.parts)] = composition.forward(parameters, parts, step.leaf)
    return values


def gradients(
    composition: Composition, derivations: Derivations, parameters: Parameters, values: FloatArray, grad: FloatArray
) -> tuple[FloatArray, Parameters]:
    """Back through `compose`: from the gradient at each item to those of the lexicon and the parameters."""
    into: Parameters = {key: np.zeros_like(value) for key, value in parameters.items()}
    at = np.zeros_like(values)
    _add_rows(at, derivations.root, np.ascontiguousarray(grad))
    for step in reversed(derivations.steps):
        parts = [values[step.parts[:, slot]] for slot in range(step.parts.shape[1])]
        here = at[step.first : step.first + len(step.parts)]
        for slot, below in enumerate(composition.backward(parameters, parts, here, into, step.leaf)):
            _add_rows(at, np.ascontiguousarray(step.parts[:, slot]), np.ascontiguousarray(below))
    return at[: len(derivations.names)], into


def _apply(matrix: FloatArray, grid: FloatArray) -> FloatArray:
    """matrix @ grid[g] for every g; one product when items are plain vectors."""
    if grid.shape[2] == 1:
        return np.asarray((grid[:, :, 0] @ matrix.T)[:, :, None])
    if matrix.shape == (1, 1):
        return np.asarray(matrix[0, 0] * grid)
    return np.asarray(np.matmul(matrix, grid))


def _outer(grad: FloatArray, seen: FloatArray) -> FloatArray:
    """The sum over subtrees and columns of grad x seen: the gradient of a map."""
    if grad.shape[2] == 1:
        return np.asarray(grad[:, :, 0].T @ seen[:, :, 0])
    return np.asarray(np.tensordot(grad, seen, axes=((0, 2), (0, 2))))


def _bilinear(tensor: FloatArray, left: FloatArray, right: FloatArray) -> FloatArray:
    """x T_k y for every output k."""
    size = len(tensor)
    pairs = (left[:, :, None] * right[:, None, :]).reshape(len(left), -1)
    return np.asarray(pairs @ tensor.reshape(size, -1).T)


@compiled
def _add_rows(into: Floats, index: Ints, rows: Floats) -> None:
    """into[index[i]] += rows[i]; subtrees are shared, so several rows may meet in one."""
    for i in range(len(index)):
        for j in range(rows.shape[1]):
            into[index[i], j] += rows[i, j]
