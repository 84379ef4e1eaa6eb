"""Plots: Vega-Lite specifications, drawn as SVG, PDF or PNG. All plots of Pomona are made so, on the page and in files.

    points = {"data": {"values": rows}, "mark": "point", "encoding": {"x": number("tre", "TRE"), ...}}
    Drawing(points).save("tre.svg")               # in a notebook, a Drawing shows itself
    Drawing(side_by_side([left, right])).save("both.pdf")

`vl-convert-python` holds Vega and Vega-Lite and runs them without a browser and without a network. On the page of a
report, ink is `currentColor`, so that a plot adapts to light, dark and print; in files it is black.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from pomona.base.errors import FormatError
from pomona.base.files import replacing
from pomona.base.pdf import in_one_order

Spec: TypeAlias = dict[str, Any]
Row: TypeAlias = dict[str, Any]

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"  # a name, never fetched
VERSION = "6.4"
PERCENT = {"format": ".2~%", "tickMinStep": 0.0001}  # digits where they are needed, so that no two ticks read alike
WIDTH = 430  # of a figure's plotting area, in points
KINDS = ("png", "svg", "pdf")

# Eight colours that the colour-blind can tell apart (after Okabe and Ito), legible on white and on black.
COLOURS = ["#0f7fc4", "#d9622b", "#12946f", "#b3568f", "#a07d0c", "#7a6fd0", "#5b8a1f", "#c2475a"]
GREY = "#8a8a8a"

_BACKSLASH = "\u29f5"
_UNDRAWN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


@dataclass(frozen=True)
class Drawing:
    """A plot to show or to save."""

    spec: Spec

    def svg(self, background: str | None = None) -> str:
        """The plot as SVG in black; the background is transparent unless a colour is given."""
        import vl_convert

        try:
            return str(vl_convert.vegalite_to_svg(for_paper(self.spec, background), VERSION, allowed_base_urls=[]))
        except ValueError as error:
            raise FormatError(f"this plot cannot be drawn: {error}") from None

    def save(self, path: str | Path) -> Path:
        """Write the plot in the format of the file's suffix, completely or not at all."""
        return save_svg(self.svg("#fff" if plot_kind(path) == "png" else None), path)

    def __repr__(self) -> str:
        return "Drawing(shown in a notebook; save it with .save('plot.svg'), .png or .pdf)"

    def _repr_svg_(self) -> str:
        return self.svg()


def save_svg(svg: str, path: str | Path) -> Path:
    """Write a plot that was drawn as SVG to a file of any of the three kinds."""
    import vl_convert

    content = svg.encode()
    match plot_kind(path):
        case "pdf":
            content = in_one_order(vl_convert.svg_to_pdf(svg))
        case "png":
            content = vl_convert.svg_to_png(svg, scale=2)
    with replacing(path) as beside:
        beside.write_bytes(content)
    return Path(path)


def plot_kind(path: str | Path) -> str:
    """The kind of plot that a file is to hold, by its suffix; an error for any other."""
    kind = Path(path).suffix.removeprefix(".").lower()
    if kind not in KINDS:
        raise FormatError("a plot ends in .png, .svg or .pdf", path=path)
    return kind


def for_paper(spec: Spec, background: str | None = None) -> Spec:
    """A plot of fixed width in black."""
    width = {} if {"hconcat", "vconcat", "concat"} & set(spec) else {"width": WIDTH}
    return {"$schema": SCHEMA, **width, **drawable(spec), "config": config("#000", background)}


def for_page(spec: Spec) -> Spec:
    """A plot as wide as its container on the page, in the colour of the text."""
    fit = {"type": "fit-x", "contains": "padding"}
    look = {"width": "container", "autosize": fit, "config": config("currentColor", None)}
    return {"$schema": SCHEMA, **drawable(spec), **look}


def drawable(value: Any, *, title: bool = False) -> Any:
    """A part of a specification whose texts can be drawn: characters that XML lacks become codes.

    One of them ends the process that draws, and a line separator ends a text inside an expression of Vega's. Vega-Lite
    also writes titles into expressions, and there a backslash would begin an escape: it becomes a character that
    looks the same.
    """
    if isinstance(value, str):
        text = value.replace("\\", _BACKSLASH) if title else value
        return _UNDRAWN.sub(lambda found: f"{_BACKSLASH}u{ord(found.group()):04x}", text)
    if isinstance(value, dict):
        return {key: drawable(part, title=title or key == "title") for key, part in value.items()}
    return [drawable(part, title=title) for part in value] if isinstance(value, (list, tuple)) else value


def config(ink: str, background: str | None) -> Spec:
    """How plots look: on the page with the ink of the text around them, on paper in black."""
    faint = {"gridColor": ink, "gridOpacity": 0.12, "domainColor": ink, "domainOpacity": 0.4}
    faint |= {"tickColor": ink, "tickOpacity": 0.4}
    words = {"labelColor": ink, "titleColor": ink, "labelFontSize": 11, "titleFontSize": 12, "titleFontWeight": 500}
    return {
        "background": background,
        "font": "Helvetica, Arial, sans-serif",
        "view": {"stroke": None},
        "axis": {**faint, **words, "labelLimit": 260},
        "legend": {**words, "labelLimit": 260, "symbolStrokeWidth": 2, "symbolOpacity": 1},
        "title": {"color": ink, "fontSize": 13, "fontWeight": 500},
        "text": {"color": ink},
        "rule": {"color": ink},
        "range": {"category": COLOURS},
    }


# -- parts of specifications -----------------------------------------------------------------------------------------


def number(field: str, title: str | None, **more: Any) -> Spec:
    """A channel of numbers, whose axis need not begin at zero."""
    return {"field": field, "type": "quantitative", "title": title, "scale": {"zero": False}, **more}


def percent(field: str, title: str, **more: Any) -> Spec:
    """A channel of shares, with per cent along its axis."""
    return {"field": field, "type": "quantitative", "title": title, "axis": PERCENT, **more}


def histogram(counts: Iterable[int], edges: Iterable[float], x: str, y: str, colour: str = COLOURS[0]) -> Spec:
    """Bars of counts between edges, as `numpy.histogram` gives them; `x` and `y` are the titles of the axes."""
    bounds = list(map(float, edges))
    rows = [
        {"low": low, "high": high, "count": int(count)}
        for low, high, count in zip(bounds[:-1], bounds[1:], counts, strict=True)
    ]
    return {
        "data": {"values": rows},
        "mark": {"type": "bar", "color": colour, "opacity": 0.8},
        "encoding": {
            "x": {"field": "low", "type": "quantitative", "bin": {"binned": True}, "title": x},
            "x2": {"field": "high"},
            "y": {"field": "count", "type": "quantitative", "title": y},
        },
    }


def marked(values: Mapping[str, float], x: str) -> Spec:
    """A vertical line at each value, named in the legend, in other colours than bars."""
    rows = [{"what": name, "value": float(value)} for name, value in values.items()]
    named = {"field": "what", "type": "nominal", "title": None, "sort": None}
    return {
        "data": {"values": rows},
        "mark": {"type": "rule", "strokeWidth": 2},
        "encoding": {
            "x": number("value", x),
            "color": {**named, "scale": {"range": COLOURS[1:]}},
            "strokeDash": named,
        },
    }


def side_by_side(panels: Sequence[Spec], columns: int | None = None) -> Spec:
    """Panels in one row, or in rows of `columns`; each has a scale and a legend of its own."""
    own = {"color": "independent", "strokeDash": "independent"}
    return {"concat": list(panels), "columns": columns or len(panels), "resolve": {"scale": own}}
