"""The rows model of 5.0 breaks as 5.0.9 does (docs/bugs.md), and is silent where nothing races."""

from __future__ import annotations

import orjson
import pytest
from simulated_runs import simulate

from schemaquake.clusters.simulated.disk import TableFiles


def test_a_type_dropped_while_another_begins_to_use_it_dangles_and_no_node_starts(tmp_path):
    run = simulate(tmp_path, "drop-type", seed=7, options={"races": "3"})
    assert {"dangling-type", "schema-disagreement", "node-will-not-start"} <= run.types.keys()
    first_errors = [start["first_error"] for start in run.notes("node-start") if not start["served"]]
    assert len(first_errors) == 3
    assert all("Unknown type sq_drop_type_000.u" in error for error in first_errors)


@pytest.mark.parametrize(
    ("workload", "anomaly"),
    [
        ("create-table", "lost-rows"),
        ("drop-alter", "headless-table"),
        pytest.param("drop-function", "dangling-function", marks=pytest.mark.long),
        pytest.param("drop-table-view", "orphan-view", marks=pytest.mark.long),
        pytest.param("drop-keyspace", "resurrected-object", marks=pytest.mark.long),
        pytest.param("alter-options", "lost-option", marks=pytest.mark.long),
        pytest.param("alter-type", "lost-field", marks=pytest.mark.long),
        pytest.param("create-index", "dangling-index-target", marks=pytest.mark.long),
    ],
)
def test_races_across_a_cut_give_the_anomaly_of_the_real_server(tmp_path, workload, anomaly):
    run = simulate(tmp_path, workload, seed=3, options={"mode": "partition", "races": "4"})
    assert anomaly in run.types


def test_the_same_statements_one_after_another_break_nothing(tmp_path):
    run = simulate(tmp_path, "racing-ddl", seed=3, options={"mode": "single", "races": "1"})
    assert (run.verdict.valid, dict(run.types)) == (True, {})


@pytest.mark.parametrize(
    "nemesis",
    [
        "partition",
        "rolling-restart",
        *(pytest.param(name, marks=pytest.mark.long) for name in ("kill", "pause", "packet-loss")),
    ],
)
def test_quorums_hold_under_every_fault(tmp_path, nemesis):
    run = simulate(tmp_path, "quorum", nemesis, seed=4, rate=20, time_limit_s=40)
    assert dict(run.types) == {}
    assert run.notes("fault-begins")


def test_steps_are_counted_with_the_faults_around_them(tmp_path):
    run = simulate(tmp_path, "schema-churn", "partition", "kill", seed=2, rate=20, time_limit_s=40)
    passages = {(step, faults) for step, _, faults, _ in run.books["passages"]}
    assert {("4.0/apply/e5", ""), ("4.0/apply/e5", "cut"), ("4.0/merge/p2", ""), ("4.0/boot/b1", "")} <= passages
    assert sum(count for *_, count in run.books["passages"]) > 100


@pytest.mark.parametrize(
    ("bugs", "expected"), [({}, {"unreadable-table": 1}), ({"bugs": "-write-meets-drop"}, {}), ({"bugs": "none"}, {})]
)
def test_rows_newer_than_the_drop_of_a_column_cannot_be_read(tmp_path, bugs, expected):
    """The finding on 5.0.9: ALTER TABLE … DROP … USING TIMESTAMP, beside a statement about something else."""
    options = {"cells": "drop-column-using-timestamp/create-type/keyspace", "races": "1"}
    run = simulate(tmp_path, "grid", options=options | bugs)
    assert dict(run.types) == expected


def test_a_view_and_an_index_list_the_rows_of_their_table(tmp_path):
    options = {"cells": "create-view/create-index/siblings-column", "races": "1", "bugs": "none"}
    run = simulate(tmp_path, "grid", options=options)
    assert run.verdict.valid is True
    lines = [line for path in (tmp_path / "journals").glob("*.jsonl") for line in path.read_bytes().splitlines()]
    reads = [each for each in map(orjson.loads, lines) if each.get("f") == "read-rows" and each["type"] == "ok"]
    values = [orjson.loads(each["value"]) for each in reads]
    for through in ("index", "base"):
        found = [value["rows"] for value in values if value.get(through)]
        assert found
        assert all(found)


@pytest.mark.parametrize("values", [(9, 10), (10, 9), (10, None), (None, 10), ("a", "b")])
def test_of_two_values_written_at_one_time_the_greater_one_stays_and_a_deletion_before_it(values):
    files = TableFiles("k", "t", "1")
    for value in values:
        files.write(((1,), ()), {"v": (7, value)})
    kept = files.partitions[1,][(1,), ()]["v"][1]
    assert kept == (None if None in values else max(values))
