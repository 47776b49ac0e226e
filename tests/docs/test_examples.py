"""The pages' examples do what the pages say: they run, print what is printed below them, and keep the protocols."""

from __future__ import annotations

import inspect
import io
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pages
import plugins
import pytest
from recorded import RUN
from rich.console import Console
from synthetic_run import broken_run

from schemaquake.checkers.findings.catalogue import CATALOGUE, finders
from schemaquake.harness.model.plan import Plan
from schemaquake.harness.model.protocols import Checker, HistoryFormat, Nemesis
from schemaquake.harness.registry import load
from schemaquake.results.judging.judge import judge
from schemaquake.results.report.findings import report_findings
from schemaquake.results.report.material import anomalies_of
from schemaquake.results.runs.execution import conclude, print_summary
from schemaquake.results.runs.pytest_plugin import Run
from schemaquake.results.store.store import Store

NEEDS_MORE = r"\bpolars\b|\bpyspark\b"
"""Examples for tools that the plain tests do without."""

OUTSIDE = pages.ROOT / "tests" / "outside"
PROJECT = tomllib.loads((OUTSIDE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SHOWN = {
    "write-a-workload.md": ["new_column.py"],
    "write-a-nemesis.md": ["stutter.py"],
    "write-a-checker.md": ["known_columns.py", "event_lines.py", "anomalies.toml"],
}
"""The files of the package outside the tree that each page shows."""

pytest_plugins = ["pytester"]


@pytest.fixture
def _outside(tmp_path: Path) -> Iterator[None]:
    """The package outside the tree, as if it were installed."""
    entries = {group.removeprefix("schemaquake."): names for group, names in PROJECT["entry-points"].items()}
    with plugins.on_path(plugins.distribution(tmp_path / "plugins", entries), OUTSIDE):
        yield


@pytest.mark.parametrize(("page", "file"), [(page, file) for page, files in SHOWN.items() for file in files])
def test_the_page_shows_the_file_of_the_package_as_it_is(page: str, file: str) -> None:
    text = (OUTSIDE / "schemaquake_example" / file).read_text(encoding="utf-8")
    assert text in pages.blocks(page, "toml" if file.endswith(".toml") else "python")


@pytest.mark.usefixtures("_outside")
@pytest.mark.parametrize("page", SHOWN)
def test_the_examples_print_what_the_page_says(page: str) -> None:
    pages.carry_out(page)


def test_the_examples_read_of_a_run_what_the_page_says(recorded_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(recorded_run.parents[1])
    pages.carry_out("results.md", without=NEEDS_MORE)


def test_no_page_has_examples_that_nobody_carries_out() -> None:
    written = {page for page in pages.pages() if pages.blocks(page, "python")}
    assert written == {"ci.md", "results.md", "write-a-workload.md", "write-a-nemesis.md", "write-a-checker.md"}


def test_polars_reads_what_the_page_says(recorded_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("polars")
    monkeypatch.chdir(recorded_run.parents[1])
    assert pages.printed_by("results.md", only("polars"), {}) == "25\n"


@pytest.mark.spark
@pytest.mark.long
def test_spark_reads_what_the_page_says(recorded_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(recorded_run.parents[1])
    names: dict[str, Any] = {}
    try:
        printed = pages.printed_by("results.md", only("pyspark"), names)
    finally:
        names["spark"].stop()
    assert (
        printed
        == "[Row(type='fail', count=5), Row(type='info', count=25), Row(type='invoke', count=34), Row(type='ok', count=29)]\n"
    )


def only(word: str) -> str:
    (code,) = [code for code in pages.blocks("results.md", "python") if word in code]
    return code


@pytest.mark.usefixtures("_outside")
@pytest.mark.parametrize("page", SHOWN)
def test_the_entry_points_of_a_page_are_those_of_the_package(page: str) -> None:
    shown = [found["project"] for found in map(tomllib.loads, pages.blocks(page, "toml")) if "project" in found]
    assert shown
    for group, entries in shown[0]["entry-points"].items():
        assert entries == PROJECT["entry-points"][group]
        for name in entries:
            if group != "schemaquake.anomalies":
                assert load(group.removeprefix("schemaquake."), name).name == name


@pytest.mark.usefixtures("_outside")
@pytest.mark.parametrize(
    ("page", "name", "protocol"),
    [
        ("write-a-nemesis.md", "Stutter", Nemesis),
        ("write-a-checker.md", "KnownColumns", Checker),
        ("write-a-checker.md", "EventLines", HistoryFormat),
    ],
)
def test_an_example_has_the_methods_of_its_protocol(page: str, name: str, protocol: type) -> None:
    given = pages.carry_out(page)[name]
    methods = [method for method, _ in inspect.getmembers(protocol, inspect.isfunction) if not method.startswith("_")]
    assert methods
    for method in methods:
        asked, had = (inspect.signature(getattr(kind, method)).parameters.values() for kind in (protocol, given))
        assert [(parameter.name, parameter.kind) for parameter in had] == [(p.name, p.kind) for p in asked]


@pytest.mark.usefixtures("_outside")
def test_the_example_s_anomaly_is_found_by_its_checker_and_foremost_in_a_report() -> None:
    """Nothing in the project is edited for it."""
    names = pages.carry_out("write-a-checker.md")
    assert finders()["forgotten-column"] == {"known-columns"}
    strange = judge(names["records"](names["HISTORY"]), checkers=["known-columns"])
    run = broken_run()
    before = [finding.id for finding in report_findings(run)]
    together = replace(run.verdict, parts=(*run.verdict.parts, *strange.parts))
    found = report_findings(replace(run, verdict=replace(together, anomalies=anomalies_of(together))))
    by_type = {finding.types[0]: finding for finding in found}
    assert [finding.id for finding in found if finding.types[0] != "forgotten-column"] == before
    assert by_type["forgotten-column"].symptoms[0].worst == CATALOGUE["forgotten-column"].worst


def test_the_example_of_a_test_suite_passes_on_what_its_runs_find(
    pytester: pytest.Pytester, recorded_run: Path
) -> None:
    """The runs are of somebody else's machine: what they found is told. The last test judges a stored run."""
    (suite,) = pages.blocks("ci.md", "python")
    pytester.makepyfile(suite)
    pytester.makeconftest(
        """
        import pytest
        from schemaquake.results.runs import pytest_plugin

        FOUND = {"drop-type": [], "create-table": [{"type": "lost-rows", "title": "", "objects": [], "nodes": [],
                 "ops": [], "evidence": None, "explanation": "", "references": []}]}
        judge_stored = pytest_plugin.run_command

        def run_command(arguments):
            if arguments[0] == "check":
                return judge_stored(arguments)
            workload = arguments[arguments.index("--workload") + 1]
            assert "partition" in arguments or workload == "drop-type"
            return {"valid": not FOUND[workload], "checker": "all", "anomalies": FOUND[workload], "stats": {},
                    "run": "r", "report": "r/report.html", "command": "schemaquake run"}

        @pytest.fixture(autouse=True)
        def elsewhere(monkeypatch):
            monkeypatch.setattr(pytest_plugin, "run_command", run_command)
            monkeypatch.setattr(pytest_plugin, "prepare", lambda plan: None)
        """
    )
    (pytester.path / "runs").symlink_to(recorded_run.parent)
    pytester.runpytest_subprocess("-p", "no:cacheprovider", "--strict-markers").assert_outcomes(passed=3)


def test_a_failed_test_reports_what_the_page_shows(recorded_run: Path) -> None:
    verdict = judge(Store(recorded_run), checkers=["references"], engine="local")
    folder = Path("runs", recorded_run.name)
    plan = Plan(system="cassandra:5.0.9", workloads=("drop-type",))
    run = Run(verdict, folder, folder / "report.html", plan.command())
    assert [run.describe() + "\n"] == pages.blocks("ci.md", "text")


@pytest.mark.parametrize("page", ["anomalies.md", "tutorial.md"])
def test_the_explanation_shown_is_what_the_checker_says_of_the_recorded_race(page: str, recorded_run: Path) -> None:
    said = [
        anomaly.explanation for anomaly in judge(Store(recorded_run), checkers=["references"], engine="local").anomalies
    ]
    assert [text.rstrip("\n") for text in pages.blocks(page, "text") if text.startswith("Let")] == said


def test_the_tutorial_tells_every_way_in_which_its_race_shows(recorded_run: Path) -> None:
    _, _, told = pages.section("tutorial.md", "The verdict").partition("One race usually produces several anomalies")
    assert set(pages.anomaly_links(told)) == {anomaly.type for anomaly in Store(recorded_run).read_verdict().anomalies}


def test_the_tutorial_shows_the_summary_of_its_race_as_it_is_printed(recorded_run: Path) -> None:
    output = io.StringIO()
    print_summary(conclude(recorded_run, engine="local"), Console(file=output, width=200))
    *summary, _report = [line.rstrip() for line in output.getvalue().splitlines()]
    (told,) = [text for text in pages.blocks("tutorial.md", "text") if text.startswith("INVALID")]
    assert told.splitlines() == summary


def test_the_excerpt_is_named_by_the_tutorial() -> None:
    assert str(RUN.relative_to(pages.ROOT)) in pages.text_of("tutorial.md")
