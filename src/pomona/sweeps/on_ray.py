"""Workers of a Ray cluster: each run is a task of Ray with one core.

`base.ray_cluster` says which cluster that is. All workers must see the folder of the sweep under the same path.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from pomona.base.ray_cluster import cluster
from pomona.sweeps.local import Ended
from pomona.sweeps.orders import Order, answer


class OnRay:
    """An engine whose workers are tasks of Ray, one core each; Ray is connected inside `with`."""

    def __init__(self, address: str = "", workers: int | None = None) -> None:
        self._address, self._workers, self.slots = address, workers, 1
        self._names: dict[Any, str] = {}
        self._open = ExitStack()

    def __enter__(self) -> OnRay:
        self._ray = self._open.enter_context(cluster(self._address, self._workers))
        self.slots = max(1, self._workers or int(self._ray.cluster_resources().get("CPU", 1)))
        self._remote = self._ray.remote(num_cpus=1, max_retries=0)(answer)
        return self

    def __exit__(self, *error: Any) -> None:
        with self._open:
            for task in self._names:
                self._ray.cancel(task, force=True)
            self._names.clear()

    def submit(self, order: Order) -> None:
        self._names[self._remote.remote(order.as_text())] = order.name

    def poll(self, seconds: float) -> list[Ended]:
        if not self._names:
            return []
        ready, _ = self._ray.wait(list(self._names), num_returns=1, timeout=seconds)
        return [self._ended(task) for task in ready]

    def _ended(self, task: Any) -> Ended:
        name = self._names.pop(task)
        try:
            result = self._ray.get(task)
        except self._ray.exceptions.RayError as error:
            return Ended(name, f"its worker ended: {type(error).__name__}", str(error))
        return Ended(name, result["error"], result.get("traceback", ""), result.get("final", False))

    def cancel(self, name: str) -> None:
        for task in [task for task, known in self._names.items() if known == name]:
            del self._names[task]
            self._ray.cancel(task, force=True)
