"""A paper's curves over depth, drawn over baselines on the same examples (ORCHARD, Figures 2-5).

Cells whose column reads "both at depth 7" are the points of a curve. `shortcuts` in the results file has the curves of
baselines on the same data: evaluators that open only the top levels, repeating the first answer, and the ceiling.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pomona.base.plots import GREY, Row, Spec
from pomona.reports.file_plots import slug
from pomona.reports.style import Plot, series_name

POINT = re.compile(r"(first|second|both) at depth (\d+)")
PLACES = ("first", "second", "both")
DRAWN = ("by hand, top 1", "by hand, top 2", "by hand, top 4", "by hand, top 6", "repeat the first answer", "ceiling")


def curve_plots(number: int, content: Spec) -> Iterator[Plot]:
    """One plot for each figure, data set and question that has a measured point."""
    plots: dict[tuple[str, str, str], list[Row]] = {}
    for cell in content["cells"]:
        point = POINT.fullmatch(cell["column"])
        if point is None or not isinstance(cell.get("measured"), (int, float)):
            continue
        model, *data = cell["row"].split()
        low, high = cell.get("interval") or (cell["measured"], cell["measured"])
        about = {"model": series_name(model), "depth": int(point[2]), "share": cell["measured"]}
        about |= {"low": low, "high": high}
        plots.setdefault((cell["where"], " ".join(data), point[1]), []).append({**about, "runs": cell.get("runs")})
    for (where, data, question), rows in plots.items():
        beside = (content.get("shortcuts") or {}).get(data.replace(" ", "/", 1), {})
        baselines = [
            {"shortcut": name, "depth": int(depth), "share": shares[PLACES.index(question)]}
            for name in DRAWN
            for depth, shares in beside.get(name, {}).items()
            if shares[PLACES.index(question)] is not None
        ]
        yield Plot(
            f"curve-{number + 1}-{slug(f'{where} {data} {question}')}", f"paper-{number}",
            f"{where}: {data}, {question} right by depth",
            "Trained on depths 3 to 6. Bars are 95 % intervals over all examples. Grey curves are baselines that open "
            "only the top levels, and the ceiling of a model that has no words for large COPY arguments.",
            _spec(rows, baselines),
        )  # fmt: skip


def _spec(rows: list[Row], baselines: list[Row]) -> Spec:
    x = {"field": "depth", "type": "ordinal", "title": "depth of both trees", "axis": {"labelAngle": 0}}
    y = {"field": "share", "type": "quantitative", "title": "right (%)", "scale": {"domain": [0, 100]}}
    colour = {"field": "model", "type": "nominal", "title": None}
    names = list(dict.fromkeys(row["shortcut"] for row in baselines))
    dashes = {"field": "shortcut", "type": "nominal", "title": "shortcut", "sort": names}
    tips = [{"field": name} for name in ("model", "depth", "share", "low", "high", "runs")]
    layers: list[Spec] = [
        {
            "data": {"values": rows},
            "mark": {"type": "rule", "strokeWidth": 1.5},
            "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "color": colour},
        },
        {
            "data": {"values": rows},
            "mark": {"type": "line", "point": {"size": 45, "filled": True}, "strokeWidth": 2},
            "encoding": {"x": x, "y": y, "color": colour, "tooltip": tips},
        },
    ]
    if baselines:
        layers.insert(
            0,
            {
                "data": {"values": baselines},
                "mark": {"type": "line", "color": GREY, "strokeWidth": 1.5},
                "encoding": {
                    "x": x, "y": y, "strokeDash": dashes,
                    "tooltip": [{"field": "shortcut"}, {"field": "depth"}, {"field": "share"}],
                },
            },
        )  # fmt: skip
    return {"height": 300, "layer": layers}
