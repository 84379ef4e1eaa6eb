"""Draw trees: as text with box lines for the terminal, as SVG for pages and papers.

    >>> forest = brackets.read("[MAX 2 9 [MIN 4 7 ] 0 ]")
    >>> print(draw(forest, denote(forest)))
    MAX = 9
    ├─ 2 9
    ├─ MIN = 4
    │  └─ 4 7
    └─ 0

Neighbouring leaves share a line. A node that quotes another names it: `COPY → 1.MIN` quotes the MIN of tree 1. Every
tree can be drawn. Where it is too deep, too wide or too long, a count replaces the nodes that are left out. Nothing
recurses. `trees.layout` places the nodes of the SVG, which takes its colours from the page around it. Names may hold
any characters: control characters are shown as codes, and markup is escaped in SVG.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from xml.sax.saxutils import escape

from pomona.base.arrays import Ints
from pomona.base.errors import TreeError
from pomona.trees.forest import Forest
from pomona.trees.layout import tidy

WIDTH = 100  # columns, by default
_LEAST = 24  # columns reserved for the label, however deep the node
_LONGEST = 60  # characters shown of a name or a value
_UNSEEN = {"Cc", "Cf", "Cn", "Cs", "Zl", "Zp"}  # control, format, unassigned, surrogate, line and paragraph separators
_LINES, _NAME, _VALUE, _QUOTE = "2", "1", "32", "36"  # ANSI: dim, bold, green, cyan


def visible(text: str) -> str:
    """The text, with each character that has no glyph replaced by its code, for example `\\x1b`."""
    return "".join(
        character
        if unicodedata.category(character) not in _UNSEEN
        else f"\\x{ord(character):02x}"
        if ord(character) < 256
        else f"\\u{ord(character):04x}"
        for character in text
    )


def shortened(text: str) -> str:
    """`visible` text, cut to the length of a label."""
    return visible(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…")


def columns(text: str) -> int:
    """The width in terminal columns: 0 for a combining mark, 2 for a wide character, 1 for any other."""
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


@dataclass(frozen=True)
class _Label:
    """The label of a node: its name, the node it quotes (if any) and its value (if known)."""

    name: str
    quote: str = ""
    value: str = ""

    def pieces(self, *, bold: bool = False) -> list[tuple[str, str]]:
        """The parts of the label, each with its ANSI style."""
        return [
            (self.name, _NAME if bold else ""),
            *([(f" → {self.quote}", _QUOTE)] if self.quote else []),
            *([(f" = {self.value}", _VALUE)] if self.value else []),
        ]

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.pieces())


class _Labels:
    """The labels of a forest's nodes, each built on demand: of a million nodes, perhaps a hundred are drawn."""

    def __init__(self, forest: Forest, values: Sequence[Any] | Ints | None) -> None:
        if values is not None and len(values) != len(forest.symbol):
            count = len(forest.symbol)
            raise TreeError(f"{len(values)} values for a forest of {count} nodes; give one for each node")
        self.forest, self.values = forest, values
        self.quoted = (
            set()
            if forest.link is None
            else {node - int(back) for node, back in enumerate(forest.link.tolist()) if back and node >= back}
        )
        self.counts: dict[int, Counter[int]] = {}

    def __getitem__(self, node: int) -> _Label:
        back = int(self.forest.links[node])
        quote = self._reference(node - back) if 0 < back <= node else ""
        name = self._name(node)
        known = None if self.values is None else self.values[node]
        value = "" if known is None else shortened(str(known))
        if value == name and not quote:  # a numeral is its own value
            value = ""
        return _Label(name + self._mark(node), quote, value)

    def _name(self, node: int) -> str:
        return shortened(self.forest.names[self.forest.symbol[node]]) or "·"

    def _mark(self, node: int) -> str:
        """A number for a quoted node that shares its name with other nodes of the tree."""
        if node not in self.quoted:
            return ""
        forest, tree = self.forest, int(self.forest.tree[node])
        first = int(forest.start[tree])
        if tree not in self.counts:
            self.counts[tree] = Counter(forest.symbol[first : int(forest.start[tree + 1])].tolist())
        return f"#{node - first}" if self.counts[tree][int(forest.symbol[node])] > 1 else ""

    def _reference(self, node: int) -> str:
        prefix = f"{self.forest.tree[node] + 1}." if len(self.forest) > 1 else ""
        return f"{prefix}{self._name(node)}{self._mark(node)}"


