"""Everything that can go wrong, as one family of errors.

    PomonaError
    ├── SpecError      a name or a setting that does not exist, or a value that is not allowed
    ├── TreeError      text or arrays that are not a tree
    ├── FormatError    a file that is not what it says, with file, line and column
    ├── SplitError     train, dev and test that share examples, or a split that is too small
    ├── FairnessError  node-labelled data that contradicts itself or lacks what a certificate needs
    ├── MeasureError   representations, predictions or trees that a measure cannot take
    ├── RunError       a run folder that belongs to another recipe, cannot be written, or cannot be resumed
    └── MissingPackageError    a package of an extra of the install, for example torch

Each message says what was given and where, what is allowed, and what to do next. The command line turns every one of
them into exit status 3.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path

LONGEST = 2_000  # characters of a message


class PomonaError(Exception):
    """The root of the family; catch this to catch all of Pomona's own errors.

    `code` are lines of Python to type instead; they end the message, each on a line of its own.
    """

    def __init__(self, message: str = "", *more: object, code: Iterable[str] = ()) -> None:
        self.code = tuple(code)
        super().__init__(_readable(str(message)) + self.lines, *more)

    @property
    def lines(self) -> str:
        return "".join(f"\n    {line}" for line in self.code)


def _readable(message: str) -> str:
    """A message that a person can read: text from a file may be as long as the file."""
    return message if len(message) <= LONGEST else f"{message[: LONGEST - 300]} ... {message[-200:]}"


class SpecError(PomonaError):
    """A name or a setting that does not exist, or a value that is not allowed."""


class TreeError(PomonaError):
    """Text or arrays that are not a tree. `column` counts characters from 1 where the text has one line."""

    def __init__(self, message: str, *, column: int | None = None) -> None:
        super().__init__(message if column is None else f"column {column}: {message}")
        self.column = column


class FormatError(PomonaError):
    """A file that is not what it says it is. The message begins with file, line and column, if they are known."""

    def __init__(
        self, message: str, *, path: str | Path | None = None, line: int | None = None, column: int | None = None
    ) -> None:
        location = [str(path)] if path is not None else []
        location += [f"line {line}"] if line is not None else []
        location += [f"column {column}"] if column is not None else []
        super().__init__(f"{', '.join(location)}: {message}" if location else message)
        self.path, self.line, self.column = path, line, column


class SplitError(PomonaError):
    """Train, dev and test that share examples, or a split that cannot be made as large as asked."""


class FairnessError(PomonaError):
    """Node-labelled data that contradicts itself or lacks what a certificate needs."""


class MeasureError(PomonaError):
    """Representations, predictions or trees that a measure cannot take."""


class RunError(PomonaError):
    """A run folder that belongs to another recipe, cannot be written, or cannot be resumed."""


class RunInUseError(RunError):
    """Another process is training in the folder; later it can be opened."""


class MissingPackageError(PomonaError, ImportError):
    """A package that only some parts need and that is not installed; the message says how to install it."""


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """A closing sentence for an unknown name: the most similar known name, or else all of them.

    >>> did_you_mean("treelstn", ["lstm", "treelstm"])
    "Did you mean 'treelstm'?"
    """
    names = sorted(known)
    near = difflib.get_close_matches(given, names, n=1, cutoff=0.6)
    if near:
        return f"Did you mean {near[0]!r}?"
    return f"Known: {', '.join(names)}." if names else "There are none."
