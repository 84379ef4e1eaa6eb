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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

from pomona.base import files
from pomona.base.errors import PomonaError, RunError, SpecError
from pomona.base.locks import InUse, locked
from pomona.base.registry import is_import
from pomona.sweeps.local import Ended, Engine, Local
from pomona.sweeps.plan import Job, Plan
from pomona.sweeps.table import Table, read_table, runs_in
from pomona.sweeps.work import Order
from pomona.training.run import Run

DECLARATION, FAILED = "sweep.json", "failed"
RETRIES = 2
LOOK_SECONDS = 1.0  # between two looks at the runs

On = Literal["local", "ray"]


@dataclass(frozen=True)
class Progress:
    """How far a sweep has come."""

    done: int
    running: tuple[str, ...]
    waiting: int
    failed: tuple[str, ...]
    examples_per_second: float  # of all running runs together, for each core-second
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


def sweep(plan: Plan | Mapping[str, Any] | str | Path, out: str | Path, **options: Unpack[Options]) -> Table:
    """Train every run of a plan that is not finished, and give the table of them all.

    A plan is a declaration (see `plan`) or the path of a TOML file with one. A failed run does not stop the others; the
    table names it with its error.
    """
    chosen = plan if isinstance(plan, Plan) else Plan.of(plan) if isinstance(plan, Mapping) else Plan.read(plan)
    folder, evaluate, modules = Path(out), options.get("evaluate", ()), options.get("modules", ())
    check_models(chosen.jobs(options.get("seed", 0)), modules)
    with owned(folder):
        orders = {order.name: order for order in _orders(chosen, folder, evaluate, modules, options.get("seed", 0))}
        with engine_of(options) as engine:
            Crew(engine, folder, options.get("retries", RETRIES), options.get("watch")).finish(orders)
    return read_table(folder)


def missing(
    plan: Plan, out: str | Path, evaluate: Sequence[str] = (), modules: Sequence[str] = (), seed: int = 0
) -> list[Order]:
    """The orders of a plan that are not done yet, for an engine that takes them and is not waited for."""
    check_models(plan.jobs(seed), modules)
    with owned(Path(out)):
        return [order for order in _orders(plan, Path(out), evaluate, modules, seed) if not done(order)]


def _orders(plan: Plan, folder: Path, evaluate: Sequence[str], modules: Sequence[str], seed: int) -> Iterator[Order]:
    """Write down the declaration, and give the orders of its runs."""
    files.write_json(folder / DECLARATION, {"plan": plan.plain, "evaluate": list(evaluate)})
    for job in settled(plan.jobs(seed), folder):
        yield Order(str(folder / job.name), job.recipe.plain, tuple(evaluate), tuple(modules))


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
            raise RunError(f"another sweep is working in {folder}; wait for it, or choose another folder") from None
        except OSError as error:
            raise RunError(f"{folder} cannot be written: {error.strerror or error}") from error
        yield


def check_models(jobs: Iterable[Job], modules: Sequence[str]) -> None:
    """An error for a model or setting that does not exist, before anything is started."""
    from pomona.data.task import TASKS
    from pomona.models.model import MODELS

    for module in modules:
        MODELS.trust(module)
    for job in jobs:
        recipe = job.recipe
        if is_import(recipe.model):
            MODELS.trust(recipe.model.partition(":")[0])
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


@dataclass
class Crew:
    """What is waiting, running and done, and the engine that does it."""

    engine: Engine
    folder: Path
    retries: int = RETRIES
    watch: Watch | None = None
    running: dict[str, Order] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)

    def finish(self, orders: Mapping[str, Order]) -> None:
        """Work on all orders to the end."""
        waiting = [order for order in orders.values() if not done(order)]
        clock = _Clock(orders)
        while waiting or self.running:
            while waiting and len(self.running) < self.engine.slots:
                self.start(waiting.pop(0))
            for ended in self.engine.poll(LOOK_SECONDS):
                order = self.running[ended.name]
                if self.ended(ended):
                    waiting.append(order)
            self._tell(orders, len(waiting), clock)
        self._tell(orders, 0, clock)

    def start(self, order: Order) -> None:
        self.running[order.name] = order
        self.engine.submit(order)

    def ended(self, ended: Ended) -> bool:
        """Note how a run ended; whether it is to be tried again."""
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

    def _tell(self, orders: Mapping[str, Order], waiting: int, clock: _Clock) -> None:
        if self.watch is None:
            return
        finished = [name for name, order in orders.items() if name not in self.running and done(order)]
        progress = clock.progress(orders, tuple(self.running))
        self.watch(
            Progress(
                done=len(finished), running=tuple(self.running), waiting=waiting, failed=tuple(self.failed), **progress
            )
        )


def done(order: Order) -> bool:
    """Whether a run is finished and evaluated on everything that was asked for."""
    from pomona.sweeps.work import name_of

    try:
        run = Run.read(order.folder)
        return run.finished and all(name_of(source) in run.scores for source in order.evaluate)
    except PomonaError:
        return False


class _Clock:
    """The speed of a sweep, from the learning curves of its runs."""

    def __init__(self, orders: Mapping[str, Order]) -> None:
        self._begin = time.monotonic()
        self._first = sum(map(len, self._curves(orders).values()))

    def progress(self, orders: Mapping[str, Order], running: Sequence[str]) -> dict[str, Any]:
        curves = self._curves(orders)
        ended = sum(map(len, curves.values()))
        left = sum(
            order.recipe["epochs"] - len(curves[name]) for name, order in orders.items() if not self._finished(order)
        )
        new = ended - self._first
        best = max(
            ((max(entry["dev"] for entry in curve), name) for name, curve in curves.items() if curve), default=None
        )
        return {
            "examples_per_second": sum(_speed(curves[name], orders[name]) for name in running if curves[name]),
            "seconds_left": (time.monotonic() - self._begin) * left / new if new else None,
            "best": (best[1], best[0]) if best else None,
        }

    def _curves(self, orders: Mapping[str, Order]) -> dict[str, list[dict[str, Any]]]:
        return {name: curve_of(order) for name, order in orders.items()}

    @staticmethod
    def _finished(order: Order) -> bool:
        return files.kind_of(Path(order.folder) / "summary.json") == "file"


def curve_of(order: Order) -> list[dict[str, Any]]:
    """The learning curve of a run so far; empty if it was not begun."""
    try:
        return Run.read(order.folder).curve
    except PomonaError:  # not begun, or being written
        return []


def _speed(curve: Sequence[Mapping[str, Any]], order: Order) -> float:
    """Examples for each core-second of a run, over all of its training."""
    last = curve[-1]
    examples = last.get("step", 0) * order.recipe["batch"]
    return float(examples / max(last.get("core_seconds", 0), 1e-9))