class Drawable(Protocol):
    """What has trees and their values: an Example."""

    @property
    def trees(self) -> Forest: ...
    @property
    def values(self) -> Sequence[Any]: ...


def _trees_of(thing: Any, values: Sequence[Any] | Ints | None) -> tuple[Forest, Sequence[Any] | Ints | None]:
    if isinstance(thing, Forest):
        return thing, values
    if isinstance(getattr(thing, "trees", None), Forest) and hasattr(thing, "values"):
        return thing.trees, thing.values if values is None else values
    raise TreeError(f"trees are a Forest or an Example; got {type(thing).__name__}")


# -- the terminal ----------------------------------------------------------------------------------------------------


def draw(
    forest: Forest | Drawable,
    values: Sequence[Any] | Ints | None = None,
    *,
    color: bool = False,
    width: int | None = None,
    height: int = 200,
) -> str:
    """The trees as text, at most `width` columns (default: 100) and `height` lines a tree. Several trees are numbered.

    Of an Example, its trees are drawn with its values. Otherwise `values` has one entry for each node, in the order of
    `denote`. With `color`, ANSI codes distinguish names, values and lines.
    """
    forest, values = _trees_of(forest, values)
    labels = _Labels(forest, values)
    columns_kept = max(WIDTH if width is None else width, 2 * _LEAST)
    drawn: list[str] = []
    for tree in range(len(forest)):
        number = f"{tree + 1}. " if len(forest) > 1 else ""
        margin = " " * len(number)
        lines = _lines(forest, labels, tree, columns_kept - len(number), max(height, 1))
        drawn += [
            (number if not line_number else margin) + _painted(_cut(line, columns_kept - len(number)), color)
            for line_number, line in enumerate(lines)
        ]
    return "\n".join(drawn)


_Line = list[tuple[str, str]]  # pieces of text with the ANSI style of each


def _lines(forest: Forest, labels: _Labels, tree: int, width: int, height: int) -> Iterator[_Line]:
    offsets, children = forest.children
    root, missing = int(forest.root[tree]), int(forest.start[tree + 1] - forest.start[tree])
    emitted = 0
    waiting: list[tuple[list[int], str, str]] = [([root], "", "")]  # nodes of a line, its prefix, the prefix below it
    while waiting:
        nodes, branch, under = waiting.pop()
        if emitted == height:
            yield [(_more(missing), _LINES)]
            return
        emitted += 1
        if len(nodes) > 1:
            yield [(branch, _LINES), *_run(nodes, labels, width - len(branch))]
            missing -= len(nodes)
            continue
        node = nodes[0]
        below = children[offsets[node] : offsets[node + 1]].tolist()
        yield [(branch, _LINES), *labels[node].pieces(bold=bool(below))]
        missing -= 1
        if below and len(under) + 3 > width - _LEAST:
            inside = int(forest.size[node]) - 1
            yield [(f"{under}└─ {_more(inside)}", _LINES)]
            emitted += 1
            missing -= inside
            continue
        rows = _rows(below, forest, labels, height)
        waiting += [
            (row, under + ("├─ " if from_last else "└─ "), under + ("│  " if from_last else "   "))
            for from_last, row in enumerate(reversed(rows))
        ]


def _more(nodes: int) -> str:
    return f"… {nodes:,} more node{'s' if nodes > 1 else ''}"


def _rows(below: list[int], forest: Forest, labels: _Labels, height: int) -> list[list[int]]:
    """The children by line: neighbouring plain leaves share one, any other node has its own. At most `height` + 1."""
    rows: list[list[int]] = []
    growing = False
    arity, links = forest.arity, forest.links
    for child in below:
        plain = not arity[child] and not links[child] and not labels[child].value
        if plain and growing:
            rows[-1].append(child)
        elif len(rows) <= height:
            rows.append([child])
            growing = plain
        else:
            break
    return rows


