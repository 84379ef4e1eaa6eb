"""How commands speak: tables and trees for people, `--json` for machines, one progress bar, four exit statuses.

Exit status: 0 fine, 1 a check failed, 2 wrong usage, 3 bad input. Nothing moves when the output is not a terminal,
and text from outside (tokens, names, predictions) is printed as text, never as markup or control sequences.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from rich.console import Console
from rich.markup import escape

if TYPE_CHECKING:
    from rich.table import Table

CHECK_FAILED, BAD_INPUT = 1, 3  # 2, wrong usage, comes from typer

# Into a file or a pipe lines are wide enough that a path or a fingerprint is not broken in two.
_WIDTH = None if sys.stdout.isatty() else 160
out = Console(highlight=False, soft_wrap=True, emoji=False, width=_WIDTH)
err = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)

# Control characters, what ends a line, what turns the direction of writing, and halves of characters.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(text: object, *, lines: bool = False) -> str:
    """Text from outside, safe to print: markup escaped, control characters as codes, ends of lines unless `lines`."""
    pieces = str(text).split("\n") if lines else [str(text)]
    return escape("\n".join(_CONTROL.sub(_code, piece) for piece in pieces))


def _code(match: re.Match[str]) -> str:
    return match.group().encode("unicode_escape").decode()


def emit_json(value: Any) -> None:
    """The machine's answer: one JSON document on standard output, and nothing else there."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")  # ASCII: no terminal acts on it
    sys.stdout.flush()  # here, not at the end of the process, a closed pipe is noticed and forgiven


@contextmanager
def aside(*, really: bool = True) -> Iterator[None]:
    """What is told inside goes to standard error, so that standard output is left to one JSON document."""
    before, out.stderr = out.stderr, really or out.stderr
    try:
        yield
    finally:
        out.stderr = before


def table(title: str | None, columns: Sequence[str], rows: Sequence[Sequence[object]], *, left: int = 1) -> Table:
    """A plain table; the first `left` columns are text, the others numbers."""
    from rich.table import Table

    made = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for position, column in enumerate(columns):
        made.add_column(plain(column), justify="left" if position < left else "right", no_wrap=position >= left)
    for row in rows:
        made.add_row(*(plain(cell, lines=True) for cell in row))
    return made


class Advance(Protocol):
    """What long work calls as it goes: how many more are done."""

    def __call__(self, done: int) -> None: ...


@contextmanager
def progress(label: str, total: int | None, *, quiet: bool = False) -> Iterator[Advance]:
    """A bar on standard error while work goes on; silent with `quiet` or when nobody watches.

    >>> with progress("drawing", 10, quiet=True) as advance:
    ...     advance(10)
    """
    if quiet or not err.is_terminal:
        yield lambda done: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    label_column = TextColumn("{task.description}")
    columns = (SpinnerColumn(), label_column, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True) as bar:
        job = bar.add_task(label, total=total)
        yield lambda done: bar.advance(job, done)


def bars(values: Sequence[float] | Any, *, rows: int = 16, width: int = 50) -> list[str]:
    """A histogram in lines of text, lowest first.

    >>> for line in bars([0, 0, 0, 1, 1, 2], rows=3, width=6): print(line)
        0 │██████ 3
        1 │████ 2
        2 │██ 1
    """
    import numpy as np

    known = np.asarray(values, float)
    if not len(known):
        return []
    step = max(1, int(np.ceil((known.max() + 1e-9) / rows)))
    places = (known // step).astype(int)
    counts = np.bincount(places)
    unit = counts.max() / width
    lines = []
    for place, count in enumerate(counts.tolist()):
        label = f"{place * step}" if step == 1 else f"{place * step}-{(place + 1) * step}"
        lines.append(f"{label:>5} │{'█' * round(count / unit)} {count:,}")
    return lines
