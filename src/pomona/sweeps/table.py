"""What the runs of a folder reached: a line for each combination of settings, over its seeds.

    table = read_table("runs")
    print(table)                      settings, seeds, dev with its t-interval, every evaluation, core-seconds
    table.best.settings               the settings with the highest mean dev accuracy; test is never looked at

Runs are told apart by their recipes. Two that differ in nothing but the seed stand on one line, and only settings that
differ somewhere have a column.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pomona.base import files
from pomona.base.errors import PomonaError, RunError
from pomona.evaluation.records import kept_evaluations
from pomona.evaluation.significance import seeds as over_seeds
from pomona.training.recipe import Recipe
from pomona.training.run import Run

PARTS = {"settings": "", "data_settings": "data."}  # of a recipe; what stands before a setting's name in a column


@dataclass(frozen=True)
class Mean:
    """A mean over runs with its 95 % t-interval; one run has none."""

    value: float
    interval: tuple[float, float] | None
    runs: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Mean | None:
        if not values:
            return None
        mean = over_seeds(values)
        return cls(mean.value, None if math.isnan(mean.interval[0]) else mean.interval, len(values))

    def as_dict(self) -> dict[str, Any]:
        return {"mean": self.value, "interval": self.interval, "runs": self.runs}

    def __str__(self) -> str:
        half = "" if self.interval is None else f" ± {100 * (self.interval[1] - self.value):.1f}"
        return f"{100 * self.value:.1f}{half}"


@dataclass(frozen=True)
class Line:
    """One combination of settings: its runs, what they reached on dev and elsewhere, and what they cost."""

    settings: Mapping[str, Any]  # those that differ between lines
    runs: tuple[str, ...]  # names of all runs, finished or not
    finished: int
    dev: Mean | None  # of the finished runs
    scores: Mapping[str, Mean]  # accuracy by evaluation
    core_seconds: float

    def as_dict(self) -> dict[str, Any]:
        return {
            "settings": dict(self.settings),
            "runs": list(self.runs),
            "finished": self.finished,
            "dev": None if self.dev is None else self.dev.as_dict(),
            "scores": {name: mean.as_dict() for name, mean in self.scores.items()},
            "core_seconds": round(self.core_seconds, 1),
        }


@dataclass(frozen=True)
class Table:
    """The lines of a folder of runs, the best on dev first; and the runs that failed, with their errors."""

    lines: tuple[Line, ...]
    failed: Mapping[str, str]

    @property
    def best(self) -> Line | None:
        """The line with the highest mean dev accuracy; None if no run is finished."""
        return next((line for line in self.lines if line.dev is not None), None)

    @property
    def columns(self) -> list[str]:
        settings = dict.fromkeys(name for line in self.lines for name in line.settings)
        scores = dict.fromkeys(name for line in self.lines for name in line.scores)
        return [*settings, "seeds", "dev", *scores, "core-seconds"]

    def rows(self) -> Iterator[tuple[str, ...]]:
        """The cells of each line, as text."""
        for line in self.lines:
            cells = {name: _shown(value) for name, value in line.settings.items()}
            cells["seeds"] = (
                str(line.finished) if line.finished == len(line.runs) else f"{line.finished} of {len(line.runs)}"
            )
            cells |= {name: str(mean) for name, mean in line.scores.items()}
            cells["dev"] = "" if line.dev is None else str(line.dev)
            cells["core-seconds"] = f"{line.core_seconds:,.0f}"
            yield tuple(cells.get(column, "") for column in self.columns)

    def as_dict(self) -> dict[str, Any]:
        return {"lines": [line.as_dict() for line in self.lines], "failed": dict(self.failed)}

    def as_csv(self) -> str:
        """One row for each line: numbers from 0 to 1, with the ends of their intervals in columns of their own."""
        settings = list(dict.fromkeys(name for line in self.lines for name in line.settings))
        scores = ["dev", *dict.fromkeys(name for line in self.lines for name in line.scores)]
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        ends = [column for name in scores for column in (name, f"{name} low", f"{name} high")]
        writer.writerow([*settings, "finished", "runs", *ends, "core_seconds"])
        for line in self.lines:
            means = [line.dev if name == "dev" else line.scores.get(name) for name in scores]
            numbers = [cell for mean in means for cell in _cells(mean)]
            chosen = [_shown(line.settings.get(name, "")) for name in settings]
            writer.writerow([*chosen, line.finished, len(line.runs), *numbers, round(line.core_seconds, 1)])
        return text.getvalue()

    def __str__(self) -> str:
        rows = [self.columns, *self.rows()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([*lines, *(f"failed: {name}: {error}" for name, error in self.failed.items())])

    def __repr__(self) -> str:
        return f"Table({len(self.lines)} combinations, {len(self.failed)} failed runs)"


def runs_in(folder: str | Path) -> list[Run]:
    """Every run directly in a folder, by name; what cannot be read is left out."""
    runs = []
    for path in sorted(Path(folder).glob("*/recipe.json")):
        try:
            runs.append(Run.read(path.parent))
        except PomonaError:
            continue
    return runs


def read_table(folder: str | Path) -> Table:
    """The table of the runs in a folder."""
    if files.kind_of(folder) != "folder":
        raise RunError(f"{folder} is no folder of runs")
    by_settings: dict[str, list[Run]] = {}
    for run in runs_in(folder):
        plain = {name: value for name, value in run.recipe.plain.items() if name != "seed"}
        by_settings.setdefault(json.dumps(plain, sort_keys=True), []).append(run)
    groups = list(by_settings.values())
    names = differing([flat(group[0].recipe) for group in groups])
    shown = names if "model" in names else ["model", *names]
    lines = [_line(group, shown) for group in groups]
    lines.sort(key=lambda line: -math.inf if line.dev is None else line.dev.value, reverse=True)
    return Table(tuple(lines), _failures(Path(folder)))


def _failures(folder: Path) -> dict[str, str]:
    """The runs that failed, with the first line of each error."""
    return {path.stem: files.read_text(path).partition("\n")[0] for path in sorted((folder / "failed").glob("*.txt"))}


def _line(runs: Sequence[Run], shown: Sequence[str]) -> Line:
    finished = [run for run in runs if run.finished]
    accuracies: dict[str, list[float]] = {}
    for run in finished:
        for name, entry in kept_evaluations(run).items():
            accuracies.setdefault(name, []).append(entry["accuracy"])
    settings = flat(runs[0].recipe)
    return Line(
        settings={name: settings[name] for name in shown if name in settings},
        runs=tuple(run.folder.name for run in runs),
        finished=len(finished),
        dev=Mean.of([run.summary["dev"] for run in finished]),
        scores={name: mean for name, values in accuracies.items() if (mean := Mean.of(values)) is not None},
        core_seconds=sum(run.curve[-1].get("core_seconds", 0.0) for run in runs if run.curve),
    )


def flat(recipe: Recipe) -> dict[str, Any]:
    """All settings of a recipe but its seed in one dictionary: those of the model by name, of the task as data.NAME."""
    plain = {name: value for name, value in recipe.plain.items() if name not in (*PARTS, "seed")}
    for part, prefix in PARTS.items():
        plain |= {f"{prefix}{name}": value for name, value in recipe.plain[part].items()}
    return plain


def differing(every: Sequence[Mapping[str, Any]]) -> list[str]:
    """The settings (of `flat`) that are not the same everywhere."""
    names = dict.fromkeys(name for settings in every for name in settings)
    return [name for name in names if len({json.dumps(settings.get(name)) for settings in every}) > 1]


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else value if isinstance(value, str) else json.dumps(value)


def _cells(mean: Mean | None) -> tuple[Any, Any, Any]:
    return ("", "", "") if mean is None else (mean.value, *(mean.interval or ("", "")))