def _run(nodes: list[int], labels: _Labels, width: int) -> _Line:
    """Leaves side by side as far as they fit, then the number of those left out."""
    shown: list[str] = []
    used = 0
    for position, node in enumerate(nodes):
        text = labels[node].text
        left = len(nodes) - position
        ending = columns(f" … {left:,} more") if left > 1 else 0
        if shown and used + 1 + columns(text) + ending > width:
            return [(" ".join(shown), ""), (f" … {left:,} more", _LINES)]
        shown.append(text)
        used += columns(text) + 1
    return [(" ".join(shown), "")]


def _cut(line: _Line, width: int) -> _Line:
    """The line, cut to `width` columns with a final `…` if it is too long."""
    if sum(columns(text) for text, _ in line) <= width:
        return line
    kept: _Line = []
    room = width - 1
    for text, style in line:
        fits = 0
        while fits < len(text) and columns(text[fits]) <= room:
            room -= columns(text[fits])
            fits += 1
        kept.append((text[:fits], style))
        if fits < len(text):
            return [*kept, ("…", _LINES)]
    return kept


def _painted(line: _Line, color: bool) -> str:
    return "".join(f"\x1b[{style}m{text}\x1b[0m" if color and style and text else text for text, style in line)


# -- SVG -------------------------------------------------------------------------------------------------------------

_GLYPH, _LEVEL, _GAP, _MARGIN = 8.4, 46.0, 14.0, 16.0  # pixels: a monospaced glyph at 14 px, and the spaces between
_STYLE = """
.pomona-tree:root { color-scheme: light dark; color: #1f2328; --pomona-value: #0b6e4f; --pomona-quote: #0969da; }
@media (prefers-color-scheme: dark) {
  .pomona-tree:root { color: #e6edf3; --pomona-value: #5fd3a4; --pomona-quote: #79b8ff; }
}
.pomona-tree text { font: 14px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: currentColor;
  text-anchor: middle; dominant-baseline: central; }
.pomona-tree .inner { font-weight: 600; }
.pomona-tree .value { font-weight: 400; fill: var(--pomona-value, currentColor); }
.pomona-tree .quote { fill: var(--pomona-quote, currentColor); }
.pomona-tree .more { font-style: italic; opacity: .7; }
.pomona-tree path { fill: none; stroke: currentColor; stroke-opacity: .45; stroke-width: 1.2; }
.pomona-tree path.link { stroke: var(--pomona-quote, currentColor); stroke-opacity: .9; stroke-dasharray: 4 3; }
"""


@dataclass
class _Part:
    """The part of a tree that is drawn: slots in breadth-first order, each a node or a count of nodes left out."""

    nodes: list[int]  # -1 where nodes are left out
    omitted: list[int]
    children: list[list[int]]


