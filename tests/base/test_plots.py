"""Plots as files: three kinds, the same bytes again, and errors that say what is wrong."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from pomona.base.errors import FormatError
from pomona.base.plots import Drawing, histogram, marked, number, side_by_side

ROWS = [{"x": 1.5, "y": 2.0, "name": "a $b$ <i>"}, {"x": 2.5, "y": 1.0, "name": "c"}]
POINTS = {
    "data": {"values": ROWS},
    "mark": "text",
    "encoding": {"x": number("x", "across"), "y": number("y", "up"), "text": {"field": "name"}},
}
COUNTS = histogram([3, 0, 2], [0, 1, 2, 3], "depth", "examples")
BARS = {"height": 100, "layer": [COUNTS, marked({"mean": 1.5}, "depth")]}


@pytest.mark.parametrize(
    ("name", "begins"), [("plot.svg", b"<svg"), ("plot.pdf", b"%PDF"), ("plot.png", b"\x89PNG"), ("P.SVG", b"<svg")]
)
@pytest.mark.parametrize("spec", [POINTS, BARS, side_by_side([BARS, POINTS])])
def test_a_drawing_is_saved_in_the_kind_of_its_file(name: str, begins: bytes, spec: dict, tmp_path: Path) -> None:
    path = Drawing(spec).save(tmp_path / name)
    assert path.read_bytes().startswith(begins)
    assert list(tmp_path.iterdir()) == [path]  # nothing half-written beside it


def test_text_from_outside_is_text() -> None:
    svg = Drawing(POINTS).svg()
    texts = [element.text for element in ElementTree.fromstring(svg).iter() if element.tag.endswith("text")]
    assert {"a $b$ <i>", "across", "up"} <= set(texts)
    assert svg == Drawing(POINTS).svg() == Drawing(POINTS)._repr_svg_()


def test_bars_are_as_high_as_their_counts() -> None:
    elements = ElementTree.fromstring(Drawing(BARS).svg()).iter()
    shapes = [element.attrib["d"] for element in elements if element.get("aria-roledescription") == "bar"]
    heights = [float(shape.split("v")[1].split("h")[0]) for shape in shapes]
    assert heights == pytest.approx([100, 0, 200 / 3])


@pytest.mark.parametrize(
    ("spec", "name", "words"),
    [
        (POINTS, "plot.doc", "plot.doc: a plot ends in .png, .svg or .pdf"),
        (POINTS, "plot", "plot: a plot ends in .png, .svg or .pdf"),
        ({"mark": "nonsense"}, "plot.svg", "this plot cannot be drawn"),
    ],
)
def test_faults_are_named(spec: dict, name: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError) as caught:
        Drawing(spec).save(tmp_path / name)
    assert words in str(caught.value)
    assert not list(tmp_path.iterdir())
