"""Reloads: what their snapshots certainly hold, what they may undo, and what they put back."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from schemaquake.checkers.evidence.operations import PairedOperation
from schemaquake.checkers.evidence.reloads import Reload, read_reloads
from schemaquake.checkers.evidence.topology_operations import TopologyOperation

S = 1_000_000_000
PARAMETERS = {"reloads": True, "keyspace": "k", "table": "t"}


def asked(invoked: int, completed: int | None, kind: Any = "ok") -> PairedOperation:
    known: dict[str, Any] = {"index": 0, "process": 0, "node": "n1", "key": "k.t", "argument": {}, "value": None}
    return PairedOperation(type=kind, f="insert", invoked=invoked, completed=completed, error=None, **known)


def operation(outcome: Any = "ok", *, snapshots: Any = None, **parameters: Any) -> TopologyOperation:
    """One from 40 to 60 s; of unknown outcome without an end if `outcome` is None."""
    return TopologyOperation(
        number=1,
        index=7,
        f="reload-table",
        nodes=(),
        becomes={},
        invoked=40 * S,
        completed=None if outcome is None else 60 * S,
        outcome=outcome,
        effect={} if snapshots is None else {"snapshots": snapshots},
        parameters={**PARAMETERS, **parameters},
    )


def reload(**how: Any) -> Reload:
    known: dict[str, Any] = {"index": 7, "keyspace": "k", "table": "t", "invoked": 40, "completed": 60}
    return Reload(**{**known, "acknowledged": True, **how})


@pytest.mark.parametrize(("outcome", "acknowledged"), [("ok", True), ("info", False), (None, False)])
def test_a_reload_is_an_operation_that_was_not_refused(outcome: str | None, *, acknowledged: bool) -> None:
    (found,) = read_reloads([operation(outcome)])
    completed = sys.maxsize if outcome is None else 60 * S
    assert found == Reload(
        index=7, keyspace="k", table="t", invoked=40 * S, completed=completed, acknowledged=acknowledged
    )
    assert read_reloads([operation("fail"), operation(reloads=False)]) == []


@pytest.mark.parametrize(
    ("snapshots", "began"),
    [
        ({"n1": 0, "n2": 2.5, "n3": 20}, {"n1": 40 * S, "n2": 42 * S + S // 2, "n3": 60 * S}),
        ({"n1": 1e-9}, {"n1": 40 * S + 1}),
        ({"n1": 1, "n2": -1e-9}, {}),
        ({"n1": 1, "n2": 20.000000001}, {}),
        ({"n1": 1, "n2": True}, {}),
        ({"n1": 1, "n2": "2"}, {}),
        ({"n1": 1, "n2": None}, {}),
        ([1], {}),
    ],
)
def test_snapshots_began_while_the_reload_went_on_or_it_is_not_known_when(
    snapshots: Any, began: dict[str, int]
) -> None:
    assert read_reloads([operation(snapshots=snapshots)])[0].snapshots == began
    assert read_reloads([operation("info", snapshots=snapshots)])[0].snapshots == began


TAKEN = {"n1": 42, "n2": 44}


@pytest.mark.parametrize(
    ("write", "snapshots", "copies", "thins"),
    [
        pytest.param(asked(1, 39), {}, [False, True, True], False, id="before it, in every snapshot"),
        pytest.param(asked(1, 39), TAKEN, [False, True, True], False, id="before it, whenever they began"),
        pytest.param(asked(1, 40), {}, [False] * 3, True, id="as it began, and when they did is not known"),
        pytest.param(asked(1, 41), TAKEN, [False, True, True], False, id="before both"),
        pytest.param(asked(1, 42), TAKEN, [False, False, True], True, id="as the first began"),
        pytest.param(asked(1, 44), TAKEN, [False] * 3, True, id="as the second began"),
        pytest.param(asked(1, 39, "info"), TAKEN, [False] * 3, True, id="of unknown outcome"),
        pytest.param(asked(1, 39, "fail"), TAKEN, [False] * 3, True, id="refused"),
    ],
)
def test_a_snapshot_holds_what_was_acknowledged_by_more_nodes_than_may_have_missed_it(
    write: PairedOperation, snapshots: dict[str, int], copies: list[bool], *, thins: bool
) -> None:
    found = reload(snapshots=snapshots)
    assert [found.holds(write, number) for number in (0, 1, 2)] == copies
    assert found.thins(write) is thins


@pytest.mark.parametrize(
    ("removal", "may"),
    [
        (asked(1, 39), False),
        (asked(1, 40), True),
        (asked(1, 39, "info"), True),
        (asked(1, None, "info"), True),
        (asked(60, 70), True),
        (asked(61, 70), False),
        (asked(61, None, "info"), False),
    ],
)
def test_a_reload_may_undo_what_was_removed_before_its_end_and_not_before_its_begin(
    removal: PairedOperation, *, may: bool
) -> None:
    assert reload().may_undo(removal) is may


@pytest.mark.parametrize(
    ("removal", "snapshots", "back"),
    [
        (asked(50, 51), {}, True),
        (asked(41, 51), {}, True),
        (asked(40, 51), {}, False),
        (asked(50, 59), TAKEN, True),
        (asked(50, 60), TAKEN, False),
        (asked(45, 51), TAKEN, True),
        (asked(44, 51), TAKEN, False),
        (asked(43, 51), TAKEN, False),
        (asked(50, 51, "info"), TAKEN, False),
    ],
)
def test_a_reload_puts_back_what_was_removed_between_its_last_snapshot_and_its_end(
    removal: PairedOperation, snapshots: dict[str, int], *, back: bool
) -> None:
    write = asked(1, 39)
    assert reload(snapshots=snapshots).puts_back(write, removal, 1) is back
    assert not reload(snapshots=snapshots, acknowledged=False).puts_back(write, removal, 1)
    assert not reload(snapshots=snapshots).puts_back(asked(1, 39, "info"), removal, 1)
