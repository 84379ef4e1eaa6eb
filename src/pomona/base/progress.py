"""Progress of long work in Python: a bar in a terminal, a line in a notebook, and nothing anywhere else.

    with shown("training", steps) as step:          # `progress=False` or no terminal: nothing is printed
        for ...: step(1)

Nothing is shown of work that takes less than a second, and what was shown is removed at the end. The commands of
`pomona` have bars of their own and call `silence` first.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

DELAY = 1.0  # seconds before anything is shown
EVERY = 0.5  # seconds between two lines in a notebook

Step = Callable[..., None]  # called with the number of items done since the last call, and perhaps a note

_silent = False


def silence() -> None:
    """Show no progress from now on, whatever the place."""
    global _silent
    _silent = True


@contextmanager
def silenced() -> Iterator[None]:
    """Show no progress inside the block."""
    global _silent
    before, _silent = _silent, True
    try:
        yield
    finally:
        _silent = before


def place() -> str:
    """Where progress can be shown: "terminal", "notebook", or "" for nowhere."""
    if _silent:
        return ""
    if "ipykernel" in sys.modules:
        return "notebook"
    return "terminal" if sys.stderr is not None and sys.stderr.isatty() else ""


@contextmanager
def shown(what: str, total: int) -> Iterator[Step]:
    """Show how many of `total` items are done; the block gets the function to count them with."""
    where = place()
    meter = _Line(what, total) if where == "notebook" else _Bar(what, total) if where else None
    try:
        yield meter.step if meter else _nothing
    finally:
        if meter:
            meter.close()


def _nothing(done: int, note: str = "") -> None:
    pass


class _Meter:
    """Counts items and decides when to show them."""

    def __init__(self, what: str, total: int) -> None:
        self.what, self.total, self.done, self.note = what, max(total, 1), 0, ""
        self.began, self.last = time.monotonic(), 0.0

    def step(self, done: int, note: str = "") -> None:
        self.done, self.note = self.done + done, note or self.note
        now = time.monotonic()
        if now - self.began > DELAY and now - self.last > EVERY:
            self.last = now
            self.show()

    def show(self) -> None: ...

    def close(self) -> None: ...


class _Line(_Meter):
    """One line of text that is written again and again."""

    width = 0

    def show(self) -> None:
        text = f"{self.what}: {min(self.done / self.total, 1):.0%}  {self.note}".rstrip()
        print(f"\r{text:<{self.width}}", end="", flush=True)
        self.width = max(self.width, len(text))

    def close(self) -> None:
        if self.width:
            print("\r" + " " * self.width + "\r", end="", flush=True)


class _Bar(_Meter):
    """A bar of rich on standard error."""

    bar = None

    def show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        if self.bar is None:
            columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeRemainingColumn())
            self.bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self.job = self.bar.add_task(self.what, total=self.total)
            self.bar.start()
        self.bar.update(self.job, completed=min(self.done, self.total), description=f"{self.what}  {self.note}".strip())

    def close(self) -> None:
        if self.bar is not None:
            self.bar.stop()
