"""Tables of the papers' pages that are made from results/*.json, so that a page and its numbers cannot differ."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pomona.papers.claims import shown
from pomona.papers.fair_nli_2019.recipes import LONGER, RATIOS, ROWS, longer_column
from pomona.papers.orchard_2021.trends import DIFFICULTIES, FAMILIES, MODELS
from pomona.papers.orchard_2021.verdicts import trained_out
from tables import table

RESULTS = Path(__file__).resolve().parents[1] / "results"
STILL = "*"  # marks a number of which a run was still rising
DEPTHS = (3, 6, 9, 12)


def _results(paper: str) -> dict[str, Any]:
    return dict(json.loads((RESULTS / f"{paper}.json").read_text(encoding="utf-8")))


def _cells(results: dict[str, Any], where: str) -> dict[tuple[str, str], dict[str, Any]]:
    """The cells of a figure at the cpu budget that have a number, by row and column."""
    found = (cell for cell in results["cells"] if cell["where"] == where and cell["budget"] == "cpu")
    return {(cell["row"], cell["column"]): cell for cell in found if cell["measured"] is not None}


def _number(cell: dict[str, Any] | None) -> str:
    """A mean, from the lowest to the highest run, and whether a run was still rising."""
    if cell is None:
        return "not run"
    span = f" ({shown(cell['low'])} to {shown(cell['high'])})" if cell["runs"] > 1 else " (one run)"
    return f"{shown(cell['measured'])}{STILL if cell.get('still_rising') else ''}{span}"


def figure_5() -> str:
    """Fair NLI: test accuracy at each redundancy."""
    cells, rows = _cells(_results("fair_nli_2019"), "Figure 5"), []
    for model in ROWS:
        points = [cells.get((model, f"test at rho {ratio}")) for ratio in RATIOS.values()]
        seen = next((f"{point['seen']:,}" for point in points if point is not None), "")
        rows.append((model, seen, *map(_number, points)))
        longer = cells.get((model, longer_column()))
        if longer is not None:
            empty = [""] * (len(RATIOS) - 1)
            rows.append((f"{model}, {LONGER} times the pairs", f"{longer['seen']:,}", *empty, _number(longer)))
    return table(["model", "pairs seen", *RATIOS.values()], rows)


def orchard_rows() -> str:
    """ORCHARD: each row of the paper, how far it has come, and whether that is the end."""
    results = _results("orchard_2021")
    records = [entry for entry in results["runs"] if entry.get("budget", "cpu") == "cpu"]
    rows = []
    for name, where in _orchard_rows():
        runs = [entry for entry in records if entry["row"] == name]
        cells = _cells(results, where)
        both = [cells.get((name, f"both at depth {depth}")) for depth in DEPTHS]
        here = next((cell for cell in both if cell is not None), None)
        if here is None:
            rows.append((name, *["not run"] * 7))
            continue
        first = [cells.get((name, f"first at depth {depth}")) for depth in (6, 12)]
        settled = sum(map(trained_out, runs))
        numbers = [shown(cell["measured"]) if cell else "" for cell in both]
        ends = [_number(cell).replace(STILL, "") if cell else "" for cell in first]
        end = f"{settled} of {len(runs)}" if runs else ""
        rows.append((name, here["runs"], f"{here['seen']:,}", " / ".join(numbers), *ends, _dev(runs), end))
    return table(
        ["row", "runs", "examples", "both trees at 3 / 6 / 9 / 12", "first at 6", "first at 12",
         "dev at 1/4, 1/2, 3/4 and the end", "trained out"], rows,
    )  # fmt: skip


def _orchard_rows() -> Iterator[tuple[str, str]]:
    for figure, model in MODELS.items():
        for difficulty in DIFFICULTIES:
            for place, family in FAMILIES.items():
                yield f"{model} {difficulty} {family}", figure if difficulty == "hard" else place


def _dev(runs: list[dict[str, Any]]) -> str:
    """How dev rose, of each run that has a curve; the last of the four is the best look."""
    curves = [entry["dev_curve"] for entry in runs if entry.get("dev_curve")]
    told = ("/".join(shown(100 * max(one[: max(1, len(one) * part // 4)])) for part in (1, 2, 3, 4)) for one in curves)
    return "; ".join(told)


BLOCKS: dict[str, Callable[[], str]] = {"figure_5": figure_5, "orchard_rows": orchard_rows}
