"""The figures of the TRE paper's experiments. The format follows the file name, for example SVG."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pomona.base.plots import GREY, Drawing, Spec, number, side_by_side
from pomona.papers.tre_2019.dynamics import CHOICES, selections

WORDS = {"exact": "TRE, exact", "legacy": "TRE, as published"}
SIZE = {"width": 240, "height": 200}  # of a panel
ZERO = 4.0  # what predicting zero costs in the game


def draw_dynamics(path: Path, curves: list[list[dict[str, Any]]]) -> None:
    """Figure 3: the path of one run, and all runs over the paper's two choices of epochs."""
    chosen = selections(curves)
    x, y = number("entropy", "entropy of theta, the paper's estimate"), number("exact", WORDS["exact"])
    rows = [{"epoch": epoch, "entropy": row["entropy"], "exact": row["exact"]} for epoch, row in enumerate(curves[0])]
    shade = {"field": "epoch", "type": "quantitative", "scale": {"scheme": "viridis"}, "title": "epoch"}
    panels: list[Spec] = [
        {
            **SIZE, "title": "(a) one run", "data": {"values": rows},
            "layer": [
                {"mark": {"type": "line", "color": GREY, "opacity": 0.5},
                 "encoding": {"x": x, "y": y, "order": {"field": "epoch"}}},
                {"mark": {"type": "circle", "opacity": 1}, "encoding": {"x": x, "y": y, "color": shade}},
            ],
        }
    ]  # fmt: skip
    for choice, letter in ((CHOICES[0], "b"), (CHOICES[1], "c")):
        rows = [{**_read(curves[run][epoch], "entropy", "exact"), "series": str(run)} for run, epoch in chosen[choice]]
        panels.append({**_scatter(rows, x, y, legend=False), "title": f"({letter}) {choice}"})
    Drawing(side_by_side(panels)).save(path)


def draw_games(path: Path, readings: dict[str, list[dict[str, Any]]]) -> None:
    """Figure 5 for both solvers: TRE against generalisation error and against reward on held-out referents."""
    panels = []
    for kind, title in WORDS.items():
        for name, label in (("error", "train - test reward"), ("test", "test reward")):
            rows = [
                {**_read(score, kind, name), "series": reading}
                for reading, scores in readings.items()
                for score in scores
            ]
            points = _scatter(rows, number(kind, title), number(name, label))
            mark = {"mark": {"type": "rule", "color": GREY, "opacity": 0.5}, "encoding": {"x": {"datum": ZERO}}}
            panels.append({**SIZE, "layer": [mark, points]})
    Drawing(side_by_side(panels, columns=2)).save(path)


def draw_compounds(path: Path, sources: dict[str, dict[str, Any]]) -> None:
    """The TRE of each compound against people's scores, one panel for each source of vectors."""
    panels = []
    for source, results in sources.items():
        ends = {*results["most compositional"], *results["least compositional"]}
        rows = [
            {"score": score, "tre": value, "name": name if name in ends else ""}
            for name, value, score in results["items"]
        ]
        x, y = number("score", "people's score, 5 is literal"), number("tre", WORDS["exact"])
        small = {"type": "text", "fontSize": 7, "dy": -7}
        text = {"mark": small, "encoding": {"x": x, "y": y, "text": {"field": "name"}}}
        panels.append({
            **SIZE, "title": source, "data": {"values": rows},
            "layer": [{"mark": {"type": "circle"}, "encoding": {"x": x, "y": y}}, text],
        })  # fmt: skip
    Drawing(side_by_side(panels)).save(path)


def draw_similarity(path: Path, readings: dict[str, list[dict[str, Any]]]) -> None:
    """Topographic similarity against TRE, one point for each language."""
    rows = [
        {**_read(score, "exact", "topsim"), "series": reading}
        for reading, scores in readings.items()
        for score in scores
        if score["topsim"] is not None
    ]
    x, y = number("exact", WORDS["exact"]), number("topsim", "topographic similarity")
    Drawing(_scatter(rows, x, y)).save(path)


def _read(row: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: row[name] for name in names}


def _scatter(rows: list[dict[str, Any]], x: Spec, y: Spec, *, legend: bool = True) -> Spec:
    colour = {"field": "series", "type": "nominal", "title": None, "sort": None, **({} if legend else {"legend": None})}
    return {
        **SIZE, "data": {"values": rows}, "mark": {"type": "circle", "opacity": 0.7},
        "encoding": {"x": x, "y": y, "color": colour},
    }  # fmt: skip
