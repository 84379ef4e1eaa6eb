"""What a worker is told: an order is one line of JSON, never a pickle, and knows how to do itself.

    perform(RunOrder("runs/lstm-seed=0", recipe.plain).as_text())         in another process, on another machine

A worker works in the folder that the order was given in, so that relative paths mean the same there.
"""

from __future__ import annotations

import json
import os
import traceback
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from pomona.base.errors import PomonaError, RunError


@dataclass(frozen=True)
class Order:
    """One piece of work, all plain values."""

    @property
    def name(self) -> str:
        """What tells it from the others; no slash in it."""
        raise NotImplementedError(f"{type(self).__name__} must define name")

    def do(self) -> None:
        """Work to the end. What was done before an interruption is not done again."""
        raise NotImplementedError(f"{type(self).__name__} must define do()")

    def as_text(self) -> str:
        kind = type(self)
        return json.dumps({"kind": f"{kind.__module__}:{kind.__qualname__}", "at": str(Path.cwd()), **asdict(self)})


def perform(text: str) -> None:
    """Do what an order says."""
    told: dict[str, Any] = json.loads(text)
    module, _, name = told.pop("kind").partition(":")
    folder = told.pop("at")
    try:
        os.chdir(folder)
    except OSError as error:
        raise RunError(
            f"this worker cannot work in {folder} ({error.strerror}): all machines must see the same folders under the "
            "same paths, for example on a shared file system"
        ) from None
    kind: type[Order] = getattr(import_module(module), name)
    kind(**{part: tuple(value) if isinstance(value, list) else value for part, value in told.items()}).do()


def described(error: BaseException) -> dict[str, Any]:
    """An error in one line, with its traceback; one of ours is final, since another try would end the same way."""
    short = str(error).strip() if isinstance(error, PomonaError) else f"{type(error).__name__}: {error}".strip()
    trace = "".join(traceback.format_exception(error))
    return {"error": short or type(error).__name__, "traceback": trace, "final": isinstance(error, PomonaError)}


def answer(text: str) -> dict[str, Any]:
    """Do what an order says; the error as plain values, if there was one."""
    try:
        perform(text)
    except Exception as error:
        return described(error)
    return {"error": None}
