"""Compiled loops: functions of numbers and arrays that run as machine code, without the interpreter lock.

    @compiled
    def total(values: Ints) -> int: ...

Only this module and `machine_code` use Numba. The decorators return a `Loop`, which does nothing until
it is first called, so that a module with many loops is imported quickly and a command that runs none of them never
loads Numba. The first call after an installation compiles (seconds); later processes load the machine code from disk.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")

_lock = threading.Lock()  # of threads that call a loop for the first time


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function of numbers and arrays to machine code."""
    return _loop(function)


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a small function that is called from compiled loops: it is inlined there."""
    return _loop(function, inline="always")


def fused(function: Callable[P, R]) -> Callable[P, R]:
    """Compile arithmetic over long rows of floats, eight at a time: x / 0 is infinite, a * b + c rounds once."""
    return _loop(function, error_model="numpy", fastmath={"contract"})


def summed(function: Callable[P, R]) -> Callable[P, R]:
    """Compile sums along rows, whose terms may be added in another order (the same order every time)."""
    return _loop(function, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})


def _loop(function: Callable[P, R], **settings: Any) -> Callable[P, R]:
    return cast(Callable[P, R], Loop(cast(FunctionType, function), settings))


class Loop:
    """A function that Numba compiles at its first call.

    All attributes but the function's own are those of Numba's dispatcher, which is made when one is asked for. By them
    Numba also knows a loop that another loop calls.
    """

    def __init__(self, function: FunctionType, settings: dict[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self._function, self._settings = function, settings
        self._dispatcher: Any = None

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return (self._dispatcher or self._compiled())(*arguments, **named)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # whoever looks for these inspects the function and does not want Numba
            raise AttributeError(f"{self!r} has no attribute {name!r}")
        return getattr(self._compiled(), name)

    def __repr__(self) -> str:
        return f"<compiled loop {self._function.__module__}.{self._function.__qualname__}>"

    def _compiled(self) -> Any:
        with _lock:
            if self._dispatcher is None:
                self._dispatcher = _dispatcher(self._function, self._settings)
            return self._dispatcher


def _dispatcher(function: FunctionType, settings: dict[str, Any]) -> Any:
    from pomona.base import machine_code

    return machine_code.dispatcher(function, settings)
