"""Sites in a real browser, from a folder and from a server: no word in the console, filters, links, keyboard, narrow and wide."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bundles import RUN, judged_run
from chromium import start_browser
from site_runs import EVIL, further_run, held

from schemaquake.harness.wait import pause_for
from schemaquake.results.findings.curation import NOTHING_CURATED
from schemaquake.results.site.building import publish
from schemaquake.results.site.server import open_server

pytestmark = pytest.mark.browser
SIX = "simulated:cassandra-6.0"


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    run = judged_run(folder / RUN)
    further_run(run, folder / "held", system=SIX, started="2026-11-02T10:00:00+00:00", **held(run))
    further_run(run, folder / "<img src=x onerror=alert(1)>", system=f"cassandra:{EVIL}", error=EVIL, workloads=[EVIL])
    further_run(run, folder / "long", system=f"cassandra:{'a' * 3000}", workloads=["\u202e" + "💥" * 300])
    further_run(run, folder / "wide", system=f"cassandra:{'💥' * 300}", nemeses=["100%20%2e%2e%2f\n\t"])
    for number in range(230):
        further_run(run, folder / f"run-{number:03}", seed=number, started="2026-11-03T10:00:00+00:00")
    return folder


@pytest.fixture(scope="module")
def site(runs, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "public"
    publish([runs], folder)
    return folder


@pytest.fixture(scope="module")
def served(runs, site) -> Iterator[str]:
    server = open_server(runs, site, curation=NOTHING_CURATED)
    thread = threading.Thread(target=server.run)
    thread.start()
    yield server.address
    server.close()
    thread.join()


@pytest.fixture(scope="module")
def browser(tmp_path_factory) -> Iterator[Any]:
    driver = start_browser(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()


def opened(browser: Any, address: str, width: int = 1280) -> Any:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get_log("browser")
    browser.get_log("performance")
    browser.get("about:blank")
    browser.get(address)
    return browser


def foreign(browser: Any, home: str) -> set[str]:
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = {m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"}
    return {address for address in asked if not address.startswith((home, "about:", "data:"))}


def waited(browser: Any, script: str) -> Any:
    for _ in range(200):
        if found := browser.execute_script(script):
            return found
        pause_for(0.05)
    pytest.fail(f"never true: {script}")


@pytest.mark.parametrize("width", [1280, 390])
def test_pages_open_in_silence_from_a_folder_and_from_a_server(browser, site, served, width):
    finding = next(path for path in sorted((site / "findings").glob("*.html")))
    names = [
        "index.html", "runs.html", "compare.html", "trends.html", "method.html", "versions/simulated-cassandra-6.0.html",
        f"findings/{finding.name}", f"runs/{RUN}.html", "compare/simulated-cassandra-5.0--simulated-cassandra-6.0.html",
    ]  # fmt: skip
    names += [
        f"versions/{path.name}" for path in sorted((site / "versions").glob("*.html")) if "simulated" not in path.name
    ]
    names += [next(f"compare/{path.name}" for path in sorted((site / "compare").glob("*aaa*.html")))]
    for home in (f"{site.as_uri()}/", served):
        for name in names:
            page = opened(browser, f"{home}{name}", width)
            assert page.get_log("browser") == [], name
            assert foreign(page, home) == set(), name
            assert page.execute_script("return document.documentElement.scrollWidth") == width, name
            assert (
                page.execute_script("return getComputedStyle(document.querySelector('.brand')).fontWeight") == "700"
            ), name


def test_findings_are_filtered_as_one_types(browser, site):
    page = opened(browser, (site / "index.html").as_uri())
    rows = "return [...document.querySelectorAll('#findings tbody tr')].filter((row) => !row.hidden).length"
    every = page.execute_script(rows)
    assert every >= 1
    field = page.find_element("id", "filter")
    field.send_keys("no such finding")
    assert page.execute_script(rows) == 0
    assert page.find_element("id", "filter-count").text == f"0 of {every}"
    field.clear()
    field.send_keys("CREATE simulated:cassandra-6.0")
    assert page.execute_script(rows) >= 1


def test_runs_are_filtered_from_data_that_come_as_scripts(browser, site, served):
    for home in (f"{site.as_uri()}/", served):
        page = opened(browser, f"{home}runs.html")
        rows = "return document.querySelectorAll('#runs tbody tr').length"
        assert page.execute_script(rows) == 200
        page.find_element("id", "filter").send_keys("seed 117")
        assert waited(page, "return document.querySelectorAll('#runs tbody tr').length === 1")
        assert page.find_element("css selector", "#runs tbody a").text == "run-117"
        page.find_element("css selector", "#runs tbody a").click()
        assert page.find_element("css selector", "h1").text == "run-117"
        assert page.get_log("browser") == []
    # An address may name what is looked for, and the rest is a button away.
    page = opened(browser, f"{site.as_uri()}/runs.html#simulated:cassandra-5.0")
    waited(page, "return document.getElementById('filter-count').textContent.includes('of 235')")
    assert page.execute_script(rows) == 200
    page.execute_script("document.getElementById('more').click()")
    assert page.execute_script(rows) == 231


def test_the_keyboard_reaches_the_content_the_filter_and_a_finding(browser, site):
    page = opened(browser, (site / "index.html").as_uri())
    keys = "return [document.activeElement.tagName, document.activeElement.id || document.activeElement.textContent]"
    seen = []
    for _ in range(12):
        page.switch_to.active_element.send_keys("\ue004")  # Tab
        seen.append(tuple(page.execute_script(keys)))
    assert seen[0] == ("A", "Skip to the content")
    assert ("INPUT", "filter") in seen
    assert any(tag == "A" and "create one table" in text for tag, text in seen)
    unnamed = page.execute_script("""
      const named = (e) => e.textContent.trim() || e.getAttribute('aria-label') || (e.labels && e.labels.length);
      return [...document.querySelectorAll('a, button, input, [tabindex]')].filter((e) => !named(e)).length;
    """)
    assert unnamed == 0
    assert page.execute_script("return [document.documentElement.lang, document.querySelectorAll('h1').length]") == [
        "en",
        1,
    ]


def test_hostile_names_run_nothing(browser, site, served):
    page = opened(browser, f"{site.as_uri()}/runs.html#onerror")
    waited(page, "return document.querySelectorAll('#runs tbody tr').length === 1")
    assert "<img src=x onerror=alert(1)>" in page.find_element("css selector", "#runs tbody a").text
    page.find_element("css selector", "#runs tbody a").click()
    assert page.execute_script("return document.querySelectorAll('img, iframe').length") == 0
    assert page.get_log("browser") == []
    page = opened(browser, f"{served}versions.html")
    assert "alert(1)" in page.find_element("tag name", "main").text
    assert page.get_log("browser") == []


def test_without_scripts_everything_can_still_be_read(browser, site):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        page = opened(browser, (site / "runs.html").as_uri())
        assert page.find_element("css selector", "#runs tbody tr").is_displayed()
        assert not page.find_element("id", "filter").is_displayed()
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
