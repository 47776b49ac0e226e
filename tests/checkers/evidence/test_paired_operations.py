"""Paired operations: what an answer proves, and how an operation is told."""

from __future__ import annotations

from typing import Any

import pytest
from histories import judged

from schemaquake.checkers.evidence.operations import PairedOperation, operations, select_functions

HISTORY = judged(
    (
        "@1 p0 n1 invoke drop-table k.t",
        "@2 p1 n2 invoke create-table k.t a:int*",
        "@3 p0 n1 ok",
        "@4 p1 n2 info Timeout: no",
        "@5 p2 n1 invoke drop-type k.u",
    )
).history


def operation(kind: Any = "ok", **changes: Any) -> PairedOperation:
    """An operation from 3 to 5 ns."""
    known: dict[str, Any] = {"index": 7, "process": 2, "f": "drop-table", "node": "n1", "key": "k.t", "invoked": 3}
    known |= {"completed": 5, "argument": {"keyspace": "k", "name": "t"}, "value": None, "error": None}
    return PairedOperation(type=kind, **{**known, **changes})


def test_operations_are_pairs_in_order_of_their_begins() -> None:
    found = operations(HISTORY)
    assert [(one.index, one.f, one.type, one.node, one.error) for one in found] == [
        (0, "drop-table", "ok", "n1", None),
        (1, "create-table", "info", "n2", "Timeout: no"),
        (4, "drop-type", "info", "n1", None),
    ]
    assert [(one.invoked, one.completed) for one in found] == [
        (1_000_000, 3_000_000),
        (2_000_000, 4_000_000),
        (5_000_000, None),
    ]
    assert [one.argument for one in found][::2] == [{"keyspace": "k", "name": "t"}, {"keyspace": "k", "name": "u"}]
    assert [one.value for one in found] == [{"keyspace": "k", "name": "t"}, None, None]


def test_events_are_chosen_by_what_they_do() -> None:
    assert select_functions(HISTORY, {"drop-table", "drop-type"})["index"].to_pylist() == [0, 2, 4]
    assert not len(select_functions(HISTORY, ["insert"]))


@pytest.mark.parametrize(
    ("kind", "value", "possible", "acknowledged"),
    [
        ("ok", None, True, True),
        ("ok", {"applied": True}, True, True),
        ("ok", {"applied": None}, True, True),
        ("ok", {"applied": 0}, True, True),
        ("ok", {}, True, True),
        ("ok", [False], True, True),
        ("ok", {"applied": False}, True, False),
        ("info", None, True, False),
        ("fail", None, False, False),
    ],
)
def test_an_answer_proves_a_change_unless_it_was_a_no_op(
    kind: str, value: Any, *, possible: bool, acknowledged: bool
) -> None:
    found = operation(kind, value=value)
    assert (found.possible, found.acknowledged) == (possible, acknowledged)


@pytest.mark.parametrize(
    ("kind", "completed", "before"),
    [
        ("ok", 5, [False, False, True]),
        ("fail", 5, [False, False, True]),
        ("info", 5, [False] * 3),
        ("info", None, [False] * 3),
    ],
)
def test_an_operation_was_over_after_its_answer_if_that_is_final(
    kind: str, completed: int | None, before: list[bool]
) -> None:
    found = operation(kind, completed=completed)
    assert [found.ended_before(time) for time in (4, 5, 6)] == before
    assert [found.entirely_before(operation(invoked=time)) for time in (4, 5, 6)] == before


def test_an_operation_is_told_with_its_statement_or_else_its_key() -> None:
    assert operation(completed=1_234_567_890).text() == "op 7: p2 n1 DROP TABLE k.t -> ok at 1.235 s"
    assert operation("info", completed=None, node=None, error="Timeout").text() == (
        "op 7: p2 - DROP TABLE k.t -> info (Timeout)"
    )
    assert operation("info", completed=None, f="read", argument=None).text() == "op 7: p2 n1 read k.t -> info"
    assert operation("info", completed=None, argument={}, key=None).text() == "op 7: p2 n1 drop-table -> info"
    assert operation(completed=0).text("put 1", outcome="ok, 1") == "op 7: p2 n1 put 1 -> ok, 1 at 0.000 s"
