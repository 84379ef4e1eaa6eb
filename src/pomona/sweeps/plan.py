"""What a sweep varies, and the recipes that follow from it.

    plan = Plan.of({"model": ["treelstm", "lstm"], "seeds": 3, "model_set": {"width": [64, 128]},
                    "recipe": {"epochs": 4, "rate": {"low": 1e-3, "high": 1e-2}}, "random": 8})
    plan.jobs()[0].name              'treelstm-width=64-rate=0.00213-seed=0'

A declaration has the parts below, as in a TOML file. A list is a list of values to try; to try values that are lists
themselves, write a list of lists. A table with `low` and `high` is a range, for random draws and for a search; numbers
above 0 whose ratio is at least 10 are drawn evenly in their logarithm.

    model, data      names                                    set          settings of the task
    seeds            a number n (0 to n-1), or a list         model_set    settings of the model
    data_seed        a number, or a list                      recipe       settings of the training
    random           draw so many combinations instead of trying all of them
    runs             a list of tables: runs with settings of their own, instead of combinations
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from pomona.base.errors import SpecError, did_you_mean
from pomona.base.files import read_toml
from pomona.training.recipe import Recipe

TABLES = {"set": "data_settings", "model_set": "settings", "recipe": ""}  # of a declaration; what they are in a recipe
_MOST_RUNS = 100_000  # of one sweep; beyond it, a number was mistyped
PARTS = ("model", "data", "seeds", "data_seed", *TABLES, "random", "runs")
OF_A_RUN = ("model", "data", "seed", "data_seed", *TABLES)
LONGEST_NAME = 100  # letters of a run's name; longer ones end with the key of the recipe


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`; whole ones if both ends are."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise SpecError(f"a range goes from a lower to a higher number; got {self.low} to {self.high}")

    @property
    def whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def log(self) -> bool:
        """Whether values are drawn evenly in their logarithm."""
        return self.low > 0 and self.high / self.low >= 10

    def draw(self, random: np.random.Generator) -> float:
        """One value; three digits are kept, so that it can be read and typed."""
        low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        value = random.uniform(low, high)
        value = math.exp(value) if self.log else value
        return round(value) if self.whole else min(max(float(f"{value:.3g}"), self.low), self.high)


Axis: TypeAlias = tuple[Any, ...] | Range
Setting: TypeAlias = tuple[str, str]  # the table of a declaration ("" for model, data, seed) and the name in it


@dataclass(frozen=True)
class Job:
    """One run of a sweep: the name of its folder and its recipe."""

    name: str
    recipe: Recipe


@dataclass(frozen=True)
class Plan:
    """What is varied: values or a range for each setting, or single runs; and which seeds."""

    axes: Mapping[Setting, Axis]
    seeds: tuple[int, ...] = (0,)
    draws: int = 0  # combinations to draw at random; 0 for all of them
    runs: tuple[Mapping[Setting, Any], ...] = ()
    plain: Mapping[str, Any] = field(default_factory=dict, compare=False)  # the declaration, as it was written

    @classmethod
    def of(cls, declared: Mapping[str, Any]) -> Plan:
        """A plan from a declaration; an error names what is wrong in it."""
        for part in declared:
            if part not in PARTS:
                raise SpecError(f"a sweep has no {part!r}. {did_you_mean(part, PARTS)}")
        if "model" not in declared and not declared.get("runs"):
            raise SpecError("a sweep needs a model: model = ['treelstm', 'lstm'], or --model treelstm,lstm")
        axes: dict[Setting, Axis] = {}
        for name in ("model", "data", "data_seed"):
            if name in declared:
                axes["", name] = _axis(declared[name], name)
        for table in TABLES:
            for name, value in _table(declared, table).items():
                axes[table, name] = _axis(value, f"{table}.{name}")
        draws = declared.get("random", 0)
        if not isinstance(draws, int) or isinstance(draws, bool) or not 0 <= draws <= _MOST_RUNS:
            raise SpecError(f"random = {_shown(draws)}: the number of combinations to draw, at most {_MOST_RUNS:,}")
        plan = cls(axes, _seeds(declared.get("seeds", 1)), draws, _runs(declared.get("runs", [])), dict(declared))
        plan.check()
        return plan

    @classmethod
    def read(cls, path: str | Path) -> Plan:
        """The plan in a TOML file."""
        try:
            return cls.of(read_toml(path))
        except SpecError as error:
            raise SpecError(f"{path}: {error}") from None

    @property
    def varied(self) -> list[Setting]:
        """The settings that differ between runs, without the seed."""
        several = [at for at, axis in self.axes.items() if isinstance(axis, Range) or len(axis) > 1]
        return several + [at for at in dict.fromkeys(at for run in self.runs for at in run) if at not in several]

    def check(self) -> None:
        """An error if a list of runs stands beside ranges or random draws, which have no place in it."""
        ranges = [f"{table}.{name}".lstrip(".") for (table, name), axis in self.axes.items() if isinstance(axis, Range)]
        if self.runs and (self.draws or ranges):
            raise SpecError("a list of runs stands alone: leave out `random` and ranges, or leave out `runs`")
        if self.size > _MOST_RUNS:
            raise SpecError(f"the sweep has {self.size:,} runs; at most {_MOST_RUNS:,} can be declared at once")

    @property
    def size(self) -> int:
        """How many runs there are, before equal ones are counted as one; a range counts as one value."""
        several = math.prod(1 if isinstance(axis, Range) else len(axis) for axis in self.axes.values())
        return (self.draws or len(self.runs) or several) * len(self.seeds)

    def need_values(self) -> None:
        """An error if a setting has a range and nothing says how many values to draw from it."""
        for (table, name), axis in self.axes.items():
            if isinstance(axis, Range) and not self.draws:
                where = f"{table}.{name}".lstrip(".")
                raise SpecError(f"{where} is a range; say how many combinations to draw (random = 20, --random 20)")

    def jobs(self, seed: int = 0) -> list[Job]:
        """Every run, with distinct names; `seed` is for random draws. Two equal recipes are one run."""
        self.need_values()
        jobs: dict[str, Job] = {}
        for chosen in self._combinations(seed):
            for number in self.seeds if ("", "seed") not in chosen else [chosen["", "seed"]]:
                job = self.job({**chosen, ("", "seed"): number})
                jobs.setdefault(job.recipe.key, job)
        return _distinct(list(jobs.values()))

    def job(self, chosen: Mapping[Setting, Any]) -> Job:
        """The run with these settings."""
        recipe = recipe_of(chosen)
        shown = [at for at in self.varied if at in chosen and at != ("", "seed")]
        parts = [chosen["", "model"]] if ("", "model") in chosen else []
        parts += [f"{name}={_text(chosen[table, name])}" for table, name in shown if (table, name) != ("", "model")]
        return Job(_folder_name([*parts, f"seed={recipe.seed}"], recipe), recipe)

    def _combinations(self, seed: int) -> Iterator[dict[Setting, Any]]:
        if self.runs:
            single = {at: axis[0] for at, axis in self.axes.items() if not isinstance(axis, Range)}
            yield from ({**single, **run} for run in self.runs)
        elif self.draws:
            for number in range(self.draws):
                random = np.random.default_rng([seed, number])
                yield {at: _drawn(axis, random) for at, axis in self.axes.items()}
        else:
            values = [axis for axis in self.axes.values() if not isinstance(axis, Range)]
            yield from (dict(zip(self.axes, chosen, strict=True)) for chosen in itertools.product(*values))


def recipe_of(chosen: Mapping[Setting, Any]) -> Recipe:
    """The recipe with these settings; a wrong name or value is an error."""
    settings: dict[str, Any] = {"settings": {}, "data_settings": {}}
    known = [item.name for item in fields(Recipe) if item.name not in ("settings", "data_settings", "model", "data")]
    for (table, name), value in chosen.items():
        if table and TABLES[table]:
            settings[TABLES[table]][name] = value
        elif table and name not in known:
            raise SpecError(f"recipe.{name}: a recipe has no such setting. {did_you_mean(name, known)}")
        else:
            settings[name] = value
    if "model" not in settings:
        raise SpecError("every run of a sweep needs a model")
    return Recipe.from_settings(settings)


# -- reading a declaration -------------------------------------------------------------------------------------------


def _axis(value: Any, where: str) -> Axis:
    """The values of one setting, or its range."""
    if isinstance(value, Mapping):
        if set(value) != {"low", "high"} or not all(
            isinstance(end, (int, float)) and not isinstance(end, bool) for end in value.values()
        ):
            raise SpecError(f"{where}: a range is {{low = 0.001, high = 0.1}}; got {dict(value)}")
        return Range(value["low"], value["high"])
    if isinstance(value, list) and not value:
        raise SpecError(f"{where}: the list of values is empty")
    return tuple(_hashable(each) for each in (value if isinstance(value, list) else [value]))


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python writes whole numbers of at most 4,300 digits
        return "a number that is too long"
    return text if len(text) <= 60 else f"{text[:60]}..."


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


def _table(declared: Mapping[str, Any], table: str) -> Mapping[str, Any]:
    settings = declared.get(table, {})
    if not isinstance(settings, Mapping):
        raise SpecError(f"{table}: settings are name = value; got {settings!r}")
    return settings


def _seeds(value: Any) -> tuple[int, ...]:
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MOST_RUNS:
        return tuple(range(value))
    if isinstance(value, list) and value and all(isinstance(one, int) and not isinstance(one, bool) for one in value):
        return tuple(dict.fromkeys(value))
    raise SpecError(
        f"seeds = {_shown(value)}: a number of seeds, or a list of them such as [0, 1, 2]; at most {_MOST_RUNS:,}"
    )


def _runs(listed: Any) -> tuple[Mapping[Setting, Any], ...]:
    if not isinstance(listed, list) or not all(isinstance(run, Mapping) for run in listed):
        raise SpecError("runs: a list of tables, one for each run")
    return tuple(_run(run, number) for number, run in enumerate(listed, 1))


def _run(run: Mapping[str, Any], number: int) -> dict[Setting, Any]:
    chosen: dict[Setting, Any] = {}
    for part, value in run.items():
        if part not in OF_A_RUN:
            raise SpecError(f"run {number} of the list has no {part!r}. {did_you_mean(part, OF_A_RUN)}")
        if part in TABLES:
            chosen |= {(part, name): _hashable(each) for name, each in _table(run, part).items()}
        else:
            chosen["", part] = value
    return chosen


def _drawn(axis: Axis, random: np.random.Generator) -> Any:
    return axis.draw(random) if isinstance(axis, Range) else axis[int(random.integers(len(axis)))]


# -- names -------------------------------------------------------------------------------------------------------------


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return "+".join(map(_text, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _folder_name(parts: Sequence[str], recipe: Recipe) -> str:
    """A name that every file system takes; one that is too long is cut, and ends with the key of the recipe."""
    name = re.sub(r"[^\w.=+-]", "_", "-".join(parts), flags=re.ASCII).lstrip(".-")
    return name if 0 < len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 17]}-{recipe.key}"


def _distinct(jobs: list[Job]) -> list[Job]:
    """The same jobs; those that share a name, for example by a sign that no folder's name may have, get their key."""
    counts: dict[str, int] = {}
    for job in jobs:
        counts[job.name.lower()] = counts.get(job.name.lower(), 0) + 1
    return [job if counts[job.name.lower()] == 1 else Job(f"{job.name}-{job.recipe.key}", job.recipe) for job in jobs]
