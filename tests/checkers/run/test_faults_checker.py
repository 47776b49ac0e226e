"""Faults that did not happen make a run unknown, never invalid and never valid."""

from __future__ import annotations

from typing import Any

import orjson
import pyarrow as pa

from schemaquake.checkers.run.faults import Faults
from schemaquake.harness.model.records import HISTORY, Records
from schemaquake.harness.model.verdict import Verdict


def judged(*notes: tuple[str, dict[str, Any]]) -> Verdict:
    rows = [
        {"index": i, "time": i, "process": -1, "type": "info", "f": f, "value": orjson.dumps(value).decode()}
        for i, (f, value) in enumerate(notes)
    ]
    return Faults().check(Records.of(pa.Table.from_pylist(rows, schema=HISTORY)), limit_s=1)


def note(number: int = 0, **more: Any) -> dict[str, Any]:
    return {"id": number, "nemesis": "partition", "nodes": ["n1"], "parameters": {}, **more}


def test_a_run_without_faults_has_nothing_to_doubt():
    assert judged().valid is True


def test_a_fault_that_was_seen_and_undone_is_a_fault():
    verdict = judged(("fault-begins", note(effect={"observed": True})), ("fault-ends", note(effect={"observed": True})))
    assert verdict.valid is True
    assert verdict.figures == {"fault-begins": 1, "fault-ends": 1}


def test_a_partition_that_dropped_no_packet_leaves_the_run_unknown():
    verdict = judged(
        ("fault-begins", note(effect={"observed": True})), ("fault-ends", note(effect={"observed": False}))
    )
    assert verdict.valid == "unknown"
    assert [doubt.kind for doubt in verdict.doubts] == ["undecided"]


def test_a_fault_that_failed_leaves_the_run_unknown_and_says_why():
    verdict = judged(("fault-failed", note(stage="inject", error="HealError: iptables said no")))
    assert verdict.valid == "unknown"
    assert "iptables said no" in str(verdict.reason)


def test_a_fault_that_never_ended_leaves_the_run_unknown():
    assert judged(("fault-begins", note(effect={"observed": True}))).valid == "unknown"


def test_faults_that_were_planned_and_never_began_leave_the_run_unknown():
    assert judged(("faults-planned", {"count": 0})).valid is True
    assert judged(("faults-planned", {"count": 3})).valid == "unknown"
    seen = (("fault-begins", note(0)), ("fault-ends", note(0)))
    assert judged(("faults-planned", {"count": 3}), *seen).valid is True


def test_some_skipped_faults_do_not_matter_but_all_of_them_do():
    skipped = ("fault-skipped", note(1, reason="n1 is down"))
    seen = (("fault-begins", note(0)), ("fault-ends", note(0)))
    assert judged(*seen, skipped).valid is True
    assert judged(skipped).valid == "unknown"
