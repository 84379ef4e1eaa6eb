"""Names of a package that are imported when they are first used, so that `import pomona` costs nothing.

    __getattr__, __dir__ = lazy_names(__name__, {"draw": "drawing", "read": "brackets"})

after which `pomona.trees.draw` imports `pomona.trees.drawing`. A home may also say where in the module the value is:
`"task": "data.task:TASKS.add"`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

from pomona.base.errors import did_you_mean


def lazy_names(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The functions `__getattr__` and `__dir__` of a package whose names live in these modules of it."""

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"{package} has no {name!r}. {did_you_mean(name, homes)}")
        value = value_at(package, homes[name], name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return get, names


def value_at(package: str, home: str, name: str) -> Any:
    """What a home describes: the value of this name in a module, or what stands behind the colon; `:` is the module."""
    module, colon, path = home.partition(":")
    from pomona.base.extras import extras_named  # here, so that `import pomona` loads nothing

    with extras_named():
        value: Any = importlib.import_module(f"{package}.{module}")
    for part in (path if colon else name).split("."):
        value = getattr(value, part) if part else value
    return value
