"""The report in a real browser: it draws, it asks nobody for anything, it can be used by key and by mouse, and what
comes from outside stays text. Needs Debian's `chromium` and `chromium-driver` (`make chromium`)."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pomona.reports import report
from pomona.training.run import Run
from report_material import CLOSING, HOSTILE, documents, hostile_run, small_test, two_runs

pytestmark = pytest.mark.browser

selenium = pytest.importorskip("selenium", reason="selenium is part of the extra `dev`")
from selenium.webdriver import ActionChains, Chrome, ChromeOptions, ChromeService  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import Select  # noqa: E402

WIDE, NARROW = (1400, 900), (400, 800)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, a hostile one, a certificate, a fit and a paper's results, and the report of it all."""
    folder = tmp_path_factory.mktemp("browser")
    _, runs = two_runs(folder / "runs")
    files = documents(folder / "files")
    report([*runs, hostile_run(folder), files], folder / "out", title=f"Report of {HOSTILE}", with_figures=False)
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    """A Chromium without a window; where there is none the tests fail, for a page nobody opened was not tested."""
    programs = [shutil.which("chromium"), shutil.which("chromedriver")]
    if None in programs:
        pytest.fail('no chromium, or no chromedriver: `make chromium`, or leave these out with -m "not browser"')
    options = ChromeOptions()
    options.binary_location = programs[0]
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = Chrome(options, ChromeService(programs[1]))
    yield driver
    driver.quit()


@pytest.fixture
def page(browser: Chrome, folder: Path) -> Chrome:
    """The report on a wide window, drawn, with no filter set; opened once, for that is what takes time."""
    if browser.current_url != address(folder) or browser.execute_script("return innerWidth") != WIDE[0]:
        return opened(browser, folder, WIDE)
    browser.get_log("browser")
    browser.execute_script(RESET)
    waited(browser, "return document.getElementById('count').textContent.startsWith('240 of 240')")
    return browser


COVERED = """
const covered = [];
for (const plot of document.querySelectorAll(".vega-embed svg")) {
  const boxes = [...plot.querySelectorAll(".role-legend")].map((legend) => legend.getBoundingClientRect());
  const edge = document.documentElement.clientWidth;
  if (boxes.some((box) => box.right > edge)) covered.push(plot.textContent.slice(0, 80));
  boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b) => {
    const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (across > 1 && down > 1) covered.push(plot.textContent.slice(0, 80));
  }));
}
return covered;
"""
REPEATED = """
return [...document.querySelectorAll(".vega-embed svg .role-axis-label")]
  .map((axis) => [...axis.querySelectorAll("text")].filter((text) => text.getAttribute("opacity") !== "0"))
  .map((texts) => texts.map((text) => text.textContent))
  .filter((labels) => new Set(labels).size < labels.length);
"""
RESET = """
for (const field of document.querySelectorAll(".filters input")) field.value = field.defaultValue;
for (const choice of document.querySelectorAll(".filters select")) choice.selectedIndex = 0;
document.getElementById("count").textContent = "";
document.getElementById("which-test").dispatchEvent(new Event("change"));
document.activeElement.blur();
"""


def address(folder: Path) -> str:
    return (folder / "out" / "index.html").as_uri()


def seen_as(browser: Chrome, scheme: str, media: str = "") -> None:
    """As by somebody whose system is light or dark, on a screen or on paper."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})


def opened(browser: Chrome, folder: Path, size: tuple[int, int], scheme: str = "light") -> Chrome:
    width, height = size
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    seen_as(browser, scheme)
    for log in ("browser", "performance"):
        browser.get_log(log)  # what was before
    browser.get(address(folder))
    waited(browser, "return document.documentElement.dataset.ready === 'all'")
    return browser


def waited(browser: Chrome, script: str, seconds: float = 60) -> Any:
    """What the script returns as soon as it returns something."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = browser.execute_script(script)
        if found:
            return found
        time.sleep(0.05)
    pytest.fail(f"waited in vain for: {script}; the console says {browser.get_log('browser')}")


def chosen(browser: Chrome, element: str, value: str) -> None:
    Select(browser.find_element(By.ID, element)).select_by_visible_text(value)


