"""Checkers and membership: a node that left is not accused, and one that should serve is."""

from __future__ import annotations

import orjson
import pytest
from histories import judged

from schemaquake.checkers.evidence.notes import Notes
from schemaquake.checkers.rows.serving import find_nodes_without_service
from schemaquake.checkers.run.availability import Availability
from schemaquake.checkers.run.faults import Faults
from schemaquake.checkers.run.restart import Restart

S = 1_000_000_000
NODES = ("n1", "n2", "n3")


def note(at, f, value, *, node="--", kind="info"):
    return f"@{at} -- {node} {kind} {f} {orjson.dumps(value).decode()}".replace("-- -- ", "-- ")


def members(at, when="boot", **states):
    shown = {node: {"state": states.get(node, "normal"), "expected": states.get(node, "normal")} for node in NODES}
    return note(at, "membership", {"at": when, "members": shown})


def start(at, node, phase, *, served=True):
    value = {"phase": phase, "served": served, "seconds": 1, "exit_code": None if served else 3, "first_error": None}
    return note(at, "node-start", value, node=node)


def leaving(outcome):
    value = {"operation": 0, "nodes": ["n3"], "parameters": {}, "becomes": {"n3": "left"}}
    pair = [note(2000, "decommission", value, node="n3", kind="invoke")]
    return pair if outcome is None else [*pair, note(3000, "decommission", value, node="n3", kind=outcome)]


def run(outcome, *more, shown="normal", restarted=("n1", "n2")):
    """n3 is asked to leave at 2 s, with this outcome at 3 s, and is shown in this state in the end."""
    return judged(
        (
            members(0),
            *(start(1, node, "boot") for node in NODES),
            *leaving(outcome),
            *more,
            note(5000, "phase", {"phase": "final-settled", "state": "begins"}),
            note(6000, "phase", {"phase": "restart", "state": "begins"}),
            *(start(6001, node, "restart") for node in restarted),
            note(7000, "phase", {"phase": "final-restarted", "state": "begins"}),
            members(8000, "restart", n3=shown),
        )
    )


DIED = note(4000, "node-died", {"exit_code": 3, "first_error": None}, node="n3")


@pytest.mark.parametrize(("outcome", "shown"), [("ok", "left"), ("ok", "normal"), ("info", "left"), (None, "left")])
def test_a_node_that_left_is_not_called_dead(outcome, shown):
    verdict = Restart().check(run(outcome, DIED, shown=shown), limit_s=5)
    assert verdict.valid is True
    assert verdict.doubts == ()


@pytest.mark.parametrize(("outcome", "shown"), [("fail", "normal"), ("fail", "left"), ("info", "normal")])
def test_a_node_that_should_serve_is_called_dead(outcome, shown):
    (found,) = Restart().check(run(outcome, DIED, shown=shown), limit_s=5).anomalies
    assert (found.type, found.nodes) == ("node-died", ("n3",))


def test_a_member_that_was_not_restarted_is_a_doubt_and_one_that_left_is_none():
    assert [doubt.kind for doubt in Restart().check(run("fail"), limit_s=5).doubts] == ["undecided"]
    assert Restart().check(run("ok"), limit_s=5).doubts == ()


def test_without_notes_of_membership_every_node_should_serve():
    notes = Notes(judged((start(1, "n1", "boot"), start(2, "n2", "boot"))).history)
    assert notes.membership.serves("n1", 5 * S)
    assert notes.gone("settled", {"n1", "n2"}) == frozenset()


