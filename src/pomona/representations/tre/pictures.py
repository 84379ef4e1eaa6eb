"""A fit as a picture and as a table: the score among its shuffles, and the items that fit best and worst."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from pomona.base.plots import COLOURS, GREY, Drawing, histogram, marked, side_by_side
from pomona.representations.tre.fitted import FittedModel
from pomona.representations.tre.significance import ShuffleTest
from pomona.representations.tre.verdict import derivation_text

SHOWN = 8  # best and worst items in a picture


def picture(fitted: FittedModel, test: ShuffleTest | None) -> Drawing:
    """The score, its lower bound and the mean vector's among the scores of shuffles; the best and worst items."""
    title = f"TRE ({fitted.compose.name}, {fitted.distance.name})"
    values = {f"TRE {fitted.score:.4g}": fitted.score, "lower bound": fitted.bound.lower_bound}
    if np.isfinite(fitted.bound.centroid):
        values["mean vector"] = fitted.bound.centroid
    shuffled = [] if test is None else [histogram(*np.histogram(test.null, 40), title, "shuffles", GREY)]
    order = np.argsort(fitted.per_item, kind="stable")
    chosen = dict.fromkeys([*order[:SHOWN].tolist(), *order[-SHOWN:].tolist()])
    rows = [{"item": f"{row}: {derivation_text(fitted, row, 40)}", "tre": float(fitted.per_item[row])}
            for row in chosen]  # fmt: skip
    items = {
        "width": 260, "height": 240, "data": {"values": rows}, "mark": {"type": "bar", "color": COLOURS[0]},
        "encoding": {
            "x": {"field": "tre", "type": "quantitative", "title": "TRE of the best and worst reconstructed items"},
            "y": {"field": "item", "type": "nominal", "sort": None, "title": None, "axis": {"labelFontSize": 8}},
        },
    }  # fmt: skip
    left = {"width": 300, "height": 240, "layer": [*shuffled, marked(values, title)]}
    return Drawing(side_by_side([left, items]))


def as_plain(fitted: FittedModel, names: tuple[str, ...] | None = None, show: int = 5) -> dict[str, Any]:
    """What was measured, as plain values for JSON; `names` of the items, else their derivations."""
    order = np.argsort(fitted.per_item, kind="stable")

    def row(number: int) -> dict[str, Any]:
        name = names[number] if names else str(fitted.derivations.tree(number))
        return {"row": int(number), "item": name, "tre": float(fitted.per_item[number])}

    fields = dataclasses.asdict(fitted.bound)  # the source of the bound is called "bound" in files
    return {
        "score": fitted.score,
        "compose": fitted.compose.name,
        "distance": fitted.distance.name,
        "items": len(fitted.per_item),
        "primitives": len(fitted.derivations.names),
        "certificate": {"bound" if name == "source" else name: value for name, value in fields.items()},
        "notes": list(fitted.notes),
        "best": [row(number) for number in order[:show]],
        "worst": [row(number) for number in order[::-1][:show]],
        "per_item": fitted.per_item.tolist(),
    }


def model_as_plain(fitted: FittedModel) -> dict[str, Any]:
    """The fitted lexicon and parameters; primitives that are no texts or numbers are written as Python shows them."""
    shaped = fitted.lexicon.items()
    return {
        "lexicon": [
            {"primitive": name if isinstance(name, str | int | float) else repr(name), "vector": vector.tolist()}
            for name, vector in shaped
        ],
        "parameters": {name: value.tolist() for name, value in fitted.parameters.items()},
        "seed": fitted.seed,
    }


def without_nan(value: Any) -> Any:
    """JSON has no NaN or infinity, so they become null."""
    if isinstance(value, dict):
        return {key: without_nan(part) for key, part in value.items()}
    if isinstance(value, list):
        return [without_nan(part) for part in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
