"""What each setting does: one panel for each setting in which the runs of a report differ, as after a sweep."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pomona.base.plots import Spec, percent, side_by_side
from pomona.reports.collect import Report
from pomona.reports.style import Plot
from pomona.sweeps.table import differing, flat

FEWEST = 4  # finished runs; fewer are compared in the table of runs
MOST_PANELS = 8
WIDE = 10.0  # numbers whose largest is so many times the smallest stand on a logarithmic axis

Row = dict[str, Any]


def setting_plots(collected: Report) -> Iterator[Plot]:
    """Dev accuracy against each setting that differs, a point for each finished run."""
    runs = [(name, run) for name, run in zip(collected.names, collected.runs, strict=False) if run.finished]
    settings = [flat(run.recipe) for _, run in runs]
    if len(runs) < FEWEST:
        return
    rows = [{"run": name, "dev": run.summary["dev"], "model": run.recipe.model} for name, run in runs]
    panels = [_panel(name, settings, rows) for name in differing(settings)[:MOST_PANELS]]
    if panels:
        caption = "One point for each finished run: its best dev accuracy against a setting in which runs differ."
        yield Plot("settings", "settings", "Settings", caption, side_by_side(panels, columns=2))


def _panel(name: str, settings: list[Row], rows: list[Row]) -> Spec:
    values = [one.get(name) for one in settings]
    numbers = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    if len(numbers) == len(values):
        log = min(numbers) > 0 and max(numbers) / min(numbers) >= WIDE
        scale = {"type": "log"} if log else {"zero": False}
        x: Spec = {"field": "value", "type": "quantitative", "title": name, "scale": scale}
        shown: list[Any] = values
    else:
        x = {"field": "value", "type": "nominal", "title": name, "axis": {"labelAngle": 0, "labelLimit": 120}}
        shown = [
            "not set" if value is None else value if isinstance(value, str) else json.dumps(value) for value in values
        ]
    return {
        "width": 300, "height": 200,
        "data": {"values": [{**row, "value": value} for row, value in zip(rows, shown, strict=True)]},
        "mark": {"type": "point", "filled": True, "size": 60, "opacity": 0.8},
        "encoding": {
            "x": x, "y": {**percent("dev", "best dev accuracy"), "scale": {"zero": False}},
            "color": {"field": "model", "type": "nominal", "title": None},
            "tooltip": [{"field": "run"}, {"field": "value", "title": name}, {"field": "dev", "format": ".2%"}],
        },
    }  # fmt: skip
