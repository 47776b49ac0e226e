"""Operations on the topology as read from the notes of process −1: which events belong together, and what each says."""

from __future__ import annotations

from typing import Any

import pytest

from schemaquake.checkers.evidence.topology_operations import DiskLosses, TopologyOperation, read_operations

Note = tuple[dict[str, Any], dict[str, Any]]


def event(time: int, kind: str = "invoke", *, number: int = 7, f: str = "move", **value: Any) -> Note:
    """One event of an operation, whose index is ten times its time (ns)."""
    row = {"index": 10 * time, "time": time, "type": kind, "f": f, "error": None if kind in {"invoke", "ok"} else "E"}
    return row, {"operation": number, "nodes": ["n1"], "becomes": {"n1": "normal"}, **value}


def step(time: int, name: str | None, *, number: int = 7) -> Note:
    row = {"index": 10 * time, "time": time, "type": "info", "f": "operation-step", "error": None}
    return row, {"operation": number, "step": name}


def read(*notes: Note) -> TopologyOperation:
    (operation,) = read_operations(notes)
    return operation


def test_an_operation_is_its_begin_and_its_end() -> None:
    effect = {"attempts": [{"outcome": "ok"}], "token": "42"}
    found = read(event(3, parameters={"limit_s": 60.0}), event(5, "ok", effect=effect))
    assert found == TopologyOperation(
        number=7,
        index=30,
        f="move",
        nodes=("n1",),
        becomes={"n1": "normal"},
        invoked=3,
        completed=5,
        outcome="ok",
        effect=effect,
        parameters={"limit_s": 60.0},
        limit_s=60.0,
    )
    assert (found.attempts, found.token, found.ends_ns) == ([{"outcome": "ok"}], "42", 5)


def test_one_without_an_end_goes_on() -> None:
    found = read(event(3))
    assert (found.completed, found.outcome, found.error, found.effect) == (None, None, None, {})
    assert (found.attempts, found.token, found.ends_ns, found.limit_s) == ([], None, None, None)


@pytest.mark.parametrize(("outcome", "ends"), [("ok", 5), ("fail", 5), ("info", None)])
def test_one_of_unknown_outcome_may_go_on_for_good(outcome: str, ends: int | None) -> None:
    found = read(event(3), event(5, outcome))
    assert (found.outcome, found.completed, found.ends_ns) == (outcome, 5, ends)
    assert found.error == (None if outcome == "ok" else "E")


def test_operations_are_in_order_of_their_begins_and_each_has_its_own_end() -> None:
    notes = [event(1, number=9), event(2, number=8), event(3, "fail", number=8), event(4, "ok", number=9)]
    found = read_operations(notes)
    assert [(one.number, one.completed, one.outcome) for one in found] == [(9, 4, "ok"), (8, 3, "fail")]


def test_of_two_begins_and_ends_of_one_number_the_first_counts() -> None:
    notes = [event(1), event(2, f="other"), event(3, "ok"), event(4, "fail")]
    found = read(*notes)
    assert (found.f, found.invoked, found.completed, found.outcome) == ("move", 1, 3, "ok")


def test_an_end_without_a_begin_and_other_notes_are_no_operations() -> None:
    assert read_operations([event(2, "ok")]) == []
    for lacking in ("operation", "becomes"):
        row, value = event(1)
        assert read_operations([(row, {name: each for name, each in value.items() if name != lacking})]) == []
    assert read(event(1), event(2, "other")).outcome is None, "of no outcome that there is"


def test_its_steps_are_its_own_in_order() -> None:
    notes = [event(1), step(2, "joining"), step(3, "elsewhere", number=8), step(4, None), event(5, "ok")]
    assert read(*notes).steps == [(2, "joining"), (4, "None")]
    assert read(event(1), step(3, "elsewhere", number=8)).steps == ()
    assert read(event(1, f="replace"), event(5, "ok", f="replace")).steps == (), "its own events are none"


