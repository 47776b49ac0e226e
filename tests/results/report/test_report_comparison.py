"""Comparison: what broke, what held, and what nobody knows, kept apart on every page."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hostile_pages import EVIL, Page, hostile_run
from rich.console import Console
from synthetic_run import PLAN, broken_run, compared, held_run

from schemaquake.harness.model.verdict import Anomaly, Verdict
from schemaquake.results.report.comparison import (
    ComparedRun,
    Comparison,
    compare,
    render_comparison_html,
    render_comparison_markdown,
)
from schemaquake.results.report.material import Material
from schemaquake.results.report.terminal import print_comparison


def ran(material: Material, **plan: object) -> ComparedRun:
    return compared({**material.plan, **plan}, material)


def refused(system: str, *, applicable: bool, why: str) -> ComparedRun:
    return ComparedRun(plan={**PLAN, "system": system}, refusal=why, applicable=applicable)


@pytest.fixture(scope="module")
def four() -> Comparison:
    undecided = held_run(undecided=True)
    return compare(
        [
            ran(broken_run()),
            ran(held_run()),
            ran(undecided, system="cassandra:4.1.10"),
            refused("cassandra:1.1.12", applicable=False, why="it has no user-defined types"),
        ]
    )


def states(comparison: Comparison, workload: str) -> list[str]:
    row = next(row for row in comparison.rows if row.workload == workload)
    return [row.cells[system].cell.state for system in comparison.systems]


def test_each_state_has_its_own_name(four: Comparison):
    assert states(four, "drop-type") == ["broke", "held", "unknown", "not applicable"]


def test_the_headline_counts_systems_apart(four: Comparison):
    assert four.headline() == (
        "Cassandra 5.0.9: 2 of 2 kinds of race break; Cassandra 6.0-alpha2: none of 2 kinds of race breaks; "
        "Cassandra 4.1.10: 2 kinds of race not decided; Cassandra 1.1.12: 2 kinds of race not applicable."
    )


def test_a_run_that_crashed_is_unknown_and_not_inapplicable():
    comparison = compare([ran(broken_run()), refused("cassandra:4.0.19", applicable=True, why="n1 never started")])
    assert states(comparison, "drop-type") == ["broke", "unknown"]
    assert "n1 never started" in render_comparison_markdown(comparison)


def test_a_race_that_a_run_lacks_is_not_run():
    some = held_run()
    races = some.races.filter([row["workload"] == "drop-type" for row in some.races.to_pylist()])
    comparison = compare([ran(broken_run()), ran(replace(some, races=races))])
    assert states(comparison, "create-table") == ["broke", "not run"]
    assert "1 kind of race not run" in comparison.headline()


def test_runs_of_one_cell_add_up_and_the_worst_counts():
    held = held_run()
    comparison = compare([ran(held, system="cassandra:5.0.9"), ran(broken_run())])
    compared = comparison.rows[1].cells["cassandra:5.0.9"]
    assert (compared.cell.state, compared.cell.broken, compared.cell.tried) == ("broke", 5, 12)
    assert compared.cell.low < 5 / 12 < compared.cell.high
    assert len(compared.reports) == 2


def test_cells_have_mode_and_nemeses_as_fields():
    comparison = compare(
        [ran(broken_run(), nemeses=["kill", "pause"]), refused("cassandra:1.1.12", applicable=True, why="")]
    )
    cells = [compared.cell for row in comparison.rows for compared in row.cells.values()]
    assert {(cell.mode, cell.nemeses) for cell in cells} >= {("barrier", ("kill", "pause"))}
    assert cells[0].condition == "barrier, kill and pause"


def test_conditions_are_rows_of_their_own_where_they_differ():
    comparison = compare([ran(broken_run()), ran(held_run(), mode="partition", nemeses=[])])
    assert [(row.workload, row.condition) for row in comparison.rows] == [
        ("create-table", "barrier, packet-loss"),
        ("create-table", "partition"),
        ("drop-type", "barrier, packet-loss"),
        ("drop-type", "partition"),
    ]
    assert comparison.rows[0].cells["cassandra:6.0-alpha2"].cell.state == "not run"


def test_a_workload_without_races_is_judged_by_its_verdict():
    run = held_run()
    without = replace(run, races=run.races.slice(0, 0))
    broken = replace(
        without,
        verdict=Verdict(valid=False, checker="all", anomalies=(Anomaly(type="lost-column", title="A column is lost"),)),
    )
    plan = {"workloads": ["schema-churn"]}
    comparison = compare([ran(broken, system="cassandra:5.0.9", **plan), ran(without, **plan)])
    assert states(comparison, "schema-churn") == ["broke", "held"]
    assert comparison.headline().startswith("Cassandra 5.0.9: 1 of 1 workload breaks;")


def test_an_anomaly_that_was_not_looked_for_is_not_said_to_be_absent(four: Comparison):
    assert [four.without(system) for system in four.systems] == ["held", "held", "unknown", "not run"]
    page = Page(render_comparison_html(four))
    row = page.words.split("Anomaly by anomaly")[1].split("Acknowledged rows are gone")[0]
    assert row.split("dangling-type")[1].split() == ["✕", "5", "✓", "not", "seen", "?", "not", "decided", "–"]


def test_the_page_links_to_the_reports_beside_it(four: Comparison):
    links = [attributes["href"] for attributes in Page(render_comparison_html(four)).all("a")]
    assert "./20261121T100211Z-drop-type-cassandra-5.0.9/report.html" in links


def test_the_page_loads_nothing(four: Comparison):
    text = render_comparison_html(four)
    page = Page(text)
    assert not {"link", "img", "iframe", "image"} & {tag for tag, _ in page.elements}
    assert [a for a in page.all("script") if a] == []
    assert len(text) < 150_000


def test_the_shortest_statements_of_each_broken_race_are_on_the_page(four: Comparison):
    words = Page(render_comparison_html(four)).words.split("Races that broke")[1]
    assert words.count("on Cassandra 5.0.9") == 2
    assert "CREATE TABLE sq_drop_type_000.x (k int, c frozen<u>, PRIMARY KEY (k));" in words
    assert "on Cassandra 6.0-alpha2" not in words


def test_markdown(four: Comparison, golden: Callable[[str, str], None]):
    golden("comparison.md", render_comparison_markdown(four))


def test_terminal_says_every_state_in_words(four: Comparison):
    console = Console(width=160, record=True, file=None, stderr=True, quiet=True)
    console.quiet = False
    with console.capture() as captured:
        print_comparison(four, console)
    text = captured.get()
    for words in (
        "✕ 5 of 6 broke",
        "✓ 0 of 6 broke",
        "? 0 of 6 broke, not decided",
        "– not applicable",
        "dangling-type 5",
    ):
        assert words in text


def test_terminal_markup_of_others_is_not_ours():
    run = replace(broken_run(), plan={**PLAN, "system": "cassandra:[red]x[/]"})
    console = Console(width=160, stderr=True)
    with console.capture() as captured:
        print_comparison(compare([ran(run)]), console)
    assert "[red]x[/]" in captured.get()


def test_json_has_a_cell_for_every_system(four: Comparison):
    document = four.to_json()
    assert [cell["state"] for cell in document["cells"] if cell["workload"] == "drop-type"] == [
        "broke",
        "held",
        "unknown",
        "not applicable",
    ]


def test_hostile_text_stays_text():
    hostile = hostile_run()
    comparison = compare([replace(ran(hostile), report=EVIL), refused(EVIL, applicable=True, why=EVIL)])
    page = Page(render_comparison_html(comparison, title=EVIL))
    assert len(page.scripts) == 1
    assert "img" not in {tag for tag, _ in page.elements}
    assert [a["href"] for a in page.all("a") if not re.match(r"(#|\./)", str(a["href"]))] == []
