"""A plot of the page, and the two colours of agreement; `base.plots` says how all plots look."""

from __future__ import annotations

from dataclasses import dataclass

from pomona.base.plots import COLOURS, Spec
from pomona.trees.drawing import shortened

AGREE, DIFFER = COLOURS[:2]
_OF_EVERY_OBJECT = {
    "__proto__", "__defineGetter__", "__defineSetter__", "__lookupGetter__", "__lookupSetter__", "constructor",
    "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString", "toString", "valueOf",
}  # fmt: skip


def series_name(name: str) -> str:
    """A name as plots show it. Vega keeps series by name in plain objects, where a name that every object of JavaScript
    has would be taken already: such a name gets a blank that is not seen."""
    short = shortened(name)
    return f"{short}\u00a0" if short in _OF_EVERY_OBJECT else short


@dataclass(frozen=True)
class Plot:
    """One plot with its section of the page, title, caption and Vega-Lite specification."""

    key: str  # the name of its file
    section: str
    title: str
    caption: str
    spec: Spec
