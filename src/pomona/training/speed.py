"""How fast a run is, how long the rest of it takes, and how that is shown."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pomona.base.progress import shown, silenced

MARKS = 1000  # in which the length of a run is counted
WINDOW = 20.0  # seconds over which the speed is measured


@contextmanager
def watched(what: str, progress: Callable[[Any], None] | bool | None) -> Iterator[Callable[[Any], None] | None]:
    """The function to call after every step: the one that is given; one that shows a bar; or None for False."""
    if progress is False or callable(progress):
        with silenced():  # the data that are drawn on the way, too
            yield progress or None
        return
    with shown(what, MARKS) as step:
        done = 0

        def report(now: Any) -> None:
            nonlocal done
            reached = MARKS * now.step // max(1, now.steps)
            step(reached - done, f"epoch {now.epoch + 1}, loss {now.loss:.3f}, {now.examples_per_second:,.0f} a second")
            done = reached

        yield report


class Speed:
    """Examples per second and time left, measured in wall-clock time over the last seconds."""

    def __init__(self) -> None:
        self._marks = [(time.monotonic(), 0, 0)]  # time, steps, examples

    def add(self, examples: int) -> None:
        """Count one step on this many examples."""
        _, steps, seen = self._marks[-1]
        self._marks.append((time.monotonic(), steps + 1, seen + examples))
        while self._marks[-1][0] - self._marks[0][0] > WINDOW and len(self._marks) > 2:
            self._marks.pop(0)

    @property
    def _window(self) -> tuple[float, int, int]:
        (begin, first, old), (end, last, new) = self._marks[0], self._marks[-1]
        return max(end - begin, 1e-9), last - first, new - old

    @property
    def rate(self) -> float:
        seconds, _, examples = self._window
        return examples / seconds

    def seconds_for(self, steps: int) -> float:
        seconds, done, _ = self._window
        return steps * seconds / max(1, done)
