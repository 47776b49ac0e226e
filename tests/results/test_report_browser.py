"""A real browser: no script fails, nothing is asked of the network, charts are drawn, light and dark, wide and narrow."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from synthetic_run import broken_run, held_run
from test_report_html import hostile_run

from results.report.comparison import ComparedRun, compare, comparison_html
from results.report.html import report_html

pytestmark = pytest.mark.browser

CHROMIUM = shutil.which("chromium")
DRIVER = shutil.which("chromedriver")
OPTIONS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("chromium and chromedriver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for option in (*OPTIONS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(DRIVER)
    driver = webdriver.Chrome(options=options, service=service)
    yield driver
    driver.quit()


def opened(browser: Any, folder: Path, text: str, *, width: int = 1400, scheme: str = "light") -> Any:
    page = folder / "page.html"
    page.write_text(text, encoding="utf-8")
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False},
    )
    browser.get_log("browser")
    browser.get_log("performance")
    browser.get(page.as_uri())
    return browser


def requested(browser: Any) -> set[str]:
    """The addresses that the page asked for."""
    events = [entry["message"] for entry in browser.get_log("performance")]
    messages = [json.loads(event)["message"] for event in events]
    return {m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 480])
def test_the_page_opens_without_a_word_in_the_console(browser: Any, tmp_path: Path, width: int, scheme: str):
    page = opened(browser, tmp_path, report_html(broken_run()), width=width, scheme=scheme)
    assert page.get_log("browser") == []
    assert page.execute_script("return document.querySelectorAll('.chart canvas').length") == 3
    # Wide pictures scroll in their own boxes; the page itself never does sideways.
    assert page.execute_script("return document.documentElement.scrollWidth") == width


def test_nothing_is_asked_of_the_network(browser: Any, tmp_path: Path):
    page = opened(browser, tmp_path, report_html(broken_run()))
    assert requested(page) == {(tmp_path / "page.html").as_uri()}


def test_charts_are_not_empty_and_follow_the_choice(browser: Any, tmp_path: Path):
    page = opened(browser, tmp_path, report_html(broken_run()))
    painted = """
      const canvas = document.querySelector(arguments[0] + ' canvas');
      const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
      let sum = 0;
      for (let i = 0; i < data.length; i += 1) sum = (sum * 31 + data[i]) % 1000003;
      return [data.some((value) => value !== 0), sum];
    """
    choose = """
      const select = document.querySelector(arguments[0]);
      select.selectedIndex = arguments[1];
      select.dispatchEvent(new Event('change'));
    """
    for chart in ("#quantiles", "#raw", "#rates"):
        any_pixel, before = page.execute_script(painted, chart)
        assert any_pixel
        page.execute_script(choose, f"{chart}-of", 2)
        _, after = page.execute_script(painted, chart)
        assert after != before
    assert page.get_log("browser") == []


def test_charts_are_drawn_again_in_the_other_scheme(browser: Any, tmp_path: Path):
    page = opened(browser, tmp_path, report_html(broken_run()))
    page.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    )
    assert page.execute_script("return document.querySelectorAll('.chart canvas').length") == 3
    assert page.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"
    assert page.get_log("browser") == []


def test_hostile_text_runs_nothing(browser: Any, tmp_path: Path):
    page = opened(browser, tmp_path, report_html(hostile_run()))
    assert page.get_log("browser") == []
    assert requested(page) == {(tmp_path / "page.html").as_uri()}
    assert page.execute_script("return document.querySelectorAll('img, iframe').length") == 0


def test_the_comparison_opens_without_a_word_in_the_console(browser: Any, tmp_path: Path):
    runs = [ComparedRun(plan=run.plan, material=run, report="r/report.html") for run in (broken_run(), held_run())]
    page = opened(browser, tmp_path, comparison_html(compare(runs)), width=480)
    assert page.get_log("browser") == []
    assert page.execute_script("return document.documentElement.scrollWidth") == 480
