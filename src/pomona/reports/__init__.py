"""Reports: one page that opens from disk, made of runs, results, TRE fits and certificates.

    report(["runs/tree", "runs/lstm", "results/listops_2018.json"], "report")

    inputs    run folders and files, by their content            plots     every plot, as Vega-Lite
    collect   tests, baselines and evaluations of the runs       tables    the tables, as rows of text
    packing   examples and answers in few bytes                  figures   the plots as SVG and PDF, for papers
    page      the page itself, and its security policy           assets    its template, style and scripts

The page is one file, `index.html`. It makes no requests, and its content security policy lets only the scripts run
whose hashes it names. Text from outside (names, tokens, answers) is never treated as markup. Import `report` and `Made`
from here.
"""

from __future__ import annotations

from pomona.reports.page import Made, report

__all__ = ["Made", "report"]