def test_a_node_serves_until_it_may_have_left_and_from_when_its_joining_was_acknowledged():
    value = {"operation": 1, "nodes": ["n3"], "parameters": {}, "becomes": {"n3": "normal"}}
    joining = [
        note(2000, "bootstrap", value, node="n3", kind="invoke"),
        note(3000, "bootstrap", value, node="n3", kind="ok"),
    ]
    joined = Notes(judged((members(0, n3="absent"), *joining, members(9000))).history).membership
    left = Notes(run("ok").history).membership
    times = [round(second * S) for second in (1, 2, 2.5, 3, 4)]
    assert [joined.serves("n3", time) for time in times] == [False, False, False, True, True]
    assert [left.serves("n3", time) for time in times] == [True, False, False, False, False]
    assert [sorted(left.serving(time)) for time in times[:2]] == [["n1", "n2", "n3"], ["n1", "n2"]]
    assert left.times == [0, 2 * S, 3 * S, 8 * S]
    assert (left.operations, left.changes, left.taken_down) == (1, True, [])


def test_a_node_that_left_is_missed_by_no_probe():
    fallen = start(4500, "n3", "fault", served=False)
    assert find_nodes_without_service(Notes(run("fail", fallen).history))["settled"] == {"n3"}
    assert find_nodes_without_service(Notes(run("ok", fallen).history))["settled"] == frozenset()


@pytest.mark.parametrize(
    ("seconds", "missed"),
    [(4.0, frozenset()), (4.6, {"n3"}), (5.5, {"n3"}), (5.9, {"n3"}), (6.1, frozenset())],
)
@pytest.mark.parametrize("outcome", ["ok", "fail"])
def test_a_node_that_ended_while_it_was_read_serves_no_probe_of_that_phase(seconds, missed, outcome):
    settling = note(4500, "phase", {"phase": "settle-settled", "state": "begins"})
    died = note(round(1000 * seconds), "node-died", {"exit_code": 0, "first_error": None}, node="n3")
    absent = find_nodes_without_service(Notes(run(outcome, settling, died).history))
    assert absent == {"settled": missed, "restarted": frozenset()}


def test_a_node_that_ended_after_its_last_restart_serves_no_probe_after_it():
    settling = note(6500, "phase", {"phase": "settle-restarted", "state": "begins"})
    died = note(6600, "node-died", {"exit_code": 0, "first_error": None}, node="n3")
    absent = find_nodes_without_service(Notes(run("fail", settling, died).history))
    assert absent == {"settled": frozenset(), "restarted": {"n3"}}


@pytest.mark.parametrize(("outcome", "valid"), [("ok", True), ("fail", False)])
def test_a_majority_is_one_of_the_members(outcome, valid):
    """With n2 under a fault n1 and n3 are two of three; when n3 has left, n1 is one of two."""
    down = note(3500, "fault-begins", {"id": 0, "nemesis": "kill", "nodes": ["n2"], "parameters": {}})
    asked = [
        line
        for at in range(4000, 44000, 2000)
        for line in (f"@{at} p{at} n1 invoke read", f"@{at + 1} p{at} n1 info Timeout")
    ]
    verdict = Availability().check(run(outcome, down, *asked), limit_s=5)
    assert verdict.valid is valid


@pytest.mark.parametrize(
    ("outcome", "through", "valid"),
    [
        ("info", ["n3"], True),
        ("ok", ["n3"], True),
        ("fail", ["n3"], False),
        ("info", ["n1"], False),
        ("info", ["n3", "n1"], False),
    ],
)
def test_whoever_asks_a_node_alone_that_may_have_left_need_not_be_answered(outcome, through, valid):
    asked = [
        line
        for node in through
        for number, at in enumerate(range(4000, 44000, 2000))
        for process in [f"p{number + 100 * through.index(node)}"]
        for line in (f"@{at} {process} {node} invoke read", f"@{at + 1} {process} {node} fail NoHostAvailable: gone")
    ]
    verdict = Availability().check(run(outcome, *asked), limit_s=5)
    assert (verdict.valid, [one.type for one in verdict.anomalies]) == (valid, [] if valid else ["unavailable"])


def test_operations_that_were_planned_and_never_begun_are_a_doubt():
    planned = note(1, "faults-planned", {"count": 0, "operations": 1})
    assert [doubt.kind for doubt in Faults().check(judged((planned,)), limit_s=5).doubts] == ["undecided"]
    assert Faults().check(judged((planned, *leaving("ok"))), limit_s=5).doubts == ()


