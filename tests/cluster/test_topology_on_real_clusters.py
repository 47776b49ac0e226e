"""Real nodes join, leave, move and are replaced while rows are written: each an operation, and every node says the same."""

from __future__ import annotations

import orjson
import pytest
from real_runs import Runner

from schemaquake.checkers.run.faults import Faults
from schemaquake.checkers.run.restart import Restart
from schemaquake.checkers.topology.membership import Membership
from schemaquake.checkers.topology.metadata_log import MetadataLog
from schemaquake.harness.faults.ledger import FILE_NAME, read_ledger
from schemaquake.harness.history.journal import EVENT_JOURNALS, read_clock
from schemaquake.harness.history.merge import merge_history, merge_observations
from schemaquake.harness.model.records import Records, plain

pytestmark = pytest.mark.cluster

LATEST = "cassandra:6.0-alpha2"
ALL = ("n1", "n2", "n3", "n4")


def conducted(folder):
    """Carry the prepared run out, and return its records, and its history as rows."""
    runner = Runner(folder)
    try:
        assert runner.said(limit_s=900) == "True None"
    finally:
        runner.end()
    journals = folder / "journals"
    history = merge_history(sorted(journals.glob(EVENT_JOURNALS)), read_clock(journals))
    observations = merge_observations(sorted(journals.glob("observations-*.jsonl")), read_clock(journals))
    return Records.of(history, observations), plain(history).to_pylist()


def ends(events, kind):
    return [(event["type"], event["error"]) for event in events if event["f"] == kind]


def last_states(events):
    (*_, last) = [orjson.loads(event["value"]) for event in events if event["f"] == "membership"]
    return {name: member["expected"] for name, member in last["members"].items()}


def assert_all_say_the_same(records):
    for checker in (Membership(), Faults()):
        verdict = checker.check(records, limit_s=10)
        assert (verdict.valid, verdict.anomalies, verdict.doubts) == (True, (), ())


def test_a_spare_joins_a_real_cluster_and_is_read_in_the_end(prepared):
    options = {"bootstrap.begins_s": "1", "property.cassandra.ring_delay_ms": "2000"}
    folder = prepared(
        nodes=1, spares=1, nemeses=("bootstrap",), time_limit_s=4, rate=5, restart="none", options=options
    )
    records, events = conducted(folder)
    assert ends(events, "bootstrap") == [("invoke", None), ("ok", None)]
    assert [e.state for e in read_ledger(folder / FILE_NAME) if e.kind == "operation"] == ["planned", "begun", "ok"]
    assert last_states(events) == {"n1": "normal", "n2": "normal"}
    rows = [row for row in plain(records.observations).to_pylist() if row["kind"] == "ring"]
    assert {row["node"]: len(orjson.loads(row["definition"])["peers"]) for row in rows} == {"n1": 1, "n2": 1}
    assert_all_say_the_same(records)


@pytest.mark.long
@pytest.mark.parametrize("system", ["cassandra:5.0.9", LATEST])
@pytest.mark.parametrize(
    ("kind", "nodes", "spares", "options", "left"),
    [
        ("bootstrap", 3, 1, {}, ALL),
        ("decommission", 4, 0, {"decommission.node": "n4"}, ALL[:3]),
        ("removenode", 4, 0, {"removenode.node": "n4"}, ALL[:3]),
        ("assassinate", 4, 0, {"assassinate.node": "n4"}, ALL[:3]),
        ("replace", 3, 1, {"replace.node": "n3", "replace.address": "new"}, ("n1", "n2", "n4")),
        ("replace", 3, 0, {"replace.node": "n3", "replace.address": "same"}, ALL[:3]),
        ("move", 3, 0, {"move.node": "n3"}, ALL[:3]),
    ],
)
def test_a_healthy_operation_is_ok_and_every_node_says_so(prepared, system, kind, nodes, spares, options, left):
    options = {f"{kind}.begins_s": "2", **options}
    folder = prepared(
        system=system, nodes=nodes, spares=spares, nemeses=(kind,), time_limit_s=20, rate=5, options=options
    )
    records, events = conducted(folder)
    assert ends(events, kind) == [("invoke", None), ("ok", None)]
    assert tuple(name for name, state in last_states(events).items() if state == "normal") == left
    final = {row["node"] for row in plain(records.observations).to_pylist() if row["phase"] == "restarted"}
    assert final == set(left)
    assert_all_say_the_same(records)
    restarts = Restart().check(records, limit_s=10)
    assert (restarts.valid, restarts.doubts) == (True, ())
    log = MetadataLog().check(records, limit_s=10)
    assert (log.valid, log.anomalies) == (True if system == LATEST else "unknown", ())


@pytest.mark.long
@pytest.mark.parametrize("system", ["cassandra:5.0.9", LATEST])
def test_a_decommission_that_would_leave_too_few_replicas_is_refused_and_changes_nothing(prepared, system):
    folder = prepared(system=system, nodes=3, nemeses=("decommission",), time_limit_s=15, rate=5)
    records, events = conducted(folder)
    assert [outcome for outcome, _ in ends(events, "decommission")] == ["invoke", "fail"]
    assert set(last_states(events).values()) == {"normal"}
    assert_all_say_the_same(records)
