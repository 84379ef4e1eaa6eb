"""What results look like in a notebook: small tables of HTML.

    heading("Ladder", "listops, test")              a line above a table
    table(["rung", "accuracy"], [["nothing", "10.0 %"]])
    bar(0.25)                                       a bar of a quarter of the width, for a cell

Every text is escaped, since names, tokens and values come from users' files; only what `bar` and `Markup` make is put
in as it is. Colours are those of the page, so that light and dark notebooks both work.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

LONGEST = 300  # characters shown of a text
_CELL = "text-align:left;vertical-align:top;padding:2px 12px 2px 0"


class Markup(str):
    """HTML that is put in as it is."""


def escaped(text: object, longest: int = LONGEST) -> str:
    """A text from outside as HTML; what is too long is cut."""
    if isinstance(text, Markup):
        return text
    shown = str(text)
    return html.escape(shown if len(shown) <= longest else f"{shown[: longest - 1]}…", quote=True)


def heading(title: str, *more: object) -> Markup:
    """A bold title, and further lines below it."""
    return Markup(f"<div><b>{escaped(title)}</b></div>" + "".join(f"<div>{escaped(line)}</div>" for line in more))


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Markup:
    """A table of texts, or of Markup."""
    head = "".join(f'<th style="{_CELL}">{escaped(column)}</th>' for column in columns)
    body = "".join(
        "<tr>" + "".join(f'<td style="{_CELL}">{escaped(cell)}</td>' for cell in row) + "</tr>" for row in rows
    )
    return Markup(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")


def bar(share: float, width: int = 160) -> Markup:
    """A bar whose length is this share of the width."""
    length = 0 if share != share else round(width * min(max(share, 0.0), 1.0))  # NaN is no bar
    return Markup(
        f'<div style="display:inline-block;height:0.7em;width:{length}px;background:currentColor;opacity:0.45"></div>'
    )


def page(*parts: str) -> str:
    """The parts below each other."""
    return f'<div class="pomona">{"".join(parts)}</div>'
