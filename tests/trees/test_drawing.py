"""Drawings: the terminal's can be read back, the SVG is well-formed and tidy, nothing is left out without a count."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import defaultdict
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracles
from pomona.base.errors import TreeError
from pomona.trees import brackets
from pomona.trees.drawing import columns, draw, svg
from pomona.trees.forest import Forest
from pomona.trees.layout import tidy
from pomona.trees.operators import denote
from strategies import groves, listops_trees, word_trees

SVG = "{http://www.w3.org/2000/svg}"
BRANCHES = ("├─ ", "└─ ", "│  ", "   ")


def undrawn(text: str) -> Any:
    """The tree of a drawing without values."""
    rows = []
    for line in text.split("\n"):
        depth = 0
        while line[3 * depth :].startswith(BRANCHES):
            depth += 1
        rows.append((depth, line[3 * depth :].split(" ")))

    def below(row: int) -> list[Any]:
        depth, names = rows[row]
        inner = row + 1 < len(rows) and rows[row + 1][0] > depth
        if not inner:
            return names
        kids: list[Any] = []
        for other in range(row + 1, len(rows)):
            if rows[other][0] <= depth:
                break
            if rows[other][0] == depth + 1:
                kids += below(other)
        return [(names[0], *kids)]

    return below(0)[0]


def labels(document: str) -> list[tuple[float, float, str]]:
    """Place and text of every label of an SVG, with ordinary spaces."""
    found = []
    for element in ET.fromstring(document).iter(f"{SVG}text"):
        text = "".join(element.itertext()).replace("\xa0", " ")
        found.append((float(element.attrib["x"]), float(element.attrib["y"]), text))
    return found


def omitted(texts: list[str]) -> int:
    return sum(int(count.replace(",", "")) for text in texts for count in re.findall(r"… ([\d,]+)", text))


@given(word_trees)
def test_a_drawing_can_be_read_back(tree: Any) -> None:
    assert undrawn(draw(Forest.from_nested([tree]), width=10_000, height=10_000)) == tree


def test_the_example() -> None:
    forest = brackets.read("[MAX 2 9 [MIN 4 7 ] 0 ]")
    lines = ["MAX = 9", "├─ 2 9", "├─ MIN = 4", "│  └─ 4 7", "└─ 0"]
    assert draw(forest, denote(forest)).split("\n") == lines
    assert draw(forest).split("\n") == [line.split(" =")[0] for line in lines]


@given(st.lists(listops_trees, max_size=4))
def test_values_stand_beside_inner_nodes(nested: list[Any]) -> None:
    forest = Forest.from_nested(nested)
    shown = re.findall(r"([A-Z]+) = (\d)", draw(forest, denote(forest), width=10_000))
    expected = {
        (node[0], str(oracles.evaluate(node)))
        for tree in nested
        for node in oracles.subtrees(tree)
        if not isinstance(node, str)
    }
    assert set(shown) == expected
    assert len(shown) == int((~forest.leaf).sum())


@given(listops_trees, st.integers(1, 90), st.integers(1, 12), st.booleans())
def test_what_is_left_out_is_counted(tree: Any, width: int, height: int, with_values: bool) -> None:
    forest = Forest.from_nested([("MAX", tree, ("SM", *"1234567890" * 4), tree)])
    text = draw(forest, denote(forest) if with_values else None, width=width, height=height)
    lines = text.split("\n")
    assert len(lines) <= height + 2
    assert all(columns(line) <= max(width, 48) for line in lines)
    shown = re.sub(r"… [\d,]+ more( nodes?)?| = \d|[├│└]─?", "", text).split()
    assert set(shown) <= set(forest.names)
    assert len(shown) + omitted(lines) == len(forest.symbol)
    assert not re.search(r"… 1 more nodes|[^1]\d* more node$", text)


def test_too_deep_and_then_too_long() -> None:
    deep: Any = "c"
    for _ in range(30):
        deep = ("B", deep)
    lines = draw(Forest.from_nested([("A", deep, *[("B", "c")] * 30)]), width=48, height=14).split("\n")
    assert len([line for line in lines if "…" in line]) == 2
    names = re.sub(r"… [\d,]+ more nodes|[├│└]─?", "", "\n".join(lines)).split()
    assert len(names) + omitted(lines) == 1 + 31 + 60


def test_deep_wide_and_odd_trees_are_drawn() -> None:
    deep = brackets.read(" ".join(["[MIN"] * 100_000 + ["1"] + ["]"] * 100_000))
    lines = draw(deep).split("\n")
    assert len(lines) == 27
    assert lines[-1].endswith("└─ … 99,975 more nodes")
    assert omitted([text for *_, text in labels(svg(deep))]) == 100_001 - 400
    wide = Forest.from_nested([("A", *["b"] * 100_000), ("A", *[("B", "c")] * 100_000)])
    lines = draw(wide, height=10).split("\n")
    assert re.fullmatch(r" {3}└─ (b )+… 99,9\d\d more", lines[1])
    assert lines[-1] == "   … 199,991 more nodes"
    assert len(lines) == 2 + 11
    assert omitted([text for *_, text in labels(svg(wide, limit=50))]) == 300_002 - 2 * 49
    assert draw(Forest.from_nested([])) == ""
    assert labels(svg(Forest.from_nested([]))) == []
    long = Forest.from_nested([("A" * 1000, "b" * 1000, "c")])
    assert all(len(line) <= 100 for line in draw(long).split("\n"))
    assert all(len(text) <= 61 for *_, text in labels(svg(long)))
    assert "… 5 more trees" in svg(Forest.from_nested(["a"] * 17))


@given(groves)
def test_color_changes_nothing_but_color(nested: list[Any]) -> None:
    forest = Forest.from_nested(nested)
    values = list(range(len(forest.symbol)))
    painted = draw(forest, values, color=True)
    assert re.sub(r"\x1b\[\d*m", "", painted) == draw(forest, values)
    assert "\x1b[" in painted or all(isinstance(tree, str) for tree in nested)


def quoting() -> Forest:
    plain = Forest.from_nested([("SM", "3", ("MAX", "4", "2"), ("MAX", "1", "2")), ("MIN", "COPY", "9", "COPY")])
    link = np.zeros(12, np.int32)
    link[8], link[10] = 5, 3
    return Forest(plain.symbol, plain.parent, plain.start, plain.names, link).checked()


def test_quotes_say_which_node_of_which_tree() -> None:
    forest = quoting()
    assert draw(forest, denote(forest)).split("\n") == [
        "1. SM = 9",
        "   ├─ 3",
        "   ├─ MAX#3 = 4",
        "   │  └─ 4 2",
        "   └─ MAX = 2",
        "      └─ 1 2",
        "2. MIN = 4",
        "   ├─ COPY → 1.MAX#3 = 4",
        "   ├─ 9",
        "   └─ COPY → 1.SM = 9",
    ]
    document = svg(forest, denote(forest))
    assert document.count('class="link"') == 2
    assert {"COPY → 1.MAX#3 = 4", "COPY → 1.SM = 9", "MAX#3 = 4"} <= {text for *_, text in labels(document)}
    one = Forest.from_nested([("A", ("B", "c"), "COPY")])
    within = Forest(one.symbol, one.parent, one.start, one.names, np.array([0, 0, 1, 0], np.int32))
    assert draw(within) == "A\n├─ B\n│  └─ c\n└─ COPY → B"


HOSTILE = ["\x1b[31mred", "<script>x()</script>", "a&b\"'", "\u202eevil", "\ud800", "\x00", "]]>", "x\ny", "\ufffe"]


def test_names_from_outside_stay_text() -> None:
    forest = Forest.from_nested([("</title><b>", *HOSTILE)])
    values = ["</svg>", *HOSTILE][: len(forest.symbol)]
    text = draw(forest, values)
    assert not re.search("[\x00-\x09\x0b-\x1f\u202a-\u202e\ud800-\udfff\ufffe]", text)
    assert "\\x1b[31mred" in text
    assert len(text.split("\n")) == 10
    document = svg(forest, values, title="<i>\x1b</i>")
    document.encode()
    root = ET.fromstring(document)
    tags = ("svg", "title", "style", "path", "text", "tspan")
    assert {element.tag for element in root.iter()} == {SVG + tag for tag in tags}
    title = root.find(f"{SVG}title")
    assert title is not None
    assert title.text == "<i>\\x1b</i>"


def test_values_must_fit() -> None:
    forest = brackets.read("[MAX 1 2 ]")
    for show in (draw, svg):
        with pytest.raises(TreeError, match=r"^2 values for a forest of 3 nodes; give one for each node$"):
            show(forest, [1, 2])


# -- the layout --------------------------------------------------------------------------------------------------------


@given(word_trees)
def test_svg_is_tidy(tree: Any) -> None:
    forest = Forest.from_nested([tree])
    found = labels(svg(forest))
    assert sorted(text for *_, text in found) == sorted(forest.names[symbol] for symbol in forest.symbol)
    levels: dict[float, list[tuple[float, float]]] = defaultdict(list)
    for x, y, text in found:
        half = columns(text) * 8.4 / 2
        levels[y].append((x - half, x + half))
    assert len(levels) == oracles.height(tree) + 1
    for row in levels.values():
        for (_, right), (left, _) in pairwise(row):  # breadth-first, so from left to right
            assert left - right > 14 - 0.3, "labels keep their distance"
    edges = [path.attrib["d"] for path in ET.fromstring(svg(forest)).iter(f"{SVG}path")]
    assert len(edges) == len(forest.symbol) - 1
    # A parent stands midway between its first and its last child.
    kids: dict[tuple[float, float], list[float]] = defaultdict(list)
    for edge in edges:
        numbers = [float(number) for number in re.findall(r"-?[\d.]+", edge)]
        kids[numbers[0], numbers[1]].append(numbers[-2])
    for (x, _), below in kids.items():
        assert x == pytest.approx((min(below) + max(below)) / 2, abs=0.2)


def test_the_example_of_the_layout() -> None:
    assert tidy([[1, 2], [], []], [10.0, 10.0, 10.0], 4.0) == ([12.0, 5.0, 19.0], [0, 1, 1], 24.0)
    # A small subtree between large ones stands in the middle of the space it has, not against its left neighbour.
    large = [[1, 2, 3], [4, 5], [], [6, 7], [], [], [], []]
    x, _, _ = tidy(large, [1.0] * 8, 9.0)
    assert x[2] - x[1] == x[3] - x[2]


def mirrored(tree: Any) -> Any:
    return tree if isinstance(tree, str) else (tree[0], *map(mirrored, reversed(tree[1:])))


@given(word_trees)
def test_a_mirrored_tree_is_a_mirrored_drawing(tree: Any) -> None:
    one, other = (svg(Forest.from_nested([shape])) for shape in (tree, mirrored(tree)))
    width = float(ET.fromstring(one).attrib["viewBox"].split()[2])
    there = sorted((y, round(width - x), text) for x, y, text in labels(other))
    here = sorted((y, round(x), text) for x, y, text in labels(one))
    assert [(y, text) for y, _, text in sorted(here, key=str)] == [(y, text) for y, _, text in sorted(there, key=str)]
    for (y, x, _), (also_y, also_x, _) in zip(sorted(here), sorted(there), strict=True):
        assert y == also_y
        assert abs(x - also_x) <= 1


def test_a_subtree_looks_the_same_wherever_it_stands() -> None:
    piece = ("B", "1", ("C", "2", "3", "4"), "5")
    found = labels(svg(Forest.from_nested([("A", piece, ("D", piece, "long-name-in-the-way"), piece)])))
    for name in "12345C":
        heads = sorted((y, x) for x, y, text in found if text == "B")
        places = sorted((y, x) for x, y, text in found if text == name)
        gaps = [x - head for (_, x), (_, head) in zip(places, heads, strict=True)]
        assert max(gaps) - min(gaps) < 0.25


def test_svg_stands_alone_and_has_a_name() -> None:
    forest = brackets.read("[MAX 2 9 [MIN 4 7 ] 0 ]")
    document = svg(forest, denote(forest))
    root = ET.fromstring(document)
    assert root.attrib["role"] == "img"
    assert root[0].tag == f"{SVG}title"
    assert root[0].text == "Tree MAX = 9: 7 nodes, 2 levels deep"
    assert "currentColor" in document
    assert "prefers-color-scheme: dark" in document
    assert "http" not in document.replace("http://www.w3.org/2000/svg", "")
