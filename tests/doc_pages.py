"""Run a page of the docs as a reader would: its files written, its Python executed, its commands called, in order.

`name.py`:          the block that follows is a file of this name
```python           is executed; all blocks of a page share their names
```sh               every line is a command; those of `pomona` are called, others must be among IGNORED
```text             is what the block before it printed; `...` stands for anything, blanks do not count
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from typer.testing import CliRunner

from pomona.cli.main import app

BLOCK = re.compile(r"(?:^`([\w./-]+)`:\n\n)?^```(\w+)\n(.*?)^```$", re.S | re.M)
IGNORED = ("make", "source", "pip", "git")  # set-up: `make demo` and `make test` are what CI itself runs
FAILS = "exit status 1"  # a comment behind a command that is meant to find something wrong


class Block(NamedTuple):
    file: str
    kind: str
    text: str
    line: int


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page that can be run."""
    text = page.read_text(encoding="utf-8")
    for found in BLOCK.finditer(text):
        yield Block(found[1] or "", found[2], found[3], text.count("\n", 0, found.start(2)) + 1)


def run_page(page: Path) -> int:
    """Run a page in the current folder; the number of blocks that were run. A block that fails is an AssertionError."""
    world: dict[str, Any] = {"__name__": page.stem}
    printed, count = "", 0
    for block in blocks(page):
        place = f"{page.name}, line {block.line}"
        if block.file:
            Path(block.file).parent.mkdir(parents=True, exist_ok=True)
            Path(block.file).write_text(block.text, encoding="utf-8")
        elif block.kind == "python" and ">>> " not in block.text:
            shown = io.StringIO()
            with contextlib.redirect_stdout(shown):
                exec(compile(block.text, place, "exec"), world)
            printed = shown.getvalue()
        elif block.kind == "sh":
            printed = "".join(_called(line, place) for line in block.text.splitlines())
        elif block.kind == "text":
            _compare(block.text, printed, place)
        else:
            continue
        count += 1
    return count


def _called(line: str, place: str) -> str:
    words = shlex.split(line, comments=True)
    if not words or words[0] in IGNORED:
        return ""
    assert words[0] == "pomona", f"{place}: {line!r} is no command that this test can run"
    done = CliRunner(env={"COLUMNS": "120"}).invoke(app, words[1:])
    wanted = 1 if FAILS in line else 0
    assert done.exit_code == wanted, f"{place}: {line!r} ended with {done.exit_code}\n{done.output}{done.exception!r}"
    return done.output


def _compare(wanted: str, printed: str, place: str) -> None:
    """What the page shows must stand in what was printed, in this order; `...` is anything, blanks do not count."""
    found, position = " ".join(printed.split()), 0
    for part in wanted.split("..."):
        text = " ".join(part.split())
        position = found.find(text, position)
        assert position >= 0, f"{place}: {text!r} is not in what was printed, or not in this order:\n{printed}"
        position += len(text)
