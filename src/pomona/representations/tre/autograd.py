"""The user's own composition function or distance, differentiated by torch.

Torch is imported only when the user gives a callable, so everything else of TRE runs without it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pomona.base.arrays import Floats, Ints
from pomona.base.errors import MeasureError
from pomona.representations.tre.design import FloatArray
from pomona.representations.tre.recursion import Parameters, Parts

if TYPE_CHECKING:
    import torch


class TorchComposition:
    """A callable that takes one tensor [batch, numbers] for each part and returns the wholes.

    A `torch.nn.Module` is copied, and its parameters are drawn anew for each fit; the user's own is never changed.
    """

    linear = False

    def __init__(self, call: Callable[..., Any]) -> None:
        import torch

        self.call = copy.deepcopy(call) if isinstance(call, torch.nn.Module) else call
        self.name = getattr(call, "__name__", type(call).__name__)

    def initial(self, shape: tuple[int, ...], arity: int, rng: np.random.Generator) -> Parameters:
        import torch

        if not isinstance(self.call, torch.nn.Module):
            return {}
        self.call.double()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(rng.integers(2**62)))
            for module in self.call.modules():
                if hasattr(module, "reset_parameters"):
                    module.reset_parameters()  # type: ignore[operator]
        parameters = {key: value.detach().numpy().copy() for key, value in self.call.named_parameters()}
        never_reset = sum(
            sum(1 for _ in module.parameters(recurse=False))
            for module in self.call.modules()
            if not hasattr(module, "reset_parameters")
        )
        if never_reset:  # parameters without a reset start near the values that the user gave them
            for key in parameters:
                parameters[key] = parameters[key] + 0.1 * rng.normal(size=parameters[key].shape)
        return parameters

    def _run(self, tensors: dict[str, torch.Tensor], parts: Sequence[torch.Tensor]) -> torch.Tensor:
        import torch

        if isinstance(self.call, torch.nn.Module):
            whole = torch.func.functional_call(self.call, tensors, tuple(parts))
        else:
            whole = self.call(*parts)
        if not isinstance(whole, torch.Tensor) or whole.shape != parts[0].shape:
            raise MeasureError(
                f"the composition {self.name!r} must return a tensor of shape {tuple(parts[0].shape)}, "
                f"got {_described(whole)}."
            )
        return whole

    def forward(self, parameters: Parameters, parts: Parts) -> FloatArray:
        import torch

        with torch.no_grad():
            tensors = {key: torch.from_numpy(value) for key, value in parameters.items()}
            return np.asarray(self._run(tensors, [torch.from_numpy(part) for part in parts.vectors]).numpy())

    def backward(self, parameters: Parameters, parts: Parts, grad: FloatArray, into: Parameters) -> list[FloatArray]:
        import torch

        tensors = {key: torch.from_numpy(value).requires_grad_() for key, value in parameters.items()}
        inputs = [torch.from_numpy(part).requires_grad_() for part in parts.vectors]
        whole = self._run(tensors, inputs)
        if not whole.requires_grad:
            return [np.zeros_like(part) for part in parts.vectors]
        slopes = torch.autograd.grad(
            whole,
            [*inputs, *tensors.values()],
            torch.from_numpy(np.ascontiguousarray(grad)),
            allow_unused=True,
        )
        for key, slope in zip(tensors, slopes[len(inputs) :], strict=True):
            if slope is not None:
                into[key] += slope.numpy()
        return [
            np.zeros_like(part) if slope is None else slope.numpy()
            for part, slope in zip(parts.vectors, slopes[: len(inputs)], strict=True)
        ]


class TorchDistance:
    """A callable of predictions and targets, both [items, *item shape], that returns one number for each item."""

    def __init__(self, call: Callable[..., Any], shape: tuple[int, ...]) -> None:
        self.call = call
        self.shape = shape
        self.name = f"callable {getattr(call, '__name__', type(call).__name__)}"

    def check(self, targets: Floats, shape: tuple[int, ...]) -> None:
        self.per_item(targets, targets)

    def _run(self, predictions: torch.Tensor, targets: Floats) -> torch.Tensor:
        import torch

        wanted = torch.from_numpy(np.asarray(targets, np.float64)).reshape(-1, *self.shape)
        values = self.call(predictions.reshape(-1, *self.shape), wanted)
        if not isinstance(values, torch.Tensor) or values.shape != (len(wanted),):
            raise MeasureError(
                f"the distance must return one number for each item, shape ({len(wanted)},), got {_described(values)}."
            )
        return values

    def per_item(self, predictions: Floats, targets: Floats) -> FloatArray:
        import torch

        with torch.no_grad():
            return np.asarray(self._run(torch.from_numpy(np.array(predictions, np.float64)), targets).numpy())

    def smoothed(self, predictions: FloatArray, targets: Floats, width: float) -> tuple[float, FloatArray]:
        import torch

        inputs = torch.from_numpy(np.ascontiguousarray(predictions)).requires_grad_()
        total = self._run(inputs, targets).sum()
        (slope,) = torch.autograd.grad(total, inputs)
        return float(total.detach()), np.nan_to_num(slope.numpy())

    def bound_within(self, targets: Floats, group: Ints) -> float:
        return 0.0


def _described(value: Any) -> Any:
    """The shape of a tensor, or the type of anything else."""
    return tuple(value.shape) if hasattr(value, "shape") else type(value).__name__
