"""The output of commands: tables for people, JSON for programs, a progress bar, exit statuses.

Exit status: 0 success, 1 a check failed, 2 wrong usage, 3 bad input, 4 a bug in Pomona; 130 and 143 if interrupted or
terminated. There is no progress bar if nobody watches a terminal. Text from outside (tokens, names, predictions) is
printed as text, never as markup or control sequences. Characters that the output's encoding lacks are replaced.
"""

from __future__ import annotations

import codecs
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

CHECK_FAILED, BAD_INPUT, BUG = 1, 3, 4  # 2, wrong usage, comes from typer
INTERRUPTED, TERMINATED = 130, 143

# In a file or a pipe, lines are wide enough that a path or a fingerprint is not broken in two.
_WIDTH = None if sys.stdout.isatty() else 160
out = Console(highlight=False, soft_wrap=True, emoji=False, width=_WIDTH)
err = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)

# Control characters, line ends, changes of the direction of writing, and unpaired surrogates.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(text: object, *, lines: bool = False) -> str:
    """Text from outside, safe to print: markup is escaped, control characters are codes. `lines` keeps line ends."""
    pieces = str(text).split("\n") if lines else [str(text)]
    return escape("\n".join(map(visible, pieces)))


def visible(text: str) -> str:
    """Text from outside for something that knows no markup: control characters are codes."""
    return _CONTROL.sub(_code, text)


def _code(match: re.Match[str]) -> str:
    return match.group().encode("unicode_escape").decode()


_ASCII = str.maketrans("│├└┌┐┘┬┴┼─█▉▊▋▌▍▎▏→–…", "||`..'+++-########>-.")


def show_what_can_be_shown() -> None:
    """Make standard output and error replace the characters that their encoding lacks: lines of trees by ASCII."""
    codecs.register_error("pomona", _shown)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # not where a test has put something else there
            stream.reconfigure(errors="pomona")


def _shown(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end].translate(_ASCII)
    return text.encode("ascii", "replace").decode(), error.end


def emit_json(value: Any) -> None:
    """Print one JSON document to standard output, where nothing else is printed."""
    sys.stdout.write(
        json.dumps(value, indent=2, allow_nan=False) + "\n"
    )  # ASCII, so that no character controls a terminal
    sys.stdout.flush()  # a closed pipe is noticed here, where main handles it, not at the end of the process


def emit_lines(lines: Sequence[str]) -> None:
    """Print lines for a program, as CSV; control characters inside a line are codes."""
    sys.stdout.write("".join(visible(line) + "\n" for line in lines))
    sys.stdout.flush()


@contextmanager
def aside(*, really: bool = True) -> Iterator[None]:
    """Inside, print to standard error, so that standard output has one JSON document only."""
    before, out.stderr = out.stderr, really or out.stderr
    try:
        yield
    finally:
        out.stderr = before


def table(title: str | None, columns: Sequence[str], rows: Sequence[Sequence[object]], *, left: int = 1) -> Table:
    """A table; the first `left` columns are text, the others are numbers."""
    from rich.table import Table

    built = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for position, column in enumerate(columns):
        built.add_column(plain(column), justify="left" if position < left else "right", no_wrap=position >= left)
    for row in rows:
        built.add_row(*(plain(cell, lines=True) for cell in row))
    return built


class Advance(Protocol):
    """Called during long work with the number of items done since the last call."""

    def __call__(self, done: int) -> None: ...


@contextmanager
def progress(label: str, total: int | None, *, quiet: bool = False) -> Iterator[Advance]:
    """A progress bar on standard error; none with `quiet` or if standard error is not a terminal.

    >>> with progress("drawing", 10, quiet=True) as advance:
    ...     advance(10)
    """
    if quiet or not err.is_terminal:
        yield lambda done: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    label_column = TextColumn("{task.description}", markup=False)
    columns = (SpinnerColumn(), label_column, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True) as bar:
        job = bar.add_task(visible(label), total=total)
        yield lambda done: bar.advance(job, done)


def bars(values: Sequence[float] | Any, times: Any = None, *, rows: int = 16, width: int = 50) -> list[str]:
    """A histogram as lines of text, lowest values first; each value counts once, or so many `times`.

    >>> for line in bars([0, 0, 0, 1, 1, 2], rows=3, width=6): print(line)
        0 │██████ 3
        1 │████ 2
        2 │██ 1
    """
    import numpy as np

    numbers = np.asarray(values, float)
    if not len(numbers):
        return []
    step = max(1, int(np.ceil((numbers.max() + 1e-9) / rows)))
    counts = np.bincount((numbers // step).astype(int), times).astype(int)
    unit = counts.max() / width
    lines = []
    for bin_number, count in enumerate(counts.tolist()):
        label = f"{bin_number * step}" if step == 1 else f"{bin_number * step}-{(bin_number + 1) * step}"
        lines.append(f"{label:>5} │{'█' * round(count / unit)} {count:,}")
    return lines
