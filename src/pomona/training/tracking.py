"""Learning curves for other programs: a tracker is one file in `pomona.training.trackers`, found by its name.

    follow("runs/tree", ["tensorboard"])      whatever is new in the curve since the last call; nothing is sent twice

A tracker reads the curve that a run keeps, so the training knows nothing of it, and finished runs can be tracked too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pomona.base.registry import Registry
from pomona.base.shapes import COUNT, check
from pomona.training.run import Run


@dataclass(frozen=True)
class Tracker:
    """Where curves are shown. A new one defines `send`, and registers with `@TRACKERS.add("name")`."""

    name: ClassVar[str]

    def send(self, run: Run, entries: Sequence[Mapping[str, Any]]) -> None:
        """Show these epochs of a run. After a crash the last ones may come again."""
        raise NotImplementedError(f"{type(self).__name__} must define send(run, entries)")


TRACKERS: Registry[Tracker] = Registry("tracker", "pomona.training.trackers")


def follow(folder: str | Path, names: Iterable[str]) -> None:
    """Send what is new in the curve of a run to these trackers."""
    for name in names:
        tracker, run = TRACKERS.build(name), Run.read(folder)
        curve, noted = run.curve, f"tracked-{name}.json"
        sent = check(run.read_json(noted), {"epochs?": COUNT}, run.folder / noted).get("epochs", 0)
        if len(curve) > sent:
            tracker.send(run, curve[sent:])
            run.write(noted, {"epochs": len(curve)})


def follower(folder: str | Path, names: Sequence[str]) -> Callable[[Any], None] | None:
    """A function for `train(progress=...)` that follows the run after each epoch; None if there is no tracker."""
    for name in names:
        TRACKERS.build(name)  # a wrong name is an error before the training
    last = -1

    def report(now: Any) -> None:
        nonlocal last
        if now.epoch != last:
            last = now.epoch
            follow(folder, names)

    return report if names else None
