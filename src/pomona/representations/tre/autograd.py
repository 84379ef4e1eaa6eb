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

FAILURES = (ArithmeticError, AttributeError, IndexError, RuntimeError, TypeError, ValueError)  # of the user's own code
PREFIX = "module."  # before the names of a module's parameters: solvers know "maps" and "scale" as their own


class TorchComposition:
    """A callable that takes one tensor [batch, numbers] for each part and returns the wholes.

    A `torch.nn.Module` is copied, and its parameters are drawn anew for each fit; the user's own is never changed.
    Parameters with requires_grad=False keep their values. The module computes in double precision on its own device,
    and in evaluation mode: dropout would make the minimum a matter of chance.
    """

    linear = False

    def __init__(self, call: Callable[..., Any]) -> None:
        import torch

        self.module = copy.deepcopy(call).double().eval() if isinstance(call, torch.nn.Module) else None
        self.call = call
        self.name = getattr(call, "__name__", type(call).__name__)

    @property
    def device(self) -> Any:
        """Where the module's parameters are; the CPU for a function."""
        import torch

        first = next(self.module.parameters(), None) if self.module is not None else None
        return torch.device("cpu") if first is None else first.device

    def initial(self, shape: tuple[int, ...], arity: int, rng: np.random.Generator) -> Parameters:
        if self.module is None:
            return {}
        import torch

        fixed = {name: value.clone() for name, value in self.module.named_parameters() if not value.requires_grad}
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(int(rng.integers(2**62)))
            for module in self.module.modules():
                if hasattr(module, "reset_parameters"):
                    module.reset_parameters()  # type: ignore[operator]
        with torch.no_grad():
            for name, value in fixed.items():
                self.module.get_parameter(name).copy_(value)
        kept = self._never_reset()
        parameters = {}
        for name, value in self.module.named_parameters():
            if value.requires_grad:
                noise = 0.1 * rng.normal(size=tuple(value.shape)) if name in kept else 0.0
                parameters[PREFIX + name] = np.asarray(value.detach().cpu().numpy() + noise)
        return parameters

    def _never_reset(self) -> set[str]:
        """Parameters that no `reset_parameters` draws: they start near the values that the user gave them."""
        assert self.module is not None
        return {
            f"{prefix}.{name}" if prefix else name
            for prefix, module in self.module.named_modules()
            if not hasattr(module, "reset_parameters")
            for name, _ in module.named_parameters(recurse=False)
        }

    def _run(self, tensors: dict[str, torch.Tensor], parts: Sequence[torch.Tensor]) -> torch.Tensor:
        import torch

        try:
            if self.module is not None:
                named = {key.removeprefix(PREFIX): tensor for key, tensor in tensors.items()}
                whole = torch.func.functional_call(self.module, named, tuple(parts))
            else:
                whole = self.call(*parts)
        except FAILURES as error:
            raise MeasureError(_failed(f"the composition {self.name!r}", error, parts)) from error
        if not isinstance(whole, torch.Tensor) or whole.shape != parts[0].shape:
            raise MeasureError(
                f"the composition {self.name!r} must return a tensor of shape {tuple(parts[0].shape)}, "
                f"got {_described(whole)}. Write it with torch, for example torch.maximum instead of np.maximum."
            )
        return whole

    def _tensor(self, array: FloatArray) -> torch.Tensor:
        import torch

        return torch.from_numpy(array).to(self.device)

    def forward(self, parameters: Parameters, parts: Parts) -> FloatArray:
        import torch

        with torch.no_grad():
            tensors = {key: self._tensor(value) for key, value in parameters.items()}
            whole = self._run(tensors, [self._tensor(part) for part in parts.vectors])
            return np.asarray(whole.cpu().numpy(), np.float64)

    def backward(self, parameters: Parameters, parts: Parts, grad: FloatArray, into: Parameters) -> list[FloatArray]:
        import torch

        tensors = {key: self._tensor(value).requires_grad_() for key, value in parameters.items()}
        inputs = [self._tensor(part).requires_grad_() for part in parts.vectors]
        whole = self._run(tensors, inputs)
        if not whole.requires_grad:
            raise MeasureError(
                f"the composition {self.name!r} has no gradient. Write it with torch, without NumPy or detach()."
            )
        wanted = [*inputs, *tensors.values()]
        above = self._tensor(np.ascontiguousarray(grad)).to(whole.dtype)
        slopes = [
            None if slope is None else slope.cpu().numpy()
            for slope in torch.autograd.grad(whole, wanted, above, allow_unused=True)
        ]
        for key, slope in zip(tensors, slopes[len(inputs) :], strict=True):
            if slope is not None:
                into[key] += slope
        return [
            np.zeros_like(part) if slope is None else slope
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
        try:
            values = self.call(predictions.reshape(-1, *self.shape), wanted)
        except FAILURES as error:
            raise MeasureError(_failed(f"the {self.name}", error, (predictions, wanted))) from error
        if not isinstance(values, torch.Tensor) or values.shape != (len(wanted),):
            raise MeasureError(
                f"the distance must return one number for each item, a tensor of shape ({len(wanted)},), "
                f"got {_described(values)}."
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
        if not total.requires_grad:
            raise MeasureError(f"the {self.name} has no gradient. Write it with torch, without NumPy or detach().")
        (slope,) = torch.autograd.grad(total, inputs)
        return float(total.detach()), np.nan_to_num(slope.numpy())

    def bound_within(self, targets: Floats, group: Ints) -> float:
        return 0.0


def _described(value: Any) -> str:
    """The type of a value, and its shape if it has one."""
    shape = f" of shape {tuple(value.shape)}" if hasattr(value, "shape") else ""
    return f"{type(value).__name__}{shape}"


def _failed(what: str, error: Exception, tensors: Sequence[torch.Tensor]) -> str:
    """What the user's own code was given when it failed."""
    shapes = ", ".join(str(tuple(tensor.shape)) for tensor in tensors)
    reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
    return (
        f"{what} failed on tensors of shape {shapes} ({tensors[0].dtype}): {reason}. "
        f"It is given tensors and must use torch, not NumPy."
    )
