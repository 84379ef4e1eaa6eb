"""Plots as files: three kinds, the same bytes again, and errors that say what is wrong."""

from __future__ import annotations

import re
import zlib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import vl_convert

from pomona.base.errors import FormatError
from pomona.base.pdf import in_one_order
from pomona.base.plots import Drawing, for_page, histogram, marked, number, side_by_side

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


HOSTILE = (
    "\x1b[31m", "\0", "\n", "\r", "\u2028</title>", "\u2029", "\ud800", "\x85", "\ufffe", "a\\", "\\u", '\\"', '"', "'",
    '\\" + datum + \\"', "]]>", "&lt;",
)  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_any_text_can_be_drawn(text: str) -> None:
    """Vega ended the whole process on some of these, and took others for the end of a text in an expression."""
    named = {"field": "name", "type": "nominal", "title": text, "sort": [text, "c"]}
    coloured = {**named, "scale": {"domain": [text, "c"], "range": ["#000", "#fff"]}}
    spec = {
        "data": {"values": [{"name": text, "x": 1}, {"name": "c", "x": 2}]},
        "mark": "bar",
        "title": text,
        "encoding": {
            "x": number("x", f"across {text}"), "y": named, "color": coloured,
            "tooltip": [{"field": "name", "title": text}, {"field": "x", "title": f"x{text}"}],
        },
    }  # fmt: skip
    svg = Drawing({"hconcat": [spec, {**spec, "encoding": {**spec["encoding"], "x": number("x", [text, "b"])}}]}).svg()
    drawn = "".join(ElementTree.fromstring(svg).itertext())
    assert "across" in drawn
    for page in (for_page(spec), for_page({"layer": [spec]})):
        assert not re.search(r"[\x00-\x1f\u2028\u2029\ud800-\udfff]", "".join(texts_of(page)))


def texts_of(value: Any) -> list[str]:
    if isinstance(value, (dict, list)):
        return [text for part in (value.values() if isinstance(value, dict) else value) for text in texts_of(part)]
    return [value] if isinstance(value, str) else []


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


def test_a_pdf_has_the_same_bits_every_time_and_its_table_leads_to_its_parts() -> None:
    """The converter lists resources and numbers fonts in another order at every call."""
    rows = [{"a": f"x{row}", "b": row, "c": "é∃"[row % 2]} for row in range(9)]
    colour = {"field": "c", "type": "nominal"}
    axes = {"x": {"field": "a", "type": "nominal"}, "y": {"field": "b", "type": "quantitative"}, "color": colour}
    spec = {"title": "é", "data": {"values": rows}, "mark": {"type": "line", "point": True}, "encoding": axes}
    svg = Drawing(spec).svg()
    raw = [vl_convert.svg_to_pdf(svg) for _ in range(4)]
    (content,) = {in_one_order(one) for one in raw}
    assert len(set(raw)) > 1
    places = re.findall(rb"([0-9]{10}) 00000 n", content)
    assert len(places) > 5
    for part, place in enumerate(places, 1):
        assert content[int(place) :].startswith(f"{part} 0 obj\n".encode())
    assert {zlib.decompress(stream) for stream in streams(content)} == {zlib.decompress(one) for one in streams(raw[0])}
    assert in_one_order(b"no document") == b"no document"


def streams(content: bytes) -> list[bytes]:
    found = re.findall(rb"\nstream\n(.*?)\nendstream", content, re.S)
    return [stream for stream in found if stream[:1] == b"x"]
