"""Faults that did not happen make a run unknown, never invalid and never valid."""

from __future__ import annotations

from typing import Any

import orjson
import pyarrow as pa
import pytest

from schemaquake.checkers.run.faults import Faults
from schemaquake.harness.model.records import HISTORY, OBSERVATIONS, Records
from schemaquake.harness.model.verdict import Verdict


def judged(*notes: tuple[str, dict[str, Any]], invoked: tuple[str, ...] = ()) -> Verdict:
    rows = [
        {"index": i, "time": i, "process": -1, "type": kind, "f": f, "value": orjson.dumps(value).decode()}
        for i, (f, value) in enumerate(notes)
        for kind in ["invoke" if f in invoked else "info"]
    ]
    return Faults().check(Records.of(pa.Table.from_pylist(rows, schema=HISTORY)), limit_s=1)


def note(number: int = 0, **more: Any) -> dict[str, Any]:
    return {"id": number, "nemesis": "partition", "nodes": ["n1"], "parameters": {}, **more}


SEEN = (("fault-begins", note(0)), ("fault-ends", note(0)))


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


@pytest.mark.parametrize(
    ("replaced", "began"), [("n1", True), ("n2", True), ("n1", False)], ids=["its node", "another node", "never seen"]
)
def test_a_frozen_node_that_an_operation_ended_was_frozen_until_then(replaced, began):
    """Seed 1333 of simulated:cassandra-5.0 without flaws: n4 is replaced while it is paused."""
    operation = {
        "operation": 1,
        "nodes": [replaced, "n9"],
        "parameters": {},
        "becomes": {replaced: "replaced", "n9": "normal"},
    }
    verdict = judged(
        (
            "membership",
            {"at": "boot", "members": {name: {"state": "normal", "expected": "normal"} for name in ("n1", "n2")}},
        ),
        (
            "fault-begins",
            note(
                nemesis="pause", effect={"observed": began, "nodes": {"n1": {"before": "running", "after": "paused"}}}
            ),
        ),
        ("replace", operation),
        (
            "fault-ends",
            note(
                nemesis="pause", effect={"observed": False, "nodes": {"n1": {"before": "stopped", "after": "stopped"}}}
            ),
        ),
        (
            "membership",
            {
                "at": "heal",
                "members": {name: {"state": "left" if name == replaced else "normal"} for name in ("n1", "n2")},
            },
        ),
        invoked=("replace",),
    )
    assert verdict.valid == (True if replaced == "n1" and began else "unknown")


@pytest.mark.parametrize(
    ("removed", "stage", "after", "valid"),
    [
        ("n1", "heal", "stopped", True),
        ("n2", "heal", "stopped", "unknown"),
        ("n1", "inject", "stopped", "unknown"),
        ("n1", "heal", "running", "unknown"),
    ],
    ids=["its node", "another node", "not as it was healed", "its server ran"],
)
def test_a_stopped_server_that_an_operation_took_down_need_not_come_back(removed, stage, after, valid):
    """Seed 22820 of simulated:scylladb-6.2 without flaws: n3 is removed while it is started again after a stop."""
    operation = {"operation": 1, "nodes": [removed], "parameters": {}, "becomes": {removed: "left"}}
    members = {name: {"state": "normal", "expected": "normal"} for name in ("n1", "n2")}
    begun = {"observed": True, "nodes": {"n1": {"before": "running", "after": after}}}
    error = "HealError: bringing stopped servers back: n1: it ended while starting"
    verdict = judged(
        ("membership", {"at": "boot", "members": members}),
        ("fault-begins", note(nemesis="stop", effect=begun)),
        ("removenode", operation),
        ("fault-failed", note(nemesis="stop", stage=stage, error=error)),
        ("fault-ends", note(nemesis="stop", effect={"error": error})),
        ("membership", {"at": "heal", "members": {**members, removed: {"state": "left"}}}),
        invoked=("removenode",),
    )
    assert verdict.valid == valid


def test_a_fault_that_failed_leaves_the_run_unknown_and_says_why():
    verdict = judged(("fault-failed", note(stage="inject", error="HealError: iptables said no")))
    assert verdict.valid == "unknown"
    assert "iptables said no" in str(verdict.reason)


def test_a_fault_that_never_ended_leaves_the_run_unknown():
    assert judged(("fault-begins", note(effect={"observed": True}))).valid == "unknown"


