"""The plots of runs: accuracy on the ladder, effective depth, learning curves, trees.

Names from users appear only in the data of a plot, never in a field name or an expression.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from pomona.base.plots import COLOURS, GREY, PERCENT, Row, Spec, percent
from pomona.data.groups import groups_of
from pomona.evaluation.accuracy import wilson
from pomona.reports.collect import Report, Test
from pomona.reports.style import Plot, series_name
from pomona.shortcuts.lookups import Rung

DASHES = [[1, 3], [6, 3], [2, 2], [8, 2, 2, 2], [4, 4], [10, 3], [3, 1], [1, 1]]
DRAWN_RUNGS = (
    "most frequent answer", "root operator", "look-up table", "top 1 level", "top 2 levels", "top 3 levels",
    "top 4 levels",
)  # fmt: skip
CHAIN = "operators that decide the answer"
FEW = 10  # groups with fewer examples are not drawn: their share says nothing
MANY = len(COLOURS)  # with more runs than this, colours show models instead of runs


class Names:
    """The names of runs in a plot, and the series (runs or models) that have a colour."""

    def __init__(self, collected: Report) -> None:
        short = [series_name(name) for name in collected.names]
        counts = Counter(short)
        self.runs = [f"{name} #{at + 1}" if counts[name] > 1 else name for at, name in enumerate(short)]
        models = [*(series_name(run.recipe.model) for run in collected.runs), *self.runs[len(collected.runs) :]]
        self.many = len(self.runs) > MANY
        self.title = "model" if self.many else "run"
        self.series = models if self.many else self.runs

    def about(self, run: int) -> Row:
        return {"run": self.runs[run], "series": self.series[run]}

    def colour(self, rows: list[Row]) -> Spec:
        """Colours of the series in these rows; a series has the same colour in every plot."""
        kinds = list(dict.fromkeys(self.series))
        colours = {kind: COLOURS[number % len(COLOURS)] for number, kind in enumerate(kinds)}
        here = {row["series"] for row in rows}
        shown = [kind for kind in kinds if kind in here]
        scale = {"domain": shown, "range": [colours[kind] for kind in shown]}
        return {"field": "series", "type": "nominal", "title": self.title, "scale": scale}


def _highlight(name: str = "chosen") -> list[Spec]:
    """A click in the legend highlights one series and fades the others."""
    return [{"name": name, "select": {"type": "point", "fields": ["series"]}, "bind": "legend"}]


def _faded(strong: float = 1.0) -> Spec:
    return {"condition": {"param": "chosen", "value": strong}, "value": 0.12}


# -- accuracy ----------------------------------------------------------------------------------------------------------


def accuracy_plots(number: int, test: Test, named: Names) -> Iterator[Plot]:
    """Accuracy by nesting, by operators that decide and by length beside the baselines; then the ladder as a whole."""
    amounts = {"nesting": "nesting depth", "chain": CHAIN, "length": "length in tokens"}
    questions = max((len(entry.scores.get("chains") or ()) for entry in test.entries), default=0)
    for key, axis in amounts.items():
        for question in range(questions) if key == "chain" and questions > 1 else [None]:
            runs, rungs = _by_group(test, key, named, question)
            if runs:
                which = "" if question is None else f", question {question + 1}"
                yield Plot(
                    f"accuracy-{key}-{number + 1}{'' if question is None else f'-{question + 1}'}",
                    f"accuracy-{number}", f"Accuracy by {axis}{which}", _caption(bool(rungs), key),
                    _curves(runs, rungs, axis, named),
                )  # fmt: skip
    if test.ladder is not None:
        yield _whole_ladder(number, test, named)


def _caption(with_rungs: bool, key: str) -> str:
    words = f"Lines with dots are runs, with 95 % Wilson intervals; groups of fewer than {FEW} examples are left out."
    if with_rungs:
        words += (
            " Dashed grey lines are baselines that see only part of an example: a run above all of them on deep or "
            "long examples has learnt more than these."
        )
    if key == "chain":
        words += " A run that opens too few levels falls from left to right; one that fails in another way is flat."
    return words


def _by_group(test: Test, key: str, named: Names, question: int | None) -> tuple[list[Row], list[Row]]:
    """Rows of the runs, from their evaluations, and of the baselines, if the examples were found."""
    runs = [
        {**named.about(entry.run), **_share(group, values["accuracy"], values["rows"], values["interval"])}
        for entry in test.entries
        for group, values in _groups(entry.scores, key, question).items()
    ]
    rungs = [
        {"rung": rung.name, **row} for rung in drawn_rungs(test) for row in _rung_shares(test, rung, key, question)
    ]
    return _enough(runs), _enough(rungs)


def _groups(scores: Mapping[str, Any], key: str, question: int | None) -> dict[str, Any]:
    """The groups of an evaluation, or of the answers to one question; earlier versions called chain dependency."""
    if question is not None:
        chains = scores.get("chains") or []
        return chains[question]["groups"] if question < len(chains) else {}
    groups: dict[str, Any] = scores.get("by") or {}
    return groups.get(key) or (groups.get("dependency") if key == "chain" else None) or {}


def _rung_shares(test: Test, rung: Rung, key: str, question: int | None) -> Iterator[Row]:
    """The accuracy of a baseline in the same groups as the evaluations."""
    assert test.corpus is not None
    names, numbers = groups_of(test.corpus, key, question)
    right = rung.right.prod(axis=1) if question is None else rung.right[:, question]
    counts, sums = np.bincount(numbers, minlength=len(names)), np.bincount(numbers, right, len(names))
    for name, rows, total in zip(names, counts.tolist(), sums.tolist(), strict=True):
        yield _share(name, total / rows, rows, wilson(round(total), rows))


def _share(group: str, share: float, rows: int, interval: Any) -> Row:
    return {"group": group, "share": share, "low": interval[0], "high": interval[1], "examples": rows}


def _enough(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["examples"] >= FEW]


def drawn_rungs(test: Test) -> list[Rung]:
    """The baselines that are drawn as curves: the well-known ones, else as many as there are dash patterns."""
    rungs = [rung for rung in test.ladder.rungs[1:] if not np.isnan(rung.accuracy)] if test.ladder else []
    known = [rung for rung in rungs if rung.name in DRAWN_RUNGS]
    return known if len(known) > 3 else [rung for rung in rungs if rung.answers is not None][: len(DASHES)]


def _curves(runs: list[Row], rungs: list[Row], axis: str, named: Names) -> Spec:
    order = sorted({row["group"] for row in (*runs, *rungs)}, key=_first_number)
    angle = -40 if sum(map(len, order)) > 30 else 0
    x = {"field": "group", "type": "ordinal", "sort": order, "title": axis, "axis": {"labelAngle": angle}}
    colour = named.colour(runs)
    y = percent("share", "right answers", scale={"domain": [0, 1]})
    tip = [
        {"field": "run", "title": "run"},
        {"field": "group", "title": axis},
        {"field": "share", "title": "right", "format": ".2%"},
        {"field": "low", "title": "from", "format": ".2%"},
        {"field": "high", "title": "to", "format": ".2%"},
        {"field": "examples", "title": "examples", "format": ","},
    ]
    names = list(dict.fromkeys(row["rung"] for row in rungs))
    layers: list[Spec] = []
    if rungs:
        layers.append(
            {
                "data": {"values": rungs},
                "mark": {"type": "line", "color": GREY, "strokeWidth": 1.5},
                "encoding": {
                    "x": x,
                    "y": y,
                    "strokeDash": {
                        "field": "rung", "type": "nominal", "title": "shortcut", "sort": names,
                        "scale": {"domain": names, "range": DASHES[: len(names)]},
                        "legend": {"symbolStrokeColor": GREY, "symbolSize": 400},
                    },
                    "tooltip": [{"field": "rung", "title": "shortcut"}, *tip[1:3], tip[-1]],
                },
            }
        )  # fmt: skip
    layers += [
        {
            "data": {"values": runs},
            "mark": {"type": "rule", "strokeWidth": 1.5},
            "encoding": {
                "x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "color": colour, "opacity": _faded(0.5)
            },
        },
        {
            "data": {"values": runs},
            "params": _highlight(),
            "mark": {"type": "line", "point": {"size": 45, "filled": True}, "strokeWidth": 2},
            "encoding": {
                "x": x, "y": y, "color": colour, "detail": {"field": "run"}, "opacity": _faded(), "tooltip": tip,
            },
        },
    ]  # fmt: skip
    return {"height": 300, "layer": layers}


def _first_number(group: str) -> tuple[int, str]:
    """The order of groups called "<10", "10-19", "100+"."""
    digits = group.removeprefix("<").split("-")[0].removesuffix("+")
    number = int(digits) if digits.isdecimal() else 0
    return (2 * number - 1 if group.startswith("<") else 2 * number), group


def _whole_ladder(number: int, test: Test, named: Names) -> Plot:
    assert test.ladder is not None
    rungs = [
        {"name": rung.name, "share": rung.accuracy, "sees": rung.sees}
        for rung in test.ladder.rungs
        if not np.isnan(rung.accuracy)
    ]
    marks = [
        {**named.about(entry.run), "share": entry.scores["accuracy"]}
        for entry in test.entries
        if entry.scores.get("accuracy") is not None
    ]
    x = percent("share", "right answers", scale={"domain": [0, 1]})
    layers: list[Spec] = [
        {
            "data": {"values": rungs},
            "mark": {"type": "bar", "color": GREY, "opacity": 0.55, "height": {"band": 0.6}},
            "encoding": {
                "x": x,
                "y": {"field": "name", "type": "nominal", "sort": None, "title": None},
                "tooltip": [
                    {"field": "name", "title": "shortcut"}, {"field": "sees", "title": "sees"},
                    {"field": "share", "title": "right", "format": ".1%"},
                ],
            },
        },
        {
            "data": {"values": marks},
            "params": _highlight(),
            "mark": {"type": "rule", "strokeWidth": 2},
            "encoding": {
                "x": x, "color": named.colour(marks), "opacity": _faded(),
                "tooltip": [{"field": "run", "title": "run"}, {"field": "share", "title": "right", "format": ".2%"}],
            },
        },
    ]  # fmt: skip
    caption = (
        f"Grey bars: the accuracy of baselines that see only part of the input, learnt from {test.ladder.learnt_from}. "
        "Vertical lines: the runs."
    )
    return Plot(
        f"ladder-{number + 1}", f"accuracy-{number}", "The shortcut ladder", caption,
        {"height": 19 * len(rungs), "layer": layers},
    )  # fmt: skip


# -- effective depth, learning, trees ----------------------------------------------------------------------------------


def depth_plots(number: int, test: Test, named: Names) -> Iterator[Plot]:
    """The share of answers that equal those of an evaluator that opens the top k levels, for each k."""
    rows: list[Row] = []
    order: list[str] = []
    for entry in test.entries:
        if entry.depth is not None:
            levels = [*map(str, range(len(entry.depth["agreement"]) - 1)), "all"]
            order = levels if len(levels) > len(order) else order
            best = str(entry.depth["depth"]).replace("everything", "all")
            rows += [
                {**named.about(entry.run), "levels": level, "share": share, "best": level == best}
                for level, share in zip(levels, entry.depth["agreement"], strict=True)
            ]
    if not rows:
        return
    shared: Spec = {
        "x": {
            "field": "levels", "type": "ordinal", "sort": order, "title": "levels that are opened",
            "axis": {"labelAngle": 0},
        },
        "y": percent("share", "answers in common", scale={"zero": False}),
        "color": named.colour(rows),
        "opacity": _faded(),
        "tooltip": [
            {"field": "run", "title": "run"}, {"field": "levels", "title": "levels"},
            {"field": "share", "title": "in common", "format": ".2%"},
        ],
    }  # fmt: skip
    yield Plot(
        f"effective-depth-{number + 1}", f"depth-{number}", "Effective depth",
        "The share of a run's answers that an evaluator of the top k levels gives as well; the dot is the best k.",
        {
            "height": 260,
            "data": {"values": rows},
            "layer": [
                {
                    "params": _highlight(), "mark": {"type": "line", "strokeWidth": 2},
                    "encoding": {**shared, "detail": {"field": "run"}},
                },
                {
                    "transform": [{"filter": {"field": "best", "equal": True}}],
                    "mark": {"type": "point", "filled": True, "size": 110}, "encoding": shared,
                },
            ],
        },
    )  # fmt: skip


def learning_plots(collected: Report, named: Names) -> Iterator[Plot]:
    """Accuracy on dev and the loss, epoch by epoch."""
    rows = [
        {**named.about(number), "epoch": epoch + 1, **{key: entry.get(key) for key in ("dev", "train", "loss", "rate")}}
        for number, run in enumerate(collected.runs)
        for epoch, entry in enumerate(run.curve)
    ]
    for key, title, axis in (
        ("dev", "Learning curves", "right answers on dev"),
        ("loss", "Training loss", "training loss"),
    ):
        known = [row for row in rows if isinstance(row[key], (int, float)) and np.isfinite(row[key])]
        if known:
            y = {"field": key, "type": "quantitative", "title": axis, "scale": {"zero": False}}
            yield Plot(
                f"learning-{key}", "learning", title, f"One line a run: {axis}, epoch by epoch.",
                {
                    "height": 260,
                    "data": {"values": known},
                    "params": _highlight(),
                    "mark": {"type": "line", "point": {"size": 30}, "strokeWidth": 2},
                    "encoding": {
                        "x": {
                            "field": "epoch", "type": "quantitative", "axis": {"tickMinStep": 1, "format": "d"},
                            "scale": {"zero": False},
                        },
                        "y": {**y, "axis": PERCENT} if key == "dev" else y,
                        "color": named.colour(known), "detail": {"field": "run"}, "opacity": _faded(),
                        "tooltip": [
                            {"field": "run"}, {"field": "epoch"}, {"field": "loss", "format": ".4f"},
                            {"field": "train", "format": ".2%"}, {"field": "dev", "format": ".2%"},
                            {"field": "rate", "format": ".2g"},
                        ],
                    },
                },
            )  # fmt: skip


TREES = {
    "f1_gold": "gold trees", "f1_gold_without_root": "gold, without the root", "f1_left": "left-branching",
    "f1_right": "right-branching", "list_recall": "lists closed as a unit",
}  # fmt: skip


def tree_plots(number: int, test: Test, named: Names) -> Iterator[Plot]:
    """Parse F1 of the runs that build trees."""
    rows = [
        {**named.about(entry.run), "against": title, "share": entry.scores["trees"][key]["value"]}
        for entry in test.entries
        for key, title in TREES.items()
        if (entry.scores.get("trees") or {}).get(key)
    ]
    if rows:
        yield Plot(
            f"trees-{number + 1}", f"trees-{number}", "Trees: F1 of constituents",
            "How far the trees that a model built agree with the gold ones, and with left- and right-branching trees.",
            {
                "height": 26 * len({row["against"] for row in rows}),
                "data": {"values": rows},
                "params": _highlight(),
                "mark": {"type": "point", "filled": True, "size": 110},
                "encoding": {
                    "x": percent("share", "F1, or share of lists", scale={"domain": [0, 1]}),
                    "y": {
                        "field": "against", "type": "nominal", "sort": list(TREES.values()), "title": None,
                        "axis": {"grid": True},
                    },
                    "color": named.colour(rows), "opacity": _faded(),
                    "tooltip": [
                        {"field": "run"}, {"field": "against"}, {"field": "share", "title": "share", "format": ".2%"},
                    ],
                },
            },
        )  # fmt: skip
