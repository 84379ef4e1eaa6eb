"""The plots of files: a paper's numbers and ours, the coverage of a certificate, the TRE of items."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pomona.base.plots import GREY, Row, Spec
from pomona.fairness import Certificate
from pomona.reports.style import AGREE, DIFFER, Plot, series_name
from pomona.trees.drawing import shortened


def paper_plots(number: int, name: str, content: Spec) -> Iterator[Plot]:
    """Printed and measured numbers on one line each, for the cells that were measured."""
    rows: list[Row] = []
    for cell in content["cells"]:
        if cell.get("measured") is not None and cell.get("printed") is not None:
            smoke = " (smoke test)" if cell.get("budget") == "smoke" else ""
            title = shortened(f"{cell['where']}, {cell['row']}, {cell['column']}{smoke}")
            about = {"cell": title, "low": cell.get("low"), "high": cell.get("high"), "runs": cell.get("runs")}
            rows += [{**about, "kind": kind, "value": cell[kind]} for kind in ("printed", "measured")]
    if not rows:
        return
    y = {"field": "cell", "type": "nominal", "sort": None, "title": None, "axis": {"grid": True, "labelLimit": 300}}
    tips = [{"field": name} for name in ("cell", "kind", "value", "low", "high", "runs")]
    yield Plot(
        f"paper-{number + 1}-{slug(name)}", f"paper-{number}", "Printed and measured",
        "The paper's number and ours, with the range of our runs; what is not measured yet is in the table only.",
        {
            "height": 20 * len({row["cell"] for row in rows}),
            "data": {"values": rows},
            "layer": [
                {
                    "transform": [{"filter": {"field": "kind", "equal": "measured"}}],
                    "mark": {"type": "rule", "color": AGREE, "strokeWidth": 2},
                    "encoding": {
                        "x": {"field": "low", "type": "quantitative", "title": "value"}, "x2": {"field": "high"},
                        "y": y,
                    },
                },
                {
                    "mark": {"type": "point", "size": 80, "strokeWidth": 2},
                    "encoding": {
                        "x": {"field": "value", "type": "quantitative", "scale": {"zero": False}}, "y": y,
                        "color": {
                            "field": "kind", "title": None,
                            "scale": {"domain": ["printed", "measured"], "range": [DIFFER, AGREE]},
                        },
                        "shape": {
                            "field": "kind", "title": None,
                            "scale": {"domain": ["printed", "measured"], "range": ["diamond", "circle"]},
                        },
                        "tooltip": tips,
                    },
                },
            ],
        },
    )  # fmt: skip


def coverage_plot(number: int, certificate: Certificate) -> Plot:
    rows = [
        {"function": series_name(coverage.function), "kind": kind, "inputs": count, "place": order}
        for coverage in certificate.coverage
        for order, (kind, count) in enumerate(
            (("shown", coverage.shown), ("missing", coverage.needed - coverage.shown))
        )
    ]
    return Plot(
        f"certificate-{number + 1}", f"certificate-{number}", "Coverage",
        "For each function, the inputs that the test needs: shown in training, or missing.",
        {
            "height": 22 * len({row["function"] for row in rows}),
            "data": {"values": rows},
            "mark": "bar",
            "encoding": {
                "x": {"field": "inputs", "type": "quantitative", "title": "inputs needed", "axis": {"tickMinStep": 1}},
                "y": {"field": "function", "type": "nominal", "sort": None, "title": None},
                "color": {
                    "field": "kind", "title": None, "scale": {"domain": ["shown", "missing"], "range": [AGREE, DIFFER]},
                },
                "order": {"field": "place"},
                "tooltip": [{"field": "function"}, {"field": "kind"}, {"field": "inputs", "format": ","}],
            },
        },
    )  # fmt: skip


def fit_plots(number: int, name: str, fit: Spec) -> Iterator[Plot]:
    """The distribution of TRE over the items, with the numbers to compare it with."""
    values = [value for value in fit["per_item"] if value is not None]
    if not values:
        return
    counts, edges = np.histogram(values, bins=min(40, max(5, len(values) // 4)))
    bars = [
        {"low": float(low), "high": float(high), "items": int(count)}
        for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True)
    ]
    certificate, shuffled = fit["certificate"], fit.get("shuffle") or {}
    against = {
        "TRE": fit.get("score"), "lower bound": certificate.get("lower_bound"), "shuffled, mean": shuffled.get("mean"),
        "predicting the mean": certificate.get("centroid"), "predicting zero": certificate.get("zero"),
    }  # fmt: skip
    rules = [{"what": what, "value": value} for what, value in against.items() if isinstance(value, (int, float))]
    x = {"field": "value", "type": "quantitative", "title": f"TRE ({fit['compose']}, {fit['distance']})"}
    yield Plot(
        f"tre-{number + 1}-{slug(name)}", f"tre-{number}", "Tree reconstruction error of the items",
        "Bars: items by their TRE. Vertical lines: the score, its lower bound, and predictors without composition.",
        {
            "height": 240,
            "layer": [
                {
                    "data": {"values": bars},
                    "mark": {"type": "bar", "color": GREY, "opacity": 0.55},
                    "encoding": {
                        "x": {"field": "low", "type": "quantitative", "bin": {"binned": True}, "title": x["title"]},
                        "x2": {"field": "high"},
                        "y": {"field": "items", "type": "quantitative"},
                        "tooltip": [
                            {"field": "low", "format": ".4g"}, {"field": "high", "format": ".4g"}, {"field": "items"},
                        ],
                    },
                },
                {
                    "data": {"values": rules},
                    "mark": {"type": "rule", "strokeWidth": 2.5},
                    "encoding": {
                        "x": x,
                        "color": {"field": "what", "type": "nominal", "title": None, "sort": None},
                        "strokeDash": {"field": "what", "type": "nominal", "title": None, "sort": None},
                        "tooltip": [{"field": "what"}, {"field": "value", "format": ".5g"}],
                    },
                },
            ],
        },
    )  # fmt: skip


def slug(text: str) -> str:
    """Letters and digits of a text, for the name of a file."""
    kept = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in text.lower())
    return "-".join(part for part in kept.split("-") if part)[:40] or "plot"
