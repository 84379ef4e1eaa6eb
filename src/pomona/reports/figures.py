"""Write plots as SVG and PDF, and get the chart library for the page; both need `vl-convert-python`.

    write(plots, Path("report/figures"))         # accuracy-nesting-1.svg, accuracy-nesting-1.pdf, ...

The package holds Vega and Vega-Lite and runs them without a browser and without a network.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from pomona.base.errors import FormatError
from pomona.base.files import replacing
from pomona.reports.style import Plot, config

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"  # a name, never fetched
VERSION = "6.4"
WIDTH = 430  # of a figure's plotting area, in points


def for_page(spec: dict[str, Any]) -> dict[str, Any]:
    """A plot as wide as its container on the page, in the colour of the text."""
    fit = {"type": "fit-x", "contains": "padding"}
    return {"$schema": SCHEMA, **spec, "width": "container", "autosize": fit, "config": config("currentColor", None)}


def for_paper(spec: dict[str, Any]) -> dict[str, Any]:
    """A plot of fixed width, black on a transparent background."""
    return {"$schema": SCHEMA, **spec, "width": WIDTH, "config": config("#000", None)}


def write(plots: Sequence[Plot], folder: Path) -> tuple[Path, ...]:
    """Write each plot as an SVG and a PDF file named by its key."""
    import vl_convert

    written: list[Path] = []
    for plot in plots:
        try:
            svg = vl_convert.vegalite_to_svg(for_paper(plot.spec), VERSION, allowed_base_urls=[])
            pdf = vl_convert.svg_to_pdf(svg)
        except ValueError as error:
            raise FormatError(f"the plot {plot.title!r} cannot be drawn: {error}") from None
        for ending, content in (("svg", svg.encode()), ("pdf", pdf)):
            with replacing(folder / f"{plot.key}.{ending}") as beside:
                beside.write_bytes(content)
            written.append(folder / f"{plot.key}.{ending}")
    return tuple(written)


@lru_cache(maxsize=1)
def library() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script that defines `vegaEmbed` and is safe inside a page."""
    import vl_convert

    text = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", VERSION).replace("\r", "")
    # These occur only inside strings and regular expressions, where the escapes mean the same.
    return text.replace("</script", r"<\/script").replace("<!--", r"\x3c!--").replace("\0", r"\0")
