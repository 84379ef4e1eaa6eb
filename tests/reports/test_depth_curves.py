"""Curves over depth: every measured point is drawn once, over the shortcuts of its own data."""

from __future__ import annotations

from pomona.reports.depth_curves import curve_plots


def cell(where, row, column, measured):
    return {
        "where": where,
        "row": row,
        "column": column,
        "measured": measured,
        "interval": [measured - 1, measured + 1],
    }


CONTENT = {
    "cells": [
        cell("Figure 2", "LSTM hard min-max", "both at depth 3", 50.0),
        cell("Figure 2", "LSTM hard min-max", "both at depth 4", 40.0),
        cell("Figure 2", "Transformer hard min-max", "both at depth 3", 30.0),
        cell("Figure 4", "LSTM hard min-max", "first at depth 12", 86.0),
        cell("Beyond", "Looped hard first-last digits", "second at depth 12", 10.0),
        {"where": "Figure 3", "row": "LSTM easy first-last", "column": "both at depth 3", "measured": None},
        {"where": "Table 1", "row": "LSTM 128D", "column": "accuracy", "measured": 70.0},
    ],
    "shortcuts": {
        "hard/min-max": {
            "by hand, top 2": {"3": [60.0, 50.0, 40.0], "4": [55.0, 45.0, 35.0]},
            "repeat the first answer": {"3": [None, 41.0, None]},
        }
    },
}


def test_points_and_shortcuts_are_drawn_with_their_own():
    plots = {plot.title: plot for plot in curve_plots(0, CONTENT)}
    assert list(plots) == [
        "Figure 2: hard min-max, both right by depth",
        "Figure 4: hard min-max, first right by depth",
        "Beyond: hard first-last digits, second right by depth",
    ]
    cheap, _, lines = plots["Figure 2: hard min-max, both right by depth"].spec["layer"]
    assert [(row["model"], row["depth"], row["share"]) for row in lines["data"]["values"]] == [
        ("LSTM", 3, 50.0), ("LSTM", 4, 40.0), ("Transformer", 3, 30.0),
    ]  # fmt: skip
    assert [(row["shortcut"], row["depth"], row["share"]) for row in cheap["data"]["values"]] == [
        ("by hand, top 2", 3, 40.0), ("by hand, top 2", 4, 35.0),
    ]  # fmt: skip
    assert len(plots["Beyond: hard first-last digits, second right by depth"].spec["layer"]) == 2
    assert len({plot.key for plot in plots.values()}) == 3


def test_other_papers_have_none():
    assert not list(curve_plots(0, {"cells": [CONTENT["cells"][-1]]}))