def test_faults_that_were_planned_and_never_began_leave_the_run_unknown():
    assert judged(("faults-planned", {"count": 0})).valid is True
    assert judged(("faults-planned", {"count": 3})).valid == "unknown"
    assert judged(("faults-planned", {"count": 1}), *SEEN).valid is True


@pytest.mark.parametrize("planned", [{"count": 3}, {"count": 3, "ids": [0, 2, 3]}], ids=["of 0.1", "with ids"])
@pytest.mark.parametrize("missing", [(), ("begins",), ("skipped",), ("begins", "skipped")], ids=str)
def test_every_planned_fault_has_begun_failed_or_been_skipped(planned, missing):
    """Fault 1 is no planned one with ids: a workload asked for it."""
    traces = {
        "begins": (("fault-begins", note(2)), ("fault-ends", note(2))),
        "skipped": (("fault-skipped", note(3, reason="the main phase ended before its time came")),),
    }
    both = [one for name, notes in traces.items() if name not in missing for one in notes]
    verdict = judged(("faults-planned", planned), *SEEN, *both)
    assert verdict.valid == ("unknown" if missing else True)
    requested = (("fault-begins", note(1)), ("fault-ends", note(1)))
    if "ids" in planned:
        assert judged(("faults-planned", planned), *SEEN, *both, *requested).valid == verdict.valid


def test_a_nemesis_that_died_leaves_the_run_unknown_although_its_faults_so_far_ended():
    died = ("nemesis-died", {"nemesis": "kill", "error": "KeyError: 'n4'"})
    verdict = judged(("faults-planned", {"count": 1, "ids": [0]}), *SEEN, died)
    assert verdict.valid == "unknown"
    assert "KeyError" in str(verdict.reason)


def test_an_end_without_a_begin_leaves_the_run_unknown():
    assert judged(("fault-ends", note(0))).valid == "unknown"


def test_some_skipped_faults_do_not_matter_but_all_of_them_do():
    skipped = ("fault-skipped", note(1, reason="n1 is down"))
    assert judged(*SEEN, skipped).valid is True
    assert judged(skipped).valid == "unknown"


def test_a_fault_that_began_and_could_not_be_healed_is_one_fault():
    failed = ("fault-failed", note(0, stage="heal", error="no"))
    verdict = judged(("faults-planned", {"count": 1, "ids": [0]}), SEEN[0], failed, SEEN[1])
    assert len(verdict.doubts) == 1


def test_it_never_vouches_for_the_cluster():
    """A run whose faults all happened may still have nothing that was judged."""
    assert Faults().vouches is False


def operation(number: int) -> tuple[str, dict[str, Any]]:
    return "decommission", {"operation": number, "nodes": ["n3"], "becomes": {"n3": "left"}}


@pytest.mark.parametrize(
    ("planned", "begun", "skipped", "doubts"),
    [(3, 1, 2, 0), (3, 1, 1, 1), (3, 1, 0, 1), (3, 0, 3, 1), (5, 2, 1, 1), (5, 2, 3, 0)],
)
def test_every_planned_operation_on_the_topology_has_begun_or_been_skipped(planned, begun, skipped, doubts):
    notes = [("faults-planned", {"count": 0, "operations": planned})]
    notes += [operation(number) for number in range(begun)]
    notes += [("operation-skipped", {"nemesis": "decommission", "nodes": ["n3"], "reason": "no time"})] * skipped
    assert len(judged(*notes, invoked=("decommission",)).doubts) == doubts


@pytest.mark.parametrize(("ids", "doubts"), [({"ids": []}, 1), ({}, 0)], ids=["a note of today", "one of 0.1"])
def test_operations_that_nothing_planned_leave_the_run_unknown(ids, doubts):
    skipped = ("operation-skipped", {"nemesis": "decommission", "nodes": ["n3"], "reason": "no time"})
    for notes in ([operation(0)], [skipped], [operation(0), operation(1)]):
        planned = {"count": 0, **ids, **({"operations": 1} if len(notes) == 2 else {})}
        assert len(judged(("faults-planned", planned), *notes, invoked=("decommission",)).doubts) == doubts


