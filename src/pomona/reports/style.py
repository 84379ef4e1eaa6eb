"""The class Plot, and how all plots look on the page and on paper.

On the page, ink is `currentColor`, so that a plot adapts to light, dark and print; on paper it is black.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

Spec: TypeAlias = dict[str, Any]
Row: TypeAlias = dict[str, Any]

# Eight colours that the colour-blind can tell apart (after Okabe and Ito), legible on white and on black.
COLOURS = ["#0f7fc4", "#d9622b", "#12946f", "#b3568f", "#a07d0c", "#7a6fd0", "#5b8a1f", "#c2475a"]
GREY, AGREE, DIFFER = "#8a8a8a", "#0f7fc4", "#d9622b"


@dataclass(frozen=True)
class Plot:
    """One plot with its section of the page, title, caption and Vega-Lite specification."""

    key: str  # the name of its file
    section: str
    title: str
    caption: str
    spec: Spec


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
        "title": {"color": ink},
        "text": {"color": ink},
        "rule": {"color": ink},
        "range": {"category": COLOURS},
    }


def percent(field: str, title: str, **more: Any) -> Spec:
    """A channel of shares, with per cent along its axis."""
    return {"field": field, "type": "quantitative", "title": title, "axis": {"format": ".0%"}, **more}
