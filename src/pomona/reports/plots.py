"""All plots of a report as Vega-Lite specifications; the page and `figures` (SVG, PDF) draw the same ones.

plots = all_plots(collected)
plots[0].key, plots[0].title, plots[0].spec
"""

from __future__ import annotations

from pomona.reports.collect import Report
from pomona.reports.depth_curves import curve_plots
from pomona.reports.file_plots import coverage_plot, fit_plots, paper_plots
from pomona.reports.mixture_plots import mixture_plots
from pomona.reports.run_plots import Names, accuracy_plots, depth_plots, learning_plots, tree_plots
from pomona.reports.setting_plots import setting_plots
from pomona.reports.style import Plot


def all_plots(collected: Report) -> list[Plot]:
    """The plots of a report, in the order of the page."""
    named = Names(collected)
    plots: list[Plot] = []
    for number, test in enumerate(collected.tests):
        plots += accuracy_plots(number, test, named)
    for number, test in enumerate(collected.tests):
        plots += depth_plots(number, test, named)
        plots += mixture_plots(number, test, named)
    plots += learning_plots(collected, named)
    plots += setting_plots(collected)
    for number, test in enumerate(collected.tests):
        plots += tree_plots(number, test, named)
    for number, (path, content) in enumerate(collected.inputs.results):
        plots += paper_plots(number, path.stem, content)
        plots += curve_plots(number, content)
    for number, (_, certificate) in enumerate(collected.inputs.certificates):
        plots.append(coverage_plot(number, certificate))
    for number, (path, fit) in enumerate(collected.inputs.fits):
        plots += fit_plots(number, path.stem, fit)
    return plots
