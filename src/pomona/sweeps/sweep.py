"""Run a sweep: find which runs are missing, work on them, retry what was killed, and say how far it has come.

    table = sweep({"model": "lstm", "seeds": 3, "recipe": {"rate": [0.001, 0.01]}}, "runs", evaluate=["test"])
    print(table)

The folder holds one run folder for each recipe, `sweep.json` with the declaration, and `failed/NAME.txt` for each run
that failed. Nothing else is kept: which runs are finished is read from their folders, so the same call after an
interruption goes on where it stood, and a larger declaration trains only what is new. A run that is in the folder under
another name is used where it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, TypedDict, Unpack

from pomona.base import files
from pomona.base.errors import PomonaError, RunError, SpecError
from pomona.base.locks import InUse, locked
from pomona.base.registry import is_import
from pomona.sweeps.crew import RETRIES, Crew
from pomona.sweeps.local import Engine, Local
from pomona.sweeps.plan import Job, Plan
from pomona.sweeps.table import Table, read_table, runs_in
from pomona.sweeps.work import RunOrder
from pomona.training.run import Run
from pomona.training.tracking import TRACKERS, follow

DECLARATION = "sweep.json"

On = Literal["local", "ray"]


@dataclass(frozen=True)
class Progress:
    """How far a sweep has come."""

    done: int
    running: tuple[str, ...]
    waiting: int
    failed: tuple[str, ...]
    examples_per_second: float  # of all runs together, since the sweep began; 0 before the first epoch has ended
    seconds_left: float | None  # None before the first epoch has ended
    best: tuple[str, float] | None  # the run with the highest dev accuracy so far


Watch = Callable[[Progress], None]


class Options(TypedDict, total=False):
    """What `sweep` can be told."""

    on: On | Engine
    workers: int | None  # local: processes, by default one for each core
    address: str  # ray: of a cluster; by default one is started here
    evaluate: Sequence[str]  # what each finished run is evaluated on
    retries: int  # how often a run is tried again after its worker died or raised an unknown error
    modules: Sequence[str]  # of the user's own, with models or tasks
    watch: Watch | None  # called about once a second
    seed: int  # of random draws
    track: Sequence[str]  # trackers that follow the learning curves, as tensorboard


def sweep(plan: Plan | Mapping[str, Any] | str | Path, out: str | Path, **options: Unpack[Options]) -> Table:
    """Train every run of a plan that is not finished, and give the table of them all.

    A plan is a declaration (see `plan`) or the path of a TOML file with one. A failed run does not stop the others; the
    table names it with its error.
    """
    chosen = plan if isinstance(plan, Plan) else Plan.of(plan) if isinstance(plan, Mapping) else Plan.read(plan)
    folder = Path(out)
    check(chosen.jobs(options.get("seed", 0)), options)
    with owned(folder):
        orders = {order.name: order for order in _orders(chosen, folder, options)}
        with engine_of(options) as engine:
            crew: Crew[RunOrder] = Crew(engine, folder, options.get("retries", RETRIES))
            clock, watch = Clock(orders), options.get("watch")
            crew.finish((order for order in orders.values() if not done(order)), partial(clock.tell, crew, watch))
            clock.tell(crew, watch, 0)
        for order in orders.values():
            if order.name not in crew.failed:
                follow(order.folder, order.track)  # of runs that were finished before, too
    return read_table(folder)


def missing(plan: Plan, out: str | Path, **options: Unpack[Options]) -> list[RunOrder]:
    """The orders of a plan that are not done yet, for an engine that takes them and is not waited for."""
    check(plan.jobs(options.get("seed", 0)), options)
    with owned(Path(out)):
        return [order for order in _orders(plan, Path(out), options) if not done(order)]


def _orders(plan: Plan, folder: Path, options: Options) -> Iterator[RunOrder]:
    """Write down the declaration, and give the orders of its runs."""
    files.write_json(folder / DECLARATION, {"plan": plan.plain, "evaluate": list(options.get("evaluate", ()))})
    for job in settled(plan.jobs(options.get("seed", 0)), folder):
        yield order_of(job, folder, options)


def order_of(job: Job, folder: Path, options: Options) -> RunOrder:
    """What a worker is told of a job."""
    named = [job.recipe.model.partition(":")[0]] if is_import(job.recipe.model) else []
    return RunOrder(
        str(folder / job.name),
        job.recipe.plain,
        evaluate=tuple(options.get("evaluate", ())),
        modules=(*options.get("modules", ()), *named),
        track=tuple(options.get("track", ())),
    )


def engine_of(options: Options) -> Engine:
    """The engine that the options name."""
    on = options.get("on", "local")
    if on == "local":
        return Local(options.get("workers"))
    if on == "ray":
        from pomona.sweeps.on_ray import OnRay

        return OnRay(options.get("address", ""), options.get("workers"))
    if isinstance(on, str):
        raise SpecError(f"a sweep runs on local or ray (or is submitted to slurm); got {on!r}")
    return on


@contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Keep other sweeps out of the folder."""
    with ExitStack() as held:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            held.enter_context(locked(folder / ".sweep.lock"))
        except InUse:
            raise RunError(f"another command is working in {folder}; wait for it, or choose another folder") from None
        except OSError as error:
            raise RunError(f"{folder} cannot be written: {error.strerror or error}") from error
        yield


