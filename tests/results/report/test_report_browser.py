"""A real browser: no script fails, nothing is asked of the network, charts are drawn, light and dark, wide and narrow."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hostile_pages import EVIL, hostile_run
from matrices import FOUND, hostile_matrix, matrix
from synthetic_run import broken_run, compared, held_run

from schemaquake.results.matrix.page import render_matrix_html
from schemaquake.results.report.comparison import compare, render_comparison_html
from schemaquake.results.report.html import render_report_html

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
    page = opened(browser, tmp_path, render_report_html(broken_run()), width=width, scheme=scheme)
    assert page.get_log("browser") == []
    assert page.execute_script("return document.querySelectorAll('.chart canvas').length") == 3
    # Wide pictures scroll in their own boxes; the page itself never does sideways.
    assert page.execute_script("return document.documentElement.scrollWidth") == width


def test_nothing_is_asked_of_the_network(browser: Any, tmp_path: Path):
    page = opened(browser, tmp_path, render_report_html(broken_run()))
    assert requested(page) == {(tmp_path / "page.html").as_uri()}


def test_charts_are_not_empty_and_follow_the_choice(browser: Any, tmp_path: Path):
    page = opened(browser, tmp_path, render_report_html(broken_run()))
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
    page = opened(browser, tmp_path, render_report_html(broken_run()))
    page.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    )
    assert page.execute_script("return document.querySelectorAll('.chart canvas').length") == 3
    assert page.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"
    assert page.get_log("browser") == []


def test_hostile_text_runs_nothing(browser: Any, tmp_path: Path):
    page = opened(browser, tmp_path, render_report_html(hostile_run()))
    assert page.get_log("browser") == []
    assert requested(page) == {(tmp_path / "page.html").as_uri()}
    assert page.execute_script("return document.querySelectorAll('img, iframe').length") == 0


def test_the_comparison_opens_without_a_word_in_the_console(browser: Any, tmp_path: Path):
    runs = [compared(run.plan, run) for run in (broken_run(), held_run())]
    page = opened(browser, tmp_path, render_comparison_html(compare(runs)), width=480)
    assert page.get_log("browser") == []
    assert page.execute_script("return document.documentElement.scrollWidth") == 480


# ── the matrix ───────────────────────────────────────────────────────────────────────────────────────────────────────

CELL = "#cell.create-table.barrier."
BROKEN = f"{CELL}lost-rows.5.0.9"


def click(page: Any, selector: str) -> None:
    page.execute_script("document.querySelector(arguments[0]).click()", selector)


def in_panel(page: Any) -> str:
    """What the panel says; empty while it is closed."""
    return page.execute_script(
        "return document.getElementById('panel').open ? document.getElementById('panel-body').innerText : ''"
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_the_matrix_opens_in_silence_and_scrolls_in_its_own_box(browser: Any, tmp_path: Path, width: int, scheme: str):
    page = opened(browser, tmp_path, render_matrix_html(matrix()), width=width, scheme=scheme)
    assert page.get_log("browser") == []
    assert requested(page) == {(tmp_path / "page.html").as_uri()}
    assert page.execute_script("return document.documentElement.scrollWidth") == width
    # The first column and the head stay while the rest moves.
    moved = page.execute_script("""
      const box = document.querySelector('.box');
      const places = () => ['tbody th', 'thead th:nth-child(2)'].map((name) => {
        const place = box.querySelector(name).getBoundingClientRect();
        return [place.left, place.top];
      });
      box.style.maxHeight = '400px';
      const before = places();
      box.scrollTo(200, 300);
      const after = places();
      return [box.scrollTop > 0, before[0][0] === after[0][0], before[1][1] === after[1][1]];
    """)
    assert moved == [True, True, True]


def test_all_versions_fit_on_an_ordinary_screen(browser: Any, tmp_path: Path):
    page = opened(browser, tmp_path, render_matrix_html(matrix()), width=1280)
    assert page.execute_script("const b = document.querySelector('.box'); return b.scrollWidth <= b.clientWidth")


def test_a_click_opens_the_evidence_and_closing_puts_it_back(browser: Any, tmp_path: Path):
    page = opened(browser, tmp_path, render_matrix_html(matrix()), width=1280)
    click(page, f".grid a[href='{BROKEN}']")
    assert "Cassandra 5.0.9: Acknowledged rows are gone" in in_panel(page)
    assert "schemaquake run --system cassandra:5.0.9 --workload create-table" in in_panel(page)
    assert page.execute_script("return document.querySelectorAll('#panel pre.command .copy').length") == 1
    click(page, "#panel .close")
    assert in_panel(page) == ""
    # A page hears a moment later that its dialog was closed.
    home = "setTimeout(() => arguments[1](document.querySelectorAll(arguments[0]).length), 200)"
    assert page.execute_async_script(home, f"#details article[id='{BROKEN[1:]}']") == 1
    assert page.get_log("browser") == []


def test_a_link_to_a_cell_opens_it_from_anywhere(browser: Any, tmp_path: Path):
    page = opened(browser, tmp_path, render_matrix_html(matrix()), width=1280)
    click(page, "#promises a[href^='#cell.']")
    assert "Cassandra 0.7.10" in in_panel(page)
    click(page, "#panel .close")
    # From "any anomaly" on to what was found, inside the panel.
    click(page, f".grid a[href='{CELL}any.5.0.9']")
    assert "Let  T1" not in in_panel(page)
    click(page, f"#panel-body a[href='{BROKEN}']")
    assert "Let  T1" in in_panel(page)


def test_a_cell_opened_at_once_after_another_was_closed_stays(browser: Any, tmp_path: Path):
    page = opened(browser, tmp_path, render_matrix_html(matrix()), width=1280)
    # In one turn of the page's script: the browser tells of the closing only after the second click.
    page.execute_async_script(
        """
        const [first, second, done] = arguments;
        document.querySelector(first).click();
        document.querySelector('#panel .close').click();
        document.querySelector(second).click();
        setTimeout(done, 200);
        """,
        f".grid a[href='{CELL}any.5.0.9']",
        f".grid a[href='{BROKEN}']",
    )
    assert "Cassandra 5.0.9: Acknowledged rows are gone" in in_panel(page)


def test_arrow_keys_walk_from_cell_to_cell(browser: Any, tmp_path: Path):
    page = opened(browser, tmp_path, render_matrix_html(matrix()), width=1280)
    walked = page.execute_script(
        """
        document.querySelector(arguments[0]).focus();
        return arguments[1].map((key) => {
          const event = new KeyboardEvent('keydown', { key: key, bubbles: true, cancelable: true });
          document.activeElement.dispatchEvent(event);
          return document.activeElement.getAttribute('href');
        });
        """,
        f".grid a[href='{BROKEN}']",
        ["ArrowLeft", "ArrowUp", "ArrowUp", "ArrowRight", "ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight"],
    )
    assert [place.removeprefix(CELL) for place in walked] == [
        "lost-rows.4.1.10", "conflicting-table-ids.4.1.10", "shared-table-id.4.1.10", "shared-table-id.5.0.9",
        "conflicting-table-ids.5.0.9", "lost-rows.5.0.9", "lost-rows.6.0-alpha2", "lost-rows.6.0-alpha2",
    ]  # fmt: skip


def test_anomalies_can_be_folded_away(browser: Any, tmp_path: Path):
    page = opened(browser, tmp_path, render_matrix_html(matrix()), width=1280)
    rows = "return [...document.querySelectorAll('#matrix tbody tr')].filter((row) => row.offsetParent).length"
    assert page.execute_script(rows) == 1 + len(FOUND) + sum(map(len, FOUND.values()))
    click(page, ".switch input")
    assert page.execute_script(rows) == 1 + len(FOUND)


def test_without_scripts_a_cell_leads_to_its_evidence_further_down(browser: Any, tmp_path: Path):
    without = render_matrix_html(matrix()).partition("<script>")[0]
    page = opened(browser, tmp_path, without, width=1280)
    click(page, f".grid a[href='{BROKEN}']")
    shown = "const at = document.querySelector(':target'); return [at.id, at.getBoundingClientRect().height > 100]"
    assert page.execute_script(shown) == [BROKEN[1:], True]


def test_hostile_cells_run_nothing(browser: Any, tmp_path: Path):
    page = opened(browser, tmp_path, render_matrix_html(hostile_matrix(EVIL)))
    click(page, ".grid td a")
    assert "alert(1)" in in_panel(page)
    assert page.get_log("browser") == []
    assert requested(page) == {(tmp_path / "page.html").as_uri()}
    assert page.execute_script("return document.querySelectorAll('img, iframe').length") == 0
