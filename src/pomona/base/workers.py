"""Tasks for worker processes: in this process, in others on this machine, or on Ray.

    with workers("local", 2) as crew:
        for number, answer in crew.run(count_rows, [{"path": "a"}, {"path": "b"}]):      as they end, with their numbers
            ...

A task is a function of a module, named, and an order in plain JSON; so is its answer. Nothing is pickled, and what is
large goes through files. One worker is this process itself. A worker process that dies is replaced and its task done
again; an error of ours inside a task is raised here, in the same words. Orders are taken from their iterator when a
worker is free for them, so that earlier answers can decide what comes next.
"""

from __future__ import annotations

import importlib
import json
import os
import selectors
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import pomona
from pomona.base import errors
from pomona.base.errors import PomonaError, RunError, SpecError
from pomona.base.ray_cluster import cluster
from pomona.base.registry import trust

Order: TypeAlias = "Mapping[str, Any]"
Task: TypeAlias = "Callable[..., Any]"  # called with the order's entries as keyword arguments
TRIES = 3  # of a task whose worker dies
STOP_SECONDS = 5.0  # a worker that is told to end is killed after this time
PLACES = ("local", "ray")


class Crew(Protocol):
    """Workers that tasks are given to."""

    size: int

    def run(self, task: Task, orders: Iterable[Order]) -> Iterator[tuple[int, Any]]:
        """Do the task once for each order; the number of the order and the answer, in the order in which they end."""


@contextmanager
def workers(
    on: str = "local", count: int | None = None, *, address: str = "", modules: Sequence[str] = ()
) -> Iterator[Crew]:
    """Workers for the time of the block: by default one for each core. They import `modules`, the user's own, first."""
    if on not in PLACES:
        raise SpecError(f"on = {on!r}: workers are on {' or '.join(PLACES)}")
    if count is not None and count < 1:
        raise SpecError(f"workers = {count}: at least 1 is needed")
    if on == "ray":
        with cluster(address, count) as ray:
            yield _OnRay(ray, count, modules)
        return
    if address:
        raise SpecError(f"address = {address!r} is of a Ray cluster; it goes with on='ray'")
    size = count or cores()
    if size == 1:
        yield HERE
        return
    crew = _Processes(size, modules)
    try:
        yield crew
    finally:
        crew.stop()


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Here:
    """One worker: this process."""

    size = 1

    def run(self, task: Task, orders: Iterable[Order]) -> Iterator[tuple[int, Any]]:
        return ((number, task(**order)) for number, order in enumerate(orders))


HERE: Crew = _Here()


# -- processes on this machine ---------------------------------------------------------------------------------------


