"""The pieces of a paper's work, done side by side by worker processes here or on Ray.

A paper's `measure` does its work in pieces (`Plan.done`). Here it is called with a plan that only writes down which
pieces are missing, they are ordered from the engine, and it is called again: a search has found new ones by then. When
none is missing, what it returns is what it returns if one piece is done after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from pomona.sweeps.crew import RETRIES, Crew
from pomona.sweeps.orders import Order
from pomona.sweeps.sweep import On, engine_of, owned

Work: TypeAlias = Callable[[], None]
Leave: TypeAlias = Callable[[str, Work], bool]  # what becomes of a piece of this name; whether it is done now
R = TypeVar("R")


@dataclass(frozen=True)
class Elsewhere:
    """Where the pieces are worked on."""

    on: On = "local"
    workers: int | None = None  # at a time; by default one for each core
    address: str = ""  # of a Ray cluster
    modules: tuple[str, ...] = ()  # of the user's own, for the workers
    retries: int = RETRIES


def all_pieces(
    measure: Callable[[Leave], R],
    order: Callable[[str], Order],
    folder: Path,
    elsewhere: Elsewhere,
    say: Callable[[str], None],
) -> tuple[R, dict[str, str]]:
    """What `measure` returns when no piece is missing, and the pieces that failed with their errors."""
    with ExitStack() as opened:
        opened.enter_context(owned(folder))
        crew: Crew[Any] | None = None
        ordered: set[str] = set()
        while True:
            noted = _Noted(ordered)
            found = measure(noted)
            orders = [order(name) for name in noted.names]
            ordered.update(noted.names)
            if not orders:  # what was done and is still missing has failed, or has nothing to show
                return found, crew.failed if crew else {}
            if crew is None:
                told: Any = {"on": elsewhere.on, "workers": elsewhere.workers, "address": elsewhere.address}
                crew = Crew(opened.enter_context(engine_of(told)), folder, elsewhere.retries)
            crew.finish(orders, _Reporter(crew, len(orders), say))


class _Noted:
    """Leaves every piece, and notes the names of those that were not ordered before."""

    def __init__(self, ordered: Collection[str]) -> None:
        self.ordered = ordered
        self.names: dict[str, None] = {}

    def __call__(self, name: str, work: Work) -> bool:
        if name not in self.ordered:
            self.names[name] = None
        return False


class _Reporter:
    """Says how far the work is whenever that has changed."""

    def __init__(self, crew: Crew[Any], pieces: int, say: Callable[[str], None]) -> None:
        self.crew, self.pieces, self.say, self.last = crew, pieces, say, ""
        self.before = len(crew.failed)

    def __call__(self, waiting: int) -> None:
        running, failed = list(self.crew.running), list(self.crew.failed)[self.before :]
        done = self.pieces - waiting - len(running) - len(failed)
        parts = [f"{done} of {self.pieces} done"]
        parts += [f"running: {', '.join(running)}"] if running else []
        parts += [f"failed: {', '.join(failed)}"] if failed else []
        now = "; ".join(parts)
        if now != self.last:
            self.last = now
            self.say(now)
