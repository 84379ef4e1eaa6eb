"""A plot of the page, and the two colours of agreement; `base.plots` says how all plots look."""

from __future__ import annotations

from dataclasses import dataclass

from pomona.base.plots import COLOURS, Spec

AGREE, DIFFER = COLOURS[:2]


@dataclass(frozen=True)
class Plot:
    """One plot with its section of the page, title, caption and Vega-Lite specification."""

    key: str  # the name of its file
    section: str
    title: str
    caption: str
    spec: Spec
