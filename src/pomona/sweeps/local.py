"""Worker processes on this machine, one for each core, each with one thread of torch.

    with Local(workers=2) as engine:
        engine.submit(order)
        engine.poll(1.0)            [Ended("lstm-seed=0", None, "")], once it has ended

A worker does one run after another, so that torch is loaded once. One that is killed is noticed at once and replaced.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

from pomona.base.workers import environment
from pomona.sweeps.orders import Order

STOP_SECONDS = 5.0  # a worker that is told to end is killed after this time


@dataclass(frozen=True)
class Ended:
    """How a run's work ended: no error, or what went wrong."""

    name: str
    error: str | None
    traceback: str = ""
    final: bool = False  # another try would end the same way


class Engine(Protocol):
    """Where runs are worked on."""

    slots: int  # how many orders are worth submitting at a time

    def submit(self, order: Order) -> None:
        """Start to work on an order, at once or when there is room."""

    def poll(self, seconds: float) -> list[Ended]:
        """What has ended since the last call; wait for it no longer than this."""

    def cancel(self, name: str) -> None:
        """End the work on a run; nothing is reported of it."""

    def __enter__(self) -> Engine: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class _Worker:
    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pomona.sweeps.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        self.order: Order | None = None

    def send(self, order: Order) -> None:
        assert self.process.stdin is not None
        self.order = order
        try:
            self.process.stdin.write(order.as_text() + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it has died; its output has ended as well, and poll reports that

    def result(self) -> Ended:
        """How the order ended, after something was written or the output has ended."""
        assert self.process.stdout is not None
        assert self.order is not None
        name, self.order = self.order.name, None
        line = self.process.stdout.readline()
        if line.endswith("\n"):
            answer = json.loads(line)
            return Ended(name, answer["error"], answer.get("traceback", ""), answer.get("final", False))
        status = self.process.wait()
        how = f"signal {-status}" if status < 0 else f"exit status {status}"
        return Ended(name, f"its worker process ended by {how}")

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            with suppress(BrokenPipeError):  # an order that a dead worker never read
                if stream is not None:
                    stream.close()


class Local:
    """A pool of worker processes; more orders than workers wait in a queue."""

    def __init__(self, workers: int | None = None) -> None:
        self.slots = workers or os.cpu_count() or 1
        self._workers: list[_Worker] = []
        self._waiting: list[Order] = []

    def __enter__(self) -> Local:
        return self

    def __exit__(self, *error: Any) -> None:
        for worker in self._workers:
            worker.stop()
        self._workers.clear()

    def submit(self, order: Order) -> None:
        self._waiting.append(order)
        self._fill()

    def poll(self, seconds: float) -> list[Ended]:
        self._fill()
        busy = [worker for worker in self._workers if worker.order is not None]
        if not busy:
            return []
        ended = [worker.result() for worker in _readable(busy, seconds)]
        self._workers = [worker for worker in self._workers if not _gone(worker)]
        self._fill()
        return ended

    def cancel(self, name: str) -> None:
        self._waiting = [order for order in self._waiting if order.name != name]
        for worker in [*self._workers]:
            if worker.order is not None and worker.order.name == name:
                worker.stop()
                self._workers.remove(worker)
        self._fill()

    def _fill(self) -> None:
        while self._waiting:
            free = next((worker for worker in self._workers if worker.order is None), None)
            if free is None:
                if len(self._workers) >= self.slots:
                    return
                free = _Worker()
                self._workers.append(free)
            free.send(self._waiting.pop(0))


def _readable(workers: Sequence[_Worker], seconds: float) -> list[_Worker]:
    """The workers whose output has something to read, or has ended."""
    with selectors.DefaultSelector() as selector:
        for worker in workers:
            assert worker.process.stdout is not None
            selector.register(worker.process.stdout, selectors.EVENT_READ, worker)
        return [key.data for key, _ in selector.select(seconds)]


def _gone(worker: _Worker) -> bool:
    if worker.order is not None or worker.process.poll() is None:
        return False
    worker.stop()
    return True
