"""Write the plots of a report as SVG and PDF, and get the chart library for the page.

    write(plots, Path("report/figures"))         # accuracy-nesting-1.svg, accuracy-nesting-1.pdf, ...
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from pomona.base.errors import FormatError
from pomona.base.plots import VERSION, Drawing, save_svg
from pomona.reports.style import Plot


def write(plots: Sequence[Plot], folder: Path) -> tuple[Path, ...]:
    """Write each plot as an SVG and a PDF file named by its key."""
    written: list[Path] = []
    for plot in plots:
        try:
            svg = Drawing(plot.spec).svg()
        except FormatError as error:
            raise FormatError(f"{plot.title!r}: {error}") from None
        written += [save_svg(svg, folder / f"{plot.key}.{kind}") for kind in ("svg", "pdf")]
    return tuple(written)


@lru_cache(maxsize=1)
def library() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script that defines `vegaEmbed` and is safe inside a page."""
    import vl_convert

    text = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", VERSION).replace("\r", "")
    # These occur only inside strings and regular expressions, where the escapes mean the same.
    return text.replace("</script", r"<\/script").replace("<!--", r"\x3c!--").replace("\0", r"\0")
