"""Registries: names for what users can add, which is tasks, models, measures and papers.

    @TASKS.add("listops", presets={"d20s": {}, "lra": {"depth": 10, "arguments": 10}})
    @dataclass(frozen=True)
    class ListOps(Task):
        branching: float = 0.25

An entry is a frozen dataclass whose fields are its settings, so it is printed, hashed, saved and listed with no more
code. `TASKS.build("listops/lra", {"branching": 0.3})` checks names and types and returns the instance. A registry finds
the files of its folder itself (`listops.py` holds `listops`), so a new entry is one new file and there is no list to
extend. A module outside the package registers with the same decorator.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib.util
import pkgutil
import re
import reprlib
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar, cast, get_type_hints

from pomona.base.errors import SpecError, did_you_mean

T = TypeVar("T")


@dataclass(frozen=True)
class Entry(Generic[T]):
    """What a name stands for: the class, and its presets, which are named groups of settings."""

    name: str
    kind: type[T]
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def about(self) -> str:
        return (self.kind.__doc__ or "").strip().split("\n")[0]

    @property
    def names(self) -> list[str]:
        return [f"{self.name}/{preset}" for preset in self.presets] or [self.name]


class Registry(Generic[T]):
    """A table from names to frozen dataclasses, filled by a decorator and from the files of some packages."""

    def __init__(self, kind: str, *packages: str) -> None:
        self.kind, self.packages = kind, packages
        self._entries: dict[str, Entry[T]] = {}
        self._discovered = False

    def add(self, name: str, *, presets: Mapping[str, Mapping[str, Any]] | None = None) -> Callable[[type[T]], type[T]]:
        """A decorator that registers a frozen dataclass under a name, with named groups of settings."""

        def put(kind: type[T]) -> type[T]:
            if not dataclasses.is_dataclass(kind) or not kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
                raise SpecError(f"{kind.__name__} must be a frozen dataclass to be a {self.kind}")
            known = self._entries.get(name)
            if known is not None and known.kind.__qualname__ != kind.__qualname__:
                raise SpecError(f"two {self.kind}s are called {name!r}: {known.kind.__qualname__}, {kind.__qualname__}")
            kind.name = name  # type: ignore[attr-defined]
            self._entries[name] = Entry(name, kind, dict(presets or {}))
            return kind

        return put

    def modules(self) -> dict[str, str]:
        """The modules that hold entries, by their last name. Only the packages are imported, not the modules."""
        return {
            module.name: f"{package}.{module.name}"
            for package in self.packages
            for module in pkgutil.iter_modules(importlib.import_module(package).__path__)
        }

    def entries(self) -> Iterator[Entry[T]]:
        """Every entry, sorted by name. This imports all modules of the packages."""
        if not self._discovered:
            for module in self.modules().values():
                importlib.import_module(module)
            self._discovered = True
        return iter(sorted(self._entries.values(), key=lambda entry: entry.name))

    def abouts(self) -> dict[str, str]:
        """The name and the first line of the description of every entry, from the text of the modules: for where what
        they import is not installed."""
        listed: dict[str, str] = {}
        for module in self.modules().values():
            spec = importlib.util.find_spec(module)
            for node in ast.parse(Path(spec.origin).read_bytes() if spec and spec.origin else "").body:
                calls = [call for call in getattr(node, "decorator_list", ()) if isinstance(call, ast.Call)]
                names = [call.args[0] for call in calls if getattr(call.func, "attr", "") == "add" and call.args]
                if isinstance(node, ast.ClassDef) and names and isinstance(names[0], ast.Constant):
                    listed[str(names[0].value)] = (ast.get_docstring(node) or "").split("\n")[0]
        return dict(sorted(listed.items()))

    def entry(self, name: str) -> tuple[Entry[T], str | None]:
        """The entry and the preset of `name/preset`. Only the file of that name is imported, if there is one."""
        family, _, preset = name.partition("/")
        if name not in self._entries and is_import(name) and name.partition(":")[0] in _TRUSTED:
            self._load(name)
        if family not in self._entries:
            home = self.modules().get(family.replace("-", "_"))
            if home is not None:
                importlib.import_module(home)
        if family not in self._entries:
            known = dict.fromkeys(known for entry in self.entries() for known in [entry.name, *entry.names])
            if family not in self._entries:
                if is_import(name):
                    module = name.partition(":")[0]
                    raise SpecError(f"{name!r} is code of your own, and was not imported: add --import {module}")
                raise SpecError(f"no {self.kind} is called {name!r}. {did_you_mean(name, known)}")
        entry = self._entries[family]
        if preset and preset not in entry.presets:
            raise SpecError(f"{family} has no preset {preset!r}. {did_you_mean(preset, entry.presets)}")
        return entry, preset or None

    def trust(self, module: str) -> None:
        """Import a module of the user's own, after which `module:Class` is a name here. This runs the module's code, so
        do it for what a user typed, never for what a file says."""
        trust(module)

    def _load(self, name: str) -> None:
        kind = imported(name)
        if not isinstance(kind, type) or not hasattr(kind, "build"):
            raise SpecError(f"{name} is no {self.kind}: a frozen dataclass with a method `build` is needed")
        before = getattr(kind, "name", None)
        self.add(name)(kind)
        if before is not None:  # it was registered under a shorter name
            kind.name = before  # type: ignore[attr-defined]

    def build(self, name: str, settings: Mapping[str, Any] | None = None) -> T:
        """The instance of a name, with the settings of its preset and these; wrong names and types are errors."""
        entry, preset = self.entry(name)
        fields = [item.name for item in dataclasses.fields(entry.kind) if item.init]  # type: ignore[arg-type]
        for key in settings or {}:
            if key not in fields:
                raise SpecError(f"{entry.name} has no setting {key!r}. {did_you_mean(key, fields)}")
        chosen = {**(entry.presets[preset] if preset else {}), **(settings or {})}
        return validated(entry.kind, chosen, entry.name)


_TRUSTED: set[str] = set()  # modules that a user has named, so that `module:Class` may be built
_IMPORT = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def is_import(name: str) -> bool:
    """Whether a name is written as package.module:thing."""
    return _IMPORT.fullmatch(name) is not None


def trust(module: str) -> None:
    """Import a module of the user's own, which runs its code: do it for what a user typed, never for what a file says.

    What the module registers is then known by name, and `module:Class` is a name as well.
    """
    if not is_import(f"{module}:x"):
        raise SpecError(f"{module!r} is no name of a module; write it as in an import statement, for example mymodels")
    imported(f"{module}:")
    _TRUSTED.add(module)


def imported(name: str) -> Any:
    """What `package.module:thing` names. The working folder is searched too, after everything installed."""
    module, _, path = name.partition(":")
    name = name.removesuffix(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        value: Any = importlib.import_module(module)
    except ModuleNotFoundError as missing:
        if missing.name is None or not f"{module}.".startswith(f"{missing.name}."):
            raise  # the module exists, but something that it imports does not
        raise SpecError(f"{name}: there is no module {missing.name!r}, neither installed nor in {here}") from None
    except (SpecError, ImportError, OSError, MemoryError):
        raise
    except Exception as error:  # of the user's own code
        raise SpecError(f"{module} could not be imported: {type(error).__name__}: {error}") from error
    for part in filter(None, path.split(".")):
        if not hasattr(value, part):
            known = [known for known in vars(value) if not known.startswith("_")] if hasattr(value, "__dict__") else []
            raise SpecError(f"{name}: {module} has no {part!r}. {did_you_mean(part, known)}")
        value = getattr(value, part)
    return value


def validated(kind: type[T], settings: Mapping[str, Any], name: str) -> T:
    """An instance of a dataclass from plain values; each value of the wrong type is named."""
    plain = _of_their_types(kind, settings)
    if plain is not None:
        with suppress(ValueError, TypeError):  # own checks, a missing setting: what follows says it in usual words
            return kind(**plain)
    import pydantic

    try:
        return cast(T, _checker(cast(Any, kind)).validate_python(dict(settings)))
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "settings"
        given, why = reprlib.repr(first["input"]), first["msg"].removeprefix("Value error, ")
        raise SpecError(f"{name}: {place} = {given}: {why}") from None


@cache
def _checker(kind: type) -> Any:
    """Pydantic's checker of a dataclass, which takes milliseconds to make: ten times as long as to use."""
    import pydantic

    return pydantic.TypeAdapter(kind)


