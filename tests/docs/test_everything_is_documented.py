"""Whatever is registered has a section, a row or a mention; and what the tables of the pages say is what the code has."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path
from typing import Any

import pages
import pytest
import typer

from schemaquake.checkers.findings.catalogue import CATALOGUE
from schemaquake.clusters.cql.outcomes import TABLE
from schemaquake.harness.cli.command_line import application
from schemaquake.harness.errors import ExitCode
from schemaquake.harness.history.pairing import OPERATIONS
from schemaquake.harness.model.observation import KINDS
from schemaquake.harness.model.records import HISTORY, LOGS, OBSERVATIONS
from schemaquake.harness.model.verdict import Anomaly, Doubt, Stat, Verdict
from schemaquake.harness.registry import load, names
from schemaquake.nemeses.network.grudges import BUILDERS, FEWEST_NODES
from schemaquake.nemeses.schedule.targets import TARGETS
from schemaquake.results.runs import pytest_plugin
from schemaquake.results.store.store import FILES, Store
from schemaquake.results.summary.summarise import read_summary
from schemaquake.results.tables.meetings import MEETINGS
from schemaquake.results.tables.pipeline import TABLES
from schemaquake.results.tables.races import RACES
from schemaquake.results.tables.rates import LATENCIES, RATES
from schemaquake.results.tables.schema_timeline import SCHEMA_TIMELINE
from schemaquake.results.tables.timelines import TIMELINES


def everything_said() -> str:
    return "\n".join(map(pages.text_of, pages.pages())) + (pages.ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("kind", "told_in"),
    [
        ("workloads", ("workloads.md", "data-workloads.md")),
        ("nemeses", ("nemeses.md",)),
        ("checkers", ("checkers.md",)),
    ],
)
def test_each_has_a_section_and_a_row_in_the_table_above(kind: str, told_in: tuple[str, ...]) -> None:
    for name in names(kind):
        found = [page for page in told_in if f"\n## {name}\n" in pages.text_of(page)]
        assert len(found) == 1, f"{name} has no section in {' or '.join(told_in)}, or two"
        assert pages.section(found[0], name).strip()
        assert f"| [{name}](#{name}) |" in pages.text_of(found[0])


@pytest.mark.parametrize("name", CATALOGUE)
def test_each_anomaly_has_a_section_and_is_told_of_by_the_checkers_that_find_it(name: str) -> None:
    assert pages.section("anomalies.md", name).strip()
    rows = re.findall(r"^\| \[([\w-]+)\]\(#\1\) \|.*$", pages.text_of("checkers.md"), re.MULTILINE)
    anchor = name.lower()
    finders = [checker for checker in rows if anchor in pages.anomaly_links(row(checker))]
    assert finders
    assert finders == [checker for checker in rows if name in load("checkers", checker).finds]


def row(checker: str) -> str:
    return next(line for line in pages.text_of("checkers.md").splitlines() if line.startswith(f"| [{checker}](#"))


def test_every_known_bug_that_an_anomaly_names_has_a_section() -> None:
    for kind in CATALOGUE.values():
        for bug in kind.bugs:
            assert pages.section("bugs.md", bug).strip()


def test_every_command_cluster_and_outcome_is_told_of() -> None:
    told = everything_said()
    commands = typer.main.get_command(application()).commands  # type: ignore[attr-defined]
    for command in commands:
        assert f"schemaquake {command}" in told, f"no page tells of schemaquake {command}"
    for cluster in names("clusters"):
        assert f"`{cluster}`" in told
    page = pages.text_of("outcomes.md")
    for outcome in TABLE:
        assert f"| `{outcome.error}` |" in page
        assert outcome.because in page


@pytest.mark.parametrize("name", names("nemeses"))
def test_a_nemesis_parameters_and_defaults_are_those_of_the_table(name: str) -> None:
    nemesis = load("nemeses", name)
    told = dict(re.findall(rf"^\| `{name}\.(\w+)` \| `([^`]+)` \|", pages.section("nemeses.md", name), re.MULTILINE))
    assert told == {
        field.name: as_typed(getattr(nemesis, field.name)) for field in dataclasses.fields(nemesis) if field.init
    }


def as_typed(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def test_grudges_and_targets_are_those_of_the_page() -> None:
    table = dict(
        re.findall(r"^\| `([\w-]+)` \| .* \| (\d) \|$", pages.section("nemeses.md", "partition"), re.MULTILINE)
    )
    assert table == {kind: str(FEWEST_NODES.get(kind, 2)) for kind in [*BUILDERS, "primaries", "data-center"]}
    for target in TARGETS:
        assert f"`{target}`" in pages.section("nemeses.md", "What all nemeses have in common")


def test_every_file_of_a_run_s_folder_has_a_row() -> None:
    for name in FILES:
        assert re.search(rf"^\| `{name}[`/]", pages.text_of("results.md"), re.MULTILINE), (
            f"results.md has no row {name}"
        )


@pytest.mark.parametrize(
    ("heading", "schema"), [("History", HISTORY), ("Observations", OBSERVATIONS), ("Logs", LOGS)], ids=str
)
def test_columns_are_those_of_the_table_in_their_order(heading: str, schema: Any) -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \|", pages.section("results.md", heading), re.MULTILINE)
    assert [name for name, _ in rows] == schema.names
    for name, told in rows:
        kind = str(schema.field(name).type)
        assert told in kind, f"{name} is {kind}, not {told}"


def test_tables_made_of_the_history_are_told_of_with_all_their_columns() -> None:
    told = pages.section("results.md", "Analysis")
    schemas = {
        "operations": OPERATIONS,
        "rates": RATES,
        "latencies": LATENCIES,
        "timelines": TIMELINES,
        "races": RACES,
        "meetings": MEETINGS,
        "schema_timeline": SCHEMA_TIMELINE,
    }
    assert set(schemas) == set(TABLES)
    for table, schema in schemas.items():
        assert f"`{table}.parquet`" in told
        for column in schema.names:
            assert f"`{column}`" in told, f"{table}.{column}"


def test_every_kind_of_observation_and_every_exit_code_is_told_of() -> None:
    for kind in KINDS:
        assert f"`{kind}`" in pages.section("results.md", "Observations")
    for code in ExitCode:
        assert f"| {code.value} |" in pages.section("results.md", "Exit codes")


def test_fields_of_a_verdict_and_of_what_is_in_it_are_those_of_the_page(recorded_run: Path) -> None:
    finding = read_summary(Store(recorded_run)).findings[0]
    doubt = Doubt("unread", "n1 was not read", ("ks",), checker="c")
    part = Verdict.unknown("c", doubt)
    fields = [
        "findings",
        *Verdict(valid=False, checker="all", doubts=(doubt,), undecided=(), parts=(part,)).to_json(),
        "judged_by",
        *Anomaly(type="t", title="t").to_json(),
        *finding.to_json(),
        *doubt.to_json(),
        *Stat(1, "ms", "max").to_json(),
    ]
    told = re.findall(r"^\| `(\w+)` \|", pages.section("results.md", "Verdict"), re.MULTILINE)
    assert told == fields


def test_fields_of_a_summary_are_those_of_the_page(recorded_run: Path) -> None:
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", pages.section("results.md", "Summary"), re.MULTILINE)
    fields = [field for row in rows for field in re.findall(r"`(\w+)`", row)]
    assert set(fields) == read_summary(Store(recorded_run)).to_json().keys()
    assert len(set(fields)) == len(fields)


def test_options_and_fixtures_of_the_pytest_plugin_are_told_of() -> None:
    told = pages.section("ci.md", "pytest")
    source = inspect.getsource(pytest_plugin)
    for option in re.findall(r'"(--schemaquake-[\w-]+)"', source):
        assert f"`{option}" in told
    for fixture in re.findall(r"@pytest\.fixture\(.*\)\ndef (\w+)", source):
        assert f"| `{fixture}` |" in told