def operation(begins, ends, kind="ok", *, nodes=("n2",), **parameters):
    value = {"operation": 2, "nodes": list(nodes), "parameters": parameters, "becomes": {}}
    begin = note(begins, "upgrade", value, node=nodes[0], kind="invoke")
    return [begin] if ends is None else [begin, note(ends, "upgrade", value, node=nodes[0], kind=kind)]


@pytest.mark.parametrize(
    ("ends", "kind", "up_again"), [(3000, "ok", True), (3000, "info", True), (3000, "fail", True), (None, "", False)]
)
def test_a_node_that_an_operation_takes_down_need_not_serve_meanwhile(ends, kind, up_again):
    lines = operation(2000, ends, kind, takes_down=True)
    membership = Notes(judged((members(0), *lines)).history).membership
    times = [round(second * S) for second in (1, 2, 2.5, 3, 4)]
    assert [membership.serves("n2", time) for time in times] == [True, False, False, up_again, up_again]
    assert all(membership.serves(node, time) for node in ("n1", "n3") for time in times)
    others = Notes(judged((members(0), *operation(2000, ends, kind))).history).membership
    assert all(others.serves("n2", time) for time in times), "it goes on beside its work"
    ended = None if ends is None else ends * S // 1000
    assert (membership.taken_down, others.taken_down) == ([(2 * S, ended, frozenset({"n2"}))], [])
    assert (membership.operations, membership.changes) == (1, False)


def test_notes_that_are_damaged_say_nothing_of_a_member():
    first = {
        "n1": {"state": "joining"},
        "n2": {"state": "normal", "expected": "absent"},
        "n3": "x",
        "n4": {"state": "?"},
    }
    then = {"n1": {"state": "left", "expected": "normal", "address": ""}, "n2": {"address": "10.0.0.2"}}
    lines = [note(at, "membership", {"members": each}) for at, each in enumerate((first, then, None))]
    membership = Notes(judged(lines).history).membership
    assert membership.initial == {"n1": "joining", "n2": "absent"}
    assert membership.addresses == {"n2": "10.0.0.2"}
    assert [membership.serves(node, 0) for node in ("n1", "n2", "n3", "n4")] == [False, False, True, True]
    assert membership.times == [0, 1_000_000, 2_000_000]


@pytest.mark.parametrize(
    ("begins_s", "ends_s", "changing"),
    [(0, 1.9, False), (0, 2, True), (2.4, 2.5, True), (3.9, 5, True), (4, 5, False), (0, 9, True)],
)
def test_membership_changes_from_the_begin_of_an_operation_to_a_while_after_its_end(begins_s, ends_s, changing):
    begins, ends = round(begins_s * S), round(ends_s * S)
    for outcome in ("ok", "fail"):
        membership = Notes(judged((members(0), *leaving(outcome))).history).membership
        assert membership.is_changing(begins, ends, spread_ns=S) is changing, outcome
        assert not membership.is_changing(60 * S, 61 * S, spread_ns=S)
    for outcome in ("info", None):
        membership = Notes(judged((members(0), *leaving(outcome))).history).membership
        assert membership.is_changing(begins, ends, spread_ns=S) is (ends_s >= 2), "it may go on for good"


def test_of_the_notes_of_members_the_first_tells_what_is_expected_and_the_last_what_became_of_it():
    planned = note(0, "faults-planned", {"count": 0}), note(0, "run-planned", {"restart": "none"})
    boot = members(0).replace('"state":"normal"', '"state":"joining"')
    ended = note(9000, "fault-ends", {"id": 0}), note(9000, "phase", {"phase": "main", "state": "ends"})
    for last, stays in (("normal", True), ("left", False)):
        others = members(4000, "operation"), members(5000, "heal", n3=last)
        membership = Notes(judged((*planned, boot, *leaving("info"), *others, *ended)).history).membership
        assert set(membership.initial.values()) == {"normal"}
        assert [membership.serves("n3", at * S) for at in (1, 2, 8)] == [True, stays, stays]
