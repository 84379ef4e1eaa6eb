"""The pictures of README.md and the docs, made from the code: `make pictures` (about five minutes of one core).

    tree.svg        an example with the value of every node            pomona show --svg
    ladder.svg      baselines that see only part of the input          pomona ladder --plot
    tre.svg         a fit, its bound and its shuffles                  TreFit.plot
    mixture.svg     what explains the answers of three made-up models   a plot of the report
    report.png      the top of a report, and explorer.png its tree explorer, in Debian's chromium
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import pomona as pm

PICTURES = Path(__file__).parent / "pictures"
BUILD = Path(__file__).resolve().parents[1] / "build" / "pictures"
RUNS = {  # two models that differ in what they can do: one is given the trees, one has to find its own
    "treelstm": ["--model-set", "width=48", "--recipe", "epochs=3", "--recipe", "rate=0.01", "--recipe", "batch=128"],
    "st_gumbel": ["--model-set", "width=32", "--recipe", "epochs=1", "--recipe", "rate=0.003"],
}


CHOOSE = """
for (const [field, value] of [["which-run", 1], ["least-nesting", 3], ["least-length", 17]]) {
  const input = document.getElementById(field);
  if (input.tagName === "SELECT") input.selectedIndex = value; else input.value = value;
  input.dispatchEvent(new Event("input", {bubbles: true}));
  input.dispatchEvent(new Event("change", {bubbles: true}));
}
const order = document.getElementById("order");
order.value = "shortest";
order.dispatchEvent(new Event("change", {bubbles: true}));
document.getElementById("explorer").scrollIntoView();
"""


def pomona(*words: str) -> None:
    command = Path(sys.executable).with_name("pomona")
    subprocess.run([str(command), *words], check=True, stdout=subprocess.DEVNULL)


def drawn() -> None:
    """The pictures that need no browser."""
    test = pm.generate("listops/d20s", "test", size=300)
    BUILD.mkdir(parents=True, exist_ok=True)
    pm.write(test[(test.nesting == 3) & (test.lengths >= 15) & (test.lengths <= 20)], BUILD / "examples.tsv")
    pomona("show", str(BUILD / "examples.tsv"), "-n", "1", "--svg", str(PICTURES / "tree.svg"))
    pomona("ladder", "listops/d20s", "--size", "2000", "--plot", str(PICTURES / "ladder.svg"))
    random = np.random.default_rng(0)
    words = {name: random.normal(size=16) for name in ("red", "old", "wet", "big", "dog", "hat", "sky", "tea", "cup")}
    phrases = [(first, second) for first in [*words][:4] for second in [*words][4:]]
    vectors = [words[first] + words[second] + 0.3 * random.normal(size=16) for first, second in phrases]
    pm.tre(vectors, phrases).plot().save(PICTURES / "tre.svg")


def mixtures() -> None:
    """The plot of mixtures, for models that are made up: their answers are drawn from known components."""
    import json

    from pomona.shortcuts import ladder as shortcuts

    test = pm.generate("listops/d20s", "test", size=2000)
    train = pm.generate("listops/d20s", "train", size=20_000)
    levels = shortcuts.evaluations(test, train, 3)[:, 0]
    random = np.random.default_rng(0)
    guesses, right = random.integers(0, 10, len(test)), test.targets[:, 0]
    made_up = {
        "96 % right": ([0.96, 0.04], [right, guesses]),
        "two levels, or all": ([0.5, 0.4, 0.1], [right, levels[:, 2], guesses]),
        "one level": ([0.85, 0.15], [levels[:, 1], guesses]),
    }
    paths = []
    for name, (shares, parts) in made_up.items():
        chosen = random.choice(len(parts), len(test), p=shares)
        answers = np.stack(parts, axis=1)[np.arange(len(test)), chosen]
        paths.append(BUILD / "mixtures" / f"{name}.json")
        paths[-1].parent.mkdir(parents=True, exist_ok=True)
        paths[-1].write_text(json.dumps(pm.evaluate(answers.tolist(), test, train=train).as_dict()), encoding="utf-8")
    pm.report(paths, BUILD / "mixtures" / "report")
    shutil.copy(BUILD / "mixtures" / "report" / "figures" / "mixture-1.svg", PICTURES / "mixture.svg")


def report() -> Path:
    """A report of two small runs."""
    for model, settings in RUNS.items():
        run = str(BUILD / model)
        common = ["--data", "listops/d20s", "--set", "train=20000", "--recipe", "longest=50", "--out", run, "--quiet"]
        pomona("train", model, *common, *settings)
        pomona("evaluate", run, "--data", "listops/d20s", "--set", "train=20000", "--size", "2000")
    pomona("report", *(str(BUILD / model) for model in RUNS), "--out", str(BUILD / "report"))
    return BUILD / "report" / "index.html"


def photographed(page: Path) -> None:
    """The report and its explorer, as a browser shows them."""
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService

    options = ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(argument)
    with Chrome(options, ChromeService(shutil.which("chromedriver") or "")) as browser:
        browser.set_window_size(1200, 800)
        browser.get(page.resolve().as_uri())
        time.sleep(4)
        browser.save_screenshot(str(PICTURES / "report.png"))
        browser.set_window_size(1200, 1000)
        browser.execute_script(CHOOSE)
        time.sleep(2)
        browser.save_screenshot(str(PICTURES / "explorer.png"))


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    drawn()
    mixtures()
    photographed(report())
    print(*sorted(PICTURES.iterdir()), sep="\n")
