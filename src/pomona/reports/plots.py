"""Every plot once, as a Vega-Lite specification: the page draws it, `figures` makes SVG and PDF of the same.

plots = all_plots(collected)
plots[0].key, plots[0].title, plots[0].spec
"""

from __future__ import annotations

from pomona.reports.collect import Report
from pomona.reports.depth_curves import curve_plots
from pomona.reports.file_plots import coverage_plot, fit_plots, paper_plots
from pomona.reports.run_plots import Names, accuracy_plots, depth_plots, learning_plots, tree_plots
from pomona.reports.style import Plot


def all_plots(found: Report) -> list[Plot]:
    """The plots of a report, in the order of the page."""
    named = Names(found)
    plots: list[Plot] = []
    for number, test in enumerate(found.tests):
        plots += accuracy_plots(number, test, named)
    for number, test in enumerate(found.tests):
        plots += depth_plots(number, test, named)
    plots += learning_plots(found, named)
    for number, test in enumerate(found.tests):
        plots += tree_plots(number, test, named)
    for number, (path, content) in enumerate(found.inputs.results):
        plots += paper_plots(number, path.stem, content)
        plots += curve_plots(number, content)
    for number, (_, certificate) in enumerate(found.inputs.certificates):
        plots.append(coverage_plot(number, certificate))
    for number, (path, fit) in enumerate(found.inputs.fits):
        plots += fit_plots(number, path.stem, fit)
    return plots