def check(jobs: Iterable[Job], options: Options) -> None:
    """An error for a model, a setting or a tracker that does not exist, before anything is started.

    A declaration may come from a file, so the modules that it names are not imported; `modules` are.
    """
    from pomona.data.task import TASKS
    from pomona.models.model import MODELS

    for module in options.get("modules", ()):
        MODELS.trust(module)
    for tracker in options.get("track", ()):
        TRACKERS.build(tracker)
    for job in jobs:
        recipe = job.recipe
        MODELS.build(recipe.model, recipe.settings)
        if not files.kind_of(recipe.data):
            TASKS.build(recipe.data, recipe.data_settings)


def settled(jobs: Sequence[Job], folder: Path) -> list[Job]:
    """The jobs with the names that their runs have in the folder already; an error if a name is taken by another."""
    known = {run.recipe.key: run.folder.name for run in runs_in(folder)}
    taken = {name: key for key, name in known.items()}
    named = []
    for job in jobs:
        name = known.get(job.recipe.key, job.name)
        if taken.get(name, job.recipe.key) != job.recipe.key:
            name = f"{job.name}-{job.recipe.key}"  # the folder has a run of this name with another recipe
        named.append(Job(name, job.recipe))
    return named


def done(order: RunOrder) -> bool:
    """Whether a run is finished and evaluated on everything that was asked for."""
    from pomona.sweeps.work import name_of

    try:
        run = Run.read(order.folder)
        return run.finished and all(name_of(source) in run.scores for source in order.evaluate)
    except PomonaError:
        return False


class Clock:
    """How far runs have come and how fast, from their learning curves; runs may be added."""

    def __init__(self, orders: dict[str, RunOrder]) -> None:
        self.orders = orders
        self._begin = time.monotonic()
        curves = self._curves()
        self._first, self._first_seen = sum(map(len, curves.values())), self._seen(curves)

    def tell(self, crew: Crew[RunOrder], watch: Watch | None, waiting: int) -> None:
        """Say how far the sweep has come to whom it concerns."""
        if watch is None:
            return
        running, curves = tuple(crew.running), self._curves()
        finished = [name for name, order in self.orders.items() if name not in running and done(order)]
        best = max(
            ((max(entry["dev"] for entry in curve), name) for name, curve in curves.items() if curve), default=None
        )
        watch(
            Progress(
                done=len(finished),
                running=running,
                waiting=waiting,
                failed=tuple(crew.failed),
                examples_per_second=(self._seen(curves) - self._first_seen) / self._seconds,
                seconds_left=self._seconds_left(curves, {*finished, *crew.failed}, waiting + len(running)),
                best=(best[1], best[0]) if best else None,
            )
        )

    def _seconds_left(
        self, curves: Mapping[str, list[dict[str, Any]]], ended: Collection[str], left: int
    ) -> float | None:
        """The time for the epochs that are left; a run that is not chosen yet has as many as the others on average."""
        known = {name: order for name, order in self.orders.items() if name not in ended}
        epochs = [max(0, order.recipe["epochs"] - len(curves[name])) for name, order in known.items()]
        new = sum(map(len, curves.values())) - self._first
        if not new:
            return None
        more = max(0, left - len(known)) * fmean(order.recipe["epochs"] for order in self.orders.values())
        return float(self._seconds * (sum(epochs) + more) / new)

    @property
    def _seconds(self) -> float:
        return max(time.monotonic() - self._begin, 1e-9)

    def _seen(self, curves: Mapping[str, list[dict[str, Any]]]) -> int:
        """The examples that all runs have been trained on so far."""
        last = {name: curve[-1] for name, curve in curves.items() if curve}
        return sum(entry.get("step", 0) * self.orders[name].recipe["batch"] for name, entry in last.items())

    def _curves(self) -> dict[str, list[dict[str, Any]]]:
        return {name: curve_of(order) for name, order in self.orders.items()}


def curve_of(order: RunOrder) -> list[dict[str, Any]]:
    """The learning curve of a run so far; empty if it was not begun."""
    try:
        return Run.read(order.folder).curve
    except PomonaError:  # not begun, or being written
        return []