@pytest.mark.parametrize("other", [{"nemesis": "clock"}, {"nodes": ["n2"]}, {"parameters": {"offsets": {"n1": 2.0}}}])
def test_a_fault_that_ended_as_another_one_than_it_began_leaves_the_run_unknown(other):
    clock = note(parameters={"offsets": {"n1": 1.0}})
    assert judged(("fault-begins", clock), ("fault-ends", clock)).valid is True
    verdict = judged(("fault-begins", clock), ("fault-ends", {**clock, **other}))
    assert [doubt.kind for doubt in verdict.doubts] == ["undecided"]


def test_an_end_that_does_not_say_whether_there_was_an_effect_leaves_the_run_unknown():
    begun = ("fault-begins", note(effect={"observed": True}))
    for effect in ({}, {"nodes": {}}, {"observed": None}):
        assert judged(begun, ("fault-ends", note(effect=effect))).valid == "unknown"
    assert judged(begun, ("fault-ends", note(effect={"healed": None}))).valid is True
    assert judged(SEEN[0], ("fault-ends", note(effect={"healed": None}))).valid == "unknown", "its begin says nothing"


def test_a_server_that_went_on_after_it_was_killed_leaves_the_run_unknown():
    kill = {"id": 0, "nemesis": "kill", "nodes": ["n1"], "parameters": {}}
    back = ("fault-ends", {**kill, "effect": {"observed": True, "nodes": {"n1": {"seconds": 1.0, "after": "running"}}}})
    for after, valid in (("stopped", True), ("running", "unknown")):
        down = {"observed": True, "nodes": {"n1": {"before": "running", "after": after}}}
        assert judged(("fault-begins", {**kill, "effect": down}), back).valid == valid


def test_a_plan_that_lists_other_than_as_many_faults_as_it_counts_leaves_the_run_unknown():
    assert judged(("faults-planned", {"count": 1, "ids": [0]}), *SEEN).valid is True
    assert judged(("faults-planned", {"count": 2, "ids": [0]}), *SEEN).valid == "unknown"
    assert judged(("faults-planned", {"count": 0, "ids": [0]}), *SEEN).valid == "unknown"


@pytest.mark.parametrize(
    "notes",
    [
        pytest.param([("faults-planned", {"count": 2, "ids": [0, 0]}), *SEEN], id="one fault planned twice"),
        pytest.param([("fault-ends", note(0)), ("fault-begins", note(0))], id="ended before it began"),
        pytest.param([("fault-begins", note(0)), ("fault-ends", note(0, effect="none"))], id="an effect that is no report"),
        pytest.param([("fault-begins", note(0)), ("fault-ends", note(0, effect=[]))], id="an empty report"),
    ],
)  # fmt: skip
def test_notes_of_faults_that_cannot_be_true_leave_the_run_unknown(notes: list[tuple[str, dict[str, Any]]]) -> None:
    assert judged(*notes).valid == "unknown"


def test_planned_faults_that_all_happened_are_no_doubt() -> None:
    assert judged(("faults-planned", {"count": 1, "ids": [0]}), *SEEN).valid is True


SECOND = 10**9
HELD = {
    "pause": ({"before": "running", "after": "paused"}, {"before": "paused", "after": "running"}),
    "kill": ({"before": "running", "after": "stopped"}, {"seconds": 4.0, "after": "running"}),
}


def held(
    nemesis: str,
    *more: dict[str, Any],
    answered: tuple[float, float] | None = None,
    read: float | None = None,
    **healed: Any,
) -> Verdict:
    """The verdict on a fault of n1 from 10 s to 40 s, an operation that it answered between two times (s), and a reading at another one."""
    fault = {"id": 0, "nemesis": nemesis, "nodes": ["n1"], "parameters": {}}
    before, after = HELD[nemesis]
    notes = [
        (5, "info", "faults-planned", {"count": 1, "ids": [0]}),
        (10, "info", "fault-begins", {**fault, "effect": {"observed": True, "nodes": {"n1": before}}}),
        (40, "info", "fault-ends", {**fault, "effect": {"observed": True, "nodes": {"n1": after}, **healed}}),
    ]
    rows = [
        {"time": round(at * SECOND), "process": -1, "type": kind, "f": f, "value": orjson.dumps(value).decode()}
        for at, kind, f, value in notes
    ]
    rows += [{"process": -1, "type": "info", **row} for row in more]
    for at, kind in zip(answered or (), ("invoke", "ok"), strict=False):
        rows.append({"time": round(at * SECOND), "process": 1, "type": kind, "f": "add", "node": "n1", "value": "1"})
    rows = [{"index": index, **row} for index, row in enumerate(sorted(rows, key=lambda row: row["time"]))]
    observed = {"phase": "running", "node": "n1", "sample": 1, "kind": "version", "id": "v", "definition": "{}"}
    readings = [] if read is None else [{**observed, "time": round(read * SECOND)}]
    tables = (pa.Table.from_pylist(rows, schema=HISTORY), pa.Table.from_pylist(readings, schema=OBSERVATIONS))
    return Faults().check(Records.of(*tables), limit_s=5)


