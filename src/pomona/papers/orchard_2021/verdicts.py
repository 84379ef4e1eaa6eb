"""What the ORCHARD paper claims (its trends T1 to T8), and how our runs decide each claim.

The paper prints four numbers and draws curves, so a claim is a set of comparisons between curves (`trends`). It is
reproduced if all of them hold and no row that stands below is still to be trained, since it could rise. It is not
reproduced if one fails between rows whose runs are trained out. Otherwise nothing is decided.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pomona.papers.claims import NOT_REPRODUCED, REPRODUCED, SHOWN_BUDGETS, UNDECIDED, Claim, Finding, Measured, shown
from pomona.papers.orchard_2021.trends import DEPTHS, FAMILIES, MODELS
from pomona.papers.records import GAIN

SOLVED = 0.98  # dev accuracy from which there is nothing left to learn
FEWEST_LOOKS = 24  # at full rate; over fewer, the noise of dev hides a slow rise
LONGEST = 5_400.0  # core-seconds of a run after which we stop, 1.5 hours

_PRINTED = "LSTM 86.7 and 88.7, Transformer 54.1 and 48.3 (min-max, first-last)"
_SAYS = {
    "T1": ("T1: both models are good at the depths of training, 3 to 6", "Figure 2", "they \"perform well\""),
    "T2": ("T2: both drop clearly beyond depth 7", "Figure 2", "a clear drop"),
    "T3": ("T3: easy above medium above hard", "Figure 2", "for both models and families"),
    "T4": ("T4: FIRST-LAST above MIN-MAX on medium and hard", "Figure 3", "for both models"),
    "T5": ("T5: the Transformer above the LSTM on medium and hard at depths 3 to 6", "Figure 3", "both families"),
    "T6": ("T6: the LSTM far above the Transformer from depth 9 on", "Figure 3", "all difficulties"),
    "T7": ("T7: on hard the second tree holds both models back", "Figure 4", "first tree well above second"),
    "T8": ("T8: at depth 12 the LSTM still answers the first tree of hard", "Figure 4", _PRINTED),
}  # fmt: skip


def trained_out(record: Mapping[str, Any]) -> bool:
    """Whether more training would change nothing that matters: dev is solved, or it no longer rose by more than a point
    in the last quarter of the epochs at full rate, or the longest time we give a run is used up.

    While a rate falls dev flattens in any case, so what happens then says nothing.
    """
    if record["dev"] >= SOLVED or record["core_seconds"] >= LONGEST:
        return True
    recipe, looks = record["recipe"], record.get("dev_curve") or []
    if recipe["schedule"] != "cooldown":
        return False
    looks = looks[: max(1, int(0.7 * recipe["epochs"] + 1e-9))]
    earlier = looks[: max(1, 3 * len(looks) // 4)]
    return len(looks) >= FEWEST_LOOKS and max(looks) - max(earlier) <= GAIN


def unfinished(results: Mapping[str, Any]) -> set[str]:
    """The rows of which a run is not trained out, or of which there is no run."""
    records = [entry for entry in results.get("runs", []) if entry.get("budget", "cpu") in SHOWN_BUDGETS]
    rows = {entry["row"] for entry in records if trained_out(entry)}
    return {cell["row"] for cell in results["cells"]} - rows | {
        entry["row"] for entry in records if not trained_out(entry)
    }


def _rows_of(case: Mapping[str, Any]) -> set[str]:
    return {_row(side) for side in (case["above"], case["below"]) if side}


def _row(side: str) -> str:
    return side.partition(",")[0]


def _trend(name: str, printed: str) -> Any:
    def judge(measured: Measured) -> Finding:
        found = [trend for trend in measured.results.get("trends", []) if trend["trend"] == name]
        cases = [case for trend in found for case in trend["cases"] if case["difference"] is not None]
        if not cases:
            return Finding(printed, "not run", UNDECIDED, "None of its rows has been run with today's recipe.")
        open_rows = unfinished(measured.results)
        total = sum(len(trend["cases"]) for trend in found)
        fail = [case for case in cases if case["verdict"] == "no"]
        holds = [case for case in cases if case["verdict"] == "yes"]
        settled = [case for case in fail if not _rows_of(case) & open_rows]
        may_rise = {_row(case["below"]) for case in holds if case["below"]} & open_rows
        verdict = REPRODUCED if len(holds) == total and not may_rise else NOT_REPRODUCED if settled else UNDECIDED
        gaps = [case["difference"] + case["margin"] for case in cases]
        kind = "both trees right" if name == "T1" else "differences"
        ours = f"{kind} {shown(min(gaps))} to {shown(max(gaps))}" if name != "T8" else _first_trees(measured)
        reason = f"{len(holds)} of {total} comparisons hold, {len(fail)} fail"
        if total - len(holds) - len(fail):
            reason += f", {total - len(holds) - len(fail)} are open or lack a second run"
        if settled:
            reason += f"; it fails between trained-out rows in {len(settled)}, for example: {_shown(settled[0])}"
        elif fail:
            rows = sorted(set.union(*(_rows_of(case) for case in fail)) & open_rows)
            reason += f"; none of those that fail is between rows that are trained out (not yet: {', '.join(rows)})"
        elif may_rise and len(holds) == total:
            reason += f"; rows that stand below are not trained out and could rise ({', '.join(sorted(may_rise))})"
        return Finding(printed, ours, verdict, f"{reason}.")

    return judge


def _shown(case: Mapping[str, Any]) -> str:
    below = f" is not above {case['below']}" if case["below"] else f" is not above {shown(case['margin'])}"
    return f"{case['above']}{below} ({shown(case['difference'] + case['margin'], sign=bool(case['below']))})"


def _first_trees(measured: Measured) -> str:
    """Our four numbers beside those that the paper printed."""
    parts = []
    for where, model in MODELS.items():
        cells = [
            measured.cell(where, f"{model} hard {family}", f"first at depth {DEPTHS[-1]}")
            for family in FAMILIES.values()
        ]
        values = ["not run" if cell is None else _value(cell) for cell in cells]
        parts.append(f"{model} {' and '.join(values)}")
    return ", ".join(parts) + f" ({', '.join(FAMILIES.values())})"


def _value(cell: Mapping[str, Any]) -> str:
    spread = f" ({shown(cell['low'])} to {shown(cell['high'])})" if cell["runs"] > 1 else ""
    return shown(cell["measured"]) + spread


CLAIMS = tuple(Claim(says, where, _trend(name, printed)) for name, (says, where, printed) in _SAYS.items())