def svg(
    forest: Forest | Drawable,
    values: Sequence[Any] | Ints | None = None,
    *,
    title: str | None = None,
    limit: int = 400,
    trees: int = 12,
) -> str:
    """The trees (or those of an Example) side by side in one SVG: the first `trees` of them, `limit` nodes of each.

    As a file, it follows the reader's light or dark setting; inside a page, it takes the colour of the text around it.
    """
    forest, values = _trees_of(forest, values)
    labels = _Labels(forest, values)
    shown = min(len(forest), max(trees, 1))
    body: list[str] = []
    drawn_at: dict[int, tuple[float, float]] = {}
    left, lowest = _MARGIN, 0
    for tree in range(shown):
        part = _part(forest, tree, max(limit, 2))
        texts = [
            labels[node].text if node >= 0 else f"… {count:,}"
            for node, count in zip(part.nodes, part.omitted, strict=True)
        ]
        x, level, wide = tidy(part.children, [columns(text) * _GLYPH for text in texts], _GAP)
        lowest = max(lowest, *level)
        for slot, child_slots in enumerate(part.children):
            for child in child_slots:
                body.append(_edge(left + x[slot], _height(level[slot]), left + x[child], _height(level[child])))
        for slot, node in enumerate(part.nodes):
            at = (left + x[slot], _height(level[slot]))
            if node >= 0:
                drawn_at[node] = at
                body.append(_text(at, labels[node], inner=bool(part.children[slot])))
            else:
                body.append(f'<text class="more" x="{at[0]:.1f}" y="{at[1]:.1f}">{escape(texts[slot])}</text>')
        left += wide + 2 * _GAP
    for node, (x0, y0) in drawn_at.items():
        back = int(forest.links[node])
        if back and node - back in drawn_at:
            x1, y1 = drawn_at[node - back]
            body.append(
                f'<path class="link" d="M{x0:.1f} {y0 + 10:.1f}C{x0:.1f} {y0 + 44:.1f} '
                f'{x1:.1f} {y1 + 44:.1f} {x1:.1f} {y1 + 10:.1f}"/>'
            )
    if shown < len(forest):
        note = f"… {len(forest) - shown:,} more trees"
        half = len(note) * _GLYPH / 2
        body.append(f'<text class="more" x="{left + half:.1f}" y="{_height(0):.1f}">{note}</text>')
        left += 2 * half + 2 * _GAP
    width = max(left - 2 * _GAP, _MARGIN) + _MARGIN
    deep = _height(lowest) + _MARGIN + 8 + (28 if forest.link is not None else 0)
    named = escape(visible(title) if title is not None else _title(forest, labels))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="pomona-tree" role="img" '
        f'width="{width:.0f}" height="{deep:.0f}" viewBox="0 0 {width:.1f} {deep:.1f}">\n'
        f"<title>{named}</title>\n<style>{_STYLE}</style>\n" + "\n".join(body) + "\n</svg>\n"
    )


def _title(forest: Forest, labels: _Labels) -> str:
    if len(forest) != 1:
        return f"{len(forest):,} trees, {len(forest.symbol):,} nodes"
    root = int(forest.root[0])
    return f"Tree {labels[root].text}: {len(forest.symbol):,} nodes, {forest.height[root]:,} levels deep"


def _height(level: int) -> float:
    return _MARGIN + 10 + level * _LEVEL


def _edge(x0: float, y0: float, x1: float, y1: float) -> str:
    y0, y1 = y0 + 11, y1 - 11
    half = (y0 + y1) / 2
    return f'<path d="M{x0:.1f} {y0:.1f}C{x0:.1f} {half:.1f} {x1:.1f} {half:.1f} {x1:.1f} {y1:.1f}"/>'


def _text(at: tuple[float, float], label: _Label, *, inner: bool) -> str:
    """A label. Its parts are separated by non-breaking spaces, because some viewers drop plain ones."""
    spans = escape(label.name)
    if label.quote:
        spans += f'<tspan class="quote">\xa0→ {escape(label.quote)}</tspan>'
    if label.value:
        spans += f'<tspan class="value">\xa0= {escape(label.value)}</tspan>'
    return f'<text class="{"inner" if inner else "leaf"}" x="{at[0]:.1f}" y="{at[1]:.1f}">{spans}</text>'


def _part(forest: Forest, tree: int, limit: int) -> _Part:
    """The first levels, up to `limit` slots; a count replaces the children that do not fit."""
    offsets, children = forest.children
    part = _Part([int(forest.root[tree])], [0], [[]])
    slot = 0
    while slot < len(part.nodes):
        node = part.nodes[slot]
        below = children[offsets[node] : offsets[node + 1]].tolist() if node >= 0 else []
        room = limit - len(part.nodes)
        kept = below if len(below) <= room else below[: max(room - 1, 0)]
        omitted = sum(int(forest.size[child]) for child in below[len(kept) :])
        for child, count in [(child, 0) for child in kept] + ([(-1, omitted)] if omitted else []):
            part.children[slot].append(len(part.nodes))
            part.nodes.append(child)
            part.omitted.append(count)
            part.children.append([])
        slot += 1
    return part
