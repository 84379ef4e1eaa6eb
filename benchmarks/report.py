"""The size of a report, and the time to make and to open it, compared with their goals.

    OMP_NUM_THREADS=1 python -m benchmarks report

The report has twenty runs of 10,000 ListOps examples each, half of them with predicted trees. Making it is timed in
wall clock and CPU seconds, after a small report that loads and compiles everything. Opening it is timed in a headless
Chromium: from the request until the explorer responds and every visible plot is drawn, and until the last plot is
drawn; the best of five.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

from pomona.data.task import generate
from pomona.reports import report
from pomona.training.recipe import Recipe
from pomona.trees.binary import random_trees

from report_material import add_run, said, two_runs  # isort: skip

RUNS, OPENINGS = 20, 5


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _, small = two_runs(folder / "small")
        report(small, folder / "warm")
        corpus = generate("listops/d20s", "test", 0)
        for number in range(RUNS):
            trees = random_trees(corpus.lengths, number) if number % 2 else None
            model = "st_gumbel" if number % 2 else "lstm"
            answers = said(corpus, 0.5 + number / (2 * RUNS), number, trees)
            add_run(folder / "runs" / f"run-{number}", Recipe(model, seed=number), corpus, answers)
        begin, clock = time.perf_counter(), time.process_time()
        page = report([folder / "runs"], folder / "out")
        took, worked = time.perf_counter() - begin, time.process_time() - clock
        say("size of index.html", f"{page.size / 1e6:.1f} MB", "under 10 MB", page.size < 10e6)
        say("making it", f"{took:.1f} s wall clock, {worked:.1f} CPU s", "under 30 s", took < 30)
        if shutil.which("chromium") and shutil.which("chromedriver"):
            ready, drawn = opening(page.page)
            say("opening it", f"{ready:.2f} s, last of the plots {drawn:.2f} s", "under 2 s", ready < 2)
        else:
            print("opening it: not measured, chromium is not installed (make chromium)")


def say(figure: str, measured: str, target: str, met: bool) -> None:
    print(f"{'ok ' if met else 'NOT'}  {figure:<22} {measured:<40} target {target}", flush=True)


def opening(page: Path) -> tuple[float, float]:
    """Seconds until the page can be used, and until its last plot is drawn."""
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService

    options = ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1400,900"):
        options.add_argument(argument)
    browser = Chrome(options, ChromeService(shutil.which("chromedriver")))
    try:
        times = []
        for _ in range(OPENINGS):
            browser.get(page.as_uri())
            while browser.execute_script("return document.documentElement.dataset.ready") != "all":
                time.sleep(0.05)
            marks = "return ['ready', 'drawn'].map(name => performance.getEntriesByName(name)[0].startTime / 1000)"
            times.append(tuple(browser.execute_script(marks)))
        return min(ready for ready, _ in times), min(drawn for _, drawn in times)
    finally:
        browser.quit()


if __name__ == "__main__":
    main()
