"""Chronicle: the conductor's and the nemesis' notes, read back."""

from __future__ import annotations

from typing import Any

import orjson
import pyarrow as pa
from synthetic_run import broken_run

from schemaquake.harness.model.records import HISTORY
from schemaquake.results.tables.chronicle import Chronicle, chronicle_of


def noted(*notes: tuple[float, str, str | None, Any]) -> Chronicle:
    """A chronicle of (seconds, f, node, value)."""
    rows = [
        {
            "index": index, "time": int(at * 1e9), "process": -1, "type": "info", "f": f, "node": node, "key": None,
            "value": None if value is None else orjson.dumps(value).decode(), "error": None, "mops": None,
        }
        for index, (at, f, node, value) in enumerate(notes)
    ]  # fmt: skip
    return chronicle_of(pa.Table.from_pylist(rows, schema=HISTORY))


def phase(name: str, state: str) -> dict[str, str]:
    return {"phase": name, "state": state}


FAULT = {"id": 3, "nemesis": "partition", "nodes": ["n1", "n2"], "parameters": {}}


def test_a_phase_lasts_from_its_beginning_to_its_end():
    (main,) = noted((1, "phase", None, phase("main", "begins")), (4.5, "phase", None, phase("main", "ends"))).phases
    assert (main.name, main.begins, main.ends, main.seconds) == ("main", 1_000_000_000, 4_500_000_000, 3.5)


def test_a_phase_that_never_ended_lasts_to_the_last_event():
    (main,) = noted((1, "phase", None, phase("main", "begins")), (9, "note", None, None)).phases
    assert main.ends == 9_000_000_000


def test_settling_is_said_of_its_phase():
    settle = {"phase": "settled", "agreed": False, "seconds": 20.0, "versions": {"n1": "a", "n2": "b", "n3": "b"}}
    chronicle = noted(
        (1, "phase", None, phase("settle-settled", "begins")),
        (21, "settle", None, settle),
        (21, "phase", None, phase("settle-settled", "ends")),
    )
    assert chronicle.phases[0].note == "schema versions still differed after 20.0 s (2 versions)"
    found = chronicle.settling("settled")
    assert found is not None
    assert not found.agreed


def test_a_phase_that_ended_before_its_steps_says_why():
    early = {
        "phase": "main",
        "because": "create-table of sq_canary.t_3 through n2 was not done",
        "key": "sq_canary.t_3",
    }
    chronicle = noted(
        (1, "phase", None, phase("main", "begins")),
        (2, "phase-ended-early", "n2", early),
        (2, "phase-ended-early", "n3", early | {"because": "it was the second to say so"}),
        (3, "phase", None, phase("main", "ends")),
        (4, "phase", None, phase("final-settled", "begins")),
        (5, "phase-cut-short", None, {"phase": "final-settled"}),
    )
    assert chronicle.ended_early == {"main": early["because"]}
    assert [one.note for one in chronicle.phases] == [
        "ended early: create-table of sq_canary.t_3 through n2 was not done",
        "cut short: the cluster answered too slowly",
    ]


def test_a_fault_ends_when_the_fault_of_its_number_ends():
    other = {**FAULT, "id": 4, "nemesis": "kill"}
    chronicle = noted(
        (1, "fault-begins", None, FAULT), (2, "fault-begins", None, other), (3, "fault-ends", None, FAULT)
    )
    assert [(one.nemesis, one.begins, one.ends) for one in chronicle.faults] == [
        ("partition", 1_000_000_000, 3_000_000_000),
        ("kill", 2_000_000_000, None),
    ]
    assert chronicle.faults[0].title() == "partition on n1 and n2, 2.0 s"
    assert "not healed" in chronicle.faults[1].title()


def test_a_fault_that_could_not_be_injected_is_told_with_its_error():
    failed = {**FAULT, "stage": "inject", "error": "ClusterError: no iptables"}
    (one,) = noted((1, "fault-failed", None, failed)).faults
    assert one.begins == one.ends
    assert "failed: ClusterError: no iptables" in one.title()


def test_a_skipped_fault_is_no_fault():
    assert noted((1, "fault-skipped", None, {**FAULT, "reason": "n1 is down"})).faults == ()


def test_a_node_is_lost_only_if_its_last_start_failed():
    def start(*, served: bool) -> dict[str, Any]:
        return {"phase": "restart", "served": served, "seconds": 2.0, "exit_code": None, "first_error": None}

    chronicle = noted(
        (5, "node-start", "n1", start(served=False)),
        (9, "node-start", "n1", start(served=True)),
        (9, "node-start", "n2", start(served=True)),
        (12, "node-start", "n2", start(served=False)),
    )
    assert list(chronicle.never_back()) == ["n2"]
    assert chronicle.never_back()["n2"].begins == 10_000_000_000


def test_somebody_elses_history_has_an_empty_chronicle():
    assert noted((1, "start", None, None), (2, "kill", None, ["n1"]), (3, "phase", None, "main")) == Chronicle()


def test_a_whole_run():
    chronicle = broken_run().chronicle
    assert [one.name for one in chronicle.phases] == [
        "boot", "setup", "prepare", "main", "heal", "settle-settled", "final-settled", "restart", "settle-restarted",
        "final-restarted",
    ]  # fmt: skip
    assert sorted(chronicle.never_back()) == ["n1", "n2"]
    assert [one.boot.node for one in chronicle.restarts()] == ["n1", "n2", "n3"]
