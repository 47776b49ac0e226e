"""The pages for a browser in docs/: their scripts may run, and each says something of every part that it links to."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pages
import pytest
from chromium import start_browser

STORED = sorted(pages.DOCS.glob("*/*.html"))


def test_there_are_pages() -> None:
    assert {path.parent.name for path in STORED} >= {
        "grids",
        "matrix",
        "topology-matrix",
        "upgrade-matrix",
        "upgrade-matrix-5.0",
    }


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.parent.name)
def test_the_policy_of_a_page_allows_its_scripts(path: Path) -> None:
    # A page that was edited by hand keeps the hashes of its old scripts, and a browser then runs none of them.
    text = path.read_text(encoding="utf-8")
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert scripts
    for script in scripts:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"&#39;sha256-{digest}&#39;" in text


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.parent.name)
def test_links_within_a_page_lead_somewhere_and_no_table_is_empty(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    ids = set(re.findall(r'\bid="([^"]+)"', text))
    assert set(re.findall(r'\bhref="#([^"]+)"', text)) <= ids
    for body in re.findall(r"<tbody[^>]*>(.*?)</tbody>", text, re.DOTALL):
        assert "<tr" in body


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    driver = start_browser(tmp_path_factory.mktemp("profile"))
    driver.set_script_timeout(120)  # the grid's page has four megabytes, and its layout takes a busy machine a while
    yield driver
    driver.quit()


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 375])
@pytest.mark.parametrize("path", STORED, ids=lambda path: path.parent.name)
def test_a_page_never_scrolls_sideways_and_its_tables_keep_their_first_column(
    browser: Any, path: Path, width: int
) -> None:
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(path.as_uri())
    assert browser.execute_script("return document.documentElement.scrollWidth") == width
    stays = """
      return [...document.querySelectorAll('.box')].every((box) => {
        const place = () => box.querySelector('tbody th').getBoundingClientRect().left;
        box.scrollTo(0, 0);
        const before = place();
        box.scrollTo(200, 0);
        return place() === before && before >= 0 && box.getBoundingClientRect().right <= window.innerWidth;
      });
    """
    assert browser.execute_script(stays)
    # Other tables fit: in a narrow window their rows are blocks.
    assert browser.execute_script(
        "return [...document.querySelectorAll('.scroll')].every((one) => one.scrollWidth <= one.clientWidth)"
    )
