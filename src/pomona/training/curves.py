"""A learning curve as plain numbers: one flat row for each epoch, as CSV, for programs that know nothing of Pomona.

    flat({"epoch": 0, "dev": 0.5, "dev_by_nesting": {"3": [7, 6, 5, 10]}})        {..., "dev at depth 3": 0.5}
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

BY_DEPTH = "dev_by_nesting"  # for each depth: right answers to each question, rows with all of them right, rows


def flat(entry: Mapping[str, Any]) -> dict[str, Any]:
    """An epoch of a curve; dev at each depth is the share of rows whose answers are all right."""
    plain = {name: value for name, value in entry.items() if name != BY_DEPTH}
    return plain | {
        f"dev at depth {depth}": right / rows for depth, (*_, right, rows) in entry.get(BY_DEPTH, {}).items()
    }


def as_csv(curve: Sequence[Mapping[str, Any]]) -> str:
    """A curve with a column for everything that some epoch has."""
    rows = [flat(entry) for entry in curve]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