def typed(browser: Chrome, element: str, text: str) -> None:
    field = browser.find_element(By.ID, element)
    field.clear()
    field.send_keys(text)


def count(browser: Chrome) -> int:
    return int(browser.find_element(By.ID, "count").text.split(" ")[0].replace(",", ""))


def row_shown(browser: Chrome) -> int:
    """The row of the file that is drawn, counted from 0."""
    found = re.match(r"row (\d+)", browser.find_element(By.CSS_SELECTOR, "#shown .facts").text)
    assert found is not None
    return int(found.group(1)) - 1


def focused(browser: Chrome) -> str:
    return str(
        browser.execute_script("return document.activeElement.getAttribute('aria-label') || document.activeElement.id")
    )


class TestLoading:
    def test_no_word_on_the_console_and_no_request_but_for_the_page(self, page: Chrome) -> None:
        assert page.get_log("browser") == []
        messages = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
        asked = [one["params"]["request"]["url"] for one in messages if one["method"] == "Network.requestWillBeSent"]
        assert [url.split("#")[0] for url in asked] == [page.current_url]

    def test_every_plot_is_drawn(self, page: Chrome) -> None:
        empty = "return [...document.querySelectorAll('.chart')].filter(one => !one.querySelector('svg path')).length"
        assert page.execute_script(empty) == 0
        assert len(page.find_elements(By.CSS_SELECTOR, ".chart svg")) > 8


class TestFilters:
    def test_counts_are_those_of_the_runs(self, page: Chrome, folder: Path) -> None:
        corpus = small_test()
        predictions = Run.read(folder / "runs" / "latent").predictions("test")
        assert predictions is not None
        assert predictions.trees is not None
        right = predictions.answers == corpus.targets[:, 0]
        assert count(page) == len(corpus)
        chosen(page, "which-run", "latent")
        for words, expected in (("wrong answers", ~right), ("right answers", right)):
            chosen(page, "which-rows", words)
            assert count(page) == expected.sum()
        chosen(page, "which-rows", "lists not closed by the model")
        pairs = zip(corpus.forest, predictions.trees, strict=True)
        missed = [spans(gold, brackets=True) - spans(model, brackets=False) for gold, model in pairs]
        assert count(page) == sum(map(bool, missed))
        chosen(page, "which-rows", "wrong answers")
        typed(page, "least-nesting", "3")
        typed(page, "least-length", "20")
        deep = ~right & (corpus.nesting >= 3) & (corpus.lengths >= 20)
        assert count(page) == deep.sum()
        typed(page, "has-text", "[MAX 7")
        expected = [row for row in np.flatnonzero(deep) if "[MAX 7" in corpus[int(row)].text]
        assert count(page) == len(expected)
        typed(page, "has-text", "no such text")
        assert count(page) == 0
        assert "No example passes" in page.find_element(By.ID, "shown").text

    def test_order(self, page: Chrome) -> None:
        chosen(page, "order", "longest first")
        assert row_shown(page) == int(small_test().lengths.argmax())


class TestKeysAndMouse:
    def test_the_list_by_keys(self, page: Chrome) -> None:
        rows = page.find_element(By.ID, "rows")
        rows.send_keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_UP)
        assert row_shown(page) == 1
        rows.send_keys("jj")
        assert row_shown(page) == 3
        rows.send_keys(Keys.END)
        assert row_shown(page) == 239
        assert page.find_element(By.ID, "page").text == "page 6 of 6"
        active = rows.get_attribute("aria-activedescendant")
        assert page.find_element(By.ID, active).get_attribute("aria-selected") == "true"
        assert len(page.find_elements(By.CSS_SELECTOR, "#rows [aria-selected=true]")) == 1
        outline = "return getComputedStyle(document.activeElement).outlineStyle"
        assert page.execute_script(outline) == "solid"  # focus can be seen

    def test_j_and_k_anywhere_but_in_a_field(self, page: Chrome) -> None:
        page.find_element(By.TAG_NAME, "body").send_keys("jjk")
        assert row_shown(page) == 1
        page.find_element(By.ID, "has-text").send_keys("jk")
        assert page.find_element(By.ID, "has-text").get_attribute("value") == "jk"

    def test_the_list_by_mouse(self, page: Chrome) -> None:
        page.find_elements(By.CSS_SELECTOR, "#rows [role=option]")[4].click()
        assert row_shown(page) == 4
        page.find_element(By.ID, "next-page").click()
        assert row_shown(page) == 40

    def test_another_run_by_its_answer(self, page: Chrome) -> None:
        chips = page.find_elements(By.CSS_SELECTOR, "button.chip")
        assert [chip.text.split(":")[0] for chip in chips] == ["good", "latent"]
        assert not page.find_elements(By.CSS_SELECTOR, "[aria-label='tree of latent']")
        chips[1].click()
        assert page.find_elements(By.CSS_SELECTOR, "[aria-label='tree of latent']")
        assert Select(page.find_element(By.ID, "which-run")).first_selected_option.text == "latent"


