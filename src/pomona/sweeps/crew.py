"""Orders worked on side by side: started as there is room, tried again when a worker died, named when they fail.

crew = Crew(engine, Path("runs"))
crew.finish(orders, look=lambda waiting: None)
crew.failed                       {"lstm-rate=1e+30-seed=0": "the loss is nan ..."}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from pomona.base import files
from pomona.sweeps.local import Ended, Engine
from pomona.sweeps.orders import Order

FAILED = "failed"
RETRIES = 2
LOOK_SECONDS = 1.0  # between two looks at the work

O = TypeVar("O", bound=Order)  # noqa: E741 - an order


@dataclass
class Crew(Generic[O]):
    """What is running and what has failed, and the engine that does it. `folder/failed/NAME.txt` has each error."""

    engine: Engine
    folder: Path
    retries: int = RETRIES
    running: dict[str, O] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)

    def finish(self, orders: Iterable[O], look: Callable[[int], None]) -> None:
        """Work on all orders to the end; `look` is called about once a second with the number of those that wait."""
        waiting = list(orders)
        while waiting or self.running:
            while waiting and len(self.running) < self.engine.slots:
                self.start(waiting.pop(0))
            for ended in self.engine.poll(LOOK_SECONDS):
                order = self.running[ended.name]
                if self.ended(ended):
                    waiting.append(order)
            look(len(waiting))

    def start(self, order: O) -> None:
        self.running[order.name] = order
        self.engine.submit(order)

    def ended(self, ended: Ended) -> bool:
        """Note how an order ended; whether it is to be tried again."""
        del self.running[ended.name]
        path = self.folder / FAILED / f"{ended.name}.txt"
        if ended.error is None:
            path.unlink(missing_ok=True)
            return False
        self.attempts[ended.name] = self.attempts.get(ended.name, 0) + 1
        if not ended.final and self.attempts[ended.name] <= self.retries:
            return True
        self.failed[ended.name] = ended.error
        files.write_text(path, f"{ended.error}\n\n{ended.traceback}".rstrip() + "\n")
        return False
