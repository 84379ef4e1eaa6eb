"""Hostile text in every field of every document of a report is text: in the page, and in a real browser."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from campaign import hostile, material


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documents with payloads in all fields that take a text."""
    folder = tmp_path_factory.mktemp("hostile")
    home = folder / "home"
    child = os.fork()  # training leaves threads behind
    if not child:
        try:
            material.make_reports(home)
            os._exit(0)
        finally:
            os._exit(70)
    assert os.waitpid(child, 0)[1] == 0
    assert hostile.plant(home, folder / "planted") > 100
    return folder / "planted"


def test_no_field_becomes_markup(planted: Path, tmp_path: Path) -> None:
    page = hostile.bare_page(planted, tmp_path / "out")
    assert hostile.marked(page) == (hostile.marked(hostile.bare_page(planted, tmp_path / "again"))[0], [])
    text = page.read_text(encoding="utf-8")
    assert text.count("window.hacked") > 20  # the payloads are there, as text


def test_markup_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<p onclick=x>a</p><a href='http://x/'>b</a><script>c</script><img src=x>")
    scripts, wrong = hostile.marked(page)
    assert (scripts, len(wrong)) == (1, 4)


@pytest.mark.browser
def test_no_field_runs_or_asks_in_a_browser(planted: Path, tmp_path: Path) -> None:
    driver = hostile.browser()
    if driver is None:
        pytest.fail('no chromium, or no chromedriver: `make chromium`, or leave these out with -m "not browser"')
    try:
        assert hostile.browsed(hostile.page(planted, tmp_path / "out"), driver) == []
    finally:
        driver.quit()