_hints = cache(get_type_hints)


def _of_their_types(kind: type, settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """The settings, if each is a number, text or truth value of exactly its field's type; else None.

    These need no conversion, and so not Pydantic, whose import takes a tenth of a second.
    """
    hints = _hints(kind) if settings else {}
    plain: dict[str, Any] = {}
    for name, value in settings.items():
        hint = hints.get(name)
        if hint is float and type(value) is int:
            plain[name] = float(value)
        elif hint in (int, float, str, bool) and type(value) is hint:
            plain[name] = value
        else:
            return None
    return plain


def settings_of(instance: Any) -> dict[str, Any]:
    """Every setting of a registered value as plain JSON values."""
    fields = [item.name for item in dataclasses.fields(instance) if item.init]
    return {name: plain_setting(getattr(instance, name)) for name in fields}


def plain_setting(value: Any) -> Any:
    """The value of a setting as JSON has it."""
    try:
        return _plain(value)
    except RecursionError:
        raise SpecError("a setting is nested too deeply") from None


def _plain(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise SpecError(f"a setting holds numbers, strings and lists of them; got {value!r}")


def parse_settings(pairs: list[str]) -> dict[str, Any]:
    """Settings from the command line: `branching=0.3`, `operators=MIN,MAX`, `length=[20,100]`.

    >>> parse_settings(["branching=0.3", "operators=MIN,MAX"])
    {'branching': 0.3, 'operators': ['MIN', 'MAX']}
    """
    import json

    settings: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise SpecError(f"a setting is written name=value; got {pair!r}")
        try:
            settings[key] = json.loads(text)
        except (ValueError, RecursionError):
            settings[key] = text.split(",") if "," in text else text
    return settings
