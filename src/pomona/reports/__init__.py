"""Reports: one page that opens from disk, made of runs, results, TRE fits and certificates.

    report(["runs/tree", "runs/lstm", "results/listops_2018.json"], "report")

    inputs    what was given, told apart by what is in it        plots     each plot once, as Vega-Lite
    collect   tests with their ladders and the runs' answers     tables    the tables, as rows of text
    packing   examples and answers in few bytes                  figures   the plots as SVG and PDF, for papers
    page      the page itself, and what may run in it            assets    its template, style and scripts

The page is `index.html`, all in one file: it asks no server for anything and its content security policy lets only the
scripts run whose hashes it names. What comes from outside (names, tokens, answers) reaches it as text only.
"""

from __future__ import annotations

from pomona.reports.page import Made, report

__all__ = ["Made", "report"]
