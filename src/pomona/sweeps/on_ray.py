"""Workers of a Ray cluster: one that runs at `address`, or one on this machine that is started and stopped here.

Ray is the extra `cluster` (`pip install 'pomona[cluster]'`). A cluster that is started here has no dashboard and sends
no usage statistics; it is told to use 127.0.0.1, but Ray 2.60 listens on all interfaces all the same.
All workers must see the folder of the sweep under the same path.
"""

from __future__ import annotations

import os
from typing import Any

from pomona.base.errors import RunError
from pomona.base.extras import extras_named
from pomona.sweeps.local import Ended
from pomona.sweeps.work import Order

STARTS = 2  # tries to start Ray here: on a busy machine its own time-outs end the first


class OnRay:
    """An engine whose workers are tasks of Ray, one core each."""

    def __init__(self, address: str = "", workers: int | None = None) -> None:
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        with extras_named():
            import ray
        self._ray = ray
        self._started = not ray.is_initialized()
        if self._started:
            self._start(address, workers)
        self.slots = max(1, workers or int(ray.cluster_resources().get("CPU", 1)))
        self._remote = ray.remote(num_cpus=1, max_retries=0)(answer)
        self._names: dict[Any, str] = {}

    def _start(self, address: str, workers: int | None) -> None:
        here = {} if address else {"num_cpus": workers, "_node_ip_address": "127.0.0.1", "include_dashboard": False}
        for left in reversed(range(STARTS)):
            try:
                self._ray.init(address or "local", log_to_driver=False, logging_level="ERROR", **here)
                return
            except Exception as error:
                self._ray.shutdown()
                if not left:
                    where = f"the cluster at {address}" if address else "Ray on this machine"
                    raise RunError(f"{where} cannot be reached: {error}") from error

    def __enter__(self) -> OnRay:
        return self

    def __exit__(self, *error: Any) -> None:
        for task in self._names:
            self._ray.cancel(task, force=True)
        self._names.clear()
        if self._started:
            self._ray.shutdown()

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


def answer(order: str) -> dict[str, Any]:
    """Work on an order in a worker of Ray; the error, if there was one."""
    from pomona.sweeps.work import work
    from pomona.sweeps.worker import described

    try:
        work(Order.from_text(order))
    except Exception as error:
        return described(error)
    return {"error": None}
