"""Recipe: the statements that met, and those that had to come before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pyarrow as pa
from synthetic_run import PLAN, broken_run

from schemaquake.harness.ddl.schema_changes import add_column, create_keyspace, create_table, drop_table
from schemaquake.harness.history.pairing import OPERATIONS
from schemaquake.harness.model.steps import Invoke
from schemaquake.harness.model.verdict import Anomaly, Verdict
from schemaquake.results.report.findings import report_findings
from schemaquake.results.report.markdown import render_report_markdown
from schemaquake.results.report.material import Material
from schemaquake.results.report.recipe import Recipe, recipe_of
from schemaquake.results.report.ticket import render_ticket
from schemaquake.results.tables.races import RACES
from schemaquake.results.tables.statements import read_statements

TABLE = create_table("k", "t", columns=[("a", "int", "partition_key")])


def asked(*operations: tuple[str, Invoke, float, float | None, str], **changes: Any) -> Material:
    """A run of (node, what, invoked s, completed s, outcome)."""
    rows = [
        {
            "index": number, "completion": None, "process": int(node[1:]), "type": outcome, "f": what.f, "node": node,
            "key": what.key, "invoked": int(begun * 1e9), "completed": None if ended is None else int(ended * 1e9),
            "argument": orjson.dumps(what.value).decode(), "value": None, "error": None, "mops": None,
        }
        for number, (node, what, begun, ended, outcome) in enumerate(operations)
    ]  # fmt: skip
    table = pa.Table.from_pylist(rows, schema=OPERATIONS)
    return Material(run="r", plan=PLAN, verdict=Verdict(valid=True, checker="all"), operations=table, **changes)


def told(recipe: Recipe | None) -> tuple[list[str], dict[str, list[str]]]:
    assert recipe is not None
    sides = {side.node: [one.text for one in side.statements] for side in recipe.sides}
    return [one.text for one in recipe.before], sides


BASE = (("n1", create_keyspace("k", replication_factor=3), 0.0, 0.1, "ok"), ("n1", TABLE, 0.2, 0.3, "ok"))
DROP, ALTER = drop_table("k", "t"), add_column("k", "t", "c", "int")
KEYSPACE = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}"
CREATE = "CREATE TABLE k.t (a int, PRIMARY KEY (a))"


def test_overlapping_changes_of_two_coordinators_are_the_race():
    material = asked(*BASE, ("n1", DROP, 1.0, 1.2, "ok"), ("n2", ALTER, 1.1, 1.3, "ok"))
    before, sides = told(recipe_of(material, "k"))
    assert before == [KEYSPACE, CREATE]
    assert sides == {"n1": ["DROP TABLE k.t"], "n2": ["ALTER TABLE k.t ADD c int"]}


def test_an_info_overlaps_with_everything_after_it():
    material = asked(*BASE, ("n1", DROP, 1.0, None, "info"), ("n2", ALTER, 5.0, 5.1, "ok"))
    assert told(recipe_of(material, "k"))[1].keys() == {"n1", "n2"}


def test_a_setup_statement_that_failed_is_not_repeated():
    material = asked(
        BASE[0],
        ("n1", TABLE, 0.1, 0.15, "fail"),
        *BASE[1:],
        ("n1", DROP, 1.0, 1.2, "ok"),
        ("n2", ALTER, 1.1, 1.3, "ok"),
    )
    assert told(recipe_of(material, "k"))[0] == [KEYSPACE, CREATE]


def test_sides_of_the_races_note_are_the_race_even_if_they_did_not_overlap():
    row = {
        "keyspace": "k", "workload": "drop-alter", "number": 0, "mode": "barrier", "broken": True, "anomalies": [],
        "sides": [["DROP TABLE k.t"], ["ALTER TABLE k.t ADD c int"]], "ok": 2, "fail": 0, "info": 0,
    }  # fmt: skip
    material = asked(
        *BASE,
        ("n1", DROP, 1.0, 1.2, "ok"),
        ("n2", ALTER, 1.3, 1.4, "ok"),
        races=pa.Table.from_pylist([row], schema=RACES),
    )
    assert told(recipe_of(material, "k")) == (
        [KEYSPACE, CREATE],
        {"n1": ["DROP TABLE k.t"], "n2": ["ALTER TABLE k.t ADD c int"]},
    )


def test_a_keyspace_that_nobody_changed_has_no_recipe():
    assert recipe_of(asked(*BASE), "other") is None


def test_the_two_sides_of_a_cut_are_said_to_be_cut():
    run = broken_run()
    parted = replace(run, plan={**PLAN, "mode": "partition"})
    recipe = recipe_of(parted, "sq_drop_type_000")
    assert recipe is not None
    assert recipe.manner == "while the network between n1 and n2 is cut, and then heal it"


def test_sides_come_in_the_order_in_which_they_began():
    recipe = recipe_of(broken_run(), "sq_drop_type_002")  # n3 drops, n1 creates
    assert recipe is not None
    assert [side.heading() for side in recipe.sides] == ["n3", "n1, 1.4 ms later"]


def test_a_side_of_several_statements_begins_with_its_first():
    material = asked(
        *BASE, ("n1", DROP, 1.0, 1.2, "ok"), ("n2", ALTER, 1.1, 30.0, "ok"), ("n1", TABLE, 20.0, 21.0, "ok")
    )
    recipe = recipe_of(material, "k")
    assert recipe is not None
    assert [side.heading() for side in recipe.sides] == ["n1", "n2, 100.0 ms later"]


def test_faults_in_place_are_part_of_the_recipe():
    recipe = recipe_of(broken_run(), "sq_create_table_000")
    assert recipe is not None
    assert recipe.manner == "at the same moment, each through the node named, under packet-loss on n2"


def test_without_a_race_the_named_changes_and_what_they_need_are_the_recipe():
    other = create_table("k", "unrelated", columns=[("a", "int", "partition_key")])
    material = asked(
        *BASE,
        ("n1", other, 0.4, 0.5, "ok"),
        ("n1", add_column("k", "t", "b", "int"), 0.6, 0.7, "ok"),
        ("n2", ALTER, 1.0, 1.1, "ok"),
        ("n3", add_column("k", "t", "d", "int"), 2.0, 2.1, "ok"),
        ("n1", DROP, 3.0, 3.2, "ok"),
        ("n2", other, 3.1, 3.3, "ok"),
    )
    recipe = recipe_of(material, "k", Anomaly(type="lost-column", title="t", objects=("k.t",), ops=(4, 5)))
    assert told(recipe) == (
        [KEYSPACE, CREATE],
        {"n2": ["ALTER TABLE k.t ADD c int"], "n3": ["ALTER TABLE k.t ADD d int"]},
    )
    assert recipe is not None
    assert recipe.manner == "in order of the times given, each through the node named"


def test_writes_that_were_lost_are_quoted_behind_the_race():
    run = broken_run()
    lost = next(finding for finding in report_findings(run) if finding.types[0] == "lost-rows")
    _, sides = told(lost.recipe)
    assert sides["n1"][-1].startswith("INSERT INTO sq_create_table_000.t")
    assert len(sides["n3"]) == 1


def test_without_a_restart_none_is_asked_for():
    run = replace(broken_run(), plan={**PLAN, "restart": "none"})
    recipe = recipe_of(run, "sq_drop_type_000")
    assert recipe is not None
    assert "kill" not in recipe.afterwards


def test_an_operation_without_words_is_given_by_name():
    odd = pa.Table.from_pylist(
        [
            {
                "index": 0, "completion": 1, "process": 0, "type": "ok", "f": "txn", "node": None, "key": "k",
                "invoked": 0, "completed": 1, "argument": "[1,2]", "value": None, "error": None, "mops": None,
            }
        ],
        schema=OPERATIONS,
    )  # fmt: skip
    (one,) = read_statements(odd)
    assert (one.text, one.node) == ("txn k", "-")


def test_statements_of_a_keyspace_are_those_of_no_other():
    keys = {one.key for one in read_statements(broken_run().operations, keyspaces=["sq_drop_type_001"])}
    assert keys == {"sq_drop_type_001", "sq_drop_type_001.u", "sq_drop_type_001.x"}


def test_a_reproducer_counts_the_races_that_had_its_very_statements():
    run = broken_run()
    rows = run.races.to_pylist()
    (same, *_) = [row for row in rows if row["workload"] == "create-table"]
    for row in rows:
        if row["workload"] == "create-table" and row is not same:
            row["sides"] = [["CREATE TABLE other (a int, PRIMARY KEY (a))"], *row["sides"][1:]]
    varied = replace(run, races=pa.Table.from_pylist(rows, schema=RACES))
    by_type = {finding.types[0]: finding for finding in report_findings(varied)}
    finding = by_type["lost-rows"]
    assert len(finding.races) > 1
    assert finding.reproducer is not None
    assert (finding.reproducer.rate.broken, finding.reproducer.rate.tried) == (1, 1)
    assert not finding.reproducer.shrunk


def test_a_shrunk_scenario_is_the_reproducer_with_its_own_rate():
    run = broken_run()
    (first, *_) = report_findings(run)
    shrunk = {
        "anomaly": first.types[0],
        "broken": 3,
        "tried": 4,
        "scenario": {"races": [{"keyspace": first.races[0].keyspace}]},
    }
    (again, other, *_) = report_findings(replace(run, shrunk=shrunk))
    assert again.reproducer is not None
    assert (again.reproducer.shrunk, again.reproducer.rate.broken, again.reproducer.rate.tried) == (True, 3, 4)
    assert other.reproducer is not None
    assert not other.reproducer.shrunk


def test_statements_of_a_longer_history_are_involved_and_no_reproducer():
    material = asked(*BASE, ("n1", DROP, 1.0, 1.2, "ok"), ("n2", ALTER, 1.1, 1.3, "ok"))
    lost = Anomaly(type="lost-column", title="t", objects=("k.t",), ops=(2, 3))
    verdict = Verdict(valid=False, checker="all", anomalies=(lost,))
    (finding,) = report_findings(replace(material, verdict=verdict))
    assert finding.reproducer is None
    assert finding.recipe is not None
    assert not finding.recipe.raced
    text = render_report_markdown(replace(material, verdict=verdict))
    assert "Statements involved; nobody has run just these:" in text
    assert "Reproducer" not in text
    assert "never run alone" in render_ticket(material, finding)


def test_a_ticket_has_steps_frequency_and_asks_about_known_tickets():
    run = broken_run()
    (first, *_) = report_findings(run)
    text = render_ticket(run, first)
    assert text.startswith(
        r"**\[Cassandra 5.0.9\] A node does not start any more: DROP TYPE A meets CREATE TABLE B with type A**"
    )
    for part in ("### Steps", "DROP TYPE sq_drop_type_000.u;", "5 of 5 races", "### Reported before?", "SQ-E3ZATWYL"):
        assert part in text


def test_a_ticket_of_a_finding_without_statements_says_its_symptom_once():
    run = broken_run()
    gone = Anomaly(type="schema-disagreement", title="t", nodes=("n1", "n2"))
    run = replace(run, verdict=Verdict(valid=False, checker="all", anomalies=(gone,)))
    (finding,) = report_findings(run)
    summary = render_ticket(run, finding).partition("\n")[0]
    assert summary == r"**\[Cassandra 5.0.9\] Schema versions differ for good**"
