"""Notes: what the conductor wrote beside the operations, and which nodes were down when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from histories import judged

from schemaquake.checkers.evidence.notes import Fault, NodeDeath, NodeStart, Notes, may_start, read_notes, traits_of
from schemaquake.harness.model.traits import NemesisTraits

MS = 1_000_000


def note(at: int, f: str, value: Any = None, *, node: str = "", kind: str = "info") -> str:
    text = "" if value is None else f" {orjson.dumps(value).decode()}"
    return " ".join(part for part in (f"@{at} --", node, kind, f"{f}{text}") if part)


def notes(*lines: str) -> Notes:
    return Notes(judged(lines).history)


def start(at: int, node: str, *, served: bool = True, **more: Any) -> str:
    return note(at, "node-start", {"phase": "boot", "served": served, "seconds": 0.5, **more}, node=node)


def death(at: int, node: str) -> str:
    return note(at, "node-died", {"exit_code": 3, "first_error": "E"}, node=node)


def test_a_note_is_an_event_of_the_conductor_with_its_value() -> None:
    history = judged(
        (note(1, "settle", {"agreed": True}), "@2 p0 n1 invoke read", note(3, "x"), note(4, "y", {"a": 1}))
    ).history
    found = read_notes(history)
    assert [(one.event["f"], one.event["time"], one.value) for one in found] == [
        ("settle", MS, {"agreed": True}),
        ("x", 3 * MS, {}),
        ("y", 4 * MS, {"a": 1}),
    ]
    assert found == list(Notes(history).all)
    assert Notes(history).kinds == {"settle", "x", "y"}
    assert Notes(history).settles == [{"agreed": True}]


@pytest.mark.parametrize("damaged", [[1], {"a": 1}])
def test_an_operation_is_named_by_a_number_or_not_at_all(damaged: Any) -> None:
    (found,) = notes(note(1, "move", {"operation": damaged, "nodes": ["n1"]}, kind="invoke")).all
    assert found.value == {"nodes": ["n1"]}
    (found,) = notes(note(1, "move", {"operation": 7}, kind="invoke")).all
    assert found.value == {"operation": 7}


def test_notes_of_other_kinds_say_none_of_this() -> None:
    everything = {
        "id": 1,
        "nemesis": "kill",
        "phase": "main",
        "state": "begins",
        "because": "x",
        "nodes": {"n1": {"passed": True}},
        "restart": "none",
        "utc": "2026-01-01T00:00:00+00:00",
    }
    others = [note(1, kind, everything, node="n1") for kind in ("aaa", "zzz")]
    begun = note(2, "fault-begins", {"id": 1, "nemesis": "kill", "nodes": ["n1"]})
    found = notes(*others, begun)
    assert [(fault.begins, fault.ends) for fault in found.faults] == [(2 * MS, None)]
    assert (found.deaths, found.starts, found.settles, found.phases, found.shortened) == ([], [], [], [], [])
    assert (found.caught_up, found.planned, found.begins_ms) == (frozenset(), {}, None)


def test_an_operation_that_did_nothing_hides_no_later_one() -> None:
    def ended(at: int, operation: int, kind: str, attempts: list[Any]) -> str:
        value = {"operation": operation, "nodes": ["n1"], "parameters": {"takes_down": True}}
        return note(at, "repair", {**value, "effect": {"attempts": attempts}}, kind=kind)

    asked = [note(at, "repair", {"operation": at, "nodes": ["n1"]}, kind="invoke") for at in (1, 2)]
    found = notes(*asked, ended(3, 1, "fail", []), ended(4, 2, "ok", [{"outcome": "ok", "command": "start n1"}]))
    assert [(start.time, start.served) for start in found.starts] == [(4 * MS, True)]


def test_starts_and_deaths_are_of_one_node_each() -> None:
    found = notes(
        start(1, "n1"),
        start(2, "n2", served=False, exit_code=3, first_error="E", ended=False),
        death(3, "n1"),
        note(4, "node-start", {}),
        note(5, "node-died", {}),
    )
    assert found.starts == [
        NodeStart(
            index=0,
            time=MS,
            node="n1",
            phase="boot",
            served=True,
            seconds=0.5,
            exit_code=None,
            first_error=None,
            ended=False,
        ),
        NodeStart(
            index=1,
            time=2 * MS,
            node="n2",
            phase="boot",
            served=False,
            seconds=0.5,
            exit_code=3,
            first_error="E",
            ended=False,
        ),
        NodeStart(
            index=3,
            time=4 * MS,
            node="",
            phase="",
            served=False,
            seconds=0,
            exit_code=None,
            first_error=None,
            ended=False,
        ),
    ]
    assert found.deaths == [
        NodeDeath(index=2, time=3 * MS, node="n1", exit_code=3, first_error="E"),
        NodeDeath(index=4, time=5 * MS, node="", exit_code=None, first_error=None),
    ]
    assert found.logging == {"n1", "n2", ""}, "before runs told who keeps a log"


@pytest.mark.parametrize(
    ("told", "ended"),
    [({"ended": True}, True), ({"ended": False, "exit_code": 3}, False), ({"exit_code": 0}, True), ({}, False)],
)
def test_runs_of_0_1_tell_by_the_exit_code_whether_a_process_ended(told: dict[str, Any], *, ended: bool) -> None:
    (found,) = notes(start(1, "n1", served=False, **told)).starts
    assert found.ended is ended


def operation(outcome: str | None, attempts: Any = None, *, nodes: Sequence[str] = ("n1",), **parameters: Any) -> Notes:
    """One that lasted from 10 to 2010 ms."""
    value = {"operation": 5, "nodes": nodes, "becomes": {}, "parameters": parameters}
    ended = value if attempts is None else {**value, "effect": {"attempts": attempts}}
    end = [] if outcome is None else [note(2010, "upgrade", ended, kind=outcome)]
    return notes(note(10, "upgrade", value, kind="invoke"), *end)


TRIED = [{"outcome": "ok", "command": "restart the server"}]


@pytest.mark.parametrize(
    ("outcome", "parameters", "attempts", "served"),
    [
        ("ok", {"takes_down": True}, TRIED, True),
        ("ok", {"takes_down": True}, None, True),
        ("info", {"takes_down": True}, TRIED, False),
        ("fail", {"takes_down": True}, TRIED, True),
        ("fail", {"takes_down": True}, None, True),
        ("fail", {"takes_down": True}, [], None),
        ("info", {"takes_down": True}, [], False),
        ("ok", {"forgets": True}, TRIED, True),
        ("info", {"forgets": True}, TRIED, True),
        ("info", {"forgets": True, "takes_down": True}, TRIED, False),
        ("ok", {"takes_down": 1}, TRIED, None),
        ("ok", {"forgets": 1}, TRIED, None),
        ("ok", {}, TRIED, None),
        (None, {"takes_down": True}, None, None),
    ],
)
def test_behind_an_operation_that_took_nodes_down_they_are_as_after_a_start(
    outcome: str | None, parameters: dict[str, Any], attempts: Any, *, served: bool | None
) -> None:
    found = operation(outcome, attempts, nodes=("n1", "n2"), **parameters).starts
    if served is None:
        assert found == []
        return
    assert [(one.node, one.served, one.index, one.time) for one in found] == [
        (node, served, 1, 2010 * MS) for node in ("n1", "n2")
    ]
    assert {(one.phase, one.seconds, one.exit_code, one.first_error) for one in found} == {
        ("operation", 2.0, None, None)
    }


@pytest.mark.parametrize(
    ("attempts", "ended", "anew"),
    [
        (None, True, False),
        ([], True, False),
        (TRIED, True, True),
        ([{"outcome": "ok"}], True, True),
        ([{"outcome": "ok", "command": "start it"}], True, True),
        ([{"outcome": "ok", "command": "kickstarted"}], True, False),
        ([{"outcome": "info", "command": "restart"}], True, False),
        ([{"outcome": "info", "timed_out": True}], False, False),
        ([{"outcome": "info", "timed_out": 1}], True, False),
        ([{"outcome": "info", "timed_out": True}, *TRIED], True, True),
        ([*TRIED, {"outcome": "info", "timed_out": True}], False, True),
        (["x", *TRIED], True, True),
        ("x", True, False),
    ],
)
def test_the_attempts_tell_whether_the_process_ended_and_is_another(attempts: Any, *, ended: bool, anew: bool) -> None:
    (found,) = operation("ok", attempts, takes_down=True).starts
    assert (found.ended, found.anew) == (ended, anew)


def test_an_end_whose_begin_was_not_noted_took_no_time_and_one_without_parameters_is_no_start() -> None:
    value = {"operation": 5, "nodes": ["n1"], "becomes": {}, "parameters": {"takes_down": True}}
    (found,) = notes(note(10, "upgrade", value, kind="ok")).starts
    assert (found.seconds, found.node) == (0, "n1")
    assert notes(note(10, "upgrade", {**value, "parameters": None}, kind="ok")).starts == []
    assert notes(note(10, "upgrade", {**value, "nodes": None}, kind="ok")).starts == []
    del value["operation"]
    assert notes(note(10, "upgrade", value, kind="ok")).starts == []


def test_a_node_is_down_from_its_death_or_a_failed_start_until_one_that_served() -> None:
    found = notes(
        start(1, "n1"), start(1, "n2", served=False), death(5, "n1"), start(7, "n2"), start(9, "n1"), death(9, "n1")
    )
    assert [sorted(found.down(at * MS)) for at in (0, 1, 4, 5, 6, 7, 8, 9)] == [
        *([], ["n2"], ["n2"], ["n1", "n2"], ["n1", "n2"], ["n1"], ["n1"], ["n1"]),
    ]


def fault(number: int, begins: int, ends: int | None, nemesis: str = "kill", **more: Any) -> list[str]:
    begin = note(begins, "fault-begins", {"id": number, "nemesis": nemesis, "nodes": ["n1"], **more})
    return [begin] if ends is None else [begin, note(ends, "fault-ends", {"id": number})]


def test_faults_are_active_from_their_begin_to_their_end() -> None:
    found = notes(*fault(0, 10, 20), *fault(1, 15, None, "partition"), note(30, "fault-begins", {"id": 2}))
    assert [(one.nemesis, one.nodes, one.begins, one.ends) for one in found.faults] == [
        ("kill", ("n1",), 10 * MS, 20 * MS),
        ("partition", ("n1",), 15 * MS, None),
        ("", (), 30 * MS, None),
    ]
    assert found.nemeses == {"kill", "partition", ""}

    def active(begins: int, ends: int | None) -> list[int]:
        return [one.begins // MS for one in found.active(begins * MS, None if ends is None else ends * MS)]

    assert [active(0, 9), active(0, 10), active(12, 12), active(20, 29), active(21, 30)] == [
        *([], [10], [10], [10, 15], [15, 30]),
    ]
    assert [active(0, None), active(21, None)] == [[10, 15, 30], [15, 30]]


@pytest.mark.parametrize(
    ("offsets", "skew_s"),
    [(None, 0), ({}, 0), ({"n1": 2}, 2), ({"n1": -3}, 3), ({"n1": -3, "n2": 2}, 5), ({"n1": 1, "n2": 4}, 4)],
)
def test_the_skew_of_clocks_is_the_largest_distance_of_two_or_from_the_true_time(offsets: Any, skew_s: float) -> None:
    (found,) = notes(*fault(0, 1, 2, parameters={"offsets": offsets})).faults
    assert found.skew_s == skew_s
    assert found.offsets == (offsets or {})
    assert notes(*fault(0, 1, 2, parameters=None)).faults[0].skew_s == 0


def test_a_nemesis_that_is_not_installed_declares_nothing() -> None:
    assert traits_of("no such nemesis") == NemesisTraits()
    assert Fault(nemesis="no such nemesis", nodes=(), begins=0, ends=None).effect is NemesisTraits().effect
    assert Fault(nemesis="kill", nodes=(), begins=0, ends=None).effect is not None


@pytest.mark.parametrize(
    ("command", "may"),
    [("start", True), ("stop, restart", True), ("restarted", False), ("drain", False), (None, True), (7, True)],
)
def test_an_attempt_may_have_started_a_server_if_its_command_says_so_or_nothing(command: Any, *, may: bool) -> None:
    assert may_start({"command": command}) is may
    assert may_start({})


def phase(at: int, name: str | None, state: str) -> str:
    return note(at, "phase", {"phase": name, "state": state})


def test_phases_begin_and_end() -> None:
    found = notes(
        phase(1, "main", "begins"),
        phase(2, "heal", "begins"),
        phase(3, "main", "begins"),
        phase(4, "main", "ends"),
        phase(5, None, "begins"),
        phase(6, "final-settled", "ends"),
    )
    assert [found.began(name) for name in ("main", "heal", "final-settled", "other")] == [MS, 2 * MS, None, None]
    assert found.unended == ["heal"]
    assert found.phases[0] == (MS, "main", "begins")
    assert len(found.phases) == 6


def test_phases_that_were_cut_short_have_a_reason() -> None:
    found = notes(
        note(1, "phase-cut-short", {"phase": "main", "because": "n1 died"}),
        note(2, "phase-ended-early", {"phase": "restart"}),
        note(3, "phase-ended-early", {}),
    )
    slow = "the cluster answered too slowly"
    assert found.shortened == [("main", "n1 died"), ("restart", slow), ("", slow)]


def test_a_node_that_passed_a_barrier_had_caught_up() -> None:
    nodes = {"n1": {"passed": True}, "n2": {"passed": False}, "n3": {"passed": 1}, "n4": {}}
    found = notes(note(1, "barriers", {"phase": "settled", "nodes": nodes}), note(2, "other", {"nodes": nodes}))
    assert found.caught_up == {("settled", "n1")}
    assert notes(note(1, "barriers", {"nodes": {"n1": {"passed": True}}}), note(2, "barriers", {})).caught_up == {
        ("", "n1")
    }


def test_a_run_says_what_it_is_to_do_or_nothing() -> None:
    found = notes(note(1, "run-planned", {"restart": "none", "pull_delay_s": 60, "logs": ["n1"]}), start(2, "n2"))
    assert (found.planned_restart, found.pull_delay_s, found.logging) == ("none", 60, {"n1"})
    assert (found.planned["restart"], found.begins_ms) == ("none", None)
    earlier = notes(start(2, "n2"))
    assert (earlier.planned, earlier.planned_restart, earlier.pull_delay_s) == ({}, None, None)
    assert (earlier.logging, earlier.begins_ms) == ({"n2"}, None)


@pytest.mark.parametrize(
    ("utc", "begins_ms"),
    [
        ("1970-01-01T00:00:10+00:00", 9_996),
        ("1970-01-01T01:00:10+01:00", 9_996),
        ("1970-01-01T00:00:10", None),
        ("yesterday", None),
        (None, None),
    ],
)
def test_the_clock_of_a_run_was_0_before_its_plan_was_noted(utc: Any, begins_ms: float | None) -> None:
    assert notes(note(4, "run-planned", {"utc": utc})).begins_ms == begins_ms
    assert notes(note(4, "settle", {"utc": utc})).begins_ms is None


def test_a_node_that_left_before_a_final_phase_is_gone_in_it() -> None:
    states = {node: {"state": "normal", "expected": "normal"} for node in ("n1", "n2")}
    value = {"operation": 0, "nodes": ["n2"], "parameters": {}, "becomes": {"n2": "left"}}
    left = [note(2, "decommission", value, kind="invoke"), note(3, "decommission", value, kind="ok")]
    lines = [note(1, "membership", {"at": "boot", "members": states}), *left, phase(5, "final-settled", "begins")]
    found = notes(*lines)
    assert found.gone("settled", ["n1", "n2", "n3"]) == {"n2"}
    assert found.gone("settled", ["n1"]) == found.gone("restarted", ["n2"]) == frozenset()
    early = [lines[0], phase(1, "final-settled", "begins"), *left]
    assert notes(*early).gone("settled", ["n2"]) == frozenset()