class _Process:
    """A worker process, and the order that it works on."""

    def __init__(self, modules: Sequence[str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pomona.base.workers", *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(),
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        self.number = -1

    def send(self, number: int, line: str) -> None:
        self.number = number
        with suppress(BrokenPipeError):  # it has died; its output has ended as well, which is noticed
            self.stdin.write(line.encode() + b"\n")
            self.stdin.flush()

    def result(self) -> dict[str, Any] | None:
        """The answer, after something was written; None if the process has died."""
        self.number = -1
        line = self.stdout.readline()
        return dict(json.loads(line)) if line.endswith(b"\n") else None

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for stream in (self.stdin, self.stdout):
            with suppress(BrokenPipeError):
                stream.close()


class _Processes:
    """Worker processes on this machine; they are started when they are needed, and stopped together."""

    def __init__(self, size: int, modules: Sequence[str]) -> None:
        self.size, self._modules = size, modules
        self._workers: list[_Process] = []

    def stop(self) -> None:
        for worker in self._workers:
            worker.stop()
        self._workers.clear()

    def run(self, task: Task, orders: Iterable[Order]) -> Iterator[tuple[int, Any]]:
        queue = _Queue(task, orders)
        try:
            while True:
                while (busy := self._busy()) < self.size and (waiting := queue.next()) is not None:
                    self._free().send(*waiting)
                if not busy and not self._busy():
                    return
                for worker in self._readable():
                    number, answer = worker.number, worker.result()
                    if answer is None:
                        status = worker.process.wait()
                        self._workers.remove(worker)
                        worker.stop()
                        queue.again(number, f"signal {-status}" if status < 0 else f"exit status {status}")
                    else:
                        yield number, result_of(answer)
        finally:
            for worker in [worker for worker in self._workers if worker.number >= 0]:  # after an error: nobody waits
                worker.stop()
                self._workers.remove(worker)

    def _busy(self) -> int:
        return sum(worker.number >= 0 for worker in self._workers)

    def _free(self) -> _Process:
        for worker in self._workers:
            if worker.number < 0:
                return worker
        self._workers.append(_Process(self._modules))
        return self._workers[-1]

    def _readable(self) -> list[_Process]:
        """The workers whose output has something to read, or has ended."""
        with selectors.DefaultSelector() as selector:
            for worker in self._workers:
                if worker.number >= 0:
                    selector.register(worker.stdout, selectors.EVENT_READ, worker)
            return [key.data for key, _ in selector.select()]


class _Queue:
    """The orders that are still to be given out, as lines for a worker; those of dead workers come first."""

    def __init__(self, task: Task, orders: Iterable[Order]) -> None:
        self._name, self._orders = f"{task.__module__}:{task.__qualname__}", enumerate(orders)
        self._given: dict[int, tuple[str, int]] = {}  # lines by number, with the times they were given out
        self._lost: list[int] = []

    def next(self) -> tuple[int, str] | None:
        if self._lost:
            number = self._lost.pop()
            return number, self._given[number][0]
        following = next(self._orders, None)
        if following is None:
            return None
        number, order = following
        line = json.dumps({"task": self._name, "order": dict(order)})
        self._given[number] = line, 1
        return number, line

    def again(self, number: int, how: str) -> None:
        """Give an order out once more, after its worker ended like this."""
        line, times = self._given[number]
        if times >= TRIES:
            raise RunError(f"a worker process ended by {how}, {TRIES} times at the same task: {line[:300]}")
        self._given[number] = line, times + 1
        self._lost.append(number)


def environment() -> dict[str, str]:
    """The variables of a worker: one thread, and the Pomona that this process uses, wherever it lies."""
    home = str(Path(pomona.__file__).resolve().parents[1])
    known = os.environ.get("PYTHONPATH")
    path = f"{home}{os.pathsep}{known}" if known else home
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


# -- Ray -------------------------------------------------------------------------------------------------------------


class _OnRay:
    """Tasks of Ray, one core each."""

    def __init__(self, ray: Any, count: int | None, modules: Sequence[str]) -> None:
        self._ray, self._modules = ray, list(modules)
        self.size = max(1, count or int(ray.cluster_resources().get("CPU", 1)))
        self._remote = ray.remote(num_cpus=1, max_retries=0)(answered)

    def run(self, task: Task, orders: Iterable[Order]) -> Iterator[tuple[int, Any]]:
        queue, running = _Queue(task, orders), dict[Any, int]()
        try:
            while True:
                while len(running) < self.size and (waiting := queue.next()) is not None:
                    running[self._remote.remote(waiting[1], self._modules)] = waiting[0]
                if not running:
                    return
                (done, *_), _ = self._ray.wait(list(running), num_returns=1)
                number = running.pop(done)
                try:
                    answer = self._ray.get(done)
                except self._ray.exceptions.RayError as error:
                    queue.again(number, type(error).__name__)
                else:
                    yield number, result_of(answer)
        finally:
            for task_of_ray in running:
                self._ray.cancel(task_of_ray, force=True)


# -- in a worker -----------------------------------------------------------------------------------------------------


def answered(line: str, modules: Sequence[str] = ()) -> dict[str, Any]:
    """Do the task of a line; its result, or its error."""
    try:
        for module in modules:
            trust(module)
        said = json.loads(line)
        module, _, name = said["task"].partition(":")
        return {"result": getattr(importlib.import_module(module), name)(**said["order"])}
    except Exception as error:
        kind = type(error).__name__ if isinstance(error, PomonaError) else ""
        return {"kind": kind, "error": str(error) or type(error).__name__, "traceback": traceback.format_exc()}


def result_of(answer: Mapping[str, Any]) -> Any:
    """The result of a task; its error is raised, one of ours as what it was."""
    if "error" not in answer:
        return answer["result"]
    kind = getattr(errors, answer["kind"], None) if answer["kind"] else None
    if isinstance(kind, type) and issubclass(kind, PomonaError):
        raise kind(answer["error"])
    raise RunError(f"a worker failed: {answer['error']}\n{answer['traceback']}")


def serve(modules: Sequence[str]) -> None:
    """Work until there are no more orders. Ctrl-C is for the process that sent them, which ends this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # from here on, what anybody prints is no answer
    for line in sys.stdin:
        answers.write(json.dumps(answered(line, modules)) + "\n")
        answers.flush()


if __name__ == "__main__":
    serve(sys.argv[1:])
