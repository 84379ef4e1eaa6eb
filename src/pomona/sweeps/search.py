"""Search for settings: each trial is a run of the sweep's folder, and the next one is chosen from the results so far.

    search(Plan.of({"model": "lstm", "recipe": {"rate": {"low": 1e-4, "high": 1e-2}}}), "runs", trials=20)

Optuna (extra `sweep`) chooses by its tree-structured Parzen estimator, and stops runs whose dev accuracy lies below the
median of the others at the same epoch. Only dev is looked at. The trials are in `trials.log` in the folder, so the same
call goes on after an interruption; the choice of trial n depends on the seed, n and the results known then.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

from pomona.base import files
from pomona.base.errors import SpecError
from pomona.base.extras import extras_named, need
from pomona.base.randomness import stream_key
from pomona.sweeps.crew import LOOK_SECONDS, RETRIES, Crew
from pomona.sweeps.plan import Plan, Range, Setting
from pomona.sweeps.sweep import (
    DECLARATION,
    Clock,
    Options,
    check,
    curve_of,
    done,
    engine_of,
    order_of,
    owned,
    settled,
)
from pomona.sweeps.table import Table, read_table
from pomona.sweeps.work import RunOrder
from pomona.training.run import Run

STORE = "trials.log"
FIRST = 5  # trials before anything is pruned
PATIENCE = 50  # choices without a new combination, after which there is none left


def search(plan: Plan, out: str | Path, trials: int, **options: Unpack[Options]) -> Table:
    """Try so many combinations of the plan, chosen one after the other, and give the table of all runs."""
    if trials < 1:
        raise SpecError(f"trials = {trials}: at least 1")
    if not plan.varied or plan.runs:
        raise SpecError("a search needs settings to choose: lists of values, or ranges such as rate = {low, high}")
    need("optuna")
    folder = Path(out)
    with owned(folder):
        files.write_json(folder / DECLARATION, {"plan": plan.plain, "evaluate": list(options.get("evaluate", ()))})
        with engine_of(options) as engine:
            crew: Crew[RunOrder] = Crew(engine, folder, options.get("retries", RETRIES))
            _Search(plan, folder, crew, options).finish(trials)
    return read_table(folder)


class _Search:
    """The trials that are running, and Optuna's study of all of them."""

    def __init__(self, plan: Plan, folder: Path, crew: Crew[RunOrder], options: Options) -> None:
        with extras_named():
            import optuna
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._optuna, self.plan, self.folder, self.crew, self.options = optuna, plan, folder, crew, options
        storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(folder / STORE)))
        self.study = optuna.create_study(
            storage=storage,
            study_name="pomona",
            direction="maximize",
            load_if_exists=True,
            pruner=optuna.pruners.MedianPruner(n_startup_trials=FIRST),
        )
        self.clock = Clock({})
        self.known, self.idle = -1, 0  # combinations that were tried, and how often no new one was chosen
        self.trials: dict[str, Any] = {}  # by the name of the run
        self.seen: dict[str, int] = {}  # epochs of the curve that were reported

    def finish(self, trials: int) -> None:
        states = self._optuna.trial.TrialState
        again = 0  # trials of a search that was killed: they are asked for once more, and their runs resume
        for known in self.study.get_trials(deepcopy=False, states=(states.RUNNING,)):
            self.study.tell(known.number, state=states.FAIL)
            self.study.enqueue_trial(known.params)
            again += 1
        while True:
            while len(self.crew.running) < self.crew.engine.slots and (again or self._more(trials)):
                again = max(0, again - 1)
                self._start(self._next())
            if not self.crew.running:
                return
            for ended in self.crew.engine.poll(LOOK_SECONDS):
                order = self.crew.running[ended.name]
                if self.crew.ended(ended):
                    self.crew.start(order)
                else:
                    self._tell(ended.name, ended.error)
            for name in [*self.crew.running]:
                self._look(name)
            self.clock.tell(self.crew, self.options.get("watch"), max(0, again + trials - self._tried))

    def _more(self, trials: int) -> bool:
        """Whether to choose another trial; not if all that can be chosen seems to be tried."""
        tried = self._tried
        self.idle = self.idle + 1 if tried == self.known else 0
        self.known = tried
        return tried < trials and self.idle < PATIENCE

    @property
    def _tried(self) -> int:
        """How many combinations were tried; one that was begun twice counts once."""
        return len({json.dumps(trial.params, sort_keys=True) for trial in self.study.get_trials(deepcopy=False)})

    def _next(self) -> Any:
        """A new trial; the sampler is seeded by the number of the trial, so that a resumed search repeats none."""
        number = len(self.study.trials)
        seed = int(stream_key("search", self.options.get("seed", 0), number)) % (1 << 32)
        self.study.sampler = self._optuna.samplers.TPESampler(seed=seed, n_startup_trials=FIRST, constant_liar=True)
        return self.study.ask()

    def _start(self, trial: Any) -> None:
        chosen = {at: self._suggested(trial, at) for at in self.plan.axes}
        job = self.plan.job({**chosen, ("", "seed"): self.plan.seeds[0]})
        check([job], self.options)
        (job,) = settled([job], self.folder)
        order = order_of(job, self.folder, self.options)
        if job.name in self.trials:  # two trials of equal settings: one run, one result
            self.study.tell(trial, state=self._optuna.trial.TrialState.PRUNED)
            return
        self.trials[job.name], self.clock.orders[job.name] = trial, order
        if done(order):
            self._tell(job.name, None)
        else:
            self.crew.start(order)

    def _suggested(self, trial: Any, at: Setting) -> Any:
        axis, name = self.plan.axes[at], ".".join(at).lstrip(".")
        if isinstance(axis, Range):
            if axis.whole:
                return trial.suggest_int(name, axis.low, axis.high, log=axis.log)
            return float(f"{trial.suggest_float(name, axis.low, axis.high, log=axis.log):.3g}")
        return axis[trial.suggest_categorical(name, list(range(len(axis))))]

    def _look(self, name: str) -> None:
        """Report the new epochs of a run; stop it if it is below the median."""
        order = self.crew.running[name]
        curve = curve_of(order)
        for entry in curve[self.seen.get(name, 0) :]:
            self.trials[name].report(entry["dev"], entry["epoch"])
        self.seen[name] = len(curve)
        if curve and not done(order) and self.trials[name].should_prune():
            self.crew.engine.cancel(name)
            del self.crew.running[name]
            self.study.tell(self.trials[name], state=self._optuna.trial.TrialState.PRUNED)

    def _tell(self, name: str, error: str | None) -> None:
        states = self._optuna.trial.TrialState
        if error is not None:
            self.study.tell(self.trials[name], state=states.FAIL)
            return
        summary: Mapping[str, Any] = Run.read(self.folder / name).summary
        self.study.tell(self.trials[name], summary["dev"])
