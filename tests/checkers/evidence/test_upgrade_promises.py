"""Upgrades of a run: when versions are mixed, which of them a node is, and what was promised for a schema change meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from schemaquake.checkers.evidence.upgrades import Upgrades

OLD, NEW, NEWEST = "five", "six", "seven"
END = 2**63 - 1
PROMISES = {"schema_changes": {"old": "unsupported", "new": "refused"}, "until": "last-steps", "source": "NEWS.txt"}
Note = tuple[dict[str, Any], Mapping[str, Any]]


def step(
    number: int,
    node: str,
    invoked: int,
    completed: int | None,
    *,
    stage: str = "node",
    outcome: str = "ok",
    to: str = NEW,
    system: str | None = None,
    promises: Mapping[str, Any] | None = None,
) -> list[Note]:
    """One operation, from begin to end (ns); without an end its outcome is not known."""
    value = {"operation": number, "nodes": [node], "parameters": {"stage": stage, "to": to}}
    event = {"f": "rolling-upgrade", "node": node}
    effect = {"system": to if system is None else system, "promises": PROMISES if promises is None else promises}
    begin = ({**event, "index": 2 * number, "time": invoked, "type": "invoke"}, value)
    if completed is None:
        return [begin]
    ended = ({**event, "index": 2 * number + 1, "time": completed, "type": outcome}, {**value, "effect": effect})
    return [begin, ended]


def upgrades(*steps: list[Note], skipped: str | None = None, of: str = "rolling-upgrade") -> Upgrades:
    notes = [note for one in steps for note in one]
    if skipped is not None:
        event = {"f": "operation-skipped", "node": None, "index": 99, "time": 99, "type": "info"}
        notes.append((event, {"nemesis": of, "reason": skipped}))
    return Upgrades(notes)


def back(number: int, node: str, invoked: int, completed: int) -> list[Note]:
    return step(number, node, invoked, completed, stage="back", system=OLD)


def finish(number: int, invoked: int, completed: int | None, **more: Any) -> list[Note]:
    return step(number, "n1", invoked, completed, stage="finish", **more)


FIRST, SECOND = step(1, "n1", 10, 20), step(2, "n2", 30, 40)
FINISH = finish(3, 50, 60)


def test_operations_are_read_with_their_ends() -> None:
    found = upgrades(FIRST, step(2, "n2", 30, None), FINISH)
    assert [(one.index, one.stage, one.node, one.to) for one in found.operations] == [
        (2, "node", "n1", NEW),
        (4, "node", "n2", NEW),
        (6, "finish", "n1", NEW),
    ]
    assert [(one.invoked, one.completed, one.ends, one.outcome, one.system) for one in found.operations] == [
        (10, 20, 20, "ok", NEW),
        (30, None, END, None, None),
        (50, 60, 60, "ok", NEW),
    ]
    assert [one.index for one in found.on("n1")] == [2]
    assert [found.operations[number].promises for number in (0, 1)] == [PROMISES, {}]


def test_other_operations_are_no_upgrades() -> None:
    other = step(1, "n1", 10, 20, stage="bootstrap")
    bare = [(event, {name: each for name, each in value.items() if name != "operation"}) for event, value in FIRST]
    for none in ([], other, bare, [(FIRST[0][0], {**FIRST[0][1], "parameters": None})]):
        found = upgrades(none)
        assert (found.operations, found.each, found.finished, found.mixed) == ([], [], None, None)
        assert found.promise_on("n1", 12, 13) is None
        assert not found.may_refuse(12, 13)
    twice = [*FIRST, *step(1, "n2", 70, 80)]
    assert [(one.node, one.ends) for one in upgrades(twice).operations] == [("n1", 20)], "the first notes count"


@pytest.mark.parametrize(
    ("steps", "until", "mixed"),
    [
        pytest.param([FIRST, SECOND, FINISH], "last-steps", (10, 60), id="to its end"),
        pytest.param([FIRST, SECOND], "last-steps", (10, END), id="it was not ended"),
        pytest.param([FIRST, finish(3, 50, 60, outcome="fail")], "last-steps", (10, END), id="its end was refused"),
        pytest.param([FIRST, finish(3, 50, 60, outcome="fail"), finish(4, 70, 80)], "last-steps", (10, 80), id="later"),
        pytest.param([SECOND, FIRST, FINISH], "last-steps", (10, 60), id="the first is the earliest"),
        pytest.param([FIRST, SECOND, FINISH], "nodes", (10, 40), id="to the last node"),
        pytest.param([SECOND, FIRST, FINISH], "nodes", (10, 40), id="which is the latest"),
        pytest.param([FIRST, SECOND], "nodes", (10, 40), id="without an end"),
        pytest.param([FIRST, step(2, "n2", 30, 40, outcome="info")], "nodes", (10, END), id="a node may be the other"),
        pytest.param([FIRST, step(2, "n2", 30, None)], "nodes", (10, END), id="a node has no end"),
        pytest.param([FINISH], "nodes", (50, END), id="no node is known"),
        pytest.param([FIRST, back(2, "n1", 30, 40)], "nodes", (10, 40), id="to a node that went back"),
        pytest.param([FIRST, back(2, "n1", 30, 40)], "last-steps", (10, END), id="one that goes back ends nothing"),
        pytest.param([FIRST, finish(3, 50, None)], "last-steps", (10, END), id="its end has no end"),
    ],
)
def test_versions_are_mixed_from_the_first_operation_to_what_the_promises_say(
    steps: list[list[Note]], until: str, mixed: tuple[int, int]
) -> None:
    promised = [
        [(event, {**value, "effect": {**value["effect"], "promises": PROMISES | {"until": until}}} if "effect" in value else value) for event, value in one]
        for one in steps
    ]  # fmt: skip
    assert upgrades(*promised).mixed == mixed


@pytest.mark.parametrize(
    ("invoked", "completed", "promise"),
    [
        (9, 25, None),
        (10, 25, None),
        (11, 12, "unknown"),
        (15, 15, "unknown"),
        (20, 25, "unknown"),
        (21, 25, "refused"),
        (25, 25, "refused"),
        (25, 49, "refused"),
        (25, 50, None),
        (25, 55, None),
        (61, 62, None),
    ],
)
def test_a_change_in_mixed_times_is_promised_what_its_node_was(
    invoked: int, completed: int, promise: str | None
) -> None:
    assert upgrades(FIRST, SECOND, FINISH).promise_on("n1", invoked, completed) == promise


@pytest.mark.parametrize(
    ("invoked", "completed", "promise"),
    [(11, 29, "unsupported"), (11, 30, "unknown"), (40, 45, "unknown"), (41, 45, "refused"), (29, 41, "unknown")],
)
def test_a_node_is_the_old_version_until_its_operation_begins(invoked: int, completed: int, promise: str) -> None:
    assert upgrades(FIRST, SECOND, FINISH).promise_on("n2", invoked, completed) == promise


@pytest.mark.parametrize(
    ("steps", "promise"),
    [
        pytest.param([FIRST], "refused", id="it is the newer one"),
        pytest.param([step(1, "n1", 10, 20, system=OLD)], "unsupported", id="it is the older one again"),
        pytest.param([step(1, "n1", 10, 20, outcome="info")], "unknown", id="it may be either"),
        pytest.param([step(1, "n1", 10, 20, outcome="fail")], "unknown", id="it was refused"),
        pytest.param([step(1, "n1", 10, None)], "unknown", id="it is under way"),
        pytest.param([FIRST, step(2, "n1", 22, 23, stage="back", system=OLD)], "unsupported", id="it went back before"),
        pytest.param([FIRST, step(2, "n1", 32, 33, stage="back", system=OLD)], "refused", id="it went back afterwards"),
        pytest.param([FIRST, step(2, "n1", 22, 23, outcome="info")], "unknown", id="the last one counts"),
        pytest.param([step(1, "n2", 10, 20)], "unsupported", id="it was not upgraded yet"),
        pytest.param([step(1, "n2", 10, 20), step(2, "n1", 32, 33)], "unsupported", id="it is upgraded afterwards"),
    ],
)
def test_the_last_operation_before_a_change_says_which_version_its_node_was(
    steps: list[list[Note]], promise: str
) -> None:
    promises = step(8, "n3", 5, 6)
    assert upgrades(promises, *steps).promise_on("n1", 25, 30) == promise


@pytest.mark.parametrize("promises", [{}, {"schema_changes": "refused"}, {"schema_changes": {"new": "allowed"}}])
def test_without_promises_nothing_is_known(promises: Mapping[str, Any]) -> None:
    found = upgrades(step(1, "n1", 10, 20, promises=promises), finish(3, 50, 60, promises=promises))
    assert found.promise_on("n1", 25, 30) == "unknown"
    assert not found.may_refuse(25, 30)


def test_the_source_of_the_promises_is_that_of_the_first_operation_that_tells_any() -> None:
    unended, bare = step(1, "n1", 10, None), step(1, "n1", 10, 20, promises={"source": None})
    found = [upgrades(*steps).each[0] for steps in ([FIRST], [unended], [unended, SECOND], [bare])]
    assert [one.source for one in found] == ["NEWS.txt", "", "NEWS.txt", ""]
    assert [one.to for one in found] == [NEW] * 4


@pytest.mark.parametrize(("outcome", "promise"), [("ok", None), ("info", None), ("fail", "refused")])
def test_the_last_step_may_allow_changes_unless_it_changed_nothing(outcome: str, promise: str | None) -> None:
    found = upgrades(FIRST, finish(3, 50, 60, outcome=outcome), finish(4, 80, 90))
    assert found.promise_on("n1", 65, 70) == promise
    assert found.promise_on("n1", 65, 80) is None
    unended = upgrades(FIRST, finish(3, 50, None))
    assert [unended.promise_on("n1", 25, completed) for completed in (30, 49, 50, 70)] == [*["refused"] * 2, None, None]


def test_an_operation_is_of_the_node_that_it_names_or_else_of_that_of_its_event() -> None:
    (event, value), ended = FIRST
    other = ({**event, "node": "n3"}, value)
    unnamed = ({**event, "node": "n3"}, {**value, "nodes": []})
    assert [upgrades([begin, ended]).operations[0].node for begin in (other, unnamed)] == ["n1", "n3"]


def test_notes_of_other_kinds_say_of_no_operation_that_it_was_skipped() -> None:
    value = {"nemesis": "rolling-upgrade", "reason": "none"}
    others = [({"f": f, "node": None, "index": 98, "time": 98, "type": "info"}, value) for f in ("fault-begins", "run")]
    assert upgrades(FIRST, others).skipped == []


@pytest.mark.parametrize(
    ("invoked", "completed", "may"),
    [(1, 9, False), (1, 10, True), (25, 30, True), (60, 99, True), (61, 99, False)],
)
def test_a_refusal_at_any_time_that_may_be_mixed_may_be_one_that_was_promised(
    invoked: int, completed: int, *, may: bool
) -> None:
    assert upgrades(FIRST, SECOND, FINISH).may_refuse(invoked, completed) is may
    unsupported = {**PROMISES, "schema_changes": {"old": "unsupported", "new": "unsupported"}}
    others = upgrades(step(1, "n1", 10, 20, promises=unsupported), finish(3, 50, 60, promises=unsupported))
    assert not others.may_refuse(invoked, completed)


@pytest.mark.parametrize(
    ("steps", "skipped", "cut_short"),
    [
        ([FIRST, FINISH], None, [False]),
        ([FIRST, FINISH], "the cluster was not whole", [False]),
        ([FIRST], None, [False]),
        ([FIRST], "the cluster was not whole", [True]),
        ([FIRST, FINISH, step(5, "n1", 70, 80, to=NEWEST)], None, [False, False]),
        ([FIRST, step(5, "n1", 70, 80, to=NEWEST)], None, [True, False]),
        ([FIRST, step(5, "n1", 70, 80, to=NEWEST)], "the cluster was not whole", [True, True]),
        ([FIRST, FINISH, step(5, "n1", 70, 80, to=NEWEST)], "the cluster was not whole", [False, True]),
    ],
)
def test_an_upgrade_that_was_not_ended_lacks_operations_if_some_were_skipped_or_another_followed(
    steps: list[list[Note]], skipped: str | None, cut_short: list[bool]
) -> None:
    found = upgrades(*steps, skipped=skipped)
    assert [one.is_cut_short for one in found.each] == cut_short
    assert found.skipped == ([] if skipped is None else [skipped])
    assert upgrades(*steps, skipped=skipped, of="partition").skipped == []


NEXT, LAST = step(5, "n1", 70, 80, to=NEWEST), finish(7, 90, 95, to=NEWEST)


def test_two_upgrades_have_an_end_and_a_mixed_time_of_their_own() -> None:
    found = upgrades(FIRST, FINISH, NEXT, LAST)
    assert [one.to for one in found.each] == [NEW, NEWEST]
    assert [one.mixed for one in found.each] == [(10, 60), (70, 95)]
    assert (found.mixed, found.finished) == ((10, 95), found.operations[-1])
    assert upgrades(FIRST, FINISH, NEXT).finished is None
    assert found.during("n1", 25, 30) is found.each[0]
    assert found.during("n1", 82, 85) is found.each[1]
    assert found.during("n1", 62, 65) is None
    stayed = upgrades(FIRST, FINISH, step(5, "n1", 70, 80, to=NEWEST, system=NEW))
    assert [one.promise_on("n1", 82, 85) for one in (found, stayed)] == ["refused", "unsupported"]


@pytest.mark.parametrize(
    ("steps", "begins", "ends", "versions"),
    [
        ([FIRST, FINISH], 1, 9, (0, 0)),
        ([FIRST, FINISH], 1, 10, (0, 1)),
        ([FIRST, FINISH], 12, 15, (0, 1)),
        ([FIRST, FINISH], 20, 25, (0, 1)),
        ([FIRST, FINISH], 21, 25, (1, 1)),
        ([step(1, "n1", 10, 20, outcome="info")], 21, 25, (0, 1)),
        ([step(1, "n1", 10, 20, system=OLD)], 21, 25, (0, 0)),
        ([FIRST, FINISH, NEXT, LAST], 21, 69, (1, 1)),
        ([FIRST, FINISH, NEXT, LAST], 21, 70, (1, 2)),
        ([FIRST, FINISH, NEXT, LAST], 15, 75, (0, 2)),
        ([FIRST, FINISH, NEXT, LAST], 80, 85, (1, 2)),
        ([FIRST, FINISH, NEXT, LAST], 81, 85, (2, 2)),
        ([FIRST, FINISH, step(5, "n1", 70, 80, to=NEWEST, system=NEW)], 81, 85, (1, 1)),
        ([SECOND], 1, 99, (0, 0)),
        ([FIRST, back(2, "n1", 30, 40)], 21, 29, (1, 1)),
        ([FIRST, back(2, "n1", 30, 40)], 21, 30, (0, 1)),
        ([FIRST, back(2, "n1", 30, 40)], 41, 45, (0, 0)),
    ],
)
def test_a_node_may_have_been_every_version_from_its_last_certain_one_on(
    steps: list[list[Note]], begins: int, ends: int, versions: tuple[int, int]
) -> None:
    assert upgrades(*steps).versions_of("n1", begins, ends) == versions
