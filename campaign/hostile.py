"""Hostile text in every field of every document that a report shows: the page has it as text, and asks nobody.

    planted = plant(home, folder, turn=0)      copies of the documents; each field that takes a text holds a payload
    page(folder, out)                          the report of all of them
    marked(page), browsed(page)                what became markup; what a real browser did with it

A field takes a text if the page is still made when its value is another text; most are refused, with an error of ours.
"""

from __future__ import annotations

import copy
import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from unittest import mock

from campaign import use
from pomona.base import files
from pomona.base.errors import PomonaError

SERVER = "http://127.0.0.1:9"  # where nobody listens; a request to it is seen all the same
PAYLOADS = (
    "<img src=x onerror=window.hacked={n}>", "</script><script>window.hacked={n}</script>", "<!--<script>{n}",
    "' onload='window.hacked={n}", '"><svg onload=window.hacked={n}>', "javascript:window.hacked={n}",
    f"<a href={SERVER}/{{n}}>x</a>", f"<style>@import '{SERVER}/{{n}}'</style>", f"url({SERVER}/{{n}})",
    f"<meta http-equiv=refresh content='0;url={SERVER}/{{n}}'>", f"<iframe src={SERVER}/{{n}}></iframe>",
    "__proto__", "constructor", "datum.constructor.constructor('window.hacked={n}')()", "{{{{{n}*{n}}}}}",
    '\\"+datum.constructor.constructor("window.hacked={n}")()+\\"',
    "\u202e{n}\x1b]8;;http://127.0.0.1:9\x07", "&lt;img src=x onerror=window.hacked={n}&gt;", "\u2028</title>{n}",
)  # fmt: skip
DOCUMENTS = (
    *(f"bare/{name}" for name in ("recipe.json", "curve.jsonl", "summary.json", "scores.json", "certificate.json",
                                  "data.json", "environment.json")),
    *(f"reports/{name}.json" for name in ("certificate", "evaluation", "comparison", "fit", "results")),
)  # fmt: skip
FIRST = 2  # fields of a kind that are tried: entries of one list, and of objects in it, are of the same kind
TAGS_WITH_SCRIPT = ("iframe", "object", "embed", "base", "img", "link", "form", "frame")


def plant(home: Path, folder: Path, *, turn: int = 0, documents: Iterable[str] = DOCUMENTS) -> int:
    """Copy the documents and write payloads into them; how many fields took one."""
    taken = 0
    for top in ("bare", "reports"):
        shutil.copytree(home / top, folder / top)
    (folder / "reports" / "index.html").unlink()
    for name in documents:
        path, alone = folder / name, folder / ("bare" if name.startswith("bare/") else name)
        lines = name.endswith(".jsonl")
        text = files.read_text(path)
        document = [json.loads(line) for line in text.splitlines()] if lines else json.loads(text)
        for number, place in enumerate(_first_of_each_kind(_fields(document, ()))):
            payload = PAYLOADS[(number + turn) % len(PAYLOADS)].format(n=number)
            changed = _with(document, place, payload)
            _write(path, changed, lines=lines)
            try:
                use.page([alone])
            except PomonaError:
                continue
            document, taken = changed, taken + 1
        _write(path, document, lines=lines)
    (folder / "bare").rename(folder / PAYLOADS[0].format(n=0))
    return taken


def _write(path: Path, document: Any, *, lines: bool) -> None:
    files.write_text(path, "".join(json.dumps(line) + "\n" for line in document) if lines else json.dumps(document))


