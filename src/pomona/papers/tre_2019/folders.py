"""The folder of an experiment: its settings, and results that are saved piece by piece.

    folder = Folder.open("runs/tre_2019/cpu/game-code", {"seed": 0, "pairs": 100})
    folder.write("languages.json", ...)
    with folder.locked(): ...

A folder cannot be opened with other settings than it was created with, so results of two experiments never mix.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pomona.base import files
from pomona.base.errors import FormatError, RunError
from pomona.base.locks import InUse, locked
from pomona.base.shapes import ANYTHING, check

Say = Callable[[str], None]


@dataclass(frozen=True)
class Folder:
    """A folder with `settings.json` and the results of one experiment."""

    path: Path

    @classmethod
    def open(cls, path: str | Path, settings: Mapping[str, Any]) -> Folder:
        """A new folder, or an existing one that was created with the same settings."""
        folder = cls(Path(path))
        plain = json.loads(json.dumps(settings))
        known = folder.read("settings.json", None, {})
        if known is None:
            if folder.path.is_dir() and not files.is_empty(folder.path):
                raise RunError(
                    f"{path} is not empty and holds no experiment; nothing was changed. Choose another folder."
                )
            folder.write("settings.json", plain)
        elif known != plain:
            names = sorted(name for name in {*known, *plain} if known.get(name, ...) != plain.get(name, ...))
            raise RunError(
                f"{path} was created with other settings ({', '.join(names)}): there {names[0]} = "
                f"{known.get(names[0])!r}, here {plain.get(names[0])!r}. Nothing was changed; choose another folder."
            )
        return folder

    @contextmanager
    def locked(self, part: str = "") -> Iterator[None]:
        """Keep other processes from working on this folder, or on one part of it, until the block or process ends."""
        try:
            with locked(self.path / f".lock{part}"):
                yield
        except InUse:
            what = f"{part} in {self.path}" if part else str(self.path)
            raise RunError(f"another process works on {what}; wait until it ends") from None

    def read(self, name: str, default: Any, shape: Any = ANYTHING) -> Any:
        """A JSON document of the folder, whose parts must have their kinds; `default` if there is none."""
        path = self.path / name
        try:
            return check(files.read_json(path), shape) if path.exists() else default
        except FormatError as error:
            raise RunError(f"{path} cannot be read: {error}") from None

    def write(self, name: str, value: Any) -> None:
        try:
            files.write_json(self.path / name, value)
        except FormatError as error:
            raise RunError(f"the experiment cannot be saved: {error}") from error

    def write_bytes(self, name: str, content: bytes) -> None:
        try:
            files.write_bytes(self.path / name, content)
        except FormatError as error:
            raise RunError(f"the experiment cannot be saved: {error}") from error
