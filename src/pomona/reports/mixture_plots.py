"""The mixture of evaluators, shortcut and noise that explains a run's answers: a stacked bar a run, with intervals.

Under each bar there is a mark for every share of it, with its 95 % interval, on the same axis. Names of runs are texts
above the bars, so that long ones have room on a narrow page. Where everything stands is in `place`, which the table of
numbers leaves out. Names from users appear only in the data of a plot, never in a field name or an expression.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pomona.base.plots import COLOURS, GREY, Row, Spec, percent
from pomona.reports.collect import Test
from pomona.reports.run_plots import Names
from pomona.reports.style import Plot

DRAWN = 0.005  # smaller shares are left out
NAME, BAR, LANE, GAP = 18, 20, 9, 16  # heights in pixels
LIGHT, DARK = (0xA9, 0xCF, 0xE8), (0x0B, 0x5F, 0x99)  # no level opened, and all of them


def mixture_plots(number: int, test: Test, named: Names) -> Iterator[Plot]:
    """One plot for each question that effective depth was found for."""
    questions = max((len(entry.scores.get("effective_depth") or ()) for entry in test.entries), default=0)
    for question in range(questions):
        rows, height = _rows(test, named, question)
        if rows:
            several = questions > 1
            yield Plot(
                f"mixture-{number + 1}{f'-{question + 1}' if several else ''}", f"depth-{number}",
                f"What explains the answers{f' to question {question + 1}' if several else ''}",
                "Each answer is taken to come from an evaluator that opens the top levels of a tree, from the best "
                "shortcut, or from noise: the bar shows the shares that make a run's answers most likely. The marks "
                "under it are the same shares, each with its 95 % interval.",
                _spec(rows, height),
            )  # fmt: skip


def _rows(test: Test, named: Names, question: int) -> tuple[list[Row], int]:
    """A row for each share of each run, and the height of all bars."""
    rows: list[Row] = []
    top = 0
    for entry in test.entries:
        depths = entry.scores.get("effective_depth") or []
        mixture = depths[question].get("mixture") if question < len(depths) else None
        if not mixture:
            continue
        start, lane = 0.0, top + NAME + BAR + LANE
        for at, share in enumerate([share for share in mixture["shares"] if share["share"] >= DRAWN]):
            place: Row = {
                "label": named.runs[entry.run] if at == 0 else "", "name": top + NAME - 5,
                "top": top + NAME, "bottom": top + NAME + BAR, "lane": lane,
                "start": start, "end": min(1.0, start + share["share"]), "levels": share["levels"],
            }  # fmt: skip
            numbers = {key: share[key] for key in ("share", "low", "high")}
            part, run = _short(share), named.runs[entry.run]
            place["spoken"] = f"{run}: {share['share']:.0%} {part}, {share['low']:.0%} to {share['high']:.0%}"
            rows.append({"run": run, "part": part, **numbers, "place": place})
            start += share["share"]
            lane += LANE
        top = lane + GAP
    return rows, top


def _short(share: Mapping[str, Any]) -> str:
    """A name that has room in a legend."""
    levels = share["levels"]
    if "everything" in levels:
        return "all levels" if len(levels) == 1 else f"{levels[0]} levels or more"
    if levels:
        many = f"{levels[0]}" if len(levels) == 1 else f"{levels[0]} to {levels[-1]}"
        return f"{many} level{'' if levels[-1] == 1 else 's'}"
    return str(share["name"])


def _colours(rows: Sequence[Row]) -> tuple[list[str], list[str]]:
    """The parts in order, levels first, and a colour for each: the more levels, the darker."""
    parts = list(dict.fromkeys(row["part"] for row in rows))
    levels = {row["part"]: row["place"]["levels"] for row in rows}

    def order(part: str) -> tuple[int, float]:
        if not levels[part]:
            return (2 if part == "noise" else 1), 0.0
        return 0, float("inf") if levels[part][-1] == "everything" else levels[part][0]

    parts.sort(key=order)
    opening = [part for part in parts if levels[part]]
    others = iter(COLOURS[1:])
    colours = []
    for part in parts:
        if part in opening:
            share = (opening.index(part) + 1) / len(opening)
            mixed = [round(light + share * (dark - light)) for light, dark in zip(LIGHT, DARK, strict=True)]
            colours.append("#" + "".join(f"{value:02x}" for value in mixed))
        else:
            colours.append(GREY if part == "noise" else next(others, GREY))
    return parts, colours


def _spec(rows: list[Row], height: int) -> Spec:
    parts, colours = _colours(rows)
    colour = {
        "field": "part", "type": "nominal", "title": None, "sort": parts,
        "scale": {"domain": parts, "range": colours},
    }  # fmt: skip
    down: Spec = {
        "type": "quantitative", "axis": None, "scale": {"domain": [0, height], "nice": False, "reverse": True},
    }  # fmt: skip
    across = percent("place.start", "share of the answers", scale={"domain": [0, 1]})
    tip = [
        {"field": "run", "title": "run"},
        {"field": "part", "title": "part"},
        {"field": "share", "title": "share", "format": ".1%"},
        {"field": "low", "title": "from", "format": ".1%"},
        {"field": "high", "title": "to", "format": ".1%"},
    ]
    return {
        "height": height,
        "data": {"values": rows},
        "layer": [
            {
                "mark": {
                    "type": "text", "align": "left", "baseline": "bottom", "limit": 320, "fontSize": 12, "aria": False,
                },
                "encoding": {
                    "x": {"datum": 0, "type": "quantitative"}, "y": {"field": "place.name", **down},
                    "text": {"field": "place.label"},
                },
            },
            {
                "mark": {"type": "bar", "stroke": "white", "strokeWidth": 0.5},
                "encoding": {
                    "x": across, "x2": {"field": "place.end"}, "y": {"field": "place.top", **down},
                    "y2": {"field": "place.bottom"}, "color": colour, "tooltip": tip,
                    "description": {"field": "place.spoken"},
                },
            },
            {
                "mark": {"type": "rule", "strokeWidth": 2, "aria": False},
                "encoding": {
                    "x": {**across, "field": "low"}, "x2": {"field": "high"}, "y": {"field": "place.lane", **down},
                    "color": colour,
                },
            },
            {
                "mark": {"type": "point", "filled": True, "size": 36, "opacity": 1, "aria": False},
                "encoding": {
                    "x": {**across, "field": "share"}, "y": {"field": "place.lane", **down}, "color": colour,
                    "tooltip": tip,
                },
            },
        ],
    }  # fmt: skip