class TestTrees:
    def test_both_trees_and_where_they_differ(self, page: Chrome, folder: Path) -> None:
        """Against spans counted one by one in Python."""
        corpus = small_test()
        chosen(page, "which-run", "latent")
        chosen(page, "order", "deepest first")
        row = row_shown(page)
        predictions = Run.read(folder / "runs" / "latent").predictions("test")
        assert predictions is not None
        assert predictions.trees is not None
        gold, lists = spans(corpus[row].trees, brackets=True), "#shown [aria-label='gold tree'] .node"
        model = spans(predictions.trees[row], brackets=False)
        crossing = {(a, b) for a, b in model for c, d in gold if a < c <= b < d or c < a <= d < b}
        assert len(page.find_elements(By.CSS_SELECTOR, lists)) == len(gold)
        assert len(page.find_elements(By.CSS_SELECTOR, f"{lists}.missed")) == len(gold - model)
        tree = "#shown [aria-label='tree of latent'] .node"
        assert len(page.find_elements(By.CSS_SELECTOR, tree)) == len(model)
        assert len(page.find_elements(By.CSS_SELECTOR, f"{tree}.crossing")) == len(crossing)
        assert len(page.find_elements(By.CSS_SELECTOR, f"{tree}.closed")) == len(gold & model)
        words = page.find_element(By.CSS_SELECTOR, "#shown .legend").text
        assert f"{len(gold & model)} of {len(gold)} lists closed as a unit" in words

    def test_values_are_gold(self, page: Chrome) -> None:
        chosen(page, "order", "deepest first")
        example = small_test()[row_shown(page)]
        names = [example.trees.names[symbol] for symbol in example.trees.symbol]
        inner = [node for node in range(len(names)) if example.trees.arity[node]]
        marks = page.find_elements(By.CSS_SELECTOR, "#shown [aria-label='gold tree'] .node")
        shown = {int(mark.get_attribute("data-node")): mark.get_attribute("aria-label") for mark in marks}
        assert set(shown) == set(inner)
        for node in inner:
            assert shown[node].startswith(f"{names[node]}, value {example.values[node]}, tokens ")

    def test_arrow_keys_go_from_node_to_node(self, page: Chrome) -> None:
        chosen(page, "which-run", "latent")
        chosen(page, "order", "deepest first")
        root = page.find_element(By.CSS_SELECTOR, "#shown [aria-label='gold tree'] [tabindex='0']")
        page.execute_script("arguments[0].focus()", root)
        start = focused(page)
        page.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
        child = focused(page)
        assert child != start
        assert page.find_element(By.CSS_SELECTOR, "#shown .status").text == child
        assert page.find_elements(By.CSS_SELECTOR, ".tokens text.under")
        page.switch_to.active_element.send_keys(Keys.ARROW_UP)
        assert focused(page) == start
        assert len(page.find_elements(By.CSS_SELECTOR, "[aria-label='gold tree'] [tabindex='0']")) == 1

    def test_a_node_by_mouse(self, page: Chrome) -> None:
        mark = page.find_elements(By.CSS_SELECTOR, "#shown .node")[0]
        ActionChains(page).move_to_element(mark).click().perform()
        assert focused(page) == mark.get_attribute("aria-label")


def spans(tree: Any, *, brackets: bool) -> set[tuple[int, int]]:
    """The constituents of one tree, counted in tokens; in a bracketed sentence each list has two tokens more."""
    found: set[tuple[int, int]] = set()

    def walk(node: Any, first: int) -> int:
        if isinstance(node, str):
            return first + 1
        end = first + brackets
        for child in node[1:]:
            end = walk(child, end)
        end += brackets
        found.add((first, end - 1))
        return end

    walk(tree.nested()[0], 0)
    return found


