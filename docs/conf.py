"""How the docs are built: `make docs`. Pages are Markdown; tables and the API come from the code (`generated.py`)."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import generated
import pomona

project = "Pomona"
author = "The Pomona developers"
project_copyright = f"2026, {author}"
version = release = pomona.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
html_theme = "furo"
html_title = "Pomona"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
exclude_patterns = ["**/__pycache__"]
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
myst_heading_anchors = 3

_QUOTED = re.compile(r"(?<!`)`([^`]+)`(?!`)")


def as_text(lines: list[str]) -> list[str]:
    """A docstring of ours as reStructuredText. Ours are plain text: paragraphs, `names`, and examples set in or begun
    by >>>; nothing else in them is markup."""
    made: list[str] = []
    for paragraph in re.split(r"\n\s*\n", "\n".join(lines).strip("\n")):
        rows = paragraph.split("\n")
        if rows[0].startswith(">>>"):
            made += [*rows, ""]
        elif any(row.startswith(" ") for row in rows):  # a table, a formula or code: as it stands
            made += ["::", "", *(f"    {row}" for row in rows), ""]
        else:
            made += [*(_plain(row) for row in rows), ""]
    return made


def _plain(row: str) -> str:
    pieces = _QUOTED.split(row)
    pieces[::2] = [re.sub(r"([\\*_|`])", r"\\\1", piece) for piece in pieces[::2]]
    pieces[1::2] = [f"``{piece.strip()}``" for piece in pieces[1::2]]
    return "".join(pieces)


def setup(app: Any) -> None:
    def read(app: Any, page: str, source: list[str]) -> None:
        source[0] = generated.built(source[0], page)

    def describe(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
        lines[:] = as_text(lines)

    app.connect("source-read", read)
    app.connect("autodoc-process-docstring", describe)
