"""A real node is decommissioned while rows are written: recorded, followed, and not called dead."""

from __future__ import annotations

from pathlib import Path

import decommission
import plugins
import pytest
from real_runs import Runner

from schemaquake.checkers.run.restart import Restart
from schemaquake.harness.faults.ledger import FILE_NAME, read_ledger
from schemaquake.harness.history.journal import EVENT_JOURNALS, read_clock
from schemaquake.harness.history.merge import merge_history, merge_observations
from schemaquake.harness.model.records import Records, plain

pytestmark = [pytest.mark.cluster, pytest.mark.long]


@pytest.fixture
def decommissions(tmp_path):
    found = plugins.distribution(tmp_path / "plugin", decommission.ENTRY_POINTS, name="decommission")
    with plugins.on_path(found, Path(decommission.__file__).parent):
        yield


def test_a_decommissioned_node_leaves_the_run_and_is_not_called_dead(prepared, decommissions):
    folder = prepared(nodes=4, nemeses=("decommission-one",), time_limit_s=20, replication_factor=3, rate=5)
    runner = Runner(folder)
    try:
        assert runner.said(limit_s=500) == "True None"
    finally:
        runner.end()
    journals = folder / "journals"
    history = merge_history(sorted(journals.glob(EVENT_JOURNALS)), read_clock(journals))
    events = plain(history).to_pylist()
    ends = [(e["type"], e["node"], e["error"]) for e in events if e["f"] == "decommission-one"]
    assert ends == [("invoke", "n4", None), ("ok", "n4", None)]
    operations = [entry.state for entry in read_ledger(folder / FILE_NAME) if entry.kind == "operation"]
    assert operations == ["planned", "begun", "ok"]
    assert [e["node"] for e in events if e["f"] == "node-start"].count("n4") == 1
    last = [e["value"] for e in events if e["f"] == "membership"][-1]
    assert '"n4":{"state":"left"' in last
    observations = merge_observations(sorted(journals.glob("observations-*.jsonl")), read_clock(journals))
    final = {(row["phase"], row["node"]) for row in plain(observations).to_pylist() if row["phase"] != "running"}
    assert final == {(phase, node) for phase in ("settled", "restarted") for node in ("n1", "n2", "n3")}
    verdict = Restart().check(Records.of(history, observations), limit_s=10)
    assert (verdict.valid, verdict.doubts) == (True, ())
