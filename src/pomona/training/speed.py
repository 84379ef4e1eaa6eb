"""How fast a run is, and how long the rest of it takes."""

from __future__ import annotations

import time

WINDOW = 20.0  # seconds over which the speed is measured


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
