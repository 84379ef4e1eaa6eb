"""What a paper claims, and what our numbers say of it: the table that opens a paper's page and its line in README.

    Claim("CBoW fails", "Table 3", number("Table 3", "CBoW", "test", within=3.0))
    judged(paper, results)      [{"claim": "CBoW fails", "printed": "54.0 ± 0.3", "ours": "55.0 ± 6.1, 5 runs",
                                  "verdict": "reproduced", "reason": "...", "command": "pomona reproduce ..."}, ...]

A verdict is one of three: reproduced; not reproduced, though trained out; not decided, because the budget was too
small to tell. It is computed from the cells of a results file each time it is shown, so the two cannot differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Verdict = Literal["reproduced", "not reproduced, trained out", "not decided, budget"]
REPRODUCED: Verdict = "reproduced"
NOT_REPRODUCED: Verdict = "not reproduced, trained out"
UNDECIDED: Verdict = "not decided, budget"
SHOWN_BUDGETS = ("cpu", "paper")  # a smoke run decides nothing; of two budgets the larger one counts


@dataclass(frozen=True)
class Finding:
    """What was printed, what was measured, the verdict, and its reason in one sentence."""

    printed: str
    ours: str
    verdict: Verdict
    reason: str


class Measured:
    """The cells of a results file, by place, row and column; those without a number are not there."""

    def __init__(self, results: Mapping[str, Any]) -> None:
        self.results = results
        self._cells: dict[tuple[str, str, str], Mapping[str, Any]] = {}
        for budget in SHOWN_BUDGETS:
            for cell in results["cells"]:
                if cell["budget"] == budget and cell["measured"] is not None:
                    self._cells[cell["where"], cell["row"], cell["column"]] = cell

    def cell(self, where: str, row: str, column: str) -> Mapping[str, Any] | None:
        return self._cells.get((where, row, column))

    def value(self, where: str, row: str, column: str) -> float | None:
        cell = self.cell(where, row, column)
        return None if cell is None else float(cell["measured"])


Judge = Callable[[Measured], Finding]


@dataclass(frozen=True)
class Claim:
    """One claim of a paper: its words, the table, figure or experiment that measures it, and how it is judged."""

    says: str
    where: str
    judge: Judge
    row: str | None = None  # for the command; None for all rows of `where`


class Claims(Protocol):
    """A paper, as far as its claims go."""

    name: str
    claims: tuple[Claim, ...]


def judged(paper: Claims, results: Mapping[str, Any]) -> list[dict[str, str]]:
    """Every claim of a paper with its verdict, as plain JSON values."""
    measured = Measured(results)
    rows = []
    for claim in paper.claims:
        finding = claim.judge(measured)
        command = command_for(paper.name, claim.where, claim.row)
        rows.append({"claim": claim.says, **vars(finding), "command": command})
    return rows


def command_for(paper: str, where: str, row: str | None = None) -> str:
    """The command that trains and measures a table, a figure or an experiment."""
    kind, _, number = where.partition(" ")
    part = f"--{kind.lower()} {number}" if kind in ("Table", "Figure") else f"--experiment {_quoted(where)}"
    return f"pomona reproduce {paper} {part}" + (f" --row {_quoted(row)}" if row else "")


def _quoted(text: str) -> str:
    return f'"{text}"' if " " in text else text


# -- judging numbers ---------------------------------------------------------------------------------------------------


def number(
    where: str, row: str, column: str, *, within: float, higher_counts: bool = False, note: str = ""
) -> Judge:
    """A number is reproduced if ours differs by at most `within`, or if the two 95 % intervals overlap; with
    `higher_counts` also if it is higher. Otherwise it is not decided while most of our runs were still rising, or while
    there is one run: another seed could give another number."""

    def judge(measured: Measured) -> Finding:
        cell = measured.cell(where, row, column)
        if cell is None:
            return Finding("", "not run", UNDECIDED, "It has not been run.")
        printed, ours = float(cell["printed"]), float(cell["measured"])
        overlap, doubts = intervals_overlap(cell), doubts_about(cell)
        gap = f"The difference is {shown(ours - printed, sign=True)}" + ("; the intervals overlap" if overlap else "")
        if abs(ours - printed) <= within or overlap or (higher_counts and ours > printed):
            verdict = REPRODUCED
        else:
            doubts += ["one run cannot refute it"] if cell["runs"] == 1 else []
            verdict = UNDECIDED if doubts else NOT_REPRODUCED
        return Finding(with_interval(cell, "printed"), with_interval(cell), verdict, sentence(gap, *doubts, note))

    return judge


def doubts_about(cell: Mapping[str, Any]) -> list[str]:
    """Why a number may not be final: an older recipe, or runs that were still rising when they ended."""
    doubts = []
    if cell.get("older_recipe"):
        doubts.append("from an older recipe")
    if 2 * (cell.get("still_rising") or 0) > cell["runs"]:
        doubts.append(f"dev was still rising in {cell['still_rising']} of {cell['runs']} runs")
    return doubts


def intervals_overlap(cell: Mapping[str, Any]) -> bool:
    """Whether the interval printed as a half width meets ours; False where either has none."""
    half, ours = cell.get("printed_interval"), cell.get("interval")
    if half is None or ours is None:
        return False
    return bool(ours[0] <= cell["printed"] + half and ours[1] >= cell["printed"] - half)


def with_interval(cell: Mapping[str, Any], which: Literal["printed", "measured"] = "measured") -> str:
    """A number as a reader sees it, with half the width of its 95 % interval if it has one."""
    if which == "printed":
        half = cell.get("printed_interval")
        return shown(cell["printed"]) + (f" ± {shown(half)}" if half is not None else "")
    ends = cell.get("interval")
    text = shown(cell["measured"]) + (f" ± {shown((ends[1] - ends[0]) / 2)}" if ends else "")
    return f"{text}, {cell['runs']} run{'s' if cell['runs'] != 1 else ''}" if cell["runs"] else text


def shown(value: float | str | None, *, sign: bool = False) -> str:
    """A percentage with one digit after the point, a correlation with two."""
    if value is None or isinstance(value, str):
        return str(value or "")
    return f"{value:{'+' if sign else ''}.{1 if abs(value) >= 2 or float(value) == round(value, 1) else 2}f}"


def sentence(*parts: str) -> str:
    """Parts joined to one sentence."""
    text = "; ".join(part.rstrip(".") for part in parts if part)
    return f"{text}." if text else ""


def counts(rows: Iterable[Mapping[str, str]]) -> dict[str, list[str]]:
    """The claims of each verdict, for a line in README."""
    by_verdict: dict[str, list[str]] = {REPRODUCED: [], NOT_REPRODUCED: [], UNDECIDED: []}
    for row in rows:
        by_verdict[row["verdict"]].append(row["claim"])
    return by_verdict