@pytest.mark.parametrize(
    ("parameters", "outcome", "loses", "down"),
    [
        ({}, "ok", False, False),
        ({"loses_disk": True}, "ok", True, False),
        ({"loses_disk": True}, "info", True, False),
        ({"loses_disk": True}, None, True, False),
        ({"loses_disk": True}, "fail", False, False),
        ({"takes_down": True}, "ok", False, True),
        ({"takes_down": True}, "fail", False, True),
        ({"takes_down": True}, None, False, True),
    ],
)
def test_a_disk_is_lost_unless_that_was_refused(
    parameters: dict[str, Any], outcome: str | None, *, loses: bool, down: bool
) -> None:
    ends = [] if outcome is None else [event(5, outcome)]
    found = read(event(3, parameters=parameters), *ends)
    assert (found.loses_disk, found.takes_down) == (loses, down)


@pytest.mark.parametrize("damaged", [None, [], "x", 7])
def test_what_is_no_map_says_nothing(damaged: Any) -> None:
    found = read(event(3, parameters=damaged, nodes=None), event(5, "ok", effect=damaged))
    assert (found.nodes, found.limit_s, found.loses_disk, found.takes_down) == ((), None, False, False)
    assert (found.effect, found.attempts, found.token) == ({}, [], None)
    assert read(event(3), event(5, "ok", effect={"attempts": damaged})).attempts == []


def test_an_attempt_that_is_no_map_is_left_out() -> None:
    one = {"outcome": "fail"}
    assert read(event(3), event(5, "ok", effect={"attempts": [None, one, "x"]})).attempts == [one]


LOSING = {"loses_disk": True}
REPLACED = [event(3, parameters=LOSING), event(5, "ok")]
OPEN = [event(7, number=8, parameters=LOSING), event(9, "info", number=8)]
KEEPING = [event(4, number=9), event(6, "ok", number=9)]


def test_disks_may_be_lost_between_requests_by_operations_that_went_on_there() -> None:
    losses = DiskLosses(read_operations([*REPLACED, *OPEN, *KEEPING]))
    before, during, ending, after, late = (losses.around(time, time) for time in (2, 4, 5, 6, 20))
    assert [one.lost_until(other) for one in (before, during, ending) for other in (during, ending, after, late)] == [
        *(1, 1, 1, 2),
        *(1, 1, 1, 2),
        *(1, 1, 1, 2),
    ]
    assert [after.lost_until(after), after.lost_until(late), late.lost_until(late)] == [0, 1, 1], (
        "it may go on for good"
    )
    assert (before.lost_until(before), late.lost_until(before)) == (0, 0)
    assert losses.around(2, 4).lost_until(late) == 2, "a request that went on meanwhile"
    assert (bool(losses), bool(DiskLosses(read_operations(KEEPING)))) == (True, False)


@pytest.mark.parametrize(
    ("node", "begins", "ends", "lost"),
    [
        ("n1", 0, 2, False),
        ("n1", 0, 3, True),
        ("n1", 4, 4, True),
        ("n1", 5, 6, True),
        ("n1", 6, 6, False),
        ("n1", 6, 7, True),
        ("n1", 20, 30, True),
        ("n2", 0, 30, False),
    ],
)
def test_the_disk_of_a_node_may_be_lost_from_the_begin_of_its_operation_to_its_end(
    node: str, begins: int, ends: int, *, lost: bool
) -> None:
    assert DiskLosses(read_operations([*REPLACED, *OPEN])).between(node, begins, ends) is lost


def test_an_operation_has_ended_from_its_end_on_whatever_its_outcome() -> None:
    for outcome in ("ok", "fail", "info"):
        assert [read(event(3), event(5, outcome)).has_ended(time) for time in (4, 5, 6)] == [False, True, True]
    assert not read(event(3)).has_ended(9)
    stopping = event(3, parameters={"stops_changes": True})
    assert (read(stopping).stops_changes, read(event(3)).stops_changes) == (True, False)