@pytest.mark.parametrize("nemesis", HELD)
@pytest.mark.parametrize(
    ("answered", "read"),
    [((10.001, 10.002), None), ((30, 30.5), None), ((30, 30.999), None), (None, 11.001), (None, 30.999)],
)
def test_a_server_that_was_down_and_answered_leaves_the_run_unknown(nemesis, answered, read):
    verdict = held(nemesis, answered=answered, read=read)
    assert verdict.valid == "unknown"
    said = f"it answered op 2 at {answered[1]:.3f} s" if answered else f"it was read at {read:.3f} s"
    assert [doubt.text for doubt in verdict.doubts] == [f"{nemesis} (fault 0) held n1 10.000 s to 40.000 s, and {said}"]


@pytest.mark.parametrize(
    ("answered", "read"),
    [
        (None, None),
        ((9, 30), None),  # asked before
        ((10, 30), None),
        ((30, 31), None),  # perhaps while the server was being started
        (None, 11),
        (None, 31),
        (None, 9),
        ((41, 42), 43),
    ],
)
def test_a_server_that_answered_before_it_was_down_or_once_it_was_back_was_down(answered, read):
    assert held("kill", answered=answered, read=read).valid is True


def test_a_frozen_server_needs_no_time_to_start():
    assert held("pause", answered=(34, 34.999)).valid == "unknown"
    assert held("pause", answered=(34, 35)).valid is True


@pytest.mark.parametrize(
    "more",
    [
        {"f": "fault-begins", "value": '{"id": 1, "nemesis": "pause", "nodes": ["n1"]}'},
        {"f": "fault-begins", "value": '{"id": 1, "nemesis": "rolling-restart", "nodes": ["n1"]}'},
        {"f": "node-start", "node": "n1", "value": '{"phase": "fault", "served": true}'},
        {"f": "compact", "type": "invoke", "value": '{"operation": 1, "nodes": ["n1"], "becomes": {}}'},
        {"f": "compact", "type": "invoke", "value": '{"operation": 1, "nodes": [], "becomes": {}}'},
    ],
    ids=["another fault", "a round of restarts", "a start", "an operation", "an operation of no node"],
)
def test_a_server_that_something_else_may_have_brought_back_may_answer(more):
    assert not any(
        "held" in doubt.text for doubt in held("kill", {"time": 20 * SECOND, **more}, answered=(30, 30.5)).doubts
    )
    if "n1" in more["value"]:
        other = {**more, "value": more["value"].replace("n1", "n2")}
        assert any(
            "held" in doubt.text for doubt in held("kill", {"time": 20 * SECOND, **other}, answered=(30, 30.5)).doubts
        )


def test_a_server_may_answer_from_then_on_alone():
    operation = {"f": "move", "type": "invoke", "value": '{"operation": 1, "nodes": ["n1"], "becomes": {}}'}
    fault = {"f": "fault-begins", "value": '{"id": 1, "nemesis": "pause", "nodes": ["n1"]}'}
    for more in (operation, fault):
        later = {"time": 20 * SECOND, **more}
        for answered, held_on in (((15, 15.5), True), ((15, 19.999), True), ((15, 20), False), ((21, 22), False)):
            doubts = held("kill", later, answered=answered).doubts
            assert any("held" in doubt.text for doubt in doubts) is held_on
        earlier = held("kill", {**later, "time": 9 * SECOND}, answered=(15, 15.5)).doubts
        assert not any("held" in doubt.text for doubt in earlier)


def test_a_fault_that_a_guard_had_undone_held_nobody():
    assert held("pause", answered=(30, 30.5), expired={"n1": "timer"}).valid is True