class TestHostileText:
    def test_it_is_shown_as_text(self, page: Chrome) -> None:
        Select(page.find_element(By.ID, "which-test")).select_by_index(1)
        waited(page, "return document.querySelector('#which-run option').textContent.includes('<img')")
        assert HOSTILE in page.find_element(By.TAG_NAME, "h1").text
        assert HOSTILE in page.find_element(By.CSS_SELECTOR, "button.chip").text
        assert CLOSING in page.find_element(By.CSS_SELECTOR, "#overview").text
        typed(page, "has-text", HOSTILE)
        assert count(page) > 0
        assert HOSTILE in page.find_element(By.CSS_SELECTOR, "#shown .sentence").text
        typed(page, "has-text", CLOSING)
        assert CLOSING in page.find_element(By.CSS_SELECTOR, "#shown svg").get_attribute("textContent")
        page.execute_script("for (const one of document.querySelectorAll('.numbers')) one.open = true")
        written = "return [...document.querySelectorAll('.numbers td')].map(one => one.textContent)"
        waited(page, f"{written}.length > 100")
        assert HOSTILE in page.execute_script(written)
        assert not page.find_elements(By.TAG_NAME, "img")
        assert page.execute_script("return window.hacked") is None
        assert page.get_log("browser") == []

    def test_tooltips_are_text(self, page: Chrome) -> None:
        mark = "#plot-trees-2 .chart svg .mark-symbol path"
        point = waited(page, f"return document.querySelector({mark!r})")
        page.execute_script("arguments[0].scrollIntoView({block: 'center'})", point)
        ActionChains(page).move_to_element(point).perform()
        waited(page, "return !document.getElementById('tip').hidden")
        assert "<img src=x" in page.find_element(By.ID, "tip").text
        assert not page.find_elements(By.TAG_NAME, "img")


class TestLooks:
    @pytest.mark.parametrize("size", [NARROW, WIDE], ids=["narrow", "wide"])
    def test_nothing_sticks_out(self, browser: Chrome, folder: Path, size: tuple[int, int]) -> None:
        page = opened(browser, folder, size)
        assert page.execute_script("return document.documentElement.scrollWidth <= innerWidth")
        assert page.execute_script(COVERED) == []
        assert page.execute_script(REPEATED) == []

    def test_light_dark_and_the_choice(self, page: Chrome) -> None:
        background = "return getComputedStyle(document.body).backgroundColor"
        light = page.execute_script(background)
        seen_as(page, "dark")
        dark = page.execute_script(background)
        assert light != dark
        button = page.find_element(By.ID, "theme")
        button.click()
        assert (button.text, page.execute_script(background)) == ("Light", light)
        button.click()
        assert (button.text, page.execute_script(background)) == ("Dark", dark)
        ink = "return getComputedStyle(document.querySelector('.chart svg text')).fill"
        assert page.execute_script(ink) == page.execute_script("return getComputedStyle(document.body).color")
        button.click()
        seen_as(page, "light")
        assert (button.text, page.execute_script(background)) == ("Auto", light)

    def test_it_prints_on_white_whatever_the_screen(self, page: Chrome) -> None:
        seen_as(page, "dark", "print")
        assert page.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert not page.find_element(By.CSS_SELECTOR, ".filters").is_displayed()
        seen_as(page, "light")
        assert page.find_element(By.CSS_SELECTOR, ".filters").is_displayed()


class TestThePolicy:
    def test_it_stops_scripts_and_requests(self, page: Chrome) -> None:
        page.execute_script(
            "const script = document.createElement('script'); script.textContent = 'window.smuggled = 1';"
            "document.body.append(script);"
            "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.smuggled = 2\">');"
        )
        asked = page.execute_async_script(
            "fetch('https://example.org/').then(() => 'sent', () => 'refused').then(arguments[0])"
        )
        assert asked == "refused"
        assert page.execute_script("return window.smuggled") is None
        assert all("Content Security Policy" in entry["message"] for entry in page.get_log("browser"))
        page.get("about:blank")  # what was put into this page must not serve another test