def _fields(value: Any, place: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """The places of all values that are not lists or objects, and of all keys (these end in None)."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _fields(part, (*place, key))
            yield (*place, key, None)
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from _fields(part, (*place, number))
    else:
        yield place


def _first_of_each_kind(places: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The first places of each kind: those whose last names are the same, numbers aside."""
    found, counts = [], Counter[tuple[str, ...]]()
    for place in places:
        kind = tuple("" if str(one).strip("-.0123456789") == "" else str(one) for one in place[-2:])
        counts[kind] += 1
        if counts[kind] <= FIRST:
            found.append(place)
    return found


def _with(value: Any, place: tuple[Any, ...], payload: str) -> Any:
    """A copy in which a value, or a key, is the payload."""
    changed = copy.deepcopy(value)
    holder = changed
    *way, last = place[:-1] if place[-1:] == (None,) else place
    for key in way:
        holder = holder[key]
    if place[-1] is None:
        holder[payload] = holder.pop(last)
    else:
        holder[last] = payload
    return changed


def page(folder: Path, out: Path) -> Path:
    """The report of everything in a folder."""
    from pomona.reports.page import report

    return report([folder], out, title=PAYLOADS[1].format(n=1), with_figures=False).page


def reported(folder: Path, out: Path) -> list[str]:
    """Run the command `report`, which also draws the figures, for everything in a folder; what was wrong."""
    words = ["report", str(folder), "--out", str(out), "--title", PAYLOADS[1].format(n=1), "-q"]
    command = [sys.executable, "-c", "from pomona.cli.main import main; main()", *words]
    ran = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    return [f"the command ended with {ran.returncode}: {ran.stderr[-300:]}"] if ran.returncode else []


def bare_page(folder: Path, out: Path) -> Path:
    """The same without the plot library, which no document changes."""
    with mock.patch("pomona.reports.figures.library", return_value=""):
        return page(folder, out)


# -- what the page is --------------------------------------------------------------------------------------------------


class _Markup(HTMLParser):
    """What a browser would run or ask for."""

    def __init__(self) -> None:
        super().__init__()
        self.wrong: list[str] = []
        self.scripts = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        if tag in TAGS_WITH_SCRIPT:
            self.wrong.append(f"<{tag}>")
        for name, value in attrs:
            outside = name in ("src", "href", "action", "style") and not str(value).startswith(("#", "figures/"))
            if name.startswith("on") or outside or (name == "http-equiv" and value != "Content-Security-Policy"):
                self.wrong.append(f"<{tag} {name}={str(value)[:60]!r}>")


def marked(page: Path) -> tuple[int, list[str]]:
    """How many scripts a page has, and what in it came from a payload."""
    markup = _Markup()
    markup.feed(page.read_text(encoding="utf-8"))
    return markup.scripts, markup.wrong


def browsed(page: Path, driver: Any, seconds: float = 60) -> list[str]:
    """Open a page in a browser, wait until it is drawn, and say what it did that it must not."""
    for log in ("browser", "performance"):
        driver.get_log(log)  # what was before
    driver.get(page.as_uri())
    stop, wrong = time.monotonic() + seconds, []
    while driver.execute_script("return document.documentElement.dataset.ready") != "all":
        if time.monotonic() > stop:
            wrong.append("it was never drawn")
            break
        time.sleep(0.05)
    if (hacked := driver.execute_script("return window.hacked")) is not None:
        wrong.append(f"the script of field {hacked} ran")
    for entry in driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        url = message.get("params", {}).get("request", {}).get("url", "")
        if message["method"] == "Network.requestWillBeSent" and not url.startswith((page.as_uri(), "data:", "blob:")):
            wrong.append(f"it asked for {url}")
    wrong += [f"the console says {entry['message'][:200]}" for entry in driver.get_log("browser")]
    if driver.current_url != page.as_uri():
        wrong.append(f"it went to {driver.current_url}")
    return wrong


def browser() -> Any:
    """Chromium without a window; None if there is none."""
    programs = [shutil.which("chromium"), shutil.which("chromedriver")]
    if None in programs:
        return None
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService

    options = ChromeOptions()
    options.binary_location = str(programs[0])
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return Chrome(options, ChromeService(str(programs[1])))


def pages(home: Path, folder: Path, until: float) -> tuple[str, list[str]]:
    """Every payload in every field, a page for each turn, in a browser; what was counted, and what was wrong."""
    driver, fields, made, wrong = browser(), 0, 0, list[str]()
    if driver is None:
        return "NOT RUN: there is no chromium with chromedriver", []
    try:
        for turn in range(len(PAYLOADS)):
            if made and time.monotonic() > until:
                break
            fields += plant(home, folder / f"{turn}", turn=turn)
            out = folder / f"{turn} out"
            whole, failed = out / "index.html", reported(folder / f"{turn}", out)
            found = failed or [*marked(whole)[1], *browsed(whole, driver)]
            wrong += [f"turn {turn}: {what}" for what in found]
            made += 1
    finally:
        driver.quit()
    return f"{fields:,} hostile fields in {made} of {len(PAYLOADS)} pages, {len(wrong)} found", wrong
