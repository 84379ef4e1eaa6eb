"""The page: one file with a template, a style sheet, our scripts, a chart library and the data.

    made = report(["runs/tree", "results/listops_2018.json"], "report")
    made.page, made.figures, made.notes

Everything is inside `index.html`, because browsers do not let a page on disk load other files. Its content security
policy allows only the scripts and the style whose SHA-256 it names: no eval, no inline handler, no request. Data are in
JSON blocks, which are not executed; `<`, `>` and `&` are escaped in them, so that no name can end a block. The chart
library is Vega-Lite with its AST interpreter, from the installed package `vl-convert-python`; nothing is downloaded.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

import pomona
from pomona.base.errors import FormatError
from pomona.base.files import write_text
from pomona.base.plots import for_page
from pomona.reports import figures
from pomona.reports.collect import Report, Test, collect
from pomona.reports.inputs import gather
from pomona.reports.packing import answers_block, corpus_block
from pomona.reports.plots import all_plots
from pomona.reports.style import Plot
from pomona.reports.tables import (
    certificate_rows,
    comparison_rows,
    fit_rows,
    measure_rows,
    paper_tables,
    run_rows,
    verdict_rows,
)
from pomona.trees.drawing import shortened, visible

MARK = '<meta name="generator" content="pomona report">'
SCRIPTS = ("theme.js", "charts.js", "blocks.js", "trees.js", "explorer.js")
EXAMPLES = 10_000
ROOM = 8_000_000  # bytes of examples and answers in the page; beyond that it holds fewer of them
Say = Callable[[str], None]


@dataclass(frozen=True)
class Made:
    """The files that were written, and notes on what the report could not show."""

    page: Path
    figures: tuple[Path, ...]
    size: int
    notes: tuple[str, ...]


def report(
    paths: Sequence[str | Path],
    out: str | Path,
    *,
    data: Sequence[str] = (),
    title: str = "Pomona report",
    examples: int = EXAMPLES,
    with_figures: bool = True,
    say: Say = lambda text: None,
) -> Made:
    """Write the report of runs, results, fits and certificates into a folder."""
    folder = Path(out)
    old = _old_figures(folder)
    inputs = gather(paths)
    if inputs.empty:
        raise FormatError("there is nothing to report: name runs, results, fits of `pomona tre` or certificates")
    collected = collect(inputs, data, say)
    plots = all_plots(collected)
    say(f"{len(plots)} plots")
    content = html(collected, plots, title, examples, with_figures=with_figures)
    written = figures.write(plots, folder / "figures") if with_figures else ()
    write_text(folder / "index.html", content)
    for path in old - set(written):  # figures of plots that the new report does not have
        path.unlink(missing_ok=True)
    notes = [*collected.notes, *(f"{test.name}: {note}" for test in collected.tests for note in test.notes)]
    return Made(folder / "index.html", tuple(written), len(content.encode()), tuple(notes))


def _old_figures(folder: Path) -> set[Path]:
    """The figures of the report that this one replaces; an error if index.html is not a report of ours."""
    page = folder / "index.html"
    if not page.is_file():
        return set()
    content = page.read_text(encoding="utf-8", errors="replace")
    if MARK not in content:
        raise FormatError("this page was not made by pomona; nothing was touched. Take another folder.", path=page)
    return {folder / "figures" / name for name in re.findall(r'href="figures/([a-z0-9-]+\.(?:svg|pdf))"', content)}


# -- the page ----------------------------------------------------------------------------------------------------------


def html(collected: Report, plots: Sequence[Plot], title: str, examples: int, *, with_figures: bool) -> str:
    """The whole page as text."""
    style = _asset("report.css")
    script = "\n".join(_asset(name) for name in SCRIPTS)
    library = figures.library()
    tests = _tests(collected, examples)
    specs = {plot.key: for_page(plot.spec) for plot in plots}
    return _template().render(
        policy=policy([library, script], [style]),
        mark=Markup(MARK),
        title=visible(title),
        style=Markup(style),
        script=Markup(script),
        library=Markup(library),
        plot_data=embedded(specs),
        test_data=embedded(tests),
        collected=collected,
        plots=plots,
        runs=run_rows(collected),
        verdicts=[verdict_rows(collected, test) for test in collected.tests],
        measures=[measure_rows(collected, test) for test in collected.tests],
        papers=paper_tables(collected),
        certificates=certificate_rows(collected),
        fits=fit_rows(collected),
        comparisons=comparison_rows(collected),
        explored=bool(tests),
        figures=with_figures,
        sections=_sections(collected, plots, explored=bool(tests)),
        version=pomona.__version__,
    )


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.filters |= {"seen": lambda text: visible(str(text)), "short": lambda text: shortened(str(text))}
    return environment.from_string(_asset("page.html"))


def policy(scripts: Sequence[str], styles: Sequence[str]) -> str:
    """The content security policy that allows only these scripts and styles, by their hashes."""

    def hashes(texts: Sequence[str]) -> str:
        digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts]
        return " ".join(f"'sha256-{digest}'" for digest in digests)

    return (
        f"default-src 'none'; script-src {hashes(scripts)}; style-src {hashes(styles)}; "
        "base-uri 'none'; form-action 'none'"
    )


def embedded(value: Any) -> Markup:
    """A value as JSON that can stand inside a script element: no text in it can end the element or open a comment."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)  # ASCII, so line separators are codes as well
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _asset(name: str) -> str:
    return (resources.files("pomona.reports") / "assets" / name).read_text(encoding="utf-8")


def _sections(collected: Report, plots: Sequence[Plot], *, explored: bool) -> list[tuple[str, str]]:
    """Anchors and names for the head of the page."""
    tests = [(f"test-{number}", f"Accuracy: {shortened(test.name)}") for number, test in enumerate(collected.tests)]
    if len(tests) == 1:
        tests = [("test-0", "Accuracy")]
    return [
        *([("overview", "Runs")] if collected.names else []),
        *tests,
        *([("learning", "Learning")] if any(plot.section == "learning" for plot in plots) else []),
        *([("settings", "Settings")] if any(plot.section == "settings" for plot in plots) else []),
        *([("papers", "Papers")] if collected.inputs.results else []),
        *([("comparisons", "Comparisons")] if collected.inputs.comparisons else []),
        *([("certificates", "Certificates")] if collected.inputs.certificates else []),
        *([("tre", "TRE")] if collected.inputs.fits else []),
        *([("explorer", "Tree explorer")] if explored else []),
    ]


def _tests(collected: Report, examples: int) -> list[dict[str, Any]]:
    """The examples and answers that the explorer shows; fewer rows if all of them would make the page too large."""
    shown = [test for test in collected.tests if any(entry.evaluation is not None for entry in test.entries)]
    while True:
        blocks = [_test(collected, test, examples) for test in shown]
        size = sum(len(block["bytes"]) for test in blocks for block in (test["corpus"], *test["runs"]))
        if size <= ROOM or examples <= 1:
            return blocks
        largest = max(test["corpus"]["rows"] for test in blocks)
        examples = max(1, min(int(largest * ROOM / size * 0.95), largest - 1))


def _test(collected: Report, test: Test, examples: int) -> dict[str, Any]:
    assert test.corpus is not None
    rows = min(examples, len(test.corpus))
    entries = [entry for entry in test.entries if entry.evaluation is not None]
    return {
        "name": shortened(test.name),
        "corpus": corpus_block(test.corpus, rows),
        "runs": [answers_block(entry, collected.names[entry.run], rows) for entry in entries],
    }
